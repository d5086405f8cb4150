//! Leases: a run that is at work keeps what it stored from being swept.
//!
//! A lease is a file `.leases/RUN` whose modification time is when it ends. So nothing has to be
//! cleaned after a crash, and a sweeper that goes by modification times leaves it alone.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use overspill::store::StoreError;

use super::fault::sort;
use super::folder::{Folder, Root, make_private, stat_of};

/// A run's name never starts with a dot.
const LEASES: &str = ".leases";

/// The longest lease, about a hundred years: file systems keep no time much later.
const MAX_LEASE: Duration = Duration::from_secs(100 * 366 * 86_400);

/// Keeps what `run` stored, and will store, for `ttl` from now. A lease is never shortened: several
/// processes may hold one on the same run.
pub(super) fn take(root: &Root, run: &str, ttl: Duration) -> Result<(), StoreError> {
    let root = root.open_or_make()?;
    let (leases, _) = root.folder_or_make(LEASES)?;
    {
        // Else it could be removed as one that has ended before it is prolonged.
        let _alone = leases.lock_alone()?;
        let file = leases.file_or_make(run)?;
        make_private(&file)?;
        let until = SystemTime::now() + ttl.min(MAX_LEASE);
        if stat_of(&file)?.modified < until {
            file.set_modified(until).map_err(|error| sort("take a lease", error))?;
        }
    }
    // A sweep that looked before may still be deleting; once this lock is had, it has looked again.
    if let Some(folder) = root.folder(run)? {
        folder.lock_shared()?;
    }
    Ok(())
}

/// The runs that are under a lease at the time `at`.
pub(super) fn held(root: &Folder, at: SystemTime) -> Result<BTreeSet<String>, StoreError> {
    let mut held = BTreeSet::new();
    let Some(leases) = root.folder(LEASES)? else { return Ok(held) };
    for run in leases.names()? {
        if is_held_in(&leases, &run, at)? {
            held.insert(run);
        }
    }
    Ok(held)
}

/// Whether `run` is under a lease at the time `at`.
pub(super) fn is_held(root: &Folder, run: &str, at: SystemTime) -> Result<bool, StoreError> {
    match root.folder(LEASES)? {
        Some(leases) => is_held_in(&leases, run, at),
        None => Ok(false),
    }
}

/// Removes the leases that have ended by `at`.
pub(super) fn remove_ended(root: &Folder, at: SystemTime) -> Result<(), StoreError> {
    let Some(leases) = root.folder(LEASES)? else { return Ok(()) };
    let _alone = leases.lock_alone()?;
    for run in leases.names()? {
        if !is_held_in(&leases, &run, at)? {
            leases.remove(&run)?;
        }
    }
    Ok(())
}

fn is_held_in(leases: &Folder, run: &str, at: SystemTime) -> Result<bool, StoreError> {
    match leases.file_if_one(run)? {
        Some(file) => Ok(stat_of(&file)?.modified > at),
        None => Ok(false),
    }
}
