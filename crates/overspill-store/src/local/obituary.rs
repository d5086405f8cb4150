//! What was swept, when and why: a log of bounded length, read only where a payload is missing.
//!
//! Each line of `.expired` is a handle, the second since 1970 and the limit that was reached. A
//! line is whole or, after a crash, passed over; each batch begins with a line end, so that it is
//! not glued to a torn one.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use overspill::store::{Cause, Expired, Expiry, Handle, StoreError};

use super::fault::sort;
use super::folder::{Folder, make_private};

/// A run's name never starts with a dot.
const LOG: &str = ".expired";

/// The log while it is being shortened.
const NEW_LOG: &str = ".expired.new";

/// The longest the log gets, but for the last batch: about 12,000 lines, read in a millisecond.
/// What falls out of it still reads as gone, without the day.
const MAX_LOG_BYTES: u64 = 1 << 20;

/// The last second of the year 9999, which nothing true comes after.
const LAST_SECOND: u64 = 253_402_300_799;

/// Writes down that these payloads expired at `at`. Only one process may do so at a time.
pub(super) fn add(root: &Folder, gone: &[Expired], at: SystemTime) -> Result<(), StoreError> {
    if gone.is_empty() {
        return Ok(());
    }
    let second = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut lines = String::from("\n");
    for Expired { handle, cause, .. } in gone {
        lines.push_str(&match cause {
            Cause::Age(max_age) => format!("{handle} {second} age {}\n", max_age.as_secs()),
            Cause::Size(max_bytes) => format!("{handle} {second} size {max_bytes}\n"),
        });
    }
    let failed = |error| sort("write down what expired", error);
    let mut log = root.file_or_make(LOG)?;
    make_private(&log)?;
    let len = log.seek(SeekFrom::End(0)).map_err(failed)?;
    log.write_all(lines.as_bytes()).map_err(failed)?;
    if len + lines.len() as u64 > MAX_LOG_BYTES {
        shorten(root, &mut log)?;
    }
    Ok(())
}

/// When and why a payload expired, if that is written down.
pub(super) fn find(root: &Folder, handle: &Handle) -> Option<Expiry> {
    let mut bytes = Vec::new();
    root.file_if_one(LOG).ok()??.take(2 * MAX_LOG_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let of_handle = format!("\n{handle} ");
    // It may have been stored again and have expired again: the last time counts.
    let line = text.rmatch_indices(&of_handle).find_map(|(start, _)| {
        let line = &text[start + of_handle.len()..];
        line.split_once('\n').map(|(line, _)| line)
    })?;
    parse(line)
}

fn parse(line: &str) -> Option<Expiry> {
    let mut words = line.split(' ');
    let second: u64 = words.next()?.parse().ok()?;
    let at = UNIX_EPOCH + Duration::from_secs(second.min(LAST_SECOND));
    let (kind, limit) = (words.next()?, words.next()?.parse().ok()?);
    let cause = match kind {
        "age" => Cause::Age(Duration::from_secs(limit)),
        "size" => Cause::Size(limit),
        _ => return None,
    };
    Some(Expiry { at, cause })
}

/// Keeps the last half of the log. Readers see the old log or the new one.
fn shorten(root: &Folder, log: &mut File) -> Result<(), StoreError> {
    let failed = |error| sort("shorten the list of what expired", error);
    let mut kept = Vec::new();
    log.seek(SeekFrom::End(-(MAX_LOG_BYTES as i64) / 2)).map_err(failed)?;
    log.read_to_end(&mut kept).map_err(failed)?;
    let start = kept.iter().position(|&byte| byte == b'\n').unwrap_or(kept.len());
    root.remove(NEW_LOG)?;
    let mut new = root.file_or_make(NEW_LOG)?;
    make_private(&new)?;
    new.write_all(&kept[start..]).map_err(failed)?;
    root.rename(NEW_LOG, LOG)
}
