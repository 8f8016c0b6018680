//! Cancels a job. Its supervisor ends its command.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::list_jobs::JobView;
use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::op::{Effect, Operation, StoreOperation};
use crate::work::jobs;

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
    const CANCELS_JOBS: bool = true;

    fn run(self, cx: &mut OpContext<'_>) -> Result<JobView> {
        let before = jobs::find_job(cx, &self.job)?;
        if before.status.is_final() {
            return Err(Error::conflict(format!("job {} is already {}", before.id, before.status)));
        }
        let after = jobs::cancel(cx, &before, self.reason)?;
        JobView::of(cx, after)
    }
}
