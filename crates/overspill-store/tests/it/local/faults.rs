//! Faults of the disk, the clock and other processes: nothing is lost, nothing is half readable,
//! and nothing panics.

use std::process::Command;
use std::sync::Arc;
use std::thread;

use overspill::store::{Retention, Stored, deposit};

use super::retention::{DAY, HOUR, by_age, sweep_at};
use super::*;

/// Mounts a small file system on `root`, which only this process sees.
fn mount(root: &Path, options: &str) {
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(root);
    assert!(mount.status().unwrap().success(), "mounts");
}

/// A deposit as the library makes one.
fn spill(store: &LocalStore, call: &str, bytes: Bytes) -> Result<Handle, StoreError> {
    let store: Arc<dyn Store> = Arc::new(store.clone());
    let call = ToolCall::new("run", call, "tool");
    let deposit = deposit(&store, &call, PartName::Value(0), "text/plain", bytes);
    block_on(deposit).map(|receipt| receipt.handle)
}

/// Reads a payload as the library does, and checks that it is the one its handle names.
fn read_whole(store: &LocalStore, handle: &Handle) -> Result<(), StoreError> {
    let store: Arc<dyn Store> = Arc::new(store.clone());
    block_on(async {
        let stored = Stored::open(&store, handle).await?;
        let bytes = stored.bytes(0..u64::MAX).await?;
        assert!(handle.names(&Digest::of(&bytes)), "{handle} is whole, and no other");
        Ok(())
    })
}

#[test]
fn a_full_disk_loses_nothing_and_mends() {
    let folder = tempfile::tempdir().unwrap();
    child::run_with_own_mounts("full-disk", &folder.path().join("mounted"));
}

pub(super) fn full_disk(mounted: &Path) {
    mount(mounted, "size=1m,mode=700");
    let root = mounted.join("root");
    let store = LocalStore::open(&root).unwrap();
    let mut stored = Vec::new();
    // Payloads that are held back in memory, and payloads that are written at once.
    for len in [200_000, 20_000] {
        let error = (0..100)
            .find_map(|n| {
                let mut bytes = vec![b'x'; len];
                bytes.extend_from_slice(format!("{n}\n").as_bytes());
                match spill(&store, &format!("{len}-{n}"), bytes.into()) {
                    Ok(handle) => {
                        stored.push(handle);
                        None
                    }
                    Err(error) => Some(error),
                }
            })
            .expect("the disk is full at last");
        assert!(matches!(error, StoreError::Full(_)), "{error:?}");
    }
    assert_eq!(fs::read_dir(root.join(".staging")).unwrap().count(), 0, "nothing half written");
    stored.sort();
    assert_eq!(handles(&store), stored, "nothing else has a name");
    for handle in &stored {
        read_whole(&store, handle).unwrap();
    }

    // With not a byte left, writing down what expired cannot work; sweeping must.
    let mut filler = fs::File::create(mounted.join("filler")).unwrap();
    while std::io::Write::write(&mut filler, &[0; 512]).is_ok() {}
    backdate(&root.join(stored[0].as_str()), 2 * DAY);
    let swept = sweep_at(&store, by_age(DAY), SystemTime::now());
    assert_eq!(swept.expired.len(), 1);
    assert!(says_gone(&read_whole(&store, &stored[0])));

    // A write that finds the disk full starts the sweep that makes room.
    for handle in &stored[1..] {
        backdate(&root.join(handle.as_str()), 2 * DAY);
    }
    while std::io::Write::write(&mut filler, &[0; 512]).is_ok() {}
    let store = store.with_retention(by_age(DAY));
    let first = spill(&store, "first", vec![b'y'; 300_000].into());
    assert!(matches!(first, Ok(_) | Err(StoreError::Full(_))), "{first:?}");
    block_on(store.sweep_warnings());
    let handle = spill(&store, "again", vec![b'y'; 300_000].into()).unwrap();
    read_whole(&store, &handle).unwrap();
}

#[test]
fn a_read_only_disk_is_read_and_refuses_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    child::run_with_own_mounts("read-only", &folder.path().join("mounted"));
}

pub(super) fn read_only(mounted: &Path) {
    mount(mounted, "size=1m,mode=700");
    let store = LocalStore::open(mounted.join("root")).unwrap().with_retention(by_age(DAY));
    let handle = spill(&store, "call", "payload".into()).unwrap();
    backdate(&mounted.join("root").join(handle.as_str()), 2 * DAY);
    let remount = Command::new("mount").args(["-o", "remount,ro"]).arg(mounted).status().unwrap();
    assert!(remount.success());

    for call in ["call", "other"] {
        assert_refused(spill(&store, call, "payload".into()), "on a read-only file system");
    }
    read_whole(&store, &handle).unwrap();
    let swept = sweep_at(&store, by_age(DAY), SystemTime::now());
    assert_eq!((swept.expired.len(), swept.kept.len()), (0, 1), "nothing went");
    assert!(swept.warnings[0].contains("cannot sweep run: "), "{:?}", swept.warnings);
    assert!(swept.warnings[0].contains("on a read-only file system"), "{:?}", swept.warnings);
    read_whole(&store, &handle).unwrap();
    assert_refused(block_on(store.lease(&"run".into(), HOUR)), "on a read-only file system");
}

#[test]
fn a_sweep_without_permission_only_warns() {
    let folder = tempfile::tempdir().unwrap();
    child::run_unprivileged("sweep-without-permission", &folder.path().join("root"));
}

pub(super) fn sweep_without_permission(root: &Path) {
    let store = LocalStore::open(root).unwrap();
    let (locked, open) = (payload("locked", "call"), payload("open", "call"));
    let hidden = payload("hidden", "call");
    for name in [&locked, &open, &hidden] {
        put(&store, name, b"payload").unwrap();
        backdate(&root.join(name.to_string()), 2 * DAY);
    }
    chmod(&root.join("locked"), 0o500);
    chmod(&root.join("hidden"), 0o000);
    // By itself, beside a write, which must not learn of it.
    let writer = store.clone().with_retention(by_age(DAY));
    put(&writer, &payload("new", "call"), b"payload").unwrap();
    let warnings = block_on(writer.sweep_warnings());
    let says = |what: &str| warnings.iter().any(|warning| warning.contains(what));
    assert!(says("cannot look into hidden: ") && says("cannot sweep locked: "), "{warnings:?}");
    assert_eq!(block_on(writer.sweep_warnings()), Vec::<String>::new(), "said once");
    assert!(says_gone(&read(&store, &open)), "the others are swept");
    assert_eq!(read(&store, &locked).unwrap(), "payload");
    chmod(&root.join("hidden"), 0o700);
    chmod(&root.join("locked"), 0o700);
    assert_eq!(read(&store, &hidden).unwrap(), "payload");
    assert_eq!(sweep_at(&store, by_age(DAY), SystemTime::now()).expired.len(), 2);
}

#[test]
fn a_root_removed_while_sweeping_is_no_error() {
    let scene = Scene::new();
    let name = payload("run", "call");
    put(&scene.store, &name, b"payload").unwrap();
    let at = SystemTime::now() + 2 * DAY;
    let plan = block_on(scene.store.plan_sweep(by_age(DAY), at)).unwrap();
    fs::remove_dir_all(scene.root().join("run")).unwrap();
    let swept = block_on(scene.store.carry_out(plan.clone(), |_| {})).unwrap();
    assert_eq!((swept.expired.len(), swept.kept.len()), (0, 0), "it went by another hand");
    fs::remove_dir_all(scene.root()).unwrap();
    block_on(scene.store.carry_out(plan, |_| {})).unwrap();
    assert!(!scene.root().exists(), "a sweep makes nothing");
    assert_not_found(read(&scene.store, &name));
    assert_eq!(block_on(scene.store.plan_sweep(by_age(DAY), at)).unwrap().kept, []);
    assert_eq!(put(&scene.store, &name, b"payload").unwrap(), Commit::Created);
}

#[test]
fn links_in_the_place_of_the_sweepers_own_files_are_refused() {
    for file in [".expired", ".swept", ".leases", ".leases/run"] {
        let scene = Scene::new();
        let outside = scene.folder.path().join("outside");
        fs::write(&outside, "secret").unwrap();
        backdate(&outside, 3 * DAY);
        let name = payload("run", "call");
        put(&scene.store, &name, b"payload").unwrap();
        backdate(&scene.path(&name), 2 * DAY);
        let path = scene.root().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&outside, path).unwrap();

        let _ = block_on(scene.store.lease(&"run".into(), HOUR));
        let store = scene.store.clone().with_retention(by_age(DAY));
        put(&store, &payload("run", "other"), b"payload").unwrap();
        block_on(store.sweep_warnings());
        let _ = read(&scene.store, &name);
        assert_eq!(fs::read_to_string(&outside).unwrap(), "secret", "{file}");
        let age = outside.metadata().unwrap().modified().unwrap().elapsed().unwrap();
        assert!(age > 2 * DAY, "{file}: its age is not renewed");
    }
}

#[test]
fn a_kill_in_the_middle_of_200_mb_leaves_nothing_readable() {
    let scene = Scene::new();
    let mut live = block_on(scene.store.stage()).unwrap();
    block_on(live.append(vec![b'x'; 300_000].into())).unwrap();

    let mut writer = child::start("write-200-mb", &scene.root());
    writer.wait_for("half");
    writer.kill();
    assert_eq!(scene.staged_files(), 2, "the torn one and the live one");
    assert_eq!(handles(&scene.store), [], "nothing of it can be read");
    let swept = sweep_at(&scene.store, Retention::default(), SystemTime::now());
    assert_eq!(swept.leftovers, 1);
    assert_eq!(scene.staged_files(), 1, "the live one");

    let name = payload("run", "live");
    block_on(live.commit(&name)).unwrap();
    assert_eq!(read(&scene.store, &name).unwrap().len(), 300_000);
}

pub(super) fn write_200_mb(root: &Path) {
    let store = LocalStore::open(root).unwrap();
    block_on(async {
        let mut stage = store.stage().await.unwrap();
        let piece = Bytes::from(vec![b'x'; 1_000_000]);
        for n in 0..200 {
            if n == 100 {
                child::say("half", "");
            }
            stage.append(piece.clone()).await.unwrap();
        }
        // It is never to come to a commit, however slow the killer.
        child::pause();
        drop(stage);
    });
}

/// Rounds of each process in the test below.
const ROUNDS: usize = 150;

/// Payloads that the writers write over and over.
const PAYLOADS: usize = 20;

#[test]
fn writers_sweepers_and_readers_never_see_half_a_payload() {
    let scene = Scene::new();
    let mut writers =
        ["a", "b"].map(|id| child::start(&format!("write-receipts {id}"), &scene.root()));
    let mut sweepers = [
        child::start("sweep-by-turns 1", &scene.root()),
        child::start("sweep-by-turns 2", &scene.root()),
        child::start("delete-by-age", &scene.root()),
    ];
    // All are up before any begins.
    for process in writers.iter_mut().chain(&mut sweepers) {
        process.wait_for("ready");
    }
    for process in writers.iter_mut().chain(&mut sweepers) {
        process.go_on();
    }
    let (mut whole, mut gone) = (0, 0);
    thread::scope(|scope| {
        let readers: Vec<_> = writers
            .iter_mut()
            .map(|writer| {
                scope.spawn(|| {
                    let (mut whole, mut gone) = (0, 0);
                    for _ in 0..ROUNDS {
                        let handle: Handle = writer.wait_for("receipt").parse().unwrap();
                        match read_whole(&scene.store, &handle) {
                            Ok(()) => whole += 1,
                            result if says_gone(&result) => gone += 1,
                            other => panic!("{handle}: {other:?}"),
                        }
                    }
                    (whole, gone)
                })
            })
            .collect();
        for reader in readers {
            let (read, missed) = reader.join().unwrap();
            (whole, gone) = (whole + read, gone + missed);
        }
    });
    for process in writers.into_iter().chain(sweepers) {
        process.finish();
    }
    println!("{whole} read back whole, {gone} as expired");
    assert_eq!(whole + gone, 2 * ROUNDS);
    for handle in handles(&scene.store) {
        read_whole(&scene.store, &handle).unwrap();
    }
    assert_eq!(scene.staged_files(), 0);
    sweep_at(&scene.store, by_age(DAY), SystemTime::now() + 2 * DAY);
    assert_eq!(handles(&scene.store), []);
}

/// Spills few payloads over and over, half of which another process spills too.
pub(super) fn write_receipts(root: &Path, id: &str) {
    let store = LocalStore::open(root).unwrap().with_retention(by_age(HOUR));
    child::say("ready", "");
    child::pause();
    for n in 0..ROUNDS {
        let k = n % PAYLOADS;
        let text =
            format!("{k} {};", if k.is_multiple_of(2) { "both" } else { id }).repeat(1 + k * 2_000);
        let handle = loop {
            // Where the payload is there already, it is compared with what was written; deleted by a
            // stranger right then, it gets no receipt.
            match spill(&store, &k.to_string(), text.clone().into()) {
                gone if says_gone(&gone) => {}
                handle => break handle.unwrap(),
            }
        };
        child::say("receipt", handle);
    }
}

/// Sweeps what is older than an hour, every other time as if it were tomorrow.
pub(super) fn sweep_by_turns(root: &Path, turn: &str) {
    let store = LocalStore::open(root).unwrap();
    let turn: usize = turn.parse().unwrap();
    child::say("ready", "");
    child::pause();
    for n in 0..ROUNDS {
        let tomorrow = if (n + turn).is_multiple_of(2) { DAY } else { Duration::ZERO };
        sweep_at(&store, by_age(HOUR), SystemTime::now() + tomorrow);
    }
}

/// Deletes files by their age without a word to anybody, after it has made some old.
pub(super) fn delete_by_age(root: &Path) {
    child::say("ready", "");
    child::pause();
    for n in 0..ROUNDS {
        for (k, entry) in fs::read_dir(root.join("run")).into_iter().flatten().flatten().enumerate()
        {
            let Ok(file) = fs::File::open(entry.path()) else { continue };
            if (n + k) % 7 == 0 {
                file.set_modified(SystemTime::now() - 2 * DAY).unwrap();
            } else if file
                .metadata()
                .unwrap()
                .modified()
                .unwrap()
                .elapsed()
                .is_ok_and(|age| age > DAY)
            {
                let _ = fs::remove_file(entry.path());
            }
        }
        let _ = fs::remove_dir(root.join("run"));
    }
}

#[test]
fn a_clock_that_jumps_loses_nothing_that_was_just_stored() {
    let scene = Scene::new();
    let (future, past) = (payload("run", "future"), payload("run", "past"));
    put(&scene.store, &future, b"payload").unwrap();
    put(&scene.store, &past, b"payload").unwrap();
    let decades = 9_000 * DAY;
    let set =
        |name: &BlobName, at| fs::File::open(scene.path(name)).unwrap().set_modified(at).unwrap();
    set(&future, SystemTime::now() + decades);

    // The clock is back: what was stored in its future is as new.
    let all = Retention { max_age: Some(DAY), max_bytes: Some(0) };
    let swept = sweep_at(&scene.store, all, SystemTime::now());
    assert_eq!((swept.expired.len(), swept.kept.len()), (0, 2));
    // At the beginning of time, all is in the future.
    let swept = sweep_at(&scene.store, all, SystemTime::UNIX_EPOCH);
    assert_eq!((swept.expired.len(), swept.kept.len()), (0, 2));
    // Stored again, it is of the present.
    put(&scene.store, &future, b"payload").unwrap();
    let stat = block_on(scene.store.stat(&future)).unwrap();
    assert!(stat.modified <= SystemTime::now());
    // A lease whose end a wrong clock put off protects; it harms nothing.
    block_on(scene.store.lease(&"run".into(), decades)).unwrap();
    assert_eq!(sweep_at(&scene.store, all, SystemTime::now() + 2 * DAY).expired, []);
    assert_eq!(read(&scene.store, &past).unwrap(), "payload");
}

fn says_gone<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::NotFound { .. } | StoreError::Expired { .. }))
}
