//! Why a command failed, what to do about it, and the exit status that says so to scripts.

use std::fmt::{self, Display};
use std::io;

/// The exit status when something is not found, does not match, is damaged, or failed.
pub(crate) const NOT_DONE: u8 = 1;

/// The exit status when the command line or the configuration is wrong.
pub(crate) const USAGE: u8 = 2;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit status.
    pub(crate) status: u8,
    error: anyhow::Error,
    hint: Option<String>,
}

impl Failure {
    /// Something is not found, is damaged or went wrong.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { status: NOT_DONE, error: anyhow::Error::msg(what.into()), hint: None }
    }

    /// The command line or the configuration is wrong.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(what).with_status(USAGE)
    }

    /// Says what the person can do.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says what was being done.
    #[must_use]
    pub(crate) fn context(mut self, what: impl Into<String>) -> Self {
        self.error = self.error.context(what.into());
        self
    }

    /// Ends with another status.
    #[must_use]
    pub(crate) fn with_status(mut self, status: u8) -> Self {
        self.status = status;
        self
    }

    /// Whether it is only that nobody reads the output any more.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        self.error.downcast_ref::<io::Error>().is_some_and(is_closed_pipe)
    }
}

/// Whether writing failed because nobody reads any more.
pub(crate) fn is_closed_pipe(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { status: NOT_DONE, error: error.into(), hint: None }
    }
}

/// The error and its causes on one line, then each hint on a line of its own.
impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", hints_apart(&format!("{:#}", self.error)))?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

/// A store says its hint on the same line, since what it says may have to fit on one.
pub(crate) fn hints_apart(message: &str) -> String {
    message.replace("; hint: ", "\nhint: ")
}
