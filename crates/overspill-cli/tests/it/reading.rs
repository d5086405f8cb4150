//! The commands that read back: `read`, `grep`, `list`, `show`, `verify`, `export`.

use std::fs::{self, File};
use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use crate::bench::{Bench, assert_picture, numbers};

#[test]
fn read_answers_as_the_read_tool_does() {
    let bench = Bench::new();
    let handle = bench.stored_numbers(5_000);
    let read = |args: &[&str]| bench.picture(&[&["read", handle.as_str()], args].concat());
    assert_picture!(read(&["--offset", "100", "--limit", "2"]));
    assert_picture!(read(&["--from-end", "--limit", "2"]));
    assert_picture!(read(&["--pattern", "499", "--limit", "2", "--context", "1"]));
    assert_picture!(read(&["--pattern", "^50+$", "--regex"]));
    assert_picture!(read(&["--pattern", "nothing like it"]));
    assert_picture!(read(&["--offset", "9000"]));
    assert_picture!(read(&["--json", "--offset", "4999"]));
}

#[test]
fn read_queries_json() {
    let bench = Bench::new();
    let records: Vec<_> =
        (0..1_000).map(|id| serde_json::json!({ "id": id, "name": format!("n{id}") })).collect();
    let text = serde_json::to_string(&records).unwrap();
    bench.assert(&["pipe", "--tool", "curl"]).write_stdin(text).assert().success();
    assert_picture!(bench.picture(&["read", "cli/curl", "--json-path", "$[?@.id == 700].name"]));
}

#[test]
fn what_is_wrong_with_a_read_says_what_to_do() {
    let bench = Bench::new();
    bench.stored_numbers(5_000);
    assert_picture!(bench.picture(&["read", "cli/nothing"]));
    assert_picture!(bench.picture(&["read", "cli/seq.aaaaaaaaaaaaaaaaaaaaaaaaaa"]));
    assert_picture!(bench.picture(&["read", "../../etc/passwd"]));
    assert_picture!(bench.picture(&["read", ""]));
    assert_picture!(bench.picture(&["read", "cli/seq", "--pattern", "(", "--regex"]));
    assert_picture!(bench.picture(&["read", "cli/seq", "--json-path", "$.a"]));
    assert_picture!(bench.picture(&["read", "cli/seq", "--limit", "0"]));
    assert_picture!(bench.picture(&["read", "cli/seq", "--regex"]));
}

#[test]
fn a_handle_may_be_shortened_where_it_names_one_payload() {
    let bench = Bench::new();
    let handle = bench.stored_numbers(5_000);
    let digest = handle.split_once('.').unwrap().1;
    let whole = bench.stdout(&["read", &handle]);
    for short in ["cli/seq", "cli", &handle[..15], digest, &digest[..6], &format!("`{handle}`")] {
        assert_eq!(bench.stdout(&["read", short]), whole, "{short}");
    }
}

#[test]
fn the_name_of_a_call_is_its_newest_payload() {
    let bench = Bench::new();
    let first = bench.stored_numbers(5_000);
    let name = |lines: u32| {
        bench.assert(&["pipe", "--tool", "seq"]).write_stdin(numbers(lines)).assert().success();
        bench.stdout(&["export", "cli/seq"])
    };
    assert_eq!(name(6_000), numbers(6_000));
    // The same again is stored once, and is the newest again.
    assert_eq!(name(5_000), numbers(5_000));
    let long_ago = SystemTime::now() - Duration::from_secs(3_600);
    File::open(bench.store().join(&first)).unwrap().set_modified(long_ago).unwrap();
    assert_eq!(bench.stdout(&["export", "cli/seq"]), numbers(6_000));
    // What begins several names is none of them.
    assert_picture!(bench.picture(&["read", "cli/se"]));
    bench.assert(&["pipe", "--tool", "seqs"]).write_stdin(numbers(7_000)).assert().success();
    assert_eq!(bench.stdout(&["export", "cli/seq"]), numbers(6_000));
}

#[test]
fn grep_searches_all_of_it() {
    let bench = Bench::new();
    let handle = bench.stored_numbers(200_000);
    let grep = |args: &[&str]| bench.picture(&[&["grep"], args, &[handle.as_str()]].concat());
    assert_picture!(grep(&["19999"]));
    assert_picture!(grep(&["--regex", "^1?99998$", "--context", "2"]));
    assert_picture!(grep(&["--regex", "^10000[058]$", "-C", "1"]));
    assert_picture!(grep(&["--regex", "^(1|2|200000)$", "-C", "1", "--json"]));
    assert_picture!(grep(&["--count", "7"]));
    assert_picture!(grep(&["--count", "7", "--json"]));
    assert_picture!(grep(&["nothing like it"]));
    assert_picture!(grep(&["--count", "nothing like it"]));
    assert_picture!(grep(&["--regex", "("]));
}

#[test]
fn context_gives_each_line_once_and_in_order() {
    let bench = Bench::new();
    let handle = bench.stored_numbers(60_000);
    // Matches near and far, so that what stands around them overlaps, touches and lies apart.
    let regex = "^([0-9]*00[0-9]?|[0-9]*7777|59999)$";
    for context in [1, 2, 5, 40] {
        let rows = bench.stdout(&["grep", "-E", regex, "-C", &context.to_string(), &handle]);
        let expected = {
            let file = bench.write("numbers", numbers(60_000));
            let grep = ["-nE", regex, "-C", &context.to_string(), file.to_str().unwrap()]
                .map(str::to_owned);
            let output = std::process::Command::new("grep").args(grep).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        // grep counts lines from 1, and our line n holds the number n + 1: the text says it all.
        let texts = |rows: &str, mark: &[char]| -> Vec<String> {
            let text = |row: &str| match row {
                "--" => "--".to_owned(),
                row => {
                    let at = row.find(mark).unwrap();
                    format!("{}{}", &row[at..=at], row[at + 1..].trim_start())
                }
            };
            rows.lines().map(text).collect()
        };
        assert!(texts(&rows, &[':', '-']) == texts(&expected, &[':', '-']), "context {context}");
    }
}

#[test]
fn a_match_across_the_cuts_of_one_long_line_is_found() {
    let bench = Bench::new();
    let mut line = "ab ".repeat(50_000);
    line.insert_str(1_990, "needle in the haystack");
    bench.assert(&["pipe", "--tool", "one"]).write_stdin(line).assert().success();
    let count = bench.stdout(&["grep", "--count", "needle in the haystack", "cli/one"]);
    assert_eq!(count, "2\n");
}

#[test]
fn list_shows_what_is_stored() {
    let bench = Bench::new();
    assert_picture!(bench.picture(&["list"]));
    assert_picture!(bench.picture(&["list", "--json"]));
    bench.stored_numbers(5_000);
    assert_picture!(bench.picture(&["list"]));
    assert_picture!(bench.picture(&["list", "--json"]));
    let run = "a run: 7/8";
    bench.assert(&["pipe", "--run", run]).write_stdin(numbers(6_000)).assert().success();
    assert_eq!(bench.stdout(&["list"]).lines().count(), 3);
    assert_eq!(bench.stdout(&["list", "--run", run]).lines().count(), 2);
    assert_eq!(bench.stdout(&["list", "--run", "cli"]).lines().count(), 2);
    assert_eq!(bench.stdout(&["list", "--run", "none"]), "nothing is stored\n");
}

#[test]
fn list_puts_the_newest_first() {
    let bench = Bench::new();
    bench.stored_numbers(5_000);
    let old = fs::File::open(bench.store().join(bench.handle())).unwrap();
    old.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    bench.assert(&["pipe", "--tool", "zz"]).write_stdin(numbers(5_000)).assert().success();
    let list = bench.json(&["list", "--json"]);
    assert_eq!((&list[0]["tool"], &list[1]["tool"]), (&"zz".into(), &"seq".into()));
}

#[test]
fn show_is_the_receipt() {
    let bench = Bench::new();
    bench.stored_numbers(5_000);
    assert_picture!(bench.picture(&["show", "cli/seq"]));
    assert_picture!(bench.picture(&["show", "cli/seq", "--json"]));
    assert_picture!(bench.picture(&["show", "cli/nothing"]));
}

#[test]
fn verify_finds_damage() {
    let bench = Bench::new();
    let handle = bench.stored_numbers(5_000);
    assert_picture!(bench.picture(&["verify"]));
    assert_picture!(bench.picture(&["verify", "cli/seq.aaaaaaaaaaaaaaaaaaaaaaaaaa"]));
    fs::remove_file(bench.store().join(format!("{handle}.idx"))).unwrap();
    assert_picture!(bench.picture(&["verify", "cli/seq"]));

    let bench = Bench::new();
    let handle = bench.stored_numbers(5_000);
    let file = bench.store().join(&handle);
    let mut bytes = fs::read(&file).unwrap();
    bytes[10_000] ^= 1;
    fs::write(&file, &bytes).unwrap();
    assert_picture!(bench.picture(&["verify", "all"]));
    assert_picture!(bench.picture(&["verify", "--json"]));
    assert_picture!(bench.picture(&["export", &handle, "--output", "out"]));
    assert!(!bench.path("out").exists());
    fs::write(&file, "short").unwrap();
    assert_picture!(bench.picture(&["list"]));
    assert_picture!(bench.picture(&["read", &handle]));
}

#[test]
fn verify_finds_what_is_no_payload_in_a_payloads_place() {
    let bench = Bench::new();
    let handle = bench.stored_numbers(5_000);
    let stands = |name: &str| bench.store().join("cli").join(format!("{name}.{}", "a".repeat(26)));
    fs::create_dir(stands("folder")).unwrap();
    std::os::unix::fs::symlink(bench.store().join(&handle), stands("link")).unwrap();
    std::os::unix::fs::symlink("/nowhere", stands("broken")).unwrap();
    let fifo = stands("fifo");
    assert!(bench.program("mkfifo", &[fifo.to_str().unwrap()]).status().unwrap().success());
    for args in [&["verify", "--json"][..], &["verify", "all", "--json"]] {
        let output = bench.output(args);
        assert_eq!(output.status.code(), Some(1));
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let states: Vec<_> = found
            .as_array()
            .unwrap()
            .iter()
            .map(|one| {
                let (handle, state) =
                    (one["handle"].as_str().unwrap(), one["state"].as_str().unwrap());
                (handle.split_once('.').unwrap().0, state)
            })
            .collect();
        let unreadable = ["cli/broken", "cli/fifo", "cli/folder", "cli/link"];
        let unreadable = unreadable.map(|handle| (handle, "unreadable"));
        assert_eq!(states, [&unreadable[..], &[("cli/seq", "ok")]].concat());
    }
    // Nothing else minds.
    assert_eq!(bench.json(&["list", "--json"]).as_array().unwrap().len(), 1);
}

#[test]
fn export_gives_the_bytes_and_overwrites_nothing() {
    let bench = Bench::new();
    let handle = bench.stored_numbers(5_000);
    assert_eq!(bench.stdout(&["export", &handle]), numbers(5_000));
    assert_picture!(bench.picture(&["export", "cli/seq", "-o", "out"]));
    assert_eq!(fs::read_to_string(bench.path("out")).unwrap(), numbers(5_000));
    bench.write("out", "mine");
    assert_picture!(bench.picture(&["export", "cli/seq", "-o", "out"]));
    assert_eq!(fs::read_to_string(bench.path("out")).unwrap(), "mine");
    assert_picture!(bench.picture(&["export", "cli/seq", "-o", "out", "--force", "--json"]));
    assert_eq!(fs::read_to_string(bench.path("out")).unwrap(), numbers(5_000));
    assert_picture!(bench.picture(&["export", "cli/seq", "--json"]));
    assert_picture!(bench.picture(&["export", "cli/seq", "-o", "no/such/folder/out"]));
}

#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_written_is_named() {
    let bench = Bench::new();
    let handle = bench.stored_numbers(50_000);
    for args in [
        &["export", handle.as_str()][..],
        &["read", &handle],
        &["grep", "1", &handle],
        &["list", "--json"],
        &["show", &handle],
    ] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = bench.command(args).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.starts_with("overspill: error: standard output could not be written: No space"),
            "{args:?}: {said}"
        );
    }
    bench.write("file", "");
    assert_picture!(bench.picture(&["export", "cli/seq", "-o", "/dev/full", "--force"]));
    let nowhere = bench.path("none/x");
    assert_picture!(bench.picture(&["export", "cli/seq", "-o", nowhere.to_str().unwrap()]));
    assert_picture!(bench.picture(&["export", "cli/seq", "-o", "file/x"]));
}

#[test]
fn times_before_1970_are_negative() {
    use std::time::{Duration, SystemTime};

    let bench = Bench::new();
    let handle = bench.stored_numbers(5_000);
    let old = SystemTime::UNIX_EPOCH - Duration::from_millis(1_500);
    fs::File::open(bench.store().join(&handle)).unwrap().set_modified(old).unwrap();
    assert_eq!(bench.json(&["list", "--json"])[0]["modified"], -2);
    assert_eq!(bench.json(&["show", &handle, "--json"])["modified"], -2);
    assert_eq!(bench.json(&["prune", "-n", "--json"])["kept"][0]["modified"], -2);
}

#[test]
fn a_closed_pipe_is_no_error() {
    let bench = Bench::new();
    let handle = bench.stored_numbers(200_000);
    for args in [
        &["export", handle.as_str()][..],
        &["grep", "1", &handle],
        &["grep", "--json", "1", &handle],
    ] {
        let mut command = bench.command(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0; 10]).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (output.status.code(), output.stderr.as_slice()),
            (Some(0), &b""[..]),
            "{args:?}"
        );
    }
}

/// One index that cannot be read, whatever stands in its place, concerns its own payload alone, and
/// that one can still be read.
#[test]
fn an_index_that_is_no_file_hides_nothing() {
    let bench = Bench::new();
    let handle = bench.stored_numbers(5_000);
    let index = bench.store().join(format!("{handle}.idx"));
    std::fs::remove_file(&index).unwrap();
    std::fs::create_dir(&index).unwrap();
    bench.stored_numbers(5_000);
    fs::remove_file(bench.store().join(&handle)).unwrap();
    bench.stored_numbers(5_000);
    bench.assert(&["list"]).assert().success();
    bench.assert(&["verify"]).assert().success();
    bench.assert(&["export", &handle]).assert().success();
    bench.assert(&["read", &handle, "--offset", "4999"]).assert().success();
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_of_any_name_can_be_exported_to() {
    use std::os::unix::ffi::OsStrExt;

    let bench = Bench::new();
    let handle = bench.stored_numbers(5_000);
    let file = bench.store().join(std::ffi::OsStr::from_bytes(b"\xff"));
    let mut export = bench.assert(&["export", &handle, "--json", "-o"]);
    export.arg(&file).assert().success();
    assert!(file.is_file());
    // A link is followed, and what it stands for keeps its mode.
    let link = bench.store().join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o640);
    std::fs::set_permissions(&file, mode).unwrap();
    let mut export = bench.assert(&["export", &handle, "--force", "-o"]);
    export.arg(&link).assert().success();
    assert!(link.is_symlink());
    let mode = std::os::unix::fs::MetadataExt::mode(&file.metadata().unwrap());
    assert_eq!(mode & 0o777, 0o640);
}
