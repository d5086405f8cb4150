//! Signals that ask Overspill to end: it lives on, to store what was printed until then.

use std::fs;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::thread;

use futures_lite::future;
use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::iterator::exfiltrator::origin::Origin;
use signal_hook::low_level::emulate_default_handler;
use signal_hook::low_level::siginfo::Cause;

/// Signals that would have ended this process, from now on.
#[derive(Debug)]
pub(crate) struct Signals(SignalsInfo<WithOrigin>);

/// One signal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Received {
    pub(crate) signal: Signal,
    /// Whether the terminal sent it, and so to every process in the foreground; if not, it was
    /// sent to this process.
    pub(crate) from_terminal: bool,
}

/// What became of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handled {
    /// Whoever should end has been told.
    Told,
    /// Nobody is left to be told.
    NobodyLeft,
}

/// Whether somebody has asked to end: a summary is not waited for any more then.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<Mutex<Interrupted>>);

#[derive(Debug, Default)]
struct Interrupted {
    is_asked: bool,
    waiting: Vec<Waker>,
}

impl Interrupt {
    fn ask(&self) {
        let waiting = {
            let mut state = self.state();
            state.is_asked = true;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Waits until somebody asks.
    pub(crate) async fn asked(&self) {
        future::poll_fn(|context| {
            let mut state = self.state();
            if state.is_asked {
                return Poll::Ready(());
            }
            state.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn state(&self) -> MutexGuard<'_, Interrupted> {
        // It is whole whatever happened to who held it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Signals {
    /// Catches them, but for those that whoever started this process wants ignored, as `nohup`
    /// does: a command started from here must find them ignored too.
    pub(crate) fn catch() -> io::Result<Self> {
        let ignored = ignored();
        let wanted = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];
        let wanted = wanted.into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0);
        Ok(Self(SignalsInfo::new(wanted)?))
    }

    /// Hands each signal to `handle`, on a thread of its own that ends with the process, and tells
    /// `interrupt`. Fails where there can be no such thread.
    ///
    /// When nobody is left to be told, what was printed is being stored, which should not take
    /// long. The first signal may be the one that ended the command, come late; at the second,
    /// somebody has waited long enough.
    pub(crate) fn watch(
        mut self,
        interrupt: Interrupt,
        mut handle: impl FnMut(Received) -> Handled + Send + 'static,
    ) -> io::Result<()> {
        let watching = thread::Builder::new().spawn(move || {
            let mut unheard = 0;
            for origin in &mut self.0 {
                let Some(signal) = Signal::from_named_raw(origin.signal) else { continue };
                let received = Received { signal, from_terminal: is_from_terminal(&origin) };
                if handle(received) == Handled::NobodyLeft {
                    unheard += 1;
                }
                interrupt.ask();
                if unheard == 2 {
                    // It fails for no signal caught here.
                    let _ = emulate_default_handler(origin.signal);
                }
            }
        });
        watching.map(drop)
    }
}

fn is_from_terminal(origin: &Origin) -> bool {
    match origin.cause {
        Cause::Kernel => true,
        // Some systems do not say; from a terminal, these are what comes.
        Cause::Unknown => matches!(origin.signal, SIGINT | SIGQUIT),
        _ => false,
    }
}

/// The signals this process was started to ignore, a bit for each; none where the system has no
/// such file to tell.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// A file that reaches its size limit (`ulimit -f`) is an error of the store, not the end of this
/// process. Commands that are run get the default back, since a handler does not outlive `exec`.
pub(crate) fn survive_full_files() {
    // Where it cannot be caught, it ends the process as it would have.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}
