//! Blocking work: on a thread of its own, or in place where none can be had.

use std::sync::OnceLock;
use std::thread;

/// Does blocking work without blocking the executor, if that can be.
///
/// The pool that does it waits for its first thread for as long as it takes. Where a process may
/// have no more of them, that is forever, so the work is done in place instead.
pub(super) async fn unblock<T, F>(work: F) -> T
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    if has_threads() { blocking::unblock(work).await } else { work() }
}

/// Whether this process can have threads; found out once, with one that does nothing.
pub(super) fn has_threads() -> bool {
    static HAS_THREADS: OnceLock<bool> = OnceLock::new();
    *HAS_THREADS
        .get_or_init(|| thread::Builder::new().spawn(|| {}).map(thread::JoinHandle::join).is_ok())
}
