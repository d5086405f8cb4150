//! Why bytes cannot be read as a conversation.

use thiserror::Error;

use crate::Format;
use crate::json::{Malformed, Value};

/// Why bytes are not a conversation of a format.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes are not UTF-8.
    #[error("the bytes are not UTF-8 from byte {at} on")]
    NotUtf8 {
        /// The first byte that is wrong.
        at: usize,
    },
    /// The text is not JSON.
    #[error("the text is not JSON: {what} (byte {at})")]
    NotJson {
        /// The byte at which it stops being JSON.
        at: usize,
        /// What is wrong there.
        what: &'static str,
    },
    /// The JSON is not what the format has in that place.
    #[error("{path}: expected {expected} in {format}")]
    Shape {
        /// The way to the value, such as `$.messages[3].content`.
        path: String,
        /// What the format has there.
        expected: String,
        /// The format it was read as.
        format: Format,
    },
}

impl WireError {
    pub(crate) fn shape(at: Value<'_>, expected: impl Into<String>, format: Format) -> Self {
        Self::Shape { path: at.path(), expected: expected.into(), format }
    }
}

impl From<Malformed> for WireError {
    fn from(Malformed { at, what }: Malformed) -> Self {
        Self::NotJson { at, what }
    }
}
