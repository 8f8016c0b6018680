//! Servers and their clients: rights, tokens, and the proof of who answers.

pub mod access;
pub mod challenge;
#[cfg(feature = "client")]
pub mod client;
#[cfg(not(feature = "client"))]
#[path = "without_client.rs"]
pub mod client;
#[cfg(any(feature = "client", feature = "jobs"))]
pub(crate) mod sockets;
pub mod tokens;
pub mod wire;
