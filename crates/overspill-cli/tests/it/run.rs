//! `run` and `pipe`: commands whose output passes, is reduced, is stored.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use crate::bench::{Bench, OVERSPILL, assert_picture, numbers};

#[test]
fn a_small_output_passes_byte_for_byte() {
    let bench = Bench::new();
    for bytes in [
        &b"no newline at the end"[..],
        b"",
        b"\n\n",
        b"\xff\xfe not UTF-8 \x00\n",
        b"\x1b[31mred\x1b[0m\n",
    ] {
        let file = bench.write("in", bytes);
        let output = bench.output(&["run", "--", "cat", file.to_str().unwrap()]);
        assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (bytes, &b""[..]));
        let piped = bench.assert(&["pipe"]).write_stdin(bytes).output().unwrap();
        assert_eq!(piped.stdout, bytes);
    }
    assert!(!bench.store().exists());
}

#[test]
fn a_long_output_is_reduced_stored_and_comes_back_equal() {
    let bench = Bench::new();
    assert_picture!(bench.picture(&["run", "--", "seq", "30000"]));
    assert_eq!(bench.stdout(&["export", &bench.handle()]), numbers(30_000));
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(bench.store()), 0o700);
    assert_eq!(mode(bench.store().join(bench.handle())), 0o600);
}

#[test]
fn the_same_output_gives_the_same_view_and_is_stored_once() {
    let bench = Bench::new();
    let once = bench.stdout(&["run", "--", "seq", "30000"]);
    assert_eq!(bench.stdout(&["run", "--", "seq", "30000"]), once);
    bench.handle();
}

#[test]
fn json_tells_what_was_done() {
    let bench = Bench::new();
    assert_picture!(bench.picture(&[
        "run",
        "--json",
        "--run",
        "r1",
        "--call",
        "c7",
        "--tool",
        "bash",
        "--",
        "sh",
        "-c",
        "seq 5000; exit 3"
    ]));
    assert_picture!(bench.picture(&["run", "--json", "--", "printf", "a\\377"]));
    assert_picture!(bench.picture(&[
        "run",
        "--json",
        "--enabled",
        "false",
        "--",
        "echo",
        "as it came"
    ]));
}

#[test]
fn both_streams_are_one_and_the_exit_status_is_kept() {
    let bench = Bench::new();
    let output =
        bench.output(&["run", "--", "sh", "-c", "echo out; echo err >&2; echo out; exit 42"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "out\nerr\nout\n");
    assert_eq!(output.status.code(), Some(42));
    let reduced = bench.output(&["run", "--", "sh", "-c", "seq 5000; exit 101"]);
    assert!(reduced.stdout.starts_with(b"[overspill: exit status 101; "));
    assert_eq!(reduced.status.code(), Some(101));
}

#[test]
fn the_command_reads_standard_input() {
    let bench = Bench::new();
    bench.assert(&["run", "--", "cat"]).write_stdin("typed").assert().success().stdout("typed");
}

#[test]
fn options_behind_the_command_are_the_commands() {
    let bench = Bench::new();
    assert_eq!(bench.stdout(&["run", "echo", "--json", "-n", "--", "x"]), "--json -n -- x\n");
}

#[test]
fn what_cannot_be_run_says_why() {
    let bench = Bench::new();
    bench.write("script", "echo no right to be run\n");
    let no_program = bench.write("data", "\u{7f}not a program\n");
    fs::set_permissions(no_program, fs::Permissions::from_mode(0o755)).unwrap();
    assert_picture!(bench.picture(&["run", "--", "no-such-command"]));
    assert_picture!(bench.picture(&["run", "--", "ls -la | wc"]));
    assert_picture!(bench.picture(&["run", "--", "./script"]));
    assert_picture!(bench.picture(&["run", "--", "./data"]));
    assert_picture!(bench.picture(&["run", "--enabled", "false", "--", "no-such-command"]));
    assert_picture!(bench.picture(&["run"]));
}

#[test]
fn binary_output_is_stored_and_never_cut() {
    let bench = Bench::new();
    let bytes: Vec<u8> =
        (0..40_000_u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let file = bench.write("image", &bytes);
    let output = bench.output(&["run", "--", "cat", file.to_str().unwrap()]);
    let view = String::from_utf8(output.stdout).unwrap();
    assert!(view.contains("(160,000 bytes, binary)"), "{view}");
    assert_eq!(bench.output(&["export", &bench.handle()]).stdout, bytes);
}

#[test]
fn invalid_utf8_in_a_long_text_is_shown_escaped_and_stored_exactly() {
    let bench = Bench::new();
    let bytes = [b"start \xff\xfe\n", numbers(5_000).as_bytes()].concat();
    let file = bench.write("in", &bytes);
    let output = bench.output(&["run", "--", "cat", file.to_str().unwrap()]);
    assert!(output.status.success());
    assert_eq!(bench.output(&["export", &bench.handle()]).stdout, bytes);
    assert!(
        bench.stdout(&["read", &bench.handle(), "--limit", "1"]).ends_with("start \\xff\\xfe\n")
    );
}

#[test]
fn control_sequences_are_taken_out_of_what_is_shown_not_of_what_is_stored() {
    let bench = Bench::with_file("strip_ansi = true\n");
    let coloured: String = (0..3_000).map(|i| format!("\x1b[32mok\x1b[0m {i}\n")).collect();
    let file = bench.write("in", &coloured);
    let view = bench.stdout(&["run", "--", "cat", file.to_str().unwrap()]);
    let handle = bench.handle();
    assert!(view.contains("\nok 0\n") && !view.contains('\x1b'), "{view}");
    assert!(
        bench.stdout(&["read", &handle, "--offset", "9", "--limit", "1"]).ends_with("\nok 9\n")
    );
    assert_eq!(bench.stdout(&["grep", "ok 1234", &handle]), "1234: ok 1234\n");
    assert_eq!(bench.stdout(&["export", &handle]), coloured);
}

#[test]
fn a_store_that_cannot_be_used_never_fails_the_run() {
    let bench = Bench::new();
    bench.write("taken", "a file");
    assert_picture!(bench.picture(&[
        "run",
        "--store",
        "taken",
        "--",
        "sh",
        "-c",
        "seq 3000; exit 9"
    ]));
    assert_picture!(bench.picture(&["read", "cli/seq", "--store", "taken"]));
    assert_picture!(bench.picture(&["list", "--store", "taken"]));
}

#[test]
fn a_store_that_fails_midway_leaves_the_beginning_and_the_end() {
    let bench = Bench::new();
    // More than is held in memory or in a pipe, so the store has some of it when it is removed.
    let script = "seq 400000; rm -rf \"$HOME/.local\"; echo the end; exit 4";
    let output = bench.output(&["run", "--", "sh", "-c", script]);
    let view = String::from_utf8(output.stdout).unwrap();
    assert!(view.starts_with("1\n2\n") && view.ends_with("\n400000\nthe end\n"), "{view}");
    assert!(view.contains("left out here and not stored"), "{view}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("removed from the store's folder"), "{stderr}");
    assert_eq!(output.status.code(), Some(4));
}

#[test]
fn a_user_without_a_home_gets_the_output_and_a_hint() {
    let bench = Bench::new();
    let mut run = bench.command(&["run", "--", "seq", "3000"]);
    let output = run.env("HOME", "").output().unwrap();
    assert!(output.status.success());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.contains("neither XDG_DATA_HOME nor HOME") && stderr.contains("--store"),
        "{stderr}"
    );
    let output = bench.command(&["list"]).env("HOME", "").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_store_in_memory_keeps_nothing_and_says_so() {
    let bench = Bench::with_file("[store]\nkind = \"memory\"\n");
    let output = bench.output(&["run", "--", "seq", "3000"]);
    assert!(!String::from_utf8_lossy(&output.stdout).contains("stored as"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("store in memory"));
    assert_picture!(bench.picture(&["list"]));
}

#[test]
fn a_summary_nobody_can_write_lets_the_chain_go_on() {
    let bench = Bench::with_file(
        "[[bands]]\nover = 1_000\naction = \"summarize\"\nthen = { action = \"spill\", preview_chars = 50 }\n",
    );
    assert_picture!(bench.picture(&["run", "--", "seq", "1000"]));
    assert_eq!(bench.stdout(&["export", &bench.handle()]), numbers(1_000));
}

#[test]
fn switched_off_nothing_stands_between() {
    let bench = Bench::with_file("enabled = false\n");
    let output = bench.output(&["run", "--", "sh", "-c", "seq 30000; echo err >&2; exit 7"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), numbers(30_000));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "err\n");
    assert_eq!(output.status.code(), Some(7));
    let piped = bench.assert(&["pipe"]).write_stdin(numbers(30_000)).output().unwrap();
    assert_eq!(String::from_utf8(piped.stdout).unwrap(), numbers(30_000));
    assert!(!bench.store().exists());
}

#[test]
fn what_passes_is_shown_while_the_command_runs() {
    let bench = Bench::with_file("[[bands]]\nover = 1\naction = \"passthrough\"\n");
    let mut run = bench.command(&["run", "--", "sh", "-c", "seq 30000; read go; echo gone $go"]);
    let mut child = run.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut first = vec![0; numbers(30_000).len()];
    let mut stdout = child.stdout.take().unwrap();
    // It waits for a line, so this comes only if it is not held back.
    stdout.read_exact(&mut first).unwrap();
    child.stdin.take().unwrap().write_all(b"on\n").unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!((first, rest.as_str()), (numbers(30_000).into_bytes(), "gone on\n"));
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_command_that_passes_learns_that_nobody_reads() {
    let bench = Bench::with_file("[[bands]]\nover = 1\naction = \"passthrough\"\n");
    let mut child = bench.command(&["run", "--", "yes"]).stdout(Stdio::piped()).spawn().unwrap();
    child.stdout.take().unwrap().read_exact(&mut [0; 100]).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(128 + 13));
}

#[test]
fn a_view_nobody_reads_changes_no_exit_status() {
    let bench = Bench::new();
    let mut run = bench.command(&["run", "--", "sh", "-c", "seq 5000; read go; exit 6"]);
    let mut child =
        run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(6), &b""[..]));
    bench.handle();
}

#[test]
fn answers_of_read_are_not_reduced_again() {
    let bench = Bench::with_file("[[bands]]\nover = 100\naction = \"spill\"\n");
    let handle = bench.stored_numbers(1_000);
    let read = bench.stdout(&["read", &handle]);
    assert!(read.len() > 500);
    assert_eq!(bench.stdout(&["run", "--", OVERSPILL, "read", &handle]), read);
    let piped = bench.assert(&["pipe"]).write_stdin(read.as_str()).output().unwrap();
    assert_eq!(String::from_utf8(piped.stdout).unwrap(), read);
}

#[test]
fn bands_of_a_tool_apply_by_its_name() {
    let bench = Bench::with_file(
        "[[tool.seq.bands]]\nover = 100\naction = \"truncate\"\nmax_chars = 300\n",
    );
    assert_picture!(bench.picture(&["run", "--", "seq", "300"]));
    assert_eq!(bench.stdout(&["run", "--tool", "other", "--", "seq", "300"]), numbers(300));
}

#[test]
fn a_damaged_payload_that_stands_in_the_way_says_how_to_mend_it() {
    let bench = Bench::new();
    let handle = bench.stored_numbers(5_000);
    let file = bench.store().join(&handle);
    fs::write(&file, numbers(5_000).replace('7', "8")).unwrap();
    let picture = bench.picture(&["run", "--", "seq", "5000"]);
    assert!(picture.contains("left out here and not stored"), "{picture}");
    let said = picture.split_once("--- stderr\n").unwrap().1;
    insta::assert_snapshot!(said, @r"
    overspill: warning: spill could not store the output of seq: the bytes stored as cli/seq.zfxgah7paglff4jzg67cqabw6i no longer match their digest; nothing was overwritten
    hint: `overspill verify cli/seq.zfxgah7paglff4jzg67cqabw6i` looks at it; once the damaged file cli/seq.zfxgah7paglff4jzg67cqabw6i is removed from the store's folder, this output can be stored again
    --- exit status 0
    ");

    let verified = bench.picture(&["verify", &handle]);
    assert!(verified.contains("damaged") && verified.ends_with("exit status 1\n"), "{verified}");
    fs::remove_file(&file).unwrap();
    assert_eq!(bench.stored_numbers(5_000), handle);
    assert!(bench.stdout(&["export", &handle]) == numbers(5_000));
}

/// No thread can have a stack of that size, so there are none.
const NO_THREADS: (&str, &str) = ("RUST_MIN_STACK", "1125899906842624");

#[test]
fn without_threads_a_command_is_not_started() {
    let bench = Bench::new();
    let run = |args: &[&str]| bench.command(args).env(NO_THREADS.0, NO_THREADS.1).output().unwrap();
    let output = run(&["run", "--", "touch", "made"]);
    assert_eq!(output.status.code(), Some(126));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("overspill: error: the command was not started: "), "{said}");
    assert!(said.contains("\nhint: "), "{said}");
    assert!(!bench.path("made").exists());

    let output = run(&["pipe"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("nothing was read: no thread can be had"), "{said}");
}

#[test]
fn without_threads_all_else_works() {
    let bench = Bench::with_user_file("[retention]\nmax_age = \"30d\"\n");
    let handle = bench.stored_numbers(5_000);
    for args in [
        &["list"][..],
        &["read", &handle],
        &["grep", "4999", &handle],
        &["show", &handle],
        &["verify"],
        &["export", &handle],
        &["prune"],
        &["demo", "--json"],
    ] {
        let output = bench.command(args).env(NO_THREADS.0, NO_THREADS.1).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{args:?}: {output:?}");
    }
}

#[test]
fn without_files_a_command_is_not_started() {
    let bench = Bench::with_user_file("[retention]\nmax_age = \"30d\"\n");
    let mut refusals = 0;
    for files in 3..20 {
        let made = bench.path("made");
        let line = format!("ulimit -n {files}; exec {OVERSPILL} run -- touch made");
        let output = bench.program("sh", &["-c", &line]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        // With fewer, the program itself cannot be loaded.
        if said.contains("shared libraries") {
            continue;
        }
        let is_started = made.exists();
        assert_eq!(!is_started, said.contains("the command was not started"), "{files}: {said}");
        refusals += u32::from(!is_started);
        let _ = fs::remove_file(made);
    }
    assert!(refusals > 0);
}

#[test]
fn several_runs_at_once_share_a_store() {
    let bench = Bench::new();
    let children: Vec<_> = (0..8)
        .map(|i| {
            // Two of each write the same.
            let last = format!("{}", 20_000 + i / 2);
            bench.command(&["run", "--", "seq", &last]).stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(bench.json(&["list", "--json"]).as_array().map(Vec::len), Some(4));
    bench.assert(&["verify"]).assert().success();
}

#[test]
fn the_outputs_in_the_documentation_are_what_pipe_prints() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(here.join("../../docs/excerpts.md")).unwrap();
    for name in ["test", "file", "json"] {
        let bench = Bench::new();
        let recorded = fs::read(here.join(format!("demo/{name}.out"))).unwrap();
        let piped = bench.assert(&["pipe", "--call", name]).write_stdin(recorded).assert();
        let printed = String::from_utf8(piped.success().get_output().stdout.clone()).unwrap();
        let block = format!("```text\n{}\n```\n", printed.trim_end());
        assert!(page.contains(&block), "docs/excerpts.md is to show this:\n{block}");
        let count = printed.chars().count();
        let count = format!("{},{:03}", count / 1_000, count % 1_000);
        let after = [format!("after, {count}"), format!("after,\n{count}")];
        assert!(after.iter().any(|said| page.contains(said)), "{name} is {count} characters after");
    }
}
