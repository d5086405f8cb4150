//! The second path: a history goes in, and a plan comes out by which it fits.
//!
//! Count, edit, settle. Whatever fails on the way, the history is as it was: what could not be done
//! is a warning.

mod preset;

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::config::Preset;
use crate::count::Counter;
use crate::entry::MessageId;
use crate::history::{History, Plan, Ports, SettleError, SettledPlan, settle};
use crate::item::RunId;
use crate::marker::ReadVia;
use crate::store::Store;
use crate::strategy::{CacheRates, Draft, Scene, Strategy, StrategyError};
use crate::summary::{TextModel, Usage};
use crate::trace::{self, Span};
use crate::window::{ModelWindow, Source};

/// Brings histories under a budget by one strategy, which may be made of several.
#[derive(Clone)]
pub struct Fitter {
    strategy: Arc<dyn Strategy>,
    store: Arc<dyn Store>,
    model: Option<Arc<dyn TextModel>>,
    counter: Counter,
    via: ReadVia,
    budget: u64,
    is_guess: bool,
}

/// What one request is, apart from its history.
#[derive(Debug, Clone, Copy, Default)]
pub struct Occasion<'o> {
    /// Messages that survive everything.
    pub pins: &'o [MessageId],
    /// What a summary is to dwell on.
    pub focus: Option<&'o str>,
    /// What the run has used so far.
    pub spent: Usage,
}

/// What was decided for a history.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Fitted {
    /// What is to be applied; `None` where the history stays as it is.
    pub plan: Option<SettledPlan>,
    /// Tokens of the request before, and after, as far as the words that were not written yet can
    /// be estimated.
    pub before: u64,
    /// See `before`.
    pub after: u64,
    /// What models took; it belongs on the run's bill.
    pub usage: Usage,
    /// What could not be done.
    pub warnings: Vec<FitWarning>,
}

/// Something that could not be done. The next thing there is was tried.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FitWarning {
    /// A strategy could not plan.
    #[error("the history was not made smaller: {0}")]
    Strategy(Arc<StrategyError>),
    /// A plan could not be settled.
    #[error("the history was not made smaller: {0}")]
    Settle(#[from] SettleError),
}

/// What a preset edits by, for this model.
pub(crate) fn preset_strategy(preset: Preset, window: &ModelWindow) -> Arc<dyn Strategy> {
    preset::strategy(preset, CacheRates::from(&window.prices))
}

impl Fitted {
    /// Tells a span what was done.
    fn tell(&self, span: &Span) {
        span.count(trace::TOKENS_BEFORE, self.before);
        span.count(trace::TOKENS_AFTER, self.after);
        let plan = self.plan.iter().filter(|plan| !plan.is_empty());
        for plan in plan {
            span.compacted();
            span.count(trace::EDITS, plan.changes().len() as u64);
            span.count(trace::STORED, plan.receipts().len() as u64);
            for receipt in plan.receipts() {
                span.stored(receipt.handle.as_str(), receipt.chars);
            }
        }
        for warning in &self.warnings {
            span.warned(warning.kind());
        }
        span.count(trace::WARNINGS, self.warnings.len() as u64);
        span.count(trace::REQUESTS, self.usage.requests);
    }
}

impl FitWarning {
    /// Its kind, for traces: nothing of the history is in it.
    fn kind(&self) -> &'static str {
        match self {
            Self::Strategy(_) => "not_planned",
            Self::Settle(SettleError::Refused(_)) => "refused",
            Self::Settle(SettleError::Store(_)) => "not_stored",
            Self::Settle(SettleError::Summary(_)) => "not_summarized",
        }
    }
}

impl Fitter {
    /// Edits by `strategy`, stores in `store` what leaves, and takes `budget` tokens for what a
    /// request may have. Markers speak of the read tool by its usual name.
    pub fn new(strategy: Arc<dyn Strategy>, store: Arc<dyn Store>, budget: u64) -> Self {
        Self {
            strategy,
            store,
            model: None,
            counter: Counter::default(),
            via: ReadVia::Tool(crate::read::ReadTool::NAME.to_owned()),
            budget,
            is_guess: false,
        }
    }

    /// What a preset does to histories for this model.
    pub fn preset(preset: Preset, store: Arc<dyn Store>, window: &ModelWindow) -> Self {
        let fitter = Self::new(preset_strategy(preset, window), store, window.input_budget);
        if window.source == Source::Fallback { fitter.guessed() } else { fitter }
    }

    /// Edits by another strategy.
    #[must_use]
    pub(crate) fn strategy(mut self, strategy: Arc<dyn Strategy>) -> Self {
        self.strategy = strategy;
        self
    }

    /// Asks this model where a strategy needs one.
    #[must_use]
    pub fn model(mut self, model: Arc<dyn TextModel>) -> Self {
        self.model = Some(model);
        self
    }

    /// Counts in another way.
    #[must_use]
    pub fn counter(mut self, counter: Counter) -> Self {
        self.counter = counter;
        self
    }

    /// Says in markers how to read.
    #[must_use]
    pub fn via(mut self, via: ReadVia) -> Self {
        self.via = via;
        self
    }

    /// Says that the budget is a guess, for what reports it.
    #[must_use]
    pub fn guessed(mut self) -> Self {
        self.is_guess = true;
        self
    }

    /// Plans without storing anything or asking a model to write; strategies that need a model's
    /// judgement ask for it all the same.
    ///
    /// # Errors
    ///
    /// [`StrategyError`] when the strategy, and what it has to try instead, fail.
    pub async fn plan(
        &self,
        history: &History<'_>,
        occasion: &Occasion<'_>,
    ) -> Result<Plan, StrategyError> {
        let count = self.counter.count(history);
        let mut strategy = Some(Arc::clone(&self.strategy));
        let mut last = None;
        while let Some(next) = strategy {
            let mut draft = Draft::new(self.scene(history, &count, occasion));
            match next.edit(&mut draft).await {
                Ok(()) => return Ok(draft.finish()),
                Err(error) => last = Some(error),
            }
            strategy = next.instead();
        }
        match last {
            Some(error) => Err(error),
            None => Ok(Plan::default()),
        }
    }

    /// Plans, and settles what is planned.
    pub async fn fit(&self, run: &RunId, history: &History<'_>, occasion: &Occasion<'_>) -> Fitted {
        let span = Span::fit(run);
        span.count(trace::TOKENS_BUDGET, self.budget);
        let fitted = span.around(self.try_all(run, history, occasion)).await;
        fitted.tell(&span);
        fitted
    }

    /// Tries the strategy, and what it has to try instead.
    async fn try_all(&self, run: &RunId, history: &History<'_>, occasion: &Occasion<'_>) -> Fitted {
        let count = self.counter.count(history);
        let before = count.tokens();
        let mut fitted = Fitted { before, after: before, ..Fitted::default() };
        let ports = Ports::new(run, &self.store, &self.via);
        let ports = match &self.model {
            Some(model) => ports.with_model(&**model),
            None => ports,
        };
        let mut strategy = Some(Arc::clone(&self.strategy));
        while let Some(next) = strategy {
            let mut draft = Draft::new(self.scene(history, &count, occasion));
            let edited = next.edit(&mut draft).await;
            fitted.usage += draft.usage;
            let failures = draft.failures().iter().cloned();
            fitted.warnings.extend(failures.map(FitWarning::Strategy));
            let after = draft.tokens();
            let settled = match edited {
                Err(error) => Err(FitWarning::Strategy(Arc::new(error))),
                Ok(()) => {
                    let plan = draft.finish();
                    if plan.is_empty() {
                        return fitted;
                    }
                    settle(history, &plan, &ports).await.map_err(FitWarning::from)
                }
            };
            match settled {
                Ok(plan) => {
                    fitted.usage += plan.usage();
                    fitted.after = after;
                    fitted.plan = Some(plan);
                    return fitted;
                }
                Err(warning) => {
                    if let FitWarning::Settle(SettleError::Summary(error)) = &warning {
                        fitted.usage += error.usage;
                    }
                    fitted.warnings.push(warning);
                }
            }
            strategy = next.instead();
        }
        fitted
    }

    fn scene<'v, 'a>(
        &'v self,
        history: &'v History<'a>,
        count: &'v crate::count::Count,
        occasion: &Occasion<'v>,
    ) -> Scene<'v, 'a> {
        Scene {
            is_guess: self.is_guess,
            spent: occasion.spent,
            pins: occasion.pins,
            model: self.model.as_deref(),
            focus: occasion.focus,
            ..Scene::new(history, count, &self.counter, self.budget)
        }
    }
}

impl fmt::Debug for Fitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fitter")
            .field("strategy", &self.strategy)
            .field("counter", &self.counter)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}
