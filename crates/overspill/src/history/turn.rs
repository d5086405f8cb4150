//! A model response with all the returns that answer it: the smallest thing that can be dropped.

use std::collections::HashMap;

use super::{Message, Pairing};
use crate::entry::{Entry, EntryId, Kind, MessageId, Role};

/// Where a turn stands among its history's turns, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TurnId(pub usize);

/// One response of the model, whole, and every return that answers it, wherever it stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Turn {
    /// The messages of the response; more than one where the format spreads it, or where a tool
    /// of the provider went on answering in a later message.
    pub response: Vec<MessageId>,
    /// Its calls of the host's tools, in order.
    pub calls: Vec<EntryId>,
    /// The returns that answer them, in order; they may share a message with other entries.
    pub returns: Vec<EntryId>,
}

impl Turn {
    /// Whether each of its calls is answered.
    pub fn is_answered(&self, history: &super::History<'_>) -> bool {
        self.calls.iter().all(|&call| history.return_of(call).is_some())
    }
}

/// Which response each entry of the model is part of. What a provider's tool returned in a later
/// message makes one response of all between, because neither half may stand alone.
pub(super) fn response_groups(
    messages: &[Message<'_>],
    entries: &[Entry<'_>],
) -> Vec<Option<usize>> {
    let mut groups = vec![None; entries.len()];
    let mut next = 0;
    for message in messages.iter().filter(|message| message.role == Role::Assistant) {
        if !message.continues || next == 0 {
            next += 1;
        }
        groups[message.entries.clone()].fill(Some(next - 1));
    }
    let mut calls: HashMap<&str, usize> = HashMap::new();
    let mut joined = vec![0_isize; next + 1];
    for (entry, group) in entries.iter().zip(&groups) {
        match (&entry.kind, *group) {
            (Kind::ServerCall { id: Some(id), .. }, Some(group)) => {
                calls.insert(id, group);
            }
            (Kind::ServerReturn { id }, Some(group)) => {
                if let Some(first) = calls.remove(&**id).filter(|first| *first < group) {
                    joined[first + 1] += 1;
                    joined[group + 1] -= 1;
                }
            }
            _ => {}
        }
    }
    let (mut depth, mut at) = (0, 0);
    let names: Vec<usize> = (0..next)
        .map(|group| {
            depth += joined[group];
            at += usize::from(depth == 0 && group > 0);
            at
        })
        .collect();
    for group in groups.iter_mut().flatten() {
        *group = names[*group];
    }
    groups
}

/// The turns, and for each entry the turn it belongs to.
pub(super) fn turns(
    messages: &[Message<'_>],
    entries: &[Entry<'_>],
    groups: &[Option<usize>],
    pairing: &Pairing,
) -> (Vec<Turn>, Vec<Option<TurnId>>) {
    let mut turns: Vec<Turn> = Vec::new();
    let mut turn_of = vec![None; entries.len()];
    let mut of_group: Vec<Option<TurnId>> = Vec::new();
    for (m, message) in messages.iter().enumerate() {
        if message.role == Role::Assistant {
            // A response without a single entry is a turn of its own.
            let group = groups.get(message.entries.clone()).and_then(|groups| *groups.first()?);
            let known = group.and_then(|group| of_group.get(group).copied().flatten());
            let turn = known.unwrap_or(TurnId(turns.len()));
            if known.is_none() {
                turns.push(Turn::default());
            }
            if let Some(group) = group {
                of_group.resize(of_group.len().max(group + 1), None);
                of_group[group] = Some(turn);
            }
            turns[turn.0].response.push(MessageId(m));
            for id in message.entry_ids() {
                turn_of[id.0] = Some(turn);
                if entries[id.0].is_call() {
                    turns[turn.0].calls.push(id);
                }
            }
        } else {
            for id in message.entry_ids().filter(|id| entries[id.0].is_return()) {
                if let Some(turn) = pairing.call_of(id).and_then(|call| turn_of[call.0]) {
                    turn_of[id.0] = Some(turn);
                    turns[turn.0].returns.push(id);
                }
            }
        }
    }
    (turns, turn_of)
}
