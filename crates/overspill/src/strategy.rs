//! What may leave a history, or shrink, so that it fits?
//!
//! A strategy edits a [`Draft`]: a history, what each part of it weighs, and the edits so far. It
//! stores nothing and changes nothing; what comes out is a [`Plan`]. Strategies can follow one
//! another on one draft, each seeing what those before it left.

mod clamp_oversized;
mod clear_tool_results;
mod cost_gate;
mod deduplicate_file_reads;
mod draft;
mod fallback;
mod file_keys;
mod limit_warner;
mod receipt;
mod relevance;
mod report_usage;
mod sliding_window;
mod store_arguments;
mod stub;
mod summarize;
mod tiered;
mod transcript;
mod trigger;

use std::fmt::Debug;
use std::sync::Arc;

use thiserror::Error;

use crate::BoxFuture;
use crate::summary::SummaryError;

pub use clamp_oversized::ClampOversized;
pub use clear_tool_results::ClearToolResults;
pub use cost_gate::{CacheRates, CostGate, CostOfEdits, HORIZON};
pub use deduplicate_file_reads::{DeduplicateFileReads, OutdatedBy};
pub use draft::{Draft, Scene};
pub use fallback::Fallback;
pub use file_keys::{FileAccess, FileKeys, FileUse};
pub use limit_warner::LimitWarner;
pub use relevance::Relevance;
pub use report_usage::{ReportUsage, WindowUsage};
pub use sliding_window::{Keep, SlidingWindow};
pub use store_arguments::StoreArguments;
pub use summarize::Summarize;
pub use tiered::Tiered;
pub use trigger::{Limit, Trigger, Triggered};

/// A way to make a history smaller.
pub trait Strategy: Debug + Send + Sync {
    /// Adds its edits to the draft. The same draft gets the same edits.
    ///
    /// # Errors
    ///
    /// [`StrategyError`] when it needs a model that fails. The draft may then hold a part of its
    /// edits.
    fn edit<'f>(&'f self, draft: &'f mut Draft<'_, '_>)
    -> BoxFuture<'f, Result<(), StrategyError>>;

    /// What to try instead when this one fails, or when what it planned cannot be settled.
    fn instead(&self) -> Option<Arc<dyn Strategy>> {
        None
    }
}

/// Why a strategy could not edit.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StrategyError {
    /// It asks a model, and the model failed, or there is none.
    #[error("the model that judges the history failed")]
    Model(#[from] SummaryError),
}

/// A future that is done, for strategies that ask nobody.
fn done<'f>() -> BoxFuture<'f, Result<(), StrategyError>> {
    Box::pin(std::future::ready(Ok(())))
}

#[cfg(test)]
mod tests;
