//! Processes of their own, for what one process cannot show: this very test binary, started
//! again to run one test that does as an environment variable tells.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::*;

const TASK: &str = "OVERSPILL_TEST_TASK";
const ROOT: &str = "OVERSPILL_TEST_ROOT";

/// A child process; killed when dropped.
pub(super) struct Process {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
}

/// Starts a child that does `task`, one of the arms in [`child_process`], on a store in `root`.
pub(super) fn start(task: &str, root: &Path) -> Process {
    spawn(command(task, root)).unwrap()
}

/// Runs a child to its end in a mount namespace of its own, as root there: what it mounts, nobody
/// else sees, and it goes with the child. Returns `None`, and says so, where it cannot.
pub(super) fn run_with_own_mounts(task: &str, root: &Path) -> Option<()> {
    let unshare = |command: Option<&Command>| {
        let mut unshare = Command::new("unshare");
        unshare.arg("--mount");
        if !rustix::process::geteuid().is_root() {
            unshare.arg("--map-root-user");
        }
        match command {
            None => unshare.args(["mount", "-t", "tmpfs", "tmpfs"]).arg(root),
            Some(command) => {
                unshare.arg("--").arg(command.get_program()).args(command.get_args());
                unshare.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))))
            }
        };
        unshare
    };
    std::fs::create_dir_all(root).unwrap();
    let can_mount = unshare(None).stderr(Stdio::null()).status().is_ok_and(|it| it.success());
    if !can_mount {
        println!("skipped: this user cannot mount a file system of its own here");
        return None;
    }
    let mut command = unshare(Some(&self::command(task, root)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    spawn(command).unwrap().finish();
    Some(())
}

/// Runs a child to its end, as a user without privileges if this process has them. Returns
/// `None`, and says so, where such a user cannot run the test binary.
pub(super) fn run_unprivileged(task: &str, root: &Path) -> Option<()> {
    let mut command = command(task, root);
    if rustix::process::geteuid().is_root() {
        let nobody = 65_534;
        std::os::unix::fs::chown(root.parent().unwrap(), Some(nobody), Some(nobody)).unwrap();
        command.uid(nobody).gid(nobody);
    }
    match spawn(command) {
        Ok(process) => {
            process.finish();
            Some(())
        }
        Err(error) => {
            println!("skipped: a user without privileges cannot run this test: {error}");
            None
        }
    }
}

impl Process {
    /// Waits for the child to print a line with `word`, and returns what follows the word.
    pub(super) fn wait_for(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the child ended too early");
            if let Some((_, rest)) = line.split_once(word) {
                return rest.trim().to_owned();
            }
        }
    }

    /// Lets the child go on from where it reads a byte.
    pub(super) fn go_on(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    /// Kills the child without a chance to clean up; returns what it had printed beyond what was
    /// waited for.
    pub(super) fn kill(mut self) -> String {
        self.child.kill().unwrap();
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        rest
    }

    /// Waits for the child to end well.
    pub(super) fn finish(mut self) {
        let mut said = String::new();
        self.stdout.read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success(), "the child failed:\n{said}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(task: &str, root: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "local::child::child_process", "--nocapture"])
        .env(TASK, task)
        .env(ROOT, root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

fn spawn(mut command: Command) -> std::io::Result<Process> {
    let mut child = command.spawn()?;
    let stdout = BufReader::new(child.stdout.take().unwrap());
    Ok(Process { child, stdout })
}

/// Does nothing in a test run; in a child, what it was started for.
#[test]
fn child_process() {
    let Ok(task) = std::env::var(TASK) else { return };
    let root = PathBuf::from(std::env::var_os(ROOT).unwrap());
    let (task, argument) = task.split_once(' ').unwrap_or((&task, ""));
    match task {
        "spill-under-umask" => permissions::spill_under_umask(&root, argument),
        "lose-permission" => permissions::lose_permission(&root),
        "write-without-end" => crash::write_without_end(&root),
        "hold-a-stage" => leftovers::hold_a_stage(&root),
        "full-disk" => faults::full_disk(&root),
        "read-only" => faults::read_only(&root),
        "sweep-without-permission" => faults::sweep_without_permission(&root),
        "write-200-mb" => faults::write_200_mb(&root),
        "write-receipts" => faults::write_receipts(&root, argument),
        "sweep-by-turns" => faults::sweep_by_turns(&root, argument),
        "delete-by-age" => faults::delete_by_age(&root),
        "spill-without-end" => crash::spill_without_end(&root),
        other => panic!("no such task: {other}"),
    }
}

/// Tells the parent.
pub(super) fn say(word: &str, rest: impl std::fmt::Display) {
    println!("\n{word} {rest}");
    std::io::stdout().flush().unwrap();
}

/// Waits for the parent.
pub(super) fn pause() {
    let _ = std::io::stdin().read(&mut [0]);
}
