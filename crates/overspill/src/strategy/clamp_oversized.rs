//! Leaves head and tail of one part that ran away.

use super::draft::MARKER;
use super::stub::stub;
use super::{Draft, Limit, Strategy, StrategyError, done};
use crate::BoxFuture;
use crate::count::Weight;
use crate::cut::{Keep, Truncate};
use crate::entry::{Entry, EntryId, Kind, Role};
use crate::filter::ToolFilter;
use crate::history::Words;
use crate::marker::{Below, OPENING};
use crate::measure::count_chars;

/// Replaces the middle of a part that is far too big by a marker with the handle of the whole: of
/// what the model said, of its thinking where no signature holds it, of a tool's return. Arguments
/// of an answered call become a stub, which stays valid JSON.
///
/// Use it first in a stack, with a limit that nothing useful reaches: a model that repeats itself
/// without end, or a return that no policy reduced when it came, fills a window by itself, and
/// nothing else shrinks the newest messages. It touches them too; what users and instructions say
/// stays.
#[derive(Debug, Clone)]
pub struct ClampOversized {
    /// A part of more tokens than this is cut.
    pub max_part: Limit,
    /// How many characters of its beginning stay.
    pub keep_head_chars: usize,
    /// How many characters of its end stay.
    pub keep_tail_chars: usize,
    /// Whose arguments and returns are cut.
    pub tools: ToolFilter,
}

impl Default for ClampOversized {
    /// 2,000 characters of either end of what has more than 25,000 tokens: twice the longest answer
    /// of the read tool, and as much as the coding agents in use take from one call.
    fn default() -> Self {
        Self {
            max_part: Limit::Tokens(25_000),
            keep_head_chars: 2_000,
            keep_tail_chars: 2_000,
            tools: ToolFilter::all(),
        }
    }
}

impl ClampOversized {
    fn clamp(&self, draft: &mut Draft<'_, '_>) {
        let history = draft.history();
        let most = Weight::of_tokens(self.max_part.tokens(draft.scene().budget));
        for id in (0..history.entries().len()).map(EntryId) {
            if !draft.is_untouched(id) || draft.weight(id) <= most {
                continue;
            }
            let entry = &history.entries()[id.0];
            let tool = || self.tools.applies_to(history.tool_of(id).unwrap_or_default());
            match &entry.kind {
                Kind::Call { .. } => {
                    // What the host has yet to run it has to run as it stands.
                    if history.return_of(id).is_some()
                        && tool()
                        && let Some((object, weight)) = stub(draft, id)
                    {
                        draft.replace_arguments(id, object, weight);
                    }
                }
                Kind::Text | Kind::Thinking
                    if entry.role == Role::Assistant && !entry.holds_more =>
                {
                    self.cut(draft, id, entry);
                }
                // Images would leave with the text; an excerpt says already what is stored.
                Kind::Return { .. }
                    if tool() && !entry.holds_more && !entry.text.starts_with(OPENING) =>
                {
                    self.cut(draft, id, entry);
                }
                _ => {}
            }
        }
    }

    fn cut(&self, draft: &mut Draft<'_, '_>, id: EntryId, entry: &Entry<'_>) {
        let text = &*entry.text;
        let all = count_chars(text.as_bytes());
        if all <= (self.keep_head_chars as u64).saturating_add(self.keep_tail_chars as u64) {
            return;
        }
        let end = |keep, max_chars| {
            let how = Truncate { max_chars, keep, keep_tail_lines: 0 };
            how.cut(text, &|_| String::new()).map_or_else(String::new, |cut| cut.text)
        };
        let mut head = end(Keep::Head, self.keep_head_chars);
        let mut tail = end(Keep::Tail, self.keep_tail_chars);
        let kept = count_chars(head.as_bytes()) + count_chars(tail.as_bytes());
        // The marker stands on a line of its own.
        if !head.is_empty() {
            head.push('\n');
        }
        if !tail.is_empty() {
            tail.insert(0, '\n');
        }
        let counter = draft.scene().counter;
        let weight = [counter.text(&head), MARKER, counter.text(&tail)].into_iter().sum();
        let marker = Words::marker(Below::Ends { left_out: all - kept });
        draft.replace_text(id, Words::text(head).then(marker).then(Words::text(tail)), weight);
    }
}

impl Strategy for ClampOversized {
    fn edit<'f>(
        &'f self,
        draft: &'f mut Draft<'_, '_>,
    ) -> BoxFuture<'f, Result<(), StrategyError>> {
        self.clamp(draft);
        done()
    }
}
