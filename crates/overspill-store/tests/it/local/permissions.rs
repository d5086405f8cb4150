//! Who may read and write the root.

use std::os::unix::fs::{MetadataExt, chown, symlink};

use super::*;

#[test]
fn all_is_private_whatever_the_umask() {
    for umask in ["000", "022", "077"] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("missing/parents/root");
        child::start(&format!("spill-under-umask {umask}"), &root).finish();
    }
    // A mask that takes from the owner, whom permissions bind.
    let folder = tempfile::tempdir().unwrap();
    child::run_unprivileged("spill-under-umask 277", &folder.path().join("root"));
}

pub(super) fn spill_under_umask(root: &Path, umask: &str) {
    let umask = u32::from_str_radix(umask, 8).unwrap();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(umask));
    let store = LocalStore::open(root).unwrap();
    let name = payload("run", "call");
    put(&store, &index_of(&name), b"index").unwrap();
    put(&store, &name, b"payload").unwrap();
    let _live = block_on(store.stage()).unwrap();

    let mut folders = vec![root.to_owned()];
    let (mut folder_count, mut file_count) = (0, 0);
    while let Some(folder) = folders.pop() {
        folder_count += 1;
        assert_eq!(folder.metadata().unwrap().mode() & 0o7777, 0o700, "{}", folder.display());
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                file_count += 1;
                assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o600, "{}", path.display());
            }
        }
    }
    assert_eq!((folder_count, file_count), (3, 3), "root, run, staging; payload, index, staged");
}

#[test]
fn opening_a_store_to_read_makes_nothing() {
    let scene = Scene::new();
    assert_not_found(read(&scene.store, &payload("run", "call")));
    assert_eq!(handles(&scene.store), []);
    assert_eq!(clean(&scene.store), 0);
    block_on(scene.store.delete(payload("run", "call").handle())).unwrap();
    assert!(!scene.root().exists());
}

#[test]
fn a_root_open_to_others_is_refused() {
    for mode in [0o750, 0o740, 0o710, 0o707, 0o701, 0o777, 0o1777] {
        let scene = Scene::new();
        fs::create_dir(scene.root()).unwrap();
        chmod(&scene.root(), mode);
        assert_refused(LocalStore::open(scene.root()), "chmod 700");
        assert_refused(put(&scene.store, &payload("run", "call"), b"payload"), "chmod 700");
        assert_refused(read(&scene.store, &payload("run", "call")), "chmod 700");
        assert_refused(block_on(scene.store.list(None)), "chmod 700");
        assert_eq!(fs::read_dir(scene.root()).unwrap().count(), 0);

        chmod(&scene.root(), 0o700);
        put(&scene.store, &payload("run", "call"), b"payload").unwrap();
    }
}

#[test]
fn a_root_laid_open_meanwhile_is_refused() {
    let scene = Scene::new();
    let name = payload("run", "call");
    put(&scene.store, &name, b"payload").unwrap();
    chmod(&scene.root(), 0o755);
    assert_refused(read(&scene.store, &name), "open to other users (mode 0755)");
    assert_refused(put(&scene.store, &name, b"payload"), "open to other users (mode 0755)");
}

#[test]
fn the_root_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can give a folder away");
        return;
    }
    let scene = Scene::new();
    fs::create_dir(scene.root()).unwrap();
    chmod(&scene.root(), 0o700);
    chown(scene.root(), Some(65_534), None).unwrap();
    assert_refused(LocalStore::open(scene.root()), "another user");
    assert_refused(put(&scene.store, &payload("run", "call"), b"payload"), "another user");
}

#[test]
fn a_root_that_is_no_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::create_dir(path.join("folder")).unwrap();
    chmod(&path.join("folder"), 0o700);
    fs::write(path.join("file"), "").unwrap();
    symlink("folder", path.join("link")).unwrap();
    symlink("nowhere", path.join("dangling")).unwrap();

    for link in ["link", "link/", "link/.", "dangling", "dangling/"] {
        assert_refused(LocalStore::open(path.join(link)), "is a symbolic link");
    }
    for file in ["file", "file/", "file/root"] {
        assert_refused(LocalStore::open(path.join(file)), "is no folder");
    }
    assert!(!path.join("nowhere").exists());
    // What leads to the root may be a link: a home often lies behind one.
    let store = LocalStore::open(path.join("link/root")).unwrap();
    put(&store, &payload("run", "call"), b"payload").unwrap();
    assert!(path.join("folder/root/run").is_dir());
}

#[test]
fn lost_permission_is_refused_and_mended() {
    let folder = tempfile::tempdir().unwrap();
    child::run_unprivileged("lose-permission", &folder.path().join("root"));
}

pub(super) fn lose_permission(root: &Path) {
    let store = LocalStore::open(root).unwrap();
    let (first, second) = (payload("run", "first"), payload("run", "second"));
    put(&store, &first, b"payload").unwrap();

    for (folder, mode) in [(".staging", 0o500), ("run", 0o500), ("run", 0o000)] {
        chmod(&root.join(folder), mode);
        assert_refused(put(&store, &second, b"payload"), "no permission to");
        chmod(&root.join(folder), 0o700);
    }
    chmod(&root.join("run"), 0o500);
    assert_eq!(read(&store, &first).unwrap(), "payload");
    assert_refused(block_on(store.delete(first.handle())), "no permission to");
    chmod(&root.join("run"), 0o700);
    chmod(&root.join(first.to_string()), 0o000);
    assert_refused(read(&store, &first), "no permission to");
    chmod(root, 0o000);
    assert_refused(read(&store, &first), "no permission to");
    assert_refused(put(&store, &second, b"payload"), "no permission to");
    assert_refused(LocalStore::open(root), "no permission to");

    chmod(root, 0o700);
    assert_eq!(put(&store, &second, b"payload").unwrap(), Commit::Created);
    assert_eq!(read(&store, &second).unwrap(), "payload");
    chmod(&root.join(".staging"), 0o700);
    assert_eq!(fs::read_dir(root.join(".staging")).unwrap().count(), 0);
}
