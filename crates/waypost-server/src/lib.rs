//! The HTTP and MCP servers. They decode a request, call the [`waypost::app::App`], and encode its answer.

pub mod http;
pub mod mcp;
mod percent;
