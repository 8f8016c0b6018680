//! Freezes a workflow that is moved to another store: this store changes it no more.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::WorkflowId;
use crate::model::{TaskStatus, kind};
use crate::op::{Audience, Effect, Operation, StoreOperation};
use crate::work::transfer::{self, WorkflowDump};
use crate::work::{find, jobs, lease};

/// Freezes a workflow that is moved to another store: this store changes it no more.
///
/// Answers with all its data as of this moment.
///
/// A repeated call for the same store returns the same answer.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FreezeWorkflow {
    /// The workflow.
    pub workflow: WorkflowId,
    /// The destination store.
    pub to: String,
    /// End the leases of agents that work on it.
    #[serde(default)]
    pub force: bool,
}

impl Operation for FreezeWorkflow {
    const NAME: &'static str = "freeze_workflow";
    const SUMMARY: &'static str = "Freeze a workflow to move it to another store";
    const EFFECT: Effect = Effect::Write;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = WorkflowDump;
}

impl StoreOperation for FreezeWorkflow {
    const CANCELS_JOBS: bool = true;

    fn run(self, cx: &mut OpContext<'_>) -> Result<WorkflowDump> {
        let workflow = find::workflow(cx, self.workflow.as_str())?;
        if let Some(mark) = transfer::mark(&workflow) {
            if mark.to != self.to {
                transfer::check_here(&workflow)?;
            }
            return transfer::dump(cx, &workflow);
        }
        if workflow.status.is_final() {
            return Err(Error::conflict(format!("workflow {} is {}", workflow.name, workflow.status))
                .hint("only live workflows can be moved"));
        }
        for task in cx.tx.task_list(&workflow.id)? {
            let Some(held) = cx.tx.lease_get(task.id.as_str())?.filter(|lease| lease.holder.is_some()) else {
                continue;
            };
            if !self.force {
                let holder = lease::holder_name(cx, &held)?;
                return Err(Error::refused(format!("{holder} works on {}/{}", workflow.name, task.name))
                    .hint("wait until no agent works on it, or end the lease with --force"));
            }
            if task.status == TaskStatus::InProgress {
                let why = "its workflow is moved to another store";
                jobs::withdraw(cx, &task, TaskStatus::Pending, kind::TASK_RELEASED, why)?;
            } else {
                lease::end(cx, held)?;
            }
        }
        let dump = transfer::dump(cx, &workflow)?;
        let frozen = transfer::freeze(cx, &workflow, &self.to)?;
        let data = json!({
            "name": frozen.name,
            "to": self.to,
            "reason": frozen.reason,
            "changed": { "status": [workflow.status, frozen.status] },
        });
        cx.event(kind::WORKFLOW_MOVED, workflow.id.as_str(), data)?;
        Ok(dump)
    }
}
