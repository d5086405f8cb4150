//! A store, settling without a runtime, and histories as text.

use std::fmt::Write as _;
use std::sync::Arc;

use futures_lite::future::block_on;
use overspill::entry::{Entry, Kind};
use overspill::fit::{Fitted, Fitter, Occasion};
use overspill::history::{History, Plan, Ports, SettleError, SettledPlan, settle};
use overspill::marker::ReadVia;
use overspill::store::Stored;
use overspill::strategy::{
    ClampOversized, ClearToolResults, DeduplicateFileReads, Keep, Limit, SlidingWindow,
    StoreArguments, Strategy, Tiered,
};
use overspill::{Handle, Store};
use overspill_store::MemoryStore;
use overspill_wire::{Conversation, Format};

pub(crate) fn parse(format: Format, text: &str) -> Conversation {
    Conversation::parse(format, text.to_owned().into()).unwrap_or_else(|error| panic!("{error}"))
}

/// Settles with a store of its own.
pub(crate) fn settled(history: &History<'_>, plan: &Plan) -> Result<SettledPlan, SettleError> {
    settled_in(&(Arc::new(MemoryStore::new()) as Arc<dyn Store>), history, plan)
}

pub(crate) fn settled_in(
    store: &Arc<dyn Store>,
    history: &History<'_>,
    plan: &Plan,
) -> Result<SettledPlan, SettleError> {
    let via = ReadVia::Tool("read_tool_result".into());
    let run = "run".into();
    block_on(settle(history, plan, &Ports::new(&run, store, &via)))
}

/// Each strategy that asks no model, set so that it acts on small histories; the last does all it
/// can until a request has no more than `budget` tokens.
pub(crate) fn strategies(budget: u64) -> Vec<Arc<dyn Strategy>> {
    let clear = ClearToolResults { keep_pairs: 0, ..ClearToolResults::default() };
    let store = StoreArguments { over_chars: 200, ..StoreArguments::default() };
    let clamp = ClampOversized {
        max_part: Limit::Tokens(100),
        keep_head_chars: 20,
        keep_tail_chars: 20,
        ..ClampOversized::default()
    };
    let window = SlidingWindow::new(Keep::Messages(1));
    let until = Some(Limit::Tokens(budget));
    vec![
        Arc::new(store.clone()),
        Arc::new(DeduplicateFileReads::default()),
        Arc::new(ClearToolResults { clear_inputs: true, ..clear.clone() }),
        Arc::new(clamp.clone()),
        Arc::new(window),
        Arc::new(SlidingWindow { keep_first_user: false, ..window }),
        Arc::new(Tiered {
            tiers: vec![
                Arc::new(DeduplicateFileReads::default()),
                Arc::new(store),
                Arc::new(ClearToolResults { until, ..clear }),
                Arc::new(clamp),
                Arc::new(SlidingWindow { until, ..window }),
            ],
            target: Limit::Tokens(budget),
        }),
    ]
}

/// What a strategy makes of a request, with what it stored.
pub(crate) struct Fit {
    pub(crate) fitted: Fitted,
    pub(crate) bytes: bytes::Bytes,
    pub(crate) stored: Vec<String>,
}

pub(crate) fn fit(conversation: &Conversation, strategy: Arc<dyn Strategy>) -> Fit {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let fitter = Fitter::new(strategy, Arc::clone(&store), 10_000);
    let history = conversation.history();
    let fitted = block_on(fitter.fit(&"run".into(), &history, &Occasion::default()));
    let bytes = match &fitted.plan {
        Some(plan) => conversation.apply(plan).unwrap(),
        None => conversation.to_bytes(),
    };
    let receipts = fitted.plan.iter().flat_map(SettledPlan::receipts);
    let stored = receipts.map(|receipt| payload(&store, &receipt.handle)).collect();
    Fit { fitted, bytes, stored }
}

/// All that is stored under a handle.
pub(crate) fn payload(store: &Arc<dyn Store>, handle: &Handle) -> String {
    let stored = block_on(Stored::open(store, handle)).unwrap();
    let bytes = block_on(stored.bytes(0..stored.receipt().bytes)).unwrap();
    String::from_utf8(bytes.into()).unwrap()
}

/// The request with the plan's changes in it.
pub(crate) fn applied(conversation: &Conversation, plan: &Plan) -> String {
    let plan = settled(&conversation.history(), plan).unwrap();
    String::from_utf8(conversation.apply(&plan).unwrap().into()).unwrap()
}

/// One line for each entry: message, turn, who, what, and what else there is to say of it.
pub(crate) fn picture(history: &History<'_>) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "model {:?}", history.preamble().model);
    for text in &history.preamble().instructions {
        let _ = writeln!(out, "instructions {text:?}");
    }
    for tool in &history.preamble().tools {
        let _ = writeln!(out, "tool of {} bytes", tool.len());
    }
    for (m, message) in history.messages().iter().enumerate() {
        if let Some(usage) = message.usage {
            let _ = writeln!(out, "{m} usage {} + {}", usage.input_tokens, usage.output_tokens);
        }
        if message.entries.is_empty() {
            let _ = writeln!(out, "{m} {:?} is empty", message.role);
        }
        for id in message.entry_ids() {
            let entry = history.entry(id).unwrap();
            let turn = history.turn_of(id).map_or("-".into(), |turn| format!("t{}", turn.0));
            let _ = writeln!(out, "{m}.{} {turn} {:?} {}", id.0, entry.role, of(entry));
        }
    }
    for fault in history.faults() {
        let _ = writeln!(out, "fault: {fault}");
    }
    out
}

fn of(entry: &Entry<'_>) -> String {
    let kind = match &entry.kind {
        Kind::Return { id, name, is_error, images } => {
            let error = if *is_error { " error" } else { "" };
            let images = if images.is_empty() { "".into() } else { format!(" {images:?}") };
            format!("Return {id:?} {name:?}{error}{images}")
        }
        other => format!("{other:?}"),
    };
    let mut out = format!("{kind} {:?}", entry.text);
    if let Some(signature) = &entry.signature {
        let _ = write!(out, " signed {signature:?}");
    }
    for (said, word) in [
        (entry.cited, " cited"),
        (entry.cache_marker, " cached"),
        (entry.holds_more, " with more"),
        (entry.is_editable(), " editable"),
    ] {
        out.push_str(if said { word } else { "" });
    }
    out
}
