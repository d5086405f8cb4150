//! Which verbatim slices of a payload stay in view?
//!
//! Head and tail always; then the lines that carry the news; then, in the room left, the lines and
//! the bare names that are likeliest to be needed again, each with its line number. JSON shows its
//! shape instead of its middle, and binary data its first bytes and the strings in it. Nothing is
//! ever paraphrased: what stands in an excerpt stands so in the payload, apart from the words in
//! brackets, the line numbers, and `\xNN` for bytes that are not UTF-8.

mod binary;
mod held;
mod hints;
mod identifiers;
mod names;
mod news;
mod page;
mod shape;
#[cfg(test)]
mod tests;

use crate::lines::{Line, LineScanner, MAX_LINE_CHARS};
use binary::Suspicion;
use held::Held;
use news::News;
use page::Page;
use shape::Sketch;

/// The most bytes a line of the grid can have: its characters, and the carriage return and the line
/// feed.
const LINE_BYTES: usize = 4 * MAX_LINE_CHARS + 2;

/// Chooses an excerpt in one pass over a payload's lines, in constant memory.
///
/// ```
/// use overspill::excerpt::excerpt;
///
/// let log = (0..5_000).map(|i| match i {
///     3_141 => "thread 'main' panicked at src/main.rs:7:5: out of pie\n".to_owned(),
///     _ => format!("step {i} is done\n"),
/// });
/// let log: String = log.collect();
/// let excerpt = excerpt(log.as_bytes(), 800);
/// assert!(excerpt.text.starts_with("step 0 is done\nstep 1 is done\n"));
/// assert!(excerpt.text.contains("3141: thread 'main' panicked at src/main.rs:7:5: out of pie\n"));
/// assert!(excerpt.text.ends_with("step 4999 is done"));
/// ```
#[derive(Debug)]
pub struct Excerpter {
    chars: usize,
    lines: u64,
    suspicion: Suspicion,
    held: Held,
    news: News,
    sketch: Sketch,
}

/// How the lines of a payload are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Json,
}

/// What stays in view of a payload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Excerpt {
    /// The text, at most as many characters as were asked for.
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
        Self {
            chars,
            lines: 0,
            suspicion: Suspicion::default(),
            held: Held::new(4 * chars),
            news: News::default(),
            sketch: Sketch::default(),
        }
    }

    /// Looks at the next line; every line of the grid is to be given, in order.
    pub fn line(&mut self, line: Line<'_>) {
        if self.chars == 0 {
            return;
        }
        let bytes = &line.bytes[..line.bytes.len().min(LINE_BYTES)];
        self.lines = line.number + 1;
        self.suspicion.line(line.number, bytes);
        self.held.line(line.number, bytes);
        self.news.line(line.number, bytes);
        self.sketch.piece(bytes);
    }

    /// Chooses among what was seen.
    pub fn finish(self) -> Excerpt {
        let held = self.held.lines();
        let strings;
        let mut page = Page::new(self.chars, &held, self.lines);
        if self.suspicion.binary() {
            strings = binary::strings(&held);
            page.binary(&strings);
        } else if !page.whole() {
            match self.sketch.shape() {
                Some(shape) => page.json(&shape, self.news),
                None => page.text(self.news),
            }
        }
        let (text, shown_lines) = page.finish();
        Excerpt { text, shown_lines }
    }
}
