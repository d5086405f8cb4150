//! What an edit writes: this request and this plan in, these bytes out.

use std::sync::Arc;

use overspill::entry::{EntryId, MessageId, Note};
use overspill::history::{Field, Plan, Refusal, SettleError, Words};
use overspill::marker::Below;
use overspill::{Marker, Store};
use overspill_store::MemoryStore;
use overspill_wire::Format;

use crate::support::{applied, parse, payload, settled, settled_in};

#[track_caller]
fn check(format: Format, text: &str, plan: impl FnOnce(&mut Plan), wanted: &str) {
    let mut edits = Plan::default();
    plan(&mut edits);
    assert_eq!(applied(&parse(format, text), &edits), wanted);
}

#[track_caller]
fn refused(format: Format, text: &str, plan: impl FnOnce(&mut Plan), wanted: &str) {
    let mut edits = Plan::default();
    plan(&mut edits);
    let conversation = parse(format, text);
    match settled(&conversation.history(), &edits) {
        Err(SettleError::Refused(refusal)) => assert_eq!(refusal.to_string(), wanted),
        other => panic!("{other:?}"),
    }
}

fn cleared(plan: &mut Plan, entry: usize) {
    plan.replace_text(EntryId(entry), Words::text("[cleared]"));
}

#[test]
fn chat_returns_and_arguments() {
    check(
        Format::Chat,
        r#"{"a":1.0,"messages":[ {"role":"user","content":"go"},
 {"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]},
 {"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"long"}], "n":2.50} ],"z":1e2}"#,
        |plan| {
            cleared(plan, 2);
            plan.replace_arguments(
                EntryId(1),
                vec![
                    ("x".into(), Field::Json("1.0".into())),
                    ("note".into(), Field::Words(Words::text("a \"b\""))),
                ],
            );
        },
        r#"{"a":1.0,"messages":[ {"role":"user","content":"go"},
 {"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"x\":1.0,\"note\":\"a \\\"b\\\"\"}"}}]},
 {"role":"tool","tool_call_id":"c","content":"[cleared]", "n":2.50} ],"z":1e2}"#,
    );
}

const CHAT: &str = r#"{"messages":[
 {"role":"system","content":"s"},
 {"role":"user","content":"caf\u00e9"},
 {"role":"assistant","tool_calls":[{"id":"","function":{"name":"f","arguments":"{}"}}]},
 {"role":"tool","tool_call_id":"","content":"1"},
 {"role":"assistant","tool_calls":[{"id":"","function":{"name":"f","arguments":"{}"}}]},
 {"role":"tool","tool_call_id":"","content":"2"},
 {"role":"user","content":[{"type":"text","text":"more"}]}
]}"#;

#[test]
fn chat_turns_leave_whole_and_notes_stand_alone() {
    check(
        Format::Chat,
        CHAT,
        |plan| {
            for message in [2, 3] {
                plan.drop_message(MessageId(message));
            }
            plan.insert(MessageId(4), Note::Receipt, Words::text("one turn"));
            plan.insert(MessageId(7), Note::Warning, Words::text("soon"));
        },
        r#"{"messages":[
 {"role":"system","content":"s"},
 {"role":"user","content":"caf\u00e9"},
 {"role":"user","content":"<overspill-receipt>\none turn\n</overspill-receipt>"},
 {"role":"assistant","tool_calls":[{"id":"","function":{"name":"f","arguments":"{}"}}]},
 {"role":"tool","tool_call_id":"","content":"2"},
 {"role":"user","content":[{"type":"text","text":"more"}]},
 {"role":"user","content":"<overspill-warning>\nsoon\n</overspill-warning>"}
]}"#,
    );
}

#[test]
fn half_a_turn_stays() {
    let whole = "turn 0 would lose a part; drop it whole or not at all";
    refused(Format::Chat, CHAT, |plan| plan.drop_message(MessageId(2)), whole);
    refused(Format::Chat, CHAT, |plan| plan.drop_entry(EntryId(3)), whole);
    refused(
        Format::Chat,
        CHAT,
        |plan| plan.insert(MessageId(3), Note::Warning, Words::text("x")),
        "a note cannot stand inside turn 0; put it before or after",
    );
    refused(Format::Chat, CHAT, |plan| plan.drop_entry(EntryId(99)), "there is no entry 99");
    refused(
        Format::Chat,
        CHAT,
        |plan| (0..7).for_each(|message| plan.drop_message(MessageId(message))),
        "the history would become invalid: no message is left",
    );
    refused(
        Format::Chat,
        CHAT,
        |plan| {
            cleared(plan, 1);
            cleared(plan, 1);
        },
        "entry 1 is edited twice",
    );
    refused(
        Format::Chat,
        CHAT,
        |plan| plan.replace_arguments(EntryId(2), vec![("k".into(), Field::Json("{".into()))]),
        "the new arguments of entry 2 are not valid JSON at \"k\"",
    );
}

const ANTHROPIC: &str = r#"{"messages":[
{"role":"user","content":"task"},
{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"a","name":"f","input":{"n":1.0}}]},
{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"out","cache_control":{"type":"ephemeral"}}]}, {"type":"text","text":"and quickly"}]},
{"role":"assistant","content":"Done."},
{"role":"user","content":[{"type":"text","text":"n\u00e4chste"}]},
{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},
{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"2"}]}]}"#;

#[test]
fn anthropic_users_become_neighbours_and_one() {
    check(
        Format::Anthropic,
        ANTHROPIC,
        |plan| {
            plan.drop_message(MessageId(1));
            plan.drop_entry(EntryId(3));
            plan.drop_message(MessageId(3));
            plan.insert(MessageId(1), Note::Receipt, Words::text("r"));
        },
        r#"{"messages":[
{"role":"user","content":[{"type":"text","text":"task"},{"type":"text","text":"<overspill-receipt>\nr\n</overspill-receipt>"},{"type":"text","text":"and quickly"},{"type":"text","text":"n\u00e4chste"}]},
{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},
{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"2"}]}]}"#,
    );
}

#[test]
fn anthropic_results_come_first_and_keep_their_cache_marker() {
    check(
        Format::Anthropic,
        ANTHROPIC,
        |plan| {
            cleared(plan, 3);
            plan.insert(MessageId(7), Note::Warning, Words::text("w"));
            plan.replace_arguments(EntryId(7), vec![("k".into(), Field::Words(Words::text("v")))]);
        },
        r#"{"messages":[
{"role":"user","content":"task"},
{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"a","name":"f","input":{"n":1.0}}]},
{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"[cleared]","cache_control":{"type":"ephemeral"}}]}, {"type":"text","text":"and quickly"}]},
{"role":"assistant","content":"Done."},
{"role":"user","content":[{"type":"text","text":"n\u00e4chste"}]},
{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"k":"v"}}]},
{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"2"},{"type":"text","text":"<overspill-warning>\nw\n</overspill-warning>"}]}]}"#,
    );
}

#[test]
fn anthropic_rules_hold() {
    refused(
        Format::Anthropic,
        ANTHROPIC,
        |plan| plan.drop_message(MessageId(0)),
        "the history would become invalid: message 1 is the first and is not the user's",
    );
    refused(
        Format::Anthropic,
        ANTHROPIC,
        |plan| plan.drop_message(MessageId(4)),
        "the history would become invalid: message 5 is a response right after another response",
    );
    refused(
        Format::Anthropic,
        ANTHROPIC,
        |plan| cleared(plan, 1),
        "entry 1 must not change: it is signed, cited, or no text",
    );
    let compacted = include_str!("../fixtures/anthropic_compaction.json");
    let closed =
        |n| format!("message {n} stands before a compaction of the provider's, and is closed");
    refused(Format::Anthropic, compacted, |plan| plan.drop_message(MessageId(0)), &closed(0));
    refused(
        Format::Anthropic,
        compacted,
        |plan| plan.insert(MessageId(3), Note::Receipt, Words::text("r")),
        &closed(3),
    );
    refused(
        Format::Anthropic,
        compacted,
        |plan| {
            plan.drop_message(MessageId(3));
            plan.drop_message(MessageId(4));
        },
        &closed(3),
    );
}

const GEMINI: &str = r#"{"contents": [
 {"role": "user", "parts": [{"text": "a"}]},
 {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"x": 1.0}}}]},
 {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "o"}}}]},
 {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "s"}]},
 {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"p": 1, "q": 2}}}]}
], "z": 1.0}"#;

#[test]
fn gemini_responses_stay_objects() {
    check(
        Format::Gemini,
        GEMINI,
        |plan| {
            cleared(plan, 2);
            cleared(plan, 4);
            plan.replace_arguments(EntryId(1), vec![]);
            plan.insert(MessageId(5), Note::Warning, Words::text("w"));
        },
        r#"{"contents": [
 {"role": "user", "parts": [{"text": "a"}]},
 {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
 {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "[cleared]"}}}]},
 {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "s"}]},
 {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output":"[cleared]"}}},{"text":"<overspill-warning>\nw\n</overspill-warning>"}]}
], "z": 1.0}"#,
    );
    refused(
        Format::Gemini,
        GEMINI,
        |plan| plan.replace_arguments(EntryId(3), vec![]),
        "entry 3 must not change: it is signed, cited, or no text",
    );
}

#[test]
fn a_string_of_input_becomes_a_list_only_when_it_must() {
    let text = r#"{"input": "n\u00e4", "x": 1.0}"#;
    check(Format::Responses, text, |_| {}, text);
    check(Format::Responses, text, |plan| cleared(plan, 0), r#"{"input": "[cleared]", "x": 1.0}"#);
    check(
        Format::Responses,
        text,
        |plan| plan.insert(MessageId(1), Note::Warning, Words::text("w")),
        r#"{"input": [{"role":"user","content":"n\u00e4"},{"role":"user","content":"<overspill-warning>\nw\n</overspill-warning>"}], "x": 1.0}"#,
    );
}

#[test]
fn responses_reasoning_leaves_with_its_calls() {
    let text = r#"{"input":[{"role":"user","content":"q"},{"type":"reasoning","id":"rs","summary":[]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"o"},{"type":"message","role":"assistant","content":"a"},{"role":"user","content":"r"}]}"#;
    refused(
        Format::Responses,
        text,
        |plan| plan.drop_message(MessageId(1)),
        "turn 0 would lose a part; drop it whole or not at all",
    );
    check(
        Format::Responses,
        text,
        |plan| {
            for message in [1, 2, 3] {
                plan.drop_message(MessageId(message));
            }
        },
        r#"{"input":[{"role":"user","content":"q"},{"type":"message","role":"assistant","content":"a"},{"role":"user","content":"r"}]}"#,
    );
}

#[test]
fn a_return_whose_call_the_provider_keeps_stays() {
    refused(
        Format::Responses,
        r#"{"previous_response_id":"r","input":[{"type":"function_call_output","call_id":"c","output":"o"},{"role":"user","content":"q"}]}"#,
        |plan| plan.drop_entry(EntryId(0)),
        "entry 0 answers a call that the provider keeps, and has to stay",
    );
}

const COMPACTION: &str = r#"{"content": null, "id": "cmp_1", "provider_name": "openai", "provider_details": {"encrypted_content": "x"}, "part_kind": "compaction"},"#;

#[test]
fn pydantic_parts_leave_one_by_one() {
    // Without the compaction, behind which nothing could be reached.
    let text = include_str!("../fixtures/pydantic_ai.json").replace(COMPACTION, "");
    let conversation = parse(Format::PydanticAi, &text);
    let mut plan = Plan::default();
    plan.drop_turn(&conversation.history().turns()[0]);
    // The text before the cache point takes it along.
    plan.drop_entry(EntryId(2));
    plan.insert(MessageId(2), Note::Summary, Words::text("s"));
    let out = applied(&conversation, &plan);
    let wanted = [
        r#""user-prompt"}"#,
        r#"["Look at", {"url": "https://example.org/a.png""#,
        r#"{"parts":[{"content":"<overspill-summary>\ns\n</overspill-summary>","part_kind":"user-prompt"}],"kind":"request"}"#,
        r#"{"parts": [
   {"content": "Be quick.", "part_kind": "user-prompt"},
   {"tools_added": ["x"], "part_kind": "tool-availability-delta"}],"#,
    ];
    for wanted in wanted {
        assert!(out.contains(wanted), "{wanted}\n{out}");
    }
    assert!(!out.contains("Three calls.") && !out.contains("retry-prompt"));
}

#[test]
fn a_prompt_of_which_nothing_is_left_leaves_its_request() {
    check(
        Format::PydanticAi,
        r#"[{"kind":"request","parts":[{"part_kind":"user-prompt","content":["a","b"]},{"part_kind":"user-prompt","content":"c"}]}]"#,
        |plan| {
            plan.drop_entry(EntryId(0));
            plan.drop_entry(EntryId(1));
        },
        r#"[{"kind":"request","parts":[{"part_kind":"user-prompt","content":"c"}]}]"#,
    );
}

#[test]
fn orphans_can_leave() {
    check(
        Format::Anthropic,
        r#"{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"gone","content":"o"},{"type":"text","text":"t"}]}]}"#,
        |plan| plan.drop_entry(EntryId(0)),
        r#"{"messages":[{"role":"user","content":[{"type":"text","text":"t"}]}]}"#,
    );
}

#[test]
fn another_history_is_refused_and_a_longer_one_is_not() {
    let conversation = parse(Format::Chat, CHAT);
    let mut plan = Plan::default();
    cleared(&mut plan, 3);
    let plan = settled(&conversation.history(), &plan).unwrap();
    let other = parse(Format::Chat, &CHAT.replace("\"content\":\"1\"", "\"content\":\"one\""));
    assert_eq!(other.apply(&plan).unwrap_err(), Refusal::OtherHistory { message: MessageId(3) });
    let longer = CHAT.replace(
        "\n]}",
        ",\n {\"role\":\"assistant\",\"content\":\"x\"},{\"role\":\"user\",\"content\":\"y\"}\n]}",
    );
    let fitted = parse(Format::Chat, &longer).apply(&plan).unwrap();
    let wanted = longer.replace("\"content\":\"1\"", "\"content\":\"[cleared]\"");
    assert_eq!(fitted, wanted.as_bytes());
}

/// One result in the place of `RESULT`, as JSON.
const WITH_RESULT: [(Format, &str); 5] = [
    (
        Format::Chat,
        r#"{"messages":[{"role":"user","content":"q"},{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":RESULT}]}"#,
    ),
    (
        Format::Responses,
        r#"{"input":[{"role":"user","content":"q"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":RESULT}]}"#,
    ),
    (
        Format::Anthropic,
        r#"{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":RESULT}]}]}"#,
    ),
    (
        Format::Gemini,
        r#"{"contents":[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":RESULT}}}]}]}"#,
    ),
    (
        Format::PydanticAi,
        r#"[{"kind":"request","parts":[{"part_kind":"user-prompt","content":"q"}]},{"kind":"response","parts":[{"part_kind":"tool-call","tool_name":"f","args":{},"tool_call_id":"c"}]},{"kind":"request","parts":[{"part_kind":"tool-return","tool_name":"f","tool_call_id":"c","content":RESULT}]}]"#,
    ),
];

/// Clears the result, and gives what is said in its place and what is stored under the handles
/// named there: the text, then, where that is not all of it, the JSON.
fn cleared_result(format: Format, result: &str) -> (String, Vec<String>) {
    let (_, request) = WITH_RESULT.into_iter().find(|(found, _)| *found == format).unwrap();
    let request = request.replace("RESULT", result);
    let conversation = parse(format, &request);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let mut plan = Plan::default();
    plan.replace_text(EntryId(2), Words::marker(Below::Bare));
    let plan = settled_in(&store, &conversation.history(), &plan).unwrap();
    let smaller = String::from_utf8(conversation.apply(&plan).unwrap().into()).unwrap();
    let said = parse(format, &smaller).history().entries()[2].text.clone().into_owned();
    assert_eq!(parse(format, &smaller).history().faults(), []);
    let first = Marker::handles(&said).next();
    let whole = said.split_once("as JSON: ").map(|(_, handle)| {
        let handle = handle.strip_suffix(')').unwrap();
        handle.parse().unwrap()
    });
    let handles = first.into_iter().chain(whole);
    (said, handles.map(|handle| payload(&store, &handle)).collect())
}

#[test]
fn what_left_with_a_results_text_is_named_and_can_be_read() {
    // Gemini's holds its files beside the text, where none can take their place.
    for (format, result) in [
        (
            Format::Chat,
            r#"[{"type":"text","text":"seen"},{"type":"image_url","image_url":{"url":"https://example.org/a.png"}}]"#,
        ),
        (
            Format::Responses,
            r#"[{"type":"input_text","text":"seen"},{"type":"input_file","file_id":"file_1"}]"#,
        ),
        (
            Format::Anthropic,
            r#"[{"type":"text","text":"seen"},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"d"}}]"#,
        ),
        (Format::PydanticAi, r#"["seen",{"kind":"image-url","url":"https://example.org/a.png"}]"#),
    ] {
        let (said, stored) = cleared_result(format, result);
        let [text, whole] = &stored[..] else { panic!("{format}: {said}") };
        assert_eq!(text, "seen", "{format}");
        assert!(whole.contains(result), "{format}: {whole}");
    }
    // Where the text is all there is, one handle names it.
    for (format, _) in WITH_RESULT {
        let (said, stored) = cleared_result(format, r#""caf\u00e9 \ud83e\udd80\n""#);
        assert_eq!(stored, ["caf\u{e9} \u{1f980}\n"], "{format}: {said}");
        assert!(said.ends_with(']'), "{said}");
    }
}

#[test]
fn half_a_surrogate_pair_is_stored_as_it_was() {
    for (format, _) in WITH_RESULT {
        for half in [r"\ud83e", r"\udd80", r"\udd80\ud83e", r"\uD83E\n"] {
            let result = format!("\"cut {half} here\"");
            let (said, stored) = cleared_result(format, &result);
            let [text, whole] = &stored[..] else { panic!("{format}: {said}") };
            assert!(text.starts_with("cut \u{fffd}"), "{format}: {text}");
            assert!(whole.contains(&result), "{format}: {whole}");
        }
    }
}
