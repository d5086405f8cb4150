//! The same against a scripted model that others wrote, with every provider's wire format.
//!
//! It is the npm package `@copilotkit/aimock`. Where there is no Node, or no registry to fetch it
//! from, the test says so and is skipped.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use overspill_model::{ApiKey, HttpModel};

use crate::server::{KEY, VARIABLE, ask, ask_in_vain, limits};

const PACKAGE: &str = "@copilotkit/aimock@1.43.0";

const FIXTURES: &str = r#"{ "fixtures": [
    { "match": { "userMessage": "Sum up", "model": "gpt-5-mini", "sequenceIndex": 0 },
      "response": { "error": { "message": "Rate limited", "type": "rate_limit_error" }, "status": 429 } },
    { "match": { "userMessage": "Sum up", "model": "gpt-5-mini", "sequenceIndex": 1 },
      "response": { "error": { "message": "Oh", "type": "server_error" }, "status": 500 } },
    { "match": { "userMessage": "Sum up" }, "response": { "content": "Short after all." } }
] }"#;

/// The server; it ends with the test.
struct Aimock {
    child: Child,
    url: String,
}

impl Drop for Aimock {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Fetches the package, unless an earlier run did; `None` where that cannot be.
fn package() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("aimock");
    let program = folder.join("node_modules/@copilotkit/aimock/dist/cli.js");
    if !program.exists() {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"]);
        npm.arg(&folder).arg(PACKAGE).stdout(Stdio::null()).stderr(Stdio::null());
        npm.status().ok().filter(|status| status.success())?;
    }
    Some(program)
}

fn start() -> Option<Aimock> {
    let program = package()?;
    let folder = program.parent()?.join("../../../..");
    let fixtures = folder.join("fixtures.json");
    std::fs::write(&fixtures, FIXTURES).unwrap();
    let mut node = Command::new("node");
    node.arg(program).args(["-p", "0", "-f"]).arg(fixtures).env("AIMOCK_API_KEYS", KEY);
    let mut child = node.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    // It says where it listens once it does, or ends.
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let url = lines
        .filter_map(|line| line.split_once("listening on ").map(|(_, url)| url.to_owned()))
        .next();
    Some(Aimock { url: url.expect("the server started"), child })
}

fn model(aimock: &Aimock, name: &str, path: &str, key: &str) -> HttpModel {
    HttpModel::builder(name.parse().unwrap())
        .base_url(format!("{}{path}", aimock.url).parse().unwrap())
        .key(ApiKey::new(VARIABLE, key).unwrap())
        .limits(limits())
        .build()
}

#[tokio::test]
async fn a_scripted_model_of_others_is_understood() {
    let Some(aimock) = start() else {
        println!("skipped: there is no Node, or no registry to fetch {PACKAGE} from");
        return;
    };
    let chat = model(&aimock, "openai:gpt-5-mini", "/v1", KEY);
    let (text, (requests, ..)) = ask(&chat).await.unwrap();
    assert_eq!((text.as_str(), requests), ("Short after all.", 3));

    let messages = model(&aimock, "anthropic:claude-haiku-4-5", "", KEY);
    let (text, (requests, ..)) = ask(&messages).await.unwrap();
    assert_eq!((text.as_str(), requests), ("Short after all.", 1));

    for (name, path) in [("openai:gpt-5", "/v1"), ("anthropic:claude-haiku-4-5", "")] {
        let (error, taken) = ask_in_vain(&model(&aimock, name, path, "sk-wrong")).await;
        assert!(error.contains("the key in TEST_API_KEY was refused (status 401)"), "{error}");
        assert_eq!(taken.0, 1);
    }
}
