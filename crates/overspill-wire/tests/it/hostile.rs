//! Requests that are wrong, huge or meant to hurt: a clear error or the right answer, in time.

use overspill_wire::{Conversation, Format, WireError};

use crate::support::parse;

#[test]
fn deep_nesting_is_read_or_refused() {
    let deep = |n: usize| {
        let arguments = format!("{}{}", "[".repeat(n), "]".repeat(n));
        format!(
            r#"{{"messages":[{{"role":"user","content":"a"}},{{"role":"assistant","content":[{{"type":"tool_use","id":"1","name":"f","input":{arguments}}}]}}]}}"#
        )
    };
    for n in [1_000, 9_000] {
        let text = deep(n);
        let conversation = parse(Format::Anthropic, &text);
        assert_eq!(conversation.history().entries()[1].text.len(), 2 * n);
        assert_eq!(conversation.to_bytes(), text.as_bytes());
    }
    for n in [20_000, 1_000_000] {
        let refused = Conversation::parse(Format::Anthropic, deep(n).into()).unwrap_err();
        assert!(refused.to_string().contains("nested more than 10,000 deep"), "{refused}");
    }
}

#[test]
fn every_prefix_is_refused_and_nothing_panics() {
    let texts = [
        (Format::Chat, include_str!("../fixtures/chat.json")),
        (Format::Responses, include_str!("../fixtures/responses.json")),
        (Format::Anthropic, include_str!("../fixtures/anthropic.json")),
        (Format::Gemini, include_str!("../fixtures/gemini.json")),
        (Format::PydanticAi, include_str!("../fixtures/pydantic_ai.json")),
    ];
    for (format, text) in texts {
        let text = text.trim_end();
        for end in 0..text.len() {
            let prefix = text.as_bytes()[..end].to_vec();
            let error = Conversation::parse(format, prefix.into()).unwrap_err();
            assert!(matches!(error, WireError::NotJson { .. } | WireError::NotUtf8 { .. }));
        }
        for (other, _) in texts.iter().filter(|(other, _)| *other != format) {
            // As another format it is refused with a path, or read without a panic.
            if let Ok(read) = Conversation::parse(*other, text.to_owned().into()) {
                let _ = read.history().faults();
            }
        }
    }
}

#[test]
fn what_is_no_text_or_no_json_says_from_where_on() {
    let said = |bytes: &'static [u8]| {
        Conversation::parse(Format::Chat, bytes.into()).unwrap_err().to_string()
    };
    let said = [
        said(b""),
        said(b"{\"messages\":[\xff]}"),
        said(b"\xef\xbb\xbf{}"),
        said(b"{\"messages\":[]} {}"),
        said(b"{\"messages\":['a']}"),
        said(b"{\"messages\":[\"a\nb\"]}"),
        said(b"{\"messages\":[01]}"),
        said(b"{\"messages\":[1,]}"),
        said(b"{\"messages\":[NaN]}"),
    ];
    let wanted = [
        "the text is not JSON: the JSON text ends too early (byte 0)",
        "the bytes are not UTF-8 from byte 13 on",
        "the text is not JSON: it begins with a byte order mark, which JSON does not have; leave out \
         its first three bytes (EF BB BF) (byte 0)",
        "the text is not JSON: more after the end of the JSON text (byte 16)",
        "the text is not JSON: expected a JSON value (byte 13)",
        "the text is not JSON: a control character in a string (byte 15)",
        "the text is not JSON: expected `,` or `]` (byte 14)",
        "the text is not JSON: expected a JSON value (byte 15)",
        "the text is not JSON: expected a JSON value (byte 13)",
    ];
    assert_eq!(said, wanted);
}

#[test]
fn an_empty_history_is_a_history() {
    for (format, text) in [
        (Format::Chat, r#"{"messages": [ ]}"#),
        (Format::Responses, r#"{"input":[]}"#),
        (Format::Anthropic, r#"{"messages":[]}"#),
        (Format::Gemini, r#"{"contents":[]}"#),
        (Format::PydanticAi, "[]"),
    ] {
        let conversation = parse(format, text);
        let history = conversation.history();
        assert!(history.messages().is_empty() && history.turns().is_empty());
        assert_eq!(history.faults(), [overspill::history::Fault::Empty]);
        let mut plan = overspill::history::Plan::default();
        plan.insert(
            overspill::entry::MessageId(0),
            overspill::entry::Note::Summary,
            overspill::history::Words::text("s"),
        );
        let fitted = crate::support::applied(&conversation, &plan);
        assert_eq!(parse(format, &fitted).history().entries().len(), 1, "{fitted}");
    }
}

#[test]
fn a_hundred_megabytes_of_one_message() {
    let text = "all\\nwork \\\"and\\\" no play ".repeat(100 << 20 >> 5);
    let text = format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}]}}"#);
    let bytes = bytes::Bytes::from(text);
    let conversation = Conversation::parse(Format::Anthropic, bytes.clone()).unwrap();
    assert!(conversation.history().entries()[0].text.len() > 60 << 20);
    assert_eq!(conversation.to_bytes(), bytes);
}

#[test]
fn many_of_everything_is_linear() {
    // Calls of one id, never answered; returns to one call; orphans; repeated keys.
    let calls: Vec<String> = (0..30_000)
        .map(|i| {
            format!(
                r#"{{"tool_name":"t{}","args":{{}},"tool_call_id":"","part_kind":"tool-call"}}"#,
                i % 3
            )
        })
        .collect();
    let returns: Vec<String> = (0..30_000)
        .map(|i| format!(r#"{{"tool_name":"t{}","content":"","tool_call_id":"{}","part_kind":"tool-return"}}"#, i % 4, if i % 2 == 0 { "" } else { "x" }))
        .collect();
    let text = format!(
        r#"[{{"kind":"request","parts":[]}},{{"kind":"response","parts":[{}]}},{{"kind":"request","parts":[{}]}}]"#,
        calls.join(","),
        returns.join(",")
    );
    let conversation = parse(Format::PydanticAi, &text);
    let history = conversation.history();
    assert_eq!(history.turns()[0].calls.len(), 30_000);
    let mut plan = overspill::history::Plan::default();
    history.orphans().for_each(|orphan| plan.drop_entry(orphan));
    assert!(crate::support::applied(&conversation, &plan).len() < text.len());

    let keys = "\"content\":\"a\",".repeat(100_000);
    let text = format!(r#"{{"messages":[{{{keys}"role":"user","content":"last"}}]}}"#);
    assert_eq!(parse(Format::Chat, &text).history().entries()[0].text, "last");
}
