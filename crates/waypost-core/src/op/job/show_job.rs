//! Shows a job.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::list_jobs::JobView;
use crate::context::OpContext;
use crate::error::Result;
use crate::op::{Effect, Operation, StoreOperation};
use crate::work::jobs;

/// Shows a job.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ShowJob {
    /// The job: its id, or a prefix of it.
    pub job: String,
}

impl Operation for ShowJob {
    const NAME: &'static str = "show_job";
    const SUMMARY: &'static str = "Show a job";
    const EFFECT: Effect = Effect::Read;
    type Answer = JobView;
}

impl StoreOperation for ShowJob {
    const DEPENDS_ON_JOBS: bool = true;

    fn run(self, cx: &mut OpContext<'_>) -> Result<JobView> {
        let job = jobs::find_job(cx, &self.job)?;
        JobView::of(cx, job)
    }
}
