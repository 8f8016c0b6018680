//! Records the progress of a job: its phase, output and usage.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::list_jobs::JobView;
use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::kind;
use crate::op::{Access, Effect, JobAccess, Operation, StoreOperation};
use crate::work::{check_name, jobs};

/// Records the progress of a job: its phase, output and usage.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct UpdateJob {
    /// The job: its id, or a prefix of it.
    pub job: String,
    /// The current phase.
    #[serde(default)]
    pub phase: Option<String>,
    /// Details of the phase.
    #[serde(default)]
    pub detail: Option<String>,
    /// The output.
    #[serde(default)]
    pub output: Option<String>,
    /// A warning.
    #[serde(default)]
    pub warning: Option<String>,
    /// The number of tokens used so far.
    #[serde(default)]
    pub tokens: Option<u64>,
    /// The cost so far.
    #[serde(default)]
    pub cost: Option<f64>,
}

impl Operation for UpdateJob {
    const NAME: &'static str = "update_job";
    const SUMMARY: &'static str = "Record the progress of a job";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::ADMINS.with_jobs(JobAccess::OwnJob);
    type Answer = JobView;
}

impl StoreOperation for UpdateJob {
    fn run(self, cx: &mut OpContext<'_>) -> Result<JobView> {
        let before = jobs::find_job(cx, &self.job)?;
        // An ended job still accepts the warnings and usage that the cleanup finds.
        if before.status.is_final() && (self.phase.is_some() || self.output.is_some()) {
            return Err(Error::conflict(format!("job {} is {}", before.id, before.status)));
        }
        let mut after = before.clone();
        if let Some(phase) = self.phase {
            check_name("phase", &phase)?;
            jobs::push_phase(&mut after, &phase, self.detail, cx);
        }
        after.output = self.output.or(after.output);
        after.tokens = self.tokens.or(after.tokens);
        after.cost = self.cost.or(after.cost);
        after.warnings.extend(self.warning);
        after.updated_at = cx.now;
        jobs::put(cx, kind::JOB_NOTED, &before, &after)?;
        JobView::of(cx, after)
    }
}
