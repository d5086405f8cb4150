//! A store, settling without a runtime, and histories as text.

use std::fmt::Write as _;
use std::sync::Arc;

use overspill::Store;
use overspill::entry::{Entry, Kind};
use overspill::history::{History, Plan, Ports, SettleError, SettledPlan, settle};
use overspill::marker::ReadVia;
use overspill_store::MemoryStore;
use overspill_wire::{Conversation, Format};

pub(crate) fn parse(format: Format, text: &str) -> Conversation {
    Conversation::parse(format, text.to_owned().into()).unwrap_or_else(|error| panic!("{error}"))
}

/// Settles with a store of its own.
pub(crate) fn settled(history: &History<'_>, plan: &Plan) -> Result<SettledPlan, SettleError> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let via = ReadVia::Tool("read_tool_result".into());
    let run = "run".into();
    futures_lite::future::block_on(settle(history, plan, &Ports::new(&run, &store, &via)))
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
