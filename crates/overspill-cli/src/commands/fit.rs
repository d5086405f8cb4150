//! `overspill fit`: brings a conversation under a budget.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use futures_lite::future::block_on;
use overspill::entry::{EntryId, MessageId, Note};
use overspill::fit::{Fitted, Fitter, Occasion};
use overspill::history::{Change, History, SettledPlan};
use overspill::marker::ReadVia;
use overspill::strategy::{
    ClampOversized, ClearToolResults, DeduplicateFileReads, Fallback, Keep, Limit, Relevance,
    SlidingWindow, StoreArguments, Strategy, Summarize, Tiered,
};
use overspill::summary::{ModelName, Provider};
use overspill::window::{self, ModelWindow, Source, WindowOptions};
use overspill::{RunId, Store};
use overspill_store::MemoryStore;
use overspill_wire::{Conversation, Format};
use serde::Serialize;
use serde_json::{Value, json};

use super::conversation;
use super::inspect::{kind, role};
use crate::cli;
use crate::failure::{Failure, NOT_DONE};
use crate::output::{self, Out, grouped};
use crate::settings::Settings;

/// A strategy by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    StoreArguments,
    DeduplicateFileReads,
    ClearToolResults,
    ClampOversized,
    Relevance,
    Summarize,
    SlidingWindow,
}

impl Name {
    const ALL: [Self; 7] = [
        Self::StoreArguments,
        Self::DeduplicateFileReads,
        Self::ClearToolResults,
        Self::ClampOversized,
        Self::Relevance,
        Self::Summarize,
        Self::SlidingWindow,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::StoreArguments => "store-arguments",
            Self::DeduplicateFileReads => "deduplicate-file-reads",
            Self::ClearToolResults => "clear-tool-results",
            Self::ClampOversized => "clamp-oversized",
            Self::Relevance => "relevance",
            Self::Summarize => "summarize",
            Self::SlidingWindow => "sliding-window",
        }
    }

    /// Whether it asks a model.
    fn asks(self) -> bool {
        matches!(self, Self::Relevance | Self::Summarize)
    }

    /// The strategy; one that asks may give the model so much to read at once.
    fn strategy(self, args: &cli::Fit, budget: u64, prompt: Limit) -> Arc<dyn Strategy> {
        let until = Some(Limit::Tokens(budget));
        match self {
            Self::StoreArguments => Arc::new(StoreArguments::default()),
            Self::DeduplicateFileReads => Arc::new(DeduplicateFileReads::default()),
            Self::ClampOversized => Arc::new(ClampOversized {
                // Whatever is larger leaves little room for anything else.
                max_part: Limit::Tokens(budget / 4),
                keep_head_chars: (budget as usize / 8).min(2_000),
                keep_tail_chars: (budget as usize / 8).min(2_000),
                ..ClampOversized::default()
            }),
            Self::ClearToolResults => Arc::new(ClearToolResults {
                keep_pairs: args.keep_pairs,
                until,
                ..ClearToolResults::default()
            }),
            Self::Relevance => {
                let mut relevance = Relevance::new(Limit::Tokens(budget));
                relevance.prompt = prompt;
                Arc::new(relevance)
            }
            // Where no summary can be had, the other strategies do what they can.
            Self::Summarize => {
                let nothing = Tiered { tiers: Vec::new(), target: Limit::Tokens(budget) };
                let defaults = Summarize::new(Keep::Messages(args.keep_messages));
                let summarize = Summarize {
                    summary_tokens: defaults.summary_tokens.min(budget / 4),
                    transcript: prompt,
                    ..defaults
                };
                let nothing: Arc<dyn Strategy> = Arc::new(nothing);
                Arc::new(Fallback::new(Arc::new(summarize), [nothing]))
            }
            Self::SlidingWindow => Arc::new(SlidingWindow {
                keep: Keep::Messages(args.keep_messages),
                until,
                ..SlidingWindow::default()
            }),
        }
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|name| name.name() == text);
        known.ok_or_else(|| format!("it must be one of {}", Self::ALL.map(Self::name).join(", ")))
    }
}

pub(crate) fn fit(common: &cli::Common, args: &cli::Fit) -> Result<u8, Failure> {
    let conversation = conversation::read(args.file.as_ref(), args.format)?;
    let history = conversation.history();
    let pins = pins(&history, &args.pin)?;
    let policy = cli::Policy { run_id: args.run_id.clone(), ..cli::Policy::default() };
    let settings = Settings::load(common, &policy, None)?;
    if !settings.config.enabled {
        return pass(common, args, &conversation);
    }
    // A dry run does all that a run does, and keeps nothing of it.
    let store: Arc<dyn Store> = match args.dry_run {
        true => Arc::new(MemoryStore::new()),
        false => Arc::new(settings.open_store()?),
    };
    let said = history.preamble().model.as_deref();
    let model = args.model.as_deref().or(said).unwrap_or_default().to_owned();
    let counter = conversation::counter(&conversation, &model);
    let mut window = window::resolve(&model, &WindowOptions::default());
    let budget = match args.budget {
        Some(budget) => tokens(budget, &model, &window)?,
        None => window.input_budget,
    };
    window.input_budget = budget;
    let asks = args.preset.is_none() && args.strategy.iter().any(|name| name.asks());
    let writer = match asks {
        // Without one, the other strategies do what they can.
        true => match settings.model(asked(&conversation, said).as_ref()) {
            Ok(writer) => Some(writer),
            Err(failure) => {
                output::notice(&failure.to_string());
                None
            }
        },
        false => None,
    };
    let fitter = match args.preset {
        Some(preset) => Fitter::preset(preset, store, &window),
        None => {
            // Half of what the model that is asked takes, whatever the budget of the request is.
            let prompt = writer.as_ref().map_or(Limit::Fraction(0.5), |writer| {
                let name = writer.name().to_string();
                Limit::Tokens(window::resolve(&name, &WindowOptions::default()).trigger(0.5))
            });
            let names = args.strategy.iter();
            let tiers = names.map(|name| name.strategy(args, budget, prompt)).collect();
            Fitter::new(Arc::new(Tiered { tiers, target: Limit::Tokens(budget) }), store, budget)
        }
    };
    let fitter =
        fitter.counter(counter.clone()).via(ReadVia::Tool(settings.config.read_tool.clone()));
    let fitter = match writer {
        Some(writer) => fitter.model(Arc::new(writer)),
        None => fitter,
    };
    let occasion = Occasion { pins: &pins, ..Occasion::default() };
    let run = RunId::from(settings.run());
    let fitted = block_on(fitter.fit(&run, &history, &occasion));
    for warning in &fitted.warnings {
        output::warning(warning);
    }
    let smaller = match &fitted.plan {
        Some(plan) => conversation.apply(plan)?,
        None => conversation.to_bytes(),
    };
    let totals = {
        let smaller = Conversation::parse(conversation.format(), smaller.clone())?;
        let left = smaller.history();
        let count = counter.count(&left);
        Totals {
            messages: BeforeAfter {
                before: history.messages().len() as u64,
                after: left.messages().len() as u64,
            },
            // What a provider reported speaks of the request as it was.
            tokens: BeforeAfter {
                before: fitted.before,
                after: if count.is_anchored() { fitted.after } else { count.tokens() },
            },
            budget,
        }
    };
    if args.dry_run {
        print_changes(common, &history, fitted.plan.as_ref(), &totals)?;
    } else {
        let mut out = Out::new();
        out.bytes(&smaller)?;
        out.flush()?;
        report(common, &fitted, &totals);
    }
    let leaves = fitted.plan.as_ref().is_some_and(|plan| !plan.receipts().is_empty());
    let reads = |tool: &&str| tool.contains(&settings.config.read_tool);
    if leaves && !history.preamble().tools.iter().any(reads) {
        output::notice(&format!(
            "the request offers no tool {}, so its model cannot read what left; `overspill \
             read-tool --format {}` prints its definition",
            settings.config.read_tool,
            conversation.format().name()
        ));
    }
    if totals.is_met() {
        return Ok(0);
    }
    let failure = Failure::new("what these strategies may touch is not enough for this budget");
    output::error(&match fitted.warnings.is_empty() {
        true => failure.hint(more_room(args)),
        false => failure,
    });
    Ok(NOT_DONE)
}

/// How a budget that was not met could be.
fn more_room(args: &cli::Fit) -> String {
    let mut mends = Vec::new();
    let runs = |name: Name| args.preset.is_none() && args.strategy.contains(&name);
    let missing = [Name::ClearToolResults, Name::SlidingWindow].into_iter();
    let missing: Vec<&str> = missing.filter(|name| !runs(*name)).map(Name::name).collect();
    if !missing.is_empty() {
        mends.push(format!("run {} too, by --strategy", missing.join(" and ")));
    }
    if runs(Name::ClearToolResults) && args.keep_pairs > 0 {
        mends.push("keep less with --keep-pairs 0".to_owned());
    }
    if runs(Name::SlidingWindow) && args.keep_messages > 1 {
        mends.push("keep less with --keep-messages 1".to_owned());
    }
    if !args.pin.is_empty() {
        mends.push("pin less".to_owned());
    }
    mends.push("raise --budget".to_owned());
    format!(
        "{}; system prompts, the first and the newest message stay, and `overspill inspect` shows \
         what is largest",
        mends.join(", or ")
    )
}

/// Where the configuration says that nothing is to be done, the conversation passes as it came.
fn pass(common: &cli::Common, args: &cli::Fit, conversation: &Conversation) -> Result<u8, Failure> {
    let mut out = Out::new();
    match (args.dry_run, common.json) {
        (false, _) => out.bytes(&conversation.to_bytes())?,
        (true, true) => out.json(&json!({ "enabled": false, "edits": [] }))?,
        (true, false) => {
            out.text("Nothing would change: the configuration says `enabled = false`.\n")?;
        }
    }
    Ok(out.flush().map(|()| 0)?)
}

/// What a request was and becomes.
struct Totals {
    messages: BeforeAfter,
    tokens: BeforeAfter,
    /// How many tokens it may have.
    budget: u64,
}

#[derive(Serialize)]
struct BeforeAfter {
    before: u64,
    after: u64,
}

impl Totals {
    fn is_met(&self) -> bool {
        self.tokens.after <= self.budget
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} messages and {} tokens in, {} and {} out",
            grouped(self.messages.before),
            grouped(self.tokens.before),
            grouped(self.messages.after),
            grouped(self.tokens.after),
        )
    }
}

/// Says on standard error what was done.
fn report(common: &cli::Common, fitted: &Fitted, totals: &Totals) {
    let Fitted { plan, usage, .. } = fitted;
    let handles: Vec<&str> =
        plan.iter().flat_map(SettledPlan::receipts).map(|it| it.handle.as_str()).collect();
    if common.json {
        let Totals { messages, tokens, budget } = totals;
        let report = json!({
            "messages": messages, "tokens": tokens, "budget": budget, "handles": handles,
            "usage": usage,
        });
        output::report(&report.to_string());
    } else {
        // Where nothing was to be done, the budget says why.
        let was = match plan {
            None if totals.is_met() => format!(", within {}", grouped(totals.budget)),
            _ => String::new(),
        };
        let stored = grouped(handles.len() as u64);
        output::report(&format!("{totals}{was}; payloads stored: {stored}"));
    }
}

/// The model that the request is for, where it is asked by an API that is spoken.
fn asked(conversation: &Conversation, model: Option<&str>) -> Option<ModelName> {
    let provider = match conversation.format() {
        Format::Chat | Format::Responses => Provider::OpenAi,
        Format::Anthropic => Provider::Anthropic,
        _ => return None,
    };
    let name = model.filter(|name| !name.is_empty())?.to_owned();
    Some(ModelName { provider, name })
}

/// A budget in tokens, or by what a model takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Budget {
    Tokens(u64),
    Percent(f64),
}

impl FromStr for Budget {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let budget = match text.strip_suffix('%') {
            Some(percent) => percent.trim().parse().ok().map(Self::Percent),
            None => text.replace('_', "").parse().ok().map(Self::Tokens),
        };
        budget
            .filter(|budget| match budget {
                Self::Tokens(tokens) => *tokens > 0,
                Self::Percent(percent) => *percent > 0.0 && *percent <= 100.0,
            })
            .ok_or("it must be a number of tokens, such as 20000, or a part of what the model takes, such as 80%")
    }
}

/// A budget in tokens, for a model of that name and window.
fn tokens(budget: Budget, model: &str, window: &ModelWindow) -> Result<u64, Failure> {
    match budget {
        Budget::Tokens(tokens) => Ok(tokens),
        Budget::Percent(_) if window.source == Source::Fallback => {
            let what = match model {
                "" => "the request names no model".to_owned(),
                model => format!("nothing is known of how much {model:?} takes"),
            };
            Err(Failure::usage(what)
                .hint("say the budget in tokens, or name another model with --model"))
        }
        Budget::Percent(percent) => Ok(window.trigger(percent / 100.0)),
    }
}

fn pins(history: &History<'_>, pins: &[usize]) -> Result<Vec<MessageId>, Failure> {
    let last = history.messages().len();
    if let Some(beyond) = pins.iter().find(|pin| **pin >= last) {
        return Err(Failure::usage(format!("there is no message {beyond} to pin"))
            .hint(format!("the conversation has {last} messages, numbered from 0")));
    }
    Ok(pins.iter().copied().map(MessageId).collect())
}

/// Prints what would be done.
fn print_changes(
    common: &cli::Common,
    history: &History<'_>,
    plan: Option<&SettledPlan>,
    totals: &Totals,
) -> Result<(), Failure> {
    let mut out = Out::new();
    let changes = plan.into_iter().flat_map(SettledPlan::changes);
    let edits: Vec<Value> = changes.map(|change| edit_of(history, change)).collect();
    let (Totals { messages, tokens, budget }, is_met) = (totals, totals.is_met());
    if common.json {
        out.json(&json!({
            "edits": edits, "messages": messages, "tokens": tokens, "budget": budget, "met": is_met,
        }))?;
        return Ok(out.flush()?);
    }
    if edits.is_empty() {
        out.text("Nothing would change.\n")?;
    } else {
        let cell = |edit: &Value, key: &str| match &edit[key] {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        let rows = edits.iter().map(|edit| {
            ["message", "edit", "role", "kind", "tool"].map(|key| cell(edit, key)).into()
        });
        out.text(&output::table(
            &["MESSAGE", "EDIT", "ROLE", "KIND", "TOOL"],
            &[0],
            rows.collect(),
        ))?;
    }
    let met = if is_met { "met" } else { "not met" };
    out.text(&format!("\n{totals}; the budget of {} tokens is {met}\n", grouped(*budget)))?;
    Ok(out.flush()?)
}

fn edit_of(history: &History<'_>, change: &Change) -> Value {
    let of = |what: &str, id: EntryId| {
        let entry = history.entry(id);
        json!({
            "edit": what,
            "message": entry.map(|entry| entry.message.0),
            "role": entry.map(|entry| role(entry.role)),
            "kind": entry.map(|entry| kind(&entry.kind)),
            "tool": history.tool_of(id),
        })
    };
    match change {
        Change::DropEntry(entry) => of("drop", *entry),
        Change::DropMessage(message) => {
            let found = history.messages().get(message.0);
            json!({
                "edit": "drop",
                "message": message.0,
                "role": found.map(|message| role(message.role)),
            })
        }
        Change::Text { entry, .. } | Change::Arguments { entry, .. } => of("replace", *entry),
        Change::Insert { before, text } => {
            let note = Note::of(text).map_or_else(String::new, |note| format!(" {note:?}"));
            json!({
                "edit": format!("insert{}", note.to_lowercase()),
                "message": before.0,
            })
        }
        _ => json!({ "edit": "other" }),
    }
}
