//! What became of histories that were seen before.
//!
//! Rig keeps no edit of a request: the next one holds the whole history again. So what was left of
//! a history is kept here under the digest of all its messages, and a longer one that begins with
//! the same messages begins with the same bytes again. A run that is retried, forked or gone on
//! with finds its own beginning; one that is not found is fitted anew.

use std::collections::HashMap;
use std::sync::Arc;

use overspill::Usage;
use overspill::store::Digest;

use crate::spelled::Spelled;

/// Edits that are kept. They share the messages they have in common, so a few hundred cost little
/// more than the conversations they are of; the one unused for longest goes.
const KEPT: usize = 256;

/// Reports of providers that are kept; each is a digest and three numbers.
const REPORTS: usize = 1_024;

/// The digest of a history's first message, of its first two, and so on.
pub(crate) fn chain<'m>(list: impl IntoIterator<Item = &'m Arc<Spelled>>) -> Vec<Digest> {
    let mut last = Digest::of(b"");
    let next = |message: &Arc<Spelled>| {
        let mut bytes = [0; 64];
        bytes[..32].copy_from_slice(last.as_bytes());
        bytes[32..].copy_from_slice(message.digest().as_bytes());
        last = Digest::of(&bytes);
        last
    };
    list.into_iter().map(next).collect()
}

/// Histories and what was left of them; requests and what the provider said they were.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    left: Bounded<Vec<Arc<Spelled>>>,
    reported: Bounded<Usage>,
}

impl Ledger {
    /// The longest beginning of a history that was seen before: how many of its messages, and what
    /// was left of them.
    pub(crate) fn find(&mut self, chain: &[Digest]) -> Option<(usize, Vec<Arc<Spelled>>)> {
        let found = chain.iter().enumerate().rev().find(|(_, digest)| self.left.holds(digest))?;
        Some((found.0 + 1, self.left.get(found.1)?.clone()))
    }

    /// Keeps what was left of a history.
    pub(crate) fn keep(&mut self, history: Digest, left: Vec<Arc<Spelled>>) {
        self.left.insert(history, left, KEPT);
    }

    /// Keeps what a provider said of a request.
    pub(crate) fn report(&mut self, request: Digest, usage: Usage) {
        self.reported.insert(request, usage, REPORTS);
    }

    /// What was reported of the requests that the messages of a history answer.
    pub(crate) fn reports(&mut self, list: &[Arc<Spelled>]) -> HashMap<usize, Usage> {
        let answers = |(at, digest): (usize, &Digest)| {
            list.get(at + 1).filter(|message| message.is_response())?;
            Some((at + 1, *self.reported.get(digest)?))
        };
        chain(list).iter().enumerate().filter_map(answers).collect()
    }
}

/// A map that lets the entry go that was unused for longest.
#[derive(Debug)]
struct Bounded<T> {
    entries: HashMap<Digest, (u64, T)>,
    clock: u64,
}

impl<T> Default for Bounded<T> {
    fn default() -> Self {
        Self { entries: HashMap::new(), clock: 0 }
    }
}

impl<T> Bounded<T> {
    fn holds(&self, key: &Digest) -> bool {
        self.entries.contains_key(key)
    }

    fn get(&mut self, key: &Digest) -> Option<&T> {
        self.clock += 1;
        let (used, value) = self.entries.get_mut(key)?;
        *used = self.clock;
        Some(value)
    }

    fn insert(&mut self, key: Digest, value: T, most: usize) {
        self.clock += 1;
        if self.entries.len() >= most && !self.entries.contains_key(&key) {
            let oldest = self.entries.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                self.entries.remove(&oldest);
            }
        }
        self.entries.insert(key, (self.clock, value));
    }
}

#[cfg(test)]
mod tests {
    use rig_core::message::Message;

    use super::*;

    fn spelled(texts: &[&str]) -> Vec<Arc<Spelled>> {
        texts.iter().map(|text| Arc::new(Spelled::note(text).unwrap())).collect()
    }

    fn texts(list: &[Arc<Spelled>]) -> Vec<String> {
        list.iter().filter_map(|it| it.message.rag_text()).collect()
    }

    #[test]
    fn the_longest_beginning_is_found() {
        let mut ledger = Ledger::default();
        let history = spelled(&["a", "b", "c", "d"]);
        let digests = chain(&history);
        assert!(ledger.find(&digests).is_none());
        ledger.keep(digests[1], spelled(&["ab"]));
        ledger.keep(digests[2], spelled(&["abc"]));
        let found = ledger.find(&digests).map(|(seen, left)| (seen, texts(&left)));
        assert_eq!(found, Some((3, vec!["abc".to_owned()])));
        // A fork from the middle finds what it begins with, another history nothing.
        let fork = chain(&spelled(&["a", "b", "x"]));
        assert_eq!(ledger.find(&fork).map(|(seen, _)| seen), Some(2));
        assert!(ledger.find(&chain(&spelled(&["b", "a", "c"]))).is_none());
    }

    #[test]
    fn what_was_unused_for_longest_goes() {
        let mut ledger = Ledger::default();
        let key = |n: usize| chain(&spelled(&[&n.to_string()]));
        (0..KEPT).for_each(|n| ledger.keep(key(n)[0], Vec::new()));
        assert!(ledger.find(&key(0)).is_some());
        ledger.keep(key(KEPT)[0], Vec::new());
        assert!(ledger.find(&key(0)).is_some() && ledger.find(&key(KEPT)).is_some());
        assert!(ledger.find(&key(1)).is_none());
    }

    #[test]
    fn a_report_belongs_to_the_answer_of_its_request() {
        let mut ledger = Ledger::default();
        let asked = spelled(&["a"]);
        let usage = Usage { requests: 1, input_tokens: 40, output_tokens: 2 };
        ledger.report(chain(&asked)[0], usage);
        let answer = Arc::new(Spelled::new(Message::assistant("b")).unwrap());
        let answered = [asked.clone(), vec![answer]].concat();
        assert_eq!(ledger.reports(&answered), HashMap::from([(1, usage)]));
        // Where something else was said next, it was not that request that was answered.
        assert!(ledger.reports(&[asked, spelled(&["c"])].concat()).is_empty());
    }
}
