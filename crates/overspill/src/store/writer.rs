//! The one writer above the port.

/// A payload being stored.
#[derive(Debug)]
pub struct Deposit;
