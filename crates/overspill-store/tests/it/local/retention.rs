//! What expires, what is spared, and how what is gone reads.

use std::sync::Arc;

use overspill::RunId;
use overspill::read::{ReadArgs, read as read_tool};
use overspill::store::{Cause, Expiry, IndexHealth, Retention, Stored, deposit};
use overspill_store::Sweep;

use super::*;

pub(super) const HOUR: Duration = Duration::from_secs(3_600);
pub(super) const DAY: Duration = Duration::from_secs(86_400);

pub(super) fn by_age(max_age: Duration) -> Retention {
    Retention { max_age: Some(max_age), max_bytes: None }
}

fn by_size(max_bytes: u64) -> Retention {
    Retention { max_age: None, max_bytes: Some(max_bytes) }
}

/// Sweeps at the time `at`.
pub(super) fn sweep_at(store: &LocalStore, retention: Retention, at: SystemTime) -> Sweep {
    block_on(async {
        let plan = store.plan_sweep(retention, at).await.unwrap();
        store.carry_out(plan, |_| {}).await.unwrap()
    })
}

fn sweep_now(store: &LocalStore, retention: Retention) -> Sweep {
    sweep_at(store, retention, SystemTime::now())
}

/// Spills a payload as the library does, with its index.
fn spill(store: &LocalStore, run: &str, call: &str, bytes: &[u8]) -> BlobName {
    let store: Arc<dyn Store> = Arc::new(store.clone());
    let call = ToolCall::new(run, call, "tool");
    let bytes = Bytes::copy_from_slice(bytes);
    let receipt =
        block_on(deposit(&store, &call, PartName::Value(0), "text/plain", bytes)).unwrap();
    BlobName::Payload(receipt.handle)
}

#[test]
fn what_expired_is_gone_and_says_when_and_why() {
    let scene = Scene::new();
    let (old, young) =
        (spill(&scene.store, "a", "old", b"1"), spill(&scene.store, "b", "new", b"2"));
    backdate(&scene.path(&old), 31 * DAY);
    let at = SystemTime::now();
    let plan = block_on(scene.store.plan_sweep(by_age(30 * DAY), at)).unwrap();
    assert_eq!(handles(&scene.store).len(), 2, "a plan does nothing");
    assert_eq!(plan.expired.len(), 1);

    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen_by = Arc::clone(&seen);
    let progress = move |done| seen_by.lock().unwrap().push(done);
    let swept = block_on(scene.store.carry_out(plan.clone(), progress)).unwrap();
    assert_eq!((swept.expired, swept.kept, swept.warnings), (plan.expired, plan.kept, vec![]));
    assert_eq!(*seen.lock().unwrap(), [1]);
    assert!(!scene.root().join("a").exists(), "the empty run goes too");
    assert_eq!(handles(&scene.store), [young.handle().clone()]);

    for error in
        [read(&scene.store, &old).unwrap_err(), { block_on(scene.store.stat(&old)).unwrap_err() }]
    {
        let StoreError::Expired { name, expiry } = error else { panic!("{error:?}") };
        assert_eq!(name, old.to_string());
        assert_eq!(expiry.cause, Cause::Age(30 * DAY));
        assert!(at.duration_since(expiry.at).unwrap() < Duration::from_secs(1), "{expiry:?}");
    }
    assert_not_found(read(&scene.store, &index_of(&old)));
    let store: Arc<dyn Store> = Arc::new(scene.store.clone());
    let answer = block_on(read_tool(&store, &ReadArgs::new(old.handle().as_str()), false));
    assert!(answer.contains(" expired on 20"), "{answer}");
    assert!(answer.contains(" UTC: it was older than 30d. "), "{answer}");
}

#[test]
fn what_is_stored_again_is_there_again() {
    let scene = Scene::new();
    let name = spill(&scene.store, "run", "call", b"payload");
    for days in [2, 3] {
        sweep_at(&scene.store, by_age(DAY), SystemTime::now() + days * DAY);
        let StoreError::Expired { expiry, .. } = read(&scene.store, &name).unwrap_err() else {
            panic!("it expired")
        };
        let left = expiry.at.duration_since(SystemTime::now() + (days - 1) * DAY);
        assert!(left.is_ok(), "the last time counts: {expiry:?}");
        assert_eq!(spill(&scene.store, "run", "call", b"payload"), name);
        assert_eq!(read(&scene.store, &name).unwrap(), "payload");
    }
    block_on(scene.store.delete(name.handle())).unwrap();
}

#[test]
fn what_a_foreign_sweeper_took_reads_as_not_there() {
    let scene = Scene::new();
    let name = spill(&scene.store, "run", "call", b"payload");
    fs::remove_file(scene.path(&name)).unwrap();
    assert_not_found(read(&scene.store, &name));
    let store: Arc<dyn Store> = Arc::new(scene.store.clone());
    let answer = block_on(read_tool(&store, &ReadArgs::new(name.handle().as_str()), false));
    assert!(answer.contains("has expired"), "{answer}");
    let swept = sweep_at(&scene.store, by_age(DAY), SystemTime::now() + 2 * DAY);
    assert_eq!(swept.expired, [], "what is not there does not expire again");
}

#[test]
fn the_size_cap_takes_the_oldest_and_warns_of_what_it_spares() {
    let scene = Scene::new();
    let names: Vec<_> =
        (0..4).map(|n| spill(&scene.store, "run", &n.to_string(), &[b'x'; 1_000])).collect();
    for (n, name) in names.iter().enumerate().take(3) {
        backdate(&scene.path(name), HOUR * (5 - n as u32));
    }
    let swept = sweep_now(&scene.store, by_size(2_500));
    assert_eq!(swept.expired.len(), 2);
    assert_eq!(swept.warnings, Vec::<String>::new());
    let error = read(&scene.store, &names[0]).unwrap_err();
    assert!(error.to_string().ends_with("UTC: the store was over its 2500B and it was the oldest"));

    let swept = sweep_now(&scene.store, by_size(500));
    assert_eq!(swept.expired.len(), 1);
    assert_eq!(handles(&scene.store), [names[3].handle().clone()]);
    let [warning] = &swept.warnings[..] else { panic!("{:?}", swept.warnings) };
    assert!(warning.contains("is 500 bytes over the limit of 500B"), "{warning}");
}

#[test]
fn a_lease_keeps_what_a_run_stored() {
    let scene = Scene::new();
    // An id that is no file name.
    let run = RunId::new("job 7/8");
    let (leased, free) =
        (spill(&scene.store, "job 7/8", "call", b"1"), spill(&scene.store, "other", "call", b"2"));
    block_on(scene.store.lease(&run, 2 * DAY)).unwrap();
    block_on(scene.store.lease(&run, HOUR)).unwrap();

    let tomorrow = SystemTime::now() + DAY;
    let swept = sweep_at(&scene.store, by_age(HOUR), tomorrow);
    assert_eq!(swept.expired[0].handle, *free.handle());
    assert!(swept.kept[0].leased && swept.kept[0].handle == *leased.handle());
    assert_eq!(fs::read_dir(scene.root().join(".leases")).unwrap().count(), 1);

    sweep_at(&scene.store, by_age(HOUR), tomorrow + DAY);
    assert!(matches!(read(&scene.store, &leased), Err(StoreError::Expired { .. })));
    assert_eq!(fs::read_dir(scene.root().join(".leases")).unwrap().count(), 0, "it has ended");
}

#[test]
fn a_lease_taken_after_the_plan_counts() {
    let scene = Scene::new();
    let name = spill(&scene.store, "run", "call", b"payload");
    let tomorrow = SystemTime::now() + DAY;
    let plan = block_on(scene.store.plan_sweep(by_age(HOUR), tomorrow)).unwrap();
    assert_eq!(plan.expired.len(), 1);
    block_on(scene.store.lease(&RunId::new("run"), Duration::MAX)).unwrap();
    let swept = block_on(scene.store.carry_out(plan, |_| {})).unwrap();
    assert_eq!(swept.expired, []);
    assert_eq!(read(&scene.store, &name).unwrap(), "payload");
}

#[test]
fn what_was_stored_again_after_the_plan_stays() {
    let scene = Scene::new();
    let name = spill(&scene.store, "run", "call", b"payload");
    backdate(&scene.path(&name), 2 * DAY);
    let plan = block_on(scene.store.plan_sweep(by_age(DAY), SystemTime::now())).unwrap();
    spill(&scene.store, "run", "call", b"payload");
    let swept = block_on(scene.store.carry_out(plan, |_| {})).unwrap();
    assert_eq!((swept.expired.len(), swept.kept.len()), (0, 1));
    assert_eq!(read(&scene.store, &name).unwrap(), "payload");
}

#[test]
fn a_sweep_cleans_up_after_crashed_writers() {
    let scene = Scene::new();
    let name = spill(&scene.store, "run", "call", b"payload");
    let orphan = index_of(&payload("other", "call"));
    put(&scene.store, &orphan, b"index").unwrap();
    backdate(&scene.path(&orphan), 2 * HOUR);
    fs::write(scene.root().join(".staging/1-a"), "torn").unwrap();
    fs::create_dir(scene.root().join("empty")).unwrap();

    let plan = block_on(scene.store.plan_sweep(Retention::default(), SystemTime::now())).unwrap();
    assert_eq!((plan.leftovers, scene.staged_files()), (2, 1), "counted, not removed");
    let swept = block_on(scene.store.carry_out(plan, |_| {})).unwrap();
    assert_eq!((swept.leftovers, scene.staged_files()), (2, 0));
    assert!(!scene.root().join("empty").exists() && !scene.root().join("other").exists());
    assert_eq!(read(&scene.store, &name).unwrap(), "payload");
}

#[test]
fn the_list_of_what_expired_is_bounded_and_torn_lines_do_no_harm() {
    let scene = Scene::new();
    let log = scene.root().join(".expired");
    let first = spill(&scene.store, "run", "first", b"payload");
    let far = SystemTime::now() + 2 * DAY;
    sweep_at(&scene.store, by_age(DAY), far);
    // A crash in the middle of a line, in the middle of a character.
    let mut bytes = fs::read(&log).unwrap();
    bytes.extend_from_slice(&[&b"run/call.aaa 17"[..], &[0xe2, 0x82]].concat());
    fs::write(&log, bytes).unwrap();
    let second = spill(&scene.store, "run", "second", b"payload");
    sweep_at(&scene.store, by_age(DAY), far);
    for name in [&first, &second] {
        assert!(matches!(read(&scene.store, name), Err(StoreError::Expired { .. })), "{name}");
    }

    let filler = "run/x.aaaaaaaaaaaaaaaaaaaaaaaaaa 1 age 1\n".repeat(30_000);
    let mut bytes = fs::read(&log).unwrap();
    bytes.extend_from_slice(filler.as_bytes());
    fs::write(&log, bytes).unwrap();
    let third = spill(&scene.store, "run", "third", b"payload");
    sweep_at(&scene.store, by_age(DAY), far);
    assert!(fs::metadata(&log).unwrap().len() < 600_000, "it was shortened");
    assert_not_found(read(&scene.store, &first));
    assert!(matches!(read(&scene.store, &third), Err(StoreError::Expired { .. })));

    fs::write(&log, b"\n\xff\0\nrun/").unwrap();
    assert_not_found(read(&scene.store, &third));
}

#[test]
fn writes_sweep_what_is_due_and_only_then() {
    let scene = Scene::new();
    let old = spill(&scene.store, "run", "old", b"payload");
    let stamp = scene.root().join(".swept");
    // Each a process of its own, as far as the store can tell.
    let spill_keeping = |retention| {
        let store = LocalStore::open(scene.root()).unwrap().with_retention(retention);
        spill(&store, "run", "new", b"payload");
        assert_eq!(block_on(store.sweep_warnings()), Vec::<String>::new());
    };
    spill_keeping(Retention::default());
    assert!(!stamp.exists(), "nothing to sweep for");

    spill_keeping(by_age(DAY));
    assert!(stamp.exists());
    backdate(&scene.path(&old), 2 * DAY);
    spill_keeping(by_age(DAY));
    assert_eq!(read(&scene.store, &old).unwrap(), "payload", "the last sweep was just now");

    // Long ago, or in a future that a wrong clock saw.
    backdate(&stamp, HOUR);
    spill_keeping(by_age(DAY));
    assert!(matches!(read(&scene.store, &old), Err(StoreError::Expired { .. })));
    assert!(stamp.metadata().unwrap().modified().unwrap().elapsed().unwrap() < HOUR / 2);

    spill(&scene.store, "run", "old", b"payload");
    backdate(&scene.path(&old), 2 * DAY);
    fs::File::open(&stamp).unwrap().set_modified(SystemTime::now() + 900 * DAY).unwrap();
    spill_keeping(by_age(DAY));
    assert!(matches!(read(&scene.store, &old), Err(StoreError::Expired { .. })));
}

#[test]
fn many_writes_of_one_process_look_once() {
    let scene = Scene::new();
    let store = scene.store.clone().with_retention(by_age(DAY));
    spill(&scene.store, "run", "0", b"payload");
    let stamp = scene.root().join(".swept");
    for n in 0..20 {
        spill(&store, "run", &n.to_string(), b"payload");
        block_on(store.sweep_warnings());
        if n == 0 {
            backdate(&stamp, HOUR);
        }
    }
    let age = stamp.metadata().unwrap().modified().unwrap().elapsed().unwrap();
    assert!(age > HOUR / 2, "not stamped again");
}

#[test]
fn a_lost_index_is_built_again() {
    let scene = Scene::new();
    let text = "line\n".repeat(100_000);
    let name = spill(&scene.store, "run", "call", text.as_bytes());
    let before = fs::read(scene.path(&index_of(&name))).unwrap();
    fs::remove_file(scene.path(&index_of(&name))).unwrap();
    let store: Arc<dyn Store> = Arc::new(scene.store.clone());
    let stored = block_on(Stored::open(&store, name.handle())).unwrap();
    assert_eq!(stored.index_health(), IndexHealth::Missing);
    assert_eq!(block_on(stored.reindex()).unwrap(), IndexHealth::Sound);
    let after = fs::read(scene.path(&index_of(&name))).unwrap();
    // All but the tool's name, which is written nowhere else.
    let rows = text.len() / 65_536 * 32;
    assert_eq!(after[..rows], before[..rows]);
}

#[test]
fn an_expiry_is_shown_as_people_write_it() {
    let expiry = Expiry { at: SystemTime::UNIX_EPOCH, cause: Cause::Age(90 * DAY) };
    assert_eq!(expiry.to_string(), "on 1970-01-01 at 00:00 UTC: it was older than 90d");
}
