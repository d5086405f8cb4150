//! What stays, beside what another implementation keeps.

use std::path::Path;

use serde_json::Value;

use super::*;
use crate::strategy::tests::script::{Part, Said};

/// Where we differ on purpose: in the first four, all that could leave is the first message of the
/// user, which stays, so there is nothing to sum up. In the others a result stands far behind its
/// call, and neither leaves without the other.
const DIFFERENT: [&str; 6] = [
    "h7/keep4",
    "h7/receipt",
    "h16/keep4",
    "h16/receipt",
    "late_return/keep4",
    "late_return/receipt",
];

#[test]
fn the_same_end_stays() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/golden/summarizing_structure.json");
    let Ok(text) = std::fs::read_to_string(&file) else {
        println!("skipped: {} is not there", file.display());
        return;
    };
    let golden: Value = serde_json::from_str(&text).unwrap();
    let model = Scripted::new([]);
    let mut different = Vec::new();
    for vector in golden["vectors"].as_array().unwrap() {
        let config = &vector["config"];
        // Tokens are counted in another way there, and the end that keeps the user's messages too
        // is cut to the last message.
        let Some(keep) =
            config["keep_messages"].as_u64().filter(|_| config["keep_user_messages"] != true)
        else {
            continue;
        };
        let keep = Keep::Messages(usize::try_from(keep).unwrap());
        let how = Summarize { keep_user_messages: 0, summary_tokens: 0, ..Summarize::new(keep) };
        let history = &golden["histories"][vector["history"].as_str().unwrap()];
        let talk = talk(history);
        let (plan, _) = Bench::new(&model).plan(&talk, &how).unwrap();
        let history = talk.history();
        let left = history.after(&plan).unwrap();
        let messages = talk.messages.len();
        let ours = (0..messages).rev().take_while(|at| left.has_message(MessageId(*at))).count();
        let out = vector["out"].as_array().unwrap();
        let theirs = match vector["unchanged"] == true {
            true => messages,
            false => out.iter().rev().take_while(|message| message["i"].is_u64()).count(),
        };
        if ours != theirs {
            println!("{}: we keep {ours}, they {theirs} of {messages}", vector["id"]);
            different.push(vector["id"].as_str().unwrap());
        }
    }
    assert_eq!(different, DIFFERENT);
}

fn talk(history: &Value) -> Script {
    let messages = history.as_array().unwrap().iter().map(|message| {
        let response = message["kind"] == "response";
        let role = if response { Role::Assistant } else { Role::User };
        let parts = message["parts"].as_array().unwrap();
        Said::new(role, parts.iter().map(|found| part(role, found)).collect())
    });
    Script { rules: Rules::default(), messages: messages.collect() }
}

fn part(role: Role, part: &Value) -> Part {
    let word = |key: &str| part[key].as_str().unwrap_or_default().to_owned();
    let text = |key: &str| part[key].as_str().map_or(part[key].to_string(), str::to_owned);
    let (id, name) = (word("tool_call_id"), word("tool_name"));
    match part["part_kind"].as_str().unwrap() {
        "system-prompt" => Part::new(Role::System, Kind::Text, &text("content")),
        "tool-call" => Part::call(&id, &name, &text("args")),
        "tool-return" | "retry-prompt" if !name.is_empty() => {
            let (id, name) = (id.into(), Some(name.into()));
            let kind = Kind::Return { id, name, is_error: false, images: vec![] };
            Part::new(Role::Tool, kind, &text("content"))
        }
        "thinking" => Part::new(role, Kind::Thinking, &text("content")),
        _ => Part::new(role, Kind::Text, &text("content")),
    }
}
