//! `overspill export`: the original bytes.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use futures_lite::future::block_on;
use overspill::store::{Digest, Stored};
use serde_json::json;
use tempfile::NamedTempFile;

use crate::cli;
use crate::failure::Failure;
use crate::output::{self, Out, Progress};
use crate::settings::Settings;
use crate::shelf::Shelf;

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
    let cannot_write =
        |error: io::Error| Failure::from(error).context(format!("cannot write {}", path.display()));
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty())
        && fs::metadata(folder).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    {
        let (path, folder) = (path.display(), folder.display());
        return Err(Failure::new(format!(
            "cannot write {path}: the folder {folder} does not exist"
        ))
        .hint("make it, or name a file elsewhere"));
    }
    // Through a link to what it stands for; what is no regular file is written into, not replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    let there = fs::metadata(&target).ok();
    if there.as_ref().is_some_and(|there| there.is_dir()) {
        return Err(
            Failure::new(format!("{} is a folder", path.display())).hint("name a file in it")
        );
    }
    if there.as_ref().is_some_and(|there| !there.is_file()) {
        let mut file = fs::OpenOptions::new().write(true).open(&target).map_err(cannot_write)?;
        block_on(async {
            let stored = shelf.stored(&handle).await?;
            copy(&stored, false, |piece| file.write_all(piece).map_err(cannot_write)).await
        })?;
        return Ok(0);
    }
    // Written aside, so that there is no file, or the one there was, until all of it is there.
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))
        // Without the name it has aside, which says nothing to anyone.
        .map_err(|error| cannot_write(error.kind().into()))?;
    let receipt = block_on(async {
        let stored = shelf.stored(&handle).await?;
        copy(&stored, false, |piece| file.write_all(piece).map_err(cannot_write)).await?;
        Ok::<_, Failure>(stored.receipt().clone())
    })?;
    if args.force {
        if let Some(there) = there {
            file.as_file().set_permissions(there.permissions()).map_err(cannot_write)?;
        }
        file.persist(&target).map_err(|error| cannot_write(error.error))?;
    } else {
        file.persist_noclobber(&target).map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => taken(path),
            _ => cannot_write(error.error),
        })?;
    }
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
