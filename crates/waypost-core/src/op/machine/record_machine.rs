//! Records that a machine is there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::model::Machine;
use crate::op::{Audience, Effect, Operation, StoreOperation};
use crate::work::machines::{self, Reporter};

/// Records that a worker or a job runs on a machine.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RecordMachine {
    /// The machine.
    pub machine: String,
    /// Whether a worker runs on it.
    #[serde(default)]
    pub worker: bool,
}

impl Operation for RecordMachine {
    const NAME: &'static str = "record_machine";
    const SUMMARY: &'static str = "Record that a machine is there";
    const EFFECT: Effect = Effect::Write;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = Machine;
}

impl StoreOperation for RecordMachine {
    fn run(self, cx: &mut OpContext<'_>) -> Result<Machine> {
        machines::note(cx, &self.machine, if self.worker { Reporter::Worker } else { Reporter::Job })
    }
}
