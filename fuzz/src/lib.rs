//! What must hold for any bytes at all: one check for each fuzz target.
//!
//! A check is a plain function that panics where something is wrong. Fuzz targets hand it what a
//! fuzzer thinks up, for hours; the test below hands it a few thousand variations of the seeds,
//! in seconds.

pub mod ansi;
pub mod lines;
pub mod marker;
pub mod read;
pub mod sessions;
pub mod wire;

mod input;
#[cfg(test)]
mod short;
