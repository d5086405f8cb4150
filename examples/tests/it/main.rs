//! The agents over real HTTP, against a scripted model that checks each request as a provider
//! does.

mod scripted;
mod by_hand;
mod fit_layer;
mod agent;
mod aimock;
mod docs;
