//! What the presets are promised to save and to keep, on a session that anyone can replay.

use serde_json::Value;

use crate::bench::Bench;

/// The figures of a policy on the project's own session.
fn figures(policy: &str) -> Value {
    let bench = Bench::new();
    let session = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/session.jsonl");
    let replayed = bench.json(&["replay", session, "--policy", policy, "--json"]);
    assert_eq!(replayed["sessions"], 1);
    replayed["rows"][1].clone()
}

#[track_caller]
fn at_least(row: &Value, figure: &str, least: f64) {
    let value = row["reduction"][figure].as_f64().unwrap();
    assert!(value >= least, "{figure} is {value} and must be {least}: {row}");
}

#[test]
fn presets_save_much_keep_what_is_used_and_lose_nothing() {
    let lean = figures("lean");
    at_least(&lean, "sent", 60.0);
    at_least(&lean, "cost", 58.0);
    at_least(&lean, "net_cost", 53.0);
    at_least(&lean, "in_view", 76.0);
    let default = figures("default");
    at_least(&default, "cost", 0.0);
    at_least(&default, "net_cost", 0.0);
    at_least(&default, "in_view", 85.0);
    for row in [&lean, &default] {
        at_least(row, "reachable", 100.0);
        assert_eq!(row["figures"]["invalid"], 0, "{row}");
    }
}

#[test]
fn strategies_by_name_keep_calls_and_returns_together() {
    for policy in ["sliding", "clear", "tiered"] {
        let row = figures(policy);
        at_least(&row, "reachable", 100.0);
        assert_eq!(row["figures"]["invalid"], 0, "{row}");
        assert!(row["reduction"]["sent"].as_f64().unwrap() >= 0.0, "{row}");
    }
}
