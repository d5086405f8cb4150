//! The index beside a payload.
