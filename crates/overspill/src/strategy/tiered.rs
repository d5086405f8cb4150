//! Cheap strategies first, the next only while the history is still too big.

use std::sync::Arc;

use super::{Draft, Limit, Strategy, StrategyError};
use crate::BoxFuture;

/// Runs its tiers in order until the history is at its target or under it; it is measured anew
/// after each. A tier that fails is left out.
///
/// Use it as the outermost strategy: what costs nothing in meaning first (clearing results that
/// can be read back), what costs a model call or a turn last.
#[derive(Debug, Clone)]
pub struct Tiered {
    /// The strategies, the cheapest first.
    pub tiers: Vec<Arc<dyn Strategy>>,
    /// How big the history may stay.
    pub target: Limit,
}

impl Strategy for Tiered {
    fn edit<'f>(
        &'f self,
        draft: &'f mut Draft<'_, '_>,
    ) -> BoxFuture<'f, Result<(), StrategyError>> {
        Box::pin(async move {
            let target = self.target.tokens(draft.scene().budget);
            for tier in &self.tiers {
                if draft.tokens() <= target {
                    return Ok(());
                }
                let before = draft.clone();
                if let Err(error) = tier.edit(draft).await {
                    draft.undo(before, error);
                }
            }
            Ok(())
        })
    }

    fn instead(&self) -> Option<Arc<dyn Strategy>> {
        // The tiers that have something else to try try it together.
        let mut any = false;
        let tiers = self.tiers.iter().map(|tier| {
            let instead = tier.instead();
            any |= instead.is_some();
            instead.unwrap_or_else(|| Arc::clone(tier))
        });
        let tiers = tiers.collect();
        any.then(|| Arc::new(Self { tiers, target: self.target }) as Arc<dyn Strategy>)
    }
}
