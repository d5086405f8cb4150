//! Replaces old tool results by markers with their handles.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;

use super::draft::BARE_MARKER;
use super::stub::stub;
use super::{Draft, Limit, Strategy, StrategyError, done};
use crate::BoxFuture;
use crate::count::Weight;
use crate::entry::EntryId;
use crate::filter::ToolFilter;
use crate::history::{History, TurnId, Words};
use crate::marker::{Below, Marker, OPENING};
use crate::read::ReadTool;

/// Replaces the results of tools, the oldest first, by a marker that says where they are stored.
///
/// Use it first in a stack: the model can read each result back, and still sees which calls it
/// made. It costs the provider's cache from the first result it clears on, so let it clear rarely
/// and much at once: put a high mark in its [`Trigger`](super::Trigger) and a low one in `until`.
#[derive(Debug, Clone)]
pub struct ClearToolResults {
    /// How many of the newest results stay as they are.
    pub keep_pairs: usize,
    /// For how many turns an answer of the read tool stays, since what was just brought back is
    /// needed now. Of a payload that is read again and again the newest answer stays for good.
    pub keep_read_backs: usize,
    /// Whose results may be cleared. The others stay; they count as kept all the same.
    pub tools: ToolFilter,
    /// Whether the arguments of the calls they answer become stubs as well.
    pub clear_inputs: bool,
    /// Unless at least so many tokens become free, nothing is cleared.
    pub min_clear_tokens: u64,
    /// It stops once the request is at this size; `None` clears all it may.
    pub until: Option<Limit>,
}

impl Default for ClearToolResults {
    /// All but the newest three results.
    fn default() -> Self {
        Self {
            keep_pairs: 3,
            keep_read_backs: 5,
            tools: ToolFilter::all(),
            clear_inputs: false,
            min_clear_tokens: 0,
            until: None,
        }
    }
}

impl ClearToolResults {
    fn clear(&self, draft: &mut Draft<'_, '_>) {
        let history = draft.history();
        let mut answers: Vec<EntryId> = history
            .turns()
            .iter()
            .flat_map(|turn| &turn.calls)
            .filter_map(|call| history.return_of(*call))
            .filter(|answer| draft.has_entry(*answer))
            .collect();
        answers.sort_unstable();
        answers.truncate(answers.len().saturating_sub(self.keep_pairs));
        let read_backs = ReadBacks::of(history, self.keep_read_backs);
        let enough = self.until.map(|limit| limit.tokens(draft.scene().budget));
        for answer in answers {
            if enough.is_some_and(|enough| draft.tokens() <= enough) {
                break;
            }
            let tool = history.tool_of(answer).unwrap_or_default();
            if !self.tools.applies_to(tool) || read_backs.keeps(history, answer) {
                continue;
            }
            let text = &history.entries()[answer.0].text;
            if is_marker(text) {
                continue;
            }
            let (words, weight) = marker_of(text);
            draft.replace_text(answer, words, weight);
            if self.clear_inputs
                && let Some(call) = history.call_of(answer)
                && let Some((object, weight)) = stub(draft, call)
            {
                draft.replace_arguments(call, object, weight);
            }
        }
    }
}

/// How often a payload is read before its newest answer stays for good.
const OFTEN: usize = 3;

/// What a model brought back, and how often.
struct ReadBacks<'h> {
    /// The first turn whose answers stay.
    from: TurnId,
    /// For each handle, how often it was read, and the newest answer.
    by_handle: HashMap<Cow<'h, str>, (usize, EntryId)>,
}

impl<'h> ReadBacks<'h> {
    fn of(history: &'h History<'_>, keep: usize) -> Self {
        let mut by_handle = HashMap::new();
        for call in history.turns().iter().flat_map(|turn| &turn.calls) {
            if let Some(handle) = handle_read(history, *call)
                && let Some(answer) = history.return_of(*call)
            {
                let read = by_handle.entry(handle).or_insert((0, answer));
                *read = (read.0 + 1, answer);
            }
        }
        Self { from: TurnId(history.turns().len().saturating_sub(keep)), by_handle }
    }

    fn keeps(&self, history: &History<'_>, answer: EntryId) -> bool {
        let Some(call) = history.call_of(answer) else { return false };
        let Some(handle) = handle_read(history, call) else { return false };
        history.turn_of(answer) >= Some(self.from)
            || self
                .by_handle
                .get(&handle)
                .is_some_and(|(times, newest)| *times >= OFTEN && *newest == answer)
    }
}

/// The handle that a call of the read tool reads. The tool may have a prefix, as MCP clients give
/// one.
fn handle_read<'h>(history: &'h History<'_>, call: EntryId) -> Option<Cow<'h, str>> {
    #[derive(Deserialize)]
    struct Args<'a> {
        #[serde(borrow)]
        handle: Cow<'a, str>,
    }
    let is_read = history.tool_of(call)?.ends_with(ReadTool::NAME);
    let entry = history.entry(call).filter(|_| is_read)?;
    Some(serde_json::from_str::<Args<'_>>(&entry.text).ok()?.handle)
}

impl Strategy for ClearToolResults {
    fn edit<'f>(
        &'f self,
        draft: &'f mut Draft<'_, '_>,
    ) -> BoxFuture<'f, Result<(), StrategyError>> {
        let before = draft.clone();
        self.clear(draft);
        let freed = before.tokens().saturating_sub(draft.tokens());
        if freed < self.min_clear_tokens {
            *draft = before;
        }
        done()
    }
}

/// The longest marker alone on a line: with the handle of what it is an excerpt of, and the words
/// of who else replaced a result.
const MARKER_CHARS: usize = 720;

/// Whether a result is nothing but a marker. In its place another would only name it in turn, and
/// what it names would be two reads away; a tokenizer may well find the other one lighter.
fn is_marker(text: &str) -> bool {
    text.len() <= MARKER_CHARS
        && text.starts_with(OPENING)
        && !text.trim_end().contains('\n')
        && Marker::handles(text).next().is_some()
}

/// The marker of a result. A result that is the excerpt of something stored names that as well.
pub(super) fn marker_of(text: &str) -> (Words, Weight) {
    let marker = Words::marker(Below::Bare);
    match Marker::handles(text).next().filter(|_| text.starts_with(OPENING)) {
        Some(handle) => {
            let words = format!(" (an excerpt of {handle})");
            let weight = Weight(BARE_MARKER.0 + words.len() as u64);
            (marker.then(Words::text(words)), weight)
        }
        None => (marker, BARE_MARKER),
    }
}
