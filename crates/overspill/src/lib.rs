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
pub mod marker;
pub mod read;
pub mod config;
mod policy;
pub mod intake;
pub mod limits;

pub use action::{Action, Spill, Summarize, Then};
pub use band::{Band, BandError, Bands};
pub use config::Config;
pub use cut::{Keep, Truncate};
pub use filter::{ToolBands, ToolFilter};
pub use intake::{Admitted, Reduction, ReturnStream, Warning};
pub use item::{CallId, Media, Payload, RunId, ToolCall, ToolReturn};
pub use limits::{PolicyError, ToolOutputLimits};
pub use marker::Marker;
pub use measure::{Size, Tokenizer, Unit};
pub use read::{ReadArgs, ReadTool};
pub use store::{Handle, Receipt, Store, StoreError};
pub use summary::{Summarizer, Summary, Usage};

/// A future that a port returns: boxed, so that ports are object-safe.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
