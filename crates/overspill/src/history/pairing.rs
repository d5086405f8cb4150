//! Which return answers which call?

use std::collections::HashMap;

use crate::entry::{Entry, EntryId, Kind};

/// Calls and returns, matched nearest first.
///
/// Ids may be reused (`call_0` in every response) or empty, so an id alone finds nothing: a return
/// answers the nearest earlier response that still has an open call of its id, and in there the
/// first one of its name. Where ids are empty, names alone decide, if the format repeats them.
#[derive(Debug, Clone)]
pub(super) struct Pairing {
    /// For each return its call; for each call the first return that answers it.
    partner: Vec<Option<EntryId>>,
}

impl Pairing {
    /// Matches host tools only; `groups` says which response each entry of the model is part of.
    pub(super) fn of(entries: &[Entry<'_>], groups: &[Option<usize>]) -> Self {
        let named =
            entries.iter().any(|entry| matches!(entry.kind, Kind::Return { name: Some(_), .. }));
        let mut open = OpenCalls::default();
        let mut partner = vec![None; entries.len()];
        let mut waiting: Vec<usize> = Vec::new();
        for (at, entry) in entries.iter().enumerate() {
            match &entry.kind {
                Kind::Call { .. } => {
                    if waiting.last().is_some_and(|&last| groups[last] != groups[at]) {
                        open.push(entries, &mut waiting, named);
                    }
                    waiting.push(at);
                }
                Kind::Return { id, name, .. } => {
                    open.push(entries, &mut waiting, named);
                    let exact = name.as_deref().map(|name| Key::Named(id, name));
                    // An empty id with another name is no match at all.
                    let loose = (!id.is_empty() || name.is_none()).then_some(Key::Any(id));
                    let keys = || exact.iter().chain(&loose);
                    // A second return to a call leaves with it, so it is matched as well.
                    let call = keys()
                        .find_map(|key| open.take(key, &partner))
                        .or_else(|| keys().find_map(|key| open.answered.get(key).copied()));
                    if let Some(call) = call {
                        partner[at] = Some(EntryId(call));
                        partner[call].get_or_insert(EntryId(at));
                        open.answered.extend(keys().map(|&key| (key, call)));
                    }
                }
                _ => {}
            }
        }
        Self { partner }
    }

    pub(super) fn call_of(&self, answer: EntryId) -> Option<EntryId> {
        self.partner.get(answer.0).copied().flatten().filter(|call| *call < answer)
    }

    pub(super) fn return_of(&self, call: EntryId) -> Option<EntryId> {
        self.partner.get(call.0).copied().flatten().filter(|answer| *answer > call)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key<'e> {
    Named(&'e str, &'e str),
    Any(&'e str),
}

/// A stack of open calls for each key, all in one list of links.
#[derive(Default)]
struct OpenCalls<'e> {
    top: HashMap<Key<'e>, usize>,
    /// A call, and the link below it.
    links: Vec<(usize, Option<usize>)>,
    /// The call of each key that was answered last.
    answered: HashMap<Key<'e>, usize>,
}

impl<'e> OpenCalls<'e> {
    /// Puts the calls of one response on the stacks, the last first, so that the first is found
    /// first.
    fn push(&mut self, entries: &'e [Entry<'_>], calls: &mut Vec<usize>, named: bool) {
        for call in calls.drain(..).rev() {
            if let Kind::Call { id, name } = &entries[call].kind {
                let exact = named.then_some(Key::Named(id, name));
                for key in [Key::Any(id)].into_iter().chain(exact) {
                    let below = self.top.insert(key, self.links.len());
                    self.links.push((call, below));
                }
            }
        }
    }

    /// The nearest open call. A call may stand on two stacks, so one may be answered already; it
    /// is taken off here, once, which keeps the whole linear.
    fn take(&mut self, key: &Key<'e>, partner: &[Option<EntryId>]) -> Option<usize> {
        loop {
            let (call, below) = self.links[*self.top.get(key)?];
            match below {
                Some(below) => self.top.insert(*key, below),
                None => self.top.remove(key),
            };
            if partner[call].is_none() {
                return Some(call);
            }
        }
    }
}
