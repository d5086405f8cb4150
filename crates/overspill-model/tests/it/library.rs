//! The library asks the model, and refuses what does not help.

use std::sync::Arc;

use bytes::Bytes;
use overspill::fit::{FitWarning, Fitted, Fitter, Occasion};
use overspill::history::SettleError;
use overspill::strategy::{Keep, Summarize as SummarizeHistory};
use overspill::summary::{PromptTemplate, PromptedSummarizer};
use overspill::{
    Action, Admitted, Band, RunId, Spill, Summarize, ToolCall, ToolOutputLimits, Usage, Warning,
};
use overspill_model::HttpModel;
use overspill_store::MemoryStore;
use overspill_wire::{Conversation, Format};
use serde_json::{Value, json};

use crate::server::{KEY, Server, Step, chat_piece, chat_says, fails};

/// What a tool returned.
pub(crate) fn log() -> String {
    (0..400).map(|case| format!("test case_{case} ... ok\n")).collect()
}

/// Summarizes from 1,000 characters on, else spills.
pub(crate) fn limits(model: HttpModel) -> ToolOutputLimits {
    let action = Action::from(Summarize::default()).or(Spill::default());
    let summarizer = PromptedSummarizer::new(PromptTemplate::default(), Arc::new(model));
    ToolOutputLimits::builder()
        .bands([Band::new(1_000, action)])
        .store(Arc::new(MemoryStore::new()))
        .summarizer(Arc::new(summarizer))
        .build()
        .unwrap()
}

pub(crate) async fn admit(model: HttpModel) -> Admitted {
    limits(model).admit(&ToolCall::new("run-1", "call-1", "bash"), log()).await
}

fn usage(requests: u64, input_tokens: u64, output_tokens: u64) -> Usage {
    Usage { requests, input_tokens, output_tokens }
}

#[tokio::test]
async fn a_summary_stands_in_view_and_is_paid_for() {
    let server = Server::start([chat_says("400 tests, all ok.")]).await;
    let admitted = admit(server.chat()).await;
    assert!(admitted.warnings.is_empty(), "{:?}", admitted.warnings);
    assert_eq!(admitted.reductions[0].action, "summarize");
    assert!(admitted.output.text().unwrap().ends_with("\n400 tests, all ok."));
    assert_eq!(admitted.usage, usage(1, 100, 7));
    let prompt = server.asked()[0].body["messages"][0]["content"].as_str().unwrap().to_owned();
    assert!(prompt.contains("The tool is named bash") && prompt.contains("test case_399 ... ok"));
}

/// Why the model was of no use, when the next action ran in its place.
async fn spilled(script: Vec<Step>) -> (String, Usage) {
    let server = Server::start(script).await;
    let admitted = admit(server.chat()).await;
    assert_eq!(admitted.reductions[0].action, "spill");
    assert!(admitted.output.text().unwrap().starts_with("[overspill: "));
    let [Warning::NotSummarized { source, .. }] = &admitted.warnings[..] else {
        panic!("{:?}", admitted.warnings)
    };
    (source.to_string(), admitted.usage)
}

#[tokio::test]
async fn an_empty_summary_lets_the_next_action_run_and_is_paid_for() {
    for nothing in ["", " \n"] {
        let (why, taken) = spilled(vec![chat_says(nothing)]).await;
        assert_eq!((why.as_str(), taken), ("the summary is empty", usage(1, 100, 7)));
    }
}

#[tokio::test]
async fn a_summary_longer_than_its_input_is_refused_and_paid_for() {
    let (why, taken) = spilled(vec![chat_says(&"word ".repeat(5_000))]).await;
    assert_eq!(why, "the summary is no shorter than the output");
    assert_eq!(taken, usage(1, 100, 7));
}

#[tokio::test]
async fn a_cut_stream_lets_the_next_action_run() {
    let cut = || Step::Stream { pieces: vec![chat_piece("400 tests, all")], breaks: true };
    let (why, taken) = spilled(vec![cut(), cut(), cut()]).await;
    assert_eq!(why, "openai:gpt-5-mini: the answer broke off before its end");
    assert_eq!(taken, usage(3, 0, 0));
}

#[tokio::test]
async fn a_refused_key_lets_the_next_action_run() {
    let (why, taken) = spilled(vec![fails(401, KEY)]).await;
    assert!(why.contains("TEST_API_KEY") && !why.contains(KEY), "{why}");
    assert_eq!(taken, usage(1, 0, 0));
}

/// A request of twenty messages.
fn conversation() -> Conversation {
    let turn = |at: usize| {
        let text = |who: &str| format!("{who} {at}: {}", "words and words ".repeat(40));
        [
            json!({ "role": "user", "content": text("question") }),
            json!({ "role": "assistant", "content": text("answer") }),
        ]
    };
    let messages: Vec<Value> = (0..10).flat_map(turn).collect();
    let request = json!({ "model": "gpt-5", "messages": messages });
    Conversation::parse(Format::Chat, Bytes::from(request.to_string())).unwrap()
}

/// Fits it by a summary of all but the last messages.
pub(crate) async fn fit(model: HttpModel) -> (Fitted, Value) {
    let conversation = conversation();
    let strategy = SummarizeHistory {
        summary_tokens: 50,
        keep_user_messages: 0,
        ..SummarizeHistory::new(Keep::Messages(2))
    };
    let fitter = Fitter::new(Arc::new(strategy), Arc::new(MemoryStore::new()), 2_000);
    let fitter = fitter.model(Arc::new(model));
    let run = RunId::from("run-1");
    let fitted = fitter.fit(&run, &conversation.history(), &Occasion::default()).await;
    let bytes = match &fitted.plan {
        Some(plan) => conversation.apply(plan).unwrap(),
        None => conversation.to_bytes(),
    };
    let left = serde_json::from_slice(&bytes).unwrap();
    (fitted, left)
}

#[tokio::test]
async fn a_history_is_summed_up_and_paid_for() {
    let server = Server::start([fails(500, "oh"), chat_says("## Task\nMany questions.")]).await;
    let (fitted, left) = fit(server.chat()).await;
    assert!(fitted.warnings.is_empty(), "{:?}", fitted.warnings);
    assert_eq!(fitted.usage, usage(2, 100, 7));
    assert!(left.to_string().contains("Many questions."));
    assert!(left["messages"].as_array().unwrap().len() < 6);
}

#[tokio::test]
async fn a_history_stays_whole_where_the_model_is_of_no_use() {
    let long = "word ".repeat(10_000);
    for (step, why) in [
        (chat_says(""), "the model wrote nothing"),
        (chat_says(&long), "the note would be "),
        (fails(400, "no"), "openai:gpt-5-mini: the endpoint answered with status 400: no"),
    ] {
        let server = Server::start([step]).await;
        let (fitted, left) = fit(server.chat()).await;
        assert!(fitted.plan.is_none());
        assert_eq!(left["messages"].as_array().unwrap().len(), 20);
        let [FitWarning::Settle(SettleError::Summary(error))] = &fitted.warnings[..] else {
            panic!("{:?}", fitted.warnings)
        };
        assert!(error.to_string().starts_with(why), "{error}");
        assert_eq!(fitted.usage.requests, 1);
    }
}
