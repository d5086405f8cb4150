//! `overspill list`: what is stored.

use std::cmp::Reverse;

use futures_lite::future::block_on;
use overspill::ToolCall;
use overspill::store::{BlobStat, Digest, Handle, PartName, StoreExt, Stored};
use serde::Serialize;

use crate::cli;
use crate::failure::Failure;
use crate::output::{self, Out};
use crate::settings::Settings;
use crate::shelf::Shelf;

/// One payload; as `--json` writes it.
#[derive(Debug, Serialize)]
struct Entry {
    handle: Handle,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<u64>,
    modified: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    damaged: Option<String>,
}

pub(crate) fn list(common: &cli::Common, args: &cli::List) -> Result<u8, Failure> {
    let settings = Settings::of_reader(common)?;
    let shelf = Shelf::open(&settings)?;
    let mut found = block_on(shelf.store.list(None))?;
    if let Some(run) = &args.run_id {
        // Handles spell a run as it can stand in a file's name; either spelling finds it.
        let spelled = ToolCall::new(run.as_str(), "", "");
        let spelled = Handle::new(&spelled, PartName::Value(0), &Digest::of(b""));
        found.retain(|(handle, _)| handle.run() == run || handle.run() == spelled.run());
    }
    found.sort_by(|(a, left), (b, right)| {
        (Reverse(left.modified), a).cmp(&(Reverse(right.modified), b))
    });
    let mut entries = Vec::new();
    for (handle, stat) in found {
        if let Some(entry) = block_on(entry(&shelf, handle, &stat))? {
            entries.push((entry, stat.modified));
        }
    }

    let mut out = Out::new();
    if common.json {
        out.json(&entries.iter().map(|(entry, _)| entry).collect::<Vec<_>>())?;
    } else if entries.is_empty() {
        out.text("nothing is stored")?;
    } else {
        let rows = entries.iter().map(|(entry, modified)| {
            vec![
                entry.handle.to_string(),
                entry.tool.clone().unwrap_or_default(),
                output::grouped(entry.bytes),
                entry.lines.map_or_else(|| "damaged".to_owned(), output::grouped),
                output::age(*modified),
            ]
        });
        let head = ["HANDLE", "TOOL", "BYTES", "LINES", "AGE"];
        out.text(&output::table(&head, &[2, 3, 4], rows.collect()))?;
    }
    Ok(out.flush().map(|()| 0)?)
}

/// What there is to say of a payload; nothing if it was removed since it was listed.
async fn entry(shelf: &Shelf, handle: Handle, stat: &BlobStat) -> Result<Option<Entry>, Failure> {
    let mut entry = Entry {
        handle,
        tool: None,
        bytes: stat.len,
        lines: None,
        modified: output::unix(stat.modified),
        damaged: None,
    };
    match Stored::open(&shelf.port, &entry.handle).await {
        Ok(stored) => {
            entry.tool = Some(stored.receipt().tool.clone());
            entry.lines = Some(stored.receipt().lines);
        }
        Err(error) if error.is_gone() => return Ok(None),
        // One that cannot be read does not keep the others from being listed.
        Err(error) => entry.damaged = Some(error.to_string()),
    }
    Ok(Some(entry))
}
