use std::collections::HashMap;
use std::sync::Arc;

use futures_lite::future::block_on;
use overspill::Store;
use overspill::entry::{EntryId, Kind, MessageId, Note};
use overspill::history::{Field, History, Plan, Ports, Words, settle};
use overspill::marker::{Below, ReadVia};
use overspill_store::MemoryStore;
use proptest::prelude::*;
use rig_core::message::{
    AssistantContent, AssistantMessage, CallId, Citation, Message, Origin, Reasoning, StopReason,
    Text, ToolCall, ToolFunction, ToolName, ToolResultContent, UserContent,
};
use serde_json::json;

use super::Messages;
use crate::spelled::Spelled;

fn messages(list: impl IntoIterator<Item = Message>) -> Messages {
    Messages::new(list.into_iter().map(|it| Arc::new(Spelled::new(it).unwrap())).collect())
}

fn view(messages: &Messages) -> History<'_> {
    messages.history(&HashMap::new())
}

/// One step of an agent.
#[derive(Debug, Clone)]
struct Step {
    asks: Option<Vec<UserContent>>,
    says: Vec<AssistantContent>,
    /// Arguments, and what came of them.
    calls: Vec<(i64, Vec<ToolResultContent>, bool)>,
    /// What the user says beside the results.
    adds: Option<String>,
}

fn user_part() -> impl Strategy<Value = UserContent> {
    prop_oneof![
        3 => "\\PC{1,9}".prop_map(UserContent::text),
        1 => Just(UserContent::image_base64("AAAA", None, None)),
        1 => Just(UserContent::image_raw(vec![1, 2, 255], None, None)),
        1 => Just(UserContent::audio_base64("AAAA", None)),
        1 => "\\PC{1,9}".prop_map(|text| UserContent::document_text(text, None)),
    ]
}

fn model_part() -> impl Strategy<Value = AssistantContent> {
    prop_oneof![
        3 => "\\PC{1,9}".prop_map(AssistantContent::text),
        1 => "\\PC{1,9}".prop_map(|text| AssistantContent::text(text).with_native(json!({"id": "msg", "n": 1.0}))),
        1 => "\\PC{1,9}".prop_map(|text| AssistantContent::Text(
            Text::new(text).with_citations(Vec::<Citation>::new())
        )),
        1 => "\\PC{1,9}".prop_map(|text| AssistantContent::Reasoning(Reasoning::new(text))
            .with_native(json!({"type": "thinking", "signature": "c2ln"}))),
        1 => Just(AssistantContent::image_base64("AAAA", None, None)),
    ]
}

fn result_part() -> impl Strategy<Value = ToolResultContent> {
    prop_oneof![
        3 => "\\PC{0,9}".prop_map(ToolResultContent::text),
        1 => any::<i32>().prop_map(|n| ToolResultContent::json(json!({"z": n, "a": 1.0}))),
        1 => Just(ToolResultContent::image_base64("AAAA", None, None)),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let call = (any::<i64>(), proptest::collection::vec(result_part(), 1..3), any::<bool>());
    let step = (
        proptest::option::of(proptest::collection::vec(user_part(), 1..3)),
        proptest::collection::vec(model_part(), 1..3),
        proptest::collection::vec(call, 0..3),
        proptest::option::of("\\PC{1,9}"),
    );
    let step = step.prop_map(|(asks, says, calls, adds)| Step { asks, says, calls, adds });
    proptest::collection::vec(step, 1..6)
}

/// The conversation; every message in it is another one.
fn conversation(steps: &[Step]) -> Vec<Message> {
    let mut list = vec![Message::system("Be brief."), Message::user("Begin.")];
    for (at, step) in steps.iter().enumerate() {
        let asks = step.asks.clone().unwrap_or_default();
        let is_answered = matches!(list.last(), Some(Message::Assistant(_)));
        if !asks.is_empty() || is_answered {
            let mut content = asks;
            content.push(UserContent::text(format!("question {at}")));
            list.push(Message::User { content });
        }
        let mut content = step.says.clone();
        content.push(AssistantContent::text(format!("answer {at}")));
        let tool = ToolName::new("look").unwrap();
        let calls: Vec<ToolCall> = step
            .calls
            .iter()
            .enumerate()
            .map(|(n, (argument, ..))| {
                let function = ToolFunction::new(tool.clone(), json!({ "x": argument }));
                // Some providers give a call no id, and rig makes one.
                let id = if n == 1 { String::new() } else { format!("call_{at}_{n}") };
                ToolCall::new(CallId::from_wire(id), function)
            })
            .collect();
        content.extend(calls.iter().cloned().map(AssistantContent::ToolCall));
        let origin = Origin::new("chat", "openai", "m");
        let turn = AssistantMessage::new(content).with_origin(origin);
        list.push(Message::Assistant(turn.with_stop(StopReason::ToolUse)));
        let mut results: Vec<UserContent> = calls
            .iter()
            .zip(&step.calls)
            .map(|(call, (_, content, failed))| {
                let result = if *failed {
                    call.error_result(content.clone())
                } else {
                    call.result(content.clone())
                };
                UserContent::ToolResult(result)
            })
            .collect();
        if !results.is_empty() {
            results.extend(step.adds.clone().map(UserContent::text));
            list.push(Message::User { content: results });
        }
    }
    // A request asks for something.
    if matches!(list.last(), Some(Message::Assistant(_))) {
        list.push(Message::user("End."));
    }
    list
}

/// What to do, chosen by a number that is taken modulo what there is.
#[derive(Debug, Clone)]
enum Pick {
    Turn(usize),
    Message(usize),
    Entry(usize),
    Text(usize),
    Arguments(usize),
    Note(usize),
}

fn picks() -> impl Strategy<Value = Vec<Pick>> {
    let at = || 0..64_usize;
    let pick = prop_oneof![
        3 => at().prop_map(Pick::Turn),
        1 => at().prop_map(Pick::Message),
        1 => at().prop_map(Pick::Entry),
        3 => at().prop_map(Pick::Text),
        2 => at().prop_map(Pick::Arguments),
        2 => at().prop_map(Pick::Note),
    ];
    proptest::collection::vec(pick, 1..6)
}

/// Adds the edits one by one, as far as the history takes them.
fn plan(history: &History<'_>, picks: &[Pick]) -> Plan {
    let mut plan = Plan::default();
    let (entries, messages) = (history.entries().len(), history.messages().len());
    for pick in picks {
        let mut more = plan.clone();
        match *pick {
            Pick::Turn(n) => more.drop_turn(&history.turns()[n % history.turns().len()]),
            Pick::Message(n) => more.drop_message(MessageId(n % messages)),
            Pick::Entry(n) => more.drop_entry(EntryId(n % entries)),
            Pick::Text(n) => more.replace_text(EntryId(n % entries), Words::text("[new]")),
            Pick::Arguments(n) => more.replace_arguments(
                EntryId(n % entries),
                vec![("k".into(), Field::Words(Words::marker(Below::Nothing)))],
            ),
            Pick::Note(n) => {
                let words = Words::text("left: ").then(Words::marker(Below::Nothing));
                more.insert(MessageId(n % (messages + 1)), Note::Receipt, words);
            }
        }
        if history.check(&more).is_ok() {
            plan = more;
        }
    }
    plan
}

proptest! {
    #[test]
    fn what_no_edit_touches_is_the_value_that_came(steps in steps(), picks in picks()) {
        let list = conversation(&steps);
        let before = messages(list.clone());
        let history = view(&before);
        prop_assert_eq!(history.faults(), vec![]);
        let plan = plan(&history, &picks);
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let (run, via) = ("run".into(), ReadVia::Tool("read_tool_result".into()));
        let settled = block_on(settle(&history, &plan, &Ports::new(&run, &store, &via))).unwrap();

        let after = before.apply(&settled).unwrap();
        let named: Vec<usize> = settled.names().iter().map(|(message, _)| message.0).collect();
        let mut left = after.iter();
        for (at, message) in before.list.iter().enumerate() {
            if !named.contains(&at) {
                prop_assert!(left.any(|it| Arc::ptr_eq(it, message)), "message {at}");
            }
        }
        let after = Messages::new(after);
        prop_assert_eq!(view(&after).faults(), vec![]);
        // The same plan gives the same bytes, also on a longer history.
        let longer = list.into_iter().chain([Message::user("more")]);
        let longer = messages(longer).apply(&settled).unwrap();
        for (it, again) in after.list.iter().zip(&longer) {
            prop_assert_eq!(it.digest(), again.digest());
        }
    }

    #[test]
    fn the_view_shows_every_part_and_its_bytes_are_the_message(steps in steps()) {
        let list = conversation(&steps);
        let spelled = messages(list.clone());
        let history = view(&spelled);
        for (message, shown) in list.iter().zip(history.messages()) {
            let parts = match message {
                Message::System { .. } => 1,
                Message::User { content } => content.len(),
                Message::Assistant(turn) => turn.content.len(),
            };
            prop_assert_eq!(shown.entries.len(), parts);
            // What is stored of a message that leaves is all of it.
            let read: Message = serde_json::from_str(shown.raw).unwrap();
            prop_assert_eq!(&read, message);
        }
        let calls = history.entries().iter().filter(|entry| entry.is_call()).count();
        prop_assert_eq!(calls, steps.iter().map(|step| step.calls.len()).sum::<usize>());
        prop_assert_eq!(history.orphans().count(), 0);
    }
}

#[test]
fn what_is_signed_is_not_edited() {
    let call = |native| {
        AssistantContent::tool_call("call_1", ToolName::new("look").unwrap(), json!({}))
            .with_native(native)
    };
    let list = [Message::Assistant(AssistantMessage::new(vec![
        AssistantContent::Reasoning(Reasoning::new("hm")).with_native(json!({"signature": "c2ln"})),
        call(json!({"functionCall": {"name": "look"}, "thoughtSignature": "c2ln"})),
        call(json!({"id": "call_1", "type": "function"})),
        AssistantContent::text("so").with_native(json!({"id": "msg_1"})),
    ]))];
    let spelled = messages(list);
    let history = view(&spelled);
    let editable: Vec<bool> = history.entries().iter().map(|it| it.is_editable()).collect();
    assert_eq!(editable, [false, false, true, true]);
}

#[test]
fn an_edited_part_lets_its_providers_item_go() {
    let call =
        AssistantContent::tool_call("call_1", ToolName::new("look").unwrap(), json!({"x": 1}))
            .with_native(json!({"id": "call_1", "arguments": "{\"x\":1}"}));
    let result = UserContent::tool_result(
        CallId::from_wire("call_1"),
        ToolName::new("look").unwrap(),
        vec![ToolResultContent::text("much"), ToolResultContent::image_base64("AAAA", None, None)],
    );
    let list = [
        Message::user("Go."),
        Message::Assistant(AssistantMessage::new(vec![call])),
        Message::User { content: vec![result] },
    ];
    let before = messages(list);
    let history = view(&before);
    let mut plan = Plan::default();
    plan.replace_arguments(EntryId(1), vec![("x".into(), Field::Json("2".into()))]);
    plan.replace_text(EntryId(2), Words::text("little"));
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (run, via) = ("run".into(), ReadVia::Tool("read_tool_result".into()));
    let settled = block_on(settle(&history, &plan, &Ports::new(&run, &store, &via))).unwrap();
    // The text, the JSON with the picture, and the arguments.
    assert_eq!(settled.receipts().len(), 3);

    let after = before.apply(&settled).unwrap();
    let Message::Assistant(turn) = &after[1].message else { panic!("{:?}", after[1]) };
    let AssistantContent::ToolCall(call) = &turn.content[0] else { panic!("{turn:?}") };
    assert_eq!((call.native.clone(), call.function.arguments_value()), (None, json!({"x": 2})));
    let shown = Messages::new(after);
    let shown = view(&shown);
    assert_eq!(shown.entries()[2].text, "little");
    assert!(matches!(&shown.entries()[2].kind, Kind::Return { images, .. } if images.is_empty()));
}
