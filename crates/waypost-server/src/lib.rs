//! The ways in over a wire. They decode a request, hand it to a [`Host`], and encode its answer; they decide nothing.

mod host;
pub mod mcp;

pub use host::{Call, Host, Who};
