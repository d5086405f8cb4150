//! The local store against what can go wrong around its root.

mod child;
mod crash;
mod faults;
mod leftovers;
mod links;
mod model;
mod permissions;
mod removal;
mod retention;
mod sweep;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_lite::future::block_on;
use overspill::item::ToolCall;
use overspill::store::{
    BlobName, ByteRange, Commit, Digest, Handle, PartName, Store, StoreError, StoreExt,
};
use overspill_store::LocalStore;
use tempfile::TempDir;

/// A store on a root that is not there yet, and its temporary surroundings.
struct Scene {
    folder: TempDir,
    store: LocalStore,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = LocalStore::open(folder.path().join("root")).unwrap();
        Self { folder, store }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// Where a blob lies.
    fn path(&self, name: &BlobName) -> PathBuf {
        self.root().join(name.to_string())
    }

    fn staged_files(&self) -> usize {
        fs::read_dir(self.root().join(".staging")).map_or(0, Iterator::count)
    }
}

fn payload(run: &str, call: &str) -> BlobName {
    let call = ToolCall::new(run, call, "tool");
    BlobName::Payload(Handle::new(&call, PartName::Value(0), &Digest::of(b"payload")))
}

fn index_of(payload: &BlobName) -> BlobName {
    BlobName::Index(payload.handle().clone())
}

fn put(store: &LocalStore, name: &BlobName, bytes: &[u8]) -> Result<Commit, StoreError> {
    block_on(async {
        let mut stage = store.stage().await?;
        stage.append(Bytes::copy_from_slice(bytes)).await?;
        stage.commit(name).await
    })
}

fn read(store: &LocalStore, name: &BlobName) -> Result<Bytes, StoreError> {
    block_on(store.read(name, ByteRange::Last(u64::MAX))).map(|slice| slice.bytes)
}

fn handles(store: &LocalStore) -> Vec<Handle> {
    block_on(store.list(None)).unwrap().into_iter().map(|(handle, _)| handle).collect()
}

fn clean(store: &LocalStore) -> u64 {
    block_on(store.clean_leftovers()).unwrap()
}

/// Sets the modification time of what lies at `path` back.
fn backdate(path: &Path, by: Duration) {
    fs::File::open(path).unwrap().set_modified(SystemTime::now() - by).unwrap();
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(result: Result<T, StoreError>, says: &str) {
    match result {
        Err(StoreError::Refused { what, .. }) => {
            assert!(what.contains(says), "{what:?} says {says:?}");
            assert!(what.contains("; hint: "), "{what:?} says how to mend it");
            assert!(!what.contains("/tmp"), "{what:?} names no path of this machine");
        }
        other => panic!("not refused: {other:?}"),
    }
}

#[track_caller]
fn assert_not_found<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    let error = result.unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }), "{error:?}");
}
