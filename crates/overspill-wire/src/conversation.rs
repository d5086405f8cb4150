//! A request that was read: its bytes, and where everything in it is.

use std::sync::Arc;

use bytes::Bytes;
use overspill::history::{History, Refusal, SettledPlan};

use crate::Format;
use crate::error::WireError;
use crate::json::Tape;
use crate::skeleton::{Skeleton, Words};
use crate::splice::splice;

/// A provider's request, or a list of messages, with the history in it.
#[derive(Debug, Clone)]
pub struct Conversation {
    format: Format,
    text: Text,
    skeleton: Skeleton,
}

/// The request's bytes, which are checked once to be UTF-8.
#[derive(Debug, Clone)]
struct Text(Arc<String>);

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl Conversation {
    /// Reads a request. The bytes are kept as they are; they are copied only where someone else
    /// holds them too.
    ///
    /// # Errors
    ///
    /// [`WireError::NotUtf8`] and [`WireError::NotJson`] for bytes that are not JSON,
    /// [`WireError::Shape`] with the JSON path where the format has something else.
    pub fn parse(format: Format, bytes: Bytes) -> Result<Self, WireError> {
        let text = String::from_utf8(bytes.into())
            .map_err(|error| WireError::NotUtf8 { at: error.utf8_error().valid_up_to() })?;
        let skeleton = format.read(Tape::read(&text)?.root())?;
        Ok(Self { format, text: Text(Arc::new(text)), skeleton })
    }

    /// The format it was read as.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The neutral view; it borrows from the bytes.
    pub fn history(&self) -> History<'_> {
        self.skeleton.history(&self.text.0, Words::Decoded)
    }

    /// The request with a plan's changes in it.
    ///
    /// A message that no change touches keeps its bytes. In formats where the user and the model
    /// take turns strictly, messages of the user that become neighbours are written as one, and
    /// each part of them keeps its bytes.
    ///
    /// # Errors
    ///
    /// The [`Refusal`] when the plan names a message that is not here, or would leave an invalid
    /// history.
    pub fn apply(&self, plan: &SettledPlan) -> Result<Bytes, Refusal> {
        let text = &self.text.0;
        self.skeleton.history(text, Words::LeftOut).check_settled(plan)?;
        if plan.is_empty() {
            return Ok(self.to_bytes());
        }
        Ok(splice(self.format, text, &self.skeleton, plan.changes()).into())
    }

    /// The bytes as they were read. They are not copied.
    pub fn to_bytes(&self) -> Bytes {
        Bytes::from_owner(self.text.clone())
    }
}
