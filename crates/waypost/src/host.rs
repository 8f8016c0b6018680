//! The interface between the servers (HTTP, MCP) and the application.

use std::time::Duration;

use schemars::{Schema, SchemaGenerator};
use serde_json::Value;
use waypost_core::Result;
use waypost_core::op::{Audience, Effect, OperationEntry};

use crate::origin::Origin;

/// The identity of a caller. The authentication layer sets it, never the request itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The author of writes.
    pub actor: String,
    /// The agent that claims work and sends messages.
    pub agent: Option<String>,
}

/// A call of an operation.
#[derive(Clone, Debug)]
pub struct Call {
    /// The name of the operation.
    pub operation: String,
    /// Its arguments, an object.
    pub arguments: Value,
    /// The caller.
    pub who: Who,
    /// The idempotency key: a call with the same key returns the first answer.
    pub key: Option<String>,
}

/// Runs operations on a store and its ledgers.
///
/// Operations are those of [`waypost_core::op::TABLE`] and the host's own, on issues and jobs. Many threads call it
/// concurrently, and a call may block until a write is on disk.
pub trait Host: Send + Sync + 'static {
    /// Runs an operation; its writes are on disk when this returns.
    fn call(&self, call: Call) -> Result<Value>;

    /// Queues a call and sends its answer to `reply`. Returns the call if it can only run on a thread that blocks.
    fn submit(&self, call: Call, reply: Reply) -> Option<Call> {
        drop(reply);
        Some(call)
    }

    /// Runs an operation on behalf of a worktree other than the host's own.
    fn call_from(&self, call: Call, from: Origin) -> Result<Value> {
        let _ = from;
        self.call(call)
    }

    /// Returns the operations that are not in the table of the store.
    fn app_operations(&self) -> &'static [Described] {
        &[]
    }

    /// Returns metrics for monitoring.
    fn measures(&self) -> Vec<Measure> {
        Vec::new()
    }

    /// Waits until there may be an event after this sequence, or until the timeout. Only a hint.
    fn wait(&self, last: u64, timeout: Duration) -> Result<()>;

    /// Checks whether a write would succeed now, without changing anything. Returns at once; the reply may come late,
    /// or never while the disk hangs.
    fn probe(&self, reply: Box<dyn FnOnce(Result<()>) + Send>) {
        reply(Ok(()));
    }
}

/// Receives an answer, after its writes are on disk.
pub type Reply = Box<dyn FnOnce(Result<Value>) + Send>;

/// The description of an operation.
#[derive(Clone, Copy)]
pub struct Described {
    /// Its name.
    pub name: &'static str,
    /// One line for help texts.
    pub summary: &'static str,
    /// Whether it writes.
    pub effect: Effect,
    /// Whether it is public API or internal.
    pub audience: Audience,
    /// Describes its arguments.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
    /// Describes its answer.
    pub answer_schema: fn(&mut SchemaGenerator) -> Schema,
}

impl From<&OperationEntry> for Described {
    fn from(entry: &OperationEntry) -> Described {
        let OperationEntry { name, summary, effect, audience, schema, answer_schema, .. } = *entry;
        Described { name, summary, effect, audience, schema, answer_schema }
    }
}

/// A metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// Its name without the prefix `waypost_`.
    pub name: &'static str,
    /// Its description.
    pub help: &'static str,
    /// Whether it is a counter; otherwise a gauge.
    pub is_counter: bool,
    /// The values, each with its labels as `name="value"`.
    pub values: Vec<(String, f64)>,
}
