//! What a writer leaves that is killed without a chance to clean up.

use super::*;

#[test]
fn a_write_killed_midway_leaves_nothing_readable_and_is_cleaned() {
    let scene = Scene::new();
    let mut writer = child::start("write-without-end", &scene.root());
    writer.wait_for("written");
    assert_eq!(scene.staged_files(), 1);
    writer.kill();

    assert_not_found(read(&scene.store, &payload("run", "call")));
    assert_eq!(handles(&scene.store), []);
    assert_eq!(scene.staged_files(), 1, "the leftover");
    assert_eq!(clean(&scene.store), 1);
    assert_eq!(scene.staged_files(), 0);
    assert_eq!(clean(&scene.store), 0);
    assert_eq!(put(&scene.store, &payload("run", "call"), b"payload").unwrap(), Commit::Created);
}

pub(super) fn write_without_end(root: &Path) {
    let store = LocalStore::open(root).unwrap();
    block_on(async {
        let mut stage = store.stage().await.unwrap();
        let piece = Bytes::from(vec![b'x'; 300_000]);
        // Bounded, should nobody kill it.
        for _ in 0..500 {
            stage.append(piece.clone()).await.unwrap();
            child::say("written", piece.len());
        }
        child::pause();
    });
}

#[test]
fn spills_killed_anywhere_are_whole_or_absent() {
    let scene = Scene::new();
    let mut reported = Vec::new();
    for spills in 0..12 {
        let mut writer = child::start("spill-without-end", &scene.root());
        reported.extend((0..=spills).map(|_| writer.wait_for("spilled")));
        let rest = writer.kill();
        // The last line may be torn.
        let whole = rest.rsplit_once('\n').map_or("", |(whole, _)| whole);
        reported.extend(
            whole.lines().filter_map(|line| Some(line.strip_prefix("spilled ")?.to_owned())),
        );
    }
    let found = handles(&scene.store);
    for handle in &found {
        let name = BlobName::Payload(handle.clone());
        let bytes = read(&scene.store, &name).unwrap();
        assert!(handle.names(&Digest::of(&bytes)), "{handle} is whole");
        assert_eq!(read(&scene.store, &index_of(&name)).unwrap(), handle.as_str().as_bytes());
    }
    for handle in reported {
        assert!(found.contains(&handle.parse().unwrap()), "{handle} was committed and is there");
    }
    assert!(clean(&scene.store) <= 12, "each leaves one at most");
    assert_eq!(scene.staged_files(), 0);
    assert_eq!(handles(&scene.store), found, "cleaning takes no payload");
}

pub(super) fn spill_without_end(root: &Path) {
    let store = LocalStore::open(root).unwrap();
    for n in 0..10_000 {
        let bytes = format!("{} {n};", std::process::id()).repeat(1 + n * 1_000 % 30_000);
        let call = ToolCall::new("run", n.to_string(), "tool");
        let handle = Handle::new(&call, PartName::Value(0), &Digest::of(bytes.as_bytes()));
        put(&store, &BlobName::Index(handle.clone()), handle.as_str().as_bytes()).unwrap();
        put(&store, &BlobName::Payload(handle.clone()), bytes.as_bytes()).unwrap();
        child::say("spilled", handle);
    }
}
