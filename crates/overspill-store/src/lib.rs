//! Where payloads rest: in files of one machine, or in memory.
//!
//! Both stores implement the port of the library, [`Store`] and [`StoreExt`]: a blob is staged,
//! appended to and committed under a name that nothing else can take; from then on any range of
//! it can be read. [`conformance`] holds what every store must do, for those who write their own.
//!
//! ```
//! use overspill::store::{BlobName, ByteRange, Handle, Store};
//! use overspill_store::MemoryStore;
//!
//! # futures_lite::future::block_on(async {
//! let store = MemoryStore::new();
//! let handle: Handle = "run-1/call_7.aaaaaaaaaaaaaaaaaaaaaaaaaa".parse()?;
//! let name = BlobName::Payload(handle);
//!
//! let mut stage = store.stage().await?;
//! stage.append("42 tests passed\n".into()).await?;
//! stage.commit(&name).await?;
//!
//! let slice = store.read(&name, ByteRange::Last(7)).await?;
//! assert_eq!(slice.bytes, "passed\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! [`Store`]: overspill::store::Store
//! [`StoreExt`]: overspill::store::StoreExt

pub mod conformance;
#[cfg(unix)]
mod local;
mod memory;

#[cfg(unix)]
pub use local::{LocalStore, Sweep};
pub use memory::MemoryStore;
