//! Which return answers which call?

use std::collections::HashMap;

use crate::entry::{Entry, EntryId, Kind};

/// How many calls in a row are looked through one by one for the one a return answers. Models
/// make a handful of calls at once; more are found by their keys.
const FEW_CALLS: usize = 16;

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
        let mut pairing = Self { partner: vec![None; entries.len()] };
        let mut index = Index::over(entries, groups);
        // The calls of one response since the last return: nearly every return answers one.
        let mut near: Vec<usize> = Vec::new();
        let mut is_answered = false;
        for (at, entry) in entries.iter().enumerate() {
            match &entry.kind {
                Kind::Call { .. } => {
                    if is_answered || near.last().is_some_and(|&last| groups[last] != groups[at]) {
                        near.clear();
                    }
                    is_answered = false;
                    near.push(at);
                }
                Kind::Return { id, name, .. } => {
                    is_answered = true;
                    let found = near.iter().copied().take(FEW_CALLS).find(|&call| {
                        pairing.partner[call].is_none()
                            && answers(&entries[call].kind, id, name.as_deref())
                    });
                    let call = found.or_else(|| index.call_of(at, id, name.as_deref(), &pairing));
                    if let Some(call) = call {
                        pairing.partner[at] = Some(EntryId(call));
                        pairing.partner[call].get_or_insert(EntryId(at));
                    }
                }
                _ => {}
            }
        }
        pairing
    }

    pub(super) fn call_of(&self, answer: EntryId) -> Option<EntryId> {
        self.partner.get(answer.0).copied().flatten().filter(|call| *call < answer)
    }

    pub(super) fn return_of(&self, call: EntryId) -> Option<EntryId> {
        self.partner.get(call.0).copied().flatten().filter(|answer| *answer > call)
    }
}

/// Whether a return of that id and name fits a call in both.
fn answers(call: &Kind<'_>, id: &str, name: Option<&str>) -> bool {
    matches!(call, Kind::Call { id: call_id, name: call_name }
        if *call_id == id && name.is_none_or(|name| *call_name == name))
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key<'e> {
    Named(&'e str, &'e str),
    Any(&'e str),
}

/// Finds what a look at the calls right before does not. It is only built as far as it is asked.
struct Index<'e> {
    entries: &'e [Entry<'e>],
    groups: &'e [Option<usize>],
    /// The first entry that is not in it yet.
    next: usize,
    /// A stack of open calls for each key, all in one list of links.
    top: HashMap<Key<'e>, usize>,
    /// A call, and the link below it.
    links: Vec<(usize, Option<usize>)>,
    /// The call of each key that was answered last.
    answered: HashMap<Key<'e>, usize>,
}

impl<'e> Index<'e> {
    fn over(entries: &'e [Entry<'e>], groups: &'e [Option<usize>]) -> Self {
        Self {
            entries,
            groups,
            next: 0,
            top: HashMap::new(),
            links: Vec::new(),
            answered: HashMap::new(),
        }
    }

    /// The nearest open call that fits, else the answered one: a second return to a call leaves
    /// with it, so it is matched as well.
    fn call_of(
        &mut self,
        at: usize,
        id: &'e str,
        name: Option<&'e str>,
        pairing: &Pairing,
    ) -> Option<usize> {
        self.catch_up(at, pairing);
        let keys = keys(id, name);
        let open = keys.into_iter().flatten().find_map(|key| self.take(key, pairing));
        open.or_else(|| keys.into_iter().flatten().find_map(|key| self.answered.get(&key).copied()))
    }

    /// Takes in all entries before `end`, which is a return.
    fn catch_up(&mut self, end: usize, pairing: &Pairing) {
        let mut calls: Vec<usize> = Vec::new();
        for at in std::mem::replace(&mut self.next, end)..end {
            match &self.entries[at].kind {
                Kind::Call { .. } => {
                    if calls.last().is_some_and(|&last| self.groups[last] != self.groups[at]) {
                        self.push(&mut calls);
                    }
                    calls.push(at);
                }
                Kind::Return { id, name, .. } => {
                    self.push(&mut calls);
                    if let Some(call) = pairing.call_of(EntryId(at)) {
                        let keys = keys(id, name.as_deref()).into_iter().flatten();
                        self.answered.extend(keys.map(|key| (key, call.0)));
                    }
                }
                _ => {}
            }
        }
        self.push(&mut calls);
    }

    /// Puts the calls of one response on the stacks, the last first, so that the first is found
    /// first.
    fn push(&mut self, calls: &mut Vec<usize>) {
        for call in calls.drain(..).rev() {
            if let Kind::Call { id, name } = &self.entries[call].kind {
                for key in [Key::Any(id), Key::Named(id, name)] {
                    let below = self.top.insert(key, self.links.len());
                    self.links.push((call, below));
                }
            }
        }
    }

    /// The nearest open call. A call stands on two stacks, and one that was near is on both
    /// although it is answered; it is taken off here, once, which keeps the whole linear.
    fn take(&mut self, key: Key<'e>, pairing: &Pairing) -> Option<usize> {
        loop {
            let (call, below) = self.links[*self.top.get(&key)?];
            match below {
                Some(below) => self.top.insert(key, below),
                None => self.top.remove(&key),
            };
            if pairing.partner[call].is_none() {
                return Some(call);
            }
        }
    }
}

/// Where a return's call is looked for: under its id and name, then under its id alone. An empty
/// id with another name is no match at all.
fn keys<'e>(id: &'e str, name: Option<&'e str>) -> [Option<Key<'e>>; 2] {
    let loose = !id.is_empty() || name.is_none();
    [name.map(|name| Key::Named(id, name)), loose.then_some(Key::Any(id))]
}
