//! Puts markers in the place of file reads that a later call outdated.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::clear_tool_results::marker_of;
use super::file_keys::{FileAccess, FileKeys, FileUse};
use super::{Draft, Strategy, StrategyError, done};
use crate::BoxFuture;
use crate::entry::{EntryId, Kind};
use crate::history::Words;
use crate::marker::OPENING;
use crate::measure::count_chars;

/// Replaces what a read returned by a marker when the same file was read again later, or written.
///
/// Use it early in a stack: what it removes is in view once more further down, or no longer true.
/// In recorded sessions of coding agents, more than half of all reads are of a file that was read
/// before. It costs the provider's cache from the first read it replaces on.
#[derive(Debug, Clone, Default)]
pub struct DeduplicateFileReads {
    /// Which calls read and write which files.
    pub files: FileKeys,
    /// What outdates a read.
    pub outdated_by: OutdatedBy,
}

/// What outdates a read of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutdatedBy {
    /// A read that shows the same lines, or a call that writes the whole file: the model still sees
    /// all there is to see.
    #[default]
    ReadsAndWrites,
    /// An edit as well. It frees far more (in a recorded session of a coding agent, 90 % of what
    /// was read instead of 11 %), but agents go on editing by what they read once, and would have
    /// to read it again.
    EditsToo,
}

/// A read shows the file only if it shows at least this part of what an earlier one with the same
/// arguments did; less is more likely a failure than the file, and formats that do not say which
/// calls failed leave no other way to tell.
const SAME_FILE: u64 = 2;

/// The longest name of a file that a marker repeats.
const NAME_CHARS: u64 = 200;

/// What the calls after a point do with one file.
#[derive(Default)]
struct Later {
    changed: Option<FileUse>,
    /// For each range that is read (`None` for all of it), the most characters a read shows.
    shown: HashMap<Option<Range<u64>>, u64>,
    lines: Spans,
}

/// A call whose return shows a file.
struct Read<'t> {
    text: &'t str,
    asked: Option<Range<u64>>,
}

impl Read<'_> {
    fn chars(&self) -> u64 {
        count_chars(self.text.as_bytes())
    }

    /// The lines that are shown: no more than are there, whatever was asked for.
    fn lines(&self) -> Range<u64> {
        let shown = self.text.lines().count() as u64;
        match &self.asked {
            None => 0..shown,
            Some(asked) => {
                let end = asked.end.min(asked.start.saturating_add(shown));
                asked.start..end.max(asked.start)
            }
        }
    }
}

impl Later {
    /// How the read is outdated, as words about the file.
    fn outdates(&self, read: &Read<'_>, by: OutdatedBy) -> Option<&'static str> {
        let same = self.shown.get(&read.asked);
        let lines = read.lines();
        // One line may be a whole file, or the words of a failure.
        if same.is_some_and(|chars| chars.saturating_mul(SAME_FILE) >= read.chars())
            || lines.end - lines.start > 1 && self.lines.hold(&lines)
        {
            return Some("was read again later");
        }
        match (self.changed?, by) {
            (FileUse::Write, _) => Some("was written anew later"),
            (FileUse::Edit, OutdatedBy::EditsToo) => Some("was edited later"),
            _ => None,
        }
    }

    fn add_read(&mut self, read: &Read<'_>) {
        let most = self.shown.entry(read.asked.clone()).or_default();
        *most = read.chars().max(*most);
        let mut lines = read.lines();
        // Some tools count lines from 0 and some from 1; a whole file holds both.
        lines.end += u64::from(read.asked.is_none());
        self.lines.add(lines);
    }

    fn add_change(&mut self, change: FileUse) {
        if self.changed != Some(FileUse::Write) {
            self.changed = Some(change);
        }
    }
}

impl DeduplicateFileReads {
    fn deduplicate(&self, draft: &mut Draft<'_, '_>) {
        let history = draft.history();
        let calls = history.turns().iter().flat_map(|turn| &turn.calls);
        let mut calls: Vec<EntryId> = calls.copied().collect();
        calls.sort_unstable();
        let mut later: HashMap<String, Later> = HashMap::new();
        for call in calls.into_iter().rev() {
            let Some(answer) = history.return_of(call) else { continue };
            let Kind::Return { is_error: false, .. } = history.entries()[answer.0].kind else {
                continue;
            };
            let tool = history.tool_of(call).unwrap_or_default();
            let Ok(arguments) = serde_json::from_str(&history.entries()[call.0].text) else {
                continue;
            };
            let Some(access) = self.files.of(tool, &arguments) else { continue };
            if !draft.has_entry(answer) {
                continue;
            }
            let FileAccess { key, does, lines } = access;
            let later = later.entry(key.clone()).or_default();
            if does != FileUse::Read {
                later.add_change(does);
                continue;
            }
            // What is a marker already shows nothing.
            let text = &*history.entries()[answer.0].text;
            if !draft.is_untouched(answer) || text.starts_with(OPENING) {
                continue;
            }
            let read = Read { text, asked: lines };
            let outdated = later.outdates(&read, self.outdated_by);
            if outdated.is_none_or(|how| !replace(draft, answer, &key, how)) {
                later.add_read(&read);
            }
        }
    }
}

impl Strategy for DeduplicateFileReads {
    fn edit<'f>(
        &'f self,
        draft: &'f mut Draft<'_, '_>,
    ) -> BoxFuture<'f, Result<(), StrategyError>> {
        self.deduplicate(draft);
        done()
    }
}

fn replace(draft: &mut Draft<'_, '_>, answer: EntryId, key: &str, how: &str) -> bool {
    let is_name = count_chars(key.as_bytes()) <= NAME_CHARS && !key.contains(char::is_control);
    let words = format!(" {} {how}.", if is_name { key } else { "The file" });
    let (marker, mut weight) = marker_of(&draft.history().entries()[answer.0].text);
    weight.0 += count_chars(words.as_bytes());
    draft.replace_text(answer, marker.then(Words::text(words)), weight)
}

/// Lines, as ranges that do not touch.
#[derive(Default)]
struct Spans(BTreeMap<u64, u64>);

impl Spans {
    fn add(&mut self, mut span: Range<u64>) {
        while let Some((&start, &end)) = self.0.range(..=span.end).next_back() {
            if end < span.start {
                break;
            }
            self.0.remove(&start);
            span = start.min(span.start)..end.max(span.end);
        }
        self.0.insert(span.start, span.end);
    }

    fn hold(&self, span: &Range<u64>) -> bool {
        self.0.range(..=span.start).next_back().is_some_and(|(_, &end)| span.end <= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_touch_are_one() {
        let mut spans = Spans::default();
        for span in [10..20, 30..40, 50..60, 20..30] {
            spans.add(span);
        }
        assert_eq!(spans.0, BTreeMap::from([(10, 40), (50, 60)]));
        assert!(spans.hold(&(12..40)) && spans.hold(&(55..55)));
        assert!(!spans.hold(&(12..41)) && !spans.hold(&(0..15)) && !spans.hold(&(40..50)));
        spans.add(0..100);
        assert_eq!(spans.0, BTreeMap::from([(0, 100)]));
    }
}
