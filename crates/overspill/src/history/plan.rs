//! The edits a strategy proposes, as a plain value.

use super::Turn;
use crate::entry::{EntryId, MessageId, Note};

/// The edits a strategy proposes. Nothing is stored and nothing is changed yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    edits: Vec<Edit>,
}

/// One change to a history. Ids are those of the history the plan is made for, whatever other
/// edits stand in the same plan.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Edit {
    /// Takes an entry out; a message that holds none afterwards goes too. An entry of a turn can
    /// only leave with all the others of that turn.
    DropEntry(EntryId),
    /// Takes a message out, with every entry it holds.
    DropMessage(MessageId),
    /// Puts other text in the place of an entry's own.
    ReplaceText {
        /// A text or return; [`Entry::is_editable`](crate::entry::Entry::is_editable) tells.
        entry: EntryId,
        /// What stands there instead.
        words: Words,
    },
    /// Puts other arguments in the place of a call's own.
    ReplaceArguments {
        /// The call.
        entry: EntryId,
        /// The members of the JSON object that stands there instead.
        object: Vec<(String, Field)>,
    },
    /// Puts a message of the user, marked as a note of ours, before a message; with the number of
    /// messages as its position, after the last.
    Insert {
        /// The message it stands before.
        before: MessageId,
        /// What it is.
        note: Note,
        /// What it says between the marks.
        words: Words,
    },
}

/// Text that may name what the plan removes; the handle is only known once it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Words(pub(super) Vec<Word>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    Text(String),
    Marker,
}

impl Words {
    /// Exactly this text.
    pub fn text(text: impl Into<String>) -> Self {
        Self(vec![Word::Text(text.into())])
    }

    /// The marker of what this edit removes: the entry's own text or arguments for a
    /// replacement; for a note, everything the plan drops, stored as one payload.
    pub fn marker() -> Self {
        Self(vec![Word::Marker])
    }

    /// These words, then those.
    #[must_use]
    pub fn then(mut self, more: Self) -> Self {
        self.0.extend(more.0);
        self
    }

    /// The text, with `marker` wherever one is asked for.
    pub(super) fn resolve(&self, marker: &str) -> String {
        self.0
            .iter()
            .map(|word| match word {
                Word::Text(text) => text,
                Word::Marker => marker,
            })
            .collect()
    }
}

/// A value of an object of arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// A JSON value, kept as it is spelled.
    Json(String),
    /// A string.
    Words(Words),
}

impl Plan {
    /// Adds an edit.
    pub fn push(&mut self, edit: Edit) {
        self.edits.push(edit);
    }

    /// Drops an entry.
    pub fn drop_entry(&mut self, entry: EntryId) {
        self.push(Edit::DropEntry(entry));
    }

    /// Drops a message.
    pub fn drop_message(&mut self, message: MessageId) {
        self.push(Edit::DropMessage(message));
    }

    /// Drops a turn: the messages of its response, and the returns that answer it. What else
    /// stands in the messages of those returns stays.
    pub fn drop_turn(&mut self, turn: &Turn) {
        self.edits.extend(turn.response.iter().map(|&message| Edit::DropMessage(message)));
        self.edits.extend(turn.returns.iter().map(|&entry| Edit::DropEntry(entry)));
    }

    /// Replaces an entry's text.
    pub fn replace_text(&mut self, entry: EntryId, words: Words) {
        self.push(Edit::ReplaceText { entry, words });
    }

    /// Replaces a call's arguments.
    pub fn replace_arguments(&mut self, entry: EntryId, object: Vec<(String, Field)>) {
        self.push(Edit::ReplaceArguments { entry, object });
    }

    /// Inserts a note before a message.
    pub fn insert(&mut self, before: MessageId, note: Note, words: Words) {
        self.push(Edit::Insert { before, note, words });
    }

    /// The edits, in the order they were added.
    pub fn edits(&self) -> &[Edit] {
        &self.edits
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }
}
