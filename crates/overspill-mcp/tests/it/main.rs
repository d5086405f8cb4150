//! The proxy between clients and servers that others wrote.

mod client;
mod faults;
mod http;
mod peer;
mod stdio;
