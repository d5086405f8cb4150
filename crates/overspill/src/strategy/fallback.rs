//! The next strategy when one fails.

use std::sync::Arc;

use super::{Draft, Strategy, StrategyError};
use crate::BoxFuture;

/// Runs the first strategy; where it fails, or what it planned cannot be settled because a model
/// writes nothing, the next.
///
/// Use it around what needs a model, with something behind it that needs none.
#[derive(Debug, Clone)]
pub struct Fallback {
    first: Arc<dyn Strategy>,
    next: Vec<Arc<dyn Strategy>>,
}

impl Fallback {
    /// `first`, and what to try after it, in order.
    pub fn new(
        first: Arc<dyn Strategy>,
        next: impl IntoIterator<Item = Arc<dyn Strategy>>,
    ) -> Self {
        Self { first, next: next.into_iter().collect() }
    }
}

impl Strategy for Fallback {
    fn edit<'f>(
        &'f self,
        draft: &'f mut Draft<'_, '_>,
    ) -> BoxFuture<'f, Result<(), StrategyError>> {
        Box::pin(async move {
            let before = draft.clone();
            let mut result = self.first.edit(draft).await;
            for next in &self.next {
                let Err(error) = result else { break };
                draft.undo(before.clone(), error);
                result = next.edit(draft).await;
            }
            result
        })
    }

    fn instead(&self) -> Option<Arc<dyn Strategy>> {
        if let Some(first) = self.first.instead() {
            return Some(Arc::new(Self { first, next: self.next.clone() }));
        }
        let (first, next) = self.next.split_first()?;
        Some(Arc::new(Self { first: Arc::clone(first), next: next.to_vec() }))
    }
}
