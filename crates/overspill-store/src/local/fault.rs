//! What an I/O error means to the caller of a store.

use std::io::{self, ErrorKind};

use overspill::store::StoreError;

/// Sorts an error met when the store was to do `doing`. What it says names no path: it may end
/// up in what a model sees, which must be the same on every machine.
pub(super) fn sort(doing: &str, error: impl Into<io::Error>) -> StoreError {
    let error = error.into();
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::Full(error),
        ErrorKind::PermissionDenied => refused(
            format!("no permission to {doing}"),
            "make the store's folder and all in it readable and writable for this user",
            Some(error),
        ),
        ErrorKind::ReadOnlyFilesystem => refused(
            format!("cannot {doing} on a read-only file system"),
            "choose a store's folder on one that can be written",
            Some(error),
        ),
        _ => StoreError::Unavailable { doing: doing.to_owned(), source: Box::new(error) },
    }
}

/// A refusal: what was refused, and how to mend it.
pub(super) fn refused(
    what: impl std::fmt::Display,
    hint: &str,
    source: Option<io::Error>,
) -> StoreError {
    StoreError::Refused { what: format!("{what}; hint: {hint}"), source }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn errors_are_cut_by_what_the_caller_will_do() {
        for errno in [Errno::NOSPC, Errno::DQUOT] {
            assert!(matches!(sort("write a blob", errno), StoreError::Full(_)), "{errno}");
        }
        for errno in [Errno::ACCESS, Errno::PERM, Errno::ROFS] {
            let StoreError::Refused { what, source } = sort("write a blob", errno) else {
                panic!("{errno}")
            };
            assert!(what.contains("write a blob") && what.contains("hint: "), "{what}");
            assert_eq!(source.and_then(|e| e.raw_os_error()), Some(errno.raw_os_error()));
        }
        for errno in [Errno::IO, Errno::MFILE, Errno::STALE, Errno::NODEV] {
            let error = sort("write a blob", errno);
            assert!(matches!(error, StoreError::Unavailable { .. }), "{errno}");
            assert_eq!(error.to_string(), "the store cannot write a blob");
        }
    }
}
