//! Servers and their clients: rights, tokens, and the proof of who answers.

pub(crate) mod access;
pub(crate) mod challenge;
#[cfg(feature = "client")]
pub(crate) mod client;
#[cfg(not(feature = "client"))]
#[path = "without_client.rs"]
pub(crate) mod client;
#[cfg(any(feature = "client", feature = "jobs"))]
pub(crate) mod sockets;
pub(crate) mod tokens;
pub(crate) mod wire;

pub use access::{Grant, Role};
pub use challenge::{Challenge, Ends};
#[cfg(feature = "client")]
pub use client::PROOF_PATH;
pub use tokens::{OWNER_TOKEN_ID, Token, TokenRequest, Tokens, hash_token, random_hex};
pub use wire::{PROBLEM_TYPE, SCHEMA, http_status, problem_body};
