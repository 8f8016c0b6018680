//! Cancels a job. Its supervisor ends its command.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::list_jobs::JobView;
use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::kind;
use crate::op::{Effect, Operation, StoreOperation};
use crate::work::jobs::{self, Ending};

/// Cancels a job. Its supervisor ends its command.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CancelJob {
    /// The job: its id, or a prefix of it.
    pub job: String,
    /// The reason.
    #[serde(default)]
    pub reason: Option<String>,
}

impl Operation for CancelJob {
    const NAME: &'static str = "cancel_job";
    const SUMMARY: &'static str = "Cancel a job";
    const EFFECT: Effect = Effect::Write;
    type Answer = JobView;
}

impl StoreOperation for CancelJob {
    const DEPENDS_ON_JOBS: bool = true;

    fn run(self, cx: &mut OpContext<'_>) -> Result<JobView> {
        let before = jobs::find_job(cx, &self.job)?;
        if before.status.is_final() {
            return Err(Error::conflict(format!("job {} is already {}", before.id, before.status)));
        }
        let mut after = before.clone();
        after.cancelled_at = after.cancelled_at.or(Some(cx.now));
        jobs::push_phase(&mut after, "cancelling", self.reason.clone(), cx);
        jobs::put(cx, kind::JOB_CANCELLED, &before, &after)?;
        // A job without a supervisor has no process that would end it later.
        if after.supervisor.is_none() {
            after = jobs::finish(cx, &after, Ending::Ended, self.reason)?;
        }
        JobView::of(cx, after)
    }
}
