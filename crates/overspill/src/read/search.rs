//! Finds the lines of a stored payload that match, within a bound of bytes looked at.
//!
//! A regular expression is looked for in each line by itself, though many lines are looked through
//! at once: it is compiled so that no match reaches over a line end. A line is what stands before
//! `\n` or `\r\n`, however long; where the line grid cuts it, a match goes on.

use std::borrow::Cow;
use std::fmt;

use memchr::memmem::Finder;
use regex::bytes::RegexBuilder;
use regex_automata::Input;
use regex_automata::meta::Regex;
use regex_syntax::hir::{
    Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look,
    Repetition,
};
use thiserror::Error;

use crate::ansi::Stripper;
use crate::render::show_bytes;
use crate::store::{Block, Cursor, StoreError, Stored};

use super::MAX_SEARCHED_BYTES;

/// Bytes behind a block that a match may reach into where the block ends within a long line.
const OVERLAP_BYTES: usize = 64 * 1024;

/// Bytes before a block that say whether a line or a word begins there: the longest character.
const BEFORE_BYTES: usize = 4;

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
    /// in what it looks at.
    ///
    /// It is looked for in each line by itself: `^` and `\A`, `$` and `\z` stand for the ends of a
    /// line, of one that ends with `\r\n` too, and no class matches a `\r` or `\n`.
    ///
    /// # Errors
    ///
    /// [`PatternError`] where it is longer than 4 KiB, cannot be parsed, asks for a `\n`, or would
    /// take more than a megabyte.
    pub fn regex(source: &str) -> Result<Self, PatternError> {
        if source.len() > REGEX_LEN {
            let why = format!("it is {} bytes long, and may be {REGEX_LEN}", source.len());
            return Err(PatternError(why));
        }
        let regex = compile(source)?;
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
            Matcher::Regex(regex) => {
                let mut from = from;
                while from <= bytes.len() {
                    let rest = Input::new(bytes).range(from..).earliest(true);
                    let end = regex.search_half(&rest)?.offset();
                    let start = regex.find(Input::new(bytes).range(from..end))?.start();
                    // No character begins between `\r` and `\n`, but `\B` is content with nothing.
                    let is_within_end =
                        bytes[..start].ends_with(b"\r") && bytes[start..].starts_with(b"\n");
                    if !is_within_end {
                        return Some((start, end));
                    }
                    from = start + 1;
                }
                None
            }
        }
    }
}

/// Compiles a regular expression that is looked for in each line by itself.
fn compile(source: &str) -> Result<Regex, PatternError> {
    let mut parser =
        regex_syntax::ParserBuilder::new().utf8(false).multi_line(true).crlf(true).build();
    let parsed = parser.parse(source).map_err(|error| PatternError(reason(&error)))?;
    let config = Regex::config()
        .utf8_empty(false)
        .nfa_size_limit(Some(REGEX_BYTES))
        .hybrid_cache_capacity(REGEX_BYTES);
    let built = Regex::builder().configure(config).build_from_hir(&within_line(parsed)?);
    built.map_err(|error| {
        PatternError(match error.size_limit() {
            Some(limit) => format!("compiled, it would take more than {limit} bytes"),
            None => reason(&error),
        })
    })
}

/// The same expression, but it matches within a line only.
fn within_line(hir: Hir) -> Result<Hir, PatternError> {
    let each = |subs: Vec<Hir>| subs.into_iter().map(within_line).collect::<Result<Vec<_>, _>>();
    Ok(match hir.into_kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) if literal.0.contains(&b'\n') => {
            let why = "it is looked for in each line by itself, so it cannot hold `\\n`; `$` stands \
                       for the end of a line";
            return Err(PatternError(why.to_owned()));
        }
        HirKind::Literal(literal) => Hir::literal(literal.0),
        HirKind::Class(Class::Unicode(mut class)) => {
            let ends = ['\r', '\n'].map(|end| ClassUnicodeRange::new(end, end));
            class.difference(&ClassUnicode::new(ends));
            Hir::class(Class::Unicode(class))
        }
        HirKind::Class(Class::Bytes(mut class)) => {
            let ends = [b'\r', b'\n'].map(|end| ClassBytesRange::new(end, end));
            class.difference(&ClassBytes::new(ends));
            Hir::class(Class::Bytes(class))
        }
        HirKind::Look(Look::Start) => Hir::look(Look::StartCRLF),
        HirKind::Look(Look::End) => Hir::look(Look::EndCRLF),
        HirKind::Look(look) => Hir::look(look),
        HirKind::Repetition(Repetition { min, max, greedy, sub }) => {
            let sub = Box::new(within_line(*sub)?);
            Hir::repetition(Repetition { min, max, greedy, sub })
        }
        // Nobody asks for what a group holds.
        HirKind::Capture(capture) => within_line(*capture.sub)?,
        HirKind::Concat(subs) => Hir::concat(each(subs)?),
        HirKind::Alternation(subs) => Hir::alternation(each(subs)?),
    })
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
fn reason(error: &dyn std::error::Error) -> String {
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
    stored: &'s Stored,
    cursor: Cursor<'s>,
    /// The block to look through next, read ahead; `None` before the first.
    block: Option<Block>,
    is_started: bool,
    /// The last bytes before the block, where none of its lines ends there.
    before: Vec<u8>,
    /// How far the last match reaches into the block, in bytes as they are shown.
    reach: usize,
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
        let stripper = strip_ansi.then(Stripper::default);
        Self {
            pattern,
            stripper,
            stored,
            cursor: stored.blocks(from),
            block: None,
            is_started: false,
            before: Vec::new(),
            reach: 0,
        }
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
            if let Some(block) = self.block.as_ref().filter(|block| block.is_continued()) {
                let start = block.offset();
                let from = start.saturating_sub(BEFORE_BYTES as u64);
                self.before = self.stored.bytes(from..start).await?.into();
            }
        }
        let Some(this) = self.block.take() else { return Ok(None) };
        self.block = self.cursor.next().await?;
        let window = Window::new(&self.before, &this, self.block.as_ref(), self.stripper.as_mut());
        let hits = window.hits(&this, self.pattern, &mut self.reach);
        self.before = window.before_next(&this);
        let end = this.first_line() + this.line_count();
        Ok(Some(Found { hits, end, bytes: this.bytes().len() as u64 }))
    }
}

/// Bytes that a backward search looks at in one go.
const BLOCK_BYTES: u64 = 1 << 20;

/// A block as it is shown, and a little of what stands before and behind it in a line that is cut.
struct Window<'b> {
    bytes: Cow<'b, [u8]>,
    /// Where the block itself starts in `bytes`.
    start: usize,
    /// Where it ends.
    own: usize,
    /// Whether it ends the payload with a line that has no `\n`.
    is_open: bool,
    /// Line numbers and where the lines end in `bytes`, where taking out control sequences moved
    /// them.
    moved: Option<Vec<(u64, usize)>>,
}

impl<'b> Window<'b> {
    fn new(
        before: &[u8],
        block: &'b Block,
        next: Option<&Block>,
        mut stripper: Option<&mut Stripper>,
    ) -> Self {
        let start = before.len();
        let (mut bytes, moved) = if let Some(stripper) = &mut stripper {
            let mut bytes = Vec::with_capacity(start + block.bytes().len());
            bytes.extend_from_slice(before);
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
        } else if start > 0 {
            (Cow::Owned([before, block.bytes()].concat()), None)
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
        let is_open = next.is_none() && !bytes.ends_with(b"\n");
        Self { bytes, start, own, is_open, moved }
    }

    /// What stands before the next block, where no line ends in between.
    fn before_next(&self, block: &Block) -> Vec<u8> {
        let own = &self.bytes[..self.own];
        match block.is_cut_off() {
            true => own[own.len().saturating_sub(BEFORE_BYTES)..].to_vec(),
            false => Vec::new(),
        }
    }

    /// The block's lines that a match touches. Lines are looked for only where there is one.
    fn hits(&self, block: &Block, pattern: &Pattern, reach: &mut usize) -> Vec<Hit> {
        // What begins at the end of a last line without `\n` is in that line.
        let behind = |end| if end == self.own && self.is_open { end + 1 } else { end };
        let find =
            |from| pattern.find_at(&self.bytes, from).filter(|(at, _)| *at < behind(self.own));
        let mut found = find(self.start);
        let mut hits = Vec::new();
        if found.is_none() && *reach == 0 {
            return hits;
        }
        // A match that began in the block before covers this block's first bytes.
        let mut covered = self.start + *reach;
        let base = block.offset();
        let ends: Vec<(u64, usize)> = match &self.moved {
            Some(moved) => moved.clone(),
            None => block
                .lines()
                .map(|line| {
                    let start = self.start + (line.offset - base) as usize;
                    (line.number, start + line.bytes.len())
                })
                .collect(),
        };
        let mut start = self.start;
        for (number, end) in ends {
            let mut is_hit = start < covered;
            while let Some((_, to)) = found.filter(|(at, _)| *at < behind(end)) {
                is_hit = true;
                covered = covered.max(to);
                // The next match that matters begins behind this line and this match.
                found = find(behind(end).max(covered));
            }
            if is_hit {
                let text = show_bytes(&self.bytes[start..end]).into_owned();
                hits.push(Hit { line: number, text });
            }
            start = end;
        }
        *reach = covered.saturating_sub(self.own);
        hits
    }
}
