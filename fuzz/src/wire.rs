//! Requests of every format, given anything, and edited.

use std::sync::Arc;

use futures_lite::future::block_on;
use overspill::Store;
use overspill::entry::{EntryId, MessageId, Note};
use overspill::history::{Field, History, Plan, Ports, SettledPlan, Words, settle};
use overspill::marker::{Below, ReadVia};
use overspill_store::MemoryStore;
use overspill_wire::{Conversation, Format, WireError};
use serde_json::value::RawValue;

use crate::input::Choices;

/// Messages of every kind there is, to be put into any order.
const FIXTURES: [(Format, &str); 6] = [
    (Format::Chat, include_str!("../../crates/overspill-wire/tests/fixtures/chat.json")),
    (Format::Responses, include_str!("../../crates/overspill-wire/tests/fixtures/responses.json")),
    (Format::Anthropic, include_str!("../../crates/overspill-wire/tests/fixtures/anthropic.json")),
    (
        Format::Anthropic,
        include_str!("../../crates/overspill-wire/tests/fixtures/anthropic_compaction.json"),
    ),
    (Format::Gemini, include_str!("../../crates/overspill-wire/tests/fixtures/gemini.json")),
    (
        Format::PydanticAi,
        include_str!("../../crates/overspill-wire/tests/fixtures/pydantic_ai.json"),
    ),
];

/// More messages than this say nothing new, and take long.
const MAX_MESSAGES: usize = 64;

/// Anything is a request or is refused; a request comes back byte for byte, and edits leave it
/// readable, as valid as it was, and the same wherever they do not reach.
pub fn check(data: &[u8]) {
    let is_json = serde_json::from_slice::<&RawValue>(data).is_ok();
    for format in Format::ALL {
        match Conversation::parse(format, data.to_vec().into()) {
            Ok(conversation) => {
                assert!(is_json);
                assert_eq!(conversation.to_bytes(), data);
                edits(&conversation, &mut Choices::of(data));
            }
            Err(WireError::NotJson { .. } | WireError::NotUtf8 { .. }) => assert!(!is_json),
            Err(error) => assert!(is_json && error.to_string().starts_with('$'), "{error}"),
        }
    }
    if let Some(format) = Format::detect(data) {
        assert!(is_json && Format::ALL.contains(&format));
    }
    if let [which, order @ ..] = data {
        let (format, fixture) = FIXTURES[usize::from(*which) % FIXTURES.len()];
        let request = in_order(format, fixture, order);
        let conversation = Conversation::parse(format, request.into()).unwrap();
        edits(&conversation, &mut Choices::of(data));
    }
}

/// The request with its messages in that order, some of them often and some not at all.
fn in_order(format: Format, request: &str, order: &[u8]) -> String {
    let conversation = Conversation::parse(format, request.to_owned().into()).unwrap();
    let bytes = conversation.to_bytes();
    let request = std::str::from_utf8(&bytes).unwrap();
    let history = conversation.history();
    let raw: Vec<&str> = history.messages().iter().map(|message| message.raw).collect();
    let at = |part: &str| part.as_ptr().addr() - request.as_ptr().addr();
    let last = raw[raw.len() - 1];
    let order = order.iter().take(MAX_MESSAGES);
    let chosen: Vec<&str> = order.map(|byte| raw[usize::from(*byte) % raw.len()]).collect();
    format!("{}{}{}", &request[..at(raw[0])], chosen.join(", "), &request[at(last) + last.len()..])
}

fn edits(conversation: &Conversation, choices: &mut Choices) {
    let history = conversation.history();
    is_consistent(&history);
    let plan = plan(&history, choices);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (run, via) = ("run".into(), ReadVia::Command);
    let settled = block_on(settle(&history, &plan, &Ports::new(&run, &store, &via))).unwrap();
    let written = conversation.apply(&settled).unwrap();
    assert_eq!(written, conversation.apply(&settled).unwrap());
    let after = Conversation::parse(conversation.format(), written).unwrap();
    let left = after.history();
    is_consistent(&left);
    if history.faults().is_empty() {
        assert_eq!(left.faults(), [], "a valid history has become invalid");
    }
    untouched(&history, &left, &settled);
}

/// Calls, returns and turns belong together from either side.
fn is_consistent(history: &History<'_>) {
    for (at, entry) in history.entries().iter().enumerate() {
        let id = EntryId(at);
        if let Some(call) = history.call_of(id) {
            assert!(entry.is_return() && call < id && history.entries()[call.0].is_call());
            assert_eq!(history.turn_of(call), history.turn_of(id));
        }
        if let Some(answer) = history.return_of(id) {
            assert!(entry.is_call());
            assert_eq!(history.call_of(answer), Some(id));
        }
        if let Some(turn) = history.turn_of(id) {
            let turn = &history.turns()[turn.0];
            assert!(turn.response.contains(&entry.message) || turn.returns.contains(&id));
        }
    }
}

/// Random edits, as far as the history takes them.
fn plan(history: &History<'_>, choices: &mut Choices) -> Plan {
    let mut plan = Plan::default();
    let (entries, messages) = (history.entries().len(), history.messages().len());
    for _ in 0..choices.below(12) {
        let mut more = plan.clone();
        let entry = EntryId(choices.below(entries + 1));
        let message = MessageId(choices.below(messages + 1));
        let words = Words::text("left: \u{e9}\n").then(Words::marker(Below::Nothing));
        match choices.below(7) {
            0 => more.drop_entry(entry),
            1 => more.drop_message(message),
            2 => more.replace_text(entry, words),
            3 => {
                let members = [
                    ("\"key\"".to_owned(), Field::Json("1.0".into())),
                    ("k".to_owned(), Field::Words(words)),
                ];
                more.replace_arguments(entry, members[choices.below(2)..].to_vec());
            }
            4 => more.insert(message, Note::Receipt, words),
            _ => match history.turns().get(choices.below(history.turns().len())) {
                Some(turn) => more.drop_turn(turn),
                None => continue,
            },
        }
        if history.check(&more).is_ok() {
            plan = more;
        }
    }
    plan
}

/// What no edit names keeps its bytes: as a message, or as the entries of one that was joined.
fn untouched(before: &History<'_>, after: &History<'_>, plan: &SettledPlan) {
    let names: Vec<usize> = plan.names().iter().map(|(message, _)| message.0).collect();
    for (m, message) in before.messages().iter().enumerate() {
        if names.binary_search(&m).is_ok() {
            continue;
        }
        let is_whole = after.messages().iter().any(|kept| kept.raw == message.raw);
        let is_joined = || {
            message.entry_ids().all(|id| {
                let raw = before.entries()[id.0].raw;
                after.entries().iter().any(|kept| kept.raw.contains(raw))
            })
        };
        assert!(is_whole || before.rules().responses_apart && is_joined(), "{}", message.raw);
    }
}
