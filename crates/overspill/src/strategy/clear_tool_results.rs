//! Replaces old tool results by markers with their handles.

use super::draft::MARKER;
use super::stub::stub;
use super::{Draft, Limit, Strategy, StrategyError, done};
use crate::BoxFuture;
use crate::count::Weight;
use crate::entry::EntryId;
use crate::filter::ToolFilter;
use crate::history::Words;
use crate::marker::{Below, Marker, OPENING};

/// Replaces the results of tools, the oldest first, by a marker that says where they are stored.
///
/// Use it first in a stack: the model can read each result back, and still sees which calls it
/// made. It costs the provider's cache from the first result it clears on, so let it clear rarely
/// and much at once: put a high mark in its [`Trigger`](super::Trigger) and a low one in `until`.
#[derive(Debug, Clone)]
pub struct ClearToolResults {
    /// How many of the newest results stay as they are.
    pub keep_pairs: usize,
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
        let enough = self.until.map_or(0, |limit| limit.tokens(draft.scene().budget));
        for answer in answers {
            if draft.tokens() <= enough {
                break;
            }
            let tool = history.tool_of(answer).unwrap_or_default();
            if !self.tools.applies_to(tool) {
                continue;
            }
            let (words, weight) = marker_of(&history.entries()[answer.0].text);
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

/// The marker of a result. A result that is the excerpt of something stored names that as well.
pub(super) fn marker_of(text: &str) -> (Words, Weight) {
    let marker = Words::marker(Below::Nothing);
    match Marker::handles(text).next().filter(|_| text.starts_with(OPENING)) {
        Some(handle) => {
            let words = format!(" It is an excerpt of what is stored as {handle}.");
            let weight = Weight(MARKER.0 + words.len() as u64);
            (marker.then(Words::text(words)), weight)
        }
        None => (marker, MARKER),
    }
}
