//! A server that is a program: started, kept running, and ended with all it started.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::io::{AsyncWriteExt, BufReader, BufWriter};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::counted::Counted;
use crate::lane::{LaneEnd, Room};
use crate::lines::{self, Line};
use crate::message::{INITIALIZED, Kind, Message};
use crate::router::Mark;
use crate::server::Transport;
use crate::session::{Session, ToServer};

/// How long a server may take to end by itself, and again once it is told to.
const GRACE: Duration = Duration::from_secs(2);

/// How long a server that is started again may take to be ready.
const READY: Duration = Duration::from_secs(30);

/// A server that ran this long was not a failure to start.
const LASTED: Duration = Duration::from_secs(10);

/// What is waited before a second start in a row; it doubles with each.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// What is waited at most.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// How often is looked whether all that a server started has ended; nothing tells of it.
const LOOK: Duration = Duration::from_millis(10);

/// How much of a server's output is read at once.
const BUFFER: usize = 256 * 1024;

/// Why a server is not spoken to any more.
#[derive(Debug)]
enum End {
    /// The session is over.
    Closing,
    /// It ended.
    Gone(String),
}

/// A server that is a program, in one session.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) session: Arc<Session>,
    pub(crate) server: usize,
    pub(crate) name: String,
    pub(crate) transport: Transport,
    /// Variables of the proxy's environment that are not the server's.
    pub(crate) hidden: Arc<Vec<String>>,
    pub(crate) queue: LaneEnd<ToServer>,
    /// How much the server has taken.
    pub(crate) taken: Arc<AtomicU64>,
    /// What is to be said first once it is started.
    pub(crate) held: Option<(ToServer, Option<Room>)>,
    /// What opened the session, to be said again to a server that is started again.
    pub(crate) initialize: Option<String>,
}

impl Keeper {
    /// Keeps the server running until the session ends.
    pub(crate) async fn keep(mut self) {
        let mut failures = 0;
        loop {
            let begun = Instant::now();
            let why = match self.start() {
                Ok(child) => match self.serve(child, failures > 0).await {
                    End::Closing => return,
                    End::Gone(why) => why,
                },
                Err(why) => why,
            };
            // What waits here was asked of the server that is gone.
            while let Ok((waiting, _)) = self.queue.try_recv() {
                self.note(&waiting);
            }
            self.session.server_gone(self.server, &why).await;
            failures = if begun.elapsed() > LASTED { 1 } else { failures + 1 };
            let is_open = self.initialize.is_some() && self.session.reopens(self.server);
            if !self.wait(failures, &why, is_open).await {
                return;
            }
        }
    }

    fn note(&mut self, said: &ToServer) {
        if said.mark == Mark::Initialize {
            self.initialize = Some(said.text.clone());
        }
    }

    /// Waits before the next start; what is asked meanwhile is answered. Whether there is one.
    async fn wait(&mut self, failures: u32, why: &str, was_open: bool) -> bool {
        let wait = match failures {
            0 | 1 => Duration::ZERO,
            n => FIRST_WAIT.saturating_mul(1 << (n - 2).min(16)).min(LONGEST_WAIT),
        };
        let until = tokio::time::Instant::now() + wait;
        let closing = self.session.closing.clone();
        loop {
            tokio::select! {
                biased;
                () = closing.cancelled() => {
                    // What it was asked last is answered with why it is not there.
                    while let Ok((last, _)) = self.queue.try_recv() {
                        self.session.not_sent(self.server, &last.text, why).await;
                    }
                    return false;
                }
                () = tokio::time::sleep_until(until), if was_open || wait.is_zero() => return true,
                next = self.queue.recv() => {
                    let Some((next, room)) = next else { return false };
                    self.note(&next);
                    let left = until.saturating_duration_since(tokio::time::Instant::now());
                    // Where no session was open, the client's next try starts it.
                    if left.is_zero() {
                        self.held = Some((next, room));
                        return true;
                    }
                    let why =
                        format!("{why} (it is started again in {:.1} s)", left.as_secs_f64());
                    self.session.not_sent(self.server, &next.text, &why).await;
                }
            }
        }
    }

    /// Starts the server, or says why it cannot be.
    fn start(&self) -> Result<Child, String> {
        let (command, args, env, cwd) = match &self.transport {
            Transport::Command { command, args, env, cwd } => (command, args, env, cwd),
            Transport::Unavailable { why } => {
                return Err(format!("{} is left out: {why}", self.name));
            }
            Transport::Http { .. } => return Err(format!("{} is no program", self.name)),
        };
        let mut program = Command::new(command);
        for name in self.hidden.iter() {
            program.env_remove(name);
        }
        program
            .args(args)
            .envs(env.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            // Its own group, so that what it starts can be ended with it.
            .process_group(0)
            .kill_on_drop(true);
        if let Some(cwd) = cwd {
            program.current_dir(cwd);
        }
        program.spawn().map_err(|error| {
            let why = explain(&error, command, cwd.as_deref(), &self.name);
            format!("{} cannot be started: {why}", self.name)
        })
    }

    async fn serve(&mut self, mut child: Child, again: bool) -> End {
        let mut group = Group::of(&child);
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return End::Gone(format!("{} has no standard input and output", self.name));
        };
        let written = Arc::clone(&self.taken);
        let mut input = BufWriter::new(Counted { inner: input, written });
        let mut output = BufReader::with_capacity(BUFFER, output);
        let mut is_initialized = false;
        if again && self.initialize.is_some() && self.session.reopens(self.server) {
            let closing = self.session.closing.clone();
            let opened = tokio::select! {
                opened = timeout(READY, self.reopen(&mut input, &mut output)) => Some(opened),
                () = closing.cancelled() => None,
            };
            match opened {
                None => {
                    group.end(&mut child).await;
                    return End::Closing;
                }
                Some(Ok(Ok(initialized))) => is_initialized = initialized,
                Some(Ok(Err(why))) => {
                    let why = self.farewell(&mut child, &mut group, why).await;
                    return End::Gone(why);
                }
                Some(Err(_)) => {
                    group.end(&mut child).await;
                    return End::Gone(format!("{} was started again and is not ready", self.name));
                }
            }
        }
        let (session, server, name) = (Arc::clone(&self.session), self.server, self.name.clone());
        let closing = session.closing.clone();
        let end_of = {
            // One that is read to its end: a line that was begun must not be lost.
            let read = read_all(&session, server, &name, &mut output);
            tokio::pin!(read);
            let mut write = Box::pin(self.write_all(input, is_initialized, &closing));
            let mut is_read = false;
            let end_of = tokio::select! {
                () = &mut read => {
                    is_read = true;
                    End::Gone("it closed its output".to_owned())
                }
                ended = child.wait() => {
                    // What it wrote last is still in the pipe; what it left behind may hold it.
                    let _ = timeout(GRACE, &mut read).await;
                    group.end(&mut child).await;
                    return End::Gone(describe(&name, ended.ok()));
                }
                () = &mut write => match closing.is_cancelled() {
                    true => End::Closing,
                    false => End::Gone("it closed its input".to_owned()),
                },
                () = async {
                    closing.cancelled().await;
                    tokio::time::sleep(GRACE).await;
                } => End::Closing,
            };
            // Its input is closed with this; it answers what it was asked before it ends.
            drop(write);
            if !is_read {
                let rest = async {
                    read.await;
                    let _ = child.wait().await;
                };
                let _ = timeout(GRACE, rest).await;
            }
            end_of
        };
        match end_of {
            End::Closing => {
                group.end(&mut child).await;
                End::Closing
            }
            End::Gone(what) => {
                let why = self.farewell(&mut child, &mut group, what).await;
                End::Gone(why)
            }
        }
    }

    /// Ends a server that cannot be spoken to, and says what became of it.
    async fn farewell(&self, child: &mut Child, group: &mut Group, what: String) -> String {
        let ended = timeout(GRACE, child.wait()).await;
        group.end(child).await;
        match ended {
            Ok(status) => describe(&self.name, status.ok()),
            Err(_) => format!("{} was ended: {what}", self.name),
        }
    }

    /// Opens the session again with a server that has forgotten it. Whether the client has said
    /// already that it is open.
    async fn reopen(
        &self,
        input: &mut BufWriter<Counted<ChildStdin>>,
        output: &mut BufReader<ChildStdout>,
    ) -> Result<bool, String> {
        let Some(initialize) = &self.initialize else { return Ok(false) };
        let failed = |error: std::io::Error| error.to_string();
        let initialize = Message::one(initialize.clone()).map_err(|error| error.to_string())?;
        let (id, text) = self.session.reopening(self.server, &initialize);
        lines::write(input, text).await.map_err(failed)?;
        input.flush().await.map_err(failed)?;
        let mut is_open = false;
        while !is_open {
            let line = lines::read(output).await.map_err(failed)?;
            let line = match line.ok_or("it closed its output before it was ready")? {
                Ok(line) => line,
                Err(line) => {
                    self.session.server_said_no_text(self.server, &self.name, line).await;
                    continue;
                }
            };
            let Ok(message) = Message::one(line.clone()) else {
                self.session.server_said(self.server, &self.name, line, None).await;
                continue;
            };
            if let Kind::Response { id: Some(of) } = message.kind()
                && *of == id
            {
                if let Some(error) = message.error() {
                    return Err(format!("it refused to start again: {error}"));
                }
                is_open = true;
            }
            self.session.server_sent(self.server, message, None).await;
        }
        let is_initialized = self.session.is_initialized();
        if is_initialized {
            let initialized = std::iter::once(INITIALIZED.to_owned());
            for text in initialized.chain(self.session.again(self.server)) {
                lines::write(input, text).await.map_err(failed)?;
            }
            input.flush().await.map_err(failed)?;
        }
        self.session.log().say(&format!("{} was started again", self.name));
        Ok(is_initialized)
    }

    /// Writes what comes until the server takes no more, or the session closes and nothing is left.
    async fn write_all(
        &mut self,
        mut input: BufWriter<Counted<ChildStdin>>,
        is_initialized: bool,
        closing: &CancellationToken,
    ) {
        loop {
            let next = match self.held.take() {
                Some(held) => Some(held),
                None => tokio::select! {
                    biased;
                    next = self.queue.recv() => next,
                    () = closing.cancelled() => None,
                },
            };
            // It takes room until it is written.
            let Some((next, _room)) = next else { return };
            self.note(&next);
            // It was said when the session was opened again.
            let is_said = is_initialized && next.mark == Mark::Initialized;
            if !is_said && lines::write(&mut input, next.text).await.is_err() {
                return;
            }
            if self.queue.is_empty() && input.flush().await.is_err() {
                return;
            }
        }
    }
}

async fn read_all(
    session: &Arc<Session>,
    server: usize,
    name: &str,
    output: &mut BufReader<ChildStdout>,
) {
    loop {
        match lines::read_any(output).await {
            Ok(Some(Line::Whole(line))) => session.server_said(server, name, line, None).await,
            Ok(Some(Line::Long(skeleton, long))) => {
                // It is there as long as something of it is on its way.
                let long = session.longs.add(long);
                session.server_said(server, name, skeleton, None).await;
                drop(long);
            }
            Ok(Some(Line::NotText(line))) => session.server_said_no_text(server, name, line).await,
            Ok(None) => return,
            Err(error) => {
                session.log().say(&format!("{name} cannot be read: {error}"));
                return;
            }
        }
    }
}

/// A server's process and all it started, as long as one of them may be there. Where it is dropped
/// before it was ended, all of it is killed.
#[derive(Debug)]
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| Pid::from_raw(id as i32)))
    }

    /// Ends the server and all it started: asks, and then does not ask.
    async fn end(&mut self, child: &mut Child) {
        self.signal(Signal::TERM);
        let ended = async {
            let _ = child.wait().await;
            while self.0.is_some_and(|group| test_kill_process_group(group).is_ok()) {
                tokio::time::sleep(LOOK).await;
            }
        };
        if timeout(GRACE, ended).await.is_err() {
            self.signal(Signal::KILL);
            let _ = child.wait().await;
        }
        // Its number may be another's from now on.
        self.0 = None;
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // If it fails, nobody is left.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

fn describe(name: &str, status: Option<std::process::ExitStatus>) -> String {
    match status {
        Some(status) => format!("{name} ended ({status})"),
        None => format!("{name} ended"),
    }
}

/// What a system's error does not say: what of the server is meant, and what can be done.
fn explain(error: &std::io::Error, command: &Path, cwd: Option<&Path>, name: &str) -> String {
    const ONLY_A_SHELL: &str = "only a shell reads ~ and variables; write the whole path";
    let is_for_a_shell = |path: &Path| path.to_string_lossy().starts_with(['~', '$']);
    if let Some(cwd) = cwd.filter(|cwd| !cwd.is_dir()) {
        let hint = if is_for_a_shell(cwd) { ONLY_A_SHELL } else { "correct its cwd" };
        return format!("its folder, {}, is not there; hint: {hint}", cwd.display());
    }
    let hint = match error.kind() {
        std::io::ErrorKind::NotFound if is_for_a_shell(command) => ONLY_A_SHELL,
        std::io::ErrorKind::NotFound if command.to_string_lossy().contains(char::is_whitespace) => {
            "give its arguments as words of their own behind it (args in overspill.toml), not in \
             one with its name"
        }
        std::io::ErrorKind::NotFound => "check its name and PATH",
        std::io::ErrorKind::PermissionDenied => "make it executable",
        _ => "",
    };
    let hint = if hint.is_empty() { String::new() } else { format!("; hint: {hint}") };
    match command.as_os_str() == name {
        true => format!("{error}{hint}"),
        false => format!("{}: {error}{hint}", command.display()),
    }
}
