//! The formats seen from outside.

mod edits;
mod golden;
mod hostile;
mod property;
mod reading;
mod speed;
mod strategies;
mod support;
