//! Lists tasks: those of one workflow in plan order, or those of all live workflows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::id::WorktreeId;
use crate::model::{TaskStatus, WorkflowQuery, WorkflowStatus};
use crate::op::{Effect, Operation, StoreOperation};
use crate::work::claim::Scope;
use crate::work::find::{self, ALL_REPOSITORIES};
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
    /// Only tasks of this repository: its id, name or path [default: of all repositories].
    #[serde(default)]
    pub repository: Option<String>,
    /// Only tasks that a claim without a name takes in the caller's worktree, now or later.
    #[serde(default)]
    pub here: bool,
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
        let any = (!self.here).then_some(ALL_REPOSITORIES);
        let scope = Scope::of(cx, None, self.worktree_id.as_ref(), self.repository.as_deref().or(any))?;
        let here = cx.caller.worktree.id.clone();
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
                && (!self.claimable || task.is_claimable)
                && scope.includes_repository(task.repository_id())
                && (!self.here || scope.includes(&here, &task.task, task.reach, task.repository_id()));
            if is_wanted && tasks.len() < limit {
                tasks.push(task);
            } else if is_wanted {
                more += 1;
            }
        }
        Ok(TaskList { tasks, more })
    }
}
