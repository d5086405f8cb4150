//! Bounded text made of stored lines, under a line that says which they are.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::ansi::{MAX_SEQUENCE, Stripper};
use crate::lines::MAX_LINE_CHARS;
use crate::measure::{count_chars, counted, grouped};
use crate::render::show_bytes;
use crate::store::{StoreError, Stored};

use super::args::ReadArgs;
use super::search::{Hit, Pattern, Search};
use super::{BODY_CHARS, OPENING};

/// A line that is shown with every byte escaped, behind a sequence that turned out to be text, is
/// the longest row there is; it always fits.
const _: () = assert!(4 * (MAX_SEQUENCE + 3 * MAX_LINE_CHARS) + ROW_CHARS <= BODY_CHARS);

/// Characters before the text of a match: the longest line number, a mark and a space.
const ROW_CHARS: usize = 22;

/// Puts an answer together.
pub(super) struct Answer;

impl Answer {
    /// The lines asked for, verbatim.
    pub(super) async fn lines(
        stored: &Stored,
        args: &ReadArgs,
        strip_ansi: bool,
    ) -> Result<String, StoreError> {
        let total = stored.receipt().lines;
        let handle = &stored.receipt().handle;
        let (start, end) = if args.from_end {
            let end = total.saturating_sub(args.offset);
            (end.saturating_sub(args.limit), end)
        } else {
            (args.offset.min(total), args.offset.saturating_add(args.limit).min(total))
        };
        if start == end {
            return Ok(nothing(total, args, handle.as_str()));
        }
        let mut shown = Shown::read(stored, start, end, strip_ansi).await?;
        let (from, to) = if args.from_end {
            (end - shown.keep_last(BODY_CHARS), end)
        } else {
            (start, start + shown.keep_first(BODY_CHARS))
        };
        let on = match (args.from_end, from, to) {
            (true, 0, _) => "; this is the beginning".to_owned(),
            (true, ..) => format!("; before them: from_end=true, offset={}", total - from),
            (false, _, to) if to == total => "; this is the end".to_owned(),
            (false, ..) => format!("; go on with offset={to}"),
        };
        let body = shown.text();
        Ok(format!(
            "{OPENING}lines {from}-{} of {} of {handle}{on}]\n{body}",
            to - 1,
            grouped(total)
        ))
    }

    /// The lines that match, with their numbers and the lines around them.
    pub(super) async fn matches(
        stored: &Stored,
        args: &ReadArgs,
        pattern: &Pattern,
        strip_ansi: bool,
    ) -> Result<String, StoreError> {
        let total = stored.receipt().lines;
        let handle = &stored.receipt().handle;
        if args.offset >= total {
            return Ok(nothing(total, args, handle.as_str()));
        }
        let bytes = pattern.bytes_at_once();
        let search = Search { pattern, strip_ansi, limit: args.limit, bytes };
        let found = if args.from_end {
            search.backward(stored, total - args.offset).await?
        } else {
            search.forward(stored, args.offset).await?
        };

        // Lines are shown whole or not at all, so an answer may hold fewer than were found: the
        // first ones, or the last ones where the end was asked for.
        let is_hit: BTreeSet<u64> = found.hits.iter().map(|hit| hit.line).collect();
        let order: Vec<&Hit> = match args.from_end {
            false => found.hits.iter().collect(),
            true => found.hits.iter().rev().collect(),
        };
        let around = Around { stored, is_hit, from_end: args.from_end, strip_ansi };
        let mut groups: Vec<String> = Vec::new();
        let mut covered: Option<(u64, u64)> = None;
        let (mut chars, mut shown, mut left_out) = (0, 0, None);
        for hit in order {
            // Where not even the first match fits with the lines around it, fewer are shown.
            let mut context = args.context;
            let (from, to, rows) = loop {
                let (from, to, rows) = around.rows(hit, context, covered).await?;
                if shown > 0 || context == 0 || rows.chars().count() <= BODY_CHARS {
                    break (from, to, rows);
                }
                context /= 2;
            };
            chars += rows.chars().count();
            if chars > BODY_CHARS && shown > 0 {
                left_out = Some(if args.from_end { hit.line + 1 } else { hit.line });
                break;
            }
            groups.push(rows);
            shown += 1;
            covered = Some(covered.map_or((from, to), |(a, b)| (a.min(from), b.max(to))));
        }
        if args.from_end {
            groups.reverse();
        }
        let body = groups.concat();
        let what = pattern.to_string();
        let what: String = what.chars().take(100).collect();
        let (searched_from, searched_to) = found.searched;
        let on = match (args.from_end, left_out.or(found.next)) {
            (_, None) => "; that is all".to_owned(),
            (false, Some(next)) => format!("; go on with offset={next}"),
            (true, Some(next)) => {
                format!("; before them: from_end=true, offset={}", total.saturating_sub(next))
            }
        };
        Ok(format!(
            "{OPENING}{} with {what:?} in lines {searched_from}-{} of {} of {handle}{on}]\n{body}",
            counted(shown, "line"),
            searched_to.saturating_sub(1),
            grouped(total)
        ))
    }
}

/// Writes matches and the lines around them.
struct Around<'s> {
    stored: &'s Stored,
    is_hit: BTreeSet<u64>,
    from_end: bool,
    strip_ansi: bool,
}

impl Around<'_> {
    /// The rows of a match and `context` lines around it, without the lines that its neighbours
    /// `covered` already; and which lines they are.
    async fn rows(
        &self,
        hit: &Hit,
        context: u64,
        covered: Option<(u64, u64)>,
    ) -> Result<(u64, u64, String), StoreError> {
        let last = self.stored.receipt().lines - 1;
        let (mut from, mut to) = (hit.line.saturating_sub(context), (hit.line + context).min(last));
        match covered {
            Some((0, _)) if self.from_end => (from, to) = (1, 0),
            Some((first, _)) if self.from_end => to = to.min(first - 1),
            Some((_, last)) => from = from.max(last + 1),
            None => {}
        }
        // Its lines may all stand among those around its neighbour already.
        let mut rows = String::new();
        if context == 0 {
            push_row(&mut rows, hit.line, ':', &hit.text);
        } else if from <= to {
            let lines = Shown::read(self.stored, from, to + 1, self.strip_ansi).await?.lines;
            for (line, text) in (from..).zip(&lines) {
                let mark = if self.is_hit.contains(&line) { ':' } else { '-' };
                push_row(&mut rows, line, mark, text);
            }
        }
        let apart = covered.is_some_and(|(first, last)| from > last + 1 || to + 1 < first);
        if context > 0 && apart && !rows.is_empty() {
            rows.insert_str(if self.from_end { rows.len() } else { 0 }, "--\n");
        }
        Ok((from, to, rows))
    }
}

fn push_row(rows: &mut String, line: u64, mark: char, text: &str) {
    rows.push_str(&format!("{line}{mark} {}\n", text.trim_end_matches(['\n', '\r'])));
}

fn nothing(total: u64, args: &ReadArgs, handle: &str) -> String {
    match total {
        0 => format!("{OPENING}{handle} is empty: it has no lines]\n"),
        _ if args.from_end => format!(
            "{OPENING}no lines left: from_end with offset={} is before the beginning of {handle}, which has {}]\n",
            args.offset,
            counted(total, "line")
        ),
        _ => format!(
            "{OPENING}no lines there: offset={} is past the end of {handle}, which has {}, numbered 0 to {}]\n",
            args.offset,
            counted(total, "line"),
            total - 1
        ),
    }
}

/// Lines of a payload as they are shown.
pub(super) struct Shown {
    pub(super) lines: Vec<String>,
}

impl Shown {
    pub(super) async fn read(
        stored: &Stored,
        start: u64,
        end: u64,
        strip_ansi: bool,
    ) -> Result<Self, StoreError> {
        let mut stripper = strip_ansi.then(Stripper::default);
        let mut lines = Vec::new();
        let mut cursor = stored.blocks(start);
        'blocks: while let Some(block) = cursor.next().await? {
            for line in block.lines() {
                if line.number >= end {
                    break 'blocks;
                }
                let bytes = match &mut stripper {
                    Some(stripper) => stripper.strip(line.bytes),
                    None => Cow::Borrowed(line.bytes),
                };
                lines.push(show_bytes(&bytes).into_owned());
            }
        }
        if let (Some(stripper), Some(last)) = (stripper, lines.last_mut()) {
            last.push_str(&show_bytes(&stripper.finish()));
        }
        Ok(Self { lines })
    }

    /// Keeps as many lines from the first on as fit, at least one; says how many.
    fn keep_first(&mut self, chars: usize) -> u64 {
        let fit = fitting(self.lines.iter(), chars);
        self.lines.truncate(fit);
        fit as u64
    }

    /// Keeps as many lines up to the last as fit, at least one; says how many.
    fn keep_last(&mut self, chars: usize) -> u64 {
        let fit = fitting(self.lines.iter().rev(), chars);
        self.lines.drain(..self.lines.len() - fit);
        fit as u64
    }

    fn text(&self) -> String {
        self.lines.concat()
    }
}

fn fitting<'a>(lines: impl Iterator<Item = &'a String>, chars: usize) -> usize {
    let mut sum = 0;
    let fit = lines.take_while(|line| {
        sum += count_chars(line.as_bytes()) as usize;
        sum <= chars
    });
    fit.count().max(1)
}
