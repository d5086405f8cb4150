//! Runs strategies that ask a model.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use futures_lite::future::block_on;

use super::script::Script;
use crate::BoxFuture;
use crate::count::Counter;
use crate::history::{Plan, Ports, SettleError, SettledPlan, settle};
use crate::item::RunId;
use crate::marker::ReadVia;
use crate::store::Store;
use crate::store::memory::Memory;
use crate::strategy::{Draft, Scene, Strategy, StrategyError};
use crate::summary::{Summary, SummaryError, TextModel, Usage};

/// A model that answers what it is told, in order, and remembers what it was asked.
#[derive(Default)]
pub(in crate::strategy) struct Scripted {
    answers: Mutex<VecDeque<Result<String, String>>>,
    prompts: Mutex<Vec<String>>,
}

/// What each answer of it takes.
pub(in crate::strategy) const PRICE: Usage =
    Usage { requests: 1, input_tokens: 100, output_tokens: 10 };

impl Scripted {
    pub(in crate::strategy) fn new<const N: usize>(answers: [Result<&str, &str>; N]) -> Self {
        let answers = answers.map(|a| a.map(str::to_owned).map_err(str::to_owned));
        Self { answers: Mutex::new(answers.into()), ..Self::default() }
    }

    pub(in crate::strategy) fn prompts(&self) -> Vec<String> {
        self.prompts.lock().unwrap().clone()
    }
}

impl TextModel for Scripted {
    fn complete<'a>(&'a self, prompt: &'a str) -> BoxFuture<'a, Result<Summary, SummaryError>> {
        self.prompts.lock().unwrap().push(prompt.to_owned());
        let answer = self.answers.lock().unwrap().pop_front().expect("an answer for each prompt");
        Box::pin(std::future::ready(match answer {
            Ok(text) => Ok(Summary { text, usage: PRICE }),
            Err(message) => Err(SummaryError::new(message).with_usage(PRICE)),
        }))
    }
}

/// Runs strategies on conversations, with one store.
pub(in crate::strategy) struct Bench<'b> {
    pub(in crate::strategy) model: Option<&'b dyn TextModel>,
    pub(in crate::strategy) counter: Counter,
    pub(in crate::strategy) budget: u64,
    pub(in crate::strategy) focus: Option<&'b str>,
    pub(in crate::strategy) store: Arc<Memory>,
}

impl<'b> Bench<'b> {
    pub(in crate::strategy) fn new(model: &'b dyn TextModel) -> Self {
        Self {
            model: Some(model),
            counter: Counter::default(),
            budget: 100_000,
            focus: None,
            store: Arc::default(),
        }
    }

    /// The plan, checked, and what judging took.
    pub(in crate::strategy) fn plan(
        &self,
        script: &Script,
        strategy: &dyn Strategy,
    ) -> Result<(Plan, Usage), (StrategyError, Usage)> {
        let history = script.history();
        let count = self.counter.count(&history);
        let pins = script.pins();
        let scene = Scene {
            pins: &pins,
            model: self.model,
            focus: self.focus,
            ..Scene::new(&history, &count, &self.counter, self.budget)
        };
        let mut draft = Draft::new(scene);
        if let Err(error) = block_on(strategy.edit(&mut draft)) {
            return Err((error, draft.usage));
        }
        let usage = draft.usage;
        let plan = draft.finish();
        assert_eq!(history.check(&plan), Ok(()), "{}", script.lines());
        Ok((plan, usage))
    }

    pub(in crate::strategy) fn settle(
        &self,
        script: &Script,
        plan: &Plan,
    ) -> Result<SettledPlan, SettleError> {
        let (run, via) = (RunId::new("run"), ReadVia::Tool("read_tool_result".into()));
        let store: Arc<dyn Store> = self.store.clone();
        let ports = Ports::new(&run, &store, &via);
        let ports = self.model.map_or(ports, |model| ports.with_model(model));
        block_on(settle(&script.history(), plan, &ports))
    }

    /// The conversation after the strategy, whatever that takes.
    pub(in crate::strategy) fn fit(&self, script: &Script, strategy: &dyn Strategy) -> Script {
        let (plan, _) = self.plan(script, strategy).unwrap();
        script.with(&self.settle(script, &plan).unwrap())
    }
}
