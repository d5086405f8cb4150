//! Puts stubs in the place of long arguments.

use super::stub::stub;
use super::{Draft, Strategy, StrategyError, done};
use crate::BoxFuture;
use crate::entry::Kind;
use crate::filter::ToolFilter;
use crate::measure::count_chars;

/// Replaces the long arguments of calls by a small object with their handle: a file that was just
/// written need not stand in the history, on the disk and in the next read of it. What is short in
/// the arguments stays.
///
/// Use it on every request, with `keep_turns` at 0: a call shrinks before it was ever sent as part
/// of a history, so the provider's cache loses nothing. With more turns kept, each request would
/// break the cache that many turns back, so let a [`Trigger`](super::Trigger) start it then.
///
/// A call that is not answered yet stays as it is, because the host has still to run it, and one
/// that failed stays for a turn, because the model is about to mend it.
#[derive(Debug, Clone)]
pub struct StoreArguments {
    /// Arguments of more characters than this are stored.
    pub over_chars: u64,
    /// The calls of so many of the newest turns keep theirs.
    pub keep_turns: usize,
    /// Whose calls it touches.
    pub tools: ToolFilter,
}

impl Default for StoreArguments {
    /// What has more than 2,000 characters, of all tools, as soon as the call is answered. A stub
    /// has some 500.
    fn default() -> Self {
        Self { over_chars: 2_000, keep_turns: 0, tools: ToolFilter::all() }
    }
}

impl StoreArguments {
    fn store(&self, draft: &mut Draft<'_, '_>) {
        let history = draft.history();
        let turns = history.turns();
        for (at, turn) in turns[..turns.len().saturating_sub(self.keep_turns)].iter().enumerate() {
            let is_newest = at + 1 == turns.len();
            for &call in &turn.calls {
                let found = &history.entries()[call.0];
                let answer = history.return_of(call).and_then(|answer| history.entry(answer));
                let is_due = match answer.map(|answer| &answer.kind) {
                    Some(Kind::Return { is_error, .. }) => !(*is_error && is_newest),
                    _ => false,
                };
                if is_due
                    && draft.is_untouched(call)
                    && self.tools.applies_to(history.tool_of(call).unwrap_or_default())
                    && count_chars(found.text.as_bytes()) > self.over_chars
                    && let Some((object, weight)) = stub(draft, call)
                {
                    draft.replace_arguments(call, object, weight);
                }
            }
        }
    }
}

impl Strategy for StoreArguments {
    fn edit<'f>(
        &'f self,
        draft: &'f mut Draft<'_, '_>,
    ) -> BoxFuture<'f, Result<(), StrategyError>> {
        self.store(draft);
        done()
    }
}
