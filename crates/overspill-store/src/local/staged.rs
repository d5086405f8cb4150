//! A blob being written: a locked file in the staging folder, until a commit links it under its
//! name.

use std::fs::{File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::{io, process};

use bytes::Bytes;
use overspill::store::{BlobName, Commit, StoreError};

use super::fault::sort;
use super::folder::{Folder, Link, Root, TRIES, make_private, touch};

/// The folder of blobs that have no name yet. A run's name never starts with a dot.
const STAGING: &str = ".staging";

/// Bytes held back so that small appends need no system call and no thread of their own: more
/// than most spills have, and small beside what a process needs anyway.
const HELD_BYTES: usize = 64 * 1024;

/// A file being written. Dropping it removes its staged name; a commit has given the file another
/// by then.
pub(super) struct Staged {
    root: Arc<Root>,
    /// Its name in the staging folder.
    name: String,
    /// Locked, so that a cleaner can tell it from a crashed writer's, whatever process ids mean
    /// to each of them.
    file: File,
    held: Vec<u8>,
}

impl Staged {
    /// A new file.
    pub(super) fn create(root: &Arc<Root>) -> Result<Self, StoreError> {
        for _ in 0..TRIES {
            // It needs no sync: what a crash leaves in it is of no use.
            let (staging, _) = root.open_or_make()?.folder_or_make(STAGING)?;
            let random = RandomState::new().hash_one(0);
            let name = format!("{}-{random:016x}", process::id());
            let Some(file) = staging.new_file(&name)? else { continue };
            let staged = Self { root: Arc::clone(root), name, file, held: Vec::new() };
            // Between its making and its locking, a cleaner may take it for a leftover.
            match staged.file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => continue,
                Err(TryLockError::Error(error)) => return Err(sort("lock a new blob", error)),
            }
            let meta = staged.file.metadata().map_err(|error| sort("open a new blob", error))?;
            if meta.nlink() == 0 {
                continue;
            }
            make_private(&staged.file)?;
            return Ok(staged);
        }
        Err(sort("open a new blob", io::Error::other("each was removed at once")))
    }

    /// Holds bytes back if there is room; then there is no need to write them yet.
    pub(super) fn hold(&mut self, bytes: &Bytes) -> bool {
        let fits = self.held.len() + bytes.len() <= HELD_BYTES;
        if fits {
            self.held.extend_from_slice(bytes);
        }
        fits
    }

    /// Writes what is held and then `bytes`.
    pub(super) fn write(&mut self, bytes: &Bytes) -> Result<(), StoreError> {
        self.flush()?;
        if !self.hold(bytes) {
            self.file.write_all(bytes).map_err(|error| sort("write a blob", error))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.file.write_all(&self.held).map_err(|error| sort("write a blob", error))?;
        self.held.clear();
        Ok(())
    }

    /// Links the file under its name if that is free, and renews the age of what has it if not.
    pub(super) fn commit(mut self, name: &BlobName) -> Result<Commit, StoreError> {
        self.flush()?;
        let file = name.file();
        let payload = BlobName::Payload(name.handle().clone()).file();
        let mut is_synced = false;
        let mut is_run_new = false;
        for _ in 0..TRIES {
            let root = self.root.open()?.ok_or_else(lost)?;
            let staging = root.folder(STAGING)?.ok_or_else(lost)?;
            let (run, is_new) = root.folder_or_make(name.handle().run())?;
            is_run_new |= is_new;
            let lock = run.lock_shared()?;

            let found = if renew(&run, &file)? {
                Commit::Existed
            } else if !is_synced {
                // Deferred to here, since a blob that is there already needs no sync; and not
                // under the lock, since it takes its time.
                drop(lock);
                touch(&self.file)?;
                self.file.sync_all().map_err(|error| sort("sync a blob", error))?;
                is_synced = true;
                continue;
            } else {
                match run.link(&staging, &self.name, &file)? {
                    Link::Made => Commit::Created,
                    Link::Taken => continue,
                    Link::Gone if staging.file(&self.name)?.is_none() => return Err(lost()),
                    Link::Gone => continue,
                }
            };
            if let BlobName::Index(_) = name {
                // An index committed says that its payload comes next: a sweep spares it.
                renew(&run, &payload)?;
            }
            drop(lock);
            if let BlobName::Payload(_) = name {
                run.sync()?;
            }
            if is_run_new {
                root.sync()?;
            }
            return Ok(found);
        }
        Err(sort("commit a blob", io::Error::other("what it wrote was removed again and again")))
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // What cannot be removed now is a leftover once the lock is gone.
        let folder = self.root.open().ok().flatten();
        if let Some(staging) = folder.and_then(|root| root.folder(STAGING).ok().flatten()) {
            let _ = staging.remove(&self.name);
        }
    }
}

/// What to do about leftovers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cleaning {
    Count,
    Remove,
}

/// Counts the staged files that nobody holds the lock of, and removes them or not.
pub(super) fn clean_leftovers(root: &Folder, cleaning: Cleaning) -> Result<u64, StoreError> {
    let mut count = 0;
    let Some(staging) = root.folder(STAGING)? else { return Ok(count) };
    for name in staging.names()? {
        let Some(file) = staging.file_if_one(&name)? else { continue };
        match file.try_lock() {
            Ok(()) => {
                let is_one = cleaning == Cleaning::Count || staging.remove(&name)?;
                count += u64::from(is_one);
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(sort("lock a leftover", error)),
        }
    }
    Ok(count)
}

/// Sets the age of a blob to now; `false` where there is none, or none any more.
fn renew(run: &Folder, file: &str) -> Result<bool, StoreError> {
    let Some(file) = run.file(file)? else { return Ok(false) };
    touch(&file)?;
    let meta = file.metadata().map_err(|error| sort("look at a blob", error))?;
    Ok(meta.nlink() > 0)
}

fn lost() -> StoreError {
    let what = "what was written was removed from the store's folder before it was committed";
    sort("commit a blob", io::Error::new(io::ErrorKind::NotFound, what))
}
