//! A whole round trip: a tool's return is reduced, stored, and read back.

use overspill::{ToolCall, ToolOutputLimits};
use overspill_store::LocalStore;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    futures_lite::future::block_on(round_trip())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
#[rustfmt::skip]
async fn round_trip() -> Result<(), Box<dyn std::error::Error>> {
    // README: from here on.
    let store = LocalStore::open(std::env::temp_dir().join("spills"))?;
    let limits = ToolOutputLimits::builder().store(Arc::new(store)).build()?;

    // What a tool returned goes in, what the model should see comes out.
    let log: String = (0..5_000).map(|i| format!("test case_{i} ... ok\n")).collect();
    let admitted = limits.admit(&ToolCall::new("run-1", "call-7", "bash"), log).await;
    println!("{}", admitted.to_text());

    // The model reads on through the tool that `limits.read_tool()` defines.
    let handle = &admitted.receipts().next().ok_or("nothing was stored")?.handle;
    let args = serde_json::json!({ "handle": handle, "pattern": "case_2500 " });
    println!("{}", limits.read(&args).await);
    // README: to here.
    Ok(())
}
