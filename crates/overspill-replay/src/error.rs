//! Why a recording cannot be read, and what to do about it.

use std::io;
use std::path::PathBuf;

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file or folder cannot be opened or read.
    #[error("cannot read {}\nhint: check that it exists and that you may read it", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A document is not valid JSON. In files with one record a line, such lines are counted and
    /// passed over instead.
    #[error(
        "{}:{line}: not valid JSON\nhint: the recording may be cut off or edited; export it again",
        path.display()
    )]
    Json {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong there.
        source: serde_json::Error,
    },
    /// A document is not valid YAML.
    #[error(
        "{}:{line}: not valid YAML: {reason}\nhint: the cassette may be cut off or edited; record it again",
        path.display()
    )]
    Yaml {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// The file holds no recording of a format that is known here.
    #[error(
        "{}: not a recorded session of a known format\nhint: pass a session file of one of {}; logs of Inspect must be in its JSON form",
        path.display(),
        crate::format::Format::names()
    )]
    Unrecognized {
        /// The file.
        path: PathBuf,
    },
}
