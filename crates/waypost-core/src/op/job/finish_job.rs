//! Records the end of a job and of the attempt on its task.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::list_jobs::JobView;
use crate::context::OpContext;
use crate::error::Result;
use crate::op::{Audience, Effect, Operation, StoreOperation};
use crate::work::jobs::{self, Ending};

/// Records the end of a job and of the attempt on its task.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct FinishJob {
    /// The job: its id, or a prefix of it.
    pub job: String,
    /// The exit code of the command, as a shell gives it.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// The error, if the job failed.
    #[serde(default)]
    pub error: Option<String>,
    /// Whether the supervisor was told to stop. Then the attempt is not counted.
    #[serde(default)]
    pub stopped: bool,
    /// Whether the supervisor is gone.
    #[serde(default)]
    pub abandoned: bool,
    /// The output, if the job did not report it itself.
    #[serde(default)]
    pub output: Option<String>,
    /// The commit that the job leaves for the tasks that depend on its task.
    #[serde(default)]
    pub result: Option<String>,
}

impl Operation for FinishJob {
    const NAME: &'static str = "finish_job";
    const SUMMARY: &'static str = "Record the end of a job";
    const EFFECT: Effect = Effect::Write;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = JobView;
}

impl StoreOperation for FinishJob {
    fn run(self, cx: &mut OpContext<'_>) -> Result<JobView> {
        let before = jobs::find_job(cx, &self.job)?;
        if before.status.is_final() {
            // A retry after a lost answer, or two processes that both found the job abandoned.
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
        job.result = self.result;
        let after = jobs::finish(cx, &job, ending, self.error)?;
        jobs::leave_workspace(cx, &after)?;
        JobView::of(cx, after)
    }
}
