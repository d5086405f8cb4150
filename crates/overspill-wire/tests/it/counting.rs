//! How many tokens a request of each format is.

use std::sync::Arc;

use overspill::count::Counter;
use overspill::strategy::{Keep, Limit, SlidingWindow};
use overspill_wire::{Conversation, Format};
use serde_json::json;

use crate::support::{fit, parse};

fn tokens(conversation: &Conversation) -> u64 {
    Counter::default().count(&conversation.history()).tokens()
}

/// Instructions and a tool of so many tokens each, before eight messages of 100 each.
fn request(format: Format, tokens: usize) -> String {
    let text = "x".repeat(4 * tokens);
    let tool = json!({ "name": "f", "description": text });
    let message = |at: usize, model: &str| (["user", model][at % 2].to_owned(), "y".repeat(400));
    let plain = |model| {
        let all = (0..8).map(|at| message(at, model));
        all.map(|(role, text)| json!({ "role": role, "content": text })).collect::<Vec<_>>()
    };
    match format {
        Format::Chat => {
            let mut messages = plain("assistant");
            messages.insert(0, json!({ "role": "system", "content": text }));
            json!({ "tools": [{ "type": "function", "function": tool }], "messages": messages })
        }
        Format::Responses => {
            json!({ "instructions": text, "tools": [tool], "input": plain("assistant") })
        }
        Format::Anthropic => {
            json!({ "system": text, "tools": [tool], "messages": plain("assistant") })
        }
        _ => {
            let contents = (0..8).map(|at| message(at, "model"));
            let contents =
                contents.map(|(role, text)| json!({ "role": role, "parts": [{ "text": text }] }));
            json!({
                "systemInstruction": { "parts": [{ "text": text }] },
                "tools": [{ "functionDeclarations": [tool] }],
                "contents": contents.collect::<Vec<_>>(),
            })
        }
    }
    .to_string()
}

/// The formats whose requests hold instructions and tools.
const REQUESTS: [Format; 4] = [Format::Chat, Format::Responses, Format::Anthropic, Format::Gemini];

#[test]
fn instructions_and_tools_count() {
    for format in REQUESTS {
        let [none, some] = [0, 1_000].map(|size| tokens(&parse(format, &request(format, size))));
        assert!((800..850).contains(&none), "{format}: {none}");
        assert_eq!(some - none, 2_000, "{format}");
    }
}

#[test]
fn what_stands_before_the_messages_makes_them_leave() {
    for format in REQUESTS {
        let window = SlidingWindow {
            until: Some(Limit::Tokens(2_600)),
            ..SlidingWindow::new(Keep::Messages(1))
        };
        let fitted = |size| {
            let conversation = parse(format, &request(format, size));
            fit(&conversation, Arc::new(window)).bytes
        };
        assert_eq!(fitted(0), request(format, 0).as_bytes(), "{format}");
        let smaller = Conversation::parse(format, fitted(1_000)).unwrap();
        assert!((2_300..=2_600).contains(&tokens(&smaller)), "{format}: {}", tokens(&smaller));
    }
}

#[test]
fn what_the_provider_reported_goes_before_an_estimate() {
    let said = |text: &str| {
        json!({ "kind": "request", "parts": [
        { "part_kind": "user-prompt", "content": text }] })
    };
    let answer = |input: u64, output: u64| {
        json!({ "kind": "response", "parts": [
        { "part_kind": "text", "content": "done" }],
        "usage": { "input_tokens": input, "output_tokens": output } })
    };
    let count =
        |messages: serde_json::Value| tokens(&parse(Format::PydanticAi, &messages.to_string()));
    let (long, short) = ("x".repeat(400), "on");
    assert_eq!(count(json!([said(&long), answer(0, 0), said(&long)])), 201);
    assert_eq!(count(json!([said(&long), answer(7_000, 30), said(&long)])), 7_130);
    // The newest report counts, and not their sum.
    let twice = json!([said(short), answer(50, 5), said(short), answer(90, 5), said(&long)]);
    assert_eq!(count(twice), 195);
}
