//! Which files in the root are a crashed writer's, and which a living one's.

use super::*;

const LONG_AGO: Duration = Duration::from_secs(7_200);

#[test]
fn the_stage_of_another_living_process_is_left_alone() {
    let scene = Scene::new();
    let mut holder = child::start("hold-a-stage", &scene.root());
    holder.wait_for("staged");
    assert_eq!(clean(&scene.store), 0);
    assert_eq!(scene.staged_files(), 1);

    holder.go_on();
    holder.finish();
    assert_eq!(read(&scene.store, &payload("run", "call")).unwrap().len(), 300_000);
    assert_eq!(scene.staged_files(), 0);
}

pub(super) fn hold_a_stage(root: &Path) {
    let store = LocalStore::open(root).unwrap();
    block_on(async {
        let mut stage = store.stage().await.unwrap();
        stage.append(vec![b'x'; 300_000].into()).await.unwrap();
        child::say("staged", "");
        child::pause();
        stage.commit(&payload("run", "call")).await.unwrap();
    });
}

#[test]
fn the_stage_of_this_process_is_left_alone() {
    let scene = Scene::new();
    let stage = block_on(scene.store.stage()).unwrap();
    assert_eq!(clean(&scene.store), 0);
    block_on(stage.commit(&payload("run", "call"))).unwrap();
}

#[test]
fn a_crash_between_name_and_cleaning_costs_no_payload() {
    let scene = Scene::new();
    let name = payload("run", "call");
    put(&scene.store, &name, b"payload").unwrap();
    fs::hard_link(scene.path(&name), scene.root().join(".staging/1-a")).unwrap();
    assert_eq!(clean(&scene.store), 1);
    assert_eq!(read(&scene.store, &name).unwrap(), "payload");
}

#[test]
fn an_index_whose_payload_never_came_is_a_leftover_once_it_is_old() {
    let scene = Scene::new();
    let (alone, paired) = (payload("run", "alone"), payload("run", "paired"));
    put(&scene.store, &index_of(&alone), b"index").unwrap();
    put(&scene.store, &index_of(&paired), b"index").unwrap();
    put(&scene.store, &paired, b"payload").unwrap();
    assert_eq!(clean(&scene.store), 0, "its payload may be on its way");

    backdate(&scene.path(&index_of(&alone)), LONG_AGO);
    backdate(&scene.path(&index_of(&paired)), LONG_AGO);
    assert_eq!(clean(&scene.store), 1);
    assert_not_found(read(&scene.store, &index_of(&alone)));
    assert_eq!(read(&scene.store, &index_of(&paired)).unwrap(), "index");
}

#[test]
fn a_run_left_empty_goes_with_its_last_leftover() {
    let scene = Scene::new();
    let alone = index_of(&payload("run", "alone"));
    put(&scene.store, &alone, b"index").unwrap();
    backdate(&scene.path(&alone), LONG_AGO);
    assert_eq!(clean(&scene.store), 1);
    assert!(!scene.root().join("run").exists());
}

#[test]
fn an_index_of_the_future_waits() {
    let scene = Scene::new();
    let alone = index_of(&payload("run", "alone"));
    put(&scene.store, &alone, b"index").unwrap();
    let tomorrow = SystemTime::now() + Duration::from_secs(86_400);
    fs::File::open(scene.path(&alone)).unwrap().set_modified(tomorrow).unwrap();
    assert_eq!(clean(&scene.store), 0);
}
