//! Takes terminal control sequences out of text.

use std::borrow::Cow;

/// Strips control sequences from text that arrives in pieces.
#[derive(Debug, Clone, Default)]
pub struct Stripper {}

impl Stripper {
    /// The piece without its control sequences; a sequence that is cut off goes on in the next.
    pub fn strip<'a>(&mut self, piece: &'a [u8]) -> Cow<'a, [u8]> {
        Cow::Borrowed(piece)
    }
}

/// The text without its control sequences.
pub fn strip(text: &[u8]) -> Cow<'_, [u8]> {
    Stripper::default().strip(text)
}
