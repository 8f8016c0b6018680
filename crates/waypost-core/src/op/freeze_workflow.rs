//! Begins to move a workflow: from now on nothing happens to it here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Audience, Effect, Operation};
use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::WorkflowId;
use crate::model::{TaskStatus, kind};
use crate::work::transfer::{self, WorkflowDump};
use crate::work::{attempt, find, lease};

/// Begins to move a workflow: from now on nothing happens to it here. Answers with all of it, as of this moment.
///
/// Doing it again for the same store answers the same.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FreezeWorkflow {
    /// Which one.
    pub workflow: WorkflowId,
    /// The store it goes to.
    pub to: String,
    /// Take it away from whoever works on it.
    #[serde(default)]
    pub force: bool,
}

impl Operation for FreezeWorkflow {
    const NAME: &'static str = "freeze_workflow";
    const SUMMARY: &'static str = "Begin to move a workflow to another store";
    const EFFECT: Effect = Effect::Write;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = WorkflowDump;

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
                .hint("only what is live is moved"));
        }
        for task in cx.tx.task_list(&workflow.id)? {
            let Some(held) = cx.tx.lease_get(task.id.as_str())?.filter(|lease| lease.holder.is_some()) else {
                continue;
            };
            if !self.force {
                let holder = lease::holder_name(cx, &held)?;
                return Err(Error::refused(format!("{holder} works on {}/{}", workflow.name, task.name))
                    .hint("wait until nobody does, or take it away with --force"));
            }
            if task.status == TaskStatus::InProgress {
                let why = "its workflow goes to another store";
                attempt::withdraw(cx, &task, TaskStatus::Pending, kind::TASK_RELEASED, why)?;
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
