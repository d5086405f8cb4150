//! An agent with one tool that puts out much.

use std::sync::{Arc, Mutex};

use overspill::capability::{Capability, Compaction, Stack};
use overspill::fit::Fitter;
use overspill::strategy::{SlidingWindow, Strategy};
use overspill::summary::TextModel;
use overspill::{Store, ToolOutputLimits};
use overspill_rig::{Event, Overspill, WithOverspill};
use overspill_store::MemoryStore;
use rig_agent::agent::{Agent, AgentBuilder};
use rig_core::DynModel;
use rig_core::message::ToolName;
use rig_core::operation::Completion;
use rig_core::tool::{DynamicTool, ToolOutput};
use serde_json::{Value, json};

/// What the tool `log` puts out for a run of tests: about 60,000 characters, with one line in the
/// middle that no other output has.
pub(crate) fn log(n: u64) -> String {
    let line = |i| format!("test case_{i} of run {n} ... ok\n");
    let before: String = (0..1_000).map(line).collect();
    let after: String = (1_000..2_000).map(line).collect();
    format!("{before}the secret of run {n} is {}\n{after}", n * 7_919)
}

/// The tool, whose argument is the number of the run.
pub(crate) fn log_tool() -> DynamicTool {
    let parameters = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let name = ToolName::new("log").unwrap();
    DynamicTool::new(name, "Runs the tests.", parameters, |args: Value| {
        Box::pin(async move { Ok(ToolOutput::text(log(args["n"].as_u64().unwrap_or_default()))) })
    })
}

/// What an agent has.
pub(crate) struct Rig {
    pub(crate) agent: Agent,
    pub(crate) overspill: Overspill,
    pub(crate) limits: ToolOutputLimits,
    /// What was said of each request: its tokens before and after, and whether it was edited.
    pub(crate) requests: Arc<Mutex<Vec<(u64, u64, bool)>>>,
    /// The handles of what was stored, in order.
    pub(crate) handles: Arc<Mutex<Vec<String>>>,
    /// What could not be done.
    pub(crate) warnings: Arc<Mutex<Vec<String>>>,
}

/// How an agent is set up.
pub(crate) struct Setup {
    pub(crate) history: Compaction,
    pub(crate) budget: u64,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) summaries: Option<Arc<dyn TextModel>>,
}

impl Setup {
    pub(crate) fn new(strategy: impl Strategy + 'static, budget: u64) -> Self {
        Self {
            history: Compaction::new(Arc::new(strategy)),
            budget,
            store: Arc::new(MemoryStore::new()),
            summaries: None,
        }
    }

    pub(crate) fn agent(self, model: impl Into<DynModel<Completion>>) -> Rig {
        let limits = ToolOutputLimits::builder().store(Arc::clone(&self.store)).build().unwrap();
        // A stack edits by its capabilities alone.
        let mut fitter = Fitter::new(Arc::new(SlidingWindow::default()), self.store, self.budget);
        if let Some(model) = self.summaries {
            fitter = fitter.model(model);
        }
        let capabilities: [Arc<dyn Capability>; 2] =
            [Arc::new(limits.clone()), Arc::new(self.history)];
        let requests: Arc<Mutex<Vec<_>>> = Arc::default();
        let handles: Arc<Mutex<Vec<String>>> = Arc::default();
        let warnings: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = (Arc::clone(&requests), Arc::clone(&handles), Arc::clone(&warnings));
        let overspill =
            Overspill::new(Stack::new(fitter, capabilities)).run("run").watch(move |event| {
                match event {
                    Event::Returned { admitted, .. } => {
                        let stored = admitted.receipts().map(|receipt| receipt.handle.to_string());
                        seen.1.lock().unwrap().extend(stored);
                        let warned = admitted.warnings.iter().map(ToString::to_string);
                        seen.2.lock().unwrap().extend(warned);
                    }
                    Event::Requested { fitted, .. } => {
                        let edited = fitted.plan.is_some();
                        seen.0.lock().unwrap().push((fitted.before, fitted.after, edited));
                        seen.2
                            .lock()
                            .unwrap()
                            .extend(fitted.warnings.iter().map(ToString::to_string));
                    }
                    Event::NotApplied { error, .. } => {
                        seen.2.lock().unwrap().push(error.to_string());
                    }
                    _ => {}
                }
            });
        let agent = AgentBuilder::new(model)
            .preamble("You run tests.")
            .default_max_turns(200)
            .dynamic_tool(log_tool())
            .overspill(&overspill)
            .build();
        Rig { agent, overspill, limits, requests, handles, warnings }
    }
}

/// The messages of a request, each as it was sent.
pub(crate) fn messages(request: &Value) -> Vec<String> {
    request["messages"].as_array().unwrap().iter().map(ToString::to_string).collect()
}

/// What a model reads of a request, in tokens of four characters.
pub(crate) fn tokens(request: &Value) -> u64 {
    let texts = |value: &Value| said(value).chars().count();
    let of = |message: &Value| {
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        let calls: usize = calls
            .map(|call| texts(&call["function"]["name"]) + texts(&call["function"]["arguments"]))
            .sum();
        calls + texts(&message["content"])
    };
    let said: usize = request["messages"].as_array().unwrap().iter().map(of).sum();
    let tools = request["tools"].as_array().into_iter().flatten();
    let tools: usize = tools.map(|tool| tool["function"].to_string().chars().count()).sum();
    (said + tools) as u64 / 4
}

/// A content, which is a text or a list of them.
pub(crate) fn said(content: &Value) -> String {
    let parts = content.as_array().into_iter().flatten();
    let parts = parts.filter_map(|part| part["text"].as_str());
    content.as_str().into_iter().chain(parts).collect()
}

/// The last message's text.
pub(crate) fn last_text(request: &Value) -> String {
    let last = request["messages"].as_array().unwrap().last().unwrap();
    said(&last["content"])
}
