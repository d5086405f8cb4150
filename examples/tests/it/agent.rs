//! The agent, as the command that people run.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use overspill::measure::{count_chars, estimate_tokens};
use overspill::tokenizer::Vocabulary;
use overspill::{Marker, Tokenizer};
use overspill_examples::agent::{Agent, AgentError, Progress};
use overspill_examples::endpoint;
use overspill_examples::tools::Tools;
use overspill_store::MemoryStore;
use serde_json::{Value, json};

use crate::scripted::{KEY, Reply, Scripted, calls, calls_each, completion, says, seen};

const BUDGET: u64 = 20_000;

/// The root of this source tree.
fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// What a command of `sh` prints in this tree.
fn printed(command: &str) -> String {
    let mut sh = std::process::Command::new("sh");
    let output = sh.arg("-c").arg(command).current_dir(tree()).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Runs the binary in a pipe.
async fn run(args: &[&str], variables: &HashMap<&str, &str>) -> (Option<i32>, String, String) {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_agent"));
    for name in ["OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"] {
        command.env_remove(name);
    }
    let output = command.args(args).envs(variables).output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn endpoint_of(server: &Scripted) -> HashMap<&str, &str> {
    HashMap::from([
        ("OPENAI_BASE_URL", server.base_url.as_str()),
        ("OPENAI_MODEL", "scripted"),
        ("OPENAI_API_KEY", KEY),
    ])
}

/// An agent in this tree without a process of its own.
fn agent(server: &Scripted, key: &str, budget: u64, seconds: u64) -> Agent {
    let client = endpoint::client(Some(&server.base_url), key).unwrap();
    let tools = Tools::new(&tree(), Duration::from_secs(seconds)).unwrap();
    let store = Arc::new(MemoryStore::new());
    Agent::new(client, "scripted", tools, store, "test", budget, 100).unwrap()
}

/// The first step, whose output the model is asked about at the end.
const FIRST: &str = "cat -n $(find crates -name '*.rs' | LC_ALL=C sort | head -n 8)";

/// A step of the long run: real work on this tree.
fn step(at: usize) -> (&'static str, Value) {
    let file = |at: usize| {
        let files = "find crates -path '*/src/*' -name '*.rs' -size +8k | LC_ALL=C sort";
        let files = printed(files);
        files.lines().nth(at * 2).unwrap().to_owned()
    };
    match at % 4 {
        0 => {
            let from = at * 3 + 9;
            let list = format!("find crates -name '*.rs' | LC_ALL=C sort | tail -n +{from}");
            ("shell", json!({ "command": format!("cat -n $({list} | head -n 8)") }))
        }
        1 => ("read_file", json!({ "path": file(at / 4) })),
        2 => {
            let patterns = ["self", "fn ", "let ", "use ", "//", "pub ", "Some", "match"];
            let pattern = patterns[at / 4 % patterns.len()];
            ("grep", json!({ "pattern": pattern, "path": "crates/overspill/src" }))
        }
        _ => ("shell", json!({ "command": format!("tail -n +{} Cargo.lock", at * 10) })),
    }
}

const STEPS: usize = 56;

/// A model that works through the steps and is then asked for the middle of the first output.
fn long_run() -> impl FnMut(&Value) -> Reply {
    let mut at = 0;
    move |request| {
        let now = at;
        at += 1;
        let handle = || first_handle(request).expect("the first output can still be reached");
        match now {
            0 => calls("call_0", "shell", &json!({ "command": FIRST })),
            1..STEPS => {
                let (tool, args) = step(now);
                calls(&format!("call_{now}"), tool, &args)
            }
            STEPS => calls("size", "read_tool_result", &json!({ "handle": handle(), "limit": 1 })),
            _ if seen(request, "middle").is_none() => {
                let lines = seen(request, "size").unwrap().split(" of ").nth(1).unwrap();
                let lines: u64 = lines.replace(',', "").parse().unwrap();
                let read = json!({ "handle": handle(), "offset": lines / 2, "limit": 1 });
                calls("middle", "read_tool_result", &read)
            }
            _ => says(seen(request, "middle").unwrap().lines().last().unwrap()),
        }
    }
}

/// The handle of the first output, as the request shows it.
fn first_handle(request: &Value) -> Option<String> {
    let shown = seen(request, "call_0")?;
    match shown.split_once("(an excerpt of ") {
        Some((_, handle)) => Some(handle.split(')').next()?.to_owned()),
        None => Some(Marker::handles(shown).next()?.to_string()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_run_stays_in_its_budget_and_loses_nothing() {
    let server = Scripted::start(long_run()).await;
    let folder = tree();
    let args = ["--folder", folder.to_str().unwrap(), "What stands in the middle of it?"];
    let (status, answer, log) = run(&args, &endpoint_of(&server)).await;
    // The run that docs/agents.md shows.
    println!("{log}{answer}");
    assert_eq!(status, Some(0));

    // The answer is from the middle of the first output.
    let first = printed(FIRST);
    let lines: Vec<&str> = first.lines().collect();
    assert_eq!(answer.trim_end_matches('\n'), lines[lines.len() / 2]);
    let journal = server.journal();
    let excerpt = seen(&journal[1].json(), "call_0").unwrap().to_owned();
    assert!(!excerpt.contains(lines[lines.len() / 2]), "it was in view all along");

    // 2 MB of output of over 50 calls.
    let returned = |line: &str| -> Option<u64> {
        let (_, behind) = line.split_once(" returned ")?;
        behind.split(' ').next()?.parse().ok()
    };
    let returns: Vec<u64> = log.lines().filter_map(returned).collect();
    assert_eq!(returns.len(), STEPS + 2);
    assert!(returns.iter().sum::<u64>() >= 2_000_000, "{} bytes", returns.iter().sum::<u64>());

    // Never over the budget, never a broken pair.
    for request in &journal {
        assert_eq!(request.status, 200, "{}", request.text());
        let counted = Vocabulary::O200k.count(request.text());
        let estimated = estimate_tokens(count_chars(&request.body));
        assert!(counted <= BUDGET, "{counted} tokens");
        assert!(estimated <= BUDGET, "{estimated} tokens by estimate");
    }
    // One line of the gauge for each request.
    let gauges: Vec<&str> =
        log.lines().filter(|line| line.contains(" of 20,000 tokens, ")).collect();
    assert_eq!(gauges.len(), journal.len());
    assert!(
        gauges.iter().all(|line| line.starts_with('█') && line.contains(" spilled in ")),
        "{log}"
    );
    assert!(!log.contains("warning"), "{log}");
}

#[tokio::test]
async fn without_an_endpoint_it_says_how_to_set_one() {
    let model = HashMap::from([("OPENAI_MODEL", "m")]);
    for variables in [HashMap::new(), model] {
        let (status, answer, log) = run(&["task"], &variables).await;
        assert_eq!((status, answer.as_str()), (Some(1), ""));
        for word in ["OPENAI_BASE_URL", "OPENAI_MODEL", "OPENAI_API_KEY", "ollama pull"] {
            assert!(log.contains(word), "{log}");
        }
    }
}

#[tokio::test]
async fn it_waits_as_it_is_told_and_tries_again() {
    let mut at = 0;
    let server = Scripted::start(move |_| {
        at += 1;
        match at {
            1 => Reply::Error { status: 429, retry_after: Some(1) },
            2 => Reply::Error { status: 500, retry_after: None },
            _ => says("Fine."),
        }
    })
    .await;
    let answer = agent(&server, KEY, BUDGET, 9).answer("Task.", |_| ()).await;
    assert_eq!(answer.unwrap(), "Fine.");
    let journal = server.journal();
    assert_eq!(journal.iter().map(|one| one.status).collect::<Vec<_>>(), [429, 500, 200]);
    assert!(journal[1].at - journal[0].at >= Duration::from_secs(1));
}

#[tokio::test]
async fn what_cannot_be_mended_ends_the_run_with_a_reason() {
    let server = Scripted::start(|_| says("Fine.")).await;
    let mut wrong = endpoint_of(&server);
    wrong.insert("OPENAI_API_KEY", "sk-wrong");
    let (status, _, log) = run(&["task"], &wrong).await;
    assert_eq!(status, Some(1));
    assert!(log.contains("Incorrect API key provided"), "{log}");
    assert!(!log.contains("sk-wrong"), "{log}");

    let server = Scripted::start(|_| Reply::Cut {
        content_type: "application/json",
        body: "{\"choices\":[{\"message\":{\"content\":\"Fi".into(),
    })
    .await;
    let error = agent(&server, KEY, BUDGET, 9).answer("Task.", |_| ()).await.unwrap_err();
    assert!(matches!(error, AgentError::Endpoint(_)), "{error:?}");

    let server = Scripted::start(|_| {
        let half = json!({ "role": "assistant", "content": "Half an ans" });
        Reply::Response(completion(&half, "length"))
    })
    .await;
    let error = agent(&server, KEY, BUDGET, 9).answer("Task.", |_| ()).await.unwrap_err();
    assert_eq!(error.to_string(), "the model's answer is cut (length): Half an ans");

    let long = "word ".repeat(BUDGET as usize);
    let error = agent(&server, KEY, BUDGET, 9).answer(&long, |_| ()).await.unwrap_err();
    assert!(matches!(error, AgentError::OverBudget { budget: BUDGET, .. }), "{error:?}");
}

/// One turn may answer more calls than the budget has room for.
#[tokio::test]
async fn many_long_answers_at_once_are_cut_rather_than_sent() {
    let mut at = 0;
    let server = Scripted::start(move |request| {
        at += 1;
        match at {
            1 => calls("call_0", "shell", &json!({ "command": FIRST })),
            2 => {
                let handle = first_handle(request).unwrap();
                let read = |from| json!({ "handle": handle, "offset": from, "limit": 1000 });
                let ids: Vec<String> = (0..8).map(|at| format!("read_{at}")).collect();
                let reads: Vec<_> = ids
                    .iter()
                    .enumerate()
                    .map(|(at, id)| (id.as_str(), "read_tool_result", read(at * 10)))
                    .collect();
                calls_each(&reads)
            }
            _ => says("Fine."),
        }
    })
    .await;
    let answer = agent(&server, KEY, BUDGET, 9).answer("Task.", |_| ()).await;
    assert_eq!(answer.unwrap(), "Fine.");
    for request in server.journal() {
        assert_eq!(request.status, 200, "{}", request.text());
        assert!(Vocabulary::O200k.count(request.text()) <= BUDGET);
    }
}

/// What a tool does is told to the model, whatever it is.
#[tokio::test]
async fn tools_keep_to_their_folder_and_their_time() {
    let asked: Vec<(&str, Value, &str)> = vec![
        ("read_file", json!({ "path": "crates/../.." }), "crates/../.. is outside of the working"),
        ("read_file", json!({ "path": "/etc/passwd" }), "/etc/passwd is outside of the working"),
        ("read_file", json!({ "path": "crates" }), "crates is no file"),
        ("read_file", json!({ "path": "nowhere" }), "nowhere cannot be opened: No such file"),
        ("read_file", json!({}), "read_file got no usable arguments: {}"),
        ("grep", json!({ "pattern": "x", "path": "/etc" }), "/etc is outside of the working"),
        ("grep", json!({ "pattern": "^resolver", "path": "Cargo.toml" }), ":resolver = \"3\""),
        ("grep", json!({ "pattern": "(", "path": "Cargo.toml" }), "[exit status: 2]"),
        ("grep", json!({ "pattern": "-qqq", "path": "Cargo.toml" }), "No line matches."),
        ("shell", json!({ "command": "echo $OPENAI_API_KEY.; exit 3" }), ".\n\n[exit status: 3]"),
        (
            "shell",
            json!({ "command": "sleep 600 & echo on; sleep 600" }),
            "on\n\n[stopped after 1 s]",
        ),
        ("shell", json!({ "command": "yes" }), "[stopped after"),
        ("fly", json!({}), "there is no tool \"fly\"; there are shell, read_file and grep"),
    ];
    let mut left = asked.clone();
    let mut waits: Option<&str> = None;
    let server = Scripted::start(move |request| {
        if let Some(words) = waits.take() {
            let shown = seen(request, &format!("call_{}", left.len())).unwrap();
            assert!(shown.contains(words), "{words:?} is not in {shown:?}");
        }
        if left.is_empty() {
            return says("Fine.");
        }
        let id = format!("call_{}", left.len() - 1);
        let (tool, args, words) = left.remove(0);
        waits = Some(words);
        calls(&id, tool, &args)
    })
    .await;
    let mut returned = 0;
    let answer = agent(&server, KEY, 100_000, 1)
        .answer("Task.", |progress| {
            returned += usize::from(matches!(progress, Progress::Returned { .. }));
        })
        .await;
    assert_eq!(answer.unwrap(), "Fine.");
    assert_eq!(returned, asked.len());
}
