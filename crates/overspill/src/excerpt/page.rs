//! An excerpt in the making: what stands in it so far, and how much room is left.
//!
//! ```text
//! first lines
//! [410 lines not shown; of them:]
//! 57: a line that was picked
//! names at 120: foo_bar Baz::qux 340: path/to/x.rs
//! [from line 498:]
//! last lines
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use super::held::Kept;
use super::names::{Names, digits};
use super::news::{Kind, News};
use super::shape::Shape;
use super::{Form, binary};
use crate::render::show_bytes;

/// Of 100 characters, how many the first lines get, and how many the last. What a result is, and
/// how it ended, takes a few lines; beyond them, recorded sessions name the ends of a result again
/// no more than its middle.
const HEAD_SHARE: usize = 10;
const TAIL_SHARE: usize = 15;
/// An end gets this many characters before shares count, so that a small excerpt has ends.
const END_LEAST: usize = 60;
/// Under this size an excerpt is the start of the payload alone.
const SMALL: usize = 200;
/// Of 100 characters, how many the first lines of JSON get, where its first record stands.
const RECORD_SHARE: usize = 25;
/// Of 100 characters, how many the shape of JSON gets at most.
const SHAPE_SHARE: usize = 45;
/// The words and brackets around what is shown of the middle: `[ lines not shown; of them:]`,
/// `names at` and `[from line :]`, each on a line of its own, and two numbers.
const WORDS: usize = 56;
/// A line is picked from the middle whole up to a part of the excerpt, within these bounds.
const LONG: (usize, usize) = (120, 1_000);
/// Stands where a long line was cut.
const CUT: &str = "…[cut]";
const CUT_FRONT: &str = "[cut]…";

#[derive(Debug)]
pub(super) struct Page<'a> {
    chars: usize,
    room: usize,
    /// Whether there is room for words about what is not shown.
    words: bool,
    held: &'a [Kept<'a>],
    total: u64,
    /// What stands above the first lines, in brackets.
    title: Option<String>,
    head: Vec<String>,
    /// What stands below them, in brackets.
    note: Option<String>,
    /// Indices into `held` that are neither head nor tail.
    middle: Range<usize>,
    picked: Vec<(u64, String)>,
    names: BTreeMap<u64, Vec<&'a str>>,
    tail: VecDeque<String>,
    shown_lines: u64,
}

impl<'a> Page<'a> {
    /// An empty page of `chars` characters, for a payload of `total` lines of which some are held.
    pub(super) fn new(chars: usize, held: &'a [Kept<'a>], total: u64) -> Self {
        Self {
            chars,
            room: chars,
            words: false,
            held,
            total,
            title: None,
            head: Vec::new(),
            note: None,
            middle: 0..held.len(),
            picked: Vec::new(),
            names: BTreeMap::new(),
            tail: VecDeque::new(),
            shown_lines: 0,
        }
    }

    /// Shows everything if that fits; whether it did.
    pub(super) fn whole(&mut self) -> bool {
        let bytes: usize = self.held.iter().map(|kept| kept.bytes.len() + 1).sum();
        if self.held.len() as u64 != self.total || bytes > 4 * self.chars {
            return false;
        }
        let lines: Vec<String> = self.held.iter().map(|kept| shown(kept.bytes)).collect();
        if lines.iter().map(|line| length(line)).sum::<usize>() > self.chars {
            return false;
        }
        self.head = lines;
        self.middle = 0..0;
        self.shown_lines = self.total;
        true
    }

    /// Fills the page with text: its ends, its news, and what is likeliest to be needed again.
    pub(super) fn text(&mut self, news: News) {
        if self.chars < SMALL {
            return self.head(self.chars);
        }
        self.head((self.chars * HEAD_SHARE / 100).max(END_LEAST));
        let tail = if news.is_code() { 0 } else { self.chars * TAIL_SHARE / 100 };
        self.tail(tail.max(END_LEAST));
        self.reserve();
        self.news(news, Form::Text);
        self.lines_and_names(Names::new(&self.held[self.middle.clone()], Form::Text));
        self.widen();
    }

    /// Fills the page with JSON: its first record, its shape, and what is likeliest to be needed
    /// again.
    pub(super) fn json(&mut self, shape: &Shape, news: News) {
        if self.chars < SMALL {
            return self.head(self.chars);
        }
        self.head(self.chars * RECORD_SHARE / 100);
        self.tail(END_LEAST);
        self.reserve();
        let (open, close) = ("[its shape: ", "]");
        let least = open.len() + close.len() + 1;
        let text =
            shape.text((self.chars * SHAPE_SHARE / 100).min(self.room.saturating_sub(least)));
        if !text.is_empty() {
            let note = format!("{open}{text}{close}");
            self.room -= length(&note);
            self.note = Some(note);
        }
        self.news(news, Form::Json);
        self.lines_and_names(Names::new(&self.held[self.middle.clone()], Form::Json));
        self.widen();
    }

    /// Fills the page with binary data: what it is, its first bytes, and strings in it, which are
    /// lent by the caller.
    pub(super) fn binary(&mut self, strings: &'a [Kept<'a>]) {
        let start = self.held.first().map_or(&[][..], |kept| kept.bytes);
        let title = format!("[{}, not text; it starts:]", binary::kind(start));
        let first = binary::first_bytes(start);
        self.room = self.room.saturating_sub(length(&title));
        self.title = Some(title);
        if length(&first) > self.room {
            return;
        }
        self.room -= length(&first);
        self.head.push(first);
        self.reserve();
        self.lines_and_names(Names::new(strings, Form::Text));
        for string in strings {
            let text = show_bytes(string.bytes);
            if self.room > LONG.0 && !self.picked.iter().any(|(_, line)| line.contains(&*text)) {
                self.pick(string, self.room);
            }
        }
        self.picked.sort_by_key(|(number, _)| *number);
        // A string in binary data is no line.
        self.shown_lines = 0;
    }

    /// The first lines within `share` characters, whole where they fit; the very first may take as
    /// much as any picked line.
    fn head(&mut self, share: usize) {
        let mut left = share.min(self.room);
        while self.may_show(self.middle.start) {
            let line = shown(self.held[self.middle.start].bytes);
            if self.head.is_empty() && length(&line) <= self.long().min(self.room) {
                left = left.max(length(&line));
            }
            let Some(rest) = left.checked_sub(length(&line)) else {
                if self.head.is_empty() && left > 2 * CUT.len() {
                    self.head.push(cut(&line, left - 1));
                    self.room -= left;
                }
                return;
            };
            self.room -= left - rest;
            left = rest;
            self.head.push(line);
            self.shown_lines += 1;
            self.middle.start += 1;
        }
    }

    /// The last lines within `share` characters, as the first ones.
    fn tail(&mut self, share: usize) {
        let mut left = share.min(self.room);
        while self.may_show(self.middle.end.wrapping_sub(1)) {
            let line = shown(self.held[self.middle.end - 1].bytes);
            if self.tail.is_empty() && length(&line) <= self.long().min(self.room) {
                left = left.max(length(&line));
            }
            let Some(rest) = left.checked_sub(length(&line)) else {
                if self.tail.is_empty() && left > 2 * CUT.len() {
                    self.tail.push_front(cut_front(&line, left - 1));
                    self.room -= left;
                }
                break;
            };
            self.room -= left - rest;
            left = rest;
            self.tail.push_front(line);
            self.shown_lines += 1;
            self.middle.end -= 1;
        }
    }

    /// Whether a held line is neither shown nor picked.
    fn may_show(&self, held: usize) -> bool {
        self.middle.contains(&held) && !self.is_picked(self.held[held].number)
    }

    fn is_picked(&self, number: u64) -> bool {
        self.picked.iter().any(|(picked, _)| *picked == number)
    }

    /// Sets the room for words and numbers apart.
    fn reserve(&mut self) {
        self.room = self.room.saturating_sub(WORDS + 2 * digits(self.total));
        self.words = true;
    }

    /// Gives room that nothing else used to the ends.
    fn widen(&mut self) {
        self.tail(self.room / 2);
        self.head(self.room);
        // Lines that were picked stand in the way; what comes after them is as good as any.
        for kept in &self.held[self.middle.clone()] {
            if self.room < LONG.0 || (!self.is_picked(kept.number) && !self.pick(kept, self.room)) {
                break;
            }
        }
        self.picked.sort_by_key(|(number, _)| *number);
    }

    /// The longest line that is picked whole.
    fn long(&self) -> usize {
        (self.chars / 5).clamp(LONG.0, LONG.1)
    }

    /// Adds a line of the middle if it fits in `room`, cut where it is long; whether it did.
    fn pick(&mut self, kept: &Kept<'_>, room: usize) -> bool {
        let line = shown(kept.bytes);
        let long = self.long();
        let whole = line.chars().count() <= long;
        let line = if whole { line } else { cut(&line, long) };
        let cost = digits(kept.number) + 2 + length(&line);
        if cost > room.min(self.room) {
            return false;
        }
        self.room -= cost;
        self.shown_lines += u64::from(whole);
        self.picked.push((kept.number, line));
        true
    }

    fn news(&mut self, news: News, form: Form) {
        let middle = &self.held[self.middle.clone()];
        let (Some(first), Some(last)) = (middle.first(), middle.last()) else { return };
        let middle = first.number..=last.number;
        // Mentions are a guess, and headings an outline: neither takes all the room.
        let mut mentions = self.room / 3;
        let mut headings = self.room / 2;
        for story in news.stories(form) {
            for kept in story.lines() {
                if !middle.contains(&kept.number) || self.is_picked(kept.number) {
                    continue;
                }
                let before = self.room;
                let mut all = self.room;
                let room = match story.kind {
                    Kind::Mention => &mut mentions,
                    Kind::Heading => &mut headings,
                    _ => &mut all,
                };
                if !self.pick(&kept, *room) {
                    break;
                }
                *room -= before - self.room;
            }
        }
    }

    /// The lines, in half the room, and the names, in the rest, that are likeliest to be needed
    /// again.
    fn lines_and_names(&mut self, mut names: Names<'a>) {
        names.hide(&self.seen());
        let long = self.long();
        let mut left = self.room / 2;
        while left > 20 {
            let before = self.room;
            let fits = |kept: &Kept<'_>| {
                kept.bytes.len() <= long && kept.bytes.len() + digits(kept.number) + 3 <= left
            };
            let Some(kept) = names.take_line(fits) else { break };
            self.pick(&kept, left);
            left -= before - self.room;
        }
        self.picked.sort_by_key(|(number, _)| *number);
        let seen = self.seen();
        self.names = names.take_names(self.room, &seen);
        for (number, names) in &self.names {
            let names: usize = names.iter().map(|name| name.len() + 1).sum();
            self.room = self.room.saturating_sub(digits(*number) + 2 + names);
        }
    }

    /// All that stands in view.
    fn seen(&self) -> String {
        let picked = self.picked.iter().map(|(_, line)| line);
        let all =
            self.title.iter().chain(&self.head).chain(&self.note).chain(picked).chain(&self.tail);
        all.map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    /// The finished text and how many lines of the payload stand in it whole.
    pub(super) fn finish(self) -> (String, u64) {
        let mut text = String::new();
        for line in self.title.iter().chain(&self.head).chain(&self.note) {
            text.push_str(line);
            text.push('\n');
        }
        let hidden = self.total - self.shown_lines;
        let among = !self.picked.is_empty() || !self.names.is_empty();
        if hidden > 0 && self.words {
            let lines = if hidden == 1 { "line" } else { "lines" };
            let among = if among { "; of them:" } else { "" };
            let _ = writeln!(text, "[{hidden} {lines} not shown{among}]");
        }
        for (number, line) in &self.picked {
            let _ = writeln!(text, "{number}: {line}");
        }
        if !self.names.is_empty() {
            text.push_str("names at");
            for (number, names) in &self.names {
                let _ = write!(text, " {number}: {}", names.join(" "));
            }
            text.push('\n');
        }
        if among && !self.tail.is_empty() {
            let _ = writeln!(text, "[from line {}:]", self.total - self.tail.len() as u64);
        }
        for line in &self.tail {
            text.push_str(line);
            text.push('\n');
        }
        text.pop();
        // Nothing above is meant to overrun; the promise does not rest on it.
        let end = text.char_indices().nth(self.chars).map_or(text.len(), |(at, _)| at);
        text.truncate(end);
        (text, self.shown_lines)
    }
}

/// The characters of a line, the line feed after it included.
fn length(line: &str) -> usize {
    line.chars().count() + 1
}

/// A line as it is shown.
fn shown(line: &[u8]) -> String {
    show_bytes(line).into_owned()
}

/// The start of a line, with a mark, within `chars` characters.
fn cut(line: &str, chars: usize) -> String {
    let mut left = chars.saturating_sub(CUT.chars().count());
    let mut end = 0;
    for grapheme in line.graphemes(true) {
        let Some(rest) = left.checked_sub(grapheme.chars().count()) else { break };
        left = rest;
        end += grapheme.len();
    }
    format!("{}{CUT}", &line[..end])
}

/// The end of a line, with a mark, within `chars` characters.
fn cut_front(line: &str, chars: usize) -> String {
    let mut left = chars.saturating_sub(CUT_FRONT.chars().count());
    let mut start = line.len();
    for grapheme in line.graphemes(true).rev() {
        let Some(rest) = left.checked_sub(grapheme.chars().count()) else { break };
        left = rest;
        start -= grapheme.len();
    }
    format!("{CUT_FRONT}{}", &line[start..])
}
