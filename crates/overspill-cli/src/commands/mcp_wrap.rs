//! `overspill mcp wrap` and `unwrap`: change a client's configuration in its place.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Uid};
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::cli;
use crate::failure::{Failure, USAGE};
use crate::output::Out;
use crate::wrap::{self, Change, Changed, Client, Left, Proxy, Syntax};

/// What the copy's name has behind the file's.
const COPY: &str = ".before-overspill";

/// As `--json` writes it.
#[derive(Debug, Serialize)]
struct Report<'a> {
    file: String,
    /// The copy, where there is one afterwards.
    copy: Option<String>,
    /// Copies that were put aside since they differ from a later one.
    older_copies: Vec<String>,
    dry_run: bool,
    changed: bool,
    servers: Vec<Row<'a>>,
}

#[derive(Debug, Serialize)]
struct Row<'a> {
    name: &'a str,
    before: &'a str,
    after: Option<&'a str>,
    left: Option<String>,
    notes: &'a [String],
}

impl<'a> Row<'a> {
    fn of(change: &'a Change) -> Self {
        let Change { name, before, after, notes } = change;
        let left = after.as_ref().err().map(Left::to_string);
        Self { name, before, after: after.as_deref().ok(), left, notes }
    }
}

pub(crate) fn wrap(common: &cli::Common, args: &cli::McpWrap) -> Result<u8, Failure> {
    let config = ClientConfig::read(&args.file)?;
    let names = wrap::names(config.syntax, &config.text).map_err(|error| config.wrong(&error))?;
    if names.is_empty() {
        return Err(Failure::new(format!("{} has no MCP servers", config.named())).hint(
            "they are looked for under mcpServers, servers, mcp.servers, context_servers, \
                   and mcp_servers in TOML",
        ));
    }
    let (only, except) = (listed(&args.only, &names), listed(&args.except, &names));
    if let Some(unknown) = only.iter().chain(&except).find(|it| !is_in(&names, it)) {
        return Err(Failure::usage(format!("{} has no server {unknown:?}", config.named()))
            .hint(format!("it has {}", names.join(", "))));
    }
    let proxy = Proxy { program: program(args)?, options: options(common)? };
    let wanted =
        |name: &str| !except.contains(&name) && (args.only.is_empty() || only.contains(&name));
    let changed = wrap::wrap(config.syntax, &config.text, &proxy, wanted, is_program)
        .map_err(|error| config.wrong(&error))?;

    let mut copy = config.copy.is_some();
    if changed.is_any() && !args.dry_run {
        config.keep_copy(&[proxy.program])?;
        config.write(&config.path, &changed.text)?;
        copy = true;
    }
    config.report(common, &changed, args.dry_run, copy)
}

pub(crate) fn unwrap(common: &cli::Common, args: &cli::McpUnwrap) -> Result<u8, Failure> {
    let config = ClientConfig::read(&args.file)?;
    let copy = config.copy.as_deref();
    let programs = own_programs();
    let changed = wrap::unwrap(config.syntax, config.client, &config.text, copy, &programs)
        .map_err(|error| config.wrong(&error))?;
    let is_as_before = copy == Some(changed.text.as_str());
    if copy.is_some() && !changed.is_any() && !is_as_before {
        let (file, copy) = (config.named(), config.copy_path().display().to_string());
        return Err(Failure::new(format!(
            "{file} has no server that goes through the proxy by `overspill mcp wrap`, and it is \
             not as its copy is: it was changed since, and stays as it is"
        ))
        .hint(format!("the copy is kept; to have it back: mv {copy:?} {file:?}")));
    }
    if !args.dry_run {
        if changed.is_any() {
            config.write(&config.path, &changed.text)?;
        }
        if is_as_before {
            let path = config.copy_path();
            fs::remove_file(&path).map_err(|error| failed("remove", &path, error))?;
        }
    }
    let kept = config.copy.is_some() && (args.dry_run || !is_as_before);
    config.report(common, &changed, args.dry_run, kept)
}

/// A client's configuration where it really is, and the copy of it as it was before it was wrapped.
struct ClientConfig {
    path: PathBuf,
    metadata: Metadata,
    syntax: Syntax,
    client: Client,
    text: String,
    copy: Option<String>,
}

impl ClientConfig {
    fn read(file: &Path) -> Result<Self, Failure> {
        // A link stays; what it leads to is changed.
        let path = fs::canonicalize(file).map_err(|error| {
            let is_missing = error.kind() == io::ErrorKind::NotFound;
            let failure = failed("read", file, error);
            match is_missing {
                true => failure.hint(
                    "name the client's configuration, such as .mcp.json, .cursor/mcp.json or \
                     ~/.codex/config.toml",
                ),
                false => failure,
            }
        })?;
        if path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
            return Err(Failure::usage(format!(
                "{} is YAML; only JSON and TOML are read",
                path.display()
            ))
            .hint("put `overspill mcp --` before each server's command by hand"));
        }
        let metadata = fs::metadata(&path).map_err(|error| failed("read", &path, error))?;
        let text = fs::read_to_string(&path).map_err(|error| failed("read", &path, error))?;
        let syntax = Syntax::of(&path);
        // A link has the name by which the client knows the file.
        let named = std::path::absolute(file).map_err(|error| failed("find", file, error))?;
        let client = match Client::of(&named) {
            Client::Unknown => Client::of(&path),
            known => known,
        };
        let mut config = Self { path, metadata, syntax, client, text, copy: None };
        let copy = config.copy_path();
        config.copy = match fs::read_to_string(&copy) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed("read", &copy, error)),
        };
        Ok(config)
    }

    fn copy_path(&self) -> PathBuf {
        let mut path = OsString::from(&self.path);
        path.push(COPY);
        path.into()
    }

    /// The copies that were put aside, by their numbers.
    fn older_copies(&self) -> Vec<PathBuf> {
        let copy = self.copy_path();
        let Some(prefix) = copy.file_name().and_then(OsStr::to_str).map(|name| format!("{name}."))
        else {
            return Vec::new();
        };
        let folder = copy.parent().unwrap_or(Path::new(".")).read_dir();
        let number = |path: PathBuf| {
            let number = path.file_name()?.to_str()?.strip_prefix(&prefix)?.parse::<u32>().ok()?;
            Some((number, path))
        };
        let paths = folder.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        let mut copies: Vec<_> = paths.filter_map(number).collect();
        copies.sort_unstable();
        copies.into_iter().map(|(_, path)| path).collect()
    }

    /// Keeps the configuration as it is without the proxy. A copy there is already is replaced only by
    /// one that has all its servers as they are there; else it is kept, too, under a name of its own.
    fn keep_copy(&self, programs: &[String]) -> Result<(), Failure> {
        let path = self.copy_path();
        let Some(copy) = &self.copy else { return self.write(&path, &self.text) };
        let before = wrap::unwrap(self.syntax, self.client, &self.text, Some(copy), programs)
            .map_err(|error| self.wrong(&error))?
            .text;
        if before == *copy {
            return Ok(());
        }
        if !wrap::has_all_of(self.syntax, &before, copy) {
            let numbered = |n: u32| PathBuf::from(format!("{}.{n}", path.display()));
            let mut names = (1..).map(numbered);
            let put_aside = names.find_map(|name| match fs::hard_link(&path, &name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
                linked => Some(linked.map_err(|error| failed("write", &name, error))),
            });
            put_aside.transpose()?;
        }
        self.write(&path, &before)
    }

    fn named(&self) -> String {
        self.path.display().to_string()
    }

    fn wrong(&self, what: &str) -> Failure {
        Failure::new(format!("{} cannot be read: {what}", self.named()))
            .with_status(USAGE)
            .hint("correct it; nothing was changed")
    }

    /// Writes the whole of a file or nothing, with the owner and the permissions of the configuration.
    fn write(&self, path: &Path, text: &str) -> Result<(), Failure> {
        let now = fs::read(&self.path).map_err(|error| failed("read", &self.path, error))?;
        if now != self.text.as_bytes() {
            return Err(Failure::new(format!("{} was changed meanwhile", self.named()))
                .hint("end the client that writes it, and try again"));
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        let write = || {
            let mut file = NamedTempFile::new_in(folder)?;
            file.write_all(text.as_bytes())?;
            let (uid, gid) = (self.metadata.uid(), self.metadata.gid());
            let own = file.as_file().metadata()?;
            if (own.uid(), own.gid()) != (uid, gid) {
                let owner = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
                rustix::fs::fchown(file.as_file(), owner.0, owner.1)?;
            }
            file.as_file().set_permissions(self.metadata.permissions())?;
            file.as_file().sync_all()?;
            file.persist(path)?;
            io::Result::Ok(())
        };
        write().map_err(|error| failed("write", path, error))
    }

    fn report(
        &self,
        common: &cli::Common,
        changed: &Changed,
        dry_run: bool,
        copy: bool,
    ) -> Result<u8, Failure> {
        let copy = copy.then(|| self.copy_path().display().to_string());
        let older_copies: Vec<_> =
            self.older_copies().iter().map(|it| it.display().to_string()).collect();
        let mut out = Out::new();
        if common.json {
            out.json(&Report {
                file: self.named(),
                copy,
                older_copies,
                dry_run,
                changed: changed.is_any(),
                servers: changed.servers.iter().map(Row::of).collect(),
            })?;
        } else {
            let mut text = self.text_of(changed, dry_run);
            if let Some(copy) = copy {
                text.push_str(&format!("as it was before, it is kept in {copy}\n"));
            }
            for copy in older_copies {
                text.push_str(&format!(
                    "an older copy, which differs, is kept in {copy}; if you need nothing of it, remove it: \
                     it holds the secrets that the file held\n"
                ));
            }
            out.text(&text)?;
        }
        Ok(out.flush().map(|()| 0)?)
    }

    fn text_of(&self, changed: &Changed, dry_run: bool) -> String {
        let mut text = String::new();
        for Change { name, before, after, notes } in &changed.servers {
            text.push_str(&match after {
                Ok(after) => format!("{name}\n- {before}\n+ {after}\n"),
                Err(left) => format!("{name}\n  left: {left}\n"),
            });
            notes.iter().for_each(|note| text.push_str(&format!("  note: {note}\n")));
        }
        if !text.is_empty() {
            text.push('\n');
        }
        let file = self.named();
        text.push_str(&match (changed.is_any(), dry_run) {
            (true, true) => format!("{file} would be changed\n"),
            (true, false) => format!("{file} is changed; restart the client that reads it\n"),
            (false, _) if changed.servers.is_empty() => {
                format!("{file} stays as it is: nothing in it goes through the proxy\n")
            }
            (false, _) => format!("{file} stays as it is\n"),
        });
        text
    }
}

/// The servers that were named, each by itself or with commas between them; a server's own name may
/// have one, too.
fn listed<'a>(said: &'a [String], names: &[String]) -> Vec<&'a str> {
    let of_one = |said: &'a String| -> Vec<&'a str> {
        match is_in(names, said) {
            true => vec![said],
            false => said.split(',').map(str::trim).filter(|name| !name.is_empty()).collect(),
        }
    };
    said.iter().flat_map(of_one).collect()
}

fn is_in(names: &[String], name: &str) -> bool {
    names.iter().any(|it| it == name)
}

/// By what the client is to call overspill.
fn program(args: &cli::McpWrap) -> Result<String, Failure> {
    if let Some(program) = &args.program {
        return Ok(program.clone());
    }
    as_text(called()?)
}

/// Whether a program has that name, which may be a path.
fn is_program(name: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    match name.contains('/') {
        true => Path::new(name).exists(),
        false => std::env::split_paths(&folders).any(|folder| folder.join(name).exists()),
    }
}

/// The path by which this program was called or found, its links unresolved: what a package manager
/// links to has a version in its path, and is gone after an upgrade.
fn called() -> Result<PathBuf, Failure> {
    let real = std::env::current_exe()
        .map_err(|error| Failure::from(error).context("cannot find out where overspill is"))?;
    let name = PathBuf::from(std::env::args_os().next().unwrap_or_default());
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let candidates: Vec<_> = match name.components().count() {
        1 if !name.has_root() => {
            std::env::split_paths(&folders).map(|folder| folder.join(&name)).collect()
        }
        _ => vec![name],
    };
    let is_this = |path: &PathBuf| {
        fs::canonicalize(path).is_ok_and(|path| fs::canonicalize(&real).is_ok_and(|it| it == path))
    };
    let found = candidates.into_iter().filter_map(|path| std::path::absolute(path).ok());
    Ok(found.into_iter().find(is_this).unwrap_or(real))
}

/// The paths of this program, as it was called and as it is.
fn own_programs() -> Vec<String> {
    let paths = [called().ok(), std::env::current_exe().ok()];
    paths.into_iter().flatten().filter_map(|path| as_text(path).ok()).collect()
}

/// What was said to this command is meant for the servers.
fn options(common: &cli::Common) -> Result<Vec<String>, Failure> {
    let mut options = Vec::new();
    for (flag, path) in [("--config", &common.config), ("--store", &common.store)] {
        if let Some(path) = path {
            // The client starts its servers wherever it likes.
            let path = std::path::absolute(path).map_err(|error| failed("find", path, error))?;
            options.extend([flag.to_owned(), as_text(path)?]);
        }
    }
    Ok(options)
}

fn as_text(path: PathBuf) -> Result<String, Failure> {
    path.into_os_string().into_string().map_err(|path| {
        Failure::usage(format!("{} is not UTF-8", path.display()))
            .hint("name another path: configurations hold text only")
    })
}

fn failed(doing: &str, path: &Path, error: io::Error) -> Failure {
    Failure::from(error).context(format!("cannot {doing} {}", path.display()))
}
