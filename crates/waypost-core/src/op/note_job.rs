//! Says how far a job is: what it does now, what came out, what it used.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::list_jobs::JobView;
use super::{Effect, Operation};
use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::kind;
use crate::work::{check_name, jobs};

/// Says how far a job is: what it does now, what came out, what it used.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NoteJob {
    /// Which one: its id, or the beginning of it.
    pub job: String,
    /// What it does now.
    #[serde(default)]
    pub phase: Option<String>,
    /// More about it.
    #[serde(default)]
    pub detail: Option<String>,
    /// What came out.
    #[serde(default)]
    pub output: Option<String>,
    /// What somebody should know.
    #[serde(default)]
    pub warning: Option<String>,
    /// Tokens used so far.
    #[serde(default)]
    pub tokens: Option<u64>,
    /// Money spent so far.
    #[serde(default)]
    pub cost: Option<f64>,
}

impl Operation for NoteJob {
    const NAME: &'static str = "note_job";
    const SUMMARY: &'static str = "Say how far a job is";
    const EFFECT: Effect = Effect::Write;
    type Answer = JobView;

    fn run(self, cx: &mut OpContext<'_>) -> Result<JobView> {
        let before = jobs::find_job(cx, &self.job)?;
        // Of a job that has ended, only what is found while tidying up is noted.
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
