//! A command: how long it takes, and how much memory at most.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use serde::{Deserialize, Serialize};

/// What a command used.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Used {
    /// From its start to its end.
    pub(crate) time: Duration,
    /// What it and the largest of its own children held in memory at once, in bytes.
    pub(crate) peak_memory: u64,
    pub(crate) status: i32,
}

/// Runs commands in a folder, each as the only child of a process of its own: what the kernel says
/// of memory counts what a process held before it became another program, and this one holds
/// payloads.
#[derive(Debug)]
pub(crate) struct Runner {
    report: PathBuf,
    pub(crate) overspill: PathBuf,
    pub(crate) store: PathBuf,
}

impl Runner {
    /// Builds the command line, and runs it with a store in `folder`.
    pub(crate) fn new(folder: &Path) -> Result<Self> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo)
            .args(["build", "--release", "--quiet", "-p", "overspill-cli"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .context("cannot start cargo")?;
        ensure!(built.success(), "the command line does not build");
        let overspill = std::env::current_exe()?.with_file_name("overspill");
        Ok(Self { report: folder.join("used.json"), overspill, store: folder.join("store") })
    }

    /// Runs a command and returns what it used and wrote to its standard output.
    pub(crate) fn run(&self, command: &[&str], status: i32) -> Result<(Used, String)> {
        let output = Command::new(std::env::current_exe()?)
            .args(["measure".as_ref(), self.report.as_os_str(), "--".as_ref()])
            .args(command)
            .env("LC_ALL", "C")
            .env("OVERSPILL_STORE", &self.store)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()?;
        ensure!(output.status.success(), "cannot measure {command:?}");
        let used: Used = serde_json::from_slice(&std::fs::read(&self.report)?)?;
        ensure!(used.status == status, "{command:?} ends with {}", used.status);
        Ok((used, String::from_utf8(output.stdout)?))
    }

    /// The same for a command of `overspill`.
    pub(crate) fn overspill(&self, args: &[&str], status: i32) -> Result<(Used, String)> {
        let overspill = self.overspill.to_str().context("a path that is not UTF-8")?;
        self.run(&[&[overspill], args].concat(), status)
    }
}

/// Runs a command, waits for it and writes what it used to `report`.
pub(crate) fn measure_and_report(report: &Path, command: &[OsString]) -> Result<()> {
    let Some((program, args)) = command.split_first() else { bail!("no command is given") };
    let start = Instant::now();
    let status = Command::new(program).args(args).status()?;
    let time = start.elapsed();
    // Linux counts in KiB.
    let peak_memory = getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss() as u64 * 1024;
    let used = Used { time, peak_memory, status: status.code().unwrap_or(-1) };
    Ok(std::fs::write(report, serde_json::to_vec(&used)?)?)
}
