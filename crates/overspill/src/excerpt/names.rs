//! Which lines and which names are worth their room, for what they let a later step name again?
//!
//! Every identifier of the lines that are not shown has a worth ([`worth`]). A line is worth the
//! sum of those it alone would bring into view, and is chosen for its worth per character; so is a
//! bare name.

use std::cmp::Reverse;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::hash::BuildHasherDefault;
use std::ops::Range;

use memchr::memmem;

use super::Form;
use super::held::Kept;
use super::identifiers::{declares, has_word, identifiers, shape, worth};

/// What a line costs beyond its own characters when lines are compared: its number, and a little
/// against very short lines that say nothing by themselves.
const LINE_COST: u64 = 26;
/// What a name costs beyond its own characters when names are compared: a space and a part of a
/// line number.
const NAME_COST: u64 = 3;
/// More names than this that differ only in their digits are a series, of which none is telling.
const SERIES: u32 = 24;

/// An identifier of the lines that are not shown.
#[derive(Debug)]
struct Name<'a> {
    text: &'a [u8],
    /// Index of the first line it stands in.
    line: usize,
    count: u32,
    declared: bool,
    /// A key of JSON.
    key: bool,
    /// What it has in common with others of a series, if it could be one of a series.
    series: Option<u64>,
    worth: u64,
}

/// The names of some lines, of which the most telling can be taken until the room is used up.
#[derive(Debug)]
pub(super) struct Names<'a> {
    lines: &'a [Kept<'a>],
    names: Vec<Name<'a>>,
    index: HashMap<&'a [u8], u32, BuildHasherDefault<DefaultHasher>>,
    /// The names of each line, as indices, one line after the other.
    mentions: Vec<u32>,
    ranges: Vec<Range<usize>>,
    /// The lines by worth per character as last computed, which can only fall.
    ranked: BinaryHeap<(u64, Reverse<usize>)>,
}

impl<'a> Names<'a> {
    /// Collects the names of `lines`. In JSON a name that is a key is worth less, for the shape
    /// tells it.
    pub(super) fn new(lines: &'a [Kept<'a>], form: Form) -> Self {
        let mut index = HashMap::<_, _, BuildHasherDefault<DefaultHasher>>::default();
        let mut names: Vec<Name<'a>> = Vec::new();
        let mut mentions = Vec::new();
        let mut ranges = Vec::with_capacity(lines.len());
        let mut series = HashMap::<u64, u32, BuildHasherDefault<DefaultHasher>>::default();
        for (line, kept) in lines.iter().enumerate() {
            let start = mentions.len();
            let mut found = identifiers(kept.bytes);
            while let Some(text) = found.next() {
                let id = *index.entry(text).or_insert_with(|| {
                    let key = form == Form::Json && found.rest().starts_with(b"\":");
                    let one_of = one_of(text);
                    if let Some(shape) = one_of {
                        *series.entry(shape).or_default() += 1;
                    }
                    names.push(Name {
                        text,
                        line,
                        count: 0,
                        declared: false,
                        key,
                        series: one_of,
                        worth: 0,
                    });
                    (names.len() - 1) as u32
                });
                names[id as usize].count += 1;
                if !mentions[start..].contains(&id) {
                    mentions.push(id);
                }
            }
            if mentions.len() > start && declares(kept.bytes) {
                for id in &mentions[start..] {
                    names[*id as usize].declared = true;
                }
            }
            ranges.push(start..mentions.len());
        }
        for name in &mut names {
            // What recurs in text is what it is about; what recurs in JSON is its form.
            let count = match form {
                Form::Text => name.count,
                Form::Json => 4_u32.saturating_sub(name.count),
            };
            name.worth = worth(name.text, count) * if name.declared { 3 } else { 2 };
            if name.key {
                name.worth /= 4;
            }
            if name.series.is_some_and(|shape| series[&shape] > SERIES) {
                name.worth = 0;
            }
        }
        Self { lines, names, index, mentions, ranges, ranked: BinaryHeap::new() }
    }

    /// What `shown` names is worth nothing any more.
    pub(super) fn hide(&mut self, shown: &str) {
        for shown in identifiers(shown.as_bytes()) {
            if let Some(id) = self.index.get(shown) {
                self.names[*id as usize].worth = 0;
            }
        }
        self.ranked = (0..self.lines.len())
            .map(|line| (self.worth_per_char(line), Reverse(line)))
            .filter(|(worth, _)| *worth > 0)
            .collect();
    }

    fn worth_per_char(&self, line: usize) -> u64 {
        let mentions = &self.mentions[self.ranges[line].clone()];
        let worth: u64 = mentions.iter().map(|id| self.names[*id as usize].worth).sum();
        worth * 1_000 / (self.lines[line].bytes.len() as u64 + LINE_COST)
    }

    /// Takes the line that is worth most per character among those `fits` lets through; what it
    /// names counts as shown from here on.
    pub(super) fn take_line(
        &mut self,
        mut fits: impl FnMut(&Kept<'a>) -> bool,
    ) -> Option<Kept<'a>> {
        while let Some((before, Reverse(line))) = self.ranked.pop() {
            let now = self.worth_per_char(line);
            if now < before {
                if now > 0 {
                    self.ranked.push((now, Reverse(line)));
                }
                continue;
            }
            let kept = self.lines[line];
            if fits(&kept) {
                for id in &self.mentions[self.ranges[line].clone()] {
                    self.names[*id as usize].worth = 0;
                }
                return Some(kept);
            }
        }
        None
    }

    /// The names worth most per character that fit in `room` characters, by the number of the line
    /// they stand in first; `shown` is all that stands in view already.
    pub(super) fn take_names(&self, room: usize, shown: &str) -> BTreeMap<u64, Vec<&'a str>> {
        let mut order: Vec<&Name<'a>> = self.names.iter().filter(|name| name.worth > 0).collect();
        order.sort_by_key(|name| {
            (Reverse(name.worth * 1_000 / (name.text.len() as u64 + NAME_COST)), name.line)
        });
        let mut taken: BTreeMap<u64, Vec<&'a str>> = BTreeMap::new();
        let mut shown = shown.to_owned();
        let mut left = room;
        let mut misses = 0;
        let mut of_series = HashSet::<u64, BuildHasherDefault<DefaultHasher>>::default();
        for name in order {
            let number = self.lines[name.line].number;
            let label = if taken.contains_key(&number) { 0 } else { digits(number) + 2 };
            let cost = name.text.len() + 1 + label;
            if cost > left {
                misses += 1;
                if left < 10 || misses > 100 {
                    break;
                }
                continue;
            }
            if memmem::find(shown.as_bytes(), name.text).is_some() {
                continue;
            }
            // One of a series stands for all of them.
            if name.series.is_some_and(|shape| shape != NUMBERS && !of_series.insert(shape)) {
                continue;
            }
            // An identifier is ASCII by definition.
            if let Ok(text) = std::str::from_utf8(name.text) {
                left -= cost;
                shown.push(' ');
                shown.push_str(text);
                taken.entry(number).or_default().push(text);
            }
        }
        taken
    }
}

/// The shape of all names that are nothing but numbers.
const NUMBERS: u64 = 0;

/// The shape of a name with digits: all its numbers the same. Names that are nothing but numbers,
/// as dates, positions and amounts are, have one shape.
fn one_of(name: &[u8]) -> Option<u64> {
    if !has_word(name) {
        return Some(NUMBERS);
    }
    name.iter().any(u8::is_ascii_digit).then(|| shape(name))
}

/// How many digits a number has.
pub(super) fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}
