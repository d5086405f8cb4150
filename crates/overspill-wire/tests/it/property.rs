//! Random conversations in every format, and random plans and strategies on them.

use std::sync::Arc;

use overspill::count::Counter;
use overspill::entry::{EntryId, MessageId, Note, Role};
use overspill::history::{Field, History, Plan, SettledPlan, Words};
use overspill::marker::Below;
use overspill_wire::{Conversation, Format};
use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::spelling::oddly;
use crate::support::{Fit, fit, parse, settled, strategies};

/// What happens in a conversation, in no provider's words.
#[derive(Debug, Clone)]
enum Step {
    User(Vec<String>),
    Model { says: Option<String>, thinks: bool, calls: Vec<Call>, adds: Option<String> },
}

#[derive(Debug, Clone)]
struct Call {
    id: String,
    tool: &'static str,
    result: String,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let call = (
        prop_oneof![Just(String::new()), Just("call_0".into()), "[a-c]{1,2}"],
        prop_oneof![Just("read"), Just("bash")],
        "\\PC{0,6}",
    )
        .prop_map(|(id, tool, result)| Call { id, tool, result });
    proptest::collection::vec(call, 0..4)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let user = proptest::collection::vec("\\PC{0,6}", 1..3).prop_map(Step::User);
    let model = (
        proptest::option::of("\\PC{1,6}"),
        any::<bool>(),
        calls(),
        proptest::option::of("[x-z]{1,3}"),
    )
        .prop_map(|(says, thinks, calls, adds)| Step::Model { says, thinks, calls, adds });
    (
        proptest::collection::vec("\\PC{1,6}", 1..2),
        proptest::collection::vec(prop_oneof![user, model], 0..9),
    )
        .prop_map(|(first, rest)| {
            let mut steps = vec![Step::User(first)];
            for step in rest {
                // Two messages of one side in a row are no request every provider takes.
                match (steps.last(), &step) {
                    (Some(Step::User(_)), Step::User(_)) => {}
                    (Some(Step::Model { calls, .. }), Step::Model { .. }) if calls.is_empty() => {}
                    _ => steps.push(step),
                }
            }
            match steps.last() {
                Some(Step::Model { calls, .. }) if calls.is_empty() => {
                    steps.push(Step::User(vec!["end".into()]));
                }
                _ => {}
            }
            number(&mut steps);
            steps
        })
}

/// Makes what the host says differ from all else it says, so that a message is known again.
fn number(steps: &mut [Step]) {
    let texts = steps.iter_mut().flat_map(|step| match step {
        Step::User(texts) => texts.iter_mut().collect::<Vec<_>>(),
        Step::Model { calls, .. } => calls.iter_mut().map(|call| &mut call.result).collect(),
    });
    for (n, text) in texts.enumerate() {
        text.push_str(&n.to_string());
    }
}

/// The conversation as a format spells it. Returns stand in the calls' order reversed where ids
/// are all different.
fn spelled(format: Format, steps: &[Step]) -> String {
    let mut messages: Vec<Value> = Vec::new();
    for step in steps {
        match step {
            Step::User(texts) => messages.push(user(format, texts)),
            Step::Model { says, thinks, calls, adds } => {
                model(format, says.as_deref(), *thinks, calls, adds.as_deref(), &mut messages);
            }
        }
    }
    let request = match format {
        Format::Chat => json!({"messages": messages, "x": 1.0}),
        Format::Anthropic => json!({"max_tokens": 1, "messages": messages}),
        Format::Responses => json!({"input": messages}),
        Format::Gemini => json!({"contents": messages}),
        _ => json!(messages),
    };
    request.to_string()
}

fn user(format: Format, texts: &[String]) -> Value {
    let blocks = |key: &str| -> Value {
        texts.iter().map(|text| json!({"type": key, "text": text})).collect()
    };
    match (format, texts) {
        (Format::Chat | Format::Anthropic | Format::Responses, [only]) => {
            json!({"role": "user", "content": only})
        }
        (Format::Responses, _) => json!({"role": "user", "content": blocks("input_text")}),
        (Format::Chat | Format::Anthropic, _) => json!({"role": "user", "content": blocks("text")}),
        (Format::Gemini, _) => {
            let parts: Value = texts.iter().map(|text| json!({"text": text})).collect();
            json!({"role": "user", "parts": parts})
        }
        _ => json!({"kind": "request", "parts": [{"part_kind": "user-prompt", "content": texts}]}),
    }
}

fn model(
    format: Format,
    says: Option<&str>,
    thinks: bool,
    calls: &[Call],
    adds: Option<&str>,
    out: &mut Vec<Value>,
) {
    let ids: std::collections::HashSet<&str> = calls.iter().map(|call| call.id.as_str()).collect();
    let mut answers: Vec<&Call> = calls.iter().collect();
    if ids.len() == calls.len() {
        answers.reverse();
    }
    let adds = adds.filter(|_| !calls.is_empty());
    match format {
        Format::Chat => {
            let calls: Vec<Value> = calls
                .iter()
                .map(|call| json!({"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": "{\"a\": 1.0}"}}))
                .collect();
            out.push(json!({"role": "assistant", "content": says, "tool_calls": calls}));
            out.extend(answers.iter().map(
                |call| json!({"role": "tool", "tool_call_id": call.id, "content": call.result}),
            ));
        }
        Format::Responses => {
            if thinks {
                out.push(json!({"type": "reasoning", "id": "rs", "summary": []}));
            }
            // A response that holds reasoning holds something else too.
            if says.is_some() || calls.is_empty() {
                out.push(json!({"type": "message", "role": "assistant", "content": says.unwrap_or_default()}));
            }
            out.extend(calls.iter().map(|call| json!({"type": "function_call", "call_id": call.id, "name": call.tool, "arguments": "{}"})));
            out.extend(answers.iter().map(|call| json!({"type": "function_call_output", "call_id": call.id, "output": call.result})));
        }
        Format::Anthropic => {
            let mut blocks: Vec<Value> = Vec::new();
            blocks.extend(
                thinks.then(|| json!({"type": "thinking", "thinking": "t", "signature": "s"})),
            );
            blocks.push(json!({"type": "text", "text": says.unwrap_or("-")}));
            blocks.extend(calls.iter().map(|call| json!({"type": "tool_use", "id": call.id, "name": call.tool, "input": {"a": 1.0}})));
            out.push(json!({"role": "assistant", "content": blocks}));
            let mut blocks: Vec<Value> = answers
                .iter()
                .map(|call| json!({"type": "tool_result", "tool_use_id": call.id, "content": call.result}))
                .collect();
            blocks.extend(adds.map(|text| json!({"type": "text", "text": text})));
            out.extend((!blocks.is_empty()).then(|| json!({"role": "user", "content": blocks})));
        }
        Format::Gemini => {
            let mut parts: Vec<Value> =
                vec![json!({"text": says.unwrap_or("-"), "thought": thinks})];
            parts.extend(calls.iter().map(|call| json!({"functionCall": {"id": call.id, "name": call.tool, "args": {"a": 1.0}}})));
            out.push(json!({"role": "model", "parts": parts}));
            let mut parts: Vec<Value> = answers
                .iter()
                .map(|call| json!({"functionResponse": {"id": call.id, "name": call.tool, "response": {"output": call.result}}}))
                .collect();
            parts.extend(adds.map(|text| json!({"text": text})));
            out.extend((!parts.is_empty()).then(|| json!({"role": "user", "parts": parts})));
        }
        _ => {
            let mut parts: Vec<Value> =
                vec![json!({"part_kind": "text", "content": says.unwrap_or("-")})];
            parts.extend(calls.iter().map(|call| json!({"part_kind": "tool-call", "tool_name": call.tool, "args": {"a": 1.0}, "tool_call_id": call.id})));
            out.push(json!({"kind": "response", "parts": parts}));
            let mut parts: Vec<Value> = answers
                .iter()
                .map(|call| json!({"part_kind": "tool-return", "tool_name": call.tool, "content": call.result, "tool_call_id": call.id}))
                .collect();
            parts.extend(adds.map(|text| json!({"part_kind": "user-prompt", "content": text})));
            out.extend((!parts.is_empty()).then(|| json!({"kind": "request", "parts": parts})));
        }
    }
}

/// What to do, chosen by numbers that are taken modulo what there is.
#[derive(Debug, Clone)]
enum Pick {
    Turn(usize),
    Entry(usize),
    Message(usize),
    Text(usize),
    Arguments(usize),
    Note(usize),
}

fn picks() -> impl Strategy<Value = Vec<Pick>> {
    let at = 0..64_usize;
    let pick = prop_oneof![
        4 => at.clone().prop_map(Pick::Turn),
        2 => at.clone().prop_map(Pick::Text),
        2 => at.clone().prop_map(Pick::Arguments),
        2 => at.clone().prop_map(Pick::Note),
        1 => at.clone().prop_map(Pick::Entry),
        1 => at.prop_map(Pick::Message),
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
            Pick::Turn(n) => match history.turns().get(n % history.turns().len().max(1)) {
                Some(turn) => more.drop_turn(turn),
                None => continue,
            },
            Pick::Entry(n) => more.drop_entry(EntryId(n % entries)),
            Pick::Message(n) => more.drop_message(MessageId(n % messages)),
            Pick::Text(n) => more.replace_text(EntryId(n % entries), Words::text("[\u{e9}]")),
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

fn check_applied(format: Format, text: &str, picks: &[Pick]) -> Result<(), TestCaseError> {
    let conversation = parse(format, text);
    let history = conversation.history();
    prop_assert_eq!(conversation.to_bytes(), text.as_bytes());
    prop_assert_eq!(history.faults(), vec![], "{}", text);
    let plan = plan(&history, picks);
    let settled = settled(&history, &plan).unwrap();
    let after = conversation.apply(&settled).unwrap();
    prop_assert_eq!(&after, &conversation.apply(&settled).unwrap());
    // The history borrows from these very bytes.
    let bytes = conversation.to_bytes();
    let [text, written] = [&bytes, &after].map(|bytes| std::str::from_utf8(bytes).unwrap());
    same_around(&history, text, written, &settled)?;
    let after = Conversation::parse(format, after.clone()).unwrap();
    let left = after.history();
    prop_assert_eq!(left.faults(), vec![], "{}\n{:?}", text, plan);
    untouched(&history, &left, &settled)
}

/// All bytes up to the last message that stands before every change stay, and all bytes behind
/// the messages. Where the user's neighbours become one, a message beside a change changes too.
fn same_around(
    history: &History<'_>,
    before: &str,
    after: &str,
    plan: &SettledPlan,
) -> Result<(), TestCaseError> {
    let messages = history.messages();
    let (Some(start), Some(end)) = (messages.first(), messages.last()) else { return Ok(()) };
    let at = |raw: &str| raw.as_ptr().addr() - before.as_ptr().addr();
    // A note behind all messages names none of them.
    let first = plan.names().first().map_or(messages.len(), |(message, _)| message.0);
    let beside = 1 + usize::from(history.rules().responses_apart);
    let same = first.checked_sub(beside).and_then(|same| messages.get(same));
    let head = same.map_or(at(start.raw), |same| at(same.raw) + same.raw.len());
    prop_assert!(after.starts_with(&before[..head]), "{}\n{}", before, after);
    let tail = at(end.raw) + end.raw.len();
    prop_assert!(after.ends_with(&before[tail..]), "{}\n{}", before, after);
    Ok(())
}

/// Messages no edit names stand in the result as they were and in their order; where two of the
/// user's became one, their entries do.
fn untouched(
    before: &History<'_>,
    after: &History<'_>,
    plan: &SettledPlan,
) -> Result<(), TestCaseError> {
    let named: Vec<MessageId> = plan.names().iter().map(|(message, _)| *message).collect();
    let mut at = 0;
    for (m, message) in before.messages().iter().enumerate() {
        if named.contains(&MessageId(m)) {
            continue;
        }
        let whole = after.messages()[at..].iter().position(|found| found.raw == message.raw);
        if let Some(found) = whole {
            at += found + 1;
        } else {
            prop_assert!(before.rules().responses_apart && message.role == Role::User);
            for entry in &before.entries()[message.entries.clone()] {
                let found = after
                    .entries()
                    .iter()
                    .any(|kept| kept.raw == entry.raw || kept.raw.contains(entry.raw));
                prop_assert!(found, "{}", entry.raw);
            }
        }
    }
    Ok(())
}

/// The same conversation with so much to say that a strategy finds something to do.
fn longer(mut steps: Vec<Step>) -> Vec<Step> {
    let long = |text: &mut String, times: usize| *text = format!("{text} ").repeat(times);
    for step in &mut steps {
        match step {
            Step::User(texts) => texts.iter_mut().for_each(|text| long(text, 40)),
            Step::Model { says, calls, .. } => {
                says.iter_mut().for_each(|text| long(text, 60));
                calls.iter_mut().for_each(|call| long(&mut call.result, 150));
            }
        }
    }
    steps
}

/// A strategy leaves a valid request valid and no bigger, what it does not name as it was, and
/// everything else stored; once more it does nothing.
fn check_fitted(
    format: Format,
    text: &str,
    strategy: &Arc<dyn overspill::strategy::Strategy>,
) -> Result<(), TestCaseError> {
    let conversation = parse(format, text);
    let history = conversation.history();
    let Fit { fitted, bytes, stored } = fit(&conversation, Arc::clone(strategy));
    prop_assert!(fitted.warnings.is_empty(), "{:?}", fitted.warnings);
    prop_assert_eq!(&bytes, &fit(&conversation, Arc::clone(strategy)).bytes);
    let smaller = Conversation::parse(format, bytes.clone()).unwrap();
    let left = smaller.history();
    prop_assert_eq!(left.faults(), vec![], "{:?}: {}", strategy, text);
    let tokens = |history: &History<'_>| Counter::default().count(history).tokens();
    prop_assert!(tokens(&left) <= tokens(&history), "{:?}: {}", strategy, text);
    let Some(plan) = &fitted.plan else { return Ok(()) };
    untouched(&history, &left, plan)?;
    for entry in history.entries() {
        let stays = left.entries().iter().any(|kept| kept.raw.contains(entry.raw));
        let is_stored = || stored.iter().any(|it| it.contains(entry.raw) || **it == entry.text);
        prop_assert!(stays || is_stored(), "{:?} loses {}", strategy, entry.raw);
    }
    prop_assert_eq!(&fit(&smaller, Arc::clone(strategy)).bytes, &bytes, "{:?}", strategy);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn every_strategy_holds_in_every_format(steps in steps()) {
        let steps = longer(steps);
        for format in Format::ALL {
            let text = spelled(format, &steps);
            // One after the other; what they do together is below.
            let alone = strategies(0);
            for strategy in &alone[..alone.len() - 1] {
                check_fitted(format, &text, strategy)?;
            }
        }
    }

    /// A request is over its budget only where nothing more can leave.
    #[test]
    fn the_budget_is_met_where_it_can_be(steps in steps(), budget in 1..1_500_u64) {
        let steps = longer(steps);
        for format in Format::ALL {
            let conversation = parse(format, &spelled(format, &steps));
            let all = |budget| fit(&conversation, strategies(budget).pop().unwrap());
            let (met, least) = (all(budget), all(0));
            prop_assert!(met.fitted.after >= least.fitted.after);
            // Each result is longer than its marker.
            let calls = |step: &Step| matches!(step, Step::Model { calls, .. } if !calls.is_empty());
            prop_assert!(least.fitted.plan.is_some() || !steps.iter().any(calls), "{}", format);
            if met.fitted.after > budget {
                prop_assert_eq!(met.bytes, least.bytes, "{}: {}", format, budget);
            }
        }
    }
}

proptest! {
    #[test]
    fn valid_stays_valid_and_the_rest_stays_as_it_was(steps in steps(), picks in picks()) {
        for format in Format::ALL {
            check_applied(format, &spelled(format, &steps), &picks)?;
        }
    }

    #[test]
    fn the_spelling_of_what_stays_stays(
        steps in steps(),
        picks in picks(),
        choices in proptest::collection::vec(any::<u8>(), 1..64),
    ) {
        for format in Format::ALL {
            let plain = spelled(format, &steps);
            let odd = oddly(&serde_json::from_str(&plain).unwrap(), &choices);
            let (plain, read) = (parse(format, &plain), parse(format, &odd));
            let (plain, read) = (plain.history(), read.history());
            prop_assert_eq!(plain.entries().len(), read.entries().len(), "{}", odd);
            for (entry, wanted) in read.entries().iter().zip(plain.entries()) {
                prop_assert_eq!(&entry.kind, &wanted.kind);
                prop_assert_eq!(&entry.signature, &wanted.signature);
                // Arguments and values are shown as they are spelled, and so is a response with
                // more than one member.
                let is_json = [&wanted.text, &entry.text]
                    .iter()
                    .any(|text| serde_json::from_str::<&RawValue>(text).is_ok());
                prop_assert!(is_json || entry.text == wanted.text, "{}", odd);
            }
            check_applied(format, &odd, &picks)?;
        }
    }

    #[test]
    fn whole_turns_can_always_leave(steps in steps(), which in any::<u16>()) {
        for format in Format::ALL {
            let text = spelled(format, &steps);
            let conversation = parse(format, &text);
            let history = conversation.history();
            let mut plan = Plan::default();
            for (t, turn) in history.turns().iter().enumerate() {
                if which & (1 << (t % 16)) != 0 {
                    plan.drop_turn(turn);
                }
            }
            prop_assert_eq!(history.check(&plan), Ok(()), "{}", text);
        }
    }

    #[test]
    fn the_same_conversation_looks_the_same_in_every_format(steps in steps()) {
        let shape = |format| {
            let text = spelled(format, &steps);
            let conversation = parse(format, &text);
            let history = conversation.history();
            history.turns().iter().map(|turn| (turn.calls.len(), turn.returns.len())).collect::<Vec<_>>()
        };
        let chat = shape(Format::Chat);
        for format in Format::ALL {
            prop_assert_eq!(shape(format), chat.clone(), "{}", format);
        }
    }
}
