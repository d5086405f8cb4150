//! Long runs: what the provider is sent stays small, whole in its pairs, and the same from turn to
//! turn; what left can be read.

use futures_lite::StreamExt;
use overspill::capability::Compaction;
use overspill::config::Preset;
use overspill::strategy::{
    ClearToolResults, Keep, Limit, SlidingWindow, Tiered, Trigger, Triggered,
};
use overspill::window;
use rig_agent::agent::{MultiTurnStreamItem, PromptResponse};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::server::{Reply, Server, calls};
use crate::support::{Rig, Setup, last_text, log, messages, said, tokens};

const CALLS: usize = 45;
const BUDGET: u64 = 8_000;

/// Clears old results above two thirds of the budget, and drops turns where that is not enough.
fn tight() -> Triggered {
    let room = Limit::Fraction(0.5);
    Triggered {
        when: Trigger::tokens(Limit::Fraction(0.66)),
        strategy: Arc::new(Tiered {
            tiers: vec![
                Arc::new(ClearToolResults { until: Some(room), ..ClearToolResults::default() }),
                Arc::new(SlidingWindow {
                    keep: Keep::Messages(1),
                    until: Some(room),
                    ..SlidingWindow::default()
                }),
            ],
            target: room,
        }),
    }
}

/// The handle in the first result of a conversation.
fn handle_in(text: &str) -> Option<String> {
    overspill::Marker::handles(text).next().map(|handle| handle.to_string())
}

/// Calls the tool again and again, then reads in the middle of the first output, then answers with
/// what it read.
fn long_script() -> impl FnMut(&Value) -> Reply + Send {
    let mut asked = 0;
    let mut first = None;
    move |request| {
        asked += 1;
        let last = last_text(request);
        first = first.take().or_else(|| handle_in(&last));
        match asked {
            n if n <= CALLS => calls(format!("call_{n}"), "log", json!({ "n": n })),
            n if n == CALLS + 1 => {
                let handle = first.clone().unwrap();
                calls(
                    "call_read",
                    "read_tool_result",
                    json!({ "handle": handle, "pattern": "the secret" }),
                )
            }
            _ => Reply::Says(last),
        }
    }
}

async fn ask(rig: &Rig, streams: bool, prompt: &str) -> PromptResponse {
    let run = rig.agent.prompt(prompt);
    if !streams {
        return run.await.unwrap();
    }
    let mut items = run.stream();
    let mut answer = None;
    while let Some(item) = items.next().await {
        if let MultiTurnStreamItem::FinalResponse(response) = item.unwrap() {
            answer = Some(response);
        }
    }
    answer.unwrap()
}

/// A request begins with all of the one before it, byte for byte, but where it was edited; and few
/// are.
fn check_beginnings(rig: &Rig, sent: &[Value]) {
    let edited: Vec<bool> = rig.requests.lock().unwrap().iter().map(|it| it.2).collect();
    let edits = edited.iter().filter(|edited| **edited).count();
    assert!((1..sent.len() / 3).contains(&edits), "{edits} edits of {}", sent.len());
    for (at, pair) in sent.windows(2).enumerate().filter(|(at, _)| !edited[at + 1]) {
        let [before, after] = [&pair[0], &pair[1]].map(messages);
        assert_eq!(after[..before.len()], before, "request {}", at + 1);
    }
}

async fn check_a_long_run(streams: bool) {
    let server = Server::start(long_script()).await;
    let rig = Setup::new(tight(), BUDGET).agent(server.model());
    let answer = ask(&rig, streams, "Which run is broken?").await;
    assert!(answer.output().contains("the secret of run 1 is 7919"), "{}", answer.output());
    assert_eq!(*rig.warnings.lock().unwrap(), [""; 0]);

    // What the provider was sent.
    let sent = server.requests();
    assert_eq!(sent.len(), CALLS + 2);
    for request in &sent {
        assert_eq!(request["stream"] == json!(true), streams);
        assert!(tokens(request) <= BUDGET, "{} tokens", tokens(request));
    }
    check_beginnings(&rig, &sent);
    // What the provider counted stands for the estimate, and only what came after it is estimated.
    let counted = rig.requests.lock().unwrap().clone();
    for (at, call) in answer.completion_calls.iter().enumerate().take(CALLS) {
        let (before, _, edited) = counted[at + 1];
        if !edited {
            let new = last_text(&sent[at + 1]).chars().count() as u64 / 4;
            let reported = call.usage.total_tokens.unwrap();
            assert!(before.abs_diff(reported + new) <= 1, "{before} {reported} {new}");
        }
    }
    // The history that rig keeps holds what was left of each result, not the 60,000 characters.
    let history = serde_json::to_string(&answer.messages).unwrap();
    assert!(history.len() < 5_000 * CALLS, "{}", history.len());
    // Every output is whole.
    let handles = rig.handles.lock().unwrap().clone();
    assert_eq!(handles.len(), CALLS);
    for (n, handle) in (1..).zip(&handles) {
        let read = rig.limits.read(&json!({ "handle": handle, "pattern": "the secret" })).await;
        assert!(read.contains(&format!("is {}", n * 7_919)), "{read}");
    }
    // The stack counts what rig counts.
    let spent = rig.overspill.spent();
    assert_eq!(spent.requests, CALLS as u64 + 2);
    assert_eq!(Some(spent.input_tokens), answer.usage.input_tokens);
    assert_eq!(Some(spent.output_tokens), answer.usage.output_tokens);
}

#[tokio::test]
async fn a_long_run_stays_under_its_budget() {
    check_a_long_run(false).await;
}

#[tokio::test]
async fn a_long_run_that_streams_does_too() {
    check_a_long_run(true).await;
}

#[tokio::test]
async fn the_lean_preset_keeps_a_run_near_twenty_thousand_tokens() {
    let server = Server::start(long_script()).await;
    let window = window::resolve("gpt-4o-mini", &Default::default());
    let mut setup = Setup::new(tight(), window.input_budget);
    setup.history = Compaction::preset(Preset::Lean, &window);
    let rig = setup.agent(server.model());
    let answer = rig.agent.prompt("Which run is broken?").await.unwrap();
    assert!(answer.output().contains("the secret of run 1 is 7919"), "{}", answer.output());
    let sizes: Vec<u64> = server.requests().iter().map(tokens).collect();
    assert!(sizes.iter().all(|size| *size <= 20_000), "{sizes:?}");
    assert!(sizes.windows(2).any(|pair| pair[1] < pair[0]), "{sizes:?}");
}

#[tokio::test]
async fn without_overspill_the_same_run_is_many_times_as_big() {
    let server = Server::start(|request| match request["messages"].as_array().unwrap().len() {
        len if len < 12 => calls(format!("call_{len}"), "log", json!({ "n": len })),
        _ => Reply::Says("Done.".to_owned()),
    })
    .await;
    let agent = rig_agent::agent::AgentBuilder::new(server.model())
        .default_max_turns(200)
        .dynamic_tool(crate::support::log_tool())
        .build();
    agent.prompt("Go.").await.unwrap();
    assert!(tokens(server.requests().last().unwrap()) > 5 * BUDGET);
}

#[tokio::test]
async fn a_conversation_goes_on_with_the_same_bytes_in_its_next_run() {
    let mut asked = 0;
    let server = Server::start(move |_| {
        asked += 1;
        // Every tenth response ends a run.
        match asked % 10 {
            0 => Reply::Says("So far, so good.".to_owned()),
            _ => calls(format!("call_{asked}"), "log", json!({ "n": asked })),
        }
    })
    .await;
    let rig = Setup::new(tight(), BUDGET).agent(server.model());
    let mut history = Vec::new();
    for _ in 0..4 {
        rig.agent.chat("Go on.", &mut history).await.unwrap();
    }
    let sent = server.requests();
    // Also where one run ends and the next begins.
    check_beginnings(&rig, &sent);
    assert!(sent.iter().all(|request| tokens(request) <= BUDGET));
}

#[tokio::test]
async fn parallel_calls_stay_with_their_results() {
    let mut asked = 0;
    let server = Server::start(move |_| {
        asked += 1;
        match asked {
            12 => Reply::Says("Done.".to_owned()),
            _ => Reply::Calls(
                (0..3)
                    .map(|i| (format!("call_{asked}_{i}"), "log", json!({ "n": asked * 10 + i })))
                    .collect(),
            ),
        }
    })
    .await;
    let rig = Setup::new(tight(), BUDGET).agent(server.model());
    rig.agent.prompt("Go.").tool_concurrency(3).await.unwrap();
    assert_eq!(server.requests().len(), 12);
    assert!(server.requests().iter().all(|request| tokens(request) <= BUDGET));
    assert_eq!(rig.handles.lock().unwrap().len(), 33);
}

#[tokio::test]
async fn the_model_makes_its_history_shorter_itself() {
    let mut asked = 0;
    let server = Server::start(move |_| {
        asked += 1;
        match asked {
            9 => calls("call_compact", "compact_history", json!({})),
            11 => Reply::Says("Done.".to_owned()),
            n => calls(format!("call_{n}"), "log", json!({ "n": n })),
        }
    })
    .await;
    let mut setup = Setup::new(tight(), 100_000);
    let window = SlidingWindow { keep: Keep::Messages(2), ..SlidingWindow::default() };
    setup.history = setup.history.on_demand(Arc::new(window));
    let rig = setup.agent(server.model());
    rig.agent.prompt("Go.").await.unwrap();
    let sent = server.requests();
    let sizes: Vec<u64> = sent.iter().map(tokens).collect();
    assert!(sizes[9] < sizes[8] / 2 && sizes[10] > sizes[9], "{sizes:?}");
    // What left is stored under the handle that stands in its place.
    let note =
        messages(&sent[9]).into_iter().find(|it| it.contains("<overspill-receipt>")).unwrap();
    let note: Value = serde_json::from_str(&note).unwrap();
    let handle = handle_in(&said(&note["content"])).unwrap();
    let read = rig.limits.read(&json!({ "handle": handle })).await;
    assert!(read.contains("assistant calls log"), "{read}");
}

#[test]
fn the_outputs_differ() {
    assert!(log(1).len() > 50_000 && log(1) != log(2));
}
