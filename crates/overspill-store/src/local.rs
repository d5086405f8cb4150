//! A store of files under one root, private to one user.
//!
//! ```text
//! ROOT/                 0700, owned by the user, no symbolic link
//! ├── .staging/         blobs being written; each is locked by its writer
//! └── RUN/
//!     ├── CALL.DIGEST       a payload, byte for byte
//!     └── CALL.DIGEST.idx   its index
//! ```
//!
//! # What a crash leaves
//!
//! A blob is written in `.staging`, synced, and only then linked under its name, so whatever has
//! a name is whole. A spill takes three syncs, the least that keeps the promise through a power
//! cut:
//!
//! 1. The index's bytes, before its name. It could be built again from the payload, but not the
//!    tool and media type it tells of; and since nothing is ever overwritten, a torn one would
//!    stay in the way.
//! 2. The payload's bytes, before its name: else the name could outlive the bytes.
//! 3. The run's folder, after the payload's name, which also holds the index's name: else a
//!    receipt could be given for a name that is lost. Nothing relies on the index's name before.
//!
//! The root is synced once for each run's folder made in it.
//!
//! # Several processes
//!
//! Writers need no lock against each other: a link fails where the name is taken. They share a
//! lock on the run's folder while they link a blob or renew its age, and a deletion takes that
//! lock alone, so a sweep cannot delete what was committed again since it looked. Whatever else
//! deletes by modification time does not know of the lock; a commit that finds the name gone again
//! links it anew.

mod fault;
mod folder;
mod staged;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use blocking::unblock;
use bytes::Bytes;
use overspill::BoxFuture;
use overspill::store::{
    BlobName, BlobStat, ByteRange, Commit, Handle, Slice, Stage, Store, StoreError, StoreExt,
};
use rustix::buffer::spare_capacity;
use rustix::io::{pread, retry_on_intr};

use fault::sort;
use folder::{Folder, Root, stat_of};
use staged::Staged;

/// The age from which an index without a payload counts as a leftover. A live one waits only
/// for its payload to be synced: minutes, at most, on a slow disk.
const ORPHANED_AFTER: Duration = Duration::from_secs(3600);

/// Stores blobs as files under one root.
///
/// It keeps nothing open between operations: where the root was removed, the next write makes it
/// anew. Blocking work runs on a thread pool of its own, so any executor will do.
#[derive(Debug, Clone)]
pub struct LocalStore {
    root: Arc<Root>,
}

struct LocalStage {
    /// `None` once an append failed or was abandoned halfway: what was written is then unknown,
    /// and the staged file is already removed.
    staged: Option<Staged>,
}

impl LocalStore {
    /// A store in the folder `root`, which the first write makes, with its parents, where it is
    /// not there yet; a relative path starts at the current directory as it is now.
    ///
    /// Fails with [`StoreError::Refused`] if `root` is a symbolic link or no folder, belongs to
    /// another user, or is open to other users. Blocks for a few system calls.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, StoreError> {
        let root = Root::new(root.as_ref())?;
        root.open()?;
        Ok(Self { root: Arc::new(root) })
    }

    /// Removes what crashed writers left: staged files that no living process holds, and indexes
    /// whose payload never came. Returns how many files it removed.
    ///
    /// It walks the whole root, so call it off the write path.
    pub async fn clean_leftovers(&self) -> Result<u64, StoreError> {
        let root = Arc::clone(&self.root);
        unblock(move || Ok(staged::remove_leftovers(&root)? + remove_orphans(&root)?)).await
    }
}

impl Store for LocalStore {
    fn stage(&self) -> BoxFuture<'_, Result<Box<dyn Stage>, StoreError>> {
        let root = Arc::clone(&self.root);
        Box::pin(async {
            let staged = unblock(move || Staged::create(&root)).await?;
            Ok(Box::new(LocalStage { staged: Some(staged) }) as Box<dyn Stage>)
        })
    }

    fn read<'a>(
        &'a self,
        name: &'a BlobName,
        range: ByteRange,
    ) -> BoxFuture<'a, Result<Slice, StoreError>> {
        let (root, name) = (Arc::clone(&self.root), name.clone());
        Box::pin(unblock(move || read(&root, &name, &range)))
    }
}

impl Stage for LocalStage {
    fn append(&mut self, bytes: Bytes) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            if self.staged.as_mut().is_some_and(|staged| staged.hold(&bytes)) {
                return Ok(());
            }
            // The file travels to the pool and back. If the write fails or this future is
            // dropped, it does not come back, and the stage can never be committed torn.
            let mut staged = self.staged.take().ok_or_else(abandoned)?;
            let written = unblock(move || staged.write(&bytes).map(|()| staged)).await?;
            self.staged = Some(written);
            Ok(())
        })
    }

    fn commit<'a>(
        self: Box<Self>,
        name: &'a BlobName,
    ) -> BoxFuture<'a, Result<Commit, StoreError>> {
        let (staged, name) = (self.staged, name.clone());
        Box::pin(unblock(move || staged.ok_or_else(abandoned)?.commit(&name)))
    }
}

impl StoreExt for LocalStore {
    fn stat<'a>(&'a self, name: &'a BlobName) -> BoxFuture<'a, Result<BlobStat, StoreError>> {
        let (root, name) = (Arc::clone(&self.root), name.clone());
        Box::pin(unblock(move || stat(&root, &name)))
    }

    fn list<'a>(
        &'a self,
        run: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Vec<(Handle, BlobStat)>, StoreError>> {
        let (root, run) = (Arc::clone(&self.root), run.map(str::to_owned));
        Box::pin(unblock(move || list(&root, run.as_deref())))
    }

    fn delete<'a>(&'a self, handle: &'a Handle) -> BoxFuture<'a, Result<(), StoreError>> {
        let (root, handle) = (Arc::clone(&self.root), handle.clone());
        Box::pin(unblock(move || delete(&root, &handle, None).map(drop)))
    }

    fn delete_unchanged<'a>(
        &'a self,
        handle: &'a Handle,
        seen: &'a BlobStat,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        let (root, handle, seen) = (Arc::clone(&self.root), handle.clone(), seen.clone());
        Box::pin(unblock(move || delete(&root, &handle, Some(&seen))))
    }
}

impl fmt::Debug for LocalStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalStage").finish_non_exhaustive()
    }
}

fn read(root: &Root, name: &BlobName, range: &ByteRange) -> Result<Slice, StoreError> {
    let failed = |error: io::Error| sort("read a blob", error);
    let folder = run_folder(root, name.handle())?.ok_or_else(|| not_found(name))?;
    let file = folder.file(&name.file())?.ok_or_else(|| not_found(name))?;
    let blob_len = file.metadata().map_err(failed)?.len();
    let span = range.within(blob_len);

    // A capacity that does not fit into memory, or not into a `usize`, is refused alike.
    let want = usize::try_from(span.end - span.start).unwrap_or(usize::MAX);
    let mut bytes: Vec<u8> = Vec::new();
    bytes.try_reserve_exact(want).map_err(|error| failed(io::Error::other(error)))?;
    while bytes.len() < want {
        let at = span.start + bytes.len() as u64;
        match retry_on_intr(|| pread(&file, spare_capacity(&mut bytes), at)) {
            Ok(0) => {
                let what = "it became shorter while it was read".to_owned();
                return Err(StoreError::Damaged { name: name.to_string(), what });
            }
            Ok(_) => {}
            Err(error) => return Err(failed(error.into())),
        }
    }
    bytes.truncate(want);
    Ok(Slice { bytes: bytes.into(), blob_len })
}

fn stat(root: &Root, name: &BlobName) -> Result<BlobStat, StoreError> {
    let folder = run_folder(root, name.handle())?.ok_or_else(|| not_found(name))?;
    let file = folder.file(&name.file())?.ok_or_else(|| not_found(name))?;
    stat_of(&file)
}

fn list(root: &Root, run: Option<&str>) -> Result<Vec<(Handle, BlobStat)>, StoreError> {
    let mut found = Vec::new();
    let Some(root) = root.open()? else { return Ok(found) };
    for run in runs(&root, run)? {
        let Some(folder) = root.folder_if_one(&run)? else { continue };
        for file in folder.names()? {
            if let Ok(handle) = format!("{run}/{file}").parse::<Handle>()
                && let Some(file) = folder.file_if_one(&file)?
            {
                found.push((handle, stat_of(&file)?));
            }
        }
    }
    found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    Ok(found)
}

/// Deletes a payload and its index; with `seen`, only if the payload is still as it was seen.
/// Returns whether the payload is gone.
fn delete(root: &Root, handle: &Handle, seen: Option<&BlobStat>) -> Result<bool, StoreError> {
    let Some(root) = root.open()? else { return Ok(true) };
    let Some(folder) = root.folder(handle.run())? else { return Ok(true) };
    let payload = BlobName::Payload(handle.clone()).file();
    {
        let _alone = folder.lock_alone()?;
        if let Some(seen) = seen {
            match folder.file(&payload)? {
                Some(file) if stat_of(&file)? == *seen => {}
                Some(_) => return Ok(false),
                // An index without its payload may be that of a writer about to commit it.
                None => return Ok(true),
            }
        }
        folder.remove(&payload)?;
        folder.remove(&BlobName::Index(handle.clone()).file())?;
    }
    root.remove_folder_if_empty(handle.run());
    Ok(true)
}

/// Removes indexes whose writer crashed before it committed the payload.
fn remove_orphans(root: &Root) -> Result<u64, StoreError> {
    let mut count = 0;
    let Some(root) = root.open()? else { return Ok(count) };
    for run in runs(&root, None)? {
        let Some(folder) = root.folder_if_one(&run)? else { continue };
        for file in folder.names()? {
            let Some(payload) = file.strip_suffix(BlobName::INDEX_SUFFIX) else { continue };
            if format!("{run}/{payload}").parse::<Handle>().is_err() {
                continue;
            }
            let _alone = folder.lock_alone()?;
            if folder.file_if_one(payload)?.is_none()
                && let Some(index) = folder.file_if_one(&file)?
                && stat_of(&index)?.modified.elapsed().is_ok_and(|age| age >= ORPHANED_AFTER)
            {
                count += u64::from(folder.remove(&file)?);
            }
        }
        root.remove_folder_if_empty(&run);
    }
    Ok(count)
}

/// The names of all runs, or `only` that one, as far as they can be a run's: a handle has no
/// other, so none of them leads out of the root.
fn runs(root: &Folder, only: Option<&str>) -> Result<Vec<String>, StoreError> {
    let mut names = match only {
        Some(run) => vec![run.to_owned()],
        None => root.names()?,
    };
    names.retain(|run| format!("{run}/a.{}", "a".repeat(26)).parse::<Handle>().is_ok());
    Ok(names)
}

fn run_folder(root: &Root, handle: &Handle) -> Result<Option<Folder>, StoreError> {
    match root.open()? {
        Some(root) => root.folder(handle.run()),
        None => Ok(None),
    }
}

fn not_found(name: &BlobName) -> StoreError {
    StoreError::NotFound { name: name.to_string() }
}

fn abandoned() -> StoreError {
    sort("write on", io::Error::other("an earlier append failed or was not awaited"))
}
