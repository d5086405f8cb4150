//! Lets an edit through only where it pays for the provider's cache that it breaks.

use std::sync::Arc;

use super::{Draft, Limit, Strategy, StrategyError};
use crate::BoxFuture;
use crate::count::Weight;
use crate::entry::EntryId;
use crate::window::Prices;

/// Runs a strategy, and takes its edits back unless they pay.
///
/// What was sent with the last request lies in the provider's cache, and a request that repeats it
/// pays little for it. An edit makes each later request shorter; but everything behind the first
/// edit has to be sent anew, once. It pays where what it saves within so many more requests is
/// more than that costs. An edit of what was not sent yet costs nothing and always passes. So small
/// edits wait, and go together once they are worth it.
///
/// Use it around what edits old parts of a history: [`ClearToolResults`](super::ClearToolResults),
/// [`DeduplicateFileReads`](super::DeduplicateFileReads).
#[derive(Debug, Clone)]
pub struct CostGate {
    /// What it lets through.
    pub strategy: Arc<dyn Strategy>,
    /// What a token costs, from the cache and not.
    pub rates: CacheRates,
    /// Within how many more requests an edit must pay.
    pub horizon: u32,
    /// Above this size of the request it may take as many as the history has turns, where they are
    /// more: of what has lasted so long, as much again is to be expected.
    pub patient_above: Limit,
    /// Above this size it passes whatever it costs.
    pub forced_above: Limit,
}

/// Within how many requests an edit must pay, unless it is said otherwise.
pub const HORIZON: u32 = 10;

/// What a token of input costs, relative to one another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CacheRates {
    /// Found in the provider's cache.
    pub read: f64,
    /// Not found, and cached for the next request.
    pub write: f64,
}

impl Default for CacheRates {
    /// Anthropic's, in prices of a token without a cache: reads at a tenth, writes at five
    /// quarters. Where writes are cheaper an edit pays sooner, so these are careful.
    fn default() -> Self {
        Self { read: 0.1, write: 1.25 }
    }
}

impl From<&Prices> for CacheRates {
    /// By a model's prices; where they are not known, the default. A provider that takes nothing
    /// extra for writing takes its price of input.
    fn from(prices: &Prices) -> Self {
        match (prices.cache_read, prices.cache_write.or(prices.input)) {
            (Some(read), Some(write)) => Self { read, write },
            _ => Self::default(),
        }
    }
}

/// What edits cost and save, in tokens at the prices of [`CacheRates`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct CostOfEdits {
    /// What sending anew costs, once.
    pub once: f64,
    /// What each later request is cheaper by.
    pub saved_by_request: f64,
}

impl CostOfEdits {
    /// What the edits from `before` to `after` cost.
    pub fn of(before: &Draft<'_, '_>, after: &Draft<'_, '_>, rates: CacheRates) -> Self {
        let entries = after.history().entries().len();
        let sent = after.sent().0;
        let is_edited = |at: &usize| before.weight(EntryId(*at)) != after.weight(EntryId(*at));
        let Some(first) = (0..entries).find(is_edited) else { return Self::default() };
        let weight = |draft: &Draft<'_, '_>, from: usize, to: usize| -> Weight {
            (from..to).map(|at| draft.weight(EntryId(at))).sum()
        };
        // What was in the cache and lies behind the edit is sent anew.
        let again = weight(after, first, sent.max(first)).tokens() as f64;
        let cached = weight(before, first, sent.max(first)).tokens() as f64;
        let saved = before.tokens().saturating_sub(after.tokens()) as f64;
        Self {
            once: again * rates.write - cached * rates.read,
            saved_by_request: saved * rates.read,
        }
    }

    /// Whether the edits pay within so many more requests.
    pub fn pays_within(self, horizon: u32) -> bool {
        self.saved_by_request * f64::from(horizon) >= self.once
    }
}

impl Strategy for CostGate {
    fn edit<'f>(
        &'f self,
        draft: &'f mut Draft<'_, '_>,
    ) -> BoxFuture<'f, Result<(), StrategyError>> {
        Box::pin(async move {
            let before = draft.clone();
            self.strategy.edit(draft).await?;
            let is_above = |limit: Limit| before.tokens() > limit.tokens(draft.scene().budget);
            let turns = u32::try_from(draft.history().turns().len()).unwrap_or(u32::MAX);
            let patience = if is_above(self.patient_above) { turns } else { 0 };
            let cost = CostOfEdits::of(&before, draft, self.rates);
            if !is_above(self.forced_above) && !cost.pays_within(self.horizon.max(patience)) {
                let usage = draft.usage;
                *draft = before;
                draft.usage = usage;
            }
            Ok(())
        })
    }

    fn instead(&self) -> Option<Arc<dyn Strategy>> {
        let strategy = self.strategy.instead()?;
        Some(Arc::new(Self { strategy, ..self.clone() }))
    }
}
