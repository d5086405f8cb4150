//! A model over real HTTP, against servers that answer by script.

mod aimock;
mod budget;
mod health;
mod keys;
mod library;
mod retries;
mod server;
mod streams;
mod traces;
