//! The hand-written loop.

use std::sync::Arc;

use overspill_examples::{by_hand, endpoint};
use overspill_store::MemoryStore;
use serde_json::json;

use crate::scripted::{KEY, Reply, Scripted, calls, calls_each, says, seen};

async fn run(server: &Scripted, key: &str, budget: u64) -> Result<String, String> {
    let stack = by_hand::stack(Arc::new(MemoryStore::new()), budget).unwrap();
    let url = format!("{}/chat/completions", server.base_url);
    let client = endpoint::http().unwrap();
    by_hand::answer(&client, &url, key, "scripted", &stack, "Count.")
        .await
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_long_result_is_stored_and_read_back() {
    let mut step = 0;
    let server = Scripted::start(move |request| {
        step += 1;
        match step {
            1 => calls("c1", "shell", &json!({ "command": "seq 1 20000" })),
            2 => {
                let shown = seen(request, "c1").unwrap();
                assert!(shown.starts_with("[overspill: 108,894 characters, 20,000 lines"));
                assert!(!shown.contains("\n12345\n"));
                let handle = shown.split("stored as ").nth(1).unwrap().split(';').next().unwrap();
                let read = json!({ "handle": handle, "offset": 12344, "limit": 1 });
                calls_each(&[
                    ("c2", "read_tool_result", read),
                    ("c3", "shell", json!({ "command": "echo short; exit 3" })),
                ])
            }
            _ => {
                assert_eq!(seen(request, "c3"), Some("short\n"));
                says(seen(request, "c2").unwrap().lines().last().unwrap())
            }
        }
    })
    .await;
    assert_eq!(run(&server, KEY, 200_000).await.as_deref(), Ok("12345"));
}

#[tokio::test]
async fn old_results_make_room() {
    let mut step = 0;
    let server = Scripted::start(move |request| {
        step += 1;
        match step {
            ..=30 => {
                let command = format!("seq {step}000 {step}900");
                calls(&format!("c{step}"), "shell", &json!({ "command": command }))
            }
            _ => says(seen(request, "c1").unwrap()),
        }
    })
    .await;
    let first = run(&server, KEY, 10_000).await.unwrap();
    assert!(first.starts_with("[overspill: 4,505 characters, 901 lines, stored as "), "{first}");
    for request in server.journal() {
        assert_eq!(request.status, 200, "{}", request.text());
        assert!(request.body.len() < 40_000, "{} bytes", request.body.len());
    }
}

#[tokio::test]
async fn an_endpoint_that_fails_ends_the_run() {
    let server = Scripted::start(|_| says("Hello.")).await;
    assert!(run(&server, "wrong", 10_000).await.unwrap_err().contains("401 Unauthorized"));

    let server = Scripted::start(|_| Reply::Error { status: 500, retry_after: None }).await;
    assert!(run(&server, KEY, 10_000).await.unwrap_err().contains("500 Internal"));

    let cut = || Reply::Cut { content_type: "application/json", body: "{\"choices\":[".into() };
    let server = Scripted::start(move |_| cut()).await;
    assert!(run(&server, KEY, 10_000).await.is_err());
}
