//! The report of `overspill replay`: one page that is well formed, loads nothing, and runs nothing
//! of what was recorded.

use std::path::Path;

use crate::bench::{Bench, assert_picture};

fn fixtures() -> String {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    crates.join("overspill-replay/tests/fixtures").display().to_string()
}

fn report(bench: &Bench, paths: &[&str]) -> String {
    let file = bench.path("report.html");
    let name = file.display().to_string();
    let policy = ["--policy", "headtail-2000,lean", "--html", &name];
    bench.stdout(&[&["replay"], paths, &policy].concat());
    std::fs::read_to_string(file).unwrap()
}

/// A recording in which every name and text tries to be more than text.
fn hostile() -> String {
    let evil =
        r#"</td></svg></style><script src=http://evil.example>alert(1)</script>" onload='x'"#;
    let text = format!("{evil} name_of_a_thing {}", "filler line of a result\n".repeat(400));
    let mut lines = Vec::new();
    for i in 0..25 {
        let id = format!("t{i}");
        lines.push(
            serde_json::json!({"type": "assistant", "sessionId": evil, "uuid": format!("a{i}"),
            "message": {"id": format!("m{i}"), "role": "assistant", "content": [
                {"type": "text", "text": format!("name_of_a_thing {evil}")},
                {"type": "tool_use", "id": id, "name": evil, "input": {"path": evil}}]}}),
        );
        lines.push(serde_json::json!({"type": "user", "sessionId": evil, "uuid": format!("u{i}"),
            "message": {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": id, "content": text}]}}));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The tags of a page: every one that opens is closed, in order. Comes with the tags as they stand.
fn tags(page: &str) -> Vec<&str> {
    const VOID: [&str; 2] = ["meta", "!doctype"];
    let mut open: Vec<&str> = Vec::new();
    let mut tags = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        let end = at + rest[at..].find('>').expect("a tag ends");
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        tags.push(tag);
        let name = tag.split([' ', '/']).find(|name| !name.is_empty()).unwrap();
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "before {:?}", &rest[..rest.len().min(80)]);
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
            // What these hold is no markup.
            if ["style", "script"].contains(&name) {
                rest = &rest[rest.find(&format!("</{name}>")).unwrap()..];
            }
        }
    }
    assert!(open.is_empty(), "{open:?} are left open");
    tags
}

fn loads_nothing(page: &str) {
    for tag in tags(page) {
        let tag = tag.replace("http-equiv", "");
        for reference in ["http", "src=", "href", "url(", " on"] {
            // The names of attributes end where a value begins; in values there is only text.
            let outside: String = tag.split('"').step_by(2).collect();
            assert!(!outside.contains(reference), "{tag}");
        }
    }
    let style = &page[page.find("<style>").unwrap()..page.find("</style>").unwrap()];
    assert!(!["@import", "url(", "http"].iter().any(|reference| style.contains(reference)));
    assert_eq!(page.matches("<script").count(), 1);
}

#[test]
fn a_report_is_well_formed_loads_nothing_and_is_the_same_each_time() {
    let bench = Bench::new();
    let page = report(&bench, &[&fixtures()]);
    loads_nothing(&page);
    assert!(page.contains("<article>") && page.contains("class=\"plot\""));
    assert_eq!(page, report(&bench, &[&fixtures()]));
}

#[test]
fn nothing_that_was_recorded_is_more_than_text() {
    let bench = Bench::new();
    let path =
        bench.write("</h3><img src=x onerror=alert(1)>.jsonl".replace('/', "").as_str(), hostile());
    let page = report(&bench, &[&path.display().to_string()]);
    loads_nothing(&page);
    assert!(!page.contains("<img") && !page.contains("<script src") && page.contains("&lt;script"));
    assert!(page.contains("class=\"result\""), "the biggest results are shown");
}

#[test]
fn the_report_says_what_the_table_says() {
    let bench = Bench::new();
    let path = bench.write("run.jsonl", hostile()).display().to_string();
    let page = report(&bench, &[&path]);
    let replayed = bench.json(&["replay", &path, "--policy", "headtail-2000,lean", "--json"]);
    for row in replayed["rows"].as_array().unwrap() {
        for figure in ["sent", "cost", "net_cost", "in_view", "with_line", "reachable"] {
            let number = format!("{:.1}", row["reduction"][figure].as_f64().unwrap());
            assert!(page.contains(&format!(">{number}<")), "{figure} {number}");
        }
    }
}

#[test]
fn hundreds_of_sessions_stay_small() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("many")).unwrap();
    let one = hostile();
    for i in 0..330 {
        bench.write(&format!("many/{i}.jsonl"), &one);
    }
    let page = report(&bench, &[&bench.path("many").display().to_string()]);
    loads_nothing(&page);
    assert_eq!(page.matches("<article>").count(), 9);
    assert!(page.contains("And 21 more"));
    assert!(page.len() < 600_000, "{} bytes", page.len());
}

#[test]
fn a_model_brings_its_window_and_prices() {
    let bench = Bench::new();
    let path = bench.write("run.jsonl", hostile()).display().to_string();
    let args = ["replay", &path, "--policy", "lean", "--json", "--model"];
    let replayed = bench.json(&[&args[..], &["claude-sonnet-4-5"]].concat());
    assert_eq!(replayed["model"]["window"], 200_000);
    let net = |row: usize| replayed["rows"][row]["dollars"]["net_cost"].as_f64().unwrap();
    assert!(net(0) > net(1) && net(1) > 0.0);
    // 25 requests, the last of about 24 results of 9,700 characters: 57,000 tokens.
    let small = bench.json(&[&args[..], &["gpt-4"]].concat());
    assert!(small["rows"][0]["over_window"].as_u64().unwrap() > 10);
    assert_picture!(bench.picture(&["replay", &path, "--model", "no-such-model"]));
}

#[test]
fn a_report_takes_the_place_of_nothing_but_a_report() {
    let bench = Bench::new();
    let session = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/session.jsonl");
    let recorded = bench.path("s.jsonl");
    std::fs::copy(session, &recorded).unwrap();
    std::os::unix::fs::symlink("s.jsonl", bench.path("link.html")).unwrap();
    bench.write("notes.txt", "mine\n");
    std::fs::create_dir(bench.path("folder")).unwrap();
    let html = |file: &str| bench.output(&["replay", "s.jsonl", "--html", file]);
    for (file, says) in [
        ("s.jsonl", "s.jsonl is a recording\nhint: name another file"),
        ("link.html", "link.html is a recording\nhint: name another file"),
        ("notes.txt", "notes.txt exists and is no report\nhint: name another file"),
        ("folder", "folder is a folder\nhint: name a file in it"),
        ("not/there.html", "the folder not does not exist\nhint: make it"),
    ] {
        let refused = html(file);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(said.contains(says) && refused.stdout.is_empty(), "{file}: {said}");
    }
    assert_eq!(std::fs::read(&recorded).unwrap(), std::fs::read(session).unwrap());
    assert_eq!(std::fs::read(bench.path("notes.txt")).unwrap(), b"mine\n");
    // An older one gives way, whole.
    assert!(html("report.html").status.success());
    let first = std::fs::read(bench.path("report.html")).unwrap();
    bench.write("report.html", &first[..1_000]);
    assert!(html("report.html").status.success());
    assert_eq!(std::fs::read(bench.path("report.html")).unwrap(), first);
    assert!(html("/dev/null").status.success());
}
