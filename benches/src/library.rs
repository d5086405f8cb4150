//! What the library does in process.

use std::cell::Cell;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures_lite::future::block_on;
use overspill::ansi;
use overspill::excerpt::excerpt;
use overspill::store::{PartName, Retention, Store, deposit};
use overspill::{Spill, ToolCall, ToolOutputLimits, ToolReturn};
use overspill_store::LocalStore;

use crate::Scale;
use crate::payload;
use crate::rounds::{in_turn, medians, time};
use crate::row::{MS, MS_PER_MB, Row, ms};

/// Small enough for what every excerpt costs, however short the payload, to count.
const EXCERPTED_BYTES: usize = 1_000_000;

pub(crate) fn excerpts(scale: Scale) -> Result<[Row; 3]> {
    let log = payload::log(EXCERPTED_BYTES)?;
    let source = payload::source(EXCERPTED_BYTES);
    let json = payload::records(EXCERPTED_BYTES).to_string();
    let excerpt_of = |text: &str| Ok(time(|| excerpt(text.as_bytes(), Spill::PREVIEW_CHARS)));
    let times = medians(
        scale.short_rounds,
        [&mut || excerpt_of(&log), &mut || excerpt_of(&source), &mut || excerpt_of(&json)],
    )?;
    let row = |kind: &str, text: &str, time| {
        let per_megabyte = ms(time) / (text.len() as f64 / 1e6);
        Row::below(format!("excerpt of 1 MB of {kind}"), per_megabyte, MS_PER_MB, 5.0)
    };
    let [of_log, of_source, of_json] = times;
    Ok([
        row("log text", &log, of_log),
        row("source", &source, of_source),
        row("one-line JSON", &json, of_json),
    ])
}

pub(crate) fn strip_ansi(scale: Scale) -> Result<Row> {
    let hostile = "\x1b]".repeat(20_000);
    let [took] =
        medians(scale.short_rounds, [&mut || Ok(time(|| ansi::strip(hostile.as_bytes())))])?;
    Ok(Row::below("strip_ansi of 40 KB of `ESC ]`", ms(took), MS, 2.0).with_incumbent("strip_ansi"))
}

/// Spills of what is in memory, beside doing the least that keeps it: a file, synced, and a digest.
pub(crate) fn spills(scale: Scale, folder: &Path) -> Result<[Row; 2]> {
    let size = scale.spilled / 1_000_000;
    let text = payload::log(scale.spilled)?;
    let records = payload::records(scale.spilled);
    let ours = |output: ToolReturn| spill(&folder.join("spilled"), output);
    let beside = |bytes: &[u8]| -> Result<()> {
        let mut file = File::create(folder.join("written"))?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::hint::black_box(blake3::hash(bytes));
        Ok(())
    };
    let timed = |what: &dyn Fn() -> Result<()>| -> Result<Duration> {
        let start = Instant::now();
        what()?;
        let took = start.elapsed();
        std::fs::remove_file(folder.join("written"))?;
        Ok(took)
    };
    let of_text = medians(
        scale.short_rounds,
        [&mut || ours(text.clone().into()), &mut || timed(&|| beside(text.as_bytes()))],
    )?;
    let of_records = medians(
        scale.short_rounds,
        [&mut || ours(records.clone().into()), &mut || {
            // What takes a value also lets go of it.
            let records = Cell::new(Some(records.clone()));
            timed(&|| beside(&serde_json::to_vec(&records.take())?))
        }],
    )?;
    Ok([
        Row::times(
            format!("spill a string of {size} MB"),
            of_text,
            "write, fsync and hash it",
            3.0,
        )
        .with_incumbent("text"),
        Row::times(
            format!("spill a list of records, {size} MB as JSON"),
            of_records,
            "serialize, write, fsync and hash it",
            2.0,
        )
        .with_incumbent("records"),
    ])
}

/// Many small spills into a store with a time-to-live, beside those into one without.
pub(crate) fn time_to_live(scale: Scale, folder: &Path) -> Result<[Row; 2]> {
    /// The stores take turns of so many.
    const A_TURN: usize = 50;
    // A month sweeps every ten minutes; ten seconds, every second.
    let ages = [None, Some(Duration::from_secs(30 * 86_400)), Some(Duration::from_secs(10))];
    let stores = ages
        .iter()
        .enumerate()
        .map(|(k, &max_age)| {
            let retention = Retention { max_age, max_bytes: None };
            Ok(LocalStore::open(folder.join(format!("aged{k}")))?.with_retention(retention))
        })
        .collect::<Result<Vec<_>>>()?;
    let mut times = [Duration::ZERO; 3];
    let mut calls = 0..;
    in_turn::<3>(scale.small_spills / A_TURN, |k| {
        let port: Arc<dyn Store> = Arc::new(stores[k].clone());
        let start = Instant::now();
        for n in calls.by_ref().take(A_TURN) {
            let call = ToolCall::new("bench", n.to_string(), "tool");
            let payload = format!("{n} {}", "a line of a small result\n".repeat(80));
            block_on(deposit(&port, &call, PartName::Value(0), "text/plain", payload.into()))?;
        }
        times[k] += start.elapsed();
        Ok(())
    })?;
    for store in &stores {
        let warnings = block_on(store.sweep_warnings());
        ensure!(warnings.is_empty(), "{warnings:?}");
    }
    let [without, month, seconds] = times;
    let row = |age: &str, with| {
        let what = format!("{} small spills that are kept for {age}", scale.small_spills);
        Row::times(what, [with, without], "those that are kept forever", 1.2)
    };
    Ok([row("30 days", month).with_incumbent("time_to_live"), row("10 seconds", seconds)])
}

/// How long it takes to admit an output that must be spilled, into a store that is new.
fn spill(root: &Path, output: ToolReturn) -> Result<Duration> {
    let store = Arc::new(LocalStore::open(root)?);
    let limits = ToolOutputLimits::builder().store(store).build()?;
    let call = ToolCall::new("bench", "call", "tool");
    let start = Instant::now();
    let admitted = block_on(limits.admit(&call, output));
    let took = start.elapsed();
    ensure!(admitted.receipts().count() == 1, "{:?}", admitted.warnings);
    std::fs::remove_dir_all(root)?;
    Ok(took)
}
