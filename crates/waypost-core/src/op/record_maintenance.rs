//! Records work on the store itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Audience, Effect, Operation};
use crate::context::OpContext;
use crate::error::Result;
use crate::model::kind;

/// Records work on the store itself, so that its history explains a changed file.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RecordMaintenance {
    /// What was done.
    pub what: Maintenance,
    /// What is worth knowing of it.
    pub detail: Value,
}

/// Kinds of work on the store itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Maintenance {
    /// The file was compacted.
    Vacuumed,
    /// A write was made only to see how long it takes.
    Probed,
}

/// The answer to [`RecordMaintenance`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recorded {
    /// The event's place in the history.
    pub sequence: u64,
}

impl Operation for RecordMaintenance {
    const NAME: &'static str = "record_maintenance";
    const SUMMARY: &'static str = "Record work on the store itself";
    const EFFECT: Effect = Effect::Write;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = Recorded;

    fn run(self, cx: &mut OpContext<'_>) -> Result<Recorded> {
        let kind = match self.what {
            Maintenance::Vacuumed => kind::STORE_VACUUMED,
            Maintenance::Probed => kind::STORE_PROBED,
        };
        Ok(Recorded { sequence: cx.event(kind, "store", self.detail)? })
    }
}
