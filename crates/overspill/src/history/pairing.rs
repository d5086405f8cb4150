//! Which return answers which call?

use std::collections::{HashMap, VecDeque};

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
        let mut partner = vec![None; entries.len()];
        let mut open: HashMap<Key<'_>, Calls> = HashMap::new();
        for (at, entry) in entries.iter().enumerate() {
            match &entry.kind {
                Kind::Call { id, name } => {
                    let group = groups[at].unwrap_or_default();
                    for key in [Key::Named(id, name), Key::Any(id)] {
                        open.entry(key).or_default().push(group, at);
                    }
                }
                Kind::Return { id, name, .. } => {
                    let named = name.as_deref().map(|name| Key::Named(id, name));
                    // An empty id with another name is no match at all.
                    let any = (!id.is_empty() || name.is_none()).then_some(Key::Any(id));
                    let keys = [named, any];
                    let mut found = None;
                    for key in keys.iter().flatten() {
                        found = found.or_else(|| open.get_mut(key)?.take(&partner));
                    }
                    // A second return to the same call leaves with it all the same.
                    for key in keys.iter().flatten() {
                        found = found.or_else(|| open.get(key)?.last);
                    }
                    if let Some(call) = found {
                        partner[at] = Some(EntryId(call));
                        partner[call].get_or_insert(EntryId(at));
                        for key in keys.iter().flatten() {
                            if let Some(calls) = open.get_mut(key) {
                                calls.last = Some(call);
                            }
                        }
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

#[derive(PartialEq, Eq, Hash)]
enum Key<'e> {
    Named(&'e str, &'e str),
    Any(&'e str),
}

/// The calls of one key: responses newest last, the calls of each in order.
#[derive(Default)]
struct Calls {
    open: Vec<(usize, VecDeque<usize>)>,
    /// The call that was answered last.
    last: Option<usize>,
}

impl Calls {
    fn push(&mut self, group: usize, call: usize) {
        match self.open.last_mut() {
            Some((last, calls)) if *last == group => calls.push_back(call),
            _ => self.open.push((group, VecDeque::from([call]))),
        }
    }

    /// The nearest open call. Each call stands under two keys, so one may be answered already;
    /// it is thrown away here, once, which keeps the whole linear.
    fn take(&mut self, partner: &[Option<EntryId>]) -> Option<usize> {
        while let Some((_, calls)) = self.open.last_mut() {
            while let Some(call) = calls.pop_front() {
                if partner[call].is_none() {
                    return Some(call);
                }
            }
            self.open.pop();
        }
        None
    }
}
