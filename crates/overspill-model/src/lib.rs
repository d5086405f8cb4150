//! Summaries for Overspill, written by a model over HTTP.
//!
//! [`HttpModel`] is the library's [`TextModel`](overspill::summary::TextModel): it asks OpenAI's
//! Chat Completions, as vLLM, llama.cpp and Ollama serve them too, or Anthropic's Messages.
//!
//! ```
//! use std::sync::Arc;
//! use overspill::{Action, Band, Spill, Summarize, ToolOutputLimits};
//! use overspill::summary::{PromptTemplate, PromptedSummarizer};
//! use overspill_model::{ApiKey, HttpModel};
//! use overspill_store::MemoryStore;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The program reads the key; its name is for errors, which never show the key.
//! let name = "OPENAI_API_KEY";
//! let key = ApiKey::new(name, std::env::var(name).unwrap_or("sk-example".into()))?;
//! let model = HttpModel::builder("openai:gpt-5-mini".parse()?).key(key).build();
//!
//! // From 100,000 characters on a summary; whatever goes wrong with it, an excerpt.
//! let action = Action::from(Summarize::default()).or(Spill::default());
//! let limits = ToolOutputLimits::builder()
//!     .bands([Band::new(100_000, action)])
//!     .store(Arc::new(MemoryStore::new()))
//!     .summarizer(Arc::new(PromptedSummarizer::new(PromptTemplate::default(), Arc::new(model))))
//!     .build()?;
//! # let _ = limits;
//! # Ok(())
//! # }
//! ```
//!
//! A model that is slow, busy or gone costs a run little: see [`Limits`] for timeouts, retries, calls
//! at once and the rest that a model is given after it failed. Whatever an attempt took is counted,
//! also where it failed.
//!
//! It works under any executor: where no tokio runtime is there, it brings its own thread. It reads
//! no environment, but for the proxies that its HTTP client knows by their usual variables; a model
//! on this machine is asked without one.

mod key;
mod error;
mod limits;
mod breaker;
mod api;
mod runtime;
mod model;

pub use error::ModelError;
pub use key::{ApiKey, ApiKeyError};
pub use limits::Limits;
pub use model::{Builder, HttpModel};

/// The guide's example is compiled as it stands there.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/models.md")]
struct Guide;
