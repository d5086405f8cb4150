//! What the read tool answers, and what it says when it cannot.

use std::sync::Arc;

use overspill::read::{MAX_ANSWER_CHARS, MAX_JSON_PATH_BYTES, Pattern, ReadArgs, Search, read};
use overspill::store::{PartName, Stored, deposit};
use overspill::{Store, ToolCall, ToolOutputLimits};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{block_on, log, memory};

/// A store that holds one payload, and the payload's handle.
fn holding(payload: impl Into<Vec<u8>>) -> (Arc<dyn Store>, String) {
    let store = memory();
    let call = ToolCall::new("run", "call", "tool");
    let payload: Vec<u8> = payload.into();
    let stored = deposit(&store, &call, PartName::Value(0), "text/plain", payload.into());
    let handle = block_on(stored).unwrap().handle.to_string();
    (store, handle)
}

/// The answer to `args`, with the handle written as HANDLE.
fn ask(payload: &str, mut args: Value) -> String {
    let (store, handle) = holding(payload);
    let limits = ToolOutputLimits::builder().store(store).build().unwrap();
    args["handle"] = handle.as_str().into();
    block_on(limits.read(&args)).replace(&handle, "HANDLE")
}

#[test]
fn lines_are_shown_as_they_are_under_a_line_that_says_which() {
    let check = |args, expected: &str| assert_eq!(ask(&log(10), args), expected);
    check(
        json!({ "offset": 2, "limit": 3 }),
        "[overspill read: lines 2-4 of 10 of HANDLE; go on with offset=5]\nline 2\nline 3\nline 4\n",
    );
    check(
        json!({ "offset": 8 }),
        "[overspill read: lines 8-9 of 10 of HANDLE; this is the end]\nline 8\nline 9\n",
    );
    check(
        json!({ "from_end": true, "limit": 2 }),
        "[overspill read: lines 8-9 of 10 of HANDLE; before them: from_end=true, offset=2]\nline 8\nline 9\n",
    );
    check(
        json!({ "from_end": true, "offset": 8, "limit": 5 }),
        "[overspill read: lines 0-1 of 10 of HANDLE; this is the beginning]\nline 0\nline 1\n",
    );
    check(
        json!({ "offset": 10 }),
        "[overspill read: no lines there: offset=10 is past the end of HANDLE, which has 10 lines, numbered 0 to 9]\n",
    );
    check(
        json!({ "offset": 10, "from_end": true }),
        "[overspill read: no lines left: from_end with offset=10 is before the beginning of HANDLE, which has 10 lines]\n",
    );
}

#[test]
fn an_empty_payload_says_so() {
    assert_eq!(ask("", json!({})), "[overspill read: HANDLE is empty: it has no lines]\n");
    assert_eq!(
        ask("", json!({ "pattern": "x", "from_end": true })),
        "[overspill read: HANDLE is empty: it has no lines]\n"
    );
}

#[test]
fn matches_carry_their_numbers() {
    let check = |args, expected: &str| assert_eq!(ask(&log(30), args), expected);
    check(
        json!({ "pattern": "9" }),
        "[overspill read: 3 lines with \"9\" in lines 0-29 of 30 of HANDLE; that is all]\n9: line 9\n19: line 19\n29: line 29\n",
    );
    check(
        json!({ "pattern": "9", "limit": 1, "offset": 10 }),
        "[overspill read: 1 line with \"9\" in lines 10-28 of 30 of HANDLE; go on with offset=29]\n19: line 19\n",
    );
    check(
        json!({ "pattern": "9", "limit": 1, "from_end": true }),
        "[overspill read: 1 line with \"9\" in lines 29-29 of 30 of HANDLE; before them: from_end=true, offset=1]\n29: line 29\n",
    );
    check(
        json!({ "pattern": "^line .$", "regex": true, "offset": 8 }),
        "[overspill read: 2 lines with \"^line .$\" in lines 8-29 of 30 of HANDLE; that is all]\n8: line 8\n9: line 9\n",
    );
    check(
        json!({ "pattern": "nothing" }),
        "[overspill read: 0 lines with \"nothing\" in lines 0-29 of 30 of HANDLE; that is all]\n",
    );
}

#[test]
fn lines_around_matches_stand_once_and_gaps_are_marked() {
    let args = json!({ "pattern": "[34]$|^line 9", "regex": true, "context": 1, "offset": 3 });
    let expected = "2- line 2\n3: line 3\n4: line 4\n5- line 5\n--\n8- line 8\n9: line 9\n10- line 10\n--\n12- line 12\n13: line 13\n14: line 14\n15- line 15\n";
    let answer = ask(&log(16), args.clone());
    assert_eq!(answer.split_once('\n').unwrap().1, expected);
    let first = json!({ "pattern": "line [02]", "regex": true, "context": 2, "from_end": true });
    let answer = ask(&log(4), first);
    assert_eq!(answer.split_once('\n').unwrap().1, "0: line 0\n1- line 1\n2: line 2\n3- line 3\n");
    // From the end the same lines are found.
    let mut backward = args;
    backward["offset"] = 0.into();
    backward["from_end"] = true.into();
    let answer = ask(&log(16), backward);
    assert_eq!(answer.split_once('\n').unwrap().1, expected);
}

#[test]
fn a_match_may_cross_a_soft_cut() {
    let long = format!("{}needle{}", "x".repeat(1_997), "y".repeat(3_000));
    let answer = ask(&long, json!({ "pattern": "needle" }));
    assert!(answer.starts_with("[overspill read: 2 lines with"), "{}", &answer[..100]);
    assert!(answer.contains("xxxnee\n1: dleyyy"));
    // Also where blocks end, far into a payload of one line.
    for at in [65_500, 65_530, 131_060, 196_600, 262_130] {
        let long = format!("{}needle{}", "x".repeat(at), "y".repeat(200_000));
        let answer = ask(&long, json!({ "pattern": "ne+dle", "regex": true }));
        let lines = at.div_ceil(2_000) as u64;
        let said: u64 =
            answer["[overspill read: ".len()..].split(' ').next().unwrap().parse().unwrap();
        assert!(said == 1 || said == 2, "{at} of {lines}: {}", &answer[..80]);
    }
}

#[test]
fn wrong_arguments_get_a_sentence_that_says_what_to_give() {
    let sentences: Vec<String> = [
        json!([]),
        json!({}),
        json!({ "handle": "" }),
        json!({ "handle": 7 }),
        json!({ "handle": "h", "offset": -5 }),
        json!({ "handle": "h", "offset": 1.5 }),
        json!({ "handle": "h", "limit": 0 }),
        json!({ "handle": "h", "from_end": "maybe" }),
        json!({ "handle": "h", "pattern": ["x"] }),
        json!({ "handle": "h", "lines": 5 }),
        json!({ "handle": "h", "pattern": "x", "json_path": "$" }),
        json!({ "handle": "../../etc/passwd" }),
    ]
    .iter()
    .map(|args| {
        let limits = ToolOutputLimits::builder().store(memory()).build().unwrap();
        block_on(limits.read(args))
    })
    .collect();
    insta::assert_snapshot!(sentences.join("\n"), @r#"
    The arguments must be a JSON object, not a list.
    `handle` is missing: copy it from a marker, where it stands behind "stored as".
    `handle` is missing: copy it from a marker, where it stands behind "stored as".
    `handle` must be a string, not a number.
    `offset` must be a whole number of lines, 0 or more; to count from the end, set `from_end` to true.
    `offset` must be a whole number of lines, 0 or more.
    `limit` must be a whole number of lines from 1 to 1000.
    `from_end` must be true or false, not a string.
    `pattern` must be a string, not a list.
    There is no argument "lines"; there are `handle`, `offset`, `limit`, `from_end`, `pattern`, `regex`, `context`, `json_path`.
    Give `pattern` or `json_path`, not both.
    No stored result has the handle "../../etc/passwd". Copy the handle from the marker that stands where the result was; it is what stands behind "stored as" there and looks like RUN/CALL.DIGEST.
    "#);
}

#[test]
fn numbers_as_models_write_them_are_taken() {
    let answer =
        ask(&log(10), json!({ "offset": "2", "limit": 1.0, "pattern": null, "regex": "false" }));
    assert!(answer.ends_with("line 2\n"), "{answer}");
}

#[test]
fn a_handle_in_quotes_is_found_and_one_that_is_gone_is_said_to_be() {
    let (store, handle) = holding("x\n");
    let answer = block_on(read(&store, &ReadArgs::new(format!(" `{handle}` ")), false));
    assert!(answer.ends_with("x\n"));
    let gone = format!("{}a", &handle[..handle.len() - 1]);
    let gone = if gone == handle { format!("{}b", &handle[..handle.len() - 1]) } else { gone };
    let answer = block_on(read(&store, &ReadArgs::new(gone.as_str()), false));
    assert!(answer.starts_with("Nothing is stored as ") && answer.contains("expired"), "{answer}");
}

#[test]
fn no_answer_advises_to_run_the_tool_again() {
    let answers = [
        ask("x\n", json!({ "offset": 5 })),
        ask("x\n", json!({ "pattern": "(", "regex": true })),
        ask("x\n", json!({ "json_path": "$" })),
        ask("x\n", json!({ "handle": 5, "nonsense": true })),
        block_on(read(&memory(), &ReadArgs::new("a/b.aaaaaaaaaaaaaaaaaaaaaaaaaa"), false)),
    ];
    for answer in answers {
        let answer = answer.to_lowercase();
        for advice in
            ["run the tool again", "re-run", "rerun", "run it again", "call the tool again"]
        {
            assert!(!answer.contains(advice), "{answer}");
        }
    }
}

#[test]
fn a_bad_pattern_is_explained_and_a_costly_one_refused() {
    let answer = ask("x\n", json!({ "pattern": "a(b", "regex": true }));
    assert!(answer.contains("unclosed group") && answer.contains("Leave out `regex`"), "{answer}");
    let bomb = ask("x\n", json!({ "pattern": "(\\w{1,1000}){1,1000}", "regex": true }));
    assert!(bomb.contains("no regular expression that can be used"), "{bomb}");
}

#[test]
fn an_answer_is_bounded_and_every_line_of_the_longest_can_be_reached() {
    for payload in [
        "x".repeat(300_000),
        "\u{1f600}".repeat(100_000),
        format!("[{}]", vec!["{\"k\":\"vvvvvvvvvvvvvvvv\"}"; 20_000].join(",")),
        log(40_000),
    ] {
        let (store, handle) = holding(payload.as_str());
        let mut args = ReadArgs { limit: 1_000, ..ReadArgs::new(handle.as_str()) };
        let mut whole = String::new();
        loop {
            let answer = block_on(read(&store, &args, false));
            assert!(answer.chars().count() <= MAX_ANSWER_CHARS);
            let (header, body) = answer.split_once('\n').unwrap();
            whole.push_str(body);
            match header.split_once("go on with offset=") {
                Some((_, next)) => args.offset = next.trim_end_matches(']').parse().unwrap(),
                None => break,
            }
        }
        assert!(whole == payload);
        // From the end, the last line is always there.
        let args = ReadArgs { limit: 1_000, from_end: true, ..ReadArgs::new(handle.as_str()) };
        let answer = block_on(read(&store, &args, false));
        assert!(answer.chars().count() <= MAX_ANSWER_CHARS);
        let (_, body) = answer.split_once('\n').unwrap();
        assert!(payload.ends_with(body));
    }
}

#[test]
fn an_answer_with_long_lines_around_a_match_is_bounded_and_shows_the_match() {
    let long = format!("{}needle{}\n", "x".repeat(149_000), "\u{1f600}".repeat(150_000));
    let (store, handle) = holding(long);
    for from_end in [false, true] {
        let args =
            json!({ "handle": handle, "pattern": "needle", "context": 50, "from_end": from_end });
        let answer = block_on(read(&store, &ReadArgs::parse(&args).unwrap(), false));
        assert!(answer.chars().count() <= MAX_ANSWER_CHARS);
        assert!(answer.contains("xneedle") && answer.lines().count() > 2, "{}", &answer[..100]);
    }
}

#[test]
fn what_a_model_writes_never_makes_an_answer_long() {
    let long = "\u{1}".repeat(100_000);
    for args in [
        json!({ long.as_str(): 1 }),
        json!({ "handle": long }),
        json!({ "pattern": long }),
        json!({ "pattern": format!("({long}"), "regex": true }),
        json!({ "json_path": long }),
        json!({ "json_path": format!("$.{}", &long[..900]) }),
        json!({ "json_path": format!("$['{}", &long[..900]) }),
    ] {
        let (store, handle) = holding("[1]");
        let limits = ToolOutputLimits::builder().store(store).build().unwrap();
        let mut args = args;
        if args.get("handle").is_none() {
            args["handle"] = handle.into();
        }
        let answer = block_on(limits.read(&args));
        assert!(answer.chars().count() <= 3_000, "{} characters", answer.chars().count());
    }
}

#[test]
fn a_row_with_every_byte_escaped_fits_even_behind_a_sequence_that_was_none() {
    let mut payload = "\u{1b}]".as_bytes().to_vec();
    payload.extend(b"\xf0\x90\x80".repeat(2_000));
    payload.extend(b"\xff".repeat(20_000));
    payload.push(b'x');
    let (store, handle) = holding(payload);
    let limits = ToolOutputLimits::builder().store(store).strip_ansi(true).build().unwrap();
    for args in [json!({}), json!({ "pattern": "." , "regex": true }), json!({ "pattern": "x" })] {
        for offset in 0..12 {
            let mut args = args.clone();
            args["handle"] = handle.as_str().into();
            args["offset"] = offset.into();
            args["limit"] = 1.into();
            assert!(block_on(limits.read(&args)).chars().count() <= MAX_ANSWER_CHARS);
        }
    }
}

#[test]
fn what_was_no_sequence_is_found_where_control_sequences_are_taken_out() {
    let long = "x".repeat(3_000);
    for (payload, lines) in [
        ("a\n\u{1b}]0;needle", 1),
        ("\u{1b}]0;needle\n", 1),
        ("need\u{1b}[31mle\n", 1),
        (&*format!("{}\u{1b}]0;needle {long}\n", "y".repeat(65_400)), 1),
        (&*format!("{}\u{1b}]8;;needle {long}\u{1b}\\", "y".repeat(65_400)), 0),
        (&*format!("{}\u{1b}[31{}mneedle {long}", "y".repeat(65_400), ";".repeat(200)), 1),
    ] {
        let (store, handle) = holding(payload);
        let pattern = Pattern::literal("needle");
        let search = Search { pattern: &pattern, strip_ansi: true, limit: 9, bytes: u64::MAX };
        let stored = block_on(Stored::open(&store, &handle.parse().unwrap())).unwrap();
        let found = block_on(search.forward(&stored, 0)).unwrap();
        assert_eq!(found.hits.len(), lines, "{:?}", &payload[..payload.len().min(30)]);
    }
}

#[test]
fn hostile_patterns_take_linear_time() {
    // A match that could reach to the end of the payload from every line, and never does; or does.
    let log = "error x\n".repeat(200_000);
    for pattern in ["(?s)[^z]*z|x", "(?s)error.*?done|x", "(?s)e.*x", r"(?s)x.*?\z"] {
        let (store, handle) = holding(log.as_str());
        let args = json!({ "handle": handle, "pattern": pattern, "regex": true, "limit": 3 });
        for from_end in [false, true] {
            let args = ReadArgs { from_end, ..ReadArgs::parse(&args).unwrap() };
            let answer = block_on(read(&store, &args, false));
            assert!(answer.starts_with("[overspill read: 3 lines with"), "{}", &answer[..80]);
        }
    }
}

#[test]
fn the_more_a_regular_expression_takes_the_less_is_looked_at_in_one_go() {
    let at_once = |pattern| Pattern::regex(pattern).unwrap().bytes_at_once();
    let few = [
        "error",
        r"(?i)error|warn",
        r"\w+Error: .*",
        r"^\d{4}-\d\d-\d\dT",
        "[é-ü]+",
        "[a-f0-9]{8}",
    ];
    for pattern in few {
        assert!(at_once(pattern) >= 16 << 20, "{pattern}");
    }
    assert!(at_once("[ab]*a[ab]{300}z") < 8 << 20);
    assert!(at_once("[ab]*a[ab]{5000}z") < 1 << 20);
    // Both ways, it gets on.
    let (store, handle) = holding("abababab\n".repeat(100_000));
    let stored = block_on(Stored::open(&store, &handle.parse().unwrap())).unwrap();
    let pattern = Pattern::regex("[ab]{0,5000}z").unwrap();
    let bytes = pattern.bytes_at_once();
    let search = Search { pattern: &pattern, strip_ansi: false, limit: 9, bytes };
    let forward = block_on(search.forward(&stored, 0)).unwrap();
    assert!(forward.next.is_some_and(|next| next > 1_000), "{forward:?}");
    let backward = block_on(search.backward(&stored, 100_000)).unwrap();
    assert!(backward.next.is_some_and(|next| next < 99_000 && next > 0), "{backward:?}");
}

#[test]
fn a_search_is_bounded_in_what_it_looks_at_and_says_where_to_go_on() {
    let payload = log(50_000);
    let (store, handle) = holding(payload.as_str());
    let pattern = Pattern::literal("line 4999");
    let search = Search { pattern: &pattern, strip_ansi: false, limit: 100, bytes: 100_000 };
    let stored = block_on(Stored::open(&store, &handle.parse().unwrap())).unwrap();
    let (mut from, mut found, mut rounds) = (0, Vec::new(), 0);
    loop {
        let searched = block_on(search.forward(&stored, from)).unwrap();
        found.extend(searched.hits.into_iter().map(|hit| hit.line));
        rounds += 1;
        match searched.next {
            Some(next) => from = next,
            None => break,
        }
    }
    let expected: Vec<u64> = std::iter::once(4_999).chain(49_990..50_000).collect();
    assert_eq!(found, expected);
    assert!(rounds > 2, "{rounds}");
    let all = Search { bytes: u64::MAX, ..search };
    let backward = block_on(all.backward(&stored, 50_000)).unwrap();
    assert_eq!(backward.hits.iter().map(|hit| hit.line).collect::<Vec<_>>(), expected);
    assert_eq!(backward.next, None);
}

#[test]
fn json_path_shows_values_as_they_are_spelled() {
    let payload =
        r#"{"items":[{"id":10000000000000000001,"f":1.50,"s":"caf\u00e9"},{"id":2}],"a b":null}"#;
    let check = |path: &str, expected: &str| {
        let answer = ask(payload, json!({ "json_path": path }));
        assert_eq!(answer, expected);
    };
    check(
        "$.items[*].id",
        "[overspill read: results 0-1 of 2 for \"$.items[*].id\" in HANDLE; that is all]\n$['items'][0]['id'] = 10000000000000000001\n$['items'][1]['id'] = 2\n",
    );
    check(
        "$.items[0]",
        "[overspill read: results 0-0 of 1 for \"$.items[0]\" in HANDLE; that is all]\n$['items'][0] = {\"id\":10000000000000000001,\"f\":1.50,\"s\":\"caf\\u00e9\"}\n",
    );
    check(
        "$['a b']",
        "[overspill read: results 0-0 of 1 for \"$['a b']\" in HANDLE; that is all]\n$['a b'] = null\n",
    );
    check("$.none", "[overspill read: results none of 0 for \"$.none\" in HANDLE; that is all]\n");
    let second = ask(payload, json!({ "json_path": "$.items[*]", "offset": 1, "limit": 1 }));
    assert!(second.ends_with("\n$['items'][1] = {\"id\":2}\n"), "{second}");
}

#[test]
fn json_path_from_the_end_says_what_is_before() {
    let payload = format!("[{}]", (0..500).map(|i| i.to_string()).collect::<Vec<_>>().join(","));
    let first_line = |args: Value| ask(&payload, args).lines().next().unwrap().to_owned();
    let args = json!({ "json_path": "$[*]", "from_end": true, "limit": 2, "offset": 3 });
    let line = first_line(args);
    assert!(line.contains("results 495-496 of 500"), "{line}");
    assert!(line.ends_with("; before them: from_end=true, offset=5]"), "{line}");
    let line = first_line(json!({ "json_path": "$[*]", "from_end": true, "limit": 600 }));
    assert!(line.contains("results 0-499 of 500") && line.ends_with("; that is all]"), "{line}");
    let line = first_line(json!({ "json_path": "$[*]", "offset": 600 }));
    assert!(line.ends_with("; offset is past the end]"), "{line}");
    // What does not fit is left out at the beginning.
    let long = format!("[{}]", vec![format!("\"{}\"", "x".repeat(5_000)); 40].join(","));
    let answer = ask(&long, json!({ "json_path": "$[*]", "from_end": true }));
    assert!(answer.lines().next().unwrap().contains("-39 of 40"), "{}", &answer[..120]);
    assert!(answer.chars().count() <= MAX_ANSWER_CHARS);
}

#[test]
fn json_path_says_what_it_cannot_do() {
    let not_json = ask("plain text\n", json!({ "json_path": "$.a" }));
    assert!(not_json.contains("is not one JSON document") && not_json.contains("`pattern`"));
    let no_path = ask("{}", json!({ "json_path": "items[" }));
    assert!(no_path.contains("is no RFC 9535 query"), "{no_path}");
    let parens = format!("$[?{}@{}]", "(".repeat(100_000), ")".repeat(100_000));
    let parens = ask("[1]", json!({ "json_path": parens }));
    assert!(parens.contains("shorten it"), "{parens}");
    let again =
        ask(&format!("[{}1]", "1,".repeat(9_000)), json!({ "json_path": "$[?count($.*)>1]" }));
    assert!(again.contains("too often"), "{again}");
    let deep = ask(&"[".repeat(100_000), json!({ "json_path": "$" }));
    assert!(deep.contains("is not one JSON document"), "{deep}");
    let large = "[0]".to_owned() + &" ".repeat(MAX_JSON_PATH_BYTES as usize);
    let large = ask(&large, json!({ "json_path": "$" }));
    assert!(large.contains("at most 16,777,216"), "{large}");
}

#[test]
fn control_sequences_are_taken_out_on_the_way_back_where_the_policy_says_so() {
    let (store, handle) = holding("\u{1b}[31mred\u{1b}[0m\nplain\n");
    let limits = |strip| {
        ToolOutputLimits::builder().store(Arc::clone(&store)).strip_ansi(strip).build().unwrap()
    };
    let args = json!({ "handle": handle });
    assert!(block_on(limits(true).read(&args)).ends_with("\nred\nplain\n"));
    assert!(block_on(limits(false).read(&args)).contains("\u{1b}[31mred"));
    let search = json!({ "handle": handle, "pattern": "^red$", "regex": true });
    assert!(block_on(limits(true).read(&search)).ends_with("\n0: red\n"));
}

/// What lines are made of, line ends among them.
const PIECES: &[&[u8]] = &[
    b"\n",
    b"\n",
    b"\r\n",
    b"error",
    b"foo",
    b"hello",
    b":",
    b" ",
    b"\t",
    b"a",
    b"b",
    "é".as_bytes(),
    b"\xff",
    b"",
];

/// Expressions that match a line end where they can, and those that say where a line ends.
const PATTERNS: &[&str] = &[
    "error[^:]",
    "error[^:]*:",
    r"\W",
    r"^\s+foo",
    r"\s$",
    r"\s",
    "hello$",
    "^hello$",
    "^$",
    "$",
    "",
    "x*",
    r"\b",
    r"\B",
    r"a\b",
    r"\Aerror",
    r"foo\z",
    "(?-m)^foo$",
    "(?s)error.*foo",
    r"[\s\S]b",
    "(?s-u:.)a",
    r"a(\s|b)+a",
    r"[^\n]",
    r"(foo|[^a-z])+hello",
];

#[test]
fn a_line_end_cannot_be_asked_for() {
    for pattern in [r"foo\n", r"a\r?\n", "(a|\n\n)b", "[\n]"] {
        let answer = ask("foo\n", json!({ "pattern": pattern, "regex": true }));
        assert!(answer.contains("`$` stands for the end of a line"), "{pattern}: {answer}");
    }
}

/// A line longer than what is looked through at once begins and ends once.
#[test]
fn the_ends_of_a_long_line_are_not_where_it_is_cut() {
    let mut payload = format!("{}\n", "[1] ".repeat(1_500_000));
    payload.push_str(&payload.clone());
    let (store, handle) = holding(payload);
    let stored = block_on(Stored::open(&store, &handle.parse().unwrap())).unwrap();
    let half = stored.receipt().lines / 2;
    for strip_ansi in [false, true] {
        let found = |pattern, from| {
            let pattern = Pattern::regex(pattern).unwrap();
            let search = Search { pattern: &pattern, strip_ansi, limit: u64::MAX, bytes: u64::MAX };
            let found = block_on(search.forward(&stored, from)).unwrap();
            found.hits.iter().map(|hit| hit.line).collect::<Vec<_>>()
        };
        for pattern in [r"^\[", r"\A[^ ]"] {
            assert_eq!(found(pattern, 0), [0, half], "{pattern}");
            assert_eq!(found(pattern, 1), [half], "{pattern}");
        }
        assert_eq!(found("$", 0), [half - 1, 2 * half - 1]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// A search finds the lines that looking at each line finds, forward and backward.
    #[test]
    fn a_search_finds_what_looking_at_every_line_finds(
        lines in prop::collection::vec("[abc]{0,6}", 0..400),
        needle in "[abc]{1,3}",
        offset in 0usize..50,
    ) {
        let payload: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let (store, handle) = holding(payload);
        let expected: Vec<u64> = (offset as u64..)
            .zip(lines.iter().skip(offset))
            .filter(|(_, line)| line.contains(&needle))
            .map(|(number, _)| number)
            .collect();
        let stored = block_on(Stored::open(&store, &handle.parse().unwrap())).unwrap();
        for pattern in [Pattern::literal(&needle), Pattern::regex(&needle).unwrap()] {
            let search =
                Search { pattern: &pattern, strip_ansi: false, limit: u64::MAX, bytes: u64::MAX };
            let found = block_on(search.forward(&stored, offset as u64)).unwrap();
            let found: Vec<u64> = found.hits.iter().map(|hit| hit.line).collect();
            prop_assert_eq!(&found, &expected);
            if let (Some(last), true) = (expected.last(), offset == 0) {
                let few = Search { limit: 2, ..search };
                let back = block_on(few.backward(&stored, lines.len() as u64)).unwrap();
                prop_assert_eq!(back.hits.last().map(|hit| hit.line), Some(*last));
                prop_assert_eq!(back.hits.len(), expected.len().min(2));
            }
        }
    }

    /// A regular expression finds the lines that it matches by themselves.
    #[test]
    fn a_regular_expression_is_looked_for_in_each_line_by_itself(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..400),
    ) {
        let payload: Vec<u8> = pieces.concat();
        let (store, handle) = holding(payload.clone());
        let stored = block_on(Stored::open(&store, &handle.parse().unwrap())).unwrap();
        for source in PATTERNS {
            let alone = regex::bytes::RegexBuilder::new(source).multi_line(true).build().unwrap();
            let lines = payload.split_inclusive(|byte| *byte == b'\n').map(|line| {
                let line = line.strip_suffix(b"\n").unwrap_or(line);
                line.strip_suffix(b"\r").unwrap_or(line)
            });
            let expected: Vec<u64> =
                (0..).zip(lines).filter(|(_, line)| alone.is_match(line)).map(|(n, _)| n).collect();
            let pattern = Pattern::regex(source).unwrap();
            let search =
                Search { pattern: &pattern, strip_ansi: false, limit: u64::MAX, bytes: u64::MAX };
            let found = block_on(search.forward(&stored, 0)).unwrap();
            let found: Vec<u64> = found.hits.iter().map(|hit| hit.line).collect();
            prop_assert_eq!(found, expected, "{}", source);
        }
    }

    /// Whatever a model writes as arguments, there is an answer within bounds.
    #[test]
    fn any_arguments_get_an_answer(args in arguments()) {
        let (store, handle) = holding(log(300));
        let limits = ToolOutputLimits::builder().store(store).build().unwrap();
        let text = args.to_string().replace("HANDLE", &handle);
        let args: Value = serde_json::from_str(&text).unwrap();
        let answer = block_on(limits.read(&args));
        prop_assert!(!answer.is_empty() && answer.chars().count() <= MAX_ANSWER_CHARS);
    }
}

fn arguments() -> impl Strategy<Value = Value> {
    let value = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|f| json!(f)),
        (0u64..400).prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        Just(json!("HANDLE")),
        Just(json!("$..*")),
        Just(json!([1, { "a": 2 }])),
    ];
    let key = prop::sample::select(vec![
        "handle",
        "offset",
        "limit",
        "from_end",
        "pattern",
        "regex",
        "context",
        "json_path",
        "x",
    ]);
    prop::collection::vec((key, value), 0..6).prop_map(|pairs| {
        let mut args = json!({ "handle": "HANDLE" });
        for (key, value) in pairs {
            args[key] = value;
        }
        args
    })
}
