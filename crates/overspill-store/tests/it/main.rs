//! The stores against the suite every store passes, and the local one against its faults.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![expect(clippy::print_stdout, reason = "children speak to their parent; skipped tests say so")]

#[cfg(unix)]
mod local;

use std::sync::Arc;

use futures_lite::future::block_on;
use overspill::store::StoreExt;
use overspill_store::{MemoryStore, conformance};

#[test]
fn the_memory_store_conforms() {
    block_on(conformance::all(async || Arc::new(MemoryStore::new()) as Arc<dyn StoreExt>));
}

#[cfg(unix)]
#[test]
fn the_local_store_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let count = std::cell::Cell::new(0);
    block_on(conformance::all(async || {
        count.set(count.get() + 1);
        let root = folder.path().join(count.get().to_string());
        Arc::new(overspill_store::LocalStore::open(root).unwrap()) as Arc<dyn StoreExt>
    }));
}
