//! What each format's requests look like in the neutral view.

use overspill::entry::{EntryId, Kind};
use overspill::history::TurnId;
use overspill_wire::Format;

use crate::support::{parse, picture};

const FIXTURES: [(Format, &str, &str); 6] = [
    (Format::Chat, "chat", include_str!("../fixtures/chat.json")),
    (Format::Responses, "responses", include_str!("../fixtures/responses.json")),
    (Format::Anthropic, "anthropic", include_str!("../fixtures/anthropic.json")),
    (
        Format::Anthropic,
        "anthropic_compaction",
        include_str!("../fixtures/anthropic_compaction.json"),
    ),
    (Format::Gemini, "gemini", include_str!("../fixtures/gemini.json")),
    (Format::PydanticAi, "pydantic_ai", include_str!("../fixtures/pydantic_ai.json")),
];

fn fixture(name: &str) -> overspill_wire::Conversation {
    let (format, _, text) = FIXTURES.iter().find(|(_, found, _)| *found == name).unwrap();
    parse(*format, text)
}

#[test]
fn every_fixture_as_entries() {
    for (format, name, text) in FIXTURES {
        insta::assert_snapshot!(name, picture(&parse(format, text).history()));
    }
}

#[test]
fn without_edits_the_bytes_are_the_same() {
    for (format, name, text) in FIXTURES {
        let conversation = parse(format, text);
        assert_eq!(conversation.to_bytes(), text.as_bytes(), "{name}");
        let history = conversation.history();
        let nothing = crate::support::settled(&history, &Default::default()).unwrap();
        assert_eq!(conversation.apply(&nothing).unwrap(), text.as_bytes(), "{name}");
    }
}

#[test]
fn formats_are_told_apart() {
    for (format, name, text) in FIXTURES {
        assert_eq!(Format::detect(text.as_bytes()), Some(format), "{name}");
        assert_eq!(format.name().parse(), Ok(format));
    }
    for nothing in ["", "{}", "[]", "[1]", "null", "{\"messages\":", r#"{"prompt":"x"}"#] {
        assert_eq!(Format::detect(nothing.as_bytes()), None, "{nothing}");
    }
}

#[test]
fn a_reused_id_is_the_nearest_calls() {
    let conversation = fixture("chat");
    let history = conversation.history();
    let of_turn = |turn: usize| &history.turns()[turn];
    assert_eq!((of_turn(0).calls.len(), of_turn(0).returns.len()), (3, 3));
    assert_eq!((of_turn(1).calls.len(), of_turn(1).returns.len()), (1, 1));
    let last = of_turn(1).returns[0];
    assert_eq!(history.entry(last).unwrap().text, "reused id");
    assert_eq!(history.call_of(last), Some(of_turn(1).calls[0]));
    assert_eq!(history.tool_of(last), Some("read_file"));
}

#[test]
fn returns_without_ids_follow_names_and_order() {
    let conversation = fixture("gemini");
    let history = conversation.history();
    let turn = &history.turns()[0];
    let pairs: Vec<_> = turn.calls.iter().map(|&call| history.return_of(call)).collect();
    assert_eq!(pairs, turn.returns.iter().copied().map(Some).collect::<Vec<_>>());
}

#[test]
fn a_tool_of_the_provider_that_answers_later_makes_one_turn() {
    let conversation = fixture("anthropic");
    let history = conversation.history();
    let turn = &history.turns()[1];
    assert_eq!(turn.response.iter().map(|m| m.0).collect::<Vec<_>>(), [3, 5]);
    assert_eq!(turn.returns.len(), 2);
}

#[test]
fn reasoning_holds_the_calls_that_came_with_it() {
    let conversation = fixture("responses");
    let history = conversation.history();
    // The second call came from the same response although a return stands between.
    assert_eq!(history.turns()[0].response.len(), 4);
    assert_eq!(history.turns()[0].returns.len(), 2);
}

#[test]
fn nothing_before_a_compaction_can_be_reached() {
    let conversation = fixture("anthropic_compaction");
    let history = conversation.history();
    assert_eq!(history.reach(), EntryId(5));
    assert!(matches!(history.entry(EntryId(4)).unwrap().kind, Kind::Boundary));
    assert_eq!(history.turn_of(EntryId(6)), Some(TurnId(1)));
}

#[test]
fn wrong_shapes_name_the_place() {
    let wrong = |format, text: &str| {
        overspill_wire::Conversation::parse(format, text.to_owned().into()).unwrap_err().to_string()
    };
    let said = [
        wrong(Format::Chat, "{}"),
        wrong(Format::Chat, r#"{"messages":[{"role":"user","content":"a"},{"role":7}]}"#),
        wrong(Format::Chat, r#"{"messages":[{"role":"robot","content":"a"}]}"#),
        wrong(Format::Chat, r#"{"messages":[{"role":"user","content":[{"type":"text"}]}]}"#),
        wrong(Format::Chat, r#"{"messages":{}}"#),
        wrong(
            Format::Chat,
            r#"{"messages":[{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"c","name":"f","input":{}}]}]}"#,
        ),
        wrong(
            Format::Chat,
            r#"{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"c"}]}]}"#,
        ),
        wrong(Format::Responses, r#"{"input":[{"x":1}]}"#),
        wrong(Format::Responses, r#"{"input":7}"#),
        wrong(
            Format::Anthropic,
            r#"{"messages":[{"role":"user","content":[{"type":"tool_use"}]}]}"#,
        ),
        wrong(Format::Anthropic, r#"{"messages":[{"role":"tool","content":"a"}]}"#),
        wrong(Format::Anthropic, r#"{"messages":[{"role":"user","content":null}]}"#),
        wrong(Format::Gemini, r#"{"contents":[{"role":"user","parts":[{"text":1}]}]}"#),
        wrong(Format::PydanticAi, r#"{"messages":[]}"#),
        wrong(Format::PydanticAi, r#"[{"kind":"request","parts":[{"content":"a"}]}]"#),
        wrong(Format::Chat, r#"{"messages":[]"#),
    ];
    let wanted = [
        "$: expected an object with `messages` in OpenAI Chat Completions",
        "$.messages[1].role: expected a string in OpenAI Chat Completions",
        "$.messages[0].role: expected a role in OpenAI Chat Completions",
        "$.messages[0].content[0]: expected an object with `text` in OpenAI Chat Completions",
        "$.messages: expected a list in OpenAI Chat Completions",
        "$.messages[0].content[1].type: expected a part of this format, and no block of Anthropic's in OpenAI Chat Completions",
        "$.messages[0].content[0].type: expected a part of this format, and no block of Anthropic's in OpenAI Chat Completions",
        "$.input[0]: expected an item with a `type` or a `role` in OpenAI Responses",
        "$.input: expected a string or a list of items in OpenAI Responses",
        "$.messages[0].content[0]: expected no `tool_use` outside a response in Anthropic Messages",
        "$.messages[0].role: expected `user`, `assistant` or `system` in Anthropic Messages",
        "$.messages[0]: expected an object with `content` in Anthropic Messages",
        "$.contents[0].parts[0].text: expected a string in Gemini generateContent",
        "$: expected a list in Pydantic AI messages",
        "$[0].parts[0]: expected an object with `part_kind` in Pydantic AI messages",
        "the text is not JSON: the JSON text ends too early (byte 14)",
    ];
    assert_eq!(said, wanted);
}
