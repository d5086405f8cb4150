//! Bytes at rest: the port a backend implements, the handle that names a payload, the receipt
//! that proves it is stored, the index beside it, and the one writer and reader above the port.

pub mod handle;
pub mod index;
pub mod port;
pub mod reader;
pub mod receipt;
pub mod writer;

pub use handle::{Handle, HandleError, PartName};
pub use port::{BlobName, BlobStat, ByteRange, Commit, Slice, Stage, Store, StoreError, StoreExt};
pub use reader::Stored;
pub use receipt::{Digest, Receipt};
pub use writer::Deposit;
