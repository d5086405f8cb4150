//! A request that was read: its bytes, and where everything in it is.

use bytes::Bytes;
use overspill::history::{History, SettledPlan};

use crate::Format;
use crate::error::{ApplyError, WireError};
use crate::json::Tape;
use crate::skeleton::{Skeleton, Words};
use crate::splice::splice;

/// A provider's request, or a list of messages, with the history in it.
#[derive(Debug, Clone)]
pub struct Conversation {
    format: Format,
    /// UTF-8, as was checked when it was read.
    bytes: Bytes,
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
        let text = std::str::from_utf8(&bytes)
            .map_err(|error| WireError::NotUtf8 { at: error.valid_up_to() })?;
        let skeleton = format.read(Tape::read(text)?.root())?;
        Ok(Self { format, bytes, skeleton })
    }

    /// The format it was read as.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The neutral view; it borrows from the bytes.
    pub fn history(&self) -> History<'_> {
        self.skeleton.history(self.text(), Words::Decoded)
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
        let text = self.text();
        self.skeleton.history(text, Words::LeftOut).check_settled(plan)?;
        let changed = splice(self.format, text, &self.skeleton, plan.changes());
        Ok(Self::parse(self.format, changed.into())?)
    }

    /// The bytes: as they were read, but for what was applied. They are not copied.
    pub fn to_bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Checking again takes a fraction of a millisecond for each megabyte.
    fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).unwrap_or_default()
    }
}
