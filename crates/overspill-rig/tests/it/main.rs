//! A rig agent with Overspill in it, against servers and models that follow a script.

mod server;
mod support;

mod errors;
mod memory;
mod results;
mod runs;
mod summaries;
