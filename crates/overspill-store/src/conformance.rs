//! What every store must do, as a suite that any implementation can run.
//!
//! Each case is a function that gets an empty store and panics where the store does otherwise
//! than the port says. [`all`] runs every case on a store of its own. The cases use no executor
//! and no clock, so they run wherever the store does:
//!
//! ```
//! use std::sync::Arc;
//!
//! use overspill::store::StoreExt;
//! use overspill_store::{MemoryStore, conformance};
//!
//! # futures_lite::future::block_on(async {
//! conformance::all(async || Arc::new(MemoryStore::new()) as Arc<dyn StoreExt>).await;
//! # });
//! ```

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use overspill::item::ToolCall;
use overspill::store::{
    BlobName, ByteRange, Commit, Digest, Handle, PartName, Stage, StoreError, StoreExt,
};

/// Runs every case, each on a store that `make` makes: an empty one that nothing else uses.
///
/// # Panics
///
/// Where the store does not do what the port says.
pub async fn all(make: impl AsyncFn() -> Arc<dyn StoreExt>) {
    comes_back_whole(&*make().await).await;
    reads_nothing_before_the_commit(&*make().await).await;
    leaves_nothing_of_a_dropped_stage(&*make().await).await;
    never_overwrites(&*make().await).await;
    renews_the_age(&*make().await).await;
    reads_ranges(&*make().await).await;
    says_what_is_not_there(&*make().await).await;
    keeps_payload_and_index_apart(&*make().await).await;
    keeps_handles_apart(&*make().await).await;
    lists_in_order_and_by_run(&*make().await).await;
    deletes_for_good_and_twice(&*make().await).await;
    deletes_only_what_is_unchanged(&*make().await).await;
    creates_once_for_many_writers(&*make().await).await;
    writes_many_at_once(&*make().await).await;
}

/// A payload comes back byte for byte, whatever its size and the pieces it came in.
pub async fn comes_back_whole(store: &dyn StoreExt) {
    const MIB: usize = 1 << 20;
    for size in [0, 1, 2, 4_095, 4_096, 65_535, 65_536, 65_537, 300_000, MIB, 5 * MIB + 3] {
        for piece in [1_usize, 7, 1_000, 65_536, 65_537, 700_001, 8 * MIB] {
            // The smallest pieces would take minutes for the largest payloads.
            if size / piece > 70_000 {
                continue;
            }
            let payload = noise(size);
            let name = payload_of("sizes", &format!("size-{size}-piece-{piece}"), &payload);
            let mut stage = stage(store).await;
            for chunk in payload.chunks(piece) {
                append(&mut *stage, chunk).await;
                append(&mut *stage, b"").await;
            }
            assert_eq!(stage.commit(&name).await.expect("commits"), Commit::Created, "{name}");
            assert!(whole(store, &name).await == payload, "{name} comes back as it went in");
            assert_eq!(store.stat(&name).await.expect("is there").len, size as u64, "{name}");
        }
    }
}

/// What is not committed cannot be read, looked at or listed.
pub async fn reads_nothing_before_the_commit(store: &dyn StoreExt) {
    let payload = noise(200_000);
    let name = payload_of("run", "call", &payload);
    let mut stage = stage(store).await;
    for piece in payload.chunks(70_000) {
        append(&mut *stage, piece).await;
        assert_absent(store, &name).await;
        assert_eq!(store.list(None).await.expect("lists"), []);
    }
    stage.commit(&name).await.expect("commits");
    assert!(whole(store, &name).await == payload);
}

/// A stage that is dropped leaves no blob, and its name free.
pub async fn leaves_nothing_of_a_dropped_stage(store: &dyn StoreExt) {
    let name = payload_of("run", "call", b"second");
    let mut dropped = stage(store).await;
    append(&mut *dropped, &noise(200_000)).await;
    drop(dropped);
    drop(stage(store).await);

    assert_absent(store, &name).await;
    assert_eq!(store.list(None).await.expect("lists"), []);
    assert_eq!(put(store, &name, b"second").await, Commit::Created);
}

/// A second commit of a name changes nothing, be its bytes the same, others, fewer or more.
pub async fn never_overwrites(store: &dyn StoreExt) {
    let payload = noise(100_000);
    let name = payload_of("run", "call", &payload);
    assert_eq!(put(store, &name, &payload).await, Commit::Created);
    for other in [payload.clone(), noise(100_001), b"fewer".to_vec(), Vec::new()] {
        assert_eq!(put(store, &name, &other).await, Commit::Existed);
        assert!(whole(store, &name).await == payload, "the first bytes stay");
    }
}

/// A second commit starts the age anew; it never makes a blob older. The second commit of an
/// index renews the payload beside it, since that is what a sweep looks at.
pub async fn renews_the_age(store: &dyn StoreExt) {
    let (payload, index) = both("run", "call", b"payload");
    put(store, &index, b"index").await;
    put(store, &payload, b"payload").await;
    for name in [&payload, &index] {
        let before = store.stat(&payload).await.expect("is there");
        assert_eq!(put(store, name, b"other").await, Commit::Existed);
        let after = store.stat(&payload).await.expect("is there");
        assert!(after.modified >= before.modified, "{name}: {after:?} is older than {before:?}");
        assert_eq!(after.len, before.len);
    }
}

/// A range is cut to what there is, and says how long the whole is.
pub async fn reads_ranges(store: &dyn StoreExt) {
    let payload = noise(200_000);
    let len = payload.len() as u64;
    let name = payload_of("run", "call", &payload);
    put(store, &name, &payload).await;
    #[expect(clippy::reversed_empty_ranges, reason = "a caller may ask for one")]
    let ranges = [
        (ByteRange::Span(0..len), 0..200_000),
        (ByteRange::Span(0..1), 0..1),
        (ByteRange::Span(65_530..65_550), 65_530..65_550),
        (ByteRange::Span(199_999..200_000), 199_999..200_000),
        (ByteRange::Span(150_000..u64::MAX), 150_000..200_000),
        (ByteRange::Span(len..u64::MAX), 0..0),
        (ByteRange::Span(u64::MAX..u64::MAX), 0..0),
        (ByteRange::Span(7..7), 0..0),
        (ByteRange::Span(9..7), 0..0),
        (ByteRange::Last(0), 0..0),
        (ByteRange::Last(1), 199_999..200_000),
        (ByteRange::Last(100_000), 100_000..200_000),
        (ByteRange::Last(len), 0..200_000),
        (ByteRange::Last(u64::MAX), 0..200_000),
    ];
    for (range, expected) in ranges {
        let slice = store.read(&name, range.clone()).await.expect("reads");
        assert!(slice.bytes == payload[expected.clone()], "{range:?} is {expected:?}");
        assert_eq!(slice.blob_len, len, "{range:?}");
    }

    let empty = payload_of("run", "empty", b"");
    put(store, &empty, b"").await;
    for range in [ByteRange::Span(0..10), ByteRange::Last(10)] {
        let slice = store.read(&empty, range).await.expect("reads");
        assert_eq!((slice.bytes.len(), slice.blob_len), (0, 0));
    }
}

/// A blob that is not there is [`StoreError::NotFound`], by its name, in a store that holds
/// nothing and in one that holds its neighbours.
pub async fn says_what_is_not_there(store: &dyn StoreExt) {
    let (payload, index) = both("run", "call", b"payload");
    for name in [&payload, &index] {
        assert_absent(store, name).await;
    }
    put(store, &payload_of("run", "other", b"other"), b"other").await;
    put(store, &payload, b"payload").await;
    assert_absent(store, &index).await;
}

/// A payload and its index are blobs of their own, though one handle names both.
pub async fn keeps_payload_and_index_apart(store: &dyn StoreExt) {
    let (payload, index) = both("run", "call", b"the payload");
    assert_eq!(put(store, &index, b"the index").await, Commit::Created);
    assert_absent(store, &payload).await;
    assert_eq!(store.list(None).await.expect("lists"), [], "an index alone is no payload");
    assert_eq!(put(store, &payload, b"the payload").await, Commit::Created);
    assert_eq!(whole(store, &index).await, &b"the index"[..]);
    assert_eq!(whole(store, &payload).await, &b"the payload"[..]);
}

/// Handles that differ in one part alone name blobs of their own.
pub async fn keeps_handles_apart(store: &dyn StoreExt) {
    let ids = ["a", "b", "a-b", "a_b", "a.b", "a/b", "a b", "", ".", "..", "call:1.0", "call;1.0"];
    let calls = ids.iter().flat_map(|id| {
        // An odd id as the call, as the run, and as a call tried again.
        let retried = ToolCall::new("run", *id, "tool").with_retry(1);
        [ToolCall::new("run", *id, "tool"), ToolCall::new(*id, "call", "tool"), retried]
    });
    // The digest is the same for all: only the ids and parts tell them apart.
    let handle = |call: &ToolCall, part| Handle::new(call, part, &Digest::of(b"same"));
    let mut handles: Vec<Handle> = calls.map(|call| handle(&call, PartName::Value(0))).collect();
    for part in [PartName::Value(1), PartName::Content(0), PartName::Content(1)] {
        handles.push(handle(&ToolCall::new("run", "a", "tool"), part));
    }
    for handle in &handles {
        let name = BlobName::Payload(handle.clone());
        assert_eq!(put(store, &name, handle.as_str().as_bytes()).await, Commit::Created, "{name}");
    }
    for handle in &handles {
        let name = BlobName::Payload(handle.clone());
        assert_eq!(whole(store, &name).await, handle.as_str().as_bytes(), "{name}");
    }
    assert_eq!(store.list(None).await.expect("lists").len(), handles.len());
}

/// A list holds every payload, ordered by handle, of one run or of all; a run that cannot be
/// one is empty.
pub async fn lists_in_order_and_by_run(store: &dyn StoreExt) {
    assert_eq!(store.list(None).await.expect("lists"), []);
    assert_eq!(store.list(Some("run")).await.expect("lists"), []);
    let mut expected = Vec::new();
    for run in ["run-2", "run-1", "run", "run-10"] {
        for call in ["c", "a", "b"] {
            let payload = format!("{run} {call}");
            let (name, index) = both(run, call, payload.as_bytes());
            put(store, &index, b"an index, longer than its payload").await;
            put(store, &name, payload.as_bytes()).await;
            let stat = store.stat(&name).await.expect("is there");
            assert_eq!(stat.len, payload.len() as u64);
            expected.push((name.handle().clone(), stat));
        }
    }
    expected.sort_by(|(a, _), (b, _)| a.cmp(b));
    assert_eq!(store.list(None).await.expect("lists"), expected);
    for run in ["run", "run-1", "run-10", "run-2"] {
        let of_run: Vec<_> =
            expected.iter().filter(|(handle, _)| handle.run() == run).cloned().collect();
        assert_eq!(store.list(Some(run)).await.expect("lists"), of_run, "{run}");
    }
    for none in ["ru", "run-3", "", ".", "..", "../run", "/", "run/", "run/..", ".staging", "\0"] {
        assert_eq!(store.list(Some(none)).await.expect("lists"), [], "{none:?}");
    }
}

/// A deletion takes payload and index, spares the neighbours, frees the name, and does no harm
/// a second time.
pub async fn deletes_for_good_and_twice(store: &dyn StoreExt) {
    let (payload, index) = both("run", "call", b"payload");
    let (neighbour, neighbours_index) = both("run", "call2", b"payload");
    store.delete(payload.handle()).await.expect("deletes what was never there");
    for name in [&index, &payload, &neighbours_index, &neighbour] {
        put(store, name, b"payload").await;
    }
    for _ in 0..2 {
        store.delete(payload.handle()).await.expect("deletes");
        assert_absent(store, &payload).await;
        assert_absent(store, &index).await;
        let left = store.list(None).await.expect("lists");
        assert_eq!(left.iter().map(|(handle, _)| handle).collect::<Vec<_>>(), [neighbour.handle()]);
        assert_eq!(whole(store, &neighbours_index).await, &b"payload"[..]);
    }
    assert_eq!(put(store, &payload, b"payload").await, Commit::Created);
    store.delete(payload.handle()).await.expect("deletes a payload without index");
    put(store, &index, b"index").await;
    store.delete(index.handle()).await.expect("deletes an index without payload");
    assert_absent(store, &index).await;
}

/// A deletion by what was seen spares a payload that has changed since, and its index.
pub async fn deletes_only_what_is_unchanged(store: &dyn StoreExt) {
    let (payload, index) = both("run", "call", b"payload");
    put(store, &index, b"index").await;
    put(store, &payload, b"payload").await;
    let seen = store.stat(&payload).await.expect("is there");

    let mut earlier = seen.clone();
    earlier.modified -= Duration::from_secs(10);
    assert!(!store.delete_unchanged(payload.handle(), &earlier).await.expect("looks"));
    assert_eq!(whole(store, &payload).await, &b"payload"[..]);
    assert_eq!(whole(store, &index).await, &b"index"[..]);

    assert!(store.delete_unchanged(payload.handle(), &seen).await.expect("deletes"));
    assert_absent(store, &payload).await;
    assert_absent(store, &index).await;
    assert!(store.delete_unchanged(payload.handle(), &seen).await.expect("is gone already"));
}

/// Of many writers of one name, exactly one creates it, and its bytes are whole.
pub async fn creates_once_for_many_writers(store: &dyn StoreExt) {
    const WRITERS: usize = 32;
    let name = payload_of("run", "call", b"contended");
    let payloads: Vec<Vec<u8>> = (0..WRITERS).map(|n| noise(100_000 + n)).collect();
    let commits = together(payloads.iter().map(|payload| put(store, &name, payload))).await;
    let created: Vec<usize> =
        (0..WRITERS).filter(|&writer| commits[writer] == Commit::Created).collect();
    assert_eq!(created.len(), 1, "{commits:?}");
    assert!(whole(store, &name).await == payloads[created[0]]);
}

/// Writers of different names do not disturb each other, even in one run.
pub async fn writes_many_at_once(store: &dyn StoreExt) {
    const WRITERS: usize = 64;
    let names: Vec<(BlobName, BlobName)> =
        (0..WRITERS).map(|n| both("run", &format!("call-{n}"), b"payload")).collect();
    let spill = async |(payload, index): &(BlobName, BlobName)| {
        assert_eq!(put(store, index, index.to_string().as_bytes()).await, Commit::Created);
        assert_eq!(put(store, payload, payload.to_string().as_bytes()).await, Commit::Created);
    };
    together(names.iter().map(spill)).await;
    for name in names.iter().flat_map(|(payload, index)| [payload, index]) {
        assert_eq!(whole(store, name).await, name.to_string().as_bytes());
    }
    assert_eq!(store.list(Some("run")).await.expect("lists").len(), WRITERS);
}

fn payload_of(run: &str, call: &str, payload: &[u8]) -> BlobName {
    let call = ToolCall::new(run, call, "tool");
    BlobName::Payload(Handle::new(&call, PartName::Value(0), &Digest::of(payload)))
}

fn both(run: &str, call: &str, payload: &[u8]) -> (BlobName, BlobName) {
    let name = payload_of(run, call, payload);
    let index = BlobName::Index(name.handle().clone());
    (name, index)
}

/// Bytes of every value, no two blocks alike, the same for the same length.
fn noise(len: usize) -> Vec<u8> {
    let mut state = (len as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        // Marsaglia's xorshift64.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

async fn stage(store: &dyn StoreExt) -> Box<dyn Stage> {
    store.stage().await.expect("opens a stage")
}

async fn append(stage: &mut dyn Stage, bytes: &[u8]) {
    stage.append(Bytes::copy_from_slice(bytes)).await.expect("appends");
}

async fn put(store: &dyn StoreExt, name: &BlobName, bytes: &[u8]) -> Commit {
    let mut stage = stage(store).await;
    append(&mut *stage, bytes).await;
    stage.commit(name).await.expect("commits")
}

async fn whole(store: &dyn StoreExt, name: &BlobName) -> Bytes {
    let slice = store.read(name, ByteRange::Span(0..u64::MAX)).await.expect("reads");
    assert_eq!(slice.bytes.len() as u64, slice.blob_len);
    slice.bytes
}

async fn assert_absent(store: &dyn StoreExt, name: &BlobName) {
    let says_so = |error: &StoreError| matches!(error, StoreError::NotFound { name: said } if *said == name.to_string());
    for range in [ByteRange::Span(0..1), ByteRange::Last(1)] {
        let error = store.read(name, range).await.expect_err("cannot be read");
        assert!(says_so(&error), "{name}: {error}");
    }
    let error = store.stat(name).await.expect_err("cannot be looked at");
    assert!(says_so(&error), "{name}: {error}");
}

/// Awaits all futures at once, without an executor.
async fn together<'a, T: 'a>(
    futures: impl Iterator<Item = impl Future<Output = T> + 'a>,
) -> Vec<T> {
    let mut futures: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    poll_fn(|context| {
        let mut all_done = true;
        for (future, output) in &mut futures {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(value) => *output = Some(value),
                    Poll::Pending => all_done = false,
                }
            }
        }
        if all_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    futures.into_iter().filter_map(|(_, output)| output).collect()
}
