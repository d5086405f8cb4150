//! Overspill for rig 0.44 agents.
//!
//! A tool's result is reduced before it enters rig's history, the history is fitted before each
//! request, and the model reads back through `read_tool_result`. [`Overspill`] is the hook that
//! does it; [`WithOverspill`] puts it and its tools into an agent. [`RigModel`] lets the agent's
//! own model write summaries. For agents with one of rig's memories, there are [`Tokens`], which
//! counts its messages, and [`Archive`], which stores those that leave it.

mod spelled;
mod messages;
mod ledger;
mod result;
mod hook;
mod model;
mod memory;

pub use hook::{Event, Overspill, WithOverspill};
pub use memory::{Archive, Archived, Tokens};
pub use messages::ApplyError;
pub use model::RigModel;
