//! Which strings of a response prove that the model used an earlier result?
//!
//! A token is a string of 6 to 200 characters that looks like a name, a path or a number. A token
//! of a response is evidence if an earlier result holds it and nothing else before the response
//! does: nothing but that result can have taught it to the model.
//!
//! A token never contains a character outside of its alphabet, so each of its occurrences lies
//! within one *run* of the alphabet. Texts repeat their runs a lot; it is enough to keep each
//! distinct run once, with an index of all its six-character grams. A token is then looked up by
//! its rarest gram, and reading a session takes time in proportion to its size.

use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap, HashSet, HashTable};
use memchr::memmem;
use std::hash::BuildHasher;

use crate::json::Json;
use crate::session::{Item, ItemId, Kind, Segment};

/// The first use of a string that only tool results had shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// The string.
    pub token: Arc<str>,
    /// Whether it is an identifier: with a digit, one of `_ . / : -`, or a camelCase step. The
    /// others are words, which a model may well have known without the result.
    pub identifier: bool,
    /// The earlier results that hold it, oldest first.
    pub results: Vec<ItemId>,
}

/// The shortest token, and the size of the grams of the index.
const SHORTEST: usize = 6;
const LONGEST: usize = 200;

/// Finds the evidence of every turn of a segment.
pub(crate) fn find(segment: &mut Segment) {
    let mut results = Index::default();
    let mut others = Index::default();
    let mut result_ids = Vec::new();
    let mut put = |item: &Item, results: &mut Index, others: &mut Index| {
        if item.kind == Kind::Result {
            let place = result_ids.len() as u32;
            result_ids.push(item.id);
            runs(&item.text).for_each(|run| results.add(run, Some(place)));
        } else {
            spoken(item, &mut |text| runs(text).for_each(|run| others.add(run, None)));
        }
        result_ids.len()
    };
    let mut shown = 0;
    for item in &segment.before {
        shown = put(item, &mut results, &mut others);
    }
    let mut found: Vec<Vec<(Box<str>, Vec<u32>)>> = Vec::with_capacity(segment.turns.len());
    for turn in &segment.turns {
        let mut here: Vec<(Box<str>, Vec<u32>)> = Vec::new();
        if shown > 0 {
            let mut seen: HashSet<Box<str>> = HashSet::new();
            for item in &turn.response {
                spoken(item, &mut |text| {
                    for token in runs(text).filter_map(token) {
                        if seen.contains(token) {
                            continue;
                        }
                        seen.insert(token.into());
                        if !others.holds(token) {
                            let places = results.holders(token);
                            if !places.is_empty() {
                                here.push((token.into(), places));
                            }
                        }
                    }
                });
            }
            here.sort();
        }
        found.push(here);
        for item in turn.response.iter().chain(&turn.after) {
            shown = put(item, &mut results, &mut others);
        }
    }
    for (turn, here) in segment.turns.iter_mut().zip(found) {
        turn.evidence = here
            .into_iter()
            .map(|(token, places)| Evidence {
                identifier: is_identifier(&token),
                results: places.iter().map(|&place| result_ids[place as usize]).collect(),
                token: token.into(),
            })
            .collect();
    }
}

/// The texts of an item as a reader sees them: of a call, the string leaves of its arguments, so
/// that the escapes of JSON glue no tokens together.
fn spoken(item: &Item, each: &mut impl FnMut(&str)) {
    if item.kind == Kind::Call && item.text.starts_with(['{', '[', '"', ' ', '\n', '\t', '\r']) {
        let value = Json::parse(&item.text);
        if let Ok(value @ (Json::Str(_) | Json::List(_) | Json::Map(_))) = value {
            return value.leaves(each);
        }
    }
    each(&item.text);
}

const fn alphabet() -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        table[byte] = b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'/' | b':' | b'-');
        byte += 1;
    }
    table
}
static ALPHABET: [bool; 256] = alphabet();

/// The maximal runs of token characters that are long enough to hold a token.
fn runs(text: &str) -> impl Iterator<Item = &str> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            while at < bytes.len() && !ALPHABET[bytes[at] as usize] {
                at += 1;
            }
            let from = at;
            while at < bytes.len() && ALPHABET[bytes[at] as usize] {
                at += 1;
            }
            if at - from >= SHORTEST {
                return Some(&text[from..at]);
            }
            if at == bytes.len() {
                return None;
            }
        }
    })
}

/// The token of a run: it starts with a letter, a digit or `_`, and ends in none of `. : -`.
fn token(run: &str) -> Option<&str> {
    let open = run.trim_start_matches(['.', '/', ':', '-']);
    if open.len() < SHORTEST {
        return None;
    }
    let token = open.trim_end_matches(['.', ':', '-']);
    (SHORTEST..=LONGEST).contains(&token.len()).then_some(token)
}

fn is_identifier(token: &str) -> bool {
    let bytes = token.as_bytes();
    bytes.iter().any(|b| !b.is_ascii_alphabetic())
        || bytes.windows(2).any(|w| w[0].is_ascii_lowercase() && w[1].is_ascii_uppercase())
}

/// No further node of a list.
const END: u32 = u32::MAX;

/// Distinct runs, with the places that hold them, and their grams.
#[derive(Default)]
struct Index {
    text: Vec<u8>,
    /// For each run: its slice of `text`, and the newest node of its list of places.
    runs: Vec<(usize, usize, u32)>,
    known: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// Places of runs: place, next older node.
    places: Vec<(u32, u32)>,
    grams: HashMap<u64, Gram>,
    /// Runs of grams: run, next older node.
    postings: Vec<(u32, u32)>,
}

/// The runs that hold six characters.
struct Gram {
    /// The newest node of their list.
    newest: u32,
    /// The run of that node, here too so that adding to the list need not look at it.
    run: u32,
    count: u32,
}

impl Index {
    fn run(&self, run: u32) -> &[u8] {
        let (from, to, _) = self.runs[run as usize];
        &self.text[from..to]
    }

    fn add(&mut self, run: &str, place: Option<u32>) {
        let bytes = run.as_bytes();
        let hash = self.hasher.hash_one(bytes);
        let known = self.known.find(hash, |&id| self.run(id) == bytes).copied();
        let id = known.unwrap_or_else(|| self.insert(hash, bytes));
        if let Some(place) = place {
            let newest = &mut self.runs[id as usize].2;
            if *newest == END || self.places[*newest as usize].0 != place {
                self.places.push((place, *newest));
                *newest = (self.places.len() - 1) as u32;
            }
        }
    }

    fn insert(&mut self, hash: u64, bytes: &[u8]) -> u32 {
        let id = self.runs.len() as u32;
        let from = self.text.len();
        self.text.extend_from_slice(bytes);
        self.runs.push((from, self.text.len(), END));
        let (runs, text, hasher) = (&self.runs, &self.text, &self.hasher);
        self.known.insert_unique(hash, id, |&id| {
            let (from, to, _) = runs[id as usize];
            hasher.hash_one(&text[from..to])
        });
        for gram in bytes.windows(SHORTEST) {
            let gram =
                self.grams.entry(packed(gram)).or_insert(Gram { newest: END, run: END, count: 0 });
            if gram.run != id {
                self.postings.push((id, gram.newest));
                gram.newest = (self.postings.len() - 1) as u32;
                gram.run = id;
                gram.count += 1;
            }
        }
        id
    }

    /// The runs that hold a token, newest first.
    fn matches<'i>(&'i self, token: &'i str) -> impl Iterator<Item = u32> + 'i {
        let mut rarest = (END, u32::MAX);
        for gram in token.as_bytes().windows(SHORTEST) {
            match self.grams.get(&packed(gram)) {
                Some(gram) if gram.count < rarest.1 => rarest = (gram.newest, gram.count),
                Some(_) => {}
                None => {
                    rarest = (END, 0);
                    break;
                }
            }
        }
        let mut node = rarest.0;
        let finder = (node != END).then(|| memmem::Finder::new(token));
        std::iter::from_fn(move || {
            while node != END {
                let (run, older) = self.postings[node as usize];
                node = older;
                if finder.as_ref().is_some_and(|finder| finder.find(self.run(run)).is_some()) {
                    return Some(run);
                }
            }
            None
        })
    }

    fn holds(&self, token: &str) -> bool {
        self.matches(token).next().is_some()
    }

    /// The places that hold a token, in order.
    fn holders(&self, token: &str) -> Vec<u32> {
        let mut places = Vec::new();
        for run in self.matches(token) {
            let mut node = self.runs[run as usize].2;
            while node != END {
                let (place, older) = self.places[node as usize];
                places.push(place);
                node = older;
            }
        }
        places.sort_unstable();
        places.dedup();
        places
    }
}

fn packed(gram: &[u8]) -> u64 {
    gram.iter().fold(0, |packed, &byte| packed << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<&str> {
        runs(text).filter_map(token).collect()
    }

    #[test]
    fn tokens_are_names_paths_and_numbers() {
        assert_eq!(
            tokens("see ./src/main.rs:12: fn parse_all() -- short -------"),
            ["src/main.rs:12", "parse_all"]
        );
        assert_eq!(tokens("abcde. abcdef. é123456é lib/foo/"), ["abcdef", "123456", "lib/foo/"]);
        assert_eq!(tokens(&"x".repeat(201)), [""; 0]);
    }

    #[test]
    fn identifiers_have_a_digit_a_mark_or_a_camel_step() {
        assert!(["main_loop", "parseAll", "v123456", "a/b/c/d"].iter().all(|t| is_identifier(t)));
        assert!(!["handle", "Handle", "HANDLE"].iter().any(|t| is_identifier(t)));
    }

    #[test]
    fn the_index_finds_substrings_of_runs() {
        let mut index = Index::default();
        index.add("src/parser/tokens.rs", Some(0));
        index.add("tests/parser/tokens.rs", Some(1));
        index.add("src/parser/tokens.rs", Some(2));
        assert_eq!(index.holders("parser/tokens"), [0, 1, 2]);
        assert_eq!(index.holders("src/parser"), [0, 2]);
        assert!(!index.holds("parser/token/"));
        assert!(!index.holds("absent"));
    }
}
