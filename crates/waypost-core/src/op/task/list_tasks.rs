//! Lists tasks: those of one workflow in plan order, or those of all live workflows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::WorktreeId;
use crate::model::{TaskStatus, WorkflowQuery, WorkflowStatus};
use crate::op::{Effect, Operation, StoreOperation};
use crate::work::find;
use crate::work::view::{self, TaskView};

/// Lists tasks: those of one workflow in plan order, or those of all live workflows.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListTasks {
    /// Only tasks of this workflow.
    #[serde(default)]
    pub workflow: Option<String>,
    /// Only tasks with one of these statuses.
    #[serde(default)]
    pub statuses: Vec<TaskStatus>,
    /// Only tasks that can be claimed now.
    #[serde(default)]
    pub claimable: bool,
    /// Only tasks of workflows created in this worktree.
    #[serde(default)]
    pub worktree_id: Option<WorktreeId>,
    /// The maximum number of results.
    pub limit: u32,
}

/// The answer to [`ListTasks`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskList {
    /// The tasks.
    pub tasks: Vec<TaskView>,
    /// The number of tasks beyond the limit.
    pub more: u64,
}

impl Operation for ListTasks {
    const NAME: &'static str = "list_tasks";
    const SUMMARY: &'static str = "List tasks";
    const EFFECT: Effect = Effect::Read;
    type Answer = TaskList;
}

impl StoreOperation for ListTasks {
    fn run(self, cx: &mut OpContext<'_>) -> Result<TaskList> {
        if let Some(id) = &self.worktree_id
            && cx.tx.worktree_get(id)?.is_none()
        {
            return Err(Error::not_found(format!("no worktree {id}")));
        }
        let workflows = match &self.workflow {
            Some(reference) => vec![find::workflow(cx, reference)?],
            None => cx.tx.workflow_list(&WorkflowQuery {
                statuses: WorkflowStatus::ALL.iter().copied().filter(|status| !status.is_final()).collect(),
                worktree_id: self.worktree_id.clone(),
                limit: 1_000,
                ..WorkflowQuery::default()
            })?,
        };
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let (mut tasks, mut more) = (Vec::new(), 0);
        for task in view::tasks_in(cx, &workflows)? {
            let is_wanted = (self.statuses.is_empty() || self.statuses.contains(&task.task.status))
                && (!self.claimable || task.is_claimable);
            if is_wanted && tasks.len() < limit {
                tasks.push(task);
            } else if is_wanted {
                more += 1;
            }
        }
        Ok(TaskList { tasks, more })
    }
}
