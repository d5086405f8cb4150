//! Finds the lines of a stored payload that match, within a bound of bytes looked at.

use std::borrow::Cow;
use std::fmt;

use memchr::memmem::Finder;
use regex::bytes::{Regex, RegexBuilder};
use thiserror::Error;

use crate::ansi::Stripper;
use crate::render::show_bytes;
use crate::store::{Block, Cursor, StoreError, Stored};

/// Bytes behind a block that a match may reach into where the block ends within a long line.
const OVERLAP_BYTES: usize = 64 * 1024;

/// What compiling a regular expression may take, in bytes; a larger one is refused.
const REGEX_BYTES: usize = 1 << 20;

/// What is looked for.
#[derive(Debug, Clone)]
pub struct Pattern {
    source: String,
    matcher: Matcher,
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
        Self { source: text.to_owned(), matcher: Matcher::Text(Box::new(finder)) }
    }

    /// Looks for a regular expression, in the syntax of Rust's `regex` crate. Its time is linear
    /// in what it looks at; `^` and `$` stand for the ends of a line.
    ///
    /// # Errors
    ///
    /// [`PatternError`] where it cannot be parsed, or would take more than a megabyte.
    pub fn regex(source: &str) -> Result<Self, PatternError> {
        let regex = RegexBuilder::new(source)
            .multi_line(true)
            .crlf(true)
            .size_limit(REGEX_BYTES)
            .dfa_size_limit(REGEX_BYTES)
            .build()
            .map_err(|error| {
                // The error draws the pattern over several lines and says why on the last.
                let text = error.to_string();
                let why = text.lines().last().unwrap_or_default();
                PatternError(why.trim().trim_start_matches("error: ").to_owned())
            })?;
        Ok(Self { source: source.to_owned(), matcher: Matcher::Regex(regex) })
    }

    fn find_at(&self, bytes: &[u8], from: usize) -> Option<(usize, usize)> {
        match &self.matcher {
            Matcher::Text(finder) => {
                let at = from + finder.find(bytes.get(from..)?)?;
                Some((at, at + finder.needle().len()))
            }
            Matcher::Regex(regex) if from <= bytes.len() => {
                regex.find_at(bytes, from).map(|found| (found.start(), found.end()))
            }
            Matcher::Regex(_) => None,
        }
    }
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
        let step = (receipt.lines * BLOCK_BYTES).checked_div(receipt.bytes).unwrap_or(1).max(1);
        let mut left = self.bytes / BLOCK_BYTES;
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
    strip_ansi: bool,
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
        Self { pattern, strip_ansi, cursor, block: None, is_started: false, matched_to: 0 }
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
        let window = Window::new(&this, self.block.as_ref(), self.strip_ansi);
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
    fn new(block: &'b Block, next: Option<&Block>, strip_ansi: bool) -> Self {
        let (mut bytes, moved) = if strip_ansi {
            let mut stripper = Stripper::default();
            let mut bytes = Vec::with_capacity(block.bytes().len());
            let mut lines = Vec::new();
            for line in block.lines() {
                bytes.extend_from_slice(&stripper.strip(line.bytes));
                lines.push((line.number, bytes.len()));
            }
            (Cow::Owned(bytes), Some(lines))
        } else {
            (Cow::Borrowed(&block.bytes()[..]), None)
        };
        let own = bytes.len();
        if let Some(next) = next.filter(|_| block.is_cut_off()) {
            let more = &next.bytes()[..next.bytes().len().min(OVERLAP_BYTES)];
            let more = if strip_ansi { crate::ansi::strip(more) } else { more.into() };
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
            while let Some((at, to)) = found.filter(|(at, _)| *at < end) {
                is_hit = true;
                covered = covered.max(to);
                // The next match that matters begins in a later line.
                let from = end.max(at + 1);
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
