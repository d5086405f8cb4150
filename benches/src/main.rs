//! Measures what Overspill promises of its speed, beside what else does the same, in one run.
//!
//! `cargo run --release -p overspill-bench`; what is compared stands in `docs/benchmarks.md`.

#![expect(clippy::print_stdout, reason = "it reports")]

mod child;
mod commands;
mod history;
mod incumbent;
mod library;
mod payload;
mod rounds;
mod row;
mod wire;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};

use crate::row::Report;

/// Measures what Overspill promises of its speed. Exits with 1 where a promise is not kept.
#[derive(Debug, Parser)]
struct Args {
    /// Smaller payloads and fewer rounds
    #[arg(long)]
    quick: bool,
    /// Prints JSON
    #[arg(long)]
    json: bool,
    /// Where the payloads rest while it runs, 3 GB at most; by default the folder for temporary
    /// files. One in memory says nothing of what a sync costs.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Measures the incumbent as well, with a Python that has it installed; `benches/incumbent.py`
    /// says how
    #[arg(long, value_name = "PYTHON")]
    incumbent: Option<PathBuf>,
    #[command(subcommand)]
    inner: Option<Inner>,
}

#[derive(Debug, Subcommand)]
enum Inner {
    /// Runs a command and reports what it used; this program's own affair
    #[command(hide = true)]
    Measure {
        report: PathBuf,
        #[arg(last = true)]
        command: Vec<OsString>,
    },
}

/// How much is measured.
#[derive(Debug, Clone, Copy)]
struct Scale {
    /// The log that commands work on, in bytes.
    log: u64,
    /// A smaller one, to see whether memory grows with the log.
    smaller_log: u64,
    /// What is spilled from memory, in bytes.
    spilled: usize,
    /// How many small payloads are spilled into one store.
    small_spills: usize,
    /// How often what takes seconds is done.
    long_rounds: usize,
    /// How often what takes milliseconds is done.
    short_rounds: usize,
}

const FULL: Scale = Scale {
    log: 1_000_000_000,
    smaller_log: 200_000_000,
    spilled: 20_000_000,
    small_spills: 3_000,
    long_rounds: 5,
    short_rounds: 15,
};

const QUICK: Scale = Scale {
    log: 100_000_000,
    smaller_log: 20_000_000,
    spilled: 5_000_000,
    small_spills: 600,
    long_rounds: 3,
    short_rounds: 5,
};

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    if let Some(Inner::Measure { report, command }) = args.inner {
        child::measure_and_report(&report, &command)?;
        return Ok(ExitCode::SUCCESS);
    }
    if cfg!(debug_assertions) {
        bail!("what is not optimized says nothing: cargo run --release -p overspill-bench");
    }
    let scale = if args.quick { QUICK } else { FULL };
    let folder = match &args.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };

    let mut rows = Vec::new();
    rows.extend(library::excerpts(scale)?);
    rows.push(library::strip_ansi(scale)?);
    rows.extend(history::rows(scale)?);
    rows.extend(commands::rows(scale, folder.path())?);
    rows.extend(library::spills(scale, folder.path())?);
    rows.extend(library::time_to_live(scale, folder.path())?);
    rows.extend(wire::rows(scale)?);
    if let Some(python) = &args.incumbent {
        incumbent::compare(python, scale, folder.path(), &mut rows)?;
    }

    let report = Report::new(args.quick, folder.path(), rows);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        println!("{report}");
    }
    Ok(if report.is_kept() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
