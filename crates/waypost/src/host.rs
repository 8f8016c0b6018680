//! What stands behind every way in.

use std::time::Duration;

use schemars::{Schema, SchemaGenerator};
use serde_json::Value;
use waypost_core::Result;
use waypost_core::op::{Audience, Effect, OperationEntry};

use crate::origin::Origin;

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

    /// Takes a call over, to tell its answer when it is there; or gives it back, if a thread has to wait for it.
    fn submit(&self, call: Call, reply: Reply) -> Option<Call> {
        drop(reply);
        Some(call)
    }

    /// Runs an operation in the name of a worktree that is not the host's own.
    fn call_from(&self, call: Call, from: Origin) -> Result<Value> {
        let _ = from;
        self.call(call)
    }

    /// Returns the operations that it has beside those of the store.
    fn app_operations(&self) -> &'static [Described] {
        &[]
    }

    /// Returns what can be counted about it, for those who watch it.
    fn measures(&self) -> Vec<Measure> {
        Vec::new()
    }

    /// Waits until somebody may have written after the event with this sequence, or until time is up. Only a hint.
    fn wait(&self, last: u64, at_most: Duration) -> Result<()>;

    /// Tells whether a write would get through now, without changing anything. Returns at once; the reply may come late, or
    /// never while the disk hangs.
    fn probe(&self, reply: Box<dyn FnOnce(Result<()>) + Send>) {
        reply(Ok(()));
    }
}

/// Is told an answer; what was written for it is on disk then.
pub type Reply = Box<dyn FnOnce(Result<Value>) + Send>;

/// An operation as others see it.
#[derive(Clone, Copy)]
pub struct Described {
    /// Its name.
    pub name: &'static str,
    /// One line for help texts.
    pub summary: &'static str,
    /// Whether it writes.
    pub effect: Effect,
    /// Who asks for it.
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

/// Something that can be counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// What it is called, after `waypost_`.
    pub name: &'static str,
    /// What it says.
    pub help: &'static str,
    /// Whether it only grows.
    pub is_counter: bool,
    /// The values, each with its labels as `name="value"`.
    pub values: Vec<(String, f64)>,
}
