//! Strategies decide as recorded ones did, apart from where they differ on purpose.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use overspill::Tokenizer;
use overspill::count::Counter;
use overspill::entry::{Entry, EntryId, Kind, MessageId, Role};
use overspill::filter::ToolFilter;
use overspill::history::History;
use overspill::strategy::{
    ClampOversized, ClearToolResults, DeduplicateFileReads, Draft, FileAccess, FileKeys, FileUse,
    Keep, Limit, Scene, SlidingWindow, Strategy, Tiered,
};
use overspill_wire::Format;
use serde_json::Value;

use crate::support::parse;

/// A file of recorded decisions; `None` where they are not here.
#[expect(clippy::print_stdout, reason = "a test that skips says so")]
fn golden(name: &str) -> Option<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/golden");
    match std::fs::read_to_string(folder.join(format!("{name}.json"))) {
        Ok(text) => Some(serde_json::from_str(&text).unwrap()),
        Err(_) => {
            println!("skipped: the recorded decisions are not here");
            None
        }
    }
}

/// What a strategy leaves of a history.
fn decide<T>(
    messages: &Value,
    counter: &Counter,
    strategy: &dyn Strategy,
    look: impl FnOnce(&History<'_>, &Draft<'_, '_>) -> T,
) -> T {
    let conversation = parse(Format::PydanticAi, &messages.to_string());
    let history = conversation.history();
    let count = counter.count(&history);
    let pins = pins(messages);
    let mut scene = Scene::new(&history, &count, counter, 200_000);
    scene.pins = &pins;
    let mut draft = Draft::new(scene);
    futures_lite::future::block_on(strategy.edit(&mut draft)).unwrap();
    look(&history, &draft)
}

/// The messages that the recorded histories pin.
fn pins(messages: &Value) -> Vec<MessageId> {
    let pinned = |message: &Value| message.to_string().contains("compaction.pin.v1");
    let all = messages.as_array().unwrap().iter().enumerate();
    all.filter(|(_, message)| pinned(message)).map(|(at, _)| MessageId(at)).collect()
}

fn kept(history: &History<'_>, draft: &Draft<'_, '_>) -> Vec<u64> {
    let messages = 0..history.messages().len();
    messages.filter(|at| draft.has_message(MessageId(*at))).map(|at| at as u64).collect()
}

/// The messages that a recorded decision keeps as they were.
fn recorded_kept(vector: &Value) -> Vec<u64> {
    vector["out"].as_array().unwrap().iter().filter_map(|message| message["i"].as_u64()).collect()
}

/// The differences, by reason. Each has to be listed, and each that is listed has to be there.
#[derive(Default)]
struct Differences(BTreeMap<String, String>);

impl Differences {
    fn add(&mut self, id: &Value, ours: impl std::fmt::Debug, theirs: impl std::fmt::Debug) {
        let id = id.as_str().unwrap().to_owned();
        self.0.insert(id, format!("ours {ours:?}, theirs {theirs:?}"));
    }

    #[track_caller]
    fn check(&self, listed: &[(&str, &[&str])]) {
        let mut listed: Vec<&str> = listed.iter().flat_map(|(_, ids)| *ids).copied().collect();
        listed.sort_unstable();
        let found: Vec<&str> = self.0.keys().map(String::as_str).collect();
        assert_eq!(found, listed, "{:#?}", self.0);
    }
}

#[test]
fn sliding_window() {
    let Some(file) = golden("sliding_window") else { return };
    let mut differences = Differences::default();
    for vector in file["vectors"].as_array().unwrap() {
        let config = &vector["config"];
        let keep = match (config["keep_messages"].as_u64(), config["keep_tokens"].as_u64()) {
            (Some(messages), _) => Keep::Messages(messages as usize),
            (None, tokens) => Keep::Tokens(tokens.unwrap()),
        };
        let keep_first_user = config["preserve_first_user_message"] != Value::Bool(false);
        let window = SlidingWindow { keep_first_user, ..SlidingWindow::new(keep) };
        let messages = &file["histories"][vector["history"].as_str().unwrap()];
        let ours = decide(messages, &Counter::default(), &window, kept);
        let theirs = recorded_kept(vector);
        if ours != theirs {
            differences.add(&vector["id"], ours, theirs);
        }
    }
    differences.check(&[
        (
            "at least so many tokens stay, not at most",
            &["h11/tok60", "h16/tok60", "h21/tok60", "h21/receipt_tok"],
        ),
        (
            "a receipt is not one of the messages that are to stay",
            &["h14/receipt5", "h19/receipt5", "h2/receipt5", "receipt_marker/receipt5"],
        ),
        (
            "all instructions stay, whatever message they stand in",
            &[
                "h12/keep7_nofirst",
                "h21/keep7_nofirst",
                "legacy_summary/keep0",
                "legacy_summary/keep1",
                "legacy_summary/keep4",
                "legacy_summary/receipt5",
                "legacy_summary/tok0",
                "no_user/keep4",
                "no_user/receipt5",
            ],
        ),
        (
            "what is pinned stays where it stands, and is not gathered at the beginning",
            &["pins/keep4", "pins/receipt5", "pins/tok0"],
        ),
    ]);
}

#[test]
fn cutoffs() {
    let Some(file) = golden("cutoffs") else { return };
    let mut differences = Differences::default();
    for vector in file["vectors"].as_array().unwrap() {
        let messages = &vector["messages"];
        let count = messages.as_array().unwrap().len();
        let by_messages = vector["safe_cutoff"].as_array().unwrap().iter();
        let by_messages =
            by_messages.map(|pair| (Keep::Messages(pair[0].as_u64().unwrap() as usize), &pair[1]));
        let by_tokens = vector["token_cutoff"].as_array().unwrap().iter();
        let by_tokens = by_tokens.map(|pair| (Keep::Tokens(pair[0].as_u64().unwrap()), &pair[1]));
        let by_calls = vector["include_deps"].as_array().unwrap()[..count].iter().enumerate();
        let by_calls = by_calls.map(|(at, cut)| (Keep::Messages(count - at), cut));
        for (keep, cut) in by_messages.chain(by_tokens).chain(by_calls) {
            let window = SlidingWindow { keep_first_user: false, ..SlidingWindow::new(keep) };
            let cut = cut.as_u64().unwrap();
            let (ours, theirs) =
                decide(messages, &Counter::default(), &window, |history, draft| {
                    // All instructions stay; everything else before the cut leaves.
                    let instructs = |at: &u64| {
                        let entries = history.messages()[*at as usize].entries.clone();
                        history.entries()[entries].iter().any(|entry| entry.role == Role::System)
                    };
                    let theirs = (0..count as u64).filter(|at| *at >= cut || instructs(at));
                    (kept(history, draft), theirs.collect::<Vec<u64>>())
                });
            if ours != theirs {
                differences.add(
                    &format!("{} {keep:?}", vector["id"].as_str().unwrap()).into(),
                    ours,
                    theirs,
                );
            }
        }
    }
    differences.check(&[
        ("at least so many tokens stay, not at most", &["h16 Tokens(50)"]),
        (
            "ids are used twice there: a return answers the nearest call, and keeps no other",
            &[
                "h31 Messages(10)",
                "h31 Messages(5)",
                "h31 Messages(7)",
                "h31 Tokens(100)",
                "h31 Tokens(1000)",
                "h31 Tokens(300)",
                "h31 Tokens(50)",
            ],
        ),
    ]);
}

/// Counts each text as so much that every marker is smaller.
struct Heavy;

impl Tokenizer for Heavy {
    fn count(&self, text: &str) -> u64 {
        if text.is_empty() { 0 } else { 1_000 }
    }
}

/// The returns that a recorded decision replaced.
fn recorded_cleared(vector: &Value, history: &History<'_>) -> Vec<usize> {
    let mut cleared = Vec::new();
    for (message, out) in history.messages().iter().zip(vector["out"].as_array().unwrap()) {
        let parts = out["new"]["parts"].as_array().into_iter().flatten();
        let returns = parts.filter(|part| part["part_kind"] == "tool-return");
        let entries = message.entries.clone().filter(|at| history.entries()[*at].is_return());
        let is_cleared =
            |part: &Value| part["metadata"].to_string().contains("cleared-tool-result");
        cleared.extend(entries.zip(returns).filter(|(_, part)| is_cleared(part)).map(|(at, _)| at));
    }
    cleared
}

fn replaced(
    history: &History<'_>,
    draft: &Draft<'_, '_>,
    which: fn(&Entry<'_>) -> bool,
) -> Vec<usize> {
    let all = (0..history.entries().len()).filter(|at| which(&history.entries()[*at]));
    all.filter(|at| !draft.is_untouched(EntryId(*at))).collect()
}

#[test]
fn clear_tool_results() {
    let Some(file) = golden("clear_tool_results") else { return };
    let mut differences = Differences::default();
    for vector in file["vectors"].as_array().unwrap() {
        let config = &vector["config"];
        let tools = match config["exclude_tools"].as_array() {
            Some(names) => ToolFilter::except(names.iter().filter_map(Value::as_str)).unwrap(),
            None => ToolFilter::all(),
        };
        let clear = ClearToolResults {
            keep_pairs: config["keep_pairs"].as_u64().unwrap() as usize,
            tools,
            clear_inputs: config["clear_tool_inputs"] == Value::Bool(true),
            ..ClearToolResults::default()
        };
        let messages = &file["histories"][vector["history"].as_str().unwrap()];
        let least = config["min_clear_tokens"].as_u64().unwrap_or(0);
        // The same ones are chosen.
        decide(
            messages,
            &Counter::default().tokenizer(Arc::new(Heavy)),
            &clear,
            |history, draft| {
                let ours = replaced(history, draft, |entry| entry.is_return());
                let theirs = recorded_cleared(vector, history);
                if ours != theirs && least == 0 {
                    differences.add(&vector["id"], ours, theirs);
                }
            },
        );
        // Of those, the ones that are bigger than their marker are cleared.
        let clear = ClearToolResults { min_clear_tokens: least, ..clear };
        decide(messages, &Counter::default(), &clear, |history, draft| {
            let counter = Counter::default();
            let bigger = |at: &usize| counter.text(&history.entries()[*at].text).0 > 180;
            let mut theirs = recorded_cleared(vector, history);
            theirs.retain(bigger);
            let freed = counter.count(history).tokens() - draft.tokens();
            let ours = replaced(history, draft, |entry| entry.is_return());
            assert!(ours == theirs || ours.is_empty() && freed < least, "{}", vector["id"]);
            let calls = replaced(history, draft, |entry| entry.is_call());
            assert!(calls.is_empty(), "{}", vector["id"]);
        });
    }
    differences.check(&[]);
}

#[test]
fn deduplicate_file_reads() {
    let Some(file) = golden("dedup_file_reads") else { return };
    let files = FileKeys::new(|tool, arguments| {
        let key = arguments["path"].as_str()?.to_owned();
        let read = FileAccess { key, does: FileUse::Read, lines: None };
        ["read_file", "t"].contains(&tool).then_some(read)
    });
    let strategy = DeduplicateFileReads { files, ..DeduplicateFileReads::default() };
    let mut differences = Differences::default();
    for vector in file["vectors"].as_array().unwrap() {
        let messages = &file["histories"][vector["history"].as_str().unwrap()];
        decide(
            messages,
            &Counter::default().tokenizer(Arc::new(Heavy)),
            &strategy,
            |history, draft| {
                let ours = replaced(history, draft, |entry| entry.is_return());
                let theirs = recorded_cleared(vector, history);
                if ours != theirs {
                    differences.add(&vector["id"], ours, theirs);
                }
            },
        );
    }
    differences.check(&[]);
}

#[test]
fn tiered() {
    let Some(file) = golden("tiered") else { return };
    let mut differences = Differences::default();
    for vector in file["vectors"].as_array().unwrap() {
        let window = |keep| Arc::new(SlidingWindow::new(Keep::Messages(keep)));
        let tiered = Tiered {
            tiers: vec![
                Arc::new(ClearToolResults { keep_pairs: 1, ..ClearToolResults::default() }),
                window(8),
                window(2),
            ],
            target: Limit::Tokens(vector["config"]["target_tokens"].as_u64().unwrap()),
        };
        let messages = &file["histories"][vector["history"].as_str().unwrap()];
        decide(messages, &Counter::default(), &tiered, |history, draft| {
            let ours = kept(history, draft);
            let all = history.messages().len() as u64;
            let tail = vector["out"].as_array().unwrap().len() as u64;
            let theirs: Vec<u64> = match tail == all {
                true => (0..all).collect(),
                false => (0..1).chain(all - tail + 1..all).collect(),
            };
            if ours != theirs {
                differences.add(&vector["id"], (draft.tokens(), ours), theirs);
            }
        });
    }
    differences.check(&[
        (
            "markers and receipts count, and what is smaller than its marker is not cleared, so the \
             next tier runs sooner",
            &["all_tools/200", "h0/200", "h12/200", "h19/200", "h2/200", "h20/1000", "h22/200"],
        ),
        ("a receipt would take more room than what left", &["h16/40", "h7/40"]),
    ]);
}

/// What the model said is cut where it was cut; thinking that nobody signed and returns are cut
/// too, and a call that is not answered is not.
#[test]
fn clamp_oversized() {
    let Some(file) = golden("clamp") else { return };
    for vector in file["vectors"].as_array().unwrap() {
        let config = &vector["config"];
        let chars = |key: &str| config[key].as_u64();
        let tokens = chars("max_part_tokens").or_else(|| Some(chars("max_part_chars")? / 4));
        let (head, tail) = (chars("keep_head_chars"), chars("keep_tail_chars"));
        let clamp = ClampOversized {
            max_part: Limit::Tokens(tokens.unwrap()),
            keep_head_chars: head.unwrap_or(2_000) as usize,
            keep_tail_chars: tail.unwrap_or(2_000) as usize,
            tools: match config["clamp_tool_call_args"] {
                Value::Bool(false) => ToolFilter::matching(|_| false),
                _ => ToolFilter::all(),
            },
        };
        let messages = &file["histories"][vector["history"].as_str().unwrap()];
        decide(messages, &Counter::default(), &clamp, |history, draft| {
            for (message, out) in history.messages().iter().zip(vector["out"].as_array().unwrap()) {
                for (part, at) in message.entries.clone().enumerate() {
                    let entry = &history.entries()[at];
                    let cut = out["new"]["parts"][part].to_string().contains("[clamped: ");
                    let text = Counter::default().text(&entry.text);
                    // A marker takes more room than so little text.
                    let worth = text.0 > 362 + head.unwrap_or(2_000) + tail.unwrap_or(2_000);
                    let expected = match &entry.kind {
                        Kind::Text => cut && worth,
                        Kind::Call { .. } => cut && history.return_of(EntryId(at)).is_some(),
                        // Not by the recorded ones.
                        _ => !draft.is_untouched(EntryId(at)) && worth && !cut,
                    };
                    assert_eq!(!draft.is_untouched(EntryId(at)), expected, "{}", vector["id"]);
                }
            }
        });
    }
}
