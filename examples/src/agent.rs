//! A small agent with Overspill in the loop.
//!
//! Ask the model, run the tools it calls, ask again. What a tool returns is reduced before it
//! enters the history; the history is fitted before each request; what was left out, the model
//! reads back through the tool of the stack.

use std::sync::Arc;

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::error::OpenAIError;
use overspill::capability::{Capability, Compaction, Stack};
use overspill::config::Preset;
use overspill::count::Counter;
use overspill::fit::Fitter;
use overspill::history::Refusal;
use overspill::strategy::{
    ClampOversized, ClearToolResults, DeduplicateFileReads, Keep, Limit, SlidingWindow,
    StoreArguments, Tiered, Trigger, Triggered,
};
use overspill::tokenizer::Vocabulary;
use overspill::{PolicyError, RunId, Store, Tokenizer, ToolCall, ToolOutputLimits, Usage};
use overspill_wire::{Conversation, Format, WireError};
use serde_json::{Value, json};
use thiserror::Error;

use crate::gauge::Gauge;
use crate::tools::Tools;

/// What the model is told before the task.
const INSTRUCTIONS: &str = "You work on a task in a folder, through tools. A long result is shown \
    as an excerpt with a handle: read on with read_tool_result, do not run the tool again. Answer \
    when you are done.";

/// Above this part of the budget something leaves the history, and this much is left. The rest is
/// room for what the counter does not see: the JSON around the messages, and its escapes.
const FULL: Limit = Limit::Fraction(0.65);
const ROOM: Limit = Limit::Fraction(0.45);

/// A part above this leaves before anything else does: the longest answer of the read tool has
/// about 14,000 tokens, and would drive all else out of a small budget.
const RUNAWAY: Limit = Limit::Fraction(0.3);

/// Where nothing else helps, parts above this are cut.
const LAST_RESORT: Limit = Limit::Fraction(0.03);

/// The vocabulary it counts with, whatever the model. Of another family's models it is wrong by a
/// tenth or so; four characters to a token are wrong by a quarter for JSON and code.
const VOCABULARY: Vocabulary = Vocabulary::O200k;

/// An agent that works on one task at a time.
#[derive(Debug)]
pub struct Agent {
    client: Client<OpenAIConfig>,
    model: String,
    tools: Tools,
    stack: Stack,
    run: RunId,
    budget: u64,
    max_requests: u64,
}

/// Something that happened on the way.
#[derive(Debug)]
pub enum Progress<'p> {
    /// A request was answered.
    Answered(&'p Gauge),
    /// A tool returned.
    Returned {
        /// The tool.
        tool: &'p str,
        /// What it was asked, as the model wrote it.
        args: &'p str,
        /// What it returned, in bytes.
        bytes: u64,
        /// What the model is shown of it, in bytes.
        shown: u64,
    },
    /// Something could not be done; the run goes on.
    Warning(&'p (dyn std::error::Error + 'static)),
}

/// Why there is no answer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The endpoint refused, or could not be reached, or stopped in the middle of an answer.
    #[error("the model could not be asked")]
    Endpoint(#[from] OpenAIError),
    /// The answer holds no message.
    #[error("the model answered with no message: {response}")]
    NoMessage {
        /// What it answered.
        response: String,
    },
    /// The model stopped before its answer was complete.
    #[error("the model's answer is cut ({reason}): {text}")]
    Cut {
        /// The reason it gives, such as `length`.
        reason: String,
        /// What there is of it.
        text: String,
    },
    /// Even after all that may leave has left.
    #[error("the request has {tokens} tokens, over the budget of {budget}; allow it more")]
    OverBudget {
        /// Its tokens.
        tokens: u64,
        /// What it may have.
        budget: u64,
    },
    /// It asked and asked.
    #[error("no answer after {requests} requests; allow more, or give a smaller task")]
    TooManyRequests {
        /// How many.
        requests: u64,
    },
    /// The history is not what Chat Completions has.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A plan did not fit the history it was made for.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// What came out of the history is no JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// What the agent is given: results are stored from 500 tokens on, and the history is kept inside
/// `budget` tokens.
///
/// # Errors
///
/// [`PolicyError`] never, with these bands.
pub fn stack(store: Arc<dyn Store>, budget: u64) -> Result<Stack, PolicyError> {
    let unit = VOCABULARY.unit();
    let bands = Preset::Lean.bands(&unit);
    let limits = ToolOutputLimits::builder()
        .bands(bands.iter().cloned())
        .unit(unit)
        .store(Arc::clone(&store))
        .build()?;
    let history = Arc::new(Triggered {
        when: Trigger::tokens(FULL),
        strategy: Arc::new(Tiered {
            tiers: vec![
                Arc::new(ClampOversized { max_part: RUNAWAY, ..ClampOversized::default() }),
                Arc::new(DeduplicateFileReads::default()),
                Arc::new(StoreArguments::default()),
                Arc::new(ClearToolResults { until: Some(ROOM), ..ClearToolResults::default() }),
                Arc::new(SlidingWindow {
                    keep: Keep::Messages(1),
                    until: Some(ROOM),
                    ..SlidingWindow::default()
                }),
                // Many long answers in one turn.
                Arc::new(ClampOversized {
                    max_part: LAST_RESORT,
                    keep_head_chars: 500,
                    keep_tail_chars: 500,
                    ..ClampOversized::default()
                }),
            ],
            target: ROOM,
        }),
    });
    let counter = Counter::default().tokenizer(Arc::new(VOCABULARY));
    let fitter = Fitter::new(history.clone(), store, budget).counter(counter);
    let compaction = Compaction::new(history);
    Ok(Stack::new(fitter, [Arc::new(limits) as Arc<dyn Capability>, Arc::new(compaction)]))
}

impl Agent {
    /// An agent that asks `model` through `client`. No request of its has more than `budget`
    /// tokens, and it makes `max_requests` at most; `run` names what it stores.
    ///
    /// # Errors
    ///
    /// As [`stack`].
    pub fn new(
        client: Client<OpenAIConfig>,
        model: impl Into<String>,
        tools: Tools,
        store: Arc<dyn Store>,
        run: impl Into<RunId>,
        budget: u64,
        max_requests: u64,
    ) -> Result<Self, PolicyError> {
        let stack = stack(store, budget)?;
        Ok(Self {
            client,
            model: model.into(),
            tools,
            stack,
            run: run.into(),
            budget,
            max_requests,
        })
    }

    /// Works on a task until the model answers, and shows how it goes.
    ///
    /// # Errors
    ///
    /// [`AgentError`] when the model cannot be asked or does not come to an answer. What the tools
    /// return is never an error here: the model is told.
    pub async fn answer(
        &self,
        task: &str,
        mut show: impl FnMut(Progress<'_>),
    ) -> Result<String, AgentError> {
        let mut gauge = Gauge::new(self.budget);
        let mut request = json!({
            "model": self.model,
            "messages": [
                { "role": "system", "content": INSTRUCTIONS },
                { "role": "user", "content": task },
            ],
            "tools": self.definitions(),
        });
        while gauge.requests < self.max_requests {
            request = self.fit(&request, &mut gauge, &mut show).await?;
            let response: Value = self.client.chat().create_byot(&request).await?;
            self.stack.after_response(usage(&response));
            show(Progress::Answered(&gauge));

            let message = response["choices"][0]["message"].clone();
            if !message.is_object() {
                return Err(AgentError::NoMessage { response: response.to_string() });
            }
            let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
            if calls.is_empty() {
                return answer(&response);
            }
            push(&mut request, message);
            for call in calls {
                let content = self.call(&call, &mut gauge, &mut show).await;
                let id = &call["id"];
                push(
                    &mut request,
                    json!({ "role": "tool", "tool_call_id": id, "content": content }),
                );
            }
        }
        Err(AgentError::TooManyRequests { requests: self.max_requests })
    }

    /// The tools of its own, and those of the stack.
    fn definitions(&self) -> Vec<Value> {
        let stack = self.stack.tools().into_iter().map(|tool| {
            json!({ "type": "function", "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            }})
        });
        self.tools.definitions().into_iter().chain(stack).collect()
    }

    /// The request with a history that fits.
    async fn fit(
        &self,
        request: &Value,
        gauge: &mut Gauge,
        show: &mut impl FnMut(Progress<'_>),
    ) -> Result<Value, AgentError> {
        let conversation = Conversation::parse(Format::Chat, request.to_string().into())?;
        let fitted = self.stack.before_request(&self.run, &conversation.history()).await;
        fitted.warnings.iter().for_each(|warning| show(Progress::Warning(warning)));
        let bytes = match &fitted.plan {
            Some(plan) => conversation.apply(plan)?,
            None => conversation.to_bytes(),
        };
        let tokens = VOCABULARY.count(&String::from_utf8_lossy(&bytes));
        if tokens > self.budget {
            return Err(AgentError::OverBudget { tokens, budget: self.budget });
        }
        gauge.fitted(&fitted, tokens);
        Ok(serde_json::from_slice(&bytes)?)
    }

    /// What the model is to see of a call.
    async fn call(
        &self,
        call: &Value,
        gauge: &mut Gauge,
        show: &mut impl FnMut(Progress<'_>),
    ) -> String {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let tool = text(&call["function"]["name"]);
        let spelled = text(&call["function"]["arguments"]);
        let args = serde_json::from_str(&spelled).unwrap_or(Value::Null);
        if let Some(answer) = self.stack.call(&tool, &args).await {
            let bytes = answer.len() as u64;
            show(Progress::Returned { tool: &tool, args: &spelled, bytes, shown: bytes });
            return answer;
        }
        let output = self.tools.run(&tool, &args).await;
        let before = gauge.returned;
        gauge.returned(&output);
        let call = ToolCall::new(self.run.clone(), text(&call["id"]), tool.as_str());
        let admitted = self.stack.on_return(&call, output).await;
        admitted.warnings.iter().for_each(|warning| show(Progress::Warning(warning)));
        gauge.admitted(&admitted);
        let content = admitted.to_text();
        let (bytes, shown) = (gauge.returned - before, content.len() as u64);
        show(Progress::Returned { tool: &tool, args: &spelled, bytes, shown });
        content
    }
}

fn push(request: &mut Value, message: Value) {
    if let Some(messages) = request["messages"].as_array_mut() {
        messages.push(message);
    }
}

/// What the endpoint says the request took.
fn usage(response: &Value) -> Usage {
    let tokens = |key: &str| response["usage"][key].as_u64().unwrap_or_default();
    Usage {
        requests: 1,
        input_tokens: tokens("prompt_tokens"),
        output_tokens: tokens("completion_tokens"),
    }
}

/// The text of a response that calls nothing.
fn answer(response: &Value) -> Result<String, AgentError> {
    let choice = &response["choices"][0];
    let text = choice["message"]["content"].as_str().unwrap_or_default().to_owned();
    match choice["finish_reason"].as_str() {
        Some("stop") | None if !text.is_empty() => Ok(text),
        reason => Err(AgentError::Cut { reason: reason.unwrap_or("empty").to_owned(), text }),
    }
}
