//! Requests of every format, read, edited and written.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod counting;
mod edits;
mod golden;
mod hostile;
mod property;
mod reading;
mod spelling;
mod strategies;
mod support;
