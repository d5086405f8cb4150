//! The agent against somebody else's scripted model, where npm is there to fetch it.

use std::collections::HashMap;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

const AIMOCK: &str = "@copilotkit/aimock@1.43.0";

#[tokio::test]
async fn the_agent_talks_with_aimock() {
    let folder = tempfile::tempdir().unwrap();
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--silent", AIMOCK]).current_dir(&folder);
    let installed = timeout(Duration::from_secs(120), npm.kill_on_drop(true).status()).await;
    if !matches!(&installed, Ok(Ok(status)) if status.success()) {
        println!("skipped: npm cannot install {AIMOCK} here");
        return;
    }
    let fixtures = json!({ "fixtures": [
        { "match": { "userMessage": "Count", "hasToolResult": false },
          "response": { "toolCalls": [{ "id": "call_1", "name": "shell",
                                        "arguments": { "command": "seq 1 20000" } }] } },
        { "match": { "toolCallId": "call_1", "toolResultContains": "20,000 lines, stored as " },
          "response": { "content": "It was stored." } },
    ]});
    std::fs::write(folder.path().join("fixtures.json"), fixtures.to_string()).unwrap();
    let mut server = Command::new("node_modules/.bin/llmock")
        .args(["-f", "fixtures.json", "-p", "0", "--strict"])
        .current_dir(&folder)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let url = timeout(Duration::from_secs(60), async {
        loop {
            let line = lines.next_line().await.unwrap().expect("it says where it listens");
            if let Some((_, url)) = line.split_once("listening on ") {
                return url.trim().to_owned();
            }
        }
    });
    let url = format!("{}/v1", url.await.unwrap());
    let variables = HashMap::from([
        ("OPENAI_BASE_URL", url.as_str()),
        ("OPENAI_MODEL", "gpt-5.2"),
        ("OPENAI_API_KEY", "sk-test"),
    ]);
    let agent = Command::new(env!("CARGO_BIN_EXE_agent"))
        .arg("Count to 20,000.")
        .current_dir(&folder)
        .envs(variables)
        .output()
        .await
        .unwrap();
    let log = String::from_utf8(agent.stderr).unwrap();
    assert_eq!(String::from_utf8(agent.stdout).unwrap(), "It was stored.\n", "{log}");
    assert!(log.contains("108.89 kB spilled in 1"), "{log}");
}
