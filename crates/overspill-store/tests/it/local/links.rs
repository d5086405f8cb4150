//! What lies in the root and is not the store's: nothing is read or written through it.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use rustix::fs::{CWD, Mode, mkfifoat};

use super::*;

/// A scene with a folder outside the root, whose one file must stay as it is.
struct Outside {
    scene: Scene,
    folder: PathBuf,
}

impl Outside {
    fn new() -> Self {
        let scene = Scene::new();
        put(&scene.store, &payload("neighbour", "call"), b"payload").unwrap();
        let folder = scene.folder.path().join("outside");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("secret"), "secret").unwrap();
        backdate(&folder.join("secret"), Duration::from_secs(1_000_000));
        Self { scene, folder }
    }

    fn assert_untouched(&self) {
        let names: Vec<_> =
            fs::read_dir(&self.folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["secret"]);
        assert_eq!(fs::read_to_string(self.folder.join("secret")).unwrap(), "secret");
        let age = self.folder.join("secret").metadata().unwrap().modified().unwrap().elapsed();
        assert!(age.unwrap() > Duration::from_secs(999_999), "its age is not renewed");
        assert_eq!(handles(&self.scene.store), [payload("neighbour", "call").handle().clone()]);
        assert_eq!(self.scene.staged_files(), 0);
    }
}

#[test]
fn a_link_as_run_folder_is_refused() {
    let name = payload("run", "call");
    for target in ["../outside", "../nowhere", ".", "neighbour", "/"] {
        let outside = Outside::new();
        let store = &outside.scene.store;
        symlink(target, outside.scene.root().join("run")).unwrap();
        assert_refused(put(store, &name, b"payload"), "run in its folder is no folder");
        assert_refused(put(store, &index_of(&name), b"index"), "run in its folder is no folder");
        assert_refused(read(store, &name), "run in its folder is no folder");
        assert_refused(block_on(store.stat(&name)), "run in its folder is no folder");
        assert_refused(block_on(store.delete(name.handle())), "run in its folder is no folder");
        assert_eq!(block_on(store.list(Some("run"))).unwrap(), []);
        assert_eq!(clean(store), 0);
        assert!(outside.scene.root().join("run").is_symlink());
        assert!(!outside.scene.folder.path().join("nowhere").exists());
        outside.assert_untouched();
    }
}

#[test]
fn a_link_as_a_blob_is_refused() {
    let payload = payload("run", "call");
    for name in [payload.clone(), index_of(&payload)] {
        for target in ["../../outside/secret", "../../outside", "../../outside/new", "/dev/null"] {
            let outside = Outside::new();
            let store = &outside.scene.store;
            fs::create_dir(outside.scene.root().join("run")).unwrap();
            symlink(target, outside.scene.path(&name)).unwrap();
            assert_refused(put(store, &name, b"bytes"), "is no file");
            assert_refused(read(store, &name), "is no file");
            assert_refused(block_on(store.stat(&name)), "is no file");
            outside.assert_untouched();

            let seen = block_on(store.list(Some("neighbour"))).unwrap()[0].1.clone();
            if name == payload {
                let gone = block_on(store.delete_unchanged(payload.handle(), &seen));
                assert_refused(gone, "is no file");
            }
            block_on(store.delete(payload.handle())).unwrap();
            assert!(!outside.scene.path(&name).is_symlink(), "a deletion takes the link");
            outside.assert_untouched();
        }
    }
}

#[test]
fn a_link_as_staging_folder_is_refused() {
    for target in ["../outside", "../nowhere", "neighbour"] {
        let outside = Outside::new();
        let store = &outside.scene.store;
        let staging = outside.scene.root().join(".staging");
        fs::remove_dir(&staging).unwrap();
        symlink(target, &staging).unwrap();
        assert_refused(put(store, &payload("run", "call"), b"payload"), "is no folder");
        assert_refused(block_on(store.clean_leftovers()), "is no folder");
        fs::remove_file(&staging).unwrap();
        assert!(!outside.scene.folder.path().join("nowhere").exists());
        outside.assert_untouched();
    }
}

#[test]
fn a_staging_folder_swapped_for_a_link_while_writing_is_refused() {
    let outside = Outside::new();
    let staging = outside.scene.root().join(".staging");
    let stage = block_on(outside.scene.store.stage()).unwrap();
    fs::rename(&staging, outside.scene.folder.path().join("moved")).unwrap();
    symlink("../outside", &staging).unwrap();
    assert_refused(block_on(stage.commit(&payload("run", "call"))), "is no folder");
    fs::remove_file(&staging).unwrap();
    outside.assert_untouched();
}

#[test]
fn what_is_no_file_is_refused_without_waiting_for_it() {
    let name = payload("run", "call");
    let plant: [fn(&Path); 3] = [
        |path| mkfifoat(CWD, path, Mode::RWXU).unwrap(),
        |path| fs::create_dir(path).unwrap(),
        |path| {
            // The path of a socket may have about a hundred bytes, so it is bound and moved.
            let short = tempfile::tempdir().unwrap();
            drop(UnixListener::bind(short.path().join("s")).unwrap());
            fs::rename(short.path().join("s"), path).unwrap();
        },
    ];
    for plant in plant {
        let outside = Outside::new();
        let store = &outside.scene.store;
        fs::create_dir(outside.scene.root().join("run")).unwrap();
        plant(&outside.scene.path(&name));
        plant(&outside.scene.root().join(".staging/odd"));
        assert_refused(put(store, &name, b"payload"), "is no file");
        assert_refused(read(store, &name), "is no file");
        assert_refused(block_on(store.stat(&name)), "is no file");
        assert_eq!(clean(store), 0);
        assert_eq!(outside.scene.staged_files(), 1, "what is no leftover stays");
        let odd = outside.scene.root().join(".staging/odd");
        if odd.is_dir() { fs::remove_dir(odd) } else { fs::remove_file(odd) }.unwrap();
        outside.assert_untouched();
    }
}

#[test]
fn strangers_in_the_root_are_left_alone() {
    use std::os::unix::ffi::OsStrExt;

    let scene = Scene::new();
    let name = payload("run", "call");
    put(&scene.store, &name, b"payload").unwrap();
    let odd_name = std::ffi::OsStr::from_bytes(b"odd\xff");
    for path in [
        scene.root().join("notes.txt"),
        scene.root().join("run/notes.txt"),
        scene.root().join("run/.idx"),
        scene.root().join("run/notes.idx"),
        scene.root().join(odd_name),
        scene.root().join("run").join(odd_name),
        scene.root().join("a run/call"),
        scene.root().join("empty folder/deeper/file"),
    ] {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "a stranger's").unwrap();
        backdate(&path, Duration::from_secs(1_000_000));
    }
    fs::create_dir(scene.root().join("empty stranger")).unwrap();

    assert_eq!(handles(&scene.store), [name.handle().clone()]);
    assert_eq!(clean(&scene.store), 0);
    block_on(scene.store.delete(name.handle())).unwrap();
    assert!(scene.root().join("run/notes.idx").exists());
    assert!(scene.root().join("empty stranger").exists());
}
