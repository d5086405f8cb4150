//! A store in memory for this crate's own tests, which can look into it and damage it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};

use super::port::{BlobName, ByteRange, Commit, Slice, Stage, Store, StoreError};
use crate::BoxFuture;

type Blobs = Arc<Mutex<BTreeMap<String, Bytes>>>;

/// Blobs by name, and a note of every read.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    blobs: Blobs,
    reads: Mutex<Vec<(String, usize)>>,
}

impl Memory {
    /// The bytes under a name.
    pub(crate) fn get(&self, name: &BlobName) -> Option<Bytes> {
        self.blobs.lock().unwrap().get(&name.to_string()).cloned()
    }

    /// Puts other bytes under a name, as an accident would; none takes the blob away.
    pub(crate) fn set(&self, name: &BlobName, bytes: Option<Bytes>) {
        let mut blobs = self.blobs.lock().unwrap();
        match bytes {
            Some(bytes) => blobs.insert(name.to_string(), bytes),
            None => blobs.remove(&name.to_string()),
        };
    }

    /// Whether nothing is stored.
    pub(crate) fn is_empty(&self) -> bool {
        self.blobs.lock().unwrap().is_empty()
    }

    /// What was read since this was asked last: the blob and how many bytes of it.
    pub(crate) fn take_reads(&self) -> Vec<(String, usize)> {
        std::mem::take(&mut self.reads.lock().unwrap())
    }
}

impl Store for Memory {
    fn stage(&self) -> BoxFuture<'_, Result<Box<dyn Stage>, StoreError>> {
        let stage = Staged { blobs: Arc::clone(&self.blobs), bytes: BytesMut::new() };
        Box::pin(async { Ok(Box::new(stage) as Box<dyn Stage>) })
    }

    fn read<'a>(
        &'a self,
        name: &'a BlobName,
        range: ByteRange,
    ) -> BoxFuture<'a, Result<Slice, StoreError>> {
        Box::pin(async move {
            let name = name.to_string();
            let blob = self.blobs.lock().unwrap().get(&name).cloned();
            let blob = blob.ok_or_else(|| StoreError::NotFound { name: name.clone() })?;
            let blob_len = blob.len() as u64;
            let span = range.within(blob_len);
            let bytes = blob.slice(span.start as usize..span.end as usize);
            self.reads.lock().unwrap().push((name, bytes.len()));
            Ok(Slice { bytes, blob_len })
        })
    }
}

#[derive(Debug)]
struct Staged {
    blobs: Blobs,
    bytes: BytesMut,
}

impl Stage for Staged {
    fn append(&mut self, bytes: Bytes) -> BoxFuture<'_, Result<(), StoreError>> {
        self.bytes.extend_from_slice(&bytes);
        Box::pin(async { Ok(()) })
    }

    fn commit<'a>(
        self: Box<Self>,
        name: &'a BlobName,
    ) -> BoxFuture<'a, Result<Commit, StoreError>> {
        Box::pin(async move {
            let mut blobs = self.blobs.lock().unwrap();
            if blobs.contains_key(&name.to_string()) {
                return Ok(Commit::Existed);
            }
            blobs.insert(name.to_string(), self.bytes.freeze());
            Ok(Commit::Created)
        })
    }
}
