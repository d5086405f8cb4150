//! When the provider fails, the run ends with the error it would have ended with anyway, and
//! nothing that a tool put out is lost.

use futures_lite::StreamExt;
use overspill::strategy::SlidingWindow;
use rig_agent::agent::{Agent, AgentBuilder, MultiTurnStreamItem};
use serde_json::json;

use crate::server::{Reply, Server, calls};
use crate::support::{Setup, log, log_tool};

/// One output, then what fails.
async fn server(fails: fn() -> Reply) -> Server {
    Server::start(move |request| match request["messages"].as_array().unwrap().last().unwrap() {
        last if last["role"] == "tool" => fails(),
        _ => calls("call_1", "log", json!({ "n": 1 })),
    })
    .await
}

async fn error(agent: &Agent, streams: bool) -> String {
    let run = agent.prompt("Go.");
    if !streams {
        return run.await.unwrap_err().to_string();
    }
    let mut items = run.stream();
    while let Some(item) = items.next().await {
        match item {
            Ok(MultiTurnStreamItem::FinalResponse(response)) => panic!("{response}"),
            Ok(_) => {}
            Err(error) => return error.to_string(),
        }
    }
    panic!("the stream ended without an error")
}

async fn check(fails: fn() -> Reply, says: &str) {
    for streams in [false, true] {
        let server = server(fails).await;
        let bare = AgentBuilder::new(server.model()).preamble("You run tests.");
        let bare = bare.default_max_turns(200).dynamic_tool(log_tool()).build();
        let rig = Setup::new(SlidingWindow::default(), 8_000).agent(server.model());

        let (without, with) = (error(&bare, streams).await, error(&rig.agent, streams).await);
        assert_eq!(with, without);
        assert!(with.contains(says), "{with}");

        let handle = rig.handles.lock().unwrap()[0].clone();
        let read = rig.limits.read(&json!({ "handle": handle, "offset": 1_000, "limit": 1 })).await;
        assert!(read.ends_with("the secret of run 1 is 7919\n"), "{read}");
        assert_eq!(*rig.warnings.lock().unwrap(), [""; 0]);
    }
}

#[tokio::test]
async fn too_many_requests() {
    check(|| Reply::Fails(429, "Rate limit reached"), "Rate limit reached").await;
}

#[tokio::test]
async fn the_provider_is_down() {
    check(|| Reply::Fails(500, "The server had an error"), "The server had an error").await;
}

#[tokio::test]
async fn the_key_is_refused() {
    check(|| Reply::Fails(401, "Incorrect API key provided"), "Incorrect API key").await;
}

#[tokio::test]
async fn the_answer_is_cut_in_the_middle() {
    check(|| Reply::Breaks, "").await;
}

#[tokio::test]
async fn a_run_that_failed_is_gone_on_with() {
    let mut asked = 0;
    let server = Server::start(move |_| {
        asked += 1;
        match asked {
            4 => Reply::Fails(500, "The server had an error"),
            6 => Reply::Says("Done.".to_owned()),
            n => calls(format!("call_{n}"), "log", json!({ "n": n })),
        }
    })
    .await;
    let rig = Setup::new(SlidingWindow::default(), 8_000).agent(server.model());
    rig.agent.prompt("Go.").await.unwrap_err();
    assert_eq!(rig.agent.prompt("Again.").await.unwrap().output(), "Done.");
    assert_eq!(rig.handles.lock().unwrap().len(), 4);
}

#[tokio::test]
async fn a_store_that_is_down_fails_no_run() {
    let folder = tempfile::tempdir().unwrap();
    let store = overspill_store::LocalStore::open(folder.path().join("spills")).unwrap();
    // Nothing can be made where a file stands.
    std::fs::write(folder.path().join("spills"), "").unwrap();
    let server =
        Server::start(|request| match request["messages"].as_array().unwrap().last().unwrap() {
            last if last["role"] == "tool" => Reply::Says("Done.".to_owned()),
            _ => calls("call_1", "log", json!({ "n": 1 })),
        })
        .await;
    let mut setup = Setup::new(SlidingWindow::default(), 8_000);
    setup.store = std::sync::Arc::new(store);
    let rig = setup.agent(server.model());
    let answer = rig.agent.prompt("Go.").await.unwrap();
    assert_eq!(answer.output(), "Done.");
    assert!(!rig.warnings.lock().unwrap().is_empty());
    // It was cut instead, which its words say.
    let sent = server.requests();
    assert!(crate::support::last_text(&sent[1]).chars().count() < log(1).len() / 4);
}
