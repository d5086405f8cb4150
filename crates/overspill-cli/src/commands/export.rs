//! `overspill export`: the original bytes.

use std::fs;
use std::path::Path;

use futures_lite::future::block_on;
use overspill::store::{Digest, Stored};
use serde_json::json;

use crate::cli;
use crate::failure::Failure;
use crate::output::{self, Out, Progress};
use crate::settings::Settings;
use crate::shelf::Shelf;
use crate::target::Target;

/// Bytes read at once.
const PIECE_BYTES: u64 = 1 << 20;

pub(crate) fn export(common: &cli::Common, args: &cli::Export) -> Result<u8, Failure> {
    let settings = Settings::of_reader(common)?;
    let shelf = Shelf::open(&settings)?;
    let handle = shelf.handle(&args.handle)?;
    let mut out = Out::new();
    let Some(path) = &args.output else {
        if common.json {
            return Err(Failure::usage("bytes on standard output leave no room for JSON")
                .hint("name a file with --output FILE, or leave out --json"));
        }
        block_on(async {
            let stored = shelf.stored(&handle).await?;
            copy(&stored, output::is_on_terminal(), |piece| Ok(out.bytes(piece)?)).await
        })?;
        return Ok(out.flush().map(|()| 0)?);
    };

    if !args.force && fs::symlink_metadata(path).is_ok() {
        return Err(taken(path));
    }
    let receipt = Target::at(path)?.write(args.force, taken, |write| {
        block_on(async {
            let stored = shelf.stored(&handle).await?;
            copy(&stored, false, write).await?;
            Ok(stored.receipt().clone())
        })
    })?;
    let bytes = output::grouped(receipt.bytes);
    match common.json {
        true => out.json(&json!({
            "handle": handle, "file": path.display().to_string(), "bytes": receipt.bytes, "digest": receipt.digest,
        }))?,
        false => out.text(&format!("{bytes} bytes written to {}", path.display()))?,
    }
    Ok(out.flush().map(|()| 0)?)
}

/// Hands all bytes to `write`, and fails at the end if they are not those that were stored.
async fn copy(
    stored: &Stored,
    is_on_terminal: bool,
    mut write: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let receipt = stored.receipt();
    let mut progress = Progress::of_bytes("exporting", receipt.bytes).hidden_if(is_on_terminal);
    let mut hasher = blake3::Hasher::new();
    let mut at = 0;
    while at < receipt.bytes {
        let piece = stored.bytes(at..at + PIECE_BYTES).await?;
        if piece.is_empty() {
            break;
        }
        hasher.update(&piece);
        write(&piece)?;
        at += piece.len() as u64;
        progress.set(at);
    }
    if Digest::from(hasher.finalize()) != receipt.digest {
        let handle = &receipt.handle;
        return Err(Failure::new(format!("{handle} is damaged: these are not the bytes stored")));
    }
    Ok(())
}

fn taken(path: &Path) -> Failure {
    Failure::new(format!("{} exists", path.display()))
        .hint("name another file, or replace it with --force")
}
