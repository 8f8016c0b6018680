//! The HTTP and MCP servers. They decode a request, call a [`waypost::host::Host`], and encode its answer.

pub mod http;
pub mod mcp;
mod percent;
