//! What a host gives its agent: several capabilities in a stack, driven by three calls.
//!
//! After a tool returned, [`Stack::on_return`]; before each request, [`Stack::before_request`];
//! after each response, [`Stack::after_response`]. The tools of the stack go into the request, and
//! [`Stack::call`] answers them.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::BoxFuture;
use crate::config::Preset;
use crate::fit::{Fitted, Fitter, Occasion, preset_strategy};
use crate::history::History;
use crate::intake::Admitted;
use crate::item::{RunId, ToolCall, ToolReturn};
use crate::limits::ToolOutputLimits;
use crate::read::ReadTool;
use crate::strategy::{Draft, Strategy, StrategyError};
use crate::summary::{RequestBudget, Usage};
use crate::window::ModelWindow;

/// A tool that a host offers the model, for any provider.
pub type ToolDefinition = ReadTool;

/// Something an agent is given: tools, a look at what tools return, a hand in what is sent.
pub trait Capability: Debug + Send + Sync {
    /// The tools it adds.
    fn tools(&self) -> Vec<ToolDefinition> {
        Vec::new()
    }

    /// Answers a call of one of its tools; `None` for others.
    fn call<'c>(&'c self, _tool: &'c str, _args: &'c Value) -> Option<BoxFuture<'c, String>> {
        None
    }

    /// Sees what a tool returned, before it enters the history.
    fn on_return<'c>(&'c self, _call: &'c ToolCall, output: ToolReturn) -> BoxFuture<'c, Admitted> {
        Box::pin(std::future::ready(Admitted::passed(output)))
    }

    /// Edits what is about to be sent.
    fn before_request<'c>(
        &'c self,
        _draft: &'c mut Draft<'_, '_>,
    ) -> BoxFuture<'c, Result<(), StrategyError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// What edits in its place when what it edited cannot be settled.
    fn instead(&self) -> Option<Arc<dyn Capability>> {
        None
    }

    /// Sees what a request took.
    fn after_response(&self, _usage: Usage) {}
}

impl Capability for ToolOutputLimits {
    fn tools(&self) -> Vec<ToolDefinition> {
        vec![self.read_tool().clone()]
    }

    fn call<'c>(&'c self, tool: &'c str, args: &'c Value) -> Option<BoxFuture<'c, String>> {
        (tool == self.read_tool().name).then(|| Box::pin(self.read(args)) as BoxFuture<'c, String>)
    }

    fn on_return<'c>(&'c self, call: &'c ToolCall, output: ToolReturn) -> BoxFuture<'c, Admitted> {
        Box::pin(self.admit(call, output))
    }
}

/// Makes the history smaller: by one strategy before each request, and by another when the host or
/// the model asks for it.
#[derive(Debug, Clone)]
pub struct Compaction {
    each_time: Arc<dyn Strategy>,
    on_demand: Option<Arc<dyn Strategy>>,
    /// What the compaction that was asked for is to dwell on.
    asked: Arc<Mutex<Option<String>>>,
}

impl Compaction {
    /// The name of the tool by which the model asks for a compaction.
    pub const TOOL: &'static str = "compact_history";

    /// Edits by this strategy before each request; it usually has a trigger.
    pub fn new(each_time: Arc<dyn Strategy>) -> Self {
        Self { each_time, on_demand: None, asked: Arc::default() }
    }

    /// Edits before each request as a preset does for this model.
    pub fn preset(preset: Preset, window: &ModelWindow) -> Self {
        Self::new(preset_strategy(preset, window))
    }

    /// Edits by this strategy, which has no trigger, when [`compact_now`](Self::compact_now) or the
    /// model's tool asks.
    #[must_use]
    pub fn on_demand(mut self, strategy: Arc<dyn Strategy>) -> Self {
        self.on_demand = Some(strategy);
        self
    }

    /// Compacts before the next request. A summary dwells on `focus`, if it says something.
    pub fn compact_now(&self, focus: &str) {
        *self.asked() = Some(focus.trim().to_owned());
    }

    fn asked(&self) -> MutexGuard<'_, Option<String>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Capability for Compaction {
    fn tools(&self) -> Vec<ToolDefinition> {
        let tool = || ToolDefinition {
            name: Self::TOOL.to_owned(),
            description: "Makes this conversation shorter before your next step: what is old \
                          leaves it, and is stored under a handle that stands in its place. Call \
                          it when a part of the task is done and its details are no longer needed."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "focus": {
                        "type": "string",
                        "default": "",
                        "description": "What you go on to need, for the summary to dwell on."
                    }
                },
                "additionalProperties": false
            }),
        };
        self.on_demand.iter().map(|_| tool()).collect()
    }

    fn call<'c>(&'c self, tool: &'c str, args: &'c Value) -> Option<BoxFuture<'c, String>> {
        (tool == Self::TOOL && self.on_demand.is_some()).then(|| {
            self.compact_now(args["focus"].as_str().unwrap_or_default());
            let answer = "The conversation is made shorter before your next step.".to_owned();
            Box::pin(std::future::ready(answer)) as BoxFuture<'c, String>
        })
    }

    fn before_request<'c>(
        &'c self,
        draft: &'c mut Draft<'_, '_>,
    ) -> BoxFuture<'c, Result<(), StrategyError>> {
        let asked = self.asked().clone();
        match (asked, &self.on_demand) {
            (Some(focus), Some(strategy)) => {
                draft.focus_on(&focus);
                strategy.edit(draft)
            }
            _ => self.each_time.edit(draft),
        }
    }

    fn instead(&self) -> Option<Arc<dyn Capability>> {
        let each_time = self.each_time.instead();
        let on_demand = self.on_demand.as_ref().and_then(|strategy| strategy.instead());
        (each_time.is_some() || on_demand.is_some()).then(|| {
            Arc::new(Self {
                each_time: each_time.unwrap_or_else(|| Arc::clone(&self.each_time)),
                on_demand: on_demand.or_else(|| self.on_demand.clone()),
                asked: Arc::clone(&self.asked),
            }) as Arc<dyn Capability>
        })
    }

    fn after_response(&self, _usage: Usage) {
        self.asked().take();
    }
}

/// Several capabilities, in order: each sees what those before it left.
#[derive(Debug)]
pub struct Stack {
    capabilities: Vec<Arc<dyn Capability>>,
    fitter: Fitter,
    spent: Mutex<Usage>,
    requests: Option<RequestBudget>,
}

impl Stack {
    /// Drives `capabilities`; `fitter` says what a request may have, where what leaves is stored
    /// and how it is counted, whatever its own strategy.
    pub fn new(
        fitter: Fitter,
        capabilities: impl IntoIterator<Item = Arc<dyn Capability>>,
    ) -> Self {
        let capabilities: Vec<_> = capabilities.into_iter().collect();
        let each = Arc::new(Each(capabilities.clone()));
        Self {
            capabilities,
            fitter: fitter.strategy(each),
            spent: Mutex::default(),
            requests: None,
        }
    }

    /// Counts the agent's own requests into this budget, which its models ask before they make one.
    #[must_use]
    pub fn requests(mut self, budget: RequestBudget) -> Self {
        self.requests = Some(budget);
        self
    }

    /// The tools of all.
    pub fn tools(&self) -> Vec<ToolDefinition> {
        self.capabilities.iter().flat_map(|capability| capability.tools()).collect()
    }

    /// Answers a call of one of those tools; `None` for others, which the host runs.
    pub async fn call(&self, tool: &str, args: &Value) -> Option<String> {
        let answer = self.capabilities.iter().find_map(|capability| capability.call(tool, args))?;
        Some(answer.await)
    }

    /// What is to enter the history for what a tool returned.
    pub async fn on_return(&self, call: &ToolCall, output: impl Into<ToolReturn>) -> Admitted {
        let mut admitted = Admitted::passed(output.into());
        for capability in &self.capabilities {
            let next = capability.on_return(call, std::mem::take(&mut admitted.output)).await;
            admitted.output = next.output;
            admitted.reductions.extend(next.reductions);
            admitted.warnings.extend(next.warnings);
            admitted.usage += next.usage;
        }
        self.spend(admitted.usage);
        admitted
    }

    /// What is to be applied to the history before it is sent.
    pub async fn before_request(&self, run: &RunId, history: &History<'_>) -> Fitted {
        let occasion = Occasion { spent: self.spent(), ..Occasion::default() };
        let fitted = self.fitter.fit(run, history, &occasion).await;
        self.spend(fitted.usage);
        fitted
    }

    /// Says what a request took.
    pub fn after_response(&self, usage: Usage) {
        self.spend(usage);
        if let Some(budget) = &self.requests {
            budget.spend(usage.requests);
        }
        self.capabilities.iter().for_each(|capability| capability.after_response(usage));
    }

    /// What the run has used so far, summaries included.
    pub fn spent(&self) -> Usage {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spend(&self, usage: Usage) {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner) += usage;
    }
}

/// Every capability's edits, in order. One that fails is left out.
#[derive(Debug)]
struct Each(Vec<Arc<dyn Capability>>);

impl Strategy for Each {
    fn edit<'f>(
        &'f self,
        draft: &'f mut Draft<'_, '_>,
    ) -> BoxFuture<'f, Result<(), StrategyError>> {
        Box::pin(async move {
            for capability in &self.0 {
                let before = draft.clone();
                if let Err(error) = capability.before_request(draft).await {
                    draft.undo(before, error);
                }
            }
            Ok(())
        })
    }

    fn instead(&self) -> Option<Arc<dyn Strategy>> {
        let mut any = false;
        let each = self.0.iter().map(|capability| {
            let instead = capability.instead();
            any |= instead.is_some();
            instead.unwrap_or_else(|| Arc::clone(capability))
        });
        let each = each.collect();
        any.then(|| Arc::new(Self(each)) as Arc<dyn Strategy>)
    }
}
