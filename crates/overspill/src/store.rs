//! Bytes at rest: the port a backend implements, the handle that names a payload, the receipt
//! that proves it is stored, the index beside it, and the one writer and reader above the port.

pub mod handle;
pub mod receipt;
pub mod port;
pub mod index;
pub mod writer;
pub mod reader;

#[cfg(test)]
pub(crate) mod memory;

pub use handle::{Handle, HandleError, PartName};
pub use port::{BlobName, BlobStat, ByteRange, Commit, Slice, Stage, Store, StoreError, StoreExt};
pub use reader::{Block, Cursor, IndexHealth, Stored};
pub use receipt::{Digest, Receipt};
pub use writer::{Deposit, Survey, Surveyed, deposit};
