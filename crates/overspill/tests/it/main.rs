//! The library seen from outside.

mod golden;
mod intake;
mod read;
mod rooms;
mod support;
