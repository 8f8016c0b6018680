//! Registers the supervisor of a job, which is responsible for it from now on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::list_jobs::JobView;
use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::{JobStatus, ProcessIdentity, kind};
use crate::op::{Audience, Effect, Operation, StoreOperation};
use crate::work::jobs;
use crate::work::machines::{self, Reporter};

/// Registers the supervisor of a job, which is responsible for it from now on.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RegisterSupervisor {
    /// The job: its id, or a prefix of it.
    pub job: String,
    /// The machine that will run the job.
    pub machine: String,
    /// The process that supervises the job.
    pub supervisor: ProcessIdentity,
    /// The hash of the job's token, which its command may use from its first moment on.
    #[serde(default)]
    pub token_hash: Option<String>,
}

impl Operation for RegisterSupervisor {
    const NAME: &'static str = "register_supervisor";
    const SUMMARY: &'static str = "Register the supervisor of a job";
    const EFFECT: Effect = Effect::Write;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = JobView;
}

impl StoreOperation for RegisterSupervisor {
    fn run(self, cx: &mut OpContext<'_>) -> Result<JobView> {
        let before = jobs::find_job(cx, &self.job)?;
        if before.status != JobStatus::Pending {
            return Err(Error::conflict(format!("job {} is {}", before.id, before.status)));
        }
        if before.supervisor.as_ref().is_some_and(|known| *known != self.supervisor) {
            return Err(Error::conflict(format!("job {} already has a supervisor", before.id)));
        }
        if let Some(machine) = before.machine.as_ref().filter(|machine| **machine != self.machine) {
            return Err(Error::conflict(format!("job {} must run on {machine}", before.id)));
        }
        machines::note(cx, &self.machine, Reporter::Job)?;
        let mut after = before.clone();
        after.machine = Some(self.machine);
        after.supervisor = Some(self.supervisor);
        after.token_hash = self.token_hash;
        jobs::push_phase(&mut after, "preparing", None, cx);
        jobs::put(cx, kind::JOB_TAKEN, &before, &after)?;
        JobView::of(cx, after)
    }
}
