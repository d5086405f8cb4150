//! Providers' message JSON as a history that can be edited without losing a byte of the rest.
//!
//! A request is read into a skeleton of spans over its own bytes. What [`Conversation::history`]
//! shows borrows from them, and applying a settled plan splices new JSON into them once: key
//! order, the spelling of numbers, escapes and unknown fields of everything that is not edited
//! stay as they are.
//!
//! ```
//! use std::sync::Arc;
//! use overspill::entry::{MessageId, Note};
//! use overspill::history::{Plan, Ports, Words, settle};
//! use overspill::marker::{Below, ReadVia};
//! use overspill_store::MemoryStore;
//! use overspill_wire::{Conversation, Format};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # futures_lite::future::block_on(async {
//! let request = r#"{"model":"m", "messages":[
//!   {"role":"user","content":"caf\u00e9?", "x":1.0},
//!   {"role":"assistant","content":"Yes."},
//!   {"role":"user","content":"More."}]}"#;
//! let conversation = Conversation::parse(Format::Chat, request.into())?;
//! let history = conversation.history();
//! assert_eq!(history.entries()[0].text, "café?");
//!
//! let mut plan = Plan::default();
//! plan.drop_turn(&history.turns()[0]);
//! let words = Words::text("One answer left: ").then(Words::marker(Below::Nothing));
//! plan.insert(MessageId(2), Note::Receipt, words);
//! let store: Arc<dyn overspill::Store> = Arc::new(MemoryStore::new());
//! let (run, via) = ("run".into(), ReadVia::Tool("read_tool_result".into()));
//! let settled = settle(&history, &plan, &Ports::new(&run, &store, &via)).await?;
//!
//! let smaller = conversation.apply(&settled)?;
//! let text = std::str::from_utf8(&smaller)?;
//! assert!(text.contains(r#"{"role":"user","content":"caf\u00e9?", "x":1.0}"#));
//! assert!(text.contains("One answer left: [overspill: ") && !text.contains("Yes."));
//! # Ok(()) })
//! # }
//! ```

mod json;
mod error;
mod skeleton;
mod format;
mod splice;
mod conversation;

pub use conversation::Conversation;
pub use error::WireError;
pub use format::Format;
