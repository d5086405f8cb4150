//! What docs/agents.md shows is what runs.

use std::path::Path;

#[test]
fn the_pages_code_is_that_which_is_built() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../docs/agents.md")).unwrap();
    let by_hand = std::fs::read_to_string(root.join("src/by_hand.rs")).unwrap();
    let parts = by_hand.split("    // docs: from here on.\n").skip(1);
    let parts: Vec<String> = parts
        .map(|part| {
            let (part, _) = part.split_once("    // docs: to here.\n").unwrap();
            part.lines()
                .map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line)))
                .collect()
        })
        .collect();
    let [stack, answer] = &parts[..] else { panic!("two parts") };
    let layer = std::fs::read_to_string(root.join("src/fit_layer.rs")).unwrap();
    let layer = layer.lines().filter_map(|line| line.strip_prefix("/// "));
    let layer: String = layer
        .skip_while(|line| !line.starts_with("let window"))
        .take_while(|line| !line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect();
    for code in [stack, answer, &layer] {
        assert!(page.contains(&format!("```rust\n{code}```\n")), "the page lacks:\n{code}");
    }
}
