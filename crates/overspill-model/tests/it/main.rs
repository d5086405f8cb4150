//! A model over real HTTP, against servers that answer by script.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod aimock;
mod budget;
mod health;
mod keys;
mod library;
mod retries;
mod server;
mod streams;
mod traces;
