//! Everything that is printed: results on standard output; errors, warnings and progress on
//! standard error.

use std::error::Error;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::time::{Duration, Instant, SystemTime};

use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::failure::{Failure, explain};

/// What takes no longer than this gets no progress bar.
const QUICK: Duration = Duration::from_millis(500);

/// Standard output, gathered into larger writes.
#[derive(Debug)]
pub(crate) struct Out(BufWriter<StdoutLock<'static>>);

impl Out {
    pub(crate) fn new() -> Self {
        Self(BufWriter::with_capacity(64 * 1024, io::stdout().lock()))
    }

    /// Writes bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes).map_err(|error| named(&error))
    }

    /// Writes text, and ends its last line.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        self.bytes(text.as_bytes())?;
        if text.ends_with('\n') { Ok(()) } else { self.bytes(b"\n") }
    }

    /// Writes a value over several lines.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut self.0, value).map_err(|error| named(&error.into()))?;
        self.bytes(b"\n")
    }

    /// Writes a value on one line.
    pub(crate) fn json_line(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.0, value).map_err(|error| named(&error.into()))?;
        self.bytes(b"\n")
    }

    /// Writes what is gathered; whatever is printed must end with it.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(|error| named(&error))
    }
}

/// The error, and what could not be written; its kind stays, since a closed pipe is none.
fn named(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("standard output could not be written: {error}"))
}

/// A table with a head; the columns numbered in `right` hold numbers.
pub(crate) fn table(head: &[&str], right: &[usize], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if !head.is_empty() {
        table.set_header(head);
    }
    // A tool may have any name: what would move the cursor is shown, not done.
    let plain = |cell: String| match cell.contains(char::is_control) {
        true => cell.escape_debug().to_string(),
        false => cell,
    };
    table.add_rows(rows.into_iter().map(|row| row.into_iter().map(plain).collect::<Vec<_>>()));
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if right.contains(&i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines = table.lines().map(|line| line.trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

/// Says why a command failed.
pub(crate) fn error(failure: &Failure) {
    say("error", "31", &failure.to_string());
}

/// Says what could not be done.
pub(crate) fn warning(warning: &(dyn Error + 'static)) {
    say("warning", "33", &explain(warning));
}

/// Says on standard error what was done, where standard output is taken.
pub(crate) fn report(message: &str) {
    let _ = writeln!(io::stderr().lock(), "{message}");
}

/// Says something that a person should know.
pub(crate) fn notice(message: &str) {
    say("warning", "33", message);
}

/// One message at a time, in one write, so that commands running at once do not mix their lines.
/// Where even that fails there is nowhere left to say so.
fn say(kind: &str, colour: &str, message: &str) {
    let label = match wants_colour() {
        true => format!("overspill: \x1b[1;{colour}m{kind}:\x1b[0m"),
        false => format!("overspill: {kind}:"),
    };
    let _ = io::stderr().write_all(format!("{label} {message}\n").as_bytes());
}

fn wants_colour() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    io::stderr().is_terminal()
        && !is_set("NO_COLOR")
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether standard output is a terminal, where a progress bar would stand in the way.
pub(crate) fn is_on_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Shows how far something has come, on a terminal, once it turns out to take its time.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    begun: Instant,
    may_show: bool,
}

impl Progress {
    /// Something of `total` bytes.
    pub(crate) fn of_bytes(doing: &str, total: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let template = "{msg} {wide_bar} {bytes} of {total_bytes}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(doing.to_owned());
        Self { bar, begun: Instant::now(), may_show: true }
    }

    /// `total` things of one kind.
    pub(crate) fn of_count(doing: &str, total: u64) -> Self {
        let progress = Self::of_bytes(doing, total);
        if let Ok(style) =
            ProgressStyle::with_template("{msg} {wide_bar} {human_pos} of {human_len}")
        {
            progress.bar.set_style(style);
        }
        progress
    }

    /// Shows nothing if `hidden`.
    #[must_use]
    pub(crate) fn hidden_if(mut self, hidden: bool) -> Self {
        self.may_show = !hidden;
        self
    }

    /// So much is done.
    pub(crate) fn set(&mut self, done: u64) {
        if self.may_show && self.begun.elapsed() > QUICK {
            // It draws on a terminal only.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.may_show = false;
        }
        self.bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Digits in groups of three.
pub(crate) fn grouped(n: u64) -> String {
    indicatif::HumanCount(n).to_string()
}

/// So many things of a kind.
pub(crate) fn counted(count: u64, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{} {what}{s}", grouped(count))
}

/// Words in lines of at most a hundred characters.
pub(crate) fn wrapped(text: &str) -> String {
    const WIDTH: usize = 100;
    let mut lines = String::with_capacity(text.len());
    let mut width = 0;
    for word in text.split_whitespace() {
        let chars = word.chars().count();
        if width > 0 {
            let fits = width + 1 + chars <= WIDTH;
            lines.push(if fits { ' ' } else { '\n' });
            width = if fits { width + 1 } else { 0 };
        }
        lines.push_str(word);
        width += chars;
    }
    lines
}

/// How long ago, in the largest unit that fits.
pub(crate) fn age(since: SystemTime) -> String {
    let seconds = since.elapsed().unwrap_or_default().as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Whole seconds since 1970; negative before.
pub(crate) fn unix(time: SystemTime) -> i64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => since.as_secs() as i64,
        Err(before) => {
            let before = before.duration();
            -((before.as_secs() + u64::from(before.subsec_nanos() > 0)) as i64)
        }
    }
}
