//! The HTTP and MCP servers. They decode a request, call the [`waypost::app::App`], and encode its answer.

mod calls;
pub mod http;
pub mod mcp;
mod percent;
