//! Signals: who gets them, what is stored all the same, what the exit status says.

use std::fs::{self, File};
use std::process::{Child, Stdio};

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::{Pid, Signal, kill_process};

use crate::bench::{Bench, OVERSPILL, numbers};

/// Starts `overspill` on a script, and returns when the script has written into the pipe that it
/// finds as `$READY`. No signal is ignored, as it would be where the tests run under `nohup`.
fn started(bench: &Bench, args: &[&str], script: &str) -> Child {
    let ready = bench.path("ready");
    mkfifoat(CWD, &ready, Mode::RUSR | Mode::WUSR).unwrap();
    let args = [&["--default-signal", OVERSPILL], args, &["sh", "-c", script]].concat();
    let mut env = bench.program("env", &args);
    let child = env.env("READY", &ready).stdout(Stdio::piped()).spawn().unwrap();
    drop(File::open(ready).unwrap());
    child
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn a_signal_sent_to_overspill_reaches_the_command_and_what_it_printed_is_stored() {
    for (signal, number) in [(Signal::TERM, 15), (Signal::HUP, 1), (Signal::INT, 2)] {
        let bench = Bench::new();
        let child = started(&bench, &["run", "--"], "seq 5000; : > $READY; exec sleep 60");
        send(&child, signal);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(128 + number));
        let view = String::from_utf8(output.stdout).unwrap();
        assert!(view.starts_with(&format!("[overspill: exit status {}; ", 128 + number)), "{view}");
        assert_eq!(bench.stdout(&["export", &bench.handle()]), numbers(5_000));
    }
}

#[test]
fn a_command_that_ends_its_own_way_keeps_its_status() {
    let bench = Bench::new();
    // The process left behind holds the output open; it is not waited for.
    let script = "trap 'echo caught; exit 5' TERM; seq 5000; sleep 20 & : > $READY; wait";
    let child = started(&bench, &["run", "--"], script);
    send(&child, Signal::TERM);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    assert_eq!(bench.stdout(&["export", &bench.handle()]), numbers(5_000) + "caught\n");
}

#[test]
fn a_command_killed_by_a_signal_leaves_its_output() {
    let bench = Bench::new();
    let output = bench.output(&["run", "--", "sh", "-c", "seq 5000; sleep 20 & kill -KILL $$"]);
    assert_eq!(output.status.code(), Some(137));
    assert_eq!(bench.stdout(&["export", &bench.handle()]), numbers(5_000));
    let small = bench.output(&["run", "--", "sh", "-c", "echo little; kill -SEGV $$"]);
    assert_eq!((small.status.code(), small.stdout.as_slice()), (Some(139), &b"little\n"[..]));
}

#[test]
fn what_others_print_after_the_command_has_ended_by_itself_is_waited_for() {
    let bench = Bench::new();
    mkfifoat(CWD, bench.path("go"), Mode::RUSR | Mode::WUSR).unwrap();
    let script = "(echo early; read x < go; echo late) & exit 3";
    let child =
        bench.command(&["run", "--", "sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    fs::write(bench.path("go"), "\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(3), &b"early\nlate\n"[..]));
}

#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    let bench = Bench::new();
    let script = r#"trap "" HUP; exec "$0" run -- sh -c 'kill -HUP $$; echo alive'"#;
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", script, OVERSPILL]).env("HOME", bench.home());
    assert_eq!(shell.output().unwrap().stdout, b"alive\n");
}

#[test]
fn a_pipe_that_is_told_to_end_stores_what_came() {
    let bench = Bench::new();
    let mut pipe = bench.command(&["pipe", "--tool", "seq"]);
    let (input, mut writer) = std::io::pipe().unwrap();
    let child = pipe.stdin(input).stdout(Stdio::piped()).spawn().unwrap();
    // More than a pipe holds: when all is written, most of it has been read, and signals are
    // caught from before the first read on.
    std::io::Write::write_all(&mut writer, numbers(50_000).as_bytes()).unwrap();
    send(&child, Signal::TERM);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 15));
    assert_eq!(bench.stdout(&["export", &bench.handle()]), numbers(50_000));
    drop(writer);
}
