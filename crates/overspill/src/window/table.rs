//! The rows of models.tsv: text, sorted by name, found by halving.
//!
//! Searching the text itself needs no memory and no start-up: a dozen comparisons answer.

use super::Prices;

const TABLE: &str = include_str!("../../models/models.tsv");

/// One model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) window: u64,
    /// At most the window.
    pub(super) input: u64,
    pub(super) output: Option<u64>,
    pub(super) prices: Prices,
}

/// The row of exactly this name.
pub(super) fn find(name: &str) -> Option<Row> {
    Row::parse(line_of(name)?)
}

/// All rows, in order.
#[cfg(test)]
pub(super) fn rows() -> impl Iterator<Item = Row> {
    TABLE.lines().filter_map(Row::parse)
}

/// The line that begins with this name. Comments begin with `#`, which sorts before all names.
fn line_of(name: &str) -> Option<&'static str> {
    let bytes = TABLE.as_bytes();
    let (mut low, mut high) = (0, bytes.len());
    // Both are always starts of lines.
    while low < high {
        let middle = low + (high - low) / 2;
        let start = memchr::memrchr(b'\n', &bytes[low..middle]).map_or(low, |at| low + at + 1);
        let end = memchr::memchr(b'\n', &bytes[middle..high]).map_or(high, |at| middle + at);
        let line = &TABLE[start..end];
        match first_field(line).cmp(name) {
            std::cmp::Ordering::Less => low = (end + 1).min(high),
            std::cmp::Ordering::Equal => return Some(line),
            std::cmp::Ordering::Greater => high = start,
        }
    }
    None
}

fn first_field(line: &str) -> &str {
    line.split('\t').next().unwrap_or(line)
}

impl Row {
    /// `None` for a comment.
    fn parse(line: &'static str) -> Option<Self> {
        let mut fields = line.split('\t');
        let name = fields.next().filter(|name| !name.starts_with('#'))?;
        let mut tokens = || fields.next().and_then(|field| field.parse::<u64>().ok());
        let window = tokens()?;
        let input = tokens().unwrap_or(window);
        let output = tokens();
        let mut price = || fields.next().and_then(|field| field.parse::<f64>().ok());
        let prices =
            Prices { input: price(), output: price(), cache_read: price(), cache_write: price() };
        Some(Self { name, window, input, output, prices })
    }
}
