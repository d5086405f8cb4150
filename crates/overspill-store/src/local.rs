//! A store of files under one root, private to one user.
//!
//! ```text
//! ROOT/                 0700, owned by the user, no symbolic link
//! ├── .staging/         blobs being written; each is locked by its writer
//! ├── .leases/RUN      until when what RUN stored is not swept: its modification time
//! ├── .swept           when the last sweep began: its modification time
//! ├── .expired         what was swept, when and why
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
mod elsewhere;
mod folder;
mod staged;
mod lease;
mod obituary;
mod sweep;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::{fmt, io};

use bytes::Bytes;
use overspill::BoxFuture;
use overspill::item::{RunId, ToolCall};
use overspill::store::{
    BlobName, BlobStat, ByteRange, Commit, Digest, Handle, PartName, Retention, Slice, Stage,
    Store, StoreError, StoreExt,
};
use rustix::buffer::spare_capacity;
use rustix::io::{pread, retry_on_intr};

use elsewhere::unblock;
use fault::sort;
use folder::{Folder, Root, stat_of};
use staged::{Cleaning, Staged, clean_leftovers};
pub use sweep::Sweep;
use sweep::{Removal, Sweeper};

/// The age from which an index without a payload counts as a leftover. A live one waits only
/// for its payload to be synced: minutes, at most, on a slow disk.
const ORPHANED_AFTER: Duration = Duration::from_secs(3600);

/// Stores blobs as files under one root.
///
/// It keeps nothing open between operations: where the root was removed, the next write makes it
/// anew. Blocking work runs on a thread pool of its own, so any executor will do; where the process
/// can have no thread, it is done in place.
#[derive(Debug, Clone)]
pub struct LocalStore {
    root: Arc<Root>,
    sweeper: Option<Arc<Sweeper>>,
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
        Ok(Self { root: Arc::new(root), sweeper: None })
    }

    /// The same store, which sweeps what this retention does not keep.
    ///
    /// A sweep starts when a blob is opened to be written and the last one, of whatever process,
    /// was ten minutes ago, or a tenth of the age that payloads may have. It runs beside the
    /// writes, which do not wait for it (where the process can have no thread, there is none), and
    /// what it cannot do is a matter for [`sweep_warnings`](Self::sweep_warnings) alone.
    #[must_use]
    pub fn with_retention(mut self, retention: Retention) -> Self {
        let sweeper = || Arc::new(Sweeper::new(Arc::clone(&self.root), retention));
        self.sweeper = (!retention.is_forever()).then(sweeper);
        self
    }

    /// Waits for the sweep that this store has under way, if it has one, and takes what the last
    /// one warned of.
    ///
    /// A program that lives shorter than a sweep calls it before it ends, or its sweeps are cut
    /// short; what they did until then counts.
    pub async fn sweep_warnings(&self) -> Vec<String> {
        match &self.sweeper {
            Some(sweeper) => sweeper.warnings().await,
            None => Vec::new(),
        }
    }

    /// Decides what a sweep at the time `at` would do, without doing it.
    ///
    /// Fails as [`StoreExt::list`] does where nothing can be listed at all; one run that cannot
    /// be is a warning.
    pub async fn plan_sweep(
        &self,
        retention: Retention,
        at: SystemTime,
    ) -> Result<Sweep, StoreError> {
        let root = Arc::clone(&self.root);
        unblock(move || sweep::plan(&root, &retention, at)).await
    }

    /// Does what was planned and returns what came of it. A payload that was stored again since,
    /// or that is under a lease now, stays; so does what cannot be deleted, with a warning.
    ///
    /// It also removes what crashed writers left, runs that are empty and leases that have ended.
    /// `progress` learns how many of the expired payloads are done.
    pub async fn carry_out(
        &self,
        plan: Sweep,
        mut progress: impl FnMut(usize) + Send + 'static,
    ) -> Result<Sweep, StoreError> {
        let root = Arc::clone(&self.root);
        unblock(move || sweep::carry_out(&root, plan, &mut progress)).await
    }

    /// Keeps what `run` has stored and will store from being swept, for `ttl` from now. A lease
    /// is not given back; it ends, and one that ends later is never shortened.
    ///
    /// It binds the sweeps of this store alone: a program that deletes by modification time does
    /// not know of it.
    pub async fn lease(&self, run: &RunId, ttl: Duration) -> Result<(), StoreError> {
        let root = Arc::clone(&self.root);
        // As handles spell the run.
        let call = ToolCall::new(run.clone(), "", "");
        let handle = Handle::new(&call, PartName::Value(0), &Digest::of(b""));
        unblock(move || lease::take(&root, handle.run(), ttl)).await
    }

    /// The handles under which something stands that is no file: a folder, a link, a pipe. The store
    /// put nothing like it there, does not list it, and refuses to read it.
    pub async fn strangers(&self) -> Result<Vec<Handle>, StoreError> {
        let root = Arc::clone(&self.root);
        unblock(move || {
            let mut found = Vec::new();
            let Some(root) = root.open()? else { return Ok(found) };
            for run in runs(&root, None)? {
                each_payload(&root, &run, &mut |handle, stat| {
                    if stat.is_none() {
                        found.push(handle);
                    }
                })?;
            }
            found.sort_unstable();
            Ok(found)
        })
        .await
    }

    /// Deletes the index of a payload, which stays: for one that is damaged, and is to be built again
    /// with [`Stored::reindex`](overspill::store::Stored::reindex). What is not there is no error.
    pub async fn delete_index(&self, handle: &Handle) -> Result<(), StoreError> {
        let (root, handle) = (Arc::clone(&self.root), handle.clone());
        unblock(move || {
            let Some(root) = root.open()? else { return Ok(()) };
            let Some(folder) = root.folder(handle.run())? else { return Ok(()) };
            let _alone = folder.lock_alone()?;
            folder.remove(&BlobName::Index(handle).file()).map(drop)
        })
        .await
    }

    /// Removes what crashed writers left: staged files that no living process holds, and indexes
    /// whose payload never came. Returns how many files it removed.
    ///
    /// It walks the whole root, so call it off the write path.
    pub async fn clean_leftovers(&self) -> Result<u64, StoreError> {
        let root = Arc::clone(&self.root);
        unblock(move || {
            let Some(root) = root.open()? else { return Ok(0) };
            let staged = clean_leftovers(&root, Cleaning::Remove)?;
            Ok(staged + clean_orphans(&root, Cleaning::Remove)?)
        })
        .await
    }
}

impl Store for LocalStore {
    fn stage(&self) -> BoxFuture<'_, Result<Box<dyn Stage>, StoreError>> {
        if let Some(sweeper) = &self.sweeper {
            sweeper.tick();
        }
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
    let file = open(root, name)?;
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
    stat_of(&open(root, name)?)
}

/// Opens a blob. A payload that is not there may have been swept.
fn open(root: &Root, name: &BlobName) -> Result<File, StoreError> {
    let not_found = || StoreError::NotFound { name: name.to_string() };
    let root = root.open()?.ok_or_else(not_found)?;
    if let Some(folder) = root.folder(name.handle().run())?
        && let Some(file) = folder.file(&name.file())?
    {
        return Ok(file);
    }
    Err(match name {
        BlobName::Payload(handle) if let Some(expiry) = obituary::find(&root, handle) => {
            StoreError::Expired { name: name.to_string(), expiry }
        }
        _ => not_found(),
    })
}

fn list(root: &Root, run: Option<&str>) -> Result<Vec<(Handle, BlobStat)>, StoreError> {
    let mut found = Vec::new();
    let Some(root) = root.open()? else { return Ok(found) };
    for run in runs(&root, run)? {
        list_run(&root, &run, &mut found)?;
    }
    found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    Ok(found)
}

fn list_run(
    root: &Folder,
    run: &str,
    found: &mut Vec<(Handle, BlobStat)>,
) -> Result<(), StoreError> {
    each_payload(root, run, &mut |handle, stat| found.extend(stat.map(|stat| (handle, stat))))
}

/// Hands out what stands under a payload's name in a run, with its length and age if it is a file.
fn each_payload(
    root: &Folder,
    run: &str,
    found: &mut dyn FnMut(Handle, Option<BlobStat>),
) -> Result<(), StoreError> {
    let Some(folder) = root.folder_if_one(run)? else { return Ok(()) };
    for file in folder.names()? {
        if let Ok(handle) = format!("{run}/{file}").parse::<Handle>() {
            found(handle, folder.stat_if_file(&file)?);
        }
    }
    Ok(())
}

/// Deletes a payload and its index; with `seen`, only if the payload is still as it was seen.
/// Returns whether the payload is gone.
fn delete(root: &Root, handle: &Handle, seen: Option<&BlobStat>) -> Result<bool, StoreError> {
    let Some(root) = root.open()? else { return Ok(true) };
    let Some(folder) = root.folder(handle.run())? else { return Ok(true) };
    let removal = {
        let _alone = folder.lock_alone()?;
        remove_unchanged(&folder, handle, seen)?
    };
    root.remove_folder_if_empty(handle.run());
    Ok(removal != Removal::Changed)
}

/// Removes a payload and its index from the run's folder, of which the caller has the lock alone;
/// with `seen`, only if the payload is still as it was seen.
fn remove_unchanged(
    run: &Folder,
    handle: &Handle,
    seen: Option<&BlobStat>,
) -> Result<Removal, StoreError> {
    let payload = BlobName::Payload(handle.clone()).file();
    if let Some(seen) = seen {
        match run.file(&payload)? {
            Some(file) if stat_of(&file)? == *seen => {}
            Some(_) => return Ok(Removal::Changed),
            // An index without its payload may be that of a writer about to commit it.
            None => return Ok(Removal::NotThere),
        }
    }
    let was_there = run.remove(&payload)?;
    run.remove(&BlobName::Index(handle.clone()).file())?;
    Ok(if was_there { Removal::Done } else { Removal::NotThere })
}

/// Counts indexes whose writer crashed before it committed the payload, and removes them or not;
/// so are, in the end, runs that are empty.
fn clean_orphans(root: &Folder, cleaning: Cleaning) -> Result<u64, StoreError> {
    let mut count = 0;
    for run in runs(root, None)? {
        let Some(folder) = root.folder_if_one(&run)? else { continue };
        let names: BTreeSet<String> = folder.names()?.into_iter().collect();
        for file in &names {
            let Some(payload) = file.strip_suffix(BlobName::INDEX_SUFFIX) else { continue };
            // Nearly all have their payload beside them, and need no lock.
            if names.contains(payload) || format!("{run}/{payload}").parse::<Handle>().is_err() {
                continue;
            }
            let _alone = folder.lock_alone()?;
            if folder.stat_if_file(payload)?.is_none()
                && let Some(index) = folder.stat_if_file(file)?
                && index.modified.elapsed().is_ok_and(|age| age >= ORPHANED_AFTER)
            {
                let is_one = cleaning == Cleaning::Count || folder.remove(file)?;
                count += u64::from(is_one);
            }
        }
        if cleaning == Cleaning::Remove {
            root.remove_folder_if_empty(&run);
        }
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

fn abandoned() -> StoreError {
    sort("write on", io::Error::other("an earlier append failed or was not awaited"))
}
