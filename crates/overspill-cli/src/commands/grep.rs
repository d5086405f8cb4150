//! `overspill grep`: searches all of a payload, in flat memory.

use futures_lite::future::block_on;
use overspill::ansi;
use overspill::read::{Hit, Matches, Pattern};
use overspill::render::show_bytes;
use overspill::store::{Block, Stored};
use serde_json::json;

use crate::cli;
use crate::failure::{Failure, NOT_DONE, USAGE};
use crate::output::{self, Out, Progress};
use crate::settings::Settings;
use crate::shelf::Shelf;

pub(crate) fn grep(common: &cli::Common, args: &cli::Grep) -> Result<u8, Failure> {
    let pattern = match args.regex {
        true => Pattern::regex(&args.pattern)
            .map_err(|error| Failure::from(error).with_status(USAGE))?,
        false => Pattern::literal(&args.pattern),
    };
    let settings = Settings::of_reader(common)?;
    let shelf = Shelf::open(&settings)?;
    let handle = shelf.handle(&args.handle)?;
    block_on(async {
        let stored = shelf.stored(&handle).await?;
        let strip_ansi = settings.config.strip_ansi;
        let mut progress = Progress::of_bytes("searching", stored.receipt().bytes)
            .hidden_if(output::is_on_terminal());
        let mut matches = Matches::new(&pattern, strip_ansi, &stored, 0);
        let mut rows = Rows::new(&stored, strip_ansi, args.context, common.json);
        let (mut count, mut bytes) = (0, 0);
        while let Some(found) = matches.next().await? {
            bytes += found.bytes;
            progress.set(bytes);
            count += found.hits.len();
            if !args.count && !found.hits.is_empty() {
                for hit in &found.hits {
                    rows.hit(hit).await?;
                }
                rows.out.flush()?;
            }
        }
        rows.rest().await?;
        match (args.count, common.json) {
            (true, true) => rows.out.json(&json!({ "handle": handle, "count": count }))?,
            (true, false) => rows.out.text(&count.to_string())?,
            (false, _) => {}
        }
        rows.out.flush()?;
        Ok(if count == 0 { NOT_DONE } else { 0 })
    })
}

/// Writes lines that match and those around them, each once and in order.
struct Rows<'s> {
    out: Out,
    json: bool,
    context: u64,
    around: Around<'s>,
    /// The line behind the last one written.
    written: u64,
    /// The line behind the last one that is owed to a match before it.
    owed: u64,
}

impl<'s> Rows<'s> {
    fn new(stored: &'s Stored, strip_ansi: bool, context: u64, json: bool) -> Self {
        let around = Around { stored, strip_ansi, block: None };
        Self { out: Out::new(), json, context, around, written: 0, owed: 0 }
    }

    async fn hit(&mut self, hit: &Hit) -> Result<(), Failure> {
        if self.context > 0 {
            let before = hit.line.saturating_sub(self.context);
            if before <= self.owed {
                self.lines(self.written, hit.line).await?;
            } else {
                self.rest().await?;
                if self.written > 0 && !self.json {
                    self.out.bytes(b"--\n")?;
                }
                self.lines(before, hit.line).await?;
            }
        }
        self.row(hit.line, true, &hit.text)?;
        self.owed = hit.line.saturating_add(1).saturating_add(self.context);
        Ok(())
    }

    /// Writes what is owed to the last match.
    async fn rest(&mut self) -> Result<(), Failure> {
        let end = self.owed.min(self.around.stored.receipt().lines);
        self.lines(self.written, end).await
    }

    async fn lines(&mut self, from: u64, to: u64) -> Result<(), Failure> {
        for number in from..to {
            if let Some(text) = self.around.line(number).await? {
                self.row(number, false, &text)?;
            }
        }
        Ok(())
    }

    fn row(&mut self, number: u64, is_match: bool, text: &str) -> Result<(), Failure> {
        let text = text.trim_end_matches(['\n', '\r']);
        if self.json {
            self.out.json_line(&json!({ "line": number, "match": is_match, "text": text }))?;
        } else {
            let mark = if is_match { ':' } else { '-' };
            self.out.text(&format!("{number}{mark} {text}\n"))?;
        }
        self.written = number + 1;
        Ok(())
    }
}

/// Reads single lines, those that follow one another from one block.
struct Around<'s> {
    stored: &'s Stored,
    strip_ansi: bool,
    /// A block, and where each of its lines ends.
    block: Option<(Block, Vec<usize>)>,
}

impl Around<'_> {
    async fn line(&mut self, number: u64) -> Result<Option<String>, Failure> {
        let is_in = |block: &Block| {
            (block.first_line()..block.first_line() + block.line_count()).contains(&number)
        };
        if !self.block.as_ref().is_some_and(|(block, _)| is_in(block)) {
            self.block = self.stored.blocks(number).next().await?.map(|block| {
                let mut end = 0;
                let ends = block.lines().map(|line| {
                    end += line.bytes.len();
                    end
                });
                let ends = ends.collect();
                (block, ends)
            });
        }
        let Some((block, ends)) = &self.block else { return Ok(None) };
        let Some(nth) = number.checked_sub(block.first_line()).map(|nth| nth as usize) else {
            return Ok(None);
        };
        let start = nth.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
        let Some(bytes) = ends.get(nth).and_then(|end| block.bytes().get(start..*end)) else {
            return Ok(None);
        };
        let bytes = if self.strip_ansi { ansi::strip(bytes) } else { bytes.into() };
        Ok(Some(show_bytes(&bytes).into_owned()))
    }
}
