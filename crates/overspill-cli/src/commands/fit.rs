//! `overspill fit`: brings a conversation under a budget.

use std::str::FromStr;
use std::sync::Arc;

use futures_lite::future::block_on;
use overspill::entry::MessageId;
use overspill::fit::{Fitter, Occasion};
use overspill::history::{Edit, History, Plan};
use overspill::marker::ReadVia;
use overspill::strategy::{
    ClampOversized, ClearToolResults, DeduplicateFileReads, Keep, Limit, SlidingWindow,
    StoreArguments, Strategy, Tiered,
};
use overspill::window::{self, Source, WindowOptions};
use overspill::{RunId, Store};
use overspill_wire::Conversation;
use serde_json::{Value, json};

use super::conversation;
use super::inspect::{kind, role};
use crate::cli;
use crate::failure::Failure;
use crate::output::{self, Out, grouped};
use crate::settings::Settings;

/// A strategy by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    StoreArguments,
    DeduplicateFileReads,
    ClearToolResults,
    ClampOversized,
    SlidingWindow,
}

impl Name {
    const ALL: [Self; 5] = [
        Self::StoreArguments,
        Self::DeduplicateFileReads,
        Self::ClearToolResults,
        Self::ClampOversized,
        Self::SlidingWindow,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::StoreArguments => "store-arguments",
            Self::DeduplicateFileReads => "deduplicate-file-reads",
            Self::ClearToolResults => "clear-tool-results",
            Self::ClampOversized => "clamp-oversized",
            Self::SlidingWindow => "sliding-window",
        }
    }

    fn strategy(self, args: &cli::Fit, budget: u64) -> Arc<dyn Strategy> {
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
        let mut out = Out::new();
        out.bytes(&conversation.to_bytes())?;
        return Ok(out.flush().map(|()| 0)?);
    }
    let store: Arc<dyn Store> = Arc::new(settings.open_store()?);
    let said = history.preamble().model.as_deref();
    let model = args.model.as_deref().or(said).unwrap_or_default().to_owned();
    let counter = conversation::counter(&conversation, &model);
    let budget_tokens = budget(args.budget, &model)?;
    let tiers = args.strategy.iter().map(|name| name.strategy(args, budget_tokens)).collect();
    let strategy = Arc::new(Tiered { tiers, target: Limit::Tokens(budget_tokens) });
    let fitter = Fitter::new(strategy, store, budget_tokens)
        .counter(counter.clone())
        .via(ReadVia::Tool(settings.config.read_tool.clone()));
    let occasion = Occasion { pins: &pins, ..Occasion::default() };
    if args.dry_run {
        let plan = block_on(fitter.plan(&history, &occasion))?;
        return print_plan(common, &history, &plan);
    }

    let run = RunId::from(settings.run());
    let fitted = block_on(fitter.fit(&run, &history, &occasion));
    for warning in &fitted.warnings {
        output::warning(warning);
    }
    let smaller = match &fitted.plan {
        Some(plan) => conversation.apply(plan)?,
        None => conversation.to_bytes(),
    };
    let mut out = Out::new();
    out.bytes(&smaller)?;
    out.flush()?;

    let smaller = Conversation::parse(conversation.format(), smaller)?;
    let left = smaller.history();
    let after = counter.count(&left).tokens();
    let handles: Vec<String> = fitted
        .plan
        .iter()
        .flat_map(|plan| plan.receipts())
        .map(|receipt| receipt.handle.to_string())
        .collect();
    if common.json {
        let report = json!({
            "messages": { "before": history.messages().len(), "after": left.messages().len() },
            "tokens": { "before": fitted.before, "after": after },
            "budget": budget_tokens,
            "handles": handles,
        });
        output::report(&report.to_string());
    } else {
        output::report(&format!(
            "{} messages and {} tokens in, {} and {} out; payloads stored: {}",
            grouped(history.messages().len() as u64),
            grouped(fitted.before),
            grouped(left.messages().len() as u64),
            grouped(after),
            grouped(handles.len() as u64),
        ));
    }
    let reads = |tool: &&str| tool.contains(&settings.config.read_tool);
    if !handles.is_empty() && !history.preamble().tools.iter().any(reads) {
        output::notice(&format!(
            "the request offers no tool {}, so its model cannot read what left; `overspill \
             read-tool` prints its definition",
            settings.config.read_tool
        ));
    }
    if after > budget_tokens {
        let failure = Failure::new("what these strategies may touch is not enough for this budget");
        output::error(&match fitted.warnings.is_empty() {
            true => failure.hint(
                "keep less with --keep-pairs 0 or --keep-messages, pin less, or raise --budget; \
                 system prompts, the first and the newest message stay, and `overspill inspect` \
                 shows what is largest",
            ),
            false => failure,
        });
        return Ok(1);
    }
    Ok(0)
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

fn budget(budget: Budget, model: &str) -> Result<u64, Failure> {
    match budget {
        Budget::Tokens(tokens) => Ok(tokens),
        Budget::Percent(percent) => {
            let window = window::resolve(model, &WindowOptions::default());
            if window.source == Source::Fallback {
                let what = match model {
                    "" => "the request names no model".to_owned(),
                    model => format!("nothing is known of how much {model:?} takes"),
                };
                return Err(Failure::usage(what)
                    .hint("say the budget in tokens, or name another model with --model"));
            }
            Ok(window.trigger(percent / 100.0))
        }
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

fn print_plan(common: &cli::Common, history: &History<'_>, plan: &Plan) -> Result<u8, Failure> {
    let mut out = Out::new();
    let edits: Vec<Value> = plan.edits().iter().map(|edit| edit_of(history, edit)).collect();
    if common.json {
        out.json(&edits)?;
    } else if edits.is_empty() {
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
    Ok(out.flush().map(|()| 0)?)
}

fn edit_of(history: &History<'_>, edit: &Edit) -> Value {
    let of = |what: &str, id: overspill::entry::EntryId| {
        let entry = history.entry(id);
        json!({
            "edit": what,
            "message": entry.map(|entry| entry.message.0),
            "role": entry.map(|entry| role(entry.role)),
            "kind": entry.map(|entry| kind(&entry.kind)),
            "tool": history.tool_of(id),
        })
    };
    match edit {
        Edit::DropEntry(entry) => of("drop", *entry),
        Edit::DropMessage(message) => {
            let found = history.messages().get(message.0);
            json!({
                "edit": "drop",
                "message": message.0,
                "role": found.map(|message| role(message.role)),
            })
        }
        Edit::ReplaceText { entry, .. } => of("replace", *entry),
        Edit::ReplaceArguments { entry, .. } => of("replace", *entry),
        Edit::Insert { before, note, .. } => json!({
            "edit": format!("insert {}", format!("{note:?}").to_lowercase()),
            "message": before.0,
        }),
        _ => json!({ "edit": "other" }),
    }
}
