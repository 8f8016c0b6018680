//! Starting a transaction: whether it may write, and what the server answers.

use waypost_core::time::Timestamp;

use crate::cell::Cell;

/// Whether a transaction may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Read,
    Write,
}

/// The server's answer to the begin of a transaction.
pub(super) struct Begun {
    pub(super) now: Timestamp,
    /// The version of the schema.
    pub(super) version: i64,
    /// Whether the server is on the machine of this process.
    pub(super) is_here: bool,
    /// The server that the store knows.
    pub(super) known_server: Option<String>,
    /// The current server, where its identifier can be read.
    pub(super) server: Option<String>,
    /// The row of [`STATE_GET`](crate::sql::STATE_GET).
    pub(super) state: Vec<Cell>,
}
