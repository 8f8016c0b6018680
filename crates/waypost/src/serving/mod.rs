//! Servers and their clients: rights, tokens, and the proof of who answers.

pub mod access;
pub mod challenge;
pub mod client;
pub(crate) mod sockets;
pub mod tokens;
pub mod wire;
