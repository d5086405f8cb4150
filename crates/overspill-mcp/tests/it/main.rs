//! The proxy between clients and servers that others wrote.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod client;
mod faults;
mod http;
mod peer;
mod refusals;
mod stdio;
