//! The agents over real HTTP, against a scripted model that checks each request as a provider
//! does.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod scripted;
mod by_hand;
mod fit_layer;
mod agent;
mod aimock;
mod docs;
