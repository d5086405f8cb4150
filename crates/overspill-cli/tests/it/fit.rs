//! `fit`, `inspect` and `read-tool`: a conversation's tokens looked at, and brought under a budget.

use serde_json::{Value, json};

use crate::bench::{Bench, assert_picture};

/// A request to Anthropic in which each step returned so many characters.
fn request(returned: &[usize]) -> Value {
    let mut messages = vec![json!({ "role": "user", "content": "Find the bug." })];
    for (step, chars) in returned.iter().enumerate() {
        let id = format!("toolu_{step}");
        let log: String = format!("step {step} done\n").chars().cycle().take(*chars).collect();
        let call = json!({ "type": "tool_use", "id": id, "name": "bash", "input": {} });
        let result = json!({ "type": "tool_result", "tool_use_id": id, "content": log });
        messages.push(json!({ "role": "assistant", "content": [call] }));
        messages.push(json!({ "role": "user", "content": [result] }));
    }
    json!({ "model": "claude-sonnet-4-5", "system": "You fix builds.", "messages": messages })
}

/// A bench with that request in `request.json`.
fn bench(request: &Value) -> Bench {
    let bench = Bench::new();
    bench.write("request.json", request.to_string());
    bench
}

/// What a command that may end with any status says: standard output, standard error, status.
fn said(bench: &Bench, args: &[&str]) -> (String, String, Option<i32>) {
    let output = bench.output(args);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code())
}

fn messages(request: &str) -> Vec<Value> {
    serde_json::from_str::<Value>(request).unwrap()["messages"].as_array().unwrap().clone()
}

/// The handles that stand in a text.
fn handles(text: &str) -> Vec<String> {
    let behind = text.split("stored as ").skip(1);
    behind.map(|it| it.split([';', ']']).next().unwrap().to_owned()).collect()
}

#[test]
fn a_request_is_brought_under_its_budget_and_what_leaves_can_be_read() {
    let bench = bench(&request(&[4_000; 20]));
    let (smaller, report, status) = said(&bench, &["fit", "--budget", "8000", "request.json"]);
    insta::assert_snapshot!(report, @"
    41 messages and 20,037 tokens in, 41 and 7,330 out; payloads stored: 13
    overspill: warning: the request offers no tool read_tool_result, so its model cannot read what left; `overspill read-tool --format anthropic` prints its definition
    ");
    assert_eq!(status, Some(0));
    let all = messages(&request(&[4_000; 20]).to_string());
    let left = messages(&smaller);
    assert_eq!(left.len(), all.len());
    // The newest seven results are as they were.
    assert_eq!(left[41 - 14..], all[41 - 14..]);
    for step in 0..13 {
        let marker = left[2 * step + 2]["content"][0]["content"].as_str().unwrap();
        let [handle] = &handles(marker)[..] else { panic!("{marker}") };
        let whole = all[2 * step + 2]["content"][0]["content"].as_str().unwrap();
        assert_eq!(bench.stdout(&["export", handle]), whole);
    }
    let report = bench.assert(&["fit", "--json", "--budget", "8000", "request.json"]);
    let report = { report }.output().unwrap();
    assert_eq!(String::from_utf8(report.stdout).unwrap(), smaller);
    let report = String::from_utf8(report.stderr).unwrap();
    let report: Value = serde_json::from_str(report.lines().next().unwrap()).unwrap();
    assert_eq!(report["tokens"], json!({ "before": 20_037, "after": 7_330 }));
    assert_eq!(report["handles"].as_array().unwrap().len(), 13);
}

#[test]
fn a_dry_run_says_what_a_run_would_come_to_and_stores_nothing() {
    let bench = bench(&request(&[4_000, 4_000, 300, 4_000]));
    let fit = |budget: &'static str, more: &[&'static str]| {
        let args = [&["fit", "--keep-pairs", "1", "--budget", budget, "request.json"], more];
        args.concat()
    };
    let met = fit("2500", &["--dry-run"]);
    assert_picture!(bench.picture(&met));
    let not_met = fit("100", &["--dry-run"]);
    assert_picture!(bench.picture(&not_met));
    assert!(!bench.store().exists());
    // The same totals and the same status as those of a run.
    for budget in ["100", "500", "1500", "2500", "3500", "5000"] {
        let (dry, _, dry_status) = said(&bench, &fit(budget, &["--dry-run"]));
        let (_, report, status) = said(&bench, &fit(budget, &[]));
        let totals = report.split(';').next().unwrap().split(", within ").next().unwrap();
        assert!(dry.contains(totals), "{budget}: {dry}{report}");
        assert_eq!(dry_status, status, "{budget}");
        let (dry, _, dry_status) = said(&bench, &fit(budget, &["--dry-run", "--json"]));
        let dry: Value = serde_json::from_str(&dry).unwrap();
        let (_, report, _) = said(&bench, &fit(budget, &["--json"]));
        let report: Value = serde_json::from_str(report.lines().next().unwrap()).unwrap();
        for key in ["messages", "tokens", "budget"] {
            assert_eq!(dry[key], report[key], "{budget}");
        }
        assert_eq!((dry["met"] == true, dry_status), (status == Some(0), status), "{budget}");
    }
}

#[test]
fn what_does_not_fit_is_printed_all_the_same() {
    let bench = bench(&request(&[4_000; 3]));
    let args = ["fit", "--budget", "20", "--strategy", "clear-tool-results", "request.json"];
    let (smaller, report, status) = said(&bench, &args);
    assert_eq!(status, Some(1));
    assert!(
        report.contains("is not enough for this budget\nhint: run sliding-window too"),
        "{report}"
    );
    assert_eq!(messages(&smaller), messages(&request(&[4_000; 3]).to_string()));
    let args = [&args[..], &["--keep-pairs", "0"]].concat();
    let (smaller, _, status) = said(&bench, &args);
    assert_eq!(status, Some(1));
    // The newest result has been asked for and not yet been seen, but a marker names it.
    assert_eq!(handles(&smaller).len(), 3);
}

#[test]
fn where_it_is_not_enabled_every_byte_passes() {
    let spelled = format!(" {}\n", request(&[9_000; 3]));
    let bench = Bench::with_file("enabled = false\n");
    bench.write("request.json", &spelled);
    // Not even the budget is asked for what it means.
    for budget in ["100", "1%"] {
        let args = ["fit", "--budget", budget, "--model", "nobody's", "request.json"];
        assert_eq!(said(&bench, &args), (spelled.clone(), String::new(), Some(0)));
        insta::allow_duplicates! {
            insta::assert_snapshot!(
                bench.stdout(&[&args[..], &["--dry-run"]].concat()),
                @"Nothing would change: the configuration says `enabled = false`."
            );
        }
    }
    assert!(!bench.store().exists());
    let enabled = bench.write("other.toml", "");
    let mut fit = bench.command(&["fit", "--budget", "100", "request.json", "--config"]);
    let fit = fit.arg(enabled).env("OVERSPILL_ENABLED", "false").output().unwrap();
    assert_eq!(String::from_utf8(fit.stdout).unwrap(), spelled);
}

#[test]
fn a_read_tool_is_missed_until_the_request_carries_it() {
    let misses = |bench: &Bench, args: &[&str]| {
        let (_, report, _) = said(bench, &[&["fit", "--budget", "3000"], args].concat());
        report.contains("the request offers no tool ")
    };
    let mut request = request(&[4_000; 6]);
    let plain = bench(&request);
    assert!(misses(&plain, &["request.json"]) && misses(&plain, &["--dry-run", "request.json"]));
    // Where nothing leaves there is nothing to read.
    let (_, report, _) = said(&plain, &["fit", "--budget", "90000", "request.json"]);
    assert!(report.ends_with(" out, within 90,000; payloads stored: 0\n"), "{report}");

    let tool = plain.json(&["read-tool", "--format", "anthropic"]);
    assert_eq!(tool["input_schema"]["required"], json!(["handle"]));
    request["tools"] = json!([tool]);
    assert!(!misses(&bench(&request), &["request.json"]));

    // Under the name that the configuration gives it.
    let named = Bench::with_file("read_tool = \"look_up\"\n");
    named.write("request.json", request.to_string());
    assert!(misses(&named, &["request.json"]));
    request["tools"] = json!([named.json(&["read-tool", "--format", "anthropic"])]);
    named.write("request.json", request.to_string());
    assert!(!misses(&named, &["request.json"]));

    for (format, name) in [
        ("chat", "/function/name"),
        ("responses", "/name"),
        ("gemini", "/name"),
        ("pydantic-ai", "/name"),
    ] {
        let tool = plain.json(&["read-tool", "--format", format]);
        assert_eq!(tool.pointer(name), Some(&json!("read_tool_result")), "{format}");
    }
}

#[test]
fn one_runaway_result_is_clamped_before_any_turn_leaves() {
    // What is new and huge is cut, and all that was said before stays.
    let bench = bench(&request(&[150, 150, 150, 150, 60_000]));
    let kept = |args: &[&str]| {
        let fit = ["fit", "--budget", "4000", "request.json"];
        let (smaller, _, status) = said(&bench, &[&fit, args].concat());
        assert_eq!(status, Some(0), "{args:?}");
        (messages(&smaller).len(), handles(&smaller).len())
    };
    assert_eq!(kept(&[]), (11, 1));
    let late = ["--strategy", "sliding-window,clamp-oversized"];
    assert!(kept(&late).0 < 11);
}

#[test]
fn a_loop_that_fits_what_it_fitted_changes_nothing_it_need_not() {
    let bench = bench(&request(&[4_000; 12]));
    let fit = ["fit", "--budget", "3000", "--strategy", "sliding-window", "request.json"];
    let (first, _, status) = said(&bench, &fit);
    assert_eq!(status, Some(0));
    let handle = handles(&first)[0].clone();
    // Again it is the same, byte for byte.
    bench.write("request.json", &first);
    assert_eq!(said(&bench, &fit).0, first);

    // With more at its end, one note tells of all that left, and the way to the first stays open.
    let mut longer: Value = serde_json::from_str(&first).unwrap();
    let steps = messages(&request(&[4_000; 18]).to_string());
    longer["messages"].as_array_mut().unwrap().extend(steps[25..].to_vec());
    bench.write("request.json", longer.to_string());
    let (second, _, _) = said(&bench, &fit);
    assert_eq!(second.matches("<overspill-receipt>").count(), 1);
    assert!(second.contains("What left before that is under the handles that it names."));
    assert!(!first.contains("What left before that"));
    let newer = handles(&second)[0].clone();
    assert_ne!(newer, handle);
    assert!(bench.stdout(&["export", &newer]).contains(&handle));
    assert!(bench.stdout(&["read", &handle]).contains("step 0 done"));
    let left = |text: &str| {
        let (_, behind) = text.split_once("Earlier in this conversation: ").unwrap();
        behind.split(' ').next().unwrap().parse::<usize>().unwrap()
    };
    assert_eq!(left(&first), 25 - (messages(&first).len()));
    assert_eq!(left(&second), 37 - (messages(&second).len()));
}

#[test]
fn what_a_provider_reported_is_of_the_request_as_it_was() {
    let mut messages = vec![json!({ "kind": "request", "parts": [
        { "part_kind": "user-prompt", "content": "Find the bug." }] })];
    for step in 0..10_u64 {
        let id = format!("c{step}");
        messages.push(json!({ "kind": "response", "parts": [
            { "part_kind": "tool-call", "tool_name": "bash", "args": {}, "tool_call_id": id }],
            "usage": { "input_tokens": 1_500 * (step + 1), "output_tokens": 10 } }));
        messages.push(json!({ "kind": "request", "parts": [{ "part_kind": "tool-return",
            "tool_name": "bash", "content": "line of a log\n".repeat(400), "tool_call_id": id }] }));
    }
    let bench = bench(&json!(messages));
    let (_, report, status) = said(&bench, &["fit", "--budget", "9000", "request.json"]);
    assert_eq!(status, Some(0), "{report}");
}

#[test]
fn what_cannot_be_fitted_says_why_and_what_to_do() {
    let foreign = request(&[10]);
    let bench = bench(&foreign);
    let fit = |args: &[&str]| bench.picture(&[&["fit", "--budget", "90%"], args].concat());
    bench.write("bom.json", format!("\u{feff}{foreign}"));
    insta::assert_snapshot!(fit(&["bom.json"]), @"
    $ overspill fit --budget 90% bom.json
    --- stderr
    overspill: error: cannot read bom.json: the text is not JSON: it begins with a byte order mark, which JSON does not have; leave out its first three bytes (EF BB BF) (byte 0)
    --- exit status 1
    ");
    insta::assert_snapshot!(fit(&["--format", "chat", "request.json"]), @"
    $ overspill fit --budget 90% --format chat request.json
    --- stderr
    overspill: error: request.json is no conversation of format chat: $.messages[1].content[0].type: expected a part of this format, and no block of Anthropic's in OpenAI Chat Completions
    hint: other formats are chat, responses, anthropic, gemini, pydantic-ai
    --- exit status 1
    ");
    bench.write("other.json", r#"{"prompt": "x"}"#);
    insta::assert_snapshot!(fit(&["other.json"]), @"
    $ overspill fit --budget 90% other.json
    --- stderr
    overspill: error: other.json is of no format that is known
    hint: say which with --format: chat, responses, anthropic, gemini, pydantic-ai
    --- exit status 2
    ");
    bench.write("cut.json", r#"{"messages": [{"role""#);
    insta::assert_snapshot!(fit(&["--format", "chat", "cut.json"]), @"
    $ overspill fit --budget 90% --format chat cut.json
    --- stderr
    overspill: error: cannot read cut.json: the text is not JSON: expected `:` after a key (byte 21)
    --- exit status 1
    ");
    bench.write("nobody.json", r#"{"messages": []}"#);
    insta::assert_snapshot!(fit(&["nobody.json"]), @"
    $ overspill fit --budget 90% nobody.json
    --- stderr
    overspill: error: the request names no model
    hint: say the budget in tokens, or name another model with --model
    --- exit status 2
    ");
    insta::assert_snapshot!(fit(&["--pin", "9", "request.json"]), @"
    $ overspill fit --budget 90% --pin 9 request.json
    --- stderr
    overspill: error: there is no message 9 to pin
    hint: the conversation has 3 messages, numbered from 0
    --- exit status 2
    ");
}

#[test]
fn inspect_shows_what_tokens_are_spent_on() {
    let bench = bench(&request(&[400, 8_000, 2_000]));
    assert_picture!(bench.picture(&["inspect", "request.json"]));
    assert_picture!(bench.picture(&["inspect", "--in-order", "--limit", "3", "request.json"]));
    let (smaller, ..) =
        said(&bench, &["fit", "--budget", "1500", "--keep-pairs", "0", "request.json"]);
    bench.write("request.json", &smaller);
    let inspected = bench.json(&["inspect", "--json", "--in-order", "request.json"]);
    let found: Vec<&str> = inspected["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|entry| entry["handles"][0].as_str())
        .collect();
    assert_eq!(found, handles(&smaller));
    assert_eq!(inspected["faults"], json!([]));
}

#[test]
fn a_preset_does_to_a_history_what_it_does() {
    // 25,000 tokens: over what lean keeps to, and a third of what the model takes.
    let mut request = request(&[5_000; 20]);
    request["model"] = json!("claude-sonnet-4-5");
    let bench = bench(&request);
    let args = |preset: &'static str| ["fit", "--preset", preset, "request.json"];
    let (untouched, report, status) = said(&bench, &args("default"));
    assert_eq!((untouched, status), (request.to_string(), Some(0)));
    assert!(report.contains(" out, within 200,000; payloads stored: 0"), "{report}");
    let (smaller, report, status) = said(&bench, &args("lean"));
    assert!(smaller.len() < 50_000 && status == Some(0), "{report}");
    assert_eq!(messages(&smaller).len(), messages(&request.to_string()).len());

    // A budget stands for what the model takes.
    let budget = [&args("default")[..], &["--budget", "20000"]].concat();
    let (smaller, _, status) = said(&bench, &budget);
    assert!(smaller.len() < 50_000 && status == Some(0));
    for wrong in
        [vec!["fit", "request.json"], [&budget[..], &["--strategy", "clamp-oversized"]].concat()]
    {
        assert_eq!(said(&bench, &wrong).2, Some(2), "{wrong:?}");
    }
}

#[test]
fn what_was_not_enough_says_what_else_there_is() {
    let bench = bench(&request(&[4_000; 20]));
    let hint = |args: &[&str]| {
        let (_, report, status) = said(&bench, &[&["fit", "request.json"], args].concat());
        assert_eq!(status, Some(1), "{report}");
        report.split_once("hint: ").unwrap().1.split_once(';').unwrap().0.to_owned()
    };
    let little = ["--budget", "50"];
    assert_eq!(hint(&little), "keep less with --keep-pairs 0, or raise --budget");
    assert_eq!(
        hint(&["--budget", "50", "--strategy", "store-arguments", "--pin", "3"]),
        "run clear-tool-results and sliding-window too, by --strategy, or pin less, or raise --budget"
    );
    assert_eq!(
        hint(&["--budget", "50", "--keep-messages", "6", "--keep-pairs", "0"]),
        "keep less with --keep-messages 1, or raise --budget"
    );
}
