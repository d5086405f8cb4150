//! What a time-to-live costs those who write: 3,000 small spills without one, and with some.
//!
//! `cargo run --release -p overspill-store --example time_to_live`

#![expect(clippy::print_stdout, reason = "it reports")]

use std::error::Error;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_lite::future::block_on;
use overspill::ToolCall;
use overspill::store::{PartName, Retention, Store, deposit};
use overspill_store::LocalStore;

const SPILLS: usize = 3_000;

/// The stores take turns, so that what else the machine does weighs on each alike.
const A_TURN: usize = 50;

fn main() -> Result<(), Box<dyn Error>> {
    let second = Duration::from_secs(1);
    // A month sweeps every ten minutes; ten seconds, every second.
    let kinds = [("none", None), ("30d", Some(second * 2_592_000)), ("10s", Some(second * 10))];
    let folder = tempfile::tempdir()?;
    let open = |(name, max_age)| {
        let retention = Retention { max_age, max_bytes: None };
        LocalStore::open(folder.path().join(name)).map(|store| store.with_retention(retention))
    };
    let stores = kinds.into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let mut times = vec![Duration::ZERO; stores.len()];
    for turn in 0..SPILLS / A_TURN {
        for k in 0..stores.len() {
            let k = (k + turn) % stores.len();
            times[k] += spill(&stores[k], turn * A_TURN..(turn + 1) * A_TURN)?;
        }
    }
    for (((name, _), time), store) in kinds.iter().zip(&times).zip(&stores) {
        let ratio = time.as_secs_f64() / times[0].as_secs_f64();
        println!("max_age {name:>4}: {SPILLS} spills in {time:.2?}, {ratio:.3} times");
        for warning in block_on(store.sweep_warnings()) {
            println!("warning: {warning}");
        }
    }
    Ok(())
}

fn spill(store: &LocalStore, calls: Range<usize>) -> Result<Duration, Box<dyn Error>> {
    let port: Arc<dyn Store> = Arc::new(store.clone());
    let start = Instant::now();
    for n in calls {
        let call = ToolCall::new("run", n.to_string(), "tool");
        let payload = format!("{n} {}", "a line of a small result\n".repeat(80));
        block_on(deposit(&port, &call, PartName::Value(0), "text/plain", payload.into()))?;
    }
    Ok(start.elapsed())
}
