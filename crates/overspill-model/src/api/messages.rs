//! Anthropic's Messages.

use overspill::summary::ModelName;
use overspill::window::{self, WindowOptions};
use serde_json::{Value, json};

use super::{Answer, End, garbled};
use crate::error::ModelError;

/// How many tokens a model that nobody knows may write. The API wants a number; this one all models
/// behind it take, since Claude 3.5.
const FALLBACK_MAX_TOKENS: u64 = 8_192;

pub(super) fn body(model: &ModelName, prompt: &str, streams: bool) -> Value {
    // The most that the model can write: a summary is not cut by a number of ours.
    let known = window::resolve(&model.to_string(), &WindowOptions::default());
    let mut body = json!({
        "model": model.name,
        "max_tokens": known.max_output.unwrap_or(FALLBACK_MAX_TOKENS),
        "messages": [{ "role": "user", "content": prompt }],
    });
    if streams {
        body["stream"] = true.into();
    }
    body
}

pub(super) fn read_whole(value: &Value, answer: &mut Answer) -> Result<(), ModelError> {
    count(&value["usage"], answer);
    let blocks = value["content"].as_array().ok_or_else(|| garbled("it has no content"))?;
    for block in blocks.iter().filter(|block| block["type"] == "text") {
        answer.text.push_str(block["text"].as_str().unwrap_or_default());
    }
    answer.end = Some(end(&value["stop_reason"]).unwrap_or(End::Whole));
    Ok(())
}

pub(super) fn read_event(value: &Value, answer: &mut Answer) {
    match value["type"].as_str().unwrap_or_default() {
        "message_start" => count(&value["message"]["usage"], answer),
        "content_block_delta" if value["delta"]["type"] == "text_delta" => {
            answer.text.push_str(value["delta"]["text"].as_str().unwrap_or_default());
        }
        "message_delta" => {
            // Output is counted from the start of the message, not from the last event.
            Answer::count(&mut answer.output_tokens, &value["usage"]["output_tokens"]);
            answer.end = match end(&value["delta"]["stop_reason"]) {
                // Only the next event ends it.
                Some(End::Whole) | None => answer.end,
                bad => bad,
            };
        }
        "message_stop" => answer.stop(),
        _ => {}
    }
}

fn count(usage: &Value, answer: &mut Answer) {
    let input = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    if usage["input_tokens"].is_u64() {
        let tokens = input.iter().filter_map(|kind| usage[*kind].as_u64());
        answer.input_tokens = tokens.fold(0, u64::saturating_add);
    }
    Answer::count(&mut answer.output_tokens, &usage["output_tokens"]);
}

fn end(reason: &Value) -> Option<End> {
    Some(match reason.as_str()? {
        "max_tokens" | "model_context_window_exceeded" => End::TooLong,
        "refusal" => End::Declined,
        _ => End::Whole,
    })
}
