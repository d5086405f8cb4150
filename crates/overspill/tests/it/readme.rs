//! What the README shows is what runs.

use std::path::Path;

#[test]
fn the_readmes_examples_are_those_that_are_built() {
    check("overspill/examples/round_trip.rs");
    check("overspill-wire/examples/fit_history.rs");
    check("overspill-rig/examples/rig_agent.rs");
}

#[track_caller]
fn check(example: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let example = std::fs::read_to_string(root.join("..").join(example)).unwrap();
    let (_, body) = example.split_once("// README: from here on.\n").unwrap();
    let (body, _) = body.split_once("    // README: to here.\n").unwrap();
    let imports = example.lines().filter(|line| line.starts_with("use ")).map(str::to_owned);
    let body = body.lines().map(|line| line.strip_prefix("    ").unwrap_or(line).to_owned());
    let shown: Vec<String> = imports.chain([String::new()]).chain(body).collect();
    let readme = std::fs::read_to_string(root.join("../../README.md")).unwrap();
    assert!(
        readme.contains(&format!("```rust\n{}\n```", shown.join("\n"))),
        "{}",
        shown.join("\n")
    );
}
