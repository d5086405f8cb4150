//! Keeps an LLM agent's context window small without losing anything.

// The order of these lines is reading order and dependency order: a room uses only rooms above
// it. A test checks it.
pub mod item;
pub mod measure;
pub mod lines;
pub mod ansi;
pub mod render;
pub mod cut;
pub mod action;
pub mod band;
pub mod filter;
pub mod summary;
pub mod excerpt;
pub mod store;
pub mod config;

pub use action::{Action, Spill, Summarize, Then};
pub use band::{Band, BandError, Bands};
pub use cut::{Keep, Truncate};
pub use item::{CallId, Media, Payload, RunId, ToolCall, ToolReturn};
pub use measure::{Size, Tokenizer, Unit};
pub use store::{Handle, Receipt, Store, StoreError};

/// A future that a port returns: boxed, so that ports are object-safe.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
