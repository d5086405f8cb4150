//! The port a backend implements: stage a blob, commit it under a name, read a range of it.

use std::fmt;
use std::ops::Range;
use std::time::SystemTime;

use bytes::Bytes;
use thiserror::Error;

use super::handle::Handle;
use super::retention::Expiry;
use crate::BoxFuture;

/// Names one blob: a payload, or the index beside it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BlobName {
    /// The payload itself, byte for byte.
    Payload(Handle),
    /// Where its lines are, and what a receipt says of it.
    Index(Handle),
}

impl BlobName {
    /// The suffix of an index's name. A handle ends in base32 digits, so no payload has it.
    pub const INDEX_SUFFIX: &'static str = ".idx";

    /// The handle of the payload this blob is, or belongs to.
    pub fn handle(&self) -> &Handle {
        match self {
            Self::Payload(handle) | Self::Index(handle) => handle,
        }
    }

    /// The file name within the run's folder; an object store puts `handle.run()` and a slash
    /// before it.
    pub fn file(&self) -> String {
        match self {
            Self::Payload(handle) => handle.file().to_owned(),
            Self::Index(handle) => format!("{}{}", handle.file(), Self::INDEX_SUFFIX),
        }
    }
}

impl fmt::Display for BlobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.handle().run(), self.file())
    }
}

/// Which bytes of a blob to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ByteRange {
    /// From the first to before the second; what lies past the end is left out.
    Span(Range<u64>),
    /// The last `n` bytes, or all where there are fewer.
    Last(u64),
}

impl ByteRange {
    /// The span this range is in a blob of `len` bytes.
    pub fn within(&self, len: u64) -> Range<u64> {
        match self {
            Self::Span(span) => span.start.min(len)..span.end.min(len).max(span.start.min(len)),
            Self::Last(n) => len.saturating_sub(*n)..len,
        }
    }
}

/// Bytes of a blob, and how long the blob is.
#[derive(Debug, Clone)]
pub struct Slice {
    /// The bytes asked for, as far as they exist.
    pub bytes: Bytes,
    /// The length of the whole blob.
    pub blob_len: u64,
}

/// What a commit found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commit {
    /// The name was free; the blob rests under it now.
    Created,
    /// A blob of that name was there already and is unchanged; its age has started anew, and what
    /// was staged is gone. The caller compares the bytes.
    Existed,
}

/// Where bytes rest.
///
/// The port asks for what any object store has: create-only put and ranged get. One writer above
/// it hashes, counts and indexes, so a backend only stores blobs. Timeouts are the adapter's.
pub trait Store: fmt::Debug + Send + Sync {
    /// Opens a new blob that has no name yet, so that nothing can read it.
    fn stage(&self) -> BoxFuture<'_, Result<Box<dyn Stage>, StoreError>>;

    /// Reads a range of a committed blob.
    fn read<'a>(
        &'a self,
        name: &'a BlobName,
        range: ByteRange,
    ) -> BoxFuture<'a, Result<Slice, StoreError>>;
}

/// A blob being written. Dropping it without a commit leaves nothing behind.
pub trait Stage: fmt::Debug + Send {
    /// Appends bytes.
    fn append(&mut self, bytes: Bytes) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Makes everything appended durable and gives it its name, both or neither.
    fn commit<'a>(self: Box<Self>, name: &'a BlobName)
    -> BoxFuture<'a, Result<Commit, StoreError>>;
}

/// What retention and people need beyond reading and writing.
pub trait StoreExt: Store {
    /// The length and age of a blob.
    fn stat<'a>(&'a self, name: &'a BlobName) -> BoxFuture<'a, Result<BlobStat, StoreError>>;

    /// Every payload in the store, ordered by handle; of one run where `run` is given (as
    /// [`Handle::run`] spells it).
    fn list<'a>(
        &'a self,
        run: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Vec<(Handle, BlobStat)>, StoreError>>;

    /// Deletes a payload and its index, the payload first; what is not there is no error.
    fn delete<'a>(&'a self, handle: &'a Handle) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Deletes as [`delete`](Self::delete) does, but only while the payload is as `seen` in a
    /// list; returns whether it is gone. A sweep decides from a list that is old by the time it
    /// acts, and a payload committed again meanwhile has a receipt that promises it.
    fn delete_unchanged<'a>(
        &'a self,
        handle: &'a Handle,
        seen: &'a BlobStat,
    ) -> BoxFuture<'a, Result<bool, StoreError>>;
}

/// The length and age of a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlobStat {
    /// Bytes.
    pub len: u64,
    /// When it was committed, or last committed again.
    pub modified: SystemTime,
}

impl BlobStat {
    /// A blob of `len` bytes last committed at `modified`.
    pub fn new(len: u64, modified: SystemTime) -> Self {
        Self { len, modified }
    }
}

impl StoreError {
    /// Whether nothing of that name is in the store, be it that it expired or never was.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::NotFound { .. } | Self::Expired { .. })
    }
}

/// Why a store could not do what it was asked, cut by what the caller will do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Nothing of that name is stored; it may never have been, or it has been swept.
    #[error("{name} is not in the store")]
    NotFound {
        /// The blob asked for.
        name: String,
    },
    /// It was stored once and its time is over: a sweep has deleted it.
    #[error("{name} expired {expiry}")]
    Expired {
        /// The payload asked for.
        name: String,
        /// When and why.
        expiry: Expiry,
    },
    /// Other bytes rest under the name than those being committed, which can only be damage: a name
    /// ends in the digest of what was stored under it.
    #[error("the bytes stored as {name} no longer match their digest; nothing was overwritten")]
    Conflict {
        /// The blob that was to be committed.
        name: String,
    },
    /// What is stored is not what was stored once: a blob is damaged.
    #[error("{name} is damaged: {what}")]
    Damaged {
        /// The blob.
        name: String,
        /// What does not fit.
        what: String,
    },
    /// The store refuses because of who asks or where it lies.
    #[error("the store refuses: {what}")]
    Refused {
        /// What was refused, and how to mend it.
        what: String,
        /// The reason underneath, where there is one.
        source: Option<std::io::Error>,
    },
    /// The store has no room left.
    #[error("the store is full")]
    Full(#[source] std::io::Error),
    /// The store cannot be reached, or failed in some other way.
    #[error("the store cannot {doing}")]
    Unavailable {
        /// What it was doing.
        doing: String,
        /// The reason underneath.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
