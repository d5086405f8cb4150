//! A rig agent whose tool results and history stay small.
//!
//! It asks an OpenAI-shaped endpoint, as `OPENAI_API_KEY` and `OPENAI_BASE_URL` say. Built as it is
//! here, it speaks plain HTTP; with rig's default features and `reqwest` it speaks TLS too.

use overspill::capability::{Capability, Compaction, Stack};
use overspill::{ToolOutputLimits, config::Preset, fit::Fitter, window};
use overspill_rig::{Overspill, WithOverspill};
use overspill_store::LocalStore;
use rig_agent::prelude::*;
use std::sync::Arc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Built with what else is in this workspace, the client has TLS and wants to be told whose.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let model = rig_core::providers::openai::OpenAI::from_env()?.chat("gpt-5.2");
    ask(model.erase()).await
}

#[rustfmt::skip]
#[expect(clippy::print_stdout, reason = "an example shows what it does")]
async fn ask(model: DynModel<rig_core::operation::Completion>) -> Result<(), Box<dyn std::error::Error>> {
    // README: from here on.
    let store = Arc::new(LocalStore::open(std::env::temp_dir().join("spills"))?);
    let window = window::resolve("gpt-5.2", &Default::default());
    let limits = ToolOutputLimits::builder().store(store.clone()).build()?;
    let history = Compaction::preset(Preset::Lean, &window);
    let capabilities: [Arc<dyn Capability>; 2] = [Arc::new(limits), Arc::new(history)];
    let stack = Stack::new(Fitter::preset(Preset::Lean, store, &window), capabilities);

    // Results are reduced, requests are fitted, and `read_tool_result` is one of the agent's tools.
    let agent = AgentBuilder::new(model).overspill(&Overspill::new(stack)).build();
    println!("{}", agent.prompt("Why does the build fail?").await?);
    // README: to here.
    Ok(())
}
