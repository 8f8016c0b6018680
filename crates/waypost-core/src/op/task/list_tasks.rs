//! Lists tasks: those of one workflow in plan order, or those of all live workflows.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::{TaskId, WorkflowId, WorktreeId};
use crate::model::{Task, TaskStatus, Workflow, WorkflowQuery, WorkflowStatus};
use crate::op::{Effect, Operation, StoreOperation};
use crate::page::{self, Cursor};
use crate::time::Timestamp;
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
    /// The position after which the page begins: `next` of the page before.
    #[serde(default)]
    pub after: Option<Cursor<TaskPosition>>,
    /// The maximum number of results.
    #[serde(default = "page::default_limit")]
    #[schemars(range(min = 1))]
    pub limit: u32,
}

/// The position of a task in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TaskPosition {
    /// In [`ListTasks`]: the creation time and the id of its workflow, its place in the plan, and its id.
    Planned(Timestamp, WorkflowId, u32, TaskId),
    /// In [`ListNextTasks`](super::ListNextTasks): whether it is of another worktree, its priority, when it was queued, its place in
    /// the plan, and its id.
    Claimable(bool, u32, Timestamp, u32, TaskId),
}

/// The answer to [`ListTasks`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskList {
    /// The tasks.
    pub tasks: Vec<TaskView>,
    /// The number of tasks beyond the limit.
    pub more: u64,
    /// The position of the next page: `after` of the next call. Null on the last page.
    #[serde(default)]
    pub next: Option<Cursor<TaskPosition>>,
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
                limit: u32::MAX,
                ..WorkflowQuery::default()
            })?,
        };
        page::fetched(self.limit)?;
        let created: BTreeMap<WorkflowId, Timestamp> =
            workflows.iter().map(|workflow| (workflow.id.clone(), workflow.created_at)).collect();
        let key = |task: &TaskView| {
            let Task { id, workflow_id, sequence, .. } = &task.task;
            let created_at = created.get(workflow_id).copied().unwrap_or(Timestamp::NEVER);
            (Reverse((created_at, workflow_id.clone())), *sequence, id.clone())
        };
        let last = match self.after.clone() {
            None => None,
            Some(Cursor(TaskPosition::Planned(created_at, workflow, sequence, task))) => {
                Some((Reverse((created_at, workflow)), sequence, task))
            }
            Some(Cursor(TaskPosition::Claimable(..))) => return Err(Error::invalid("the cursor is of another list")),
        };
        // All tasks of a workflow that comes before that of the cursor were on earlier pages.
        let is_left = |workflow: &Workflow| {
            let position = |(of_workflow, ..): &(Reverse<(Timestamp, WorkflowId)>, u32, TaskId)| {
                Reverse((workflow.created_at, workflow.id.clone())) >= *of_workflow
            };
            last.as_ref().is_none_or(position)
        };
        let workflows: Vec<Workflow> = workflows.into_iter().filter(is_left).collect();
        let is_counted = !self.claimable && !self.here && scope.includes_all_repositories();
        let (read, uncounted) = if is_counted { self.split(cx, workflows)? } else { (workflows, 0) };
        let mut tasks = Vec::new();
        for task in view::tasks_in(cx, &read)? {
            let is_wanted = (self.statuses.is_empty() || self.statuses.contains(&task.task.status))
                && (!self.claimable || task.is_claimable)
                && scope.includes_repository(task.repository_id())
                && (!self.here || scope.includes(&here, &task.task, task.reach, task.repository_id()));
            if is_wanted && last.as_ref().is_none_or(|last| key(&task) > *last) {
                tasks.push(task);
            }
        }
        let found = tasks.len();
        let next = page::cut(&mut tasks, self.limit, |task| {
            let (Reverse((created_at, workflow)), sequence, id) = key(task);
            TaskPosition::Planned(created_at, workflow, sequence, id)
        });
        Ok(TaskList { more: (found - tasks.len()) as u64 + uncounted, tasks, next })
    }
}

impl ListTasks {
    /// Returns the first workflows, which have enough tasks for the page, and the number of tasks in the others. Counting
    /// tasks reads an index; showing them also reads what they depend on, and who holds them.
    fn split(&self, cx: &mut OpContext<'_>, mut workflows: Vec<Workflow>) -> Result<(Vec<Workflow>, u64)> {
        if workflows.len() <= 1 {
            return Ok((workflows, 0));
        }
        let ids: Vec<WorkflowId> = workflows.iter().map(|workflow| workflow.id.clone()).collect();
        let mut counts: BTreeMap<WorkflowId, u64> = BTreeMap::new();
        for (workflow, status, count) in cx.tx.task_count_in_workflows(&ids)? {
            if self.statuses.is_empty() || self.statuses.contains(&status) {
                *counts.entry(workflow).or_default() += count;
            }
        }
        let count = |workflow: &Workflow| counts.get(&workflow.id).copied().unwrap_or_default();
        // A part of the first workflow's tasks may have been on an earlier page. One more task shows that the page has a next.
        let (mut found, mut read) = (0, workflows.len().min(1));
        while read < workflows.len() && found <= u64::from(self.limit) {
            found += count(&workflows[read]);
            read += 1;
        }
        let others = workflows.split_off(read);
        Ok((workflows, others.iter().map(count).sum()))
    }
}
