//! A row of the report: what was measured, beside what, and whether it is as it must be.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

/// One thing that was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) unit: &'static str,
    pub(crate) ours: f64,
    /// What else does the same, and what it needs.
    #[serde(flatten)]
    pub(crate) rival: Option<Rival>,
    #[serde(flatten)]
    pub(crate) must: Must,
    pub(crate) is_kept: bool,
    /// What the incumbent needs, in the row's unit, and by what name its measure says so.
    pub(crate) incumbent: Option<f64>,
    #[serde(skip)]
    pub(crate) incumbent_key: Option<&'static str>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Rival {
    pub(crate) rival: &'static str,
    pub(crate) needs: f64,
    pub(crate) ratio: f64,
}

/// The promise.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Must {
    /// At most so many times what the rival needs.
    AtMostTimes(f64),
    /// Less than this, in the row's unit.
    Below(f64),
}

pub(crate) const MS: &str = "ms";
pub(crate) const MB: &str = "MB";
pub(crate) const MS_PER_MB: &str = "ms/MB";

pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl Row {
    /// A row with a limit of its own.
    pub(crate) fn below(
        what: impl Into<String>,
        ours: f64,
        unit: &'static str,
        limit: f64,
    ) -> Self {
        let (what, must) = (what.into(), Must::Below(limit));
        Self {
            what,
            unit,
            ours,
            rival: None,
            must,
            is_kept: ours < limit,
            incumbent: None,
            incumbent_key: None,
        }
    }

    /// A row that compares two times.
    pub(crate) fn times(
        what: impl Into<String>,
        [ours, needs]: [Duration; 2],
        rival: &'static str,
        at_most: f64,
    ) -> Self {
        let ratio = ours.as_secs_f64() / needs.as_secs_f64();
        Self {
            what: what.into(),
            unit: MS,
            ours: ms(ours),
            rival: Some(Rival { rival, needs: ms(needs), ratio }),
            must: Must::AtMostTimes(at_most),
            is_kept: ratio <= at_most,
            incumbent: None,
            incumbent_key: None,
        }
    }

    /// The row with the name that the incumbent's measure gives it.
    pub(crate) fn with_incumbent(self, key: &'static str) -> Self {
        Self { incumbent_key: Some(key), ..self }
    }
}

/// All rows, and what they were measured on.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    machine: String,
    quick: bool,
    rows: Vec<Row>,
}

impl Report {
    pub(crate) fn new(quick: bool, folder: &Path, rows: Vec<Row>) -> Self {
        Self { machine: machine(folder), quick, rows }
    }

    /// Whether every row is as it must be.
    pub(crate) fn is_kept(&self) -> bool {
        self.rows.iter().all(|row| row.is_kept)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        let has_incumbent = self.rows.iter().any(|row| row.incumbent.is_some());
        let header = ["what", "ours", "beside it", "ratio", "must", "ok", "the incumbent"];
        let columns = header.len() - usize::from(!has_incumbent);
        table.set_header(&header[..columns]);
        for row in &self.rows {
            let amount = |value: f64| format!("{} {}", three_digits(value), row.unit);
            let rival = row.rival.as_ref();
            let cells = [
                row.what.clone(),
                amount(row.ours),
                rival.map_or(String::new(), |it| format!("{}: {}", it.rival, amount(it.needs))),
                rival.map_or(String::new(), |it| format!("{:.2}", it.ratio)),
                match row.must {
                    Must::AtMostTimes(times) => format!("<= {times}"),
                    Must::Below(limit) => format!("< {limit} {}", row.unit),
                },
                if row.is_kept { "yes" } else { "NO" }.to_owned(),
                row.incumbent.map_or(String::new(), amount),
            ];
            table.add_row(&cells[..columns]);
        }
        for column in [1, 3, 4, 6] {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let size = if self.quick { ", with smaller payloads" } else { "" };
        write!(f, "{}{size}\n\n{table}", self.machine)
    }
}

/// With three digits that count.
fn three_digits(value: f64) -> String {
    let whole = value.abs().max(1e-9).log10().floor() as i32;
    format!("{value:.*}", (2 - whole).clamp(0, 4) as usize)
}

/// The processor, how many there are, the kernel, the file system and what else is running.
fn machine(folder: &Path) -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let processor = read("/proc/cpuinfo")
        .lines()
        .find_map(|line| {
            line.strip_prefix("model name")?.split_once(": ").map(|it| it.1.to_owned())
        })
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or("?");
    let system = file_system(&read("/proc/mounts"), folder);
    format!("{processor}, {cores} cores; Linux {}; files on {system}; load {load}", kernel.trim())
}

/// The kind of file system that a folder is on: that of the longest mount point it is under.
fn file_system(mounts: &str, folder: &Path) -> String {
    let mount = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        let (point, kind) = (fields.next()?.to_owned(), fields.next()?.to_owned());
        folder.starts_with(&point).then_some((point.len(), kind))
    };
    mounts.lines().filter_map(mount).max_by_key(|it| it.0).map_or("?".to_owned(), |it| it.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let shown = [1234.5, 123.45, 12.345, 1.2345, 0.12345, 0.0].map(three_digits);
        assert_eq!(shown, ["1234", "123", "12.3", "1.23", "0.123", "0.0000"]);
    }

    #[test]
    fn a_folder_is_on_the_nearest_mount() {
        let mounts = "/dev/vda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n";
        assert_eq!(file_system(mounts, Path::new("/tmp/x")), "tmpfs");
        assert_eq!(file_system(mounts, Path::new("/home")), "ext4");
    }

    #[test]
    fn a_promise_is_kept_up_to_its_limit() {
        let second = Duration::from_secs(1);
        assert!(Row::times("", [second * 2, second], "", 2.0).is_kept);
        assert!(!Row::times("", [second * 3, second], "", 2.0).is_kept);
        assert!(!Row::below("", 5.0, MS, 5.0).is_kept);
    }
}
