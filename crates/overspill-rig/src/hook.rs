//! Where rig asks: after a tool returned, before a request goes out, after its answer.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use overspill::capability::{Stack, ToolDefinition};
use overspill::fit::Fitted;
use overspill::{Admitted, RunId, ToolCall, Usage};
use rig_agent::agent::{
    AgentBuilder, AgentHook, DispatchAction, DispatchEvent, HookContext, NoToolConfig,
    OutcomeAction, OutcomeEvent, StepEventKind, WithBuilderTools,
};
use rig_core::completion::CompletionRequest;
use rig_core::effect::EffectKind;
use rig_core::message::{CallId, ToolName};
use rig_core::tool::{DynamicTool, ToolOutput};

use crate::ledger::{Ledger, chain};
use crate::messages::{ApplyError, Messages};
use crate::result::{to_output, to_return};
use crate::spelled::Spelled;

/// A stack of capabilities in a rig agent: a hook and the tools that go with it.
///
/// Clones share everything. One of them may serve any number of runs at the same time; what the
/// model asks for with `compact_history` and what the stack has spent belong to the stack, so
/// conversations that should not share those get a stack each.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use overspill::capability::{Capability, Compaction, Stack};
/// use overspill::{ToolOutputLimits, config::Preset, fit::Fitter, window};
/// use overspill_rig::{Overspill, WithOverspill};
/// use overspill_store::MemoryStore;
/// use rig_agent::agent::AgentBuilder;
/// use rig_core::test_utils::MockCompletionModel;
///
/// let store = Arc::new(MemoryStore::new());
/// let window = window::resolve("gpt-5.2", &Default::default());
/// let limits = ToolOutputLimits::builder().store(store.clone()).build()?;
/// let history = Compaction::preset(Preset::Lean, &window);
/// let capabilities: [Arc<dyn Capability>; 2] = [Arc::new(limits), Arc::new(history)];
/// let stack = Stack::new(Fitter::preset(Preset::Lean, store, &window), capabilities);
///
/// let model = MockCompletionModel::text("Done.");
/// let agent = AgentBuilder::new(model).overspill(&Overspill::new(stack)).build();
/// assert_eq!(agent.prompt("Go.").await?.output(), "Done.");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Overspill {
    stack: Arc<Stack>,
    run: Option<RunId>,
    watcher: Option<Arc<Watcher>>,
    ledger: Arc<Mutex<Ledger>>,
}

type Watcher = dyn Fn(Event<'_>) + Send + Sync;

/// Something that was done, or could not be.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'e> {
    /// A tool returned, and this enters the history.
    Returned {
        /// The call.
        call: &'e ToolCall,
        /// What stands in view, what was stored, what could not be done.
        admitted: &'e Admitted,
    },
    /// A request goes out.
    Requested {
        /// The run.
        run: &'e RunId,
        /// Its tokens before and after, and what could not be done.
        fitted: &'e Fitted,
    },
    /// What was decided for a request could not be applied: it goes out as it was.
    NotApplied {
        /// The run.
        run: &'e RunId,
        /// Why.
        error: &'e ApplyError,
    },
}

impl Overspill {
    /// Drives a stack.
    pub fn new(stack: impl Into<Arc<Stack>>) -> Self {
        Self { stack: stack.into(), run: None, watcher: None, ledger: Arc::default() }
    }

    /// Names the run in every handle, where a name is known that lasts, such as a conversation's.
    /// Without one, it is `rig-` and rig's number of the run, which counts from 1 in each process.
    #[must_use]
    pub fn run(mut self, run: impl Into<RunId>) -> Self {
        self.run = Some(run.into());
        self
    }

    /// Tells `watcher` of everything that is done and of what could not be done.
    #[must_use]
    pub fn watch(mut self, watcher: impl Fn(Event<'_>) + Send + Sync + 'static) -> Self {
        self.watcher = Some(Arc::new(watcher));
        self
    }

    /// The tools of the stack, for an agent with a tool server of its own.
    pub fn tools(&self) -> Vec<DynamicTool> {
        self.stack.tools().into_iter().filter_map(|tool| self.tool(tool)).collect()
    }

    /// What was used so far, of which rig counts the agent's own requests alone.
    pub fn spent(&self) -> Usage {
        self.stack.spent()
    }

    fn tool(&self, tool: ToolDefinition) -> Option<DynamicTool> {
        // A tool without a name is none that a model can call.
        let name = ToolName::new(tool.name.clone()).ok()?;
        let stack = Arc::clone(&self.stack);
        let (tool, description, parameters) = (tool.name, tool.description, tool.parameters);
        Some(DynamicTool::new(name, description, parameters, move |args| {
            let (stack, tool) = (Arc::clone(&stack), tool.clone());
            Box::pin(async move {
                // The stack answers every tool that it has.
                let answer = stack.call(&tool, &args).await.unwrap_or_default();
                Ok(ToolOutput::text(answer))
            })
        }))
    }

    fn run_of(&self, ctx: &HookContext) -> RunId {
        self.run.clone().unwrap_or_else(|| RunId::new(format!("rig-{}", ctx.run_id())))
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, event: Event<'_>) {
        if let Some(watcher) = &self.watcher {
            watcher(event);
        }
    }
}

impl Overspill {
    /// The request with a history that fits; `None` where it goes out as it is.
    async fn fit(
        &self,
        run: &RunId,
        request: &CompletionRequest,
    ) -> Result<Option<CompletionRequest>, ApplyError> {
        let given = request.chat_history.iter().cloned().map(Spelled::new);
        let given: Vec<Arc<Spelled>> =
            given.map(|it| it.map(Arc::new)).collect::<Result<_, _>>()?;
        let digests = chain(&given);
        let (list, reported, seen) = {
            let mut ledger = self.ledger();
            let (seen, mut list) = ledger.find(&digests).unwrap_or_default();
            list.extend_from_slice(&given[seen..]);
            let reported = ledger.reports(&list);
            (list, reported, seen)
        };
        let messages = Messages::new(list).sent_with(request)?;
        let fitted = self.stack.before_request(run, &messages.history(&reported)).await;
        self.tell(Event::Requested { run, fitted: &fitted });
        let left = match (&fitted.plan, digests.last()) {
            (Some(plan), Some(history)) => {
                let left = messages.apply(plan)?;
                self.ledger().keep(*history, left.clone());
                left
            }
            _ if seen == 0 => return Ok(None),
            _ => messages.into_list(),
        };
        let mut request = request.clone();
        request.chat_history = left.iter().map(|message| message.message.clone()).collect();
        Ok(Some(request))
    }

    /// Notes what the provider said of a request, so that the next one is not estimated anew.
    fn note(&self, request: &CompletionRequest, usage: Usage) {
        let sent = request.chat_history.iter().cloned().map(Spelled::new);
        let Ok(sent) = sent.map(|it| it.map(Arc::new)).collect::<Result<Vec<_>, _>>() else {
            return;
        };
        if let Some(request) = chain(&sent).last() {
            self.ledger().report(*request, usage);
        }
    }
}

impl AgentHook for Overspill {
    fn name(&self) -> Option<String> {
        Some("overspill".to_owned())
    }

    async fn on_dispatch(&self, ctx: &HookContext, event: DispatchEvent<'_>) -> DispatchAction {
        let EffectKind::Completion { request, stream } = event.kind else {
            return DispatchAction::proceed();
        };
        let run = self.run_of(ctx);
        match self.fit(&run, request).await {
            Ok(Some(request)) => {
                DispatchAction::patch(EffectKind::Completion { request, stream: *stream })
            }
            Ok(None) => DispatchAction::proceed(),
            Err(error) => {
                self.tell(Event::NotApplied { run: &run, error: &error });
                DispatchAction::proceed()
            }
        }
    }

    async fn on_outcome(&self, ctx: &HookContext, event: OutcomeEvent<'_>) -> OutcomeAction {
        if let (Some(answer), EffectKind::Completion { request, .. }) =
            (event.completion(), event.kind)
        {
            let usage = Usage {
                requests: 1,
                input_tokens: answer.usage.input_tokens.unwrap_or_default(),
                output_tokens: answer.usage.output_tokens.unwrap_or_default(),
            };
            self.stack.after_response(usage);
            if usage.input_tokens > 0 {
                self.note(request, usage);
            }
            return OutcomeAction::proceed();
        }
        let (Some(result), Some(tool)) = (event.tool_result(), event.tool_name()) else {
            return OutcomeAction::proceed();
        };
        let Some(output) = to_return(result) else {
            return OutcomeAction::proceed();
        };
        let call = event.call_id.map(CallId::wire).unwrap_or_default();
        let call = ToolCall::new(self.run_of(ctx), call, tool);
        let admitted = self.stack.on_return(&call, output.clone()).await;
        self.tell(Event::Returned { call: &call, admitted: &admitted });
        if admitted.output == output {
            return OutcomeAction::proceed();
        }
        match to_output(admitted.output, result) {
            Some(output) => OutcomeAction::rewrite_tool_output(&event, output),
            None => OutcomeAction::proceed(),
        }
    }

    fn observes(&self, kind: StepEventKind) -> bool {
        matches!(kind, StepEventKind::CompletionDispatch | StepEventKind::ToolDispatch)
    }
}

impl fmt::Debug for Overspill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overspill")
            .field("stack", &self.stack)
            .field("run", &self.run)
            .finish_non_exhaustive()
    }
}

/// Puts [`Overspill`] into an agent.
///
/// Call it after the other hooks are added: rig runs hooks in the order they were added, and what
/// another one makes of a result or a request is then what is reduced.
pub trait WithOverspill {
    /// Adds the hook, and the tools of its stack.
    fn overspill(self, overspill: &Overspill) -> AgentBuilder<WithBuilderTools>;
}

impl WithOverspill for AgentBuilder<NoToolConfig> {
    fn overspill(self, overspill: &Overspill) -> AgentBuilder<WithBuilderTools> {
        self.add_hook(overspill.clone()).dynamic_tools(overspill.tools())
    }
}

impl WithOverspill for AgentBuilder<WithBuilderTools> {
    fn overspill(self, overspill: &Overspill) -> AgentBuilder<WithBuilderTools> {
        self.add_hook(overspill.clone()).dynamic_tools(overspill.tools())
    }
}
