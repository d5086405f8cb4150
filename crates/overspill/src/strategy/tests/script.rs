//! Histories in a small language, and pictures of what a strategy makes of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use regex::{Captures, Regex};

use crate::count::Counter;
use crate::entry::{Entry, EntryId, Image, ImageSource, Kind, MessageId, Note, Role};
use crate::history::{Change, History, Plan, Ports, Rules, SettledPlan, settle};
use crate::marker::ReadVia;
use crate::store::Store;
use crate::store::memory::Memory;
use crate::strategy::{Draft, Scene, Strategy, StrategyError};

/// What the limits of a script's strategies are fractions of.
pub(in crate::strategy) const BUDGET: u64 = 10_000;

/// A history that can be taken apart and put together.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::strategy) struct Script {
    pub(in crate::strategy) rules: Rules,
    pub(in crate::strategy) messages: Vec<Said>,
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::strategy) struct Said {
    pub(in crate::strategy) role: Role,
    pub(in crate::strategy) is_pinned: bool,
    pub(in crate::strategy) parts: Vec<Part>,
    raw: String,
}

/// One part of a message.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::strategy) struct Part {
    pub(in crate::strategy) role: Role,
    pub(in crate::strategy) kind: Kind<'static>,
    pub(in crate::strategy) text: String,
    pub(in crate::strategy) is_signed: bool,
    /// Whether its JSON holds more than the text.
    pub(in crate::strategy) holds_more: bool,
}

impl Part {
    pub(in crate::strategy) fn new(role: Role, kind: Kind<'static>, text: &str) -> Self {
        Self { role, kind, text: text.to_owned(), is_signed: false, holds_more: false }
    }

    pub(in crate::strategy) fn call(id: &str, tool: &str, arguments: &str) -> Self {
        let kind = Kind::Call { id: id.to_owned().into(), name: tool.to_owned().into() };
        Self::new(Role::Assistant, kind, arguments)
    }

    pub(in crate::strategy) fn answer(id: &str, text: &str) -> Self {
        let id = id.to_owned().into();
        Self::new(
            Role::Tool,
            Kind::Return { id, name: None, is_error: false, images: vec![] },
            text,
        )
    }

    pub(in crate::strategy) fn note(note: Note, body: &str) -> Self {
        Self::new(Role::User, Kind::Text, &note.wrap(body))
    }

    /// Reads `call ID TOOL ARGUMENTS`, `ret ID TEXT`, `ret+ ID TEXT` (that holds more than its text),
    /// `err ID TEXT`, `think TEXT`, `sign TEXT`,
    /// `sys TEXT`, `image`, `boundary`, `other TEXT`; all else is a text.
    fn read(role: Role, words: &str) -> Self {
        let words = expand(words);
        let (what, rest) = words.split_once(' ').unwrap_or((&words, ""));
        let (id, behind) = rest.split_once(' ').unwrap_or((rest, ""));
        let id = if id == "-" { "" } else { id };
        match what {
            "call" => {
                let (tool, arguments) = behind.split_once(' ').unwrap_or((behind, "{}"));
                Self::call(id, tool, arguments)
            }
            "ret" => Self::answer(id, behind),
            "ret+" => Self { holds_more: true, ..Self::answer(id, behind) },
            "err" => {
                let mut part = Self::answer(id, behind);
                if let Kind::Return { is_error, .. } = &mut part.kind {
                    *is_error = true;
                }
                part
            }
            "think" => Self::new(role, Kind::Thinking, rest),
            "sign" => Self { is_signed: true, ..Self::new(role, Kind::Thinking, rest) },
            "sys" => Self::new(Role::System, Kind::Text, rest),
            "image" => {
                let source = ImageSource::Elsewhere("image.png".into());
                Self::new(role, Kind::Image(Image { source, detail: None }), "")
            }
            "boundary" => Self::new(role, Kind::Boundary, ""),
            "other" => Self::new(role, Kind::Other, rest),
            _ => Self::new(role, Kind::Text, &words),
        }
    }

    fn entry(&self) -> Entry<'_> {
        let mut entry =
            Entry::new(self.role, self.kind.clone(), self.text.as_str().into(), &self.text);
        entry.signature = self.is_signed.then(|| "signature".into());
        entry.holds_more = self.holds_more;
        entry.replaceable = matches!(
            self.kind,
            Kind::Text | Kind::Thinking | Kind::Call { .. } | Kind::Return { .. }
        );
        entry
    }

    fn picture(&self) -> String {
        let text = short(&self.text);
        match &self.kind {
            Kind::Call { name, .. } => format!("call {name} {text}"),
            Kind::Return { is_error: true, .. } => format!("err {text}"),
            Kind::Return { .. } => format!("ret {text}"),
            Kind::Thinking => format!("think {text}"),
            Kind::Text if self.role == Role::System => format!("sys {text}"),
            Kind::Image(_) => "image".into(),
            Kind::Boundary => "boundary".into(),
            Kind::Other => format!("other {text}"),
            _ => text,
        }
    }
}

impl Said {
    pub(in crate::strategy) fn new(role: Role, parts: Vec<Part>) -> Self {
        let raw = format!("{parts:?}");
        Self { role, is_pinned: false, parts, raw }
    }
}

impl Script {
    /// Reads one message from each line: who speaks (`s`, `u`, `a`, `t`; with `!` it is pinned),
    /// and its parts with ` | ` between. `word*90` is 90 characters of that word; `-` is an empty
    /// id.
    pub(in crate::strategy) fn new(lines: &str) -> Self {
        let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
        let messages = lines.map(|line| {
            let (who, parts) = line.split_once(' ').unwrap_or((line, ""));
            let role = match who.trim_end_matches('!') {
                "s" => Role::System,
                "u" => Role::User,
                "a" => Role::Assistant,
                "t" => Role::Tool,
                other => panic!("who is {other:?}?"),
            };
            let parts = parts.split(" | ").filter(|part| !part.is_empty());
            let said = Said::new(role, parts.map(|part| Part::read(role, part)).collect());
            Said { is_pinned: who.ends_with('!'), ..said }
        });
        Self { rules: Rules::default(), messages: messages.collect() }
    }

    pub(in crate::strategy) fn under(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// This history, and more at its end.
    pub(in crate::strategy) fn and(mut self, lines: &str) -> Self {
        self.messages.extend(Self::new(lines).messages);
        self
    }

    pub(in crate::strategy) fn history(&self) -> History<'_> {
        let mut builder = History::builder(self.rules);
        for said in &self.messages {
            builder.message(said.role, &said.raw);
            for part in &said.parts {
                builder.entry(part.entry());
            }
        }
        builder.build()
    }

    pub(in crate::strategy) fn pins(&self) -> Vec<MessageId> {
        let pinned = self.messages.iter().enumerate().filter(|(_, said)| said.is_pinned);
        pinned.map(|(at, _)| MessageId(at)).collect()
    }

    /// What the whole of it weighs.
    pub(in crate::strategy) fn tokens(&self) -> u64 {
        Counter::default().count(&self.history()).tokens()
    }

    /// Runs a strategy, and shows what it leaves to `look`.
    pub(in crate::strategy) fn draft<T>(
        &self,
        strategy: &dyn Strategy,
        look: impl FnOnce(Result<(), StrategyError>, Draft<'_, '_>) -> T,
    ) -> T {
        let history = self.history();
        let counter = Counter::default();
        let count = counter.count(&history);
        let pins = self.pins();
        let mut draft =
            Draft::new(Scene { pins: &pins, ..Scene::new(&history, &count, &counter, BUDGET) });
        let result = futures_lite::future::block_on(strategy.edit(&mut draft));
        look(result, draft)
    }

    pub(in crate::strategy) fn plan(&self, strategy: &dyn Strategy) -> Plan {
        self.draft(strategy, |result, draft| {
            result.unwrap();
            draft.finish()
        })
    }

    pub(in crate::strategy) fn settle(&self, plan: &Plan) -> SettledPlan {
        let store: Arc<dyn Store> = Arc::new(Memory::default());
        let via = ReadVia::Tool("read_tool_result".into());
        let run = "4f2d6f0e-9b0e-4a39-8d4c-1f6f5b6a7c8d".into();
        let ports = Ports::new(&run, &store, &via);
        futures_lite::future::block_on(settle(&self.history(), plan, &ports)).unwrap()
    }

    /// The history that a strategy leaves. Where the format wants responses apart, a note is
    /// joined to what the user says next to it.
    pub(in crate::strategy) fn after(&self, strategy: &dyn Strategy) -> Self {
        self.with(&self.settle(&self.plan(strategy)))
    }

    pub(in crate::strategy) fn with(&self, plan: &SettledPlan) -> Self {
        let history = self.history();
        let mut now = self.messages.clone();
        let mut gone = vec![false; history.entries().len()];
        let mut notes: BTreeMap<usize, Vec<Said>> = BTreeMap::new();
        let place = |entry: EntryId| {
            let message = history.entries()[entry.0].message.0;
            (message, entry.0 - history.messages()[message].entries.start)
        };
        for change in plan.changes() {
            match change {
                Change::DropEntry(entry) => gone[entry.0] = true,
                Change::DropMessage(message) => {
                    gone[history.messages()[message.0].entries.clone()].fill(true);
                    now[message.0].raw.clear();
                }
                Change::Text { entry, text } | Change::Arguments { entry, json: text } => {
                    let (message, part) = place(*entry);
                    now[message].parts[part].text.clone_from(text);
                    now[message].parts[part].holds_more = false;
                }
                Change::Insert { before, text } => {
                    let note = Said::new(Role::User, vec![Part::new(Role::User, Kind::Text, text)]);
                    notes.entry(before.0).or_default().push(note);
                }
            }
        }
        let mut messages: Vec<Said> = Vec::new();
        for (at, said) in now.into_iter().enumerate() {
            let mut before = notes.remove(&at).unwrap_or_default();
            let kept = history.messages()[at].entry_ids().zip(said.parts);
            let mut kept: Vec<Part> =
                kept.filter(|(entry, _)| !gone[entry.0]).map(|(_, part)| part).collect();
            if self.rules.responses_apart && said.role == Role::User && !kept.is_empty() {
                let joined = before.drain(..).flat_map(|note| note.parts);
                kept = joined.chain(kept).collect();
            }
            messages.extend(before);
            // An empty message stays unless it was dropped.
            if !kept.is_empty() || history.messages()[at].entries.is_empty() && !said.raw.is_empty()
            {
                let is_pinned = said.is_pinned;
                messages.push(Said { is_pinned, ..Said::new(said.role, kept) });
            }
        }
        messages.extend(notes.into_values().flatten());
        Self { rules: self.rules, messages }
    }

    /// The history as it is, one line for each message.
    pub(in crate::strategy) fn lines(&self) -> String {
        let lines = self.messages.iter().map(|said| {
            let parts: Vec<String> = said.parts.iter().map(Part::picture).collect();
            format!("{} {}\n", letter(said.role), parts.join(" | "))
        });
        lines.collect()
    }

    /// What a strategy does, one line for each message: kept, `-` dropped, `~` changed, `+` added.
    /// A part that leaves a message that stays is struck out.
    pub(in crate::strategy) fn picture(&self, strategy: &dyn Strategy) -> String {
        let plan = self.plan(strategy);
        let history = self.history();
        history.check(&plan).unwrap();
        let left = history.after(&plan).unwrap();
        let settled = self.settle(&plan);
        let mut texts = BTreeMap::new();
        let mut notes: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for change in settled.changes() {
            match change {
                Change::Text { entry, text } | Change::Arguments { entry, json: text } => {
                    texts.insert(*entry, text);
                }
                Change::Insert { before, text } => notes.entry(before.0).or_default().push(text),
                _ => {}
            }
        }
        let mut out = String::new();
        for at in 0..=self.messages.len() {
            for note in notes.remove(&at).into_iter().flatten() {
                let _ = writeln!(out, "+ u {}", short(note));
            }
            let Some(said) = self.messages.get(at) else { break };
            let mut sign = if left.has_message(MessageId(at)) { ' ' } else { '-' };
            let mut parts = Vec::new();
            for (entry, part) in history.messages()[at].entry_ids().zip(&said.parts) {
                parts.push(match texts.get(&entry) {
                    Some(text) => {
                        sign = '~';
                        Part { text: (*text).clone(), ..part.clone() }.picture()
                    }
                    None if sign != '-' && !left.has_entry(entry) => {
                        sign = '~';
                        format!("({} left)", part.picture())
                    }
                    None => part.picture(),
                });
            }
            let who = letter(said.role);
            let pin = if said.is_pinned { "!" } else { "" };
            let _ = writeln!(out, "{sign} {who}{pin} {}", parts.join(" | "));
        }
        out
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

/// Repeats `word*90` to 90 characters.
fn expand(words: &str) -> String {
    static REPEATED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(\w+)\*(\d+)").unwrap());
    let repeat = |found: &Captures<'_>| {
        let chars: usize = found[2].parse().unwrap();
        format!("{} ", &found[1]).chars().cycle().take(chars).collect::<String>()
    };
    REPEATED.replace_all(words, repeat).into_owned()
}

/// A text of which the markers say only how much is stored, and that is cut where it is long.
fn short(text: &str) -> String {
    static MARKER: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"\[overspill: ([^;\]]+), stored as [^;\]]+; read any part with [^\]]+?\)\. "#)
            .unwrap()
    });
    static BARE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\[overspill: ([^;\]]+), stored as [^;\]]+\]").unwrap());
    let text = &BARE.replace_all(text, "[$1]");
    static LONG: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(\w+ )(\w+ ){8,}\w*").unwrap());
    static NOTE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?s)^<overspill-(\w+)>\n(.*)\n</overspill-\w+>$").unwrap());
    let text = match NOTE.captures(text) {
        Some(note) => format!("<{}> {}", &note[1], MARKER.replace_all(&note[2], "[stored; ")),
        None => MARKER.replace_all(text, "[$1; ").into_owned(),
    };
    let cut = |found: &Captures<'_>| {
        // Prose of ours is shown whole.
        let all = &found[0];
        match all.split(' ').all(|word| found[1].starts_with(word)) {
            true => format!("{}*{}", found[1].trim_end(), all.chars().count()),
            false => all.to_owned(),
        }
    };
    LONG.replace_all(&text, cut).replace('\n', "⏎")
}
