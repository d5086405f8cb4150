//! The formats seen from outside.
