//! Stores that fail on purpose, and the shortest way to a policy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use overspill::limits::Builder;
use overspill::store::{BlobName, ByteRange, Commit, Slice, Stage};
use overspill::{BoxFuture, Store, StoreError, ToolCall, ToolOutputLimits};
use overspill_store::MemoryStore;

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    futures_lite::future::block_on(future)
}

pub(crate) fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

pub(crate) fn builder() -> Builder {
    ToolOutputLimits::builder().store(memory())
}

pub(crate) fn call() -> ToolCall {
    ToolCall::new("run-1", "call-1", "bash")
}

/// The text that the excerpt of a log leaves out, line by line.
pub(crate) fn log(lines: usize) -> String {
    (0..lines).map(|i| format!("line {i}\n")).collect()
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing can be staged.
    Stage,
    /// Only so many bytes fit, over all blobs.
    FullAfter(u64),
    /// Nothing can be committed.
    Commit,
}

/// A memory store with a fault.
#[derive(Debug)]
pub(crate) struct Faulty {
    inner: Arc<MemoryStore>,
    fault: Fault,
    written: Arc<AtomicU64>,
}

impl Faulty {
    pub(crate) fn with(fault: Fault) -> Arc<dyn Store> {
        let written = Arc::default();
        Arc::new(Self { inner: Arc::new(MemoryStore::new()), fault, written })
    }
}

fn fault() -> StoreError {
    StoreError::Full(std::io::Error::other("a fault made on purpose"))
}

impl Store for Faulty {
    fn stage(&self) -> BoxFuture<'_, Result<Box<dyn Stage>, StoreError>> {
        Box::pin(async {
            if self.fault == Fault::Stage {
                return Err(fault());
            }
            let inner = self.inner.stage().await?;
            let written = Arc::clone(&self.written);
            Ok(Box::new(FaultyStage { inner, fault: self.fault, written }) as Box<dyn Stage>)
        })
    }

    fn read<'a>(
        &'a self,
        name: &'a BlobName,
        range: ByteRange,
    ) -> BoxFuture<'a, Result<Slice, StoreError>> {
        self.inner.read(name, range)
    }
}

#[derive(Debug)]
struct FaultyStage {
    inner: Box<dyn Stage>,
    fault: Fault,
    written: Arc<AtomicU64>,
}

impl Stage for FaultyStage {
    fn append(&mut self, bytes: Bytes) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let written = self.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            match self.fault {
                Fault::FullAfter(room) if written + bytes.len() as u64 > room => Err(fault()),
                _ => self.inner.append(bytes).await,
            }
        })
    }

    fn commit<'a>(
        self: Box<Self>,
        name: &'a BlobName,
    ) -> BoxFuture<'a, Result<Commit, StoreError>> {
        Box::pin(async move {
            match self.fault {
                Fault::Commit => Err(fault()),
                _ => self.inner.commit(name).await,
            }
        })
    }
}
