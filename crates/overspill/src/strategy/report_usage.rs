//! Tells the host how full the window is.

use std::fmt;
use std::sync::Arc;

use super::{Draft, Strategy, StrategyError, done};
use crate::BoxFuture;

/// Calls back with how much of the window is used. It never edits; where it stands in a stack says
/// whether it reports what comes in or what goes out.
#[derive(Clone)]
pub struct ReportUsage {
    report: Arc<dyn Fn(WindowUsage) + Send + Sync>,
}

/// How full the window is.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct WindowUsage {
    /// Tokens of the request.
    pub used: u64,
    /// Tokens it may have.
    pub window: u64,
    /// The first by the second.
    pub fraction: f64,
    /// Whether the window is a guess, because nothing is known of the model.
    pub is_guess: bool,
}

impl ReportUsage {
    /// Calls `report` before each request.
    pub fn new(report: impl Fn(WindowUsage) + Send + Sync + 'static) -> Self {
        Self { report: Arc::new(report) }
    }
}

impl fmt::Debug for ReportUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReportUsage")
    }
}

impl Strategy for ReportUsage {
    fn edit<'f>(
        &'f self,
        draft: &'f mut Draft<'_, '_>,
    ) -> BoxFuture<'f, Result<(), StrategyError>> {
        let (used, window) = (draft.tokens(), draft.scene().budget);
        (self.report)(WindowUsage {
            used,
            window,
            fraction: used as f64 / window.max(1) as f64,
            is_guess: draft.scene().is_guess,
        });
        done()
    }
}
