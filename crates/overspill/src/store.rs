//! Bytes at rest: the port a backend implements, the handle that names a payload, the receipt
//! that proves it is stored, how long it is kept, the index beside it, and the one writer and
//! reader above the port.

pub mod handle;
pub mod receipt;
pub mod port;
pub mod amount;
pub mod retention;
pub mod index;
pub mod writer;
pub mod reader;

#[cfg(test)]
pub(crate) mod memory;

pub use amount::{Age, AgeError, ByteSize, ByteSizeError};
pub use handle::{Handle, HandleError, PartName};
pub use port::{BlobName, BlobStat, ByteRange, Commit, Slice, Stage, Store, StoreError, StoreExt};
pub use reader::{Block, Cursor, IndexHealth, Stored};
pub use receipt::{Digest, Receipt};
pub use retention::{Cause, Expired, Expiry, Judgement, Resident, Retention};
pub use writer::{Deposit, Survey, Surveyed, deposit};
