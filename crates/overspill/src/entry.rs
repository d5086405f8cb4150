//! One part of one message, as every provider's format has it.
//!
//! A strategy decides over entries and never sees a provider's JSON. What an entry does not show,
//! such as unknown fields or the spelling of numbers, stays in the original bytes.

mod note;

use std::borrow::Cow;

pub use note::Note;

/// Where an entry stands in its history: 0 is the first part of the first message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId(pub usize);

/// Where a message stands in its history, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(pub usize);

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Instructions that stand among the messages: `system`, `developer`.
    System,
    /// The user, or the host in the user's name.
    User,
    /// The model.
    Assistant,
    /// A tool the host ran.
    Tool,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind<'a> {
    /// What someone said.
    Text,
    /// What the model thought; [`Entry::signature`] ties it to its turn.
    Thinking,
    /// The model calls a tool of the host. The entry's text is the arguments, as raw JSON.
    Call {
        /// The provider's id; it may repeat within a history, and be empty.
        id: Cow<'a, str>,
        /// The tool's name.
        name: Cow<'a, str>,
    },
    /// What a tool of the host returned.
    Return {
        /// The id of the call it answers; it may repeat and be empty.
        id: Cow<'a, str>,
        /// The tool's name, where the format repeats it. [`History::tool_of`] knows it for all.
        ///
        /// [`History::tool_of`]: crate::history::History::tool_of
        name: Option<Cow<'a, str>>,
        /// Whether the format says that the tool failed.
        is_error: bool,
        /// Images inside the return; replacing its text takes them out too.
        images: Vec<Image<'a>>,
    },
    /// An image that stands for itself.
    Image(Image<'a>),
    /// A call of a tool the provider runs; nothing of it may change.
    ServerCall {
        /// What a [`Kind::ServerReturn`] answers; `None` where call and answer are one item.
        id: Option<Cow<'a, str>>,
        /// The tool's name, or the item's type.
        name: Cow<'a, str>,
    },
    /// What a tool the provider runs returned.
    ServerReturn {
        /// The id of the [`Kind::ServerCall`] it answers.
        id: Cow<'a, str>,
    },
    /// The model refuses, in words.
    Refusal,
    /// The provider's own compaction of all that came before, opaque to everyone else: no edit
    /// reaches it or anything before it.
    Boundary,
    /// A part this version knows nothing about. It is kept, and leaves only with its message.
    Other,
}

/// An image, as the request holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image<'a> {
    /// Where its pixels are.
    pub source: ImageSource<'a>,
    /// How closely the model is asked to look, where the format says so (`low`, `high`, …).
    pub detail: Option<Cow<'a, str>>,
}

/// Where an image's pixels are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageSource<'a> {
    /// In the request, as base64 (its size and format are in its first bytes).
    Base64(Cow<'a, str>),
    /// At an address, or under an id at the provider.
    Elsewhere(Cow<'a, str>),
}

/// One part of one message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry<'a> {
    /// The message it belongs to.
    pub message: MessageId,
    /// Who speaks. A message may hold several: a tool's return and the user's next words.
    pub role: Role,
    /// What it is.
    pub kind: Kind<'a>,
    /// What the model reads of it, decoded: text, thinking, raw JSON arguments, the text of a
    /// return (several texts are joined by line ends; a structured one is its raw JSON). Empty for
    /// images and opaque items.
    pub text: Cow<'a, str>,
    /// Its own JSON, as the request spells it.
    pub raw: &'a str,
    /// The provider's proof that the model wrote it; it holds only while nothing of it changes.
    pub signature: Option<Cow<'a, str>>,
    /// Whether a cache breakpoint is set on it.
    pub cache_marker: bool,
    /// Whether citations point into its text.
    pub cited: bool,
    /// Whether the format has a place where other text (other arguments, for a call) can stand.
    pub replaceable: bool,
    /// Whether its JSON holds more than `text` for the model, such as images or documents inside a
    /// return; replacing its text takes that out too.
    pub holds_more: bool,
}

impl<'a> Entry<'a> {
    /// An entry without signature, citations or cache marker.
    pub fn new(role: Role, kind: Kind<'a>, text: Cow<'a, str>, raw: &'a str) -> Self {
        Self {
            message: MessageId(0),
            role,
            kind,
            text,
            raw,
            signature: None,
            cache_marker: false,
            cited: false,
            replaceable: false,
            holds_more: false,
        }
    }

    /// Whether an edit may replace its text or arguments: the format has a place for them, and
    /// no signature or citation depends on what stands there.
    pub fn is_editable(&self) -> bool {
        self.replaceable && self.signature.is_none() && !self.cited
    }

    /// Which note of ours it is, where it is one; told by its mark, not by its words.
    pub fn note(&self) -> Option<Note> {
        match (self.role, &self.kind) {
            (Role::User, Kind::Text) => Note::of(&self.text),
            _ => None,
        }
    }

    /// Whether it is a call of a tool of the host.
    pub fn is_call(&self) -> bool {
        matches!(self.kind, Kind::Call { .. })
    }

    /// Whether it is what a tool of the host returned.
    pub fn is_return(&self) -> bool {
        matches!(self.kind, Kind::Return { .. })
    }
}
