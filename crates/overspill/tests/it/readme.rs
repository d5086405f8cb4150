//! What the README shows is what runs.

use std::path::Path;

#[test]
fn the_readmes_example_is_the_one_that_is_built() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let example = std::fs::read_to_string(root.join("examples/round_trip.rs")).unwrap();
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
