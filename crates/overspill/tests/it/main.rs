//! The library seen from outside.

mod golden;
mod intake;
mod read;
mod readme;
mod rooms;
mod support;
