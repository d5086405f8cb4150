//! What it costs to read a provider's request, change its history and write it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use futures_lite::future::block_on;
use overspill::Store;
use overspill::history::{History, Plan, Ports, Words, settle};
use overspill::marker::{Below, ReadVia};
use overspill_store::MemoryStore;
use overspill_wire::{Conversation, Format};
use serde_json::{Value, json};

use crate::Scale;
use crate::payload;
use crate::rounds::{medians, time};
use crate::row::Row;

/// A session that has come to 2 MB; its last results are what the model still works with.
const TURNS: usize = 200;
const RESULT_BYTES: usize = 10_000;
const KEPT_TURNS: usize = 10;

pub(crate) fn rows(scale: Scale) -> Result<[Row; 2]> {
    Ok([edited(scale)?, long(scale)?])
}

/// Reads, views, plans, applies and writes, beside reading and writing the same bytes as values.
fn edited(scale: Scale) -> Result<Row> {
    let request = session(TURNS, RESULT_BYTES)?;
    let conversation = Conversation::parse(Format::Anthropic, request.clone())?;
    let history = conversation.history();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let (run, via) = ("bench".into(), ReadVia::Command);
    let plan = clear_results(&history);
    let settled = block_on(settle(&history, &plan, &Ports::new(&run, &store, &via)))?;
    let ours = || -> Result<Duration> {
        // A body that was received is nobody else's.
        let body = Bytes::from(request.to_vec());
        let mut written = Ok(Bytes::new());
        let took = time(|| -> Result<()> {
            let conversation = Conversation::parse(Format::Anthropic, body)?;
            let history = conversation.history();
            std::hint::black_box(clear_results(&history));
            written = conversation.apply(&settled);
            Ok(())
        });
        written?;
        Ok(took)
    };
    let values = || -> Result<Duration> {
        let mut written = Ok(Vec::new());
        let took = time(|| -> Result<()> {
            let value: Value = serde_json::from_slice(&request)?;
            written = serde_json::to_vec(&value);
            Ok(())
        });
        written?;
        Ok(took)
    };
    let times = medians(10 * scale.short_rounds, [&mut || ours(), &mut || values()])?;
    Ok(Row::times(
        "clear old results in an Anthropic request of 2 MB, 400 messages: read, plan, write",
        times,
        "read and write it as `serde_json::Value`",
        1.0,
    ))
}

/// Four times as many messages, beside four times as long.
fn long(scale: Scale) -> Result<Row> {
    let [short, long] = [5_000, 20_000].map(|turns| session(turns, 500));
    let [short, long] = [short?, long?].map(|text| Conversation::parse(Format::Anthropic, text));
    let (short, long) = (short?, long?);
    let [of_long, of_short] = medians(
        scale.short_rounds,
        [&mut || Ok(time(|| long.history())), &mut || Ok(time(|| short.history()))],
    )?;
    Ok(Row::times(
        "view of a history of 40,000 messages",
        [of_long, 4 * of_short],
        "four times that of 10,000",
        1.5,
    ))
}

/// An agent's session: a request for each command, and what it printed.
fn session(turns: usize, result_bytes: usize) -> Result<Bytes> {
    let bytes = turns.div_ceil(3) * result_bytes;
    let texts = [
        payload::log(bytes)?,
        payload::source(bytes),
        // A record's JSON is up to a fifth shorter than it was asked for.
        payload::records(bytes + bytes / 4).to_string(),
    ];
    let mut messages = vec![json!({ "role": "user", "content": "Make the tests pass." })];
    for turn in 0..turns {
        let text = &texts[turn % texts.len()];
        let start = text.floor_char_boundary(turn / texts.len() * result_bytes);
        let end = text.floor_char_boundary(start + result_bytes);
        let result = text.get(start..end).context("a text is too short")?;
        let id = format!("toolu_{turn:06}");
        messages.push(json!({ "role": "assistant", "content": [
            { "type": "text", "text": "I look at what comes next." },
            { "type": "tool_use", "id": id, "name": "bash", "input": { "command": "make test" } },
        ]}));
        messages.push(json!({ "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": id, "content": result },
        ]}));
    }
    let request = json!({ "model": "claude-opus-5", "max_tokens": 8192, "messages": messages });
    Ok(serde_json::to_vec(&request)?.into())
}

/// Leaves markers in the place of all but the newest results.
fn clear_results(history: &History<'_>) -> Plan {
    let mut plan = Plan::default();
    let old = history.turns().len().saturating_sub(KEPT_TURNS);
    for answer in history.turns()[..old].iter().flat_map(|turn| &turn.returns) {
        plan.replace_text(*answer, Words::marker(Below::Nothing));
    }
    plan
}
