//! Agents with Overspill in the loop, each compiled and tested.
//!
//! [`by_hand`] is the shortest honest loop; [`agent`] is a small real agent, which
//! `cargo run -p overspill-examples --bin agent -- "task"` runs; [`fit_layer`] adds the history's
//! budget to an existing `async-openai` client.

pub mod by_hand;
pub mod endpoint;
pub mod tools;
pub mod gauge;
pub mod agent;
pub mod fit_layer;
