//! Sixty steps of a rig agent, each with a test log of 60,000 characters, offline: the model follows
//! a script, everything else is real.

use overspill::capability::{Capability, Compaction, Stack};
use overspill::{ToolOutputLimits, config::Preset, fit::Fitter, window};
use overspill_rig::{Event, Overspill, WithOverspill};
use overspill_store::LocalStore;
use rig_agent::prelude::*;
use rig_core::message::ToolName;
use rig_core::test_utils::{MockCompletionModel, MockTurn};
use rig_core::tool::{DynamicTool, ToolOutput};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const STEPS: u64 = 60;

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "an example shows what it does")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let store = Arc::new(LocalStore::open(folder.path().join("spills"))?);
    let window = window::resolve("gpt-5.2", &Default::default());
    let limits = ToolOutputLimits::builder().store(store.clone()).build()?;
    let history = Compaction::preset(Preset::Lean, &window);
    let capabilities: [Arc<dyn Capability>; 2] = [Arc::new(limits), Arc::new(history)];
    let stack = Stack::new(Fitter::preset(Preset::Lean, store, &window), capabilities);

    let (request, put_out) = (AtomicU64::new(0), Arc::new(AtomicU64::new(0)));
    let so_far = Arc::clone(&put_out);
    let overspill = Overspill::new(stack).run("demo").watch(move |event| {
        let Event::Requested { fitted, .. } = event else { return };
        let (n, whole) = (request.fetch_add(1, Ordering::Relaxed), so_far.load(Ordering::Relaxed));
        if n % 5 == 0 || fitted.plan.is_some() {
            let (before, after, whole) = (fitted.before, fitted.after, whole / 4);
            println!("request {n:>2}: {after:>6} tokens ({before:>6} before it was fitted; whole: {whole:>7})");
        }
    });

    let parameters = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let tests = DynamicTool::new(
        ToolName::new("tests")?,
        "Runs the tests.",
        parameters,
        move |args: Value| {
            let log: String = (0..2_000)
                .map(|i| format!("test case_{i} of run {} ... ok\n", args["n"]))
                .collect();
            put_out.fetch_add(log.len() as u64, Ordering::Relaxed);
            Box::pin(async move { Ok(ToolOutput::text(log)) })
        },
    );
    let calls =
        (0..STEPS).map(|n| MockTurn::tool_call(format!("call_{n}"), "tests", json!({ "n": n })));
    let model = MockCompletionModel::from_turns(calls.chain([MockTurn::text("All runs passed.")]));
    let agent = AgentBuilder::new(model)
        .default_max_turns(100)
        .dynamic_tool(tests)
        .overspill(&overspill)
        .build();
    println!("{}", agent.prompt("Run the tests sixty times.").await?);
    Ok(())
}
