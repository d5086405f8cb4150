//! Why a command failed, what to do about it, and the exit status that says so to scripts.

use std::fmt::{self, Display};
use std::io;

use overspill::StoreError;
use rustix::io::Errno;

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

    /// Says that a command was not started, where that was for want of what the system gives.
    pub(crate) fn before_start(self) -> Self {
        let io_errors = self.error.chain().filter_map(|cause| cause.downcast_ref());
        match io_errors.filter_map(shortage).next() {
            Some(hint) => self.context("the command was not started").hint(hint),
            None => self,
        }
    }

    /// Whether it is only that nobody reads the output any more.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        self.error.downcast_ref::<io::Error>().is_some_and(is_closed_pipe)
    }
}

/// What to do where the system has no more of something to give.
pub(crate) fn shortage(error: &io::Error) -> Option<&'static str> {
    match Errno::from_io_error(error)? {
        Errno::MFILE | Errno::NFILE => Some("end what holds files open, or raise `ulimit -n`"),
        Errno::AGAIN => Some("end other processes, or raise `ulimit -u`"),
        Errno::NOMEM => Some("end what takes much memory, or raise `ulimit -v`"),
        _ => None,
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

/// The error and its causes, then each hint on a line of its own.
impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&explain(self.error.as_ref()))?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

/// An error and its causes on one line, then each hint on a line of its own.
///
/// A store says its hint on the same line, since what it says may have to fit on one; a message
/// may repeat its cause.
pub(crate) fn explain(error: &(dyn std::error::Error + 'static)) -> String {
    let (mut text, mut hints) = (String::new(), String::new());
    for cause in std::iter::successors(Some(error), |error| error.source()) {
        let message = cause.to_string();
        let mut parts = message.split("; hint: ");
        let what = parts.next().unwrap_or_default();
        let is_new = !text.ends_with(what);
        if is_new && !text.is_empty() {
            text.push_str(": ");
        }
        if is_new {
            text.push_str(what);
            parts.for_each(|hint| hints.push_str(&format!("\nhint: {hint}")));
        }
        if let Some(StoreError::Conflict { name }) = cause.downcast_ref() {
            hints.push_str(&format!(
                "\nhint: `overspill verify {name}` looks at it; once the damaged file {name} is \
                 removed from the store's folder, this output can be stored again"
            ));
        }
    }
    text + &hints
}

#[cfg(test)]
mod tests {
    use overspill::Warning;

    use super::*;

    #[test]
    fn causes_stand_before_hints_and_nothing_stands_twice() {
        let what = "no permission; hint: chmod it".to_owned();
        let source = Some(io::Error::from_raw_os_error(13));
        let source = StoreError::Refused { what, source };
        let warning = Warning::NotStored { action: "spill", tool: "seq".into(), source };
        assert_eq!(
            explain(&warning),
            "spill could not store the output of seq: the store refuses: no permission: \
             Permission denied (os error 13)\nhint: chmod it"
        );
    }
}
