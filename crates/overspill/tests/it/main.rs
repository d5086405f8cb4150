//! The library seen from outside.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod golden;
mod intake;
mod read;
mod readme;
mod rooms;
mod support;
