//! The ways in over a wire. They decode a request, hand it to a [`waypost::host::Host`], and encode its answer; they decide nothing.

pub mod http;
pub mod mcp;
