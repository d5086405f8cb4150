//! Keeps an LLM agent's context window small without losing anything.
//!
//! A tool returns 200 KB. Sent whole, it is paid for with every later request; cut, it lacks what
//! the model needs next. Overspill stores it whole the moment it is produced, leaves a verbatim
//! excerpt and a handle in view, and lets the model read any part back through one bounded tool.
//!
//! ```
//! use std::sync::Arc;
//! use overspill::{ToolCall, ToolOutputLimits};
//! use overspill_store::MemoryStore;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # futures_lite::future::block_on(async {
//! // From 10,000 characters on: store it and leave an excerpt; if no store takes it, cut it.
//! let limits = ToolOutputLimits::builder().store(Arc::new(MemoryStore::new())).build()?;
//!
//! // When a tool returns, what it returned goes in and what the model should see comes out.
//! let log: String = (0..5_000).map(|i| format!("test case_{i} ... ok\n")).collect();
//! let admitted = limits.admit(&ToolCall::new("run-1", "call-7", "bash"), log).await;
//! let seen = admitted.output.text().ok_or("text")?;
//! assert!(seen.starts_with("[overspill: ") && seen.len() < 2_500);
//!
//! // The model reads on by handle, through the tool that `limits.read_tool()` defines.
//! let handle = &admitted.receipts().next().ok_or("a receipt")?.handle;
//! let answer = limits.read(&serde_json::json!({ "handle": handle, "pattern": "case_2500 " })).await;
//! assert!(answer.ends_with("2500: test case_2500 ... ok\n"));
//! # Ok(()) })
//! # }
//! ```
//!
//! The library decides; it does no I/O, reads no clock and no environment, and needs no runtime:
//! stores and models come in through ports ([`Store`], [`Summarizer`]) that it awaits. Adding the
//! library to an agent is the opt-in, so a policy is on unless it is built with
//! `enabled(false)`.
//!
//! Start at [`ToolOutputLimits`]; its path is in [`intake`], the way back in [`read`].

// The order of these lines is reading order and dependency order: a room uses only rooms above
// it. A test checks it.
pub mod item;
pub mod measure;
pub mod trace;
pub mod window;
pub mod image;
#[cfg(feature = "tiktoken")]
pub mod tokenizer;
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
pub mod entry;
pub mod history;
pub mod count;
pub mod strategy;
pub mod fit;
pub mod capability;

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
