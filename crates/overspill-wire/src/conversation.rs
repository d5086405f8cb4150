//! A request that was read: its bytes, and where everything in it is.

use bytes::Bytes;
use overspill::history::{History, SettledPlan};

use crate::Format;
use crate::error::{ApplyError, WireError};
use crate::json::Tape;
use crate::skeleton::Skeleton;
use crate::splice::splice;

/// A provider's request, or a list of messages, with the history in it.
#[derive(Debug, Clone)]
pub struct Conversation {
    format: Format,
    text: String,
    skeleton: Skeleton,
}

impl Conversation {
    /// Reads a request. The bytes are kept as they are.
    ///
    /// # Errors
    ///
    /// [`WireError::NotUtf8`] and [`WireError::NotJson`] for bytes that are not JSON,
    /// [`WireError::Shape`] with the JSON path where the format has something else.
    pub fn parse(format: Format, bytes: Bytes) -> Result<Self, WireError> {
        let text = String::from_utf8(Vec::from(bytes))
            .map_err(|error| WireError::NotUtf8 { at: error.utf8_error().valid_up_to() })?;
        Self::read(format, text)
    }

    fn read(format: Format, text: String) -> Result<Self, WireError> {
        let skeleton = format.read(Tape::read(&text)?.root())?;
        Ok(Self { format, text, skeleton })
    }

    /// The format it was read as.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The neutral view; it borrows from the bytes.
    pub fn history(&self) -> History<'_> {
        self.skeleton.history(&self.text)
    }

    /// The conversation with a plan's changes in it.
    ///
    /// A message that no change touches keeps its bytes. In formats where the user and the model
    /// take turns strictly, messages of the user that become neighbours are written as one, and
    /// each part of them keeps its bytes.
    ///
    /// # Errors
    ///
    /// [`ApplyError::Refused`] when the plan names a message that is not here, or would leave an
    /// invalid history.
    pub fn apply(&self, plan: &SettledPlan) -> Result<Self, ApplyError> {
        self.history().check_settled(plan)?;
        let text = splice(self.format, &self.text, &self.skeleton, plan.changes());
        Ok(Self::read(self.format, text)?)
    }

    /// The bytes: as they were read, but for what was applied.
    pub fn to_bytes(&self) -> Bytes {
        Bytes::copy_from_slice(self.text.as_bytes())
    }

    /// The bytes, without a copy.
    pub fn as_bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// The bytes, as the conversation's last use.
    pub fn into_bytes(self) -> Bytes {
        self.text.into()
    }
}
