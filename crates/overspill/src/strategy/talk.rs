//! Conversations for tests: written in a line a message, and edited the way a format would.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use futures_lite::future::block_on;
use proptest::prelude::*;

use super::{Draft, Scene, StrategyError};
use crate::BoxFuture;
use crate::count::Counter;
use crate::entry::{Entry, EntryId, Kind, MessageId, Note, Role};
use crate::history::{
    Change, History, Plan, Ports, ReturnPlace, Rules, SettleError, SettledPlan, settle,
};
use crate::item::RunId;
use crate::marker::ReadVia;
use crate::store::Store;
use crate::store::memory::Memory;
use crate::summary::{Summary, SummaryError, TextModel, Usage};

/// A conversation that owns its text.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Talk {
    pub(super) messages: Vec<Said>,
    pub(super) rules: Rules,
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Said {
    pub(super) role: Role,
    pub(super) bits: Vec<Bit>,
    raw: String,
}

/// One part of a message.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bit {
    pub(super) role: Role,
    pub(super) kind: Kind<'static>,
    pub(super) text: String,
}

impl Talk {
    /// Reads a line a message: `s`, `u`, `a` or `t` for who sends it, then its parts with ` | `
    /// between: `@ID:TOOL ARGUMENTS` calls, `=ID TEXT` returns, `~TEXT` thinks, `!TEXT` instructs,
    /// anything else is said. `{500}` in a text is a filler of so many characters.
    pub(super) fn of(lines: &str) -> Self {
        let messages = lines.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| {
            let (who, rest) = line.split_once(' ').unwrap_or((line, ""));
            let role = match who {
                "s" => Role::System,
                "u" => Role::User,
                "a" => Role::Assistant,
                _ => Role::Tool,
            };
            let bits = rest.split(" | ").filter(|bit| !bit.is_empty());
            Said::new(role, bits.map(|bit| Bit::of(role, bit)).collect())
        });
        Self { messages: messages.collect(), rules: Rules::default() }
    }

    pub(super) fn history(&self) -> History<'_> {
        let mut builder = History::builder(self.rules);
        for message in &self.messages {
            builder.message(message.role, &message.raw);
            for bit in &message.bits {
                let text = bit.text.as_str().into();
                let mut entry = Entry::new(bit.role, bit.kind.clone(), text, &bit.text);
                entry.replaceable = !matches!(bit.kind, Kind::Thinking);
                entry.signature = matches!(bit.kind, Kind::Thinking).then_some("signed".into());
                builder.entry(entry);
            }
        }
        builder.build()
    }

    /// What a settled plan makes of it.
    pub(super) fn apply(&self, plan: &SettledPlan) -> Self {
        let history = self.history();
        history.check_settled(plan).unwrap();
        let mut bits: Vec<Vec<Option<Bit>>> = self
            .messages
            .iter()
            .map(|message| message.bits.iter().cloned().map(Some).collect())
            .collect();
        let mut gone = vec![false; self.messages.len()];
        let mut notes = vec![Vec::new(); self.messages.len() + 1];
        let place = |entry: &EntryId| {
            let message = history.entries()[entry.0].message;
            (message.0, entry.0 - history.messages()[message.0].entries.start)
        };
        for change in plan.changes() {
            match change {
                Change::DropMessage(message) => gone[message.0] = true,
                Change::DropEntry(entry) => {
                    let (message, at) = place(entry);
                    bits[message][at] = None;
                    gone[message] |= bits[message].iter().all(Option::is_none);
                }
                Change::Text { entry, text } | Change::Arguments { entry, json: text } => {
                    let (message, at) = place(entry);
                    bits[message][at].as_mut().unwrap().text.clone_from(text);
                }
                Change::Insert { before, text } => notes[before.0].push(text.clone()),
            }
        }
        let mut messages = Vec::new();
        for (at, notes) in notes.into_iter().enumerate() {
            messages.extend(notes.into_iter().map(|text| Said::note(&text)));
            if let Some(message) = self.messages.get(at).filter(|_| !gone[at]) {
                let bits = bits[at].iter().flatten().cloned().collect();
                messages.push(Said::new(message.role, bits));
            }
        }
        Self { messages, rules: self.rules }
    }

    pub(super) fn and(mut self, more: &str) -> Self {
        self.messages.extend(Self::of(more).messages);
        self
    }

    /// A line a message, long texts cut.
    pub(super) fn show(&self) -> String {
        let lines = self.messages.iter().map(|message| {
            let bits: Vec<String> = message.bits.iter().map(Bit::show).collect();
            format!("{} {}\n", letter(message.role), bits.join(" | "))
        });
        lines.collect()
    }

    pub(super) fn tokens(&self) -> u64 {
        Counter::default().count(&self.history()).tokens()
    }

    /// The text of each note of a kind.
    pub(super) fn notes(&self, note: Note) -> Vec<&str> {
        let bits = self.messages.iter().flat_map(|message| &message.bits);
        bits.filter_map(|bit| note.body(&bit.text)).collect()
    }
}

impl Said {
    pub(super) fn new(role: Role, bits: Vec<Bit>) -> Self {
        let raw = format!("{role:?}{bits:?}");
        Self { role, bits, raw }
    }

    fn note(text: &str) -> Self {
        let bit = Bit { role: Role::User, kind: Kind::Text, text: text.to_owned() };
        Self::new(Role::User, vec![bit])
    }
}

impl Bit {
    fn of(role: Role, bit: &str) -> Self {
        let (mark, rest) = bit.split_at(bit.chars().next().map_or(0, char::len_utf8));
        let (head, text) = rest.split_once(' ').unwrap_or((rest, ""));
        let (role, kind, text) = match mark {
            "@" => {
                let (id, name) = head.split_once(':').unwrap();
                let (id, name) = (id.to_owned().into(), name.to_owned().into());
                (role, Kind::Call { id, name }, text)
            }
            "=" => {
                let id = head.to_owned().into();
                (Role::Tool, Kind::Return { id, name: None, is_error: false, images: vec![] }, text)
            }
            "~" => (role, Kind::Thinking, rest),
            "!" => (Role::System, Kind::Text, rest),
            _ => (role, Kind::Text, bit),
        };
        Self { role, kind, text: fill(text) }
    }

    fn show(&self) -> String {
        let mut text: String = self.text.chars().take(60).collect();
        if text.len() < self.text.len() {
            text.push('…');
        }
        let text = text.replace('\n', "⏎");
        match &self.kind {
            Kind::Call { id, name } => format!("@{id}:{name} {text}"),
            Kind::Return { id, .. } => format!("={id} {text}"),
            Kind::Thinking => format!("~{text}"),
            _ if self.role == Role::System => format!("!{text}"),
            _ => text,
        }
    }
}

fn letter(role: Role) -> char {
    match role {
        Role::System => 's',
        Role::User => 'u',
        Role::Assistant => 'a',
        Role::Tool => 't',
    }
}

fn fill(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('{') {
        out.push_str(before);
        let filler = behind.split_once('}').and_then(|(n, after)| Some((n.parse().ok()?, after)));
        if let Some((n, after)) = filler {
            out.extend("lorem ipsum ".chars().cycle().take(n));
            rest = after;
        } else {
            out.push('{');
            rest = behind;
        }
    }
    out + rest
}

/// A model that answers what it is told, in order, and remembers what it was asked.
#[derive(Default)]
pub(super) struct Scripted {
    answers: Mutex<VecDeque<Result<String, String>>>,
    prompts: Mutex<Vec<String>>,
}

/// What each answer of it takes.
pub(super) const PRICE: Usage = Usage { requests: 1, input_tokens: 100, output_tokens: 10 };

impl Scripted {
    pub(super) fn new<const N: usize>(answers: [Result<&str, &str>; N]) -> Self {
        let answers = answers.map(|a| a.map(str::to_owned).map_err(str::to_owned));
        Self { answers: Mutex::new(answers.into()), ..Self::default() }
    }

    pub(super) fn prompts(&self) -> Vec<String> {
        self.prompts.lock().unwrap().clone()
    }
}

impl TextModel for Scripted {
    fn complete<'a>(&'a self, prompt: &'a str) -> BoxFuture<'a, Result<Summary, SummaryError>> {
        self.prompts.lock().unwrap().push(prompt.to_owned());
        let answer = self.answers.lock().unwrap().pop_front().expect("an answer for each prompt");
        Box::pin(std::future::ready(match answer {
            Ok(text) => Ok(Summary { text, usage: PRICE }),
            Err(message) => Err(SummaryError::new(message).with_usage(PRICE)),
        }))
    }
}

/// Runs strategies on conversations, with one store.
pub(super) struct Bench<'b> {
    pub(super) model: Option<&'b dyn TextModel>,
    pub(super) counter: Counter,
    pub(super) budget: u64,
    pub(super) pins: Vec<MessageId>,
    pub(super) focus: Option<&'b str>,
    pub(super) store: Arc<Memory>,
}

impl<'b> Bench<'b> {
    pub(super) fn new(model: &'b dyn TextModel) -> Self {
        Self {
            model: Some(model),
            counter: Counter::default(),
            budget: 100_000,
            pins: Vec::new(),
            focus: None,
            store: Arc::default(),
        }
    }

    /// The plan, checked, and what judging took.
    pub(super) fn plan(
        &self,
        talk: &Talk,
        strategy: &dyn super::Strategy,
    ) -> Result<(Plan, Usage), (StrategyError, Usage)> {
        let history = talk.history();
        let count = self.counter.count(&history);
        let scene = Scene {
            pins: &self.pins,
            model: self.model,
            focus: self.focus,
            ..Scene::new(&history, &count, &self.counter, self.budget)
        };
        let mut draft = Draft::new(scene);
        if let Err(error) = block_on(strategy.edit(&mut draft)) {
            return Err((error, draft.usage));
        }
        let usage = draft.usage;
        let plan = draft.finish();
        assert_eq!(history.check(&plan), Ok(()), "{}", talk.show());
        Ok((plan, usage))
    }

    pub(super) fn settle(&self, talk: &Talk, plan: &Plan) -> Result<SettledPlan, SettleError> {
        let (run, via) = (RunId::new("run"), ReadVia::Command);
        let store: Arc<dyn Store> = self.store.clone();
        let ports = Ports::new(&run, &store, &via);
        let ports = self.model.map_or(ports, |model| ports.with_model(model));
        block_on(settle(&talk.history(), plan, &ports))
    }

    /// The conversation after the strategy, whatever that takes.
    pub(super) fn fit(&self, talk: &Talk, strategy: &dyn super::Strategy) -> Talk {
        let (plan, _) = self.plan(talk, strategy).unwrap();
        talk.apply(&self.settle(talk, &plan).unwrap())
    }
}

/// Conversations without any order, under any rules: calls and returns with ids that repeat or are
/// empty, wherever they come, notes of ours, and parts that nobody knows.
pub(super) fn talks() -> impl Strategy<Value = Talk> {
    let rules = (any::<bool>(), any::<bool>(), 0..3_u8, any::<bool>()).prop_map(
        |(user_first, responses_apart, returns, continues)| Rules {
            user_first,
            responses_apart,
            returns: match returns {
                0 => ReturnPlace::Anywhere,
                1 => ReturnPlace::Next,
                _ => ReturnPlace::NextAndFirst,
            },
            continues,
        },
    );
    let messages = proptest::collection::vec(prop_oneof![3 => turn(), 1 => said()], 0..12);
    (messages, rules).prop_map(|(messages, rules)| Talk { messages: messages.concat(), rules })
}

/// A response with calls, and a message that answers them and may say more.
fn turn() -> impl Strategy<Value = Vec<Said>> {
    let call = (id(), "[fg]", text());
    let calls = proptest::collection::vec(call, 0..3);
    (calls, proptest::option::of(text()), any::<bool>(), text()).prop_map(
        |(calls, thought, speaks_too, answer)| {
            let mut response: Vec<Bit> = thought
                .map(|text| Bit { role: Role::Assistant, kind: Kind::Thinking, text })
                .into_iter()
                .collect();
            let mut answers = Vec::new();
            for (id, name, text) in calls {
                let name = name.into();
                let kind = Kind::Call { id: id.clone().into(), name };
                response.push(Bit { role: Role::Assistant, kind, text: "{}".into() });
                answers.push(Bit { role: Role::Tool, kind: returned(id), text });
            }
            if speaks_too || answers.is_empty() {
                let text = answer.clone();
                response.push(Bit { role: Role::Assistant, kind: Kind::Text, text });
                answers.push(Bit { role: Role::User, kind: Kind::Text, text: answer });
            }
            vec![Said::new(Role::Assistant, response), Said::new(Role::User, answers)]
        },
    )
}

/// Any message.
fn said() -> impl Strategy<Value = Vec<Said>> {
    let bit = prop_oneof![
        4 => Just(Kind::Text),
        1 => id().prop_map(returned),
        1 => id().prop_map(|id| Kind::Call { id: id.into(), name: "f".into() }),
        1 => Just(Kind::Other),
        1 => Just(Kind::Boundary),
    ];
    let words = prop_oneof![
        4 => text(),
        1 => text().prop_map(|text| Note::Summary.wrap(&text)),
        1 => text().prop_map(|text| Note::Receipt.wrap(&text)),
        1 => text().prop_map(|text| Note::Warning.wrap(&text)),
    ];
    let roles = [Role::System, Role::User, Role::Assistant, Role::Tool];
    let bits = proptest::collection::vec((bit, words, any::<bool>()), 0..4);
    (proptest::sample::select(roles.to_vec()), bits).prop_map(|(role, bits)| {
        let bits = bits.into_iter().map(|(kind, text, instructs)| {
            let role = match (&kind, role) {
                (Kind::Return { .. }, _) => Role::Tool,
                (Kind::Text, Role::User) if instructs => Role::System,
                _ => role,
            };
            // Only a response calls, and only others return.
            let kind = match kind {
                Kind::Call { .. } if role != Role::Assistant => Kind::Text,
                kind => kind,
            };
            Bit { role, kind, text }
        });
        let bits: Vec<Bit> = bits.collect();
        let answers = |bit: &Bit| matches!(bit.kind, Kind::Return { .. });
        let role = if bits.iter().any(answers) { Role::User } else { role };
        let calls = |bit: &&Bit| role == Role::Assistant || !matches!(bit.kind, Kind::Call { .. });
        vec![Said::new(role, bits.iter().filter(calls).cloned().collect())]
    })
}

fn returned(id: String) -> Kind<'static> {
    Kind::Return { id: id.into(), name: None, is_error: false, images: vec![] }
}

fn id() -> impl Strategy<Value = String> {
    proptest::sample::select(vec!["call_0", "", "x"]).prop_map(str::to_owned)
}

fn text() -> impl Strategy<Value = String> {
    (0..600_usize).prop_map(|n| fill(&format!("{{{n}}}")))
}
