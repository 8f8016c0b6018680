//! What stands behind every way in.

use std::time::Duration;

use serde_json::Value;
use waypost_core::Result;

/// In whose name something is asked. It comes from whoever checked the caller, never from what the caller says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The author of what is written.
    pub actor: String,
    /// The agent in whose name work is claimed and messages are sent.
    pub agent: Option<String>,
}

/// Something that is asked.
#[derive(Clone, Debug)]
pub struct Call {
    /// The name of the operation.
    pub operation: String,
    /// Its arguments, an object.
    pub arguments: Value,
    /// In whose name.
    pub who: Who,
    /// The same key gives the same answer, however often it is asked.
    pub key: Option<String>,
}

/// A store and the ledgers beside it, used in somebody's name.
///
/// Operations are those of [`waypost_core::op::TABLE`], and those about issues that the host has beside them. It is called
/// from many threads at once, and a call may take as long as writing takes.
pub trait Host: Send + Sync + 'static {
    /// Runs an operation; what it wrote is on disk when this returns.
    fn call(&self, call: Call) -> Result<Value>;

    /// Waits until somebody may have written after the event with this sequence, or until time is up. Only a hint.
    fn wait(&self, last: u64, at_most: Duration) -> Result<()>;
}
