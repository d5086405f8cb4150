//! What a file that was found in a project does not decide: whoever wrote to the checkout may have
//! written it.

use std::path::PathBuf;

use overspill::config::McpConfig;

use super::{Origin, Settings, read_file, user_file};
use crate::failure::Failure;

/// The files that may name the proxy's servers.
#[derive(Debug)]
pub(crate) struct ServerFiles {
    /// The one that counts, where it is there.
    pub(crate) counts: Option<PathBuf>,
    /// Where the user's own would be.
    pub(crate) users: Option<PathBuf>,
    /// The project's, which was found and does not count.
    pub(crate) projects: Option<PathBuf>,
    /// What the project's says to no effect.
    pub(crate) unheeded: Unheeded,
}

/// What a project's file says to the proxy, and what does not count there.
#[derive(Debug, Default)]
pub(crate) struct Unheeded {
    pub(crate) servers: bool,
    others: Vec<&'static str>,
}

impl Unheeded {
    fn of(mcp: &McpConfig) -> Self {
        let default = McpConfig::default();
        let others = [
            ("handle_arguments", mcp.handle_argument_tools.is_empty()),
            ("bare_handles", !mcp.bare_handles),
            ("max_argument", mcp.max_argument == default.max_argument),
            ("[mcp.listen]", mcp.listen == default.listen),
        ];
        let others = others.into_iter().filter(|(_, is_default)| !is_default);
        Self { servers: !mcp.servers.is_empty(), others: others.map(|it| it.0).collect() }
    }

    /// Its keys, and the servers where somebody would look for them there.
    pub(crate) fn keys(&self, with_servers: bool) -> Option<String> {
        let servers = (with_servers && self.servers).then_some("[mcp.servers]");
        let keys: Vec<_> = self.others.iter().copied().chain(servers).collect();
        (!keys.is_empty()).then(|| keys.join(", "))
    }
}

impl Settings {
    /// Whether the file was found in a project, and nobody named it.
    pub(crate) fn is_of_project(&self) -> bool {
        let found = self.file.as_ref().map(|file| file.origin);
        matches!(found, Some(Origin::CurrentFolder | Origin::FolderAbove))
    }

    /// What the file says to the proxy though it may not.
    pub(crate) fn unheeded(&self) -> Unheeded {
        match self.is_of_project() {
            true => Unheeded::of(&self.config.mcp),
            false => Unheeded::default(),
        }
    }

    /// Where a project's file is the one in effect, takes from the user's own what such a file may
    /// not say to the proxy: which servers there are, which tools are given what is stored, and who
    /// may connect. What results look like is left to the project.
    pub(crate) fn take_users_servers(&mut self) -> Result<ServerFiles, Failure> {
        let users = user_file();
        // It may be looked for by somebody who knows no current folder.
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let file = self.file.as_ref().map(|file| absolute(&file.path));
        let unheeded = self.unheeded();
        if !self.is_of_project() {
            return Ok(ServerFiles { counts: file, users, projects: None, unheeded });
        }
        let found = users.clone().filter(|path| path.exists());
        let own = match &found {
            Some(path) => read_file(path.clone(), Origin::UserFolder)?.0.mcp,
            None => McpConfig::default(),
        };
        let McpConfig { max_error, resources, .. } = self.config.mcp;
        self.config.mcp = McpConfig { max_error, resources, ..own };
        Ok(ServerFiles { counts: found, users, projects: file, unheeded })
    }
}
