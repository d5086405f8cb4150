//! The shortest honest agent loop: three calls to a `Stack`, and everything else as it was.

use std::sync::Arc;
use std::time::Duration;

use overspill::capability::{Capability, Compaction, Stack};
use overspill::fit::Fitter;
use overspill::strategy::{ClearToolResults, Limit, Trigger, Triggered};
use overspill::{RunId, Store, ToolCall, ToolOutputLimits, Usage};
use overspill_wire::{Conversation, Format};
use serde_json::{Value, json};

/// What goes wrong ends the run.
type Error = Box<dyn std::error::Error + Send + Sync>;

/// Results of 10,000 characters and more are stored; above 60 % of the budget the oldest become
/// markers.
///
/// # Errors
///
/// Fails where the policy does not hold together, which this one does.
#[rustfmt::skip]
pub fn stack(store: Arc<dyn Store>, budget: u64) -> Result<Stack, Error> {
    // docs: from here on.
    let limits = ToolOutputLimits::builder().store(store.clone()).build()?;
    let clear = ClearToolResults { until: Some(Limit::Fraction(0.4)), ..ClearToolResults::default() };
    let history = Arc::new(Triggered { when: Trigger::tokens(Limit::Fraction(0.6)), strategy: Arc::new(clear) });
    let fitter = Fitter::new(history.clone(), store, budget);
    let stack = Stack::new(fitter, [Arc::new(limits) as Arc<dyn Capability>, Arc::new(Compaction::new(history))]);
    // docs: to here.
    Ok(stack)
}

/// Works on a task with one tool, a shell, until the model answers. `url` is that of Chat
/// Completions, such as `http://localhost:11434/v1/chat/completions`.
///
/// # Errors
///
/// Fails when the endpoint does, and when a command cannot be started.
#[rustfmt::skip]
pub async fn answer(client: &reqwest::Client, url: &str, key: &str, model: &str, stack: &Stack, task: &str) -> Result<String, Error> {
    // docs: from here on.
    let run = RunId::new("by-hand");
    let command = json!({ "type": "object", "properties": { "command": { "type": "string" } }, "required": ["command"] });
    let mut tools = vec![json!({ "type": "function", "function": { "name": "shell", "parameters": command } })];
    tools.extend(stack.tools().into_iter().map(|tool| json!({ "type": "function", "function": {
        "name": tool.name, "description": tool.description, "parameters": tool.parameters } })));
    let mut request = json!({ "model": model, "messages": [{ "role": "user", "content": task }], "tools": tools });
    for _ in 0..100 {
        // 1. Before each request, what is old makes room.
        let conversation = Conversation::parse(Format::Chat, request.to_string().into())?;
        if let Some(plan) = stack.before_request(&run, &conversation.history()).await.plan {
            request = serde_json::from_slice(&conversation.apply(&plan)?)?;
        }
        let response = client.post(url).bearer_auth(key).json(&request).send().await?.error_for_status()?;
        let response: Value = response.json().await?;

        // 2. After each response, the stack hears what it took.
        let tokens = |key: &str| response["usage"][key].as_u64().unwrap_or(0);
        let (input_tokens, output_tokens) = (tokens("prompt_tokens"), tokens("completion_tokens"));
        stack.after_response(Usage { requests: 1, input_tokens, output_tokens });

        let message = response["choices"][0]["message"].clone();
        let messages = request["messages"].as_array_mut().ok_or("no messages")?;
        messages.push(message.clone());
        let Some(calls) = message["tool_calls"].as_array().filter(|calls| !calls.is_empty()) else {
            return Ok(message["content"].as_str().unwrap_or_default().to_owned());
        };
        for call in calls {
            let (id, name) = (call["id"].as_str().unwrap_or_default(), call["function"]["name"].as_str().unwrap_or_default());
            let args = serde_json::from_str(call["function"]["arguments"].as_str().unwrap_or_default()).unwrap_or(Value::Null);
            let content = match stack.call(name, &args).await {
                Some(answer) => answer,
                // 3. When a tool returned, what the model should see comes back.
                None => stack.on_return(&ToolCall::new(run.clone(), id, name), shell(&args).await?).await.to_text(),
            };
            messages.push(json!({ "role": "tool", "tool_call_id": id, "content": content }));
        }
    }
    Err("no answer after 100 requests".into())
    // docs: to here.
}

/// What a command prints, within a minute.
async fn shell(args: &Value) -> Result<String, Error> {
    let command = args["command"].as_str().unwrap_or("echo give a command; false");
    let mut shell = tokio::process::Command::new("sh");
    let running = shell.arg("-c").arg(format!("exec 2>&1\n{command}")).kill_on_drop(true).output();
    match tokio::time::timeout(Duration::from_secs(60), running).await {
        Ok(output) => Ok(String::from_utf8_lossy(&output?.stdout).into_owned()),
        Err(_) => Ok("The command took more than a minute, and was stopped.".to_owned()),
    }
}
