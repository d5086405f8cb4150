//! Histories recorded with Pydantic AI.

use std::path::Path;
use std::sync::Arc;

use overspill::history::Plan;
use overspill_wire::{Conversation, Format};
use serde_json::Value;

use crate::support::{applied, fit, parse, strategies};

fn golden() -> Option<Vec<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/golden");
    let mut all = Vec::new();
    for name in ["sliding_window", "clear_tool_results", "dedup_file_reads", "clamp", "transcript"]
    {
        let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).ok()?;
        let file: Value = serde_json::from_str(&text).unwrap();
        all.extend(file["histories"].as_object()?.values().map(Value::to_string));
    }
    Some(all)
}

#[test]
fn recorded_histories_keep_their_bytes_and_stay_as_valid_as_they_were() {
    let Some(histories) = golden() else {
        println!("skipped: the recorded histories are not here");
        return;
    };
    assert!(histories.len() > 50);
    for text in histories {
        let conversation = parse(Format::PydanticAi, &text);
        assert_eq!(conversation.to_bytes(), text.as_bytes());
        let history = conversation.history();
        assert_eq!(
            history.messages().len(),
            serde_json::from_str::<Vec<Value>>(&text).unwrap().len()
        );
        let before = history.faults().len();
        for turn in history.turns() {
            let mut plan = Plan::default();
            plan.drop_turn(turn);
            if history.check(&plan).is_ok() {
                let after = parse(Format::PydanticAi, &applied(&conversation, &plan));
                assert!(after.history().faults().len() <= before, "{:?}", after.history().faults());
            }
        }
    }
}

#[test]
fn strategies_leave_recorded_histories_as_valid_as_they_were() {
    for text in golden().into_iter().flatten() {
        let conversation = parse(Format::PydanticAi, &text);
        let before = conversation.history().faults().len();
        for strategy in strategies(500) {
            let bytes = fit(&conversation, Arc::clone(&strategy)).bytes;
            let after = Conversation::parse(Format::PydanticAi, bytes).unwrap();
            let after = after.history().faults();
            assert!(after.len() <= before, "{strategy:?}: {after:?}");
        }
    }
}
