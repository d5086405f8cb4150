//! An MCP proxy that bounds what tools return and loses none of it.
//!
//! It stands between any MCP client and any MCP servers and works on raw JSON-RPC: a message is
//! forwarded as it is, whatever its method, its fields and its protocol revision. Only the results
//! of tools are looked at, and one below the policy's smallest band passes byte for byte; a bigger
//! one is stored whole, and leaves a marker and an excerpt. The client's model reads any part of
//! it back through one more tool.
//!
//! ```
//! use std::sync::Arc;
//! use overspill::Config;
//! use overspill_mcp::{Options, Proxy, Server, Transport};
//! use overspill_store::MemoryStore;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut options = Options::new(Config::default(), Arc::new(MemoryStore::default()));
//! options.servers.push(Server {
//!     name: "files".to_owned(),
//!     transport: Transport::command("my-files-server", ["--root", "/srv"]),
//! });
//! let proxy = Proxy::new(options)?;
//! // Inside a Tokio runtime: proxy.serve(input, output, closing).await
//! # let _ = proxy;
//! # Ok(())
//! # }
//! ```
//!
//! Decisions are apart from I/O: what a message is, where it goes, what of a result stays in view
//! and what a list holds are pure functions; the rest keeps processes and connections.

mod json;
mod log;
mod long;
mod message;
mod revision;
mod handle_argument;
mod reduce;
mod listing;
mod resources;
mod router;
mod server;
mod counted;
mod lane;
mod session;
mod lines;
mod child;
mod streams;
mod guest;
mod accept;
mod http_server;
mod events;
mod http_client;
mod proxy;

pub use http_server::Listen;
pub use log::Log;
pub use message::{Id, Kind, Message, NotAMessage};
pub use proxy::{Options, Proxy, ProxyError};
pub use server::{Secret, Server, Transport, shown};
pub use tokio_util::sync::CancellationToken;
