//! Chooses what the workspace of a job starts from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::op::{Audience, Effect, Operation, StoreOperation};
use crate::work::base::{self, JobBase};
use crate::work::jobs;

/// Chooses what the workspace of a job starts from: what the job, its task or its workflow says, else the work of the
/// tasks that its task depends on.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ChooseBase {
    /// The job: its id, or a prefix of it.
    pub job: String,
    /// The base that the settings of the job name.
    #[serde(default)]
    pub base: Option<String>,
}

impl Operation for ChooseBase {
    const NAME: &'static str = "choose_base";
    const SUMMARY: &'static str = "Choose what the workspace of a job starts from";
    const EFFECT: Effect = Effect::Read;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = JobBase;
}

impl StoreOperation for ChooseBase {
    const DEPENDS_ON_JOBS: bool = true;

    fn run(self, cx: &mut OpContext<'_>) -> Result<JobBase> {
        let job = jobs::find_job(cx, &self.job)?;
        base::choose(cx, &job, self.base.as_deref())
    }
}
