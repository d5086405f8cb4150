//! Sweeps: what has expired is deleted, beside the writes and bounded.
//!
//! A sweep lists the root, decides by the rules of [`Retention`], and deletes what is still as it
//! was listed. One process sweeps at a time, holding the lock on the root; that only saves work,
//! since any number could without harm.
//!
//! With a retention, opening a blob to write it looks at a clock in memory, and not more often than
//! once in [`interval`] at the file `.swept`, whose modification time is when the last sweep of any
//! process began. Only where that is long enough ago, a sweep starts on a thread of its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use blocking::{Task, unblock};
use overspill::store::{ByteSize, Expired, Handle, Resident, Retention, StoreError};

use super::elsewhere::has_threads;
use super::folder::{Folder, Root, make_private, stat_of, touch};
use super::staged::{Cleaning, clean_leftovers};
use super::{clean_orphans, lease, list_run, obituary, remove_unchanged, runs};

/// The file whose age says when the last sweep began. A run's name never starts with a dot.
const STAMP: &str = ".swept";

/// The longest time between sweeps: often enough that disks do not fill, and rare enough that
/// listing a large store costs nothing.
const MAX_INTERVAL: Duration = Duration::from_secs(600);

/// The shortest, for payloads that are to live for seconds.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// Payloads deleted under one lock on their run's folder, which writers of that run wait for:
/// about a millisecond.
const AT_ONCE: usize = 64;

/// What a sweep does, or has done.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Sweep {
    /// The time by which payloads were judged.
    pub at: SystemTime,
    /// Payloads that go, or are gone, ordered by handle.
    pub expired: Vec<Expired>,
    /// Payloads that stay, ordered by handle.
    pub kept: Vec<Resident>,
    /// What crashed writers left: staged files, and indexes whose payload never came.
    pub leftovers: u64,
    /// What could not be done, and what stands over the limits.
    pub warnings: Vec<String>,
}

impl Sweep {
    fn nothing(at: SystemTime) -> Self {
        Self { at, expired: Vec::new(), kept: Vec::new(), leftovers: 0, warnings: Vec::new() }
    }
}

/// Starts sweeps when they are due, and remembers what they warned of.
#[derive(Debug)]
pub(super) struct Sweeper {
    root: Arc<Root>,
    retention: Retention,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Not to be thought of before.
    rests_until: Option<Instant>,
    running: Option<Task<()>>,
    warnings: Vec<String>,
}

impl Sweeper {
    pub(super) fn new(root: Arc<Root>, retention: Retention) -> Self {
        Self { root, retention, state: Mutex::default() }
    }

    /// Starts a sweep in the background if it is time to think of one.
    pub(super) fn tick(self: &Arc<Self>) {
        let mut state = self.state();
        let now = Instant::now();
        let is_running = state.running.as_ref().is_some_and(|task| !task.is_finished());
        if !has_threads() || is_running || state.rests_until.is_some_and(|then| now < then) {
            return;
        }
        state.rests_until = Some(now + interval(&self.retention));
        let sweeper = Arc::clone(self);
        state.running = Some(unblock(move || {
            let swept = sweep_if_due(&sweeper.root, &sweeper.retention, SystemTime::now());
            // A sweep that goes wrong once goes wrong again: the last one's warnings suffice.
            sweeper.state().warnings = match swept {
                Ok(None) => return,
                Ok(Some(sweep)) => sweep.warnings,
                Err(error) => vec![explain(&error)],
            };
        }));
    }

    /// Waits for the sweep under way, and takes the warnings.
    pub(super) async fn warnings(&self) -> Vec<String> {
        let running = self.state().running.take();
        if let Some(task) = running {
            task.await;
        }
        std::mem::take(&mut self.state().warnings)
    }

    /// The state. No code that holds the lock can panic halfway through a change.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Decides what a sweep at the time `at` would do, and does nothing.
pub(super) fn plan(
    root: &Root,
    retention: &Retention,
    at: SystemTime,
) -> Result<Sweep, StoreError> {
    let Some(root) = root.open()? else { return Ok(Sweep::nothing(at)) };
    let mut sweep = judge(&root, retention, at)?;
    sweep.leftovers = clean(&root, Cleaning::Count, &mut sweep.warnings);
    Ok(sweep)
}

/// Lists the root and decides what goes; what crashed writers left is not looked at.
fn judge(root: &Folder, retention: &Retention, at: SystemTime) -> Result<Sweep, StoreError> {
    let mut sweep = Sweep::nothing(at);
    let leased = lease::held(root, at)?;
    let mut residents = Vec::new();
    for run in runs(root, None)? {
        let leased = leased.contains(&run);
        let mut found = Vec::new();
        // One run that cannot be read keeps no other from being swept.
        if let Err(error) = list_run(root, &run, &mut found) {
            sweep.warnings.push(format!("cannot look into {run}: {}", explain(&error)));
        }
        let resident = |(handle, stat)| Resident { handle, stat, leased };
        residents.extend(found.into_iter().map(resident));
    }
    let judgement = retention.judge(residents, at);
    if let (Some(max_bytes), 1..) = (retention.max_bytes, judgement.excess) {
        sweep.warnings.push(format!(
            "what is stored is {} bytes over the limit of {}: all that is left is of the last hour \
             or under a lease",
            judgement.excess,
            ByteSize(max_bytes)
        ));
    }
    (sweep.expired, sweep.kept) = (judgement.expired, judgement.kept);
    Ok(sweep)
}

/// Does what was planned, as far as it is still as it was; returns what came of it. `progress`
/// learns how many of the expired are done.
pub(super) fn carry_out(
    root: &Root,
    sweep: Sweep,
    progress: &mut dyn FnMut(usize),
) -> Result<Sweep, StoreError> {
    let Some(folder) = root.open()? else { return Ok(sweep) };
    let _alone = folder.lock_alone()?;
    Ok(carry_out_alone(&folder, sweep, progress))
}

fn carry_out_alone(root: &Folder, plan: Sweep, progress: &mut dyn FnMut(usize)) -> Sweep {
    let mut sweep = Sweep { expired: Vec::new(), leftovers: 0, ..plan };
    let mut done = 0;
    for of_run in plan.expired.chunk_by(|a, b| a.handle.run() == b.handle.run()) {
        let run = of_run[0].handle.run();
        for chunk in of_run.chunks(AT_ONCE) {
            let mut batch = Batch::default();
            let result = batch.expire(root, run, chunk, sweep.at);
            if let Err(error) = result {
                sweep.warnings.push(format!("cannot sweep {run}: {}", explain(&error)));
            }
            // Only now, so that nothing is said of what is still there.
            if let Err(error) = obituary::add(root, &batch.gone, sweep.at) {
                sweep.warnings.push(explain(&error));
            }
            let spared = chunk.iter().filter(|expired| !batch.is_gone(&expired.handle));
            sweep.kept.extend(spared.map(|spared| Resident {
                handle: spared.handle.clone(),
                stat: spared.stat.clone(),
                leased: batch.leased,
            }));
            sweep.expired.append(&mut batch.gone);
            done += chunk.len();
            progress(done);
        }
        root.remove_folder_if_empty(run);
    }
    sweep.kept.sort_unstable_by(|a, b| a.handle.cmp(&b.handle));
    sweep.leftovers = clean(root, Cleaning::Remove, &mut sweep.warnings);
    if let Err(error) = lease::remove_ended(root, sweep.at) {
        sweep.warnings.push(explain(&error));
    }
    sweep.warnings.dedup();
    sweep
}

/// What became of a few payloads of one run.
#[derive(Debug, Default)]
struct Batch {
    gone: Vec<Expired>,
    /// Gone too, but by somebody else's hand.
    missing: Vec<Handle>,
    leased: bool,
}

impl Batch {
    fn expire(
        &mut self,
        root: &Folder,
        run: &str,
        chunk: &[Expired],
        at: SystemTime,
    ) -> Result<(), StoreError> {
        let Some(folder) = root.folder(run)? else {
            self.missing.extend(chunk.iter().map(|expired| expired.handle.clone()));
            return Ok(());
        };
        let _alone = folder.lock_alone()?;
        self.leased = lease::is_held(root, run, at)?;
        if self.leased {
            return Ok(());
        }
        for expired in chunk {
            match remove_unchanged(&folder, &expired.handle, Some(&expired.stat))? {
                Removal::Done => self.gone.push(expired.clone()),
                Removal::NotThere => self.missing.push(expired.handle.clone()),
                Removal::Changed => {}
            }
        }
        Ok(())
    }

    fn is_gone(&self, handle: &Handle) -> bool {
        self.gone.iter().any(|gone| gone.handle == *handle) || self.missing.contains(handle)
    }
}

/// What a removal came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Removal {
    /// The payload is gone now.
    Done,
    /// It was gone already.
    NotThere,
    /// It is not as it was seen, and stays.
    Changed,
}

fn sweep_if_due(
    root: &Root,
    retention: &Retention,
    now: SystemTime,
) -> Result<Option<Sweep>, StoreError> {
    let Some(folder) = root.open()? else { return Ok(None) };
    if !is_due(&folder, retention, now)? {
        return Ok(None);
    }
    let Some(_alone) = folder.try_lock_alone()? else { return Ok(None) };
    // Another process may have been at it just before.
    if !is_due(&folder, retention, now)? {
        return Ok(None);
    }
    // It is stamped before, so that a sweep which is killed, or fails, is not tried again by every
    // process that follows. On a full disk there may be no room for a stamp, but it has to be swept.
    let stamped = stamp(&folder);
    let mut sweep = carry_out_alone(&folder, judge(&folder, retention, now)?, &mut |_| {});
    if let Err(error) = stamped {
        sweep.warnings.push(explain(&error));
    }
    Ok(Some(sweep))
}

/// Whether the last sweep is long enough ago; one in the future was stamped by a wrong clock.
fn is_due(root: &Folder, retention: &Retention, now: SystemTime) -> Result<bool, StoreError> {
    let Some(stamp) = root.file_if_one(STAMP)? else { return Ok(true) };
    let last = stat_of(&stamp)?.modified;
    let apart = now.duration_since(last).unwrap_or_else(|later| later.duration());
    Ok(apart >= interval(retention))
}

fn stamp(root: &Folder) -> Result<(), StoreError> {
    let stamp = root.file_or_make(STAMP)?;
    make_private(&stamp)?;
    touch(&stamp)
}

/// The time between sweeps: a tenth of the age that payloads may have, within bounds.
fn interval(retention: &Retention) -> Duration {
    retention.max_age.map_or(MAX_INTERVAL, |max_age| max_age / 10).clamp(MIN_INTERVAL, MAX_INTERVAL)
}

fn clean(root: &Folder, cleaning: Cleaning, warnings: &mut Vec<String>) -> u64 {
    let mut count = 0;
    for cleaned in [clean_leftovers(root, cleaning), clean_orphans(root, cleaning)] {
        match cleaned {
            Ok(cleaned) => count += cleaned,
            Err(error) => warnings.push(format!("cannot clean up: {}", explain(&error))),
        }
    }
    count
}

/// An error with its cause, on one line.
fn explain(error: &StoreError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
