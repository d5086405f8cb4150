//! The edits a strategy proposes, as a plain value.

use std::collections::HashSet;

use super::{History, Message, Turn};
use crate::entry::{EntryId, MessageId, Note};
use crate::marker::Below;

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

impl Edit {
    /// The entry it puts something else in the place of.
    pub(super) fn replaces(&self) -> Option<EntryId> {
        match self {
            Self::ReplaceText { entry, .. } | Self::ReplaceArguments { entry, .. } => Some(*entry),
            _ => None,
        }
    }
}

/// Text of which a part is only known once the plan is settled: the marker of what was stored, and
/// what a model writes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Words(pub(super) Vec<Word>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    Text(String),
    Marker(Below),
    Written(String),
}

impl Words {
    /// Exactly this text.
    pub fn text(text: impl Into<String>) -> Self {
        Self(vec![Word::Text(text.into())])
    }

    /// The marker of what this edit removes, with `below` saying what of it these words show: the
    /// entry's own text or arguments for a replacement; for a note, everything the plan drops,
    /// stored as one transcript. Where nothing is stored, nothing stands here.
    pub fn marker(below: Below) -> Self {
        Self(vec![Word::Marker(below)])
    }

    /// What the model answers to this prompt; a plan with an empty answer is not settled.
    pub fn written(prompt: impl Into<String>) -> Self {
        Self(vec![Word::Written(prompt.into())])
    }

    /// These words, then those.
    #[must_use]
    pub fn then(mut self, more: Self) -> Self {
        self.0.extend(more.0);
        self
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

    /// One plan that does what both do. Where they meet, a drop wins over a replacement, and of
    /// two replacements the later one.
    #[must_use]
    pub fn and(mut self, later: Self, history: &History<'_>) -> Self {
        self.edits.extend(later.edits);
        let mut dropped = HashSet::new();
        for edit in &self.edits {
            match edit {
                Edit::DropEntry(entry) => dropped.extend([*entry]),
                Edit::DropMessage(message) => {
                    let found = history.messages().get(message.0);
                    dropped.extend(found.into_iter().flat_map(Message::entry_ids));
                }
                _ => {}
            }
        }
        let mut edits = Vec::with_capacity(self.edits.len());
        let mut replaced = HashSet::new();
        for edit in self.edits.into_iter().rev() {
            let stays = edit
                .replaces()
                .is_none_or(|entry| !dropped.contains(&entry) && replaced.insert(entry));
            edits.extend(stays.then_some(edit));
        }
        edits.reverse();
        Self { edits }
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
