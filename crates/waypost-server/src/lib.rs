//! The ways in over a wire. They decode a request, hand it to a [`Host`], and encode its answer; they decide nothing.

pub mod access;
pub mod client;
mod host;
pub mod http;
pub mod mcp;
mod origin;
mod wire;

pub use host::{Call, Described, Host, Measure, Reply, Who};
pub use origin::Origin;
