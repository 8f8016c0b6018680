//! Machines that run jobs of a store.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// A machine that has run a worker or a job. A store that several machines share has several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// When it first ran a worker or a job.
    pub first_seen: Timestamp,
    /// When a worker or a job on it last reported.
    pub last_seen: Timestamp,
    /// When a worker on it last reported.
    pub worker_seen: Option<Timestamp>,
}
