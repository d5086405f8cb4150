//! The library seen from outside.

mod golden;
mod intake;
mod rooms;
mod support;
