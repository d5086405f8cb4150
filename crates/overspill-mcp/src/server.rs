//! A server behind the proxy, and how it is reached.

use std::fmt;
use std::path::PathBuf;

/// A server behind the proxy.
#[derive(Debug, Clone)]
pub struct Server {
    /// What its tools' names are prefixed with where there are several servers.
    pub name: String,
    /// How it is reached.
    pub transport: Transport,
}

/// How a server is reached.
#[derive(Debug, Clone)]
pub enum Transport {
    /// A program that is started for each session, spoken to through its standard input and output.
    Command {
        /// The program.
        command: PathBuf,
        /// Its arguments.
        args: Vec<std::ffi::OsString>,
        /// What is added to its environment.
        env: Vec<(String, String)>,
        /// The folder it is started in; that of the proxy where it is `None`.
        cwd: Option<PathBuf>,
    },
    /// A server over streamable HTTP.
    Http {
        /// Its address.
        url: String,
        /// The bearer token it is sent.
        token: Option<Secret>,
        /// Other headers it is sent.
        headers: Vec<(String, Secret)>,
    },
}

impl Transport {
    /// A program with arguments.
    pub fn command(
        command: impl Into<PathBuf>,
        args: impl IntoIterator<Item = impl Into<std::ffi::OsString>>,
    ) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self::Command { command: command.into(), args, env: Vec::new(), cwd: None }
    }

    /// An address.
    pub fn http(url: impl Into<String>) -> Self {
        Self::Http { url: url.into(), token: None, headers: Vec::new() }
    }
}

/// A text that is not shown when it is printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether `text` is the secret, in a time that does not tell how much of it is right.
    pub(crate) fn is(&self, text: &str) -> bool {
        blake3::hash(self.0.as_bytes()) == blake3::hash(text.as_bytes())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
