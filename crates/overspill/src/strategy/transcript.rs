//! Parts of a history as another model reads them: bounded, and so that nothing in them can pass
//! for anything else.

use crate::count::Counter;
use crate::cut::{Gap, Keep, Truncate};
use crate::entry::{Entry, EntryId, Kind, Role};
use crate::history::History;
use crate::measure::{count_chars, counted, grouped};
use crate::summary::clean_name;

/// Writes parts one below the other. A heading in square brackets says whose part it is; every
/// line of the part itself is indented, so that no content can pass for a heading.
pub(super) struct Transcript<'t, 'a> {
    pub(super) history: &'t History<'a>,
    pub(super) counter: &'t Counter,
    /// How big it may be in all, as [`size`] measures.
    pub(super) room: u64,
    /// How many characters of what a tool took or returned, or of a thought, are shown.
    pub(super) return_chars: usize,
}

/// One part of a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) entry: EntryId,
    /// Whether it is shown only to make the rest understood.
    pub(super) stays: bool,
}

/// What opens every line of a part.
const INDENT: &str = "  ";

/// No part takes more than this share of the room, so that the newest eight are always there.
const LARGEST_PART: u64 = 8;

/// How big a text is for a model's window: four to a token. Without a tokenizer its bytes are
/// counted, because four bytes are about a token in every script, and four characters are not.
pub(super) fn size(counter: &Counter, text: &str) -> u64 {
    counter.text(text).0.max(text.len() as u64)
}

/// Both ends of a text that is too long, and how much is missing between them.
pub(super) fn clipped(text: &str, max_chars: usize) -> String {
    let how = Truncate { max_chars, keep: Keep::HeadAndTail, keep_tail_lines: 0 };
    let gap = |gap: &Gap| format!("\n[… {} characters left out here …]\n", grouped(gap.chars()));
    how.cut(text, &gap).map_or_else(|| text.to_owned(), |cut| cut.text)
}

/// What is `shown` of so many characters, or as many times half of them until it is no bigger than
/// `most`; and how big it is.
pub(super) fn fitting(
    counter: &Counter,
    most: u64,
    max_chars: usize,
    shown: impl Fn(usize) -> String,
) -> (String, u64) {
    // No character is smaller than one.
    let mut chars = usize::try_from(most).unwrap_or(usize::MAX).min(max_chars);
    loop {
        let text = shown(chars);
        let size = size(counter, &text);
        if size <= most || chars == 0 {
            return (text, size);
        }
        chars /= 2;
    }
}

impl Transcript<'_, '_> {
    /// The newest of these parts that there is room for, in order, and a line that says what was
    /// left out before them.
    pub(super) fn newest(&self, parts: &[Part]) -> String {
        let mut room = self.room;
        let mut shown = Vec::new();
        for part in parts.iter().rev() {
            let (text, size) = self.part(*part);
            let Some(left) = room.checked_sub(size) else { break };
            room = left;
            shown.push(text);
        }
        let out = &parts[..parts.len() - shown.len()];
        if !out.is_empty() {
            let chars = |part: &Part| count_chars(self.entry(*part).text.as_bytes());
            shown.push(format!(
                "[the oldest {}, {}, left out here]\n",
                counted(out.len() as u64, "part"),
                counted(out.iter().map(chars).sum(), "character"),
            ));
        }
        shown.reverse();
        shown.concat()
    }

    fn entry(&self, part: Part) -> &Entry<'_> {
        &self.history.entries()[part.entry.0]
    }

    /// A part, and how big it is.
    fn part(&self, part: Part) -> (String, u64) {
        let entry = self.entry(part);
        let most = match entry.kind {
            Kind::Text | Kind::Refusal => usize::MAX,
            _ => self.return_chars,
        };
        let stays = if part.stays { ", stays" } else { "" };
        let heading = format!("[{}{stays}]\n", self.says(part.entry, entry));
        fitting(self.counter, self.room / LARGEST_PART, most, |chars| {
            let mut out = heading.clone();
            indent(&clipped(&entry.text, chars), &mut out);
            out
        })
    }

    fn says(&self, id: EntryId, entry: &Entry<'_>) -> String {
        let who = match entry.role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        };
        match &entry.kind {
            Kind::Text => who.to_owned(),
            Kind::Thinking => format!("{who} thinks"),
            Kind::Call { name, .. } => format!("{who} calls {}", clean_name(name)),
            Kind::Return { is_error, .. } => {
                let tool = self.history.tool_of(id).map_or("a tool".to_owned(), clean_name);
                format!("{tool} {}", if *is_error { "failed" } else { "returned" })
            }
            Kind::Image(_) => format!("{who} shows an image"),
            Kind::ServerCall { name, .. } => format!("{who} used {}", clean_name(name)),
            Kind::ServerReturn { .. } => "what that returned".to_owned(),
            Kind::Refusal => format!("{who} refuses"),
            Kind::Boundary | Kind::Other => format!("{who}, something else"),
        }
    }
}

/// Appends a text with every line indented, whatever ends a line for whoever reads it.
fn indent(text: &str, out: &mut String) {
    let mut at_start = true;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if std::mem::take(&mut at_start) {
            out.push_str(INDENT);
        }
        if ends_line(c) {
            if c == '\r' {
                chars.next_if_eq(&'\n');
            }
            out.push('\n');
            at_start = true;
        } else {
            out.push(c);
        }
    }
    if !at_start {
        out.push('\n');
    }
}

/// What some reader starts a new line after: the line ends that Unicode and Python know.
fn ends_line(c: char) -> bool {
    matches!(c, '\n'..='\r' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_ends_a_line_is_followed_by_an_indent() {
        let mut out = String::new();
        indent("a\nb\r\nc\rd\u{2028}e\u{85}f\x0b[user]\n\n", &mut out);
        assert_eq!(out, "  a\n  b\n  c\n  d\n  e\n  f\n  [user]\n  \n");
    }

    #[test]
    fn a_long_text_keeps_both_ends() {
        let text = clipped(&format!("first{}last", "x".repeat(10_000)), 100);
        assert!(text.starts_with("firstxx") && text.ends_with("xxlast"), "{text}");
        assert!(text.contains("\n[… 9,9") && text.chars().count() <= 100, "{text}");
    }
}
