//! Records that the command of a job was started.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::list_jobs::JobView;
use crate::context::OpContext;
use crate::error::Result;
use crate::model::{JobStatus, ProcessIdentity, kind};
use crate::op::{Audience, Effect, Operation, StoreOperation};
use crate::path_text;
use crate::work::jobs;

/// Records that the command of a job was started.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RecordJobStarted {
    /// The job: its id, or a prefix of it.
    pub job: String,
    /// The process of the command.
    pub process: ProcessIdentity,
    /// The log file.
    #[serde(with = "path_text::optional", default)]
    #[schemars(with = "Option<String>")]
    pub log: Option<PathBuf>,
}

impl Operation for RecordJobStarted {
    const NAME: &'static str = "record_job_started";
    const SUMMARY: &'static str = "Record that the command of a job was started";
    const EFFECT: Effect = Effect::Write;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = JobView;
}

impl StoreOperation for RecordJobStarted {
    fn run(self, cx: &mut OpContext<'_>) -> Result<JobView> {
        let before = jobs::find_job(cx, &self.job)?;
        let mut after = before.clone();
        after.move_to(JobStatus::Running, cx.now)?;
        after.process = Some(self.process);
        after.log = self.log;
        jobs::push_phase(&mut after, "running", None, cx);
        jobs::put(cx, kind::JOB_STARTED, &before, &after)?;
        JobView::of(cx, after)
    }
}
