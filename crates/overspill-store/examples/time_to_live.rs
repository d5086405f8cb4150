//! What a time-to-live costs those who write: 3,000 small spills without one, and with some.
//!
//! `cargo run --release -p overspill-store --example time_to_live`

#![expect(clippy::print_stdout, reason = "it reports")]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_lite::future::block_on;
use overspill::ToolCall;
use overspill::store::{PartName, Retention, Store, deposit};
use overspill_store::LocalStore;

const SPILLS: usize = 3_000;
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let second = Duration::from_secs(1);
    // A month sweeps every ten minutes; ten seconds, every second.
    let kinds = [("none", None), ("30d", Some(second * 2_592_000)), ("10s", Some(second * 10))];
    let mut times = [(); 3].map(|()| Vec::new());
    for _ in 0..ROUNDS {
        for ((_, max_age), times) in kinds.iter().zip(&mut times) {
            let folder = tempfile::tempdir()?;
            let retention = Retention { max_age: *max_age, max_bytes: None };
            let store = LocalStore::open(folder.path().join("root"))?.with_retention(retention);
            times.push(spill_all(&store)?);
        }
    }
    let medians = times.map(|mut times| {
        times.sort_unstable();
        times[ROUNDS / 2]
    });
    for ((name, _), median) in kinds.iter().zip(&medians) {
        let ratio = median.as_secs_f64() / medians[0].as_secs_f64();
        println!("max_age {name:>4}: {SPILLS} spills in {median:.2?}, {ratio:.3} times");
    }
    Ok(())
}

fn spill_all(store: &LocalStore) -> Result<Duration, Box<dyn Error>> {
    let port: Arc<dyn Store> = Arc::new(store.clone());
    let start = Instant::now();
    block_on(async {
        for n in 0..SPILLS {
            let call = ToolCall::new("run", n.to_string(), "tool");
            let payload = format!("{n} {}", "a line of a small result\n".repeat(80));
            deposit(&port, &call, PartName::Value(0), "text/plain", payload.into()).await?;
        }
        Ok::<(), Box<dyn Error>>(())
    })?;
    let took = start.elapsed();
    for warning in block_on(store.sweep_warnings()) {
        println!("warning: {warning}");
    }
    Ok(took)
}
