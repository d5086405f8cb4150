//! The library seen from outside.

mod golden;
