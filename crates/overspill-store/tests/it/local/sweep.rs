//! Sweeping while others write.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::*;

const LONG_AGO: Duration = Duration::from_secs(1_000_000);

#[test]
fn a_second_commit_starts_the_age_anew() {
    let scene = Scene::new();
    let name = payload("run", "call");
    for renewing in [name.clone(), index_of(&name)] {
        put(&scene.store, &index_of(&name), b"index").unwrap();
        put(&scene.store, &name, b"payload").unwrap();
        backdate(&scene.path(&name), LONG_AGO);
        let seen = block_on(scene.store.stat(&name)).unwrap();
        assert!(seen.modified.elapsed().unwrap() > LONG_AGO / 2);

        assert_eq!(put(&scene.store, &renewing, b"others").unwrap(), Commit::Existed);
        let renewed = block_on(scene.store.stat(&name)).unwrap();
        assert!(renewed.modified.elapsed().unwrap() < LONG_AGO / 2, "{renewing}");
        assert!(!block_on(scene.store.delete_unchanged(name.handle(), &seen)).unwrap());
        assert_eq!(read(&scene.store, &name).unwrap(), "payload");
        assert_eq!(read(&scene.store, &index_of(&name)).unwrap(), "index");
        assert!(block_on(scene.store.delete_unchanged(name.handle(), &renewed)).unwrap());
        assert_not_found(read(&scene.store, &name));
    }
}

#[test]
fn the_age_of_a_blob_starts_with_its_commit() {
    let scene = Scene::new();
    let name = payload("run", "call");
    let mut stage = block_on(scene.store.stage()).unwrap();
    block_on(stage.append(vec![b'x'; 300_000].into())).unwrap();
    let staged = fs::read_dir(scene.root().join(".staging")).unwrap().next().unwrap().unwrap();
    backdate(&staged.path(), LONG_AGO);
    block_on(stage.commit(&name)).unwrap();
    let stat = block_on(scene.store.stat(&name)).unwrap();
    assert!(stat.modified.elapsed().unwrap() < LONG_AGO / 2);
}

/// A commit that has returned promises the payload, however many sweep at that moment what was
/// old before.
#[test]
fn a_sweep_never_takes_what_was_just_committed() {
    let scene = Scene::new();
    let names: Vec<BlobName> = (0..100).map(|n| payload("run", &n.to_string())).collect();
    for round in 0..3 {
        for name in &names {
            put(&scene.store, &index_of(name), b"index").unwrap();
            put(&scene.store, name, b"payload").unwrap();
            backdate(&scene.path(name), LONG_AGO);
        }
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| sweep(&scene.store));
            }
            scope.spawn(|| {
                for name in &names {
                    put(&scene.store, &index_of(name), b"index").unwrap();
                    put(&scene.store, name, b"payload").unwrap();
                    assert_eq!(read(&scene.store, name).unwrap(), "payload", "round {round}");
                    assert_eq!(read(&scene.store, &index_of(name)).unwrap(), "index");
                }
            });
        });
        sweep(&scene.store);
        assert_eq!(handles(&scene.store).len(), names.len());
    }
}

/// Deletes what is old, as a sweep by age does.
fn sweep(store: &LocalStore) {
    for (handle, stat) in block_on(store.list(None)).unwrap() {
        if stat.modified.elapsed().is_ok_and(|age| age > LONG_AGO / 2) {
            block_on(store.delete_unchanged(&handle, &stat)).unwrap();
        }
    }
}

/// A sweeper that knows nothing of the store deletes files and folders by age alone. Then a
/// commit can come too late, but it must not fail, nor say `Existed` of what is gone. It goes round
/// a few times for each commit, for nothing can be written while all is deleted all the time.
#[test]
fn commits_hold_their_own_against_a_foreign_sweeper() {
    let scene = Scene::new();
    const ROUNDS: usize = 32;
    let names: Vec<BlobName> = (0..100).map(|n| payload("run", &n.to_string())).collect();
    let rounds_due = AtomicUsize::new(0);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for name in &names {
                rounds_due.store(ROUNDS, Ordering::Relaxed);
                put(&scene.store, name, b"payload").unwrap();
            }
        });
        while !writer.is_finished() {
            let due = |rounds: usize| rounds.checked_sub(1);
            let Ok(round) = rounds_due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, due)
            else {
                thread::yield_now();
                continue;
            };
            for entry in fs::read_dir(scene.root().join("run")).into_iter().flatten().flatten() {
                let _ = fs::remove_file(entry.path());
            }
            if round % 16 == 0 {
                let _ = fs::remove_dir(scene.root().join("run"));
                let _ = fs::remove_dir(scene.root().join(".staging"));
            }
        }
    });
    assert_eq!(scene.staged_files(), 0);
}
