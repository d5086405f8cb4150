//! What happens when others remove things from under the store.

use std::future::poll_fn;
use std::task::Poll;

use super::*;

#[test]
fn a_root_removed_while_writing_is_said_and_made_anew() {
    let scene = Scene::new();
    let name = payload("run", "call");
    let mut stage = block_on(scene.store.stage()).unwrap();
    fs::remove_dir_all(scene.root()).unwrap();
    block_on(stage.append(vec![b'x'; 300_000].into())).unwrap();
    let error = block_on(stage.commit(&name)).unwrap_err();
    let StoreError::Unavailable { doing, source } = error else { panic!("{error:?}") };
    assert_eq!(doing, "commit a blob");
    assert!(source.to_string().contains("was removed from the store's folder"), "{source}");
    assert!(!scene.root().exists(), "a write that failed makes nothing");

    assert_not_found(read(&scene.store, &name));
    assert_eq!(put(&scene.store, &name, b"payload").unwrap(), Commit::Created);
    assert_eq!(read(&scene.store, &name).unwrap(), "payload");
}

#[test]
fn a_root_replaced_while_writing_is_said() {
    let scene = Scene::new();
    let name = payload("run", "call");
    let stage = block_on(scene.store.stage()).unwrap();
    fs::rename(scene.root(), scene.folder.path().join("moved")).unwrap();
    put(&scene.store, &payload("run", "other"), b"payload").unwrap();
    let error = block_on(stage.commit(&name)).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert_not_found(read(&scene.store, &name));
}

#[test]
fn a_run_removed_while_writing_is_made_anew() {
    let scene = Scene::new();
    let (first, second) = (payload("run", "first"), payload("run", "second"));
    put(&scene.store, &first, b"payload").unwrap();
    let stage = block_on(scene.store.stage()).unwrap();
    block_on(scene.store.delete(first.handle())).unwrap();
    assert!(!scene.root().join("run").exists(), "a deletion takes the emptied run");
    assert_eq!(block_on(stage.commit(&second)).unwrap(), Commit::Created);
}

#[test]
fn a_stage_takes_its_file_with_it() {
    let scene = Scene::new();
    let mut stage = block_on(scene.store.stage()).unwrap();
    block_on(stage.append(vec![b'x'; 300_000].into())).unwrap();
    assert_eq!(scene.staged_files(), 1);
    drop(stage);
    assert_eq!(scene.staged_files(), 0);

    for _ in 0..2 {
        put(&scene.store, &payload("run", "call"), b"payload").unwrap();
        assert_eq!(scene.staged_files(), 0, "created or existed");
    }
}

#[test]
fn a_stage_whose_append_was_abandoned_cannot_be_committed() {
    let scene = Scene::new();
    let name = payload("run", "call");
    // On a busy machine a write may be done before it can be abandoned; then another is begun.
    let mut stage = loop {
        let mut stage = block_on(scene.store.stage()).unwrap();
        let mut append = stage.append(vec![b'x'; 3_000_000].into());
        let begun = block_on(poll_fn(|context| Poll::Ready(append.as_mut().poll(context))));
        drop(append);
        if begun.is_pending() {
            break stage;
        }
    };
    let error = block_on(stage.append("more".into())).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    let error = block_on(stage.commit(&name)).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert_not_found(read(&scene.store, &name));
}
