//! How long it takes; run with `cargo test --release -p overspill-wire speed -- --ignored --nocapture`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use overspill::history::{Plan, Words};
use overspill_wire::{Conversation, Format};

use crate::support::settled;

/// An agent's session of `turns` turns, with about `bytes` bytes in each return.
fn session(turns: usize, bytes: usize) -> String {
    let mut messages = vec![serde_json::json!({"role": "user", "content": "Fix the build."})];
    for t in 0..turns {
        let id = format!("toolu_{t:06}");
        let mut log = String::new();
        while log.len() < bytes {
            log.push_str(&format!("src/lib.rs:{}: warning: unused \"import\" in {t}\n", log.len()));
        }
        messages.push(serde_json::json!({"role": "assistant", "content": [
            {"type": "text", "text": "I look at the next file."},
            {"type": "tool_use", "id": id, "name": "bash", "input": {"command": "cargo check"}},
        ]}));
        messages.push(serde_json::json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": id, "content": log},
        ]}));
    }
    serde_json::json!({"model": "claude", "max_tokens": 1024, "messages": messages}).to_string()
}

fn best<T>(mut run: impl FnMut() -> T) -> Duration {
    let mut least = Duration::MAX;
    for _ in 0..200 {
        let start = Instant::now();
        black_box(run());
        least = least.min(start.elapsed());
    }
    least
}

#[test]
#[ignore = "measures; a busy machine says nothing"]
fn no_slower_than_values() {
    let text = session(200, 9_900);
    let bytes = Bytes::from(text.clone());
    let conversation = Conversation::parse(Format::Anthropic, bytes.clone()).unwrap();
    let history = conversation.history();
    let plan = |history: &overspill::history::History<'_>| {
        let mut plan = Plan::default();
        for turn in &history.turns()[..190] {
            for &answer in &turn.returns {
                plan.replace_text(answer, Words::text("[cleared]"));
            }
        }
        plan
    };
    let settled = settled(&history, &plan(&history)).unwrap();
    println!("{} bytes, {} messages", text.len(), history.messages().len());
    println!("parse          {:?}", best(|| Conversation::parse(Format::Anthropic, bytes.clone())));
    println!("view           {:?}", best(|| conversation.history()));
    println!("plan, check    {:?}", best(|| history.check(&plan(&history))));
    println!("check settled  {:?}", best(|| history.check_settled(&settled)));
    println!("apply, write   {:?}", best(|| conversation.apply(&settled).unwrap()));
    let ours = best(|| {
        let conversation = Conversation::parse(Format::Anthropic, bytes.clone()).unwrap();
        let history = conversation.history();
        let _ = black_box(plan(&history));
        conversation.apply(&settled).unwrap()
    });
    let values = best(|| {
        let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        serde_json::to_vec(&value).unwrap()
    });
    println!("all of it      {ours:?}\nvalues         {values:?}");
    assert!(ours < values, "{ours:?} {values:?}");
}

#[test]
#[ignore = "measures; a busy machine says nothing"]
fn linear_in_messages() {
    for turns in [1_000, 10_000, 40_000] {
        let text = Bytes::from(session(turns, 100));
        let conversation = Conversation::parse(Format::Anthropic, text.clone()).unwrap();
        let view = best(|| conversation.history());
        let history = conversation.history();
        let mut plan = Plan::default();
        for turn in &history.turns()[..turns / 2] {
            plan.drop_turn(turn);
        }
        println!("{turns} turns: view {view:?}, check {:?}", best(|| history.check(&plan)));
    }
}
