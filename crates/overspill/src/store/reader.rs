//! The one reader above the port.

/// A stored payload.
#[derive(Debug)]
pub struct Stored;
