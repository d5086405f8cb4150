//! A request that is too big goes in; the same with a smaller history comes out.

use overspill::config::Preset;
use overspill::fit::{Fitter, Occasion};
use overspill::window;
use overspill_store::LocalStore;
use overspill_wire::{Conversation, Format};
use std::sync::Arc;

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A conversation of forty steps, each of which returned a log.
    let log: String = (0..200).map(|i| format!("step {i} is done\n")).collect();
    let mut messages = vec![serde_json::json!({ "role": "user", "content": "Find the bug." })];
    for step in 0..40 {
        let call = serde_json::json!({ "type": "tool_use", "id": format!("toolu_{step}"), "name": "bash", "input": {} });
        let result = serde_json::json!({ "type": "tool_result", "tool_use_id": format!("toolu_{step}"), "content": log });
        messages.push(serde_json::json!({ "role": "assistant", "content": [call] }));
        messages.push(serde_json::json!({ "role": "user", "content": [result] }));
    }
    let request = serde_json::json!({ "model": "claude-sonnet-4-5", "messages": messages });
    let request = request.to_string().into_bytes();
    let before = request.len();
    let smaller = futures_lite::future::block_on(fit(request.into()))?;
    println!("{before} bytes in, {} bytes out", smaller.len());
    Ok(())
}

#[rustfmt::skip]
async fn fit(request: bytes::Bytes) -> Result<bytes::Bytes, Box<dyn std::error::Error>> {
    // README: from here on.
    let store = Arc::new(LocalStore::open(std::env::temp_dir().join("spills"))?);
    let conversation = Conversation::parse(Format::Anthropic, request)?;
    let window = window::resolve("claude-sonnet-4-5", &Default::default());
    let fitter = Fitter::preset(Preset::Lean, store, &window);
    let fitted = fitter.fit(&"run-1".into(), &conversation.history(), &Occasion::default()).await;
    let request = match &fitted.plan { Some(plan) => conversation.apply(plan)?, None => conversation.to_bytes() };
    // README: to here.
    Ok(request)
}
