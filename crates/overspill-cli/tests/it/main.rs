//! The binary, seen from outside: what goes in, what is printed, with which exit status.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bench;
mod fit;
mod models;
mod mcp;
mod mcp_wrap;
mod presets;
mod prune;
mod reading;
mod replay;
mod report;
mod run;
mod settings;
mod signals;
