//! Begins to watch over a job: from now on somebody answers for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::list_jobs::JobView;
use super::{Audience, Effect, Operation};
use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::{JobStatus, ProcessIdentity, kind};
use crate::work::jobs;

/// Begins to watch over a job: from now on somebody answers for it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BeginSupervision {
    /// Which one: its id, or the beginning of it.
    pub job: String,
    /// The machine it will run on.
    pub machine: String,
    /// Who watches over it.
    pub supervisor: ProcessIdentity,
}

impl Operation for BeginSupervision {
    const NAME: &'static str = "begin_supervision";
    const SUMMARY: &'static str = "Begin to watch over a job";
    const EFFECT: Effect = Effect::Write;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = JobView;

    fn run(self, cx: &mut OpContext<'_>) -> Result<JobView> {
        let before = jobs::find_job(cx, &self.job)?;
        if before.status != JobStatus::Pending {
            return Err(Error::conflict(format!("job {} is {}", before.id, before.status)));
        }
        if before.supervisor.as_ref().is_some_and(|known| *known != self.supervisor) {
            return Err(Error::conflict(format!("somebody watches over job {} already", before.id)));
        }
        if let Some(machine) = before.machine.as_ref().filter(|machine| **machine != self.machine) {
            return Err(Error::conflict(format!("job {} is to run on {machine}", before.id)));
        }
        let mut after = before.clone();
        after.machine = Some(self.machine);
        after.supervisor = Some(self.supervisor);
        jobs::push_phase(&mut after, "preparing", None, cx);
        jobs::put(cx, kind::JOB_TAKEN, &before, &after)?;
        JobView::of(cx, after)
    }
}
