//! OpenAI's Chat Completions.

use overspill::summary::ModelName;
use serde_json::{Value, json};

use super::{Answer, End, garbled};
use crate::error::ModelError;

pub(super) fn body(model: &ModelName, prompt: &str, streams: bool) -> Value {
    let mut body = json!({
        "model": model.name,
        "messages": [{ "role": "user", "content": prompt }],
    });
    if streams {
        body["stream"] = true.into();
        body["stream_options"] = json!({ "include_usage": true });
    }
    body
}

pub(super) fn read_whole(value: &Value, answer: &mut Answer) -> Result<(), ModelError> {
    count(value, answer);
    let choice = value["choices"].get(0).ok_or_else(|| garbled("it has no choices"))?;
    push(&choice["message"]["content"], answer);
    // A whole answer is whole whether or not it says how it ended.
    answer.end = Some(end(&choice["finish_reason"]).unwrap_or(End::Whole));
    Ok(())
}

pub(super) fn read_event(value: &Value, answer: &mut Answer) {
    count(value, answer);
    let choice = &value["choices"][0];
    push(&choice["delta"]["content"], answer);
    answer.end = end(&choice["finish_reason"]).or(answer.end);
}

fn count(value: &Value, answer: &mut Answer) {
    let usage = &value["usage"];
    Answer::count(&mut answer.input_tokens, &usage["prompt_tokens"]);
    Answer::count(&mut answer.output_tokens, &usage["completion_tokens"]);
}

/// Adds a text, or the texts of a list of parts.
fn push(content: &Value, answer: &mut Answer) {
    match content {
        Value::String(text) => answer.text.push_str(text),
        Value::Array(parts) => {
            for part in parts {
                answer.text.push_str(part["text"].as_str().unwrap_or_default());
            }
        }
        _ => {}
    }
}

fn end(reason: &Value) -> Option<End> {
    Some(match reason.as_str()? {
        "length" => End::TooLong,
        "content_filter" => End::Declined,
        _ => End::Whole,
    })
}
