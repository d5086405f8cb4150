//! Which verbatim slices of a payload stay in view?
//!
//! Head and tail always; then the lines that carry the news; then, in the room left, the lines and
//! the bare names that are likeliest to be needed again, each with its line number. JSON shows its
//! shape instead of its middle, and binary data its first bytes and the names in it. Nothing is
//! ever paraphrased: what stands in an excerpt stands so in the payload, apart from the words in
//! brackets, the line numbers, and `\xNN` for bytes that are not UTF-8.

mod held;
mod hints;
mod identifiers;
mod names;
mod news;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::lines::{Line, LineScanner, MAX_LINE_CHARS};
use held::{Held, Kept, chomp};
use names::{Names, digits};
use news::{Kind, News};

/// The most bytes a line of the grid can have.
const LINE_BYTES: usize = 4 * MAX_LINE_CHARS + 2;

/// Chooses an excerpt in one pass over a payload's lines, in constant memory.
#[derive(Debug)]
pub struct Excerpter {
    chars: usize,
    held: Held,
    news: News,
    lines: u64,
}

/// What stays in view of a payload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Excerpt {
    /// The text, within the characters asked for.
    pub text: String,
    /// How many lines of the payload stand in it whole.
    pub shown_lines: u64,
}

/// Chooses the excerpt of a payload that is in memory whole.
pub fn excerpt(payload: &[u8], chars: usize) -> Excerpt {
    let mut excerpter = Excerpter::new(chars);
    LineScanner::default().scan(payload, true, &mut |line| excerpter.line(line));
    excerpter.finish()
}

impl Excerpter {
    /// Starts on an excerpt of at most `chars` characters; 0 asks for none.
    pub fn new(chars: usize) -> Self {
        Self { chars, held: Held::new(4 * chars), news: News::default(), lines: 0 }
    }

    /// Looks at the next line; every line of the grid is to be given, in order.
    pub fn line(&mut self, line: Line<'_>) {
        if self.chars == 0 {
            return;
        }
        self.lines = line.number + 1;
        let bytes = &line.bytes[..line.bytes.len().min(LINE_BYTES)];
        self.held.line(line.number, bytes);
        self.news.line(line.number, bytes);
    }

    /// Chooses among what was seen.
    pub fn finish(self) -> Excerpt {
        let held = self.held.lines();
        let mut page = Page::new(self.chars, &held, self.lines);
        if !page.whole() {
            page.ends();
            page.news(self.news);
            page.names();
        }
        page.text()
    }
}

/// Of 100 characters, how many the first lines get, and the last lines. Recorded sessions need
/// the ends of a result no more than its middle; what a result is, and how it ended, needs a few lines.
const END_SHARE: usize = 15;
/// The brackets and words around what is shown of the middle.
const WORDS: usize = 75;
/// A line of the middle is shown whole up to this many characters, beyond cut.
const LONG: usize = 240;

/// An excerpt in the making.
#[derive(Debug)]
struct Page<'a> {
    chars: usize,
    room: usize,
    held: &'a [Kept<'a>],
    total: u64,
    head: Vec<String>,
    /// Indices into `held` that are neither head nor tail.
    middle: std::ops::Range<usize>,
    tail: Vec<String>,
    picked: BTreeMap<u64, String>,
    names: BTreeMap<u64, Vec<&'a str>>,
    shown_lines: u64,
}

impl<'a> Page<'a> {
    fn new(chars: usize, held: &'a [Kept<'a>], total: u64) -> Self {
        Self {
            chars,
            room: chars,
            held,
            total,
            head: Vec::new(),
            middle: 0..held.len(),
            tail: Vec::new(),
            picked: BTreeMap::new(),
            names: BTreeMap::new(),
            shown_lines: 0,
        }
    }

    /// Shows everything if that fits.
    fn whole(&mut self) -> bool {
        if self.held.len() as u64 != self.total {
            return false;
        }
        let mut left = self.chars;
        let mut lines = Vec::new();
        for kept in self.held {
            let line = shown(kept.bytes);
            match left.checked_sub(line.chars().count() + 1) {
                Some(rest) => left = rest,
                None => return false,
            }
            lines.push(line);
        }
        self.head = lines;
        self.middle = 0..0;
        self.shown_lines = self.total;
        true
    }

    /// The first and the last lines, whole where they fit.
    fn ends(&mut self) {
        let share = (self.chars * END_SHARE / 100).max((self.chars / 3).min(100));
        let mut left = share;
        while let Some(kept) = self.held.get(self.middle.start) {
            let line = shown(kept.bytes);
            let length = line.chars().count() + 1;
            if length > left {
                if self.head.is_empty() {
                    let cut = cut(&line, left);
                    self.room = self.room.saturating_sub(cut.chars().count() + 1);
                    self.head.push(cut);
                }
                break;
            }
            left -= length;
            self.room -= length;
            self.head.push(line);
            self.shown_lines += 1;
            self.middle.start += 1;
        }
        left = share;
        while self.middle.end > self.middle.start {
            let line = shown(self.held[self.middle.end - 1].bytes);
            let length = line.chars().count() + 1;
            if length > left {
                if self.tail.is_empty() {
                    let cut = cut_front(&line, left);
                    self.room = self.room.saturating_sub(cut.chars().count() + 1);
                    self.tail.push(cut);
                }
                break;
            }
            left -= length;
            self.room -= length;
            self.tail.push(line);
            self.shown_lines += 1;
            self.middle.end -= 1;
        }
        self.tail.reverse();
        self.room = self.room.saturating_sub(WORDS);
    }

    /// Adds a line of the middle if it fits in `room`, cut where it is long; whether it did.
    fn pick(&mut self, kept: &Kept<'_>, room: usize) -> bool {
        if self.picked.contains_key(&kept.number) {
            return true;
        }
        let label = digits(kept.number) + 3;
        let line = shown(kept.bytes);
        let whole = line.chars().count() <= LONG;
        let line = if whole { line } else { cut(&line, LONG) };
        let length = line.chars().count() + label;
        if length > room.min(self.room) {
            return false;
        }
        self.room -= length;
        self.shown_lines += u64::from(whole);
        self.picked.insert(kept.number, line);
        true
    }

    fn inside(&self, number: u64) -> bool {
        self.held[self.middle.clone()].first().is_some_and(|first| first.number <= number)
            && self.held[self.middle.clone()].last().is_some_and(|last| number <= last.number)
    }

    fn news(&mut self, news: News) {
        let mut mentions = self.room / 3;
        for story in news.stories() {
            for kept in story.lines() {
                if !self.inside(kept.number) {
                    continue;
                }
                let before = self.room;
                let room = if story.kind == Kind::Mention { mentions } else { self.room };
                if !self.pick(&kept, room) {
                    break;
                }
                if story.kind == Kind::Mention {
                    mentions -= before - self.room;
                }
            }
        }
    }

    /// The lines and the names that are likeliest to be needed again.
    fn names(&mut self) {
        let seen = self.seen();
        let held = self.held;
        let mut names = Names::new(&held[self.middle.clone()], &seen);
        let mut lines = self.room / 2;
        while lines > 20 {
            let room = self.room;
            let Some(kept) = names.take_line(|kept| {
                kept.bytes.len() <= LONG && kept.bytes.len() + digits(kept.number) + 3 <= lines
            }) else {
                break;
            };
            self.pick(&kept, lines);
            lines -= room - self.room;
        }
        let seen = self.seen();
        self.names = names.take_names(self.room, &seen);
    }

    fn seen(&self) -> String {
        let all = self.head.iter().chain(self.picked.values()).chain(&self.tail);
        all.map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    fn text(self) -> Excerpt {
        let mut text = String::new();
        for line in &self.head {
            let _ = writeln!(text, "{line}");
        }
        let hidden = self.total - self.shown_lines;
        if hidden > 0 {
            let among = !self.picked.is_empty() || !self.names.is_empty();
            let s = if hidden == 1 { "" } else { "s" };
            let among = if among { "; among those between:" } else { "" };
            let _ = writeln!(text, "[{hidden} line{s} not shown{among}]");
        }
        for (number, line) in &self.picked {
            let _ = writeln!(text, "{number}: {line}");
        }
        if !self.names.is_empty() {
            let names = self.names.iter().map(|(n, names)| format!("{n}: {}", names.join(" ")));
            let _ = writeln!(text, "also {}", names.collect::<Vec<_>>().join(" "));
        }
        if !self.tail.is_empty() {
            let _ = writeln!(text, "[from line {}:]", self.total - self.tail.len() as u64);
        }
        for line in &self.tail {
            let _ = writeln!(text, "{line}");
        }
        let end = text.char_indices().nth(self.chars).map_or(text.len(), |(at, _)| at);
        text.truncate(end);
        Excerpt { text, shown_lines: self.shown_lines }
    }
}

/// A line as it is shown: `\xNN` for bytes that are not UTF-8.
fn shown(line: &[u8]) -> String {
    let mut text = String::with_capacity(line.len());
    for chunk in chomp(line).utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// The start of a line within `chars` characters, with a mark that says what is left out.
fn cut(line: &str, chars: usize) -> String {
    let all = line.chars().count();
    let kept = chars.saturating_sub(20);
    let end = line.char_indices().nth(kept).map_or(line.len(), |(at, _)| at);
    format!("{}…[+{} chars]", &line[..end], all - kept.min(all))
}

/// The end of a line within `chars` characters, with a mark that says what is left out.
fn cut_front(line: &str, chars: usize) -> String {
    let all = line.chars().count();
    let kept = chars.saturating_sub(20).min(all);
    let start = line.char_indices().nth(all - kept).map_or(line.len(), |(at, _)| at);
    format!("[{} chars+]…{}", all - kept, &line[start..])
}
