//! What the command line does with a log of a gigabyte, and what the library reads of it.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use futures_lite::future::block_on;
use overspill::ToolOutputLimits;
use overspill_store::LocalStore;
use serde_json::json;

use crate::Scale;
use crate::child::Runner;
use crate::payload;
use crate::rounds::{median, medians, time};
use crate::row::{MB, MS, Row, ms};

/// How many reads and starts are timed: they are short, and single ones differ.
const READS: u64 = 101;
const STARTS: usize = 50;

/// What the peak memory of a larger log may be beside that of a smaller one.
const FLAT: f64 = 1.25;

pub(crate) fn rows(scale: Scale, folder: &Path) -> Result<Vec<Row>> {
    let runner = Runner::new(folder)?;
    let log = Log::new(folder, "log", scale.log)?;
    let smaller = Log::new(folder, "smaller", scale.smaller_log)?;
    let mut rows = Vec::new();
    rows.extend(run(scale, &runner, &smaller, &log)?);
    rows.extend(read(&runner, &log)?);
    rows.push(grep(scale, &runner, &log)?);
    rows.push(start(&runner)?);
    Ok(rows)
}

/// A file of log text.
struct Log {
    path: String,
    size: String,
}

impl Log {
    fn new(folder: &Path, name: &str, bytes: u64) -> Result<Self> {
        let path = folder.join(name);
        payload::log_file(bytes, &path)?;
        let path = path.into_os_string().into_string().ok().context("a path that is not UTF-8")?;
        let size = match bytes / 1_000_000 {
            1_000 => "1 GB".to_owned(),
            megabytes => format!("{megabytes} MB"),
        };
        Ok(Self { path, size })
    }
}

/// Leaves `log` in the store.
fn run(scale: Scale, runner: &Runner, smaller: &Log, log: &Log) -> Result<Vec<Row>> {
    let copy = format!("{}.copy", log.path);
    let cat = |log: &Log| -> Result<_> {
        // What is there already would not have to be written.
        if runner.store.exists() {
            std::fs::remove_dir_all(&runner.store)?;
        }
        let (used, view) = runner.overspill(&["run", "--", "cat", &log.path], 0)?;
        ensure!(view.starts_with("[overspill: ") && view.len() < 4_000, "it was not reduced");
        Ok(used)
    };
    let of_smaller = cat(smaller)?.peak_memory as f64 / 1e6;
    let mut peak = 0;
    let times = medians(
        scale.long_rounds,
        [
            &mut || {
                let used = cat(log)?;
                peak = peak.max(used.peak_memory);
                Ok(used.time)
            },
            &mut || {
                let (from, to) = (format!("if={}", log.path), format!("of={copy}"));
                let dd = ["dd", &from, &to, "bs=1M", "conv=fsync", "status=none"];
                let used = runner.run(&dd, 0)?.0;
                std::fs::remove_file(&copy)?;
                Ok(used.time)
            },
        ],
    )?;
    let (what, peak) = (format!("overspill run -- cat, {} of log", log.size), peak as f64 / 1e6);
    Ok(vec![
        Row::times(&what, times, "dd bs=1M conv=fsync", 2.5),
        Row::below(format!("{what}: peak memory"), peak, MB, 32.0),
        Row::below(
            format!("{what}: peak memory, times that of {}", smaller.size),
            peak / of_smaller,
            "",
            FLAT,
        ),
    ])
}

/// Reads 200 lines anywhere, as the model does.
fn read(runner: &Runner, log: &Log) -> Result<Vec<Row>> {
    let (_, list) = runner.overspill(&["list", "--json"], 0)?;
    let list: serde_json::Value = serde_json::from_str(&list)?;
    let handle = list[0]["handle"].as_str().context("nothing is stored")?;
    let lines = list[0]["lines"].as_u64().context("no lines")?;
    // The golden section puts each read far from those before it.
    let places = (1..=READS).map(|k| (k as f64 * 0.618_034).fract() * (lines - 200) as f64);
    let limits =
        ToolOutputLimits::builder().store(Arc::new(LocalStore::open(&runner.store)?)).build()?;
    let mut times = Vec::new();
    for place in places {
        let args = json!({ "handle": handle, "offset": place as u64, "limit": 200 });
        let mut answer = String::new();
        times.push(time(|| answer = block_on(limits.read(&args))));
        ensure!(answer.lines().count() == 201, "{answer}");
    }
    let middle = (lines / 2).to_string();
    let (used, _) =
        runner.overspill(&["read", handle, "--offset", &middle, "--limit", "200"], 0)?;
    let what = format!("read 200 lines anywhere in {}", log.size);
    Ok(vec![
        Row::below(format!("{what}, in process"), ms(median(times)), MS, 1.0)
            .with_incumbent("read"),
        Row::below(
            format!("{what}: peak memory of overspill read"),
            used.peak_memory as f64 / 1e6,
            MB,
            32.0,
        )
        .with_incumbent("read_memory"),
    ])
}

fn grep(scale: Scale, runner: &Runner, log: &Log) -> Result<Row> {
    let (_, list) = runner.overspill(&["list", "--json"], 0)?;
    let list: serde_json::Value = serde_json::from_str(&list)?;
    let handle = list[0]["handle"].as_str().context("nothing is stored")?;
    let times = medians(
        scale.long_rounds,
        [&mut || Ok(runner.overspill(&["grep", payload::ABSENT, handle], 1)?.0.time), &mut || {
            Ok(runner.run(&["grep", "-c", "-F", payload::ABSENT, &log.path], 1)?.0.time)
        }],
    )?;
    let what = format!("overspill grep, absent text in {}", log.size);
    Ok(Row::times(what, times, "LC_ALL=C grep -c -F", 2.0))
}

fn start(runner: &Runner) -> Result<Row> {
    std::fs::remove_dir_all(&runner.store)?;
    runner.overspill(&["run", "--call", "small", "--", "seq", "5000"], 0)?;
    let (_, list) = runner.overspill(&["list", "--json"], 0)?;
    let list: serde_json::Value = serde_json::from_str(&list)?;
    let handle = list[0]["handle"].as_str().context("nothing is stored")?;
    let [time] = medians(
        STARTS,
        [&mut || Ok(runner.overspill(&["read", handle, "--limit", "1"], 0)?.0.time)],
    )?;
    Ok(Row::below("start of overspill read", ms(time), MS, 10.0))
}
