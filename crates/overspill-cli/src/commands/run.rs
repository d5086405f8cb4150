//! `overspill run`: a command whose output is stored while it runs.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use futures_lite::future::block_on;
use overspill::ToolCall;
use rustix::process::{Pid, WaitId, WaitIdOptions, kill_process, waitid};

use super::view::View;
use crate::cli;
use crate::failure::{Failure, shortage};
use crate::feed::Feed;
use crate::settings::Settings;
use crate::signals::{Handled, Interrupt, Received, Signals};

/// What a shell ends with when a command is not found.
const NOT_FOUND: u8 = 127;

/// What a shell ends with when a command is found but cannot be run.
const NOT_RUN: u8 = 126;

/// What a shell adds to the number of the signal that ended a command.
const SIGNALLED: i32 = 128;

pub(crate) fn run(common: &cli::Common, args: &cli::Run) -> Result<u8, Failure> {
    let settings = Settings::load(common, &args.policy, None)
        .map_err(|error| Failure::from(error).before_start())?;
    let interrupt = Interrupt::default();
    let (limits, store) = settings.limits(&interrupt)?;
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(Failure::usage("no command is given"));
    };
    let tool = args.tool.clone().unwrap_or_else(|| file_name(program));
    let call = args.call.clone().unwrap_or_else(|| tool.clone());
    let stream = limits.stream(&ToolCall::new(settings.run(), call, tool));

    let mut command = Command::new(program);
    command.args(arguments);
    if stream.passes() && !common.json {
        // Nothing is to be done, so nothing stands between the command and whoever started it.
        return Err(cannot_run(program, command.exec()));
    }

    let Started { output, stop, waiter } = start(command, program, interrupt)?;

    let mut view = View::new(stream, store, common.json);
    block_on(async {
        let mut feed = Some(Feed::new(output, stop));
        view.take_in(&mut feed).await?;
        drop(feed);
        let status = waiter.join().unwrap_or_else(|_| Err(io::Error::other("nobody waits")));
        let status = exit_status(status?);
        view.finish(Some(status)).await?;
        // Only the low eight bits of a status ever reach a parent.
        Ok(status as u8)
    })
}

/// A command that was started.
struct Started {
    output: io::PipeReader,
    /// Announces the end of the output; see [`Feed`].
    stop: io::PipeReader,
    waiter: JoinHandle<io::Result<ExitStatus>>,
}

/// Starts a command once all is there that is needed to see it through.
fn start(mut command: Command, program: &OsStr, interrupt: Interrupt) -> Result<Started, Failure> {
    let failed = |error| Failure::from(error).before_start().with_status(NOT_RUN);
    let (output, child_end) = io::pipe().map_err(failed)?;
    let (stop, stopper) = io::pipe().map_err(failed)?;
    command.stdout(child_end.try_clone().map_err(failed)?).stderr(child_end);

    let running = Arc::new(Running::default());
    // Held until there is a child, so that a signal caught before waits for it.
    let mut pid = running.pid();
    let for_signals = Arc::clone(&running);
    let watching = Signals::catch().map_err(failed)?;
    watching.watch(interrupt, move |received| for_signals.tell(received)).map_err(failed)?;
    let (hand_over, child) = mpsc::channel();
    let waiter = Arc::clone(&running).wait_for(child, stopper).map_err(failed)?;

    let child = command.spawn().map_err(|error| cannot_run(program, error))?;
    // It holds the ends of the pipe that the child has now.
    drop(command);
    *pid = Some(Pid::from_child(&child));
    drop(pid);
    // The waiter is there for nothing else.
    let _ = hand_over.send(child);
    Ok(Started { output, stop, waiter })
}

/// A child process that signals may be sent to while it lives.
#[derive(Debug, Default)]
struct Running {
    /// `None` before there is a child, and once it may have been reaped: its number may then be
    /// another process's.
    pid: Mutex<Option<Pid>>,
    is_interrupted: AtomicBool,
}

impl Running {
    /// Passes a signal on, unless the child has got it from the terminal too.
    fn tell(&self, received: Received) -> Handled {
        self.is_interrupted.store(true, Ordering::Relaxed);
        let pid = self.pid();
        let Some(pid) = *pid else { return Handled::NobodyLeft };
        if !received.from_terminal {
            // If it fails, the child is gone.
            let _ = kill_process(pid, received.signal);
        }
        Handled::Told
    }

    /// Waits for a child and then for its end, on a thread of its own. `stopper` is dropped at its end if a signal
    /// had to do with it: processes it leaves behind are then not waited for. A child that ends by
    /// itself may leave the output to others on purpose.
    fn wait_for(
        self: Arc<Self>,
        child: Receiver<Child>,
        stopper: io::PipeWriter,
    ) -> io::Result<JoinHandle<io::Result<ExitStatus>>> {
        thread::Builder::new().spawn(move || {
            let mut child = child.recv().map_err(io::Error::other)?;
            // Not reaping it yet keeps its number from being another process's.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let id = Pid::from_child(&child);
            while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(id), options) {}
            let mut pid = self.pid();
            *pid = None;
            let status = child.wait()?;
            drop(pid);
            let by_signal =
                status.signal().is_some() || self.is_interrupted.load(Ordering::Relaxed);
            if by_signal {
                drop(stopper);
            } else {
                // Held as long as the process lives.
                std::mem::forget(stopper);
            }
            Ok(status)
        })
    }

    fn pid(&self) -> MutexGuard<'_, Option<Pid>> {
        self.pid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn exit_status(status: ExitStatus) -> i32 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, signal) => SIGNALLED + signal.unwrap_or(0),
    }
}

fn file_name(program: &OsStr) -> String {
    Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned()
}

fn cannot_run(program: &OsStr, error: io::Error) -> Failure {
    let name = program.to_string_lossy();
    if shortage(&error).is_some() {
        return Failure::from(error).before_start().with_status(NOT_RUN);
    }
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    let is_line = name.contains(char::is_whitespace) && !Path::new(program).exists();
    let hint = if is_line {
        format!("for a line of shell, write: overspill run -- sh -c '{name}'")
    } else if is_missing {
        "check its name and PATH; what only a shell knows needs sh -c '…'".to_owned()
    } else if error.kind() == io::ErrorKind::PermissionDenied {
        format!("make it executable, with chmod +x {name}, or name its interpreter")
    } else {
        "name its interpreter, or check that it is made for this machine".to_owned()
    };
    Failure::from(error)
        .context(format!("cannot run {name}"))
        .hint(hint)
        .with_status(if is_missing { NOT_FOUND } else { NOT_RUN })
}
