//! Would a plan leave a history that a provider accepts?

use std::collections::HashSet;

use serde_json::value::RawValue;
use thiserror::Error;

use super::fault::{Fault, faults};
use super::plan::{Edit, Field};
use super::{History, TurnId};
use crate::entry::{EntryId, Kind, MessageId};

/// Why a plan cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// An edit names an entry that is not there.
    #[error("there is no entry {}", .entry.0)]
    NoEntry {
        /// The entry named.
        entry: EntryId,
    },
    /// An edit names a message that is not there.
    #[error("there is no message {}", .message.0)]
    NoMessage {
        /// The message named.
        message: MessageId,
    },
    /// An edit reaches across a compaction of the provider's own.
    #[error("message {} stands before a compaction of the provider's, and is closed", .message.0)]
    Boundary {
        /// The message the edit touches.
        message: MessageId,
    },
    /// A turn would be split.
    #[error("turn {} would lose a part; drop it whole or not at all", .turn.0)]
    SplitTurn {
        /// The turn.
        turn: TurnId,
    },
    /// A note would stand between a response and its returns, or inside a response.
    #[error("a note cannot stand inside turn {}; put it before or after", .turn.0)]
    InsideTurn {
        /// The turn.
        turn: TurnId,
    },
    /// What the edit replaces must not change.
    #[error("entry {} must not change: it is signed, cited, or no text", .entry.0)]
    Fixed {
        /// The entry.
        entry: EntryId,
    },
    /// A return would be dropped whose call only the provider has.
    #[error("entry {} answers a call that the provider keeps, and has to stay", .entry.0)]
    AnswersElsewhere {
        /// The return.
        entry: EntryId,
    },
    /// Two edits touch the same entry.
    #[error("entry {} is edited twice", .entry.0)]
    Twice {
        /// The entry.
        entry: EntryId,
    },
    /// The new arguments of a call are not valid JSON.
    #[error("the new arguments of entry {} are not valid JSON at {key:?}", .entry.0)]
    NotJson {
        /// The call.
        entry: EntryId,
        /// The member.
        key: String,
    },
    /// The edits together leave a fault that was not there before.
    #[error("the history would become invalid: {0}")]
    Fault(#[from] Fault),
    /// The plan was settled for another history.
    #[error("message {} is not the one the plan was made for", .message.0)]
    OtherHistory {
        /// The message that is missing or different.
        message: MessageId,
    },
}

/// What is left of a history after edits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remainder {
    /// Entries that are gone.
    pub(super) dropped: Vec<bool>,
    /// Messages that are gone.
    pub(super) gone: Vec<bool>,
    /// Whether a note of ours stands before each message, and after the last.
    pub(super) note_before: Vec<bool>,
}

impl Remainder {
    /// The whole history.
    pub(super) fn all(history: &History<'_>) -> Self {
        Self {
            dropped: vec![false; history.entries.len()],
            gone: vec![false; history.messages.len()],
            note_before: vec![false; history.messages.len() + 1],
        }
    }

    /// Whether an entry stays, replaced or not.
    pub fn has_entry(&self, entry: EntryId) -> bool {
        self.dropped.get(entry.0).is_some_and(|dropped| !dropped)
    }

    /// Whether a message stays, if only in part.
    pub fn has_message(&self, message: MessageId) -> bool {
        self.gone.get(message.0).is_some_and(|gone| !gone)
    }
}

pub(super) fn check(history: &History<'_>, edits: &[Edit]) -> Result<(), Refusal> {
    let left = remainder(history, edits)?;
    may_leave(history, &left)?;
    outside_turns(history, &left)?;
    whole_turns(history, &left)?;
    let after = faults(history, &left);
    if after.is_empty() {
        return Ok(());
    }
    let before: HashSet<Fault> = history.faults().into_iter().collect();
    match after.into_iter().find(|fault| !before.contains(fault)) {
        Some(fault) => Err(fault.into()),
        None => Ok(()),
    }
}

/// Checks each edit alone, and gathers what they leave.
pub(super) fn remainder(history: &History<'_>, edits: &[Edit]) -> Result<Remainder, Refusal> {
    let mut left = Remainder::all(history);
    let mut replaced = vec![false; history.entries.len()];
    for edit in edits {
        match edit {
            Edit::DropEntry(entry) => {
                reachable(history, *entry)?;
                left.dropped[entry.0] = true;
            }
            Edit::DropMessage(message) => {
                let found = history
                    .messages
                    .get(message.0)
                    .ok_or(Refusal::NoMessage { message: *message })?;
                if found.entries.start < history.reach.0 {
                    return Err(Refusal::Boundary { message: *message });
                }
                left.gone[message.0] = true;
                left.dropped[found.entries.clone()].fill(true);
            }
            Edit::ReplaceText { entry, .. } => {
                let found = reachable(history, *entry)?;
                if !found.is_editable() || found.is_call() {
                    return Err(Refusal::Fixed { entry: *entry });
                }
                once(&mut replaced, *entry)?;
            }
            Edit::ReplaceArguments { entry, object } => {
                let found = reachable(history, *entry)?;
                if !found.is_editable() || !found.is_call() {
                    return Err(Refusal::Fixed { entry: *entry });
                }
                once(&mut replaced, *entry)?;
                for (key, field) in object {
                    if let Field::Json(json) = field
                        && serde_json::from_str::<&RawValue>(json).is_err()
                    {
                        return Err(Refusal::NotJson { entry: *entry, key: key.clone() });
                    }
                }
            }
            Edit::Insert { before, .. } => {
                if before.0 > history.messages.len() {
                    return Err(Refusal::NoMessage { message: *before });
                }
                let closed = history
                    .messages
                    .get(before.0)
                    .is_some_and(|message| message.entries.start < history.reach.0);
                if closed {
                    return Err(Refusal::Boundary { message: *before });
                }
                left.note_before[before.0] = true;
            }
        }
    }
    if let Some(at) = (0..replaced.len()).find(|&at| replaced[at] && left.dropped[at]) {
        return Err(Refusal::Twice { entry: EntryId(at) });
    }
    for (m, message) in history.messages.iter().enumerate() {
        let emptied =
            !message.entries.is_empty() && message.entry_ids().all(|entry| left.dropped[entry.0]);
        left.gone[m] |= emptied;
    }
    Ok(left)
}

fn reachable<'h, 'a>(
    history: &'h History<'a>,
    entry: EntryId,
) -> Result<&'h crate::entry::Entry<'a>, Refusal> {
    let found = history.entry(entry).ok_or(Refusal::NoEntry { entry })?;
    if entry < history.reach {
        return Err(Refusal::Boundary { message: found.message });
    }
    Ok(found)
}

fn once(replaced: &mut [bool], entry: EntryId) -> Result<(), Refusal> {
    match std::mem::replace(&mut replaced[entry.0], true) {
        true => Err(Refusal::Twice { entry }),
        false => Ok(()),
    }
}

/// What nobody knows leaves only with its message, and an answer to a call that the provider
/// keeps does not leave at all.
fn may_leave(history: &History<'_>, left: &Remainder) -> Result<(), Refusal> {
    for (at, entry) in history.entries.iter().enumerate().filter(|(at, _)| left.dropped[*at]) {
        let id = EntryId(at);
        if matches!(entry.kind, Kind::Other) && !left.gone[entry.message.0] {
            return Err(Refusal::Fixed { entry: id });
        }
        if history.rules.continues && entry.is_return() && history.call_of(id).is_none() {
            return Err(Refusal::AnswersElsewhere { entry: id });
        }
    }
    Ok(())
}

/// A note stands before a turn or after it, also where a format would bear it inside: what comes
/// with reasoning has to follow it directly.
fn outside_turns(history: &History<'_>, left: &Remainder) -> Result<(), Refusal> {
    for (m, message) in history.messages.iter().enumerate() {
        if !left.note_before[m] || left.gone[m] {
            continue;
        }
        let kept = message.entry_ids().filter(|entry| !left.dropped[entry.0]);
        for turn in kept.filter_map(|entry| history.turn_of(entry)) {
            if history.turns[turn.0].response.first().is_some_and(|first| first.0 < m) {
                return Err(Refusal::InsideTurn { turn });
            }
        }
    }
    Ok(())
}

/// A turn leaves whole or not at all.
fn whole_turns(history: &History<'_>, left: &Remainder) -> Result<(), Refusal> {
    let mut counts = vec![(0_usize, 0_usize); history.turns.len()];
    for (turn, &dropped) in history.turn_of.iter().zip(&left.dropped) {
        if let Some(turn) = turn {
            counts[turn.0].0 += 1;
            counts[turn.0].1 += usize::from(dropped);
        }
    }
    match counts.iter().position(|&(all, dropped)| dropped != 0 && dropped != all) {
        Some(turn) => Err(Refusal::SplitTurn { turn: TurnId(turn) }),
        None => Ok(()),
    }
}
