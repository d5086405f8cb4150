//! `replay`: what it says of recordings that are not whole.

use crate::bench::Bench;

/// A session of one request.
const SESSION: &str = concat!(
    r#"{"type":"session","version":3,"id":"s","cwd":"/"}"#,
    "\n",
    r#"{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":"Hello"}}"#,
    "\n",
    r#"{"type":"message","id":"b","parentId":"a","message":{"role":"assistant","content":[{"type":"text","text":"Hi"}]}}"#,
    "\n",
);

/// The same, before the model answered.
fn question() -> String {
    SESSION.lines().take(2).map(|line| format!("{line}\n")).collect()
}

#[test]
fn lines_that_cannot_be_read_are_said() {
    let bench = Bench::new();
    bench.write("sound.jsonl", SESSION);
    bench.write("one.jsonl", format!("{SESSION}{{\"type\":\"mess\n"));
    bench.write("two.jsonl", format!("{SESSION}nonsense\n\n{{\n"));
    bench.write("none.jsonl", format!("{}nonsense\n", question()));
    let output = bench.output(&["replay", "."]);
    assert!(output.status.success(), "{output:?}");
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap(), @r"
    overspill: warning: ./none.jsonl: 1 line cannot be read as JSON and was passed over
    overspill: warning: ./one.jsonl: 1 line cannot be read as JSON and was passed over
    overspill: warning: ./two.jsonl: 2 lines cannot be read as JSON and were passed over
    overspill: warning: recordings in which the model never answers: 1
    ");
    let json = bench.json(&["replay", ".", "--json"]);
    let lines = json["skipped_lines"].as_array().unwrap();
    let lines: Vec<_> = lines
        .iter()
        .map(|one| (one["path"].as_str().unwrap(), one["lines"].as_u64().unwrap()))
        .collect();
    assert_eq!(lines, [("./none.jsonl", 1), ("./one.jsonl", 1), ("./two.jsonl", 2)]);
    assert_eq!(json["unanswered"], serde_json::json!(["./none.jsonl"]));
    assert_eq!(json["sessions"], 3);
}

#[test]
fn what_the_configuration_does_is_a_policy_and_each_session_has_a_row() {
    let bench =
        Bench::with_file("[[bands]]\nover = 1_000\naction = \"truncate\"\nmax_chars = 500\n");
    bench.write("short.jsonl", SESSION);
    let session = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/session.jsonl");
    std::fs::copy(session, bench.path("long.jsonl")).unwrap();
    let args =
        ["replay", "short.jsonl", "long.jsonl", "--policy", "default,config", "--by-session"];
    let table = bench.stdout(&args);
    let cut = bench.json(&[&args[..], &["--json"]].concat());
    let row = |at: usize| cut["rows"][at]["reduction"].clone();
    assert!(row(2)["sent"].as_f64() > row(1)["sent"].as_f64(), "it cuts more: {cut}");
    assert!(row(2)["reachable"].as_f64() < Some(100.0), "and stores nothing: {cut}");
    let rows: Vec<&str> = table.lines().filter(|line| line.contains(".jsonl")).collect();
    let named: Vec<_> = rows.iter().map(|row| row.split_whitespace().last().unwrap()).collect();
    // In the short one there was nothing to do.
    assert_eq!(named, ["long.jsonl", "short.jsonl"], "{table}");

    bench.write("overspill.toml", "bands = 7\n");
    assert!(bench.output(&args).status.code() == Some(2), "it asks for a file that is wrong");
    assert!(bench.output(&args[..3]).status.success(), "and so it does not");
}

#[test]
fn where_nothing_is_shown_it_says_why() {
    let bench = Bench::new();
    bench.write("question.jsonl", question());
    bench.write("short.jsonl", SESSION);
    bench.write("other.jsonl", "{\"nothing\": \"like it\"}\n");
    std::fs::create_dir(bench.path("empty")).unwrap();
    insta::assert_snapshot!(bench.picture(&["replay", "question.jsonl"]), @r"
    $ overspill replay question.jsonl
    --- stderr
    overspill: warning: question.jsonl: the model never answers in it, so there is nothing to replay
    overspill: warning: no recorded session to replay was found; agents keep them in folders such as ~/.claude/projects, ~/.codex/sessions or ~/.pi/agent/sessions
    --- exit status 1
    ");
    insta::assert_snapshot!(bench.picture(&["replay", "--long", "short.jsonl"]), @r"
    $ overspill replay --long short.jsonl
    --- stderr
    overspill: warning: sessions that are shorter than --long asks for: 1
    overspill: warning: no recorded session to replay was found; agents keep them in folders such as ~/.claude/projects, ~/.codex/sessions or ~/.pi/agent/sessions
    --- exit status 1
    ");
    insta::assert_snapshot!(bench.picture(&["replay", "other.jsonl"]), @r"
    $ overspill replay other.jsonl
    --- stderr
    overspill: warning: other.jsonl: not a recorded session of a known format
    hint: pass a session file of one of claude_code, codex, inspect, kimi, langchain, mini_swe, oh_llm, openhands, pi, specstory, swe_agent, vcr; logs of Inspect must be in its JSON form
    overspill: warning: no recorded session to replay was found; agents keep them in folders such as ~/.claude/projects, ~/.codex/sessions or ~/.pi/agent/sessions
    --- exit status 1
    ");
    insta::assert_snapshot!(bench.picture(&["replay", "empty"]), @r"
    $ overspill replay empty
    --- stderr
    overspill: warning: no recorded session to replay was found; agents keep them in folders such as ~/.claude/projects, ~/.codex/sessions or ~/.pi/agent/sessions
    --- exit status 1
    ");
    insta::assert_snapshot!(bench.picture(&["replay", "short.jsonl", "not/there"]), @r"
    $ overspill replay short.jsonl not/there
    --- stderr
    overspill: error: not/there does not exist
    hint: name a file or folder of recordings
    --- exit status 1
    ");
}

#[test]
fn a_recording_counts_once_and_what_cannot_be_read_stops_nothing() {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{PermissionsExt, symlink};

    let bench = Bench::new();
    bench.write("s.jsonl", SESSION);
    symlink("s.jsonl", bench.path("same.jsonl")).unwrap();
    let replayed = bench.json(&["replay", "s.jsonl", "./s.jsonl", ".", "--json"]);
    assert_eq!(replayed["sessions"], 1);
    let twice = bench.json(&["replay", "s.jsonl", "--policy", "lean,lean,default,lean", "--json"]);
    let names: Vec<_> =
        twice["rows"].as_array().unwrap().iter().map(|row| &row["policy"]).collect();
    assert_eq!(names, ["none", "lean", "default"]);

    // A name that is not UTF-8, in every place where JSON names files.
    for (name, text) in [(b"\xff.jsonl", SESSION.to_owned()), (b"\xfe.jsonl", question())] {
        std::fs::write(bench.path("").join(std::ffi::OsStr::from_bytes(name)), text).unwrap();
    }
    let replayed = bench.json(&["replay", ".", "--json"]);
    assert_eq!(
        (&replayed["sessions"], replayed["unanswered"].as_array().unwrap().len()),
        (&2.into(), 1)
    );

    let shut = bench.path("shut");
    std::fs::create_dir(&shut).unwrap();
    std::fs::set_permissions(&shut, std::fs::Permissions::from_mode(0o0)).unwrap();
    // Root may look into any folder.
    if std::fs::read_dir(&shut).is_err() {
        let output = bench.output(&["replay", "."]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && said.contains("cannot read ./shut"), "{said}");
    }
    std::fs::set_permissions(&shut, std::fs::Permissions::from_mode(0o700)).unwrap();

    rustix::fs::mkfifoat(rustix::fs::CWD, bench.path("fifo"), rustix::fs::Mode::RUSR).unwrap();
    let output = bench.output(&["replay", "fifo"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("fifo is neither a file nor a folder\nhint: write what"), "{said}");
}

#[test]
fn where_nothing_is_done_nothing_is_saved_or_lost() {
    let bench = Bench::new();
    // Sizes whose shares are no round numbers.
    for turns in 1..12 {
        bench.write(&format!("{turns}.jsonl"), SESSION.repeat(turns));
    }
    let replayed = bench.json(&["replay", ".", "--policy", "none,default", "--json"]);
    let sessions = replayed["by_session"].as_array().unwrap().iter();
    for row in sessions.flat_map(|session| session["rows"].as_array().unwrap()) {
        for figure in ["sent", "cost", "net_cost", "cost_openai", "net_cost_openai"] {
            assert_eq!(row["reduction"][figure], 0.0, "{row}");
        }
    }
}
