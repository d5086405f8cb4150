//! Finds the lines of a stored payload that match, within a bound of bytes looked at.

use std::borrow::Cow;
use std::fmt;

use memchr::memmem::Finder;
use regex::bytes::{Regex, RegexBuilder};
use thiserror::Error;

use crate::ansi::Stripper;
use crate::render::show_bytes;
use crate::store::{Block, Cursor, StoreError, Stored};

use super::MAX_SEARCHED_BYTES;

/// Bytes behind a block that a match may reach into where the block ends within a long line.
const OVERLAP_BYTES: usize = 64 * 1024;

/// What compiling a regular expression may take, in bytes; a larger one is refused.
const REGEX_BYTES: usize = 1 << 20;

/// How long a regular expression may be, in bytes: classes such as `\pL` take a thousand times as
/// much while they are compiled.
const REGEX_LEN: usize = 4 * 1024;

/// What a search with a regular expression may take: the size of what is compiled, in bytes, for
/// each byte looked at. Where no automaton can be built for it, every state that is compiled is
/// followed at every byte; as many as this take some ten seconds (`[ab]*a[ab]{5000}z` on random
/// letters: 0.1 ns for each byte of size at each byte).
const REGEX_WORK: u64 = 1 << 37;

/// What is looked for.
#[derive(Debug, Clone)]
pub struct Pattern {
    source: String,
    matcher: Matcher,
    bytes_at_once: u64,
}

#[derive(Debug, Clone)]
enum Matcher {
    Text(Box<Finder<'static>>),
    Regex(Regex),
}

/// Why a text is no pattern, in a sentence for the model.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`pattern` is no regular expression that can be used: {0}. Leave out `regex` to look for the text as it is."
)]
pub struct PatternError(String);

impl Pattern {
    /// Looks for this text as it is.
    pub fn literal(text: &str) -> Self {
        let finder = Finder::new(text.as_bytes()).into_owned();
        let matcher = Matcher::Text(Box::new(finder));
        Self { source: text.to_owned(), matcher, bytes_at_once: MAX_SEARCHED_BYTES }
    }

    /// Looks for a regular expression, in the syntax of Rust's `regex` crate. Its time is linear
    /// in what it looks at; `^` and `$` stand for the ends of a line.
    ///
    /// # Errors
    ///
    /// [`PatternError`] where it is longer than 4 KiB, cannot be parsed, or would take more than
    /// a megabyte.
    pub fn regex(source: &str) -> Result<Self, PatternError> {
        if source.len() > REGEX_LEN {
            let why = format!("it is {} bytes long, and may be {REGEX_LEN}", source.len());
            return Err(PatternError(why));
        }
        let regex = RegexBuilder::new(source)
            .multi_line(true)
            .crlf(true)
            .size_limit(REGEX_BYTES)
            .dfa_size_limit(REGEX_BYTES)
            .build()
            .map_err(|error| PatternError(reason(&error)))?;
        let bytes_at_once = MAX_SEARCHED_BYTES.min(REGEX_WORK / compiled_size(source));
        Ok(Self { source: source.to_owned(), matcher: Matcher::Regex(regex), bytes_at_once })
    }

    /// How many bytes one search should look at at most: the less, the more a regular expression
    /// can take.
    pub fn bytes_at_once(&self) -> u64 {
        self.bytes_at_once
    }

    /// The next match to end that begins at or behind `from`.
    ///
    /// The next to end and not the longest: looking for more than that could reach to the end of
    /// `bytes` for each line that matches.
    fn find_at(&self, bytes: &[u8], from: usize) -> Option<(usize, usize)> {
        match &self.matcher {
            Matcher::Text(finder) => {
                let at = from + finder.find(bytes.get(from..)?)?;
                Some((at, at + finder.needle().len()))
            }
            Matcher::Regex(regex) if from <= bytes.len() => {
                let end = regex.shortest_match_at(bytes, from)?;
                // Cut off there, it may look like the end of a word or line, or not: then what
                // counts is where the last byte is.
                let last =
                    if bytes[from..end].ends_with(b"\n") { end } else { end.max(from + 1) - 1 };
                let found = regex.find_at(&bytes[..end], from);
                Some((found.map_or(last, |found| found.start()), end))
            }
            Matcher::Regex(_) => None,
        }
    }
}

/// How much there is to follow in a regular expression once it is compiled, in bytes, rounded up
/// to a power of 2. Without Unicode where it can do without, because wide classes are large but
/// followed in a few states.
fn compiled_size(source: &str) -> u64 {
    let max = REGEX_BYTES as u64;
    size(source, false, max).or_else(|_| size(source, true, max)).unwrap_or(max)
}

/// How large a regular expression is once it is compiled, in bytes, rounded up to a power of 2.
///
/// # Errors
///
/// Why it cannot be compiled, or not within `max` bytes.
pub(super) fn full_size(source: &str, max: u64) -> Result<u64, String> {
    size(source, true, max).map_err(|error| reason(&error))
}

fn size(source: &str, unicode: bool, max: u64) -> Result<u64, regex::Error> {
    let build = |size: u64| {
        RegexBuilder::new(source).unicode(unicode).size_limit(size as usize).build().map(|_| size)
    };
    let sizes = std::iter::successors(Some(2 * 1024), |size| Some(size * 2));
    sizes
        .take_while(|size| *size < max)
        .find_map(|size| build(size).ok())
        .map_or_else(|| build(max), Ok)
}

/// Why it cannot be compiled. The error draws the pattern over several lines and says why on the
/// last.
fn reason(error: &regex::Error) -> String {
    let text = error.to_string();
    let why = text.lines().last().unwrap_or_default();
    why.trim().trim_start_matches("error: ").trim_end_matches('.').to_owned()
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

/// A line that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Its number.
    pub line: u64,
    /// The line as it is shown, its end included.
    pub text: String,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Searched {
    /// The lines that match, in their order.
    pub hits: Vec<Hit>,
    /// The lines looked at: from the first to before the second.
    pub searched: (u64, u64),
    /// The line to go on from, forward, or up to, backward; `None` where all was looked at.
    pub next: Option<u64>,
}

/// A search, and where it stops.
#[derive(Debug, Clone, Copy)]
pub struct Search<'p> {
    /// What to look for.
    pub pattern: &'p Pattern,
    /// Whether terminal control sequences are taken out before.
    pub strip_ansi: bool,
    /// How many lines to find at most.
    pub limit: u64,
    /// How many bytes to look at, about.
    pub bytes: u64,
}

impl Search<'_> {
    /// Looks from line `from` on.
    ///
    /// # Errors
    ///
    /// Whatever the store says.
    pub async fn forward(&self, stored: &Stored, from: u64) -> Result<Searched, StoreError> {
        self.between(stored, from, stored.receipt().lines, self.limit).await
    }

    /// Looks for the last lines that match before line `to`, from there backward.
    ///
    /// # Errors
    ///
    /// Whatever the store says.
    pub async fn backward(&self, stored: &Stored, to: u64) -> Result<Searched, StoreError> {
        let receipt = stored.receipt();
        // About as many lines at a time as a block has.
        let block = BLOCK_BYTES.min(self.bytes).max(1);
        let step = (receipt.lines * block).checked_div(receipt.bytes).unwrap_or(1).max(1);
        let mut left = self.bytes.max(1) / block;
        let (mut start, mut hits) = (to, Vec::new());
        while start > 0 && left > 0 && (hits.len() as u64) < self.limit {
            let end = start;
            start = end.saturating_sub(step);
            left -= 1;
            let mut before = self.between(stored, start, end, u64::MAX).await?.hits;
            before.append(&mut hits);
            hits = before;
        }
        let extra = hits.len().saturating_sub(self.limit as usize);
        hits.drain(..extra);
        let next = match hits.first() {
            Some(first) if extra > 0 || (hits.len() as u64 == self.limit && start > 0) => {
                Some(first.line)
            }
            _ => Some(start).filter(|start| *start > 0),
        };
        Ok(Searched { hits, searched: (next.unwrap_or(start), to), next })
    }

    async fn between(
        &self,
        stored: &Stored,
        from: u64,
        to: u64,
        limit: u64,
    ) -> Result<Searched, StoreError> {
        let mut matches = Matches::new(self.pattern, self.strip_ansi, stored, from);
        let mut hits = Vec::new();
        let mut bytes = 0;
        let mut end = from;
        while end < to
            && let Some(found) = matches.next().await?
        {
            for hit in found.hits {
                if hit.line >= to {
                    break;
                }
                if hits.len() as u64 == limit {
                    let next = Some(hit.line);
                    return Ok(Searched { hits, searched: (from, hit.line), next });
                }
                hits.push(hit);
            }
            bytes += found.bytes;
            end = found.end;
            if bytes >= self.bytes && end < to {
                return Ok(Searched { hits, searched: (from, end), next: Some(end) });
            }
        }
        Ok(Searched { hits, searched: (from, to), next: None })
    }
}

/// Looks through a stored payload block by block, to its end: a search without bounds, in flat
/// memory.
#[derive(Debug)]
pub struct Matches<'s> {
    pattern: &'s Pattern,
    /// Takes out control sequences, which may go on from one block to the next.
    stripper: Option<Stripper>,
    cursor: Cursor<'s>,
    /// The block to look through next, read ahead; `None` before the first.
    block: Option<Block>,
    is_started: bool,
    /// Where, in the payload, the last match ends: it may reach into the next block.
    matched_to: u64,
}

/// What is found in one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The lines that match, in their order.
    pub hits: Vec<Hit>,
    /// The line behind the block.
    pub end: u64,
    /// How many bytes the block has.
    pub bytes: u64,
}

impl<'s> Matches<'s> {
    /// Looks for `pattern` from line `from` on, without terminal control sequences where
    /// `strip_ansi` says so.
    pub fn new(pattern: &'s Pattern, strip_ansi: bool, stored: &'s Stored, from: u64) -> Self {
        let cursor = stored.blocks(from);
        let stripper = strip_ansi.then(Stripper::default);
        Self { pattern, stripper, cursor, block: None, is_started: false, matched_to: 0 }
    }

    /// Looks through the next block; `None` at the end of the payload.
    ///
    /// # Errors
    ///
    /// Whatever the store says.
    pub async fn next(&mut self) -> Result<Option<Found>, StoreError> {
        if !self.is_started {
            self.block = self.cursor.next().await?;
            self.is_started = true;
        }
        let Some(this) = self.block.take() else { return Ok(None) };
        self.block = self.cursor.next().await?;
        let window = Window::new(&this, self.block.as_ref(), self.stripper.as_mut());
        let hits = window.hits(&this, self.pattern, &mut self.matched_to);
        let end = this.first_line() + this.line_count();
        Ok(Some(Found { hits, end, bytes: this.bytes().len() as u64 }))
    }
}

/// Bytes that a backward search looks at in one go.
const BLOCK_BYTES: u64 = 1 << 20;

/// A block as it is shown, and a little of what follows it.
struct Window<'b> {
    bytes: Cow<'b, [u8]>,
    /// Where the block itself ends in `bytes`.
    own: usize,
    /// Line numbers and where the lines end in `bytes`, where taking out control sequences moved
    /// them.
    moved: Option<Vec<(u64, usize)>>,
}

impl<'b> Window<'b> {
    fn new(block: &'b Block, next: Option<&Block>, mut stripper: Option<&mut Stripper>) -> Self {
        let (mut bytes, moved) = if let Some(stripper) = &mut stripper {
            let mut bytes = Vec::with_capacity(block.bytes().len());
            let mut lines = Vec::new();
            for line in block.lines() {
                bytes.extend_from_slice(&stripper.strip(line.bytes));
                lines.push((line.number, bytes.len()));
            }
            if let (None, Some((_, end))) = (next, lines.last_mut()) {
                bytes.append(&mut std::mem::take(*stripper).finish());
                *end = bytes.len();
            }
            (Cow::Owned(bytes), Some(lines))
        } else {
            (Cow::Borrowed(&block.bytes()[..]), None)
        };
        let own = bytes.len();
        if let Some(next) = next.filter(|_| block.is_cut_off()) {
            let more = &next.bytes()[..next.bytes().len().min(OVERLAP_BYTES)];
            let more = match stripper {
                Some(stripper) => stripper.clone().strip(more),
                None => Cow::Borrowed(more),
            };
            bytes.to_mut().extend_from_slice(&more);
        }
        Self { bytes, own, moved }
    }

    /// The block's lines that a match touches. Lines are looked for only where there is one.
    fn hits(&self, block: &Block, pattern: &Pattern, matched_to: &mut u64) -> Vec<Hit> {
        let base = block.offset();
        // A match that began in the block before covers this block's first bytes.
        let mut covered = (matched_to.saturating_sub(base)) as usize;
        let mut found = pattern.find_at(&self.bytes, 0).filter(|(at, _)| *at < self.own);
        let mut hits = Vec::new();
        if found.is_none() && covered == 0 {
            return hits;
        }
        let ends: Vec<(u64, usize)> = match &self.moved {
            Some(moved) => moved.clone(),
            None => block
                .lines()
                .map(|line| (line.number, (line.offset - base) as usize + line.bytes.len()))
                .collect(),
        };
        let mut start = 0;
        for (number, end) in ends {
            let mut is_hit = start < covered;
            while let Some((_, to)) = found.filter(|(at, _)| *at < end) {
                is_hit = true;
                covered = covered.max(to);
                // The next match that matters begins behind this line and this match.
                let from = end.max(covered);
                found = pattern.find_at(&self.bytes, from).filter(|(at, _)| *at < self.own);
            }
            if is_hit {
                let text = show_bytes(&self.bytes[start..end]).into_owned();
                hits.push(Hit { line: number, text });
            }
            start = end;
        }
        *matched_to = if covered > self.own { base + covered as u64 } else { 0 };
        hits
    }
}
