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
    overspill: warning: ./none.jsonl: 1 line is not valid JSON and was passed over
    overspill: warning: ./one.jsonl: 1 line is not valid JSON and was passed over
    overspill: warning: ./two.jsonl: 2 lines are not valid JSON and were passed over
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
fn where_nothing_is_shown_it_says_why() {
    let bench = Bench::new();
    bench.write("question.jsonl", question());
    bench.write("short.jsonl", SESSION);
    bench.write("other.jsonl", "{\"nothing\": \"like it\"}\n");
    std::fs::create_dir(bench.path("empty")).unwrap();
    insta::assert_snapshot!(bench.picture(&["replay", "question.jsonl"]), @r"
    $ overspill replay question.jsonl
    --- stdout
    no recorded session to replay was found
    --- stderr
    overspill: warning: question.jsonl: the model never answers in it, so there is nothing to replay
    --- exit status 1
    ");
    insta::assert_snapshot!(bench.picture(&["replay", "--long", "short.jsonl"]), @r"
    $ overspill replay --long short.jsonl
    --- stdout
    no recorded session to replay was found
    --- stderr
    overspill: warning: sessions that are shorter than --long asks for: 1
    --- exit status 1
    ");
    insta::assert_snapshot!(bench.picture(&["replay", "other.jsonl"]), @r"
    $ overspill replay other.jsonl
    --- stdout
    no recorded session to replay was found
    --- stderr
    overspill: warning: other.jsonl: not a recorded session of a known format
    hint: pass a session file of one of claude_code, codex, inspect, kimi, langchain, mini_swe, oh_llm, openhands, pi, specstory, swe_agent, vcr; logs of Inspect must be in its JSON form
    --- exit status 1
    ");
    insta::assert_snapshot!(bench.picture(&["replay", "empty"]), @r"
    $ overspill replay empty
    --- stdout
    no recorded session to replay was found
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
