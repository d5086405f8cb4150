//! A rig agent with Overspill in it, against servers and models that follow a script.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod server;
mod support;

mod errors;
mod memory;
mod results;
mod runs;
mod summaries;
