//! Records maintenance of the store.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::context::OpContext;
use crate::error::Result;
use crate::model::kind;
use crate::op::{Audience, Effect, Operation, StoreOperation};

/// Records maintenance of the store, so that its history explains a changed file.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RecordMaintenance {
    /// The kind of maintenance.
    pub what: Maintenance,
    /// Details.
    pub detail: Value,
}

/// Kinds of maintenance of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Maintenance {
    /// The store's file was compacted.
    Vacuumed,
    /// A test write measured the latency.
    Probed,
}

/// The answer to [`RecordMaintenance`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recorded {
    /// The sequence of the event.
    pub sequence: u64,
}

impl Operation for RecordMaintenance {
    const NAME: &'static str = "record_maintenance";
    const SUMMARY: &'static str = "Record maintenance of the store";
    const EFFECT: Effect = Effect::Write;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = Recorded;
}

impl StoreOperation for RecordMaintenance {
    fn run(self, cx: &mut OpContext<'_>) -> Result<Recorded> {
        let kind = match self.what {
            Maintenance::Vacuumed => kind::STORE_VACUUMED,
            Maintenance::Probed => kind::STORE_PROBED,
        };
        Ok(Recorded { sequence: cx.event(kind, "store", self.detail)? })
    }
}
