//! A store in memory, for tests and for runs that end with their process.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use overspill::BoxFuture;
use overspill::store::{
    BlobName, BlobStat, ByteRange, Commit, Handle, Slice, Stage, Store, StoreError, StoreExt,
};

/// Keeps blobs in memory; clones share them.
///
/// It behaves as the local store does, except that everything is gone with its last clone.
#[derive(Clone, Default)]
pub struct MemoryStore {
    blobs: Arc<Mutex<BTreeMap<BlobName, Blob>>>,
}

struct Blob {
    bytes: Bytes,
    modified: SystemTime,
}

struct MemoryStage {
    store: MemoryStore,
    bytes: BytesMut,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// The blobs. No code that holds the lock can panic halfway through a change, so what a
    /// poisoned lock guards is whole.
    fn blobs(&self) -> MutexGuard<'_, BTreeMap<BlobName, Blob>> {
        self.blobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn commit(&self, name: &BlobName, bytes: Bytes) -> Commit {
        let modified = SystemTime::now();
        let mut blobs = self.blobs();
        // A write of either half renews the payload, so that a sweep spares it.
        if let Some(payload) = blobs.get_mut(&BlobName::Payload(name.handle().clone())) {
            payload.modified = modified;
        }
        match blobs.entry(name.clone()) {
            Entry::Vacant(free) => {
                free.insert(Blob { bytes, modified });
                Commit::Created
            }
            Entry::Occupied(mut taken) => {
                taken.get_mut().modified = modified;
                Commit::Existed
            }
        }
    }
}

impl Store for MemoryStore {
    fn stage(&self) -> BoxFuture<'_, Result<Box<dyn Stage>, StoreError>> {
        let stage = MemoryStage { store: self.clone(), bytes: BytesMut::new() };
        Box::pin(async { Ok(Box::new(stage) as Box<dyn Stage>) })
    }

    fn read<'a>(
        &'a self,
        name: &'a BlobName,
        range: ByteRange,
    ) -> BoxFuture<'a, Result<Slice, StoreError>> {
        Box::pin(async move {
            let blobs = self.blobs();
            let blob = blobs.get(name).ok_or_else(|| not_found(name))?;
            let blob_len = blob.bytes.len() as u64;
            let span = range.within(blob_len);
            let bytes = blob.bytes.slice(span.start as usize..span.end as usize);
            Ok(Slice { bytes, blob_len })
        })
    }
}

impl Stage for MemoryStage {
    fn append(&mut self, bytes: Bytes) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.bytes.extend_from_slice(&bytes);
            Ok(())
        })
    }

    fn commit<'a>(
        self: Box<Self>,
        name: &'a BlobName,
    ) -> BoxFuture<'a, Result<Commit, StoreError>> {
        Box::pin(async move { Ok(self.store.commit(name, self.bytes.freeze())) })
    }
}

impl StoreExt for MemoryStore {
    fn stat<'a>(&'a self, name: &'a BlobName) -> BoxFuture<'a, Result<BlobStat, StoreError>> {
        Box::pin(
            async move { self.blobs().get(name).map(Blob::stat).ok_or_else(|| not_found(name)) },
        )
    }

    fn list<'a>(
        &'a self,
        run: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Vec<(Handle, BlobStat)>, StoreError>> {
        Box::pin(async move {
            let blobs = self.blobs();
            let payloads = blobs.iter().filter_map(|(name, blob)| match name {
                BlobName::Payload(handle) => Some((handle.clone(), blob.stat())),
                BlobName::Index(_) => None,
            });
            Ok(payloads.filter(|(handle, _)| run.is_none_or(|run| handle.run() == run)).collect())
        })
    }

    fn delete<'a>(&'a self, handle: &'a Handle) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let mut blobs = self.blobs();
            blobs.remove(&BlobName::Payload(handle.clone()));
            blobs.remove(&BlobName::Index(handle.clone()));
            Ok(())
        })
    }

    fn delete_unchanged<'a>(
        &'a self,
        handle: &'a Handle,
        seen: &'a BlobStat,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move {
            let payload = BlobName::Payload(handle.clone());
            let mut blobs = self.blobs();
            match blobs.get(&payload) {
                Some(blob) if blob.stat() == *seen => {}
                Some(_) => return Ok(false),
                // An index without its payload may be that of a writer about to commit it.
                None => return Ok(true),
            }
            blobs.remove(&payload);
            blobs.remove(&BlobName::Index(handle.clone()));
            Ok(true)
        })
    }
}

impl Blob {
    fn stat(&self) -> BlobStat {
        BlobStat::new(self.bytes.len() as u64, self.modified)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("blobs", &self.blobs().len()).finish()
    }
}

impl fmt::Debug for MemoryStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStage").field("len", &self.bytes.len()).finish()
    }
}

fn not_found(name: &BlobName) -> StoreError {
    StoreError::NotFound { name: name.to_string() }
}
