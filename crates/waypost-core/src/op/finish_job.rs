//! Ends a job, and the attempt on its task with it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::list_jobs::JobView;
use super::{Audience, Effect, Operation};
use crate::context::OpContext;
use crate::error::Result;
use crate::work::jobs::{self, Ending};

/// Ends a job, and the attempt on its task with it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FinishJob {
    /// Which one: its id, or the beginning of it.
    pub job: String,
    /// What its command ended with; none if a signal ended it.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// Why it did not end well.
    #[serde(default)]
    pub error: Option<String>,
    /// Whoever watched over it was told to stop: no attempt is counted.
    #[serde(default)]
    pub stopped: bool,
    /// Whoever watched over it is gone.
    #[serde(default)]
    pub abandoned: bool,
    /// What came out, if it did not say so itself.
    #[serde(default)]
    pub output: Option<String>,
}

impl Operation for FinishJob {
    const NAME: &'static str = "finish_job";
    const SUMMARY: &'static str = "End a job";
    const EFFECT: Effect = Effect::Write;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = JobView;

    fn run(self, cx: &mut OpContext<'_>) -> Result<JobView> {
        let before = jobs::find_job(cx, &self.job)?;
        if before.status.is_final() {
            // Said again by somebody who did not hear the answer, or by two who found it abandoned.
            return JobView::of(cx, before);
        }
        let ending = match (self.stopped, self.abandoned) {
            (true, _) => Ending::Stopped,
            (false, true) => Ending::Abandoned,
            (false, false) => Ending::Ended,
        };
        let mut job = before;
        job.exit_code = self.exit_code;
        job.output = job.output.or(self.output);
        let after = jobs::finish(cx, &job, ending, self.error)?;
        jobs::leave_workspace(cx, &after)?;
        JobView::of(cx, after)
    }
}
