//! Lists tasks: those of one workflow in plan order, or those of all live workflows.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::{TaskId, WorkflowId, WorktreeId};
use crate::model::{PlanPart, TaskStatus, Workflow, WorkflowQuery, WorkflowStatus};
use crate::op::{Effect, Operation, StoreOperation};
use crate::page::{self, Cursor};
use crate::time::Timestamp;
use crate::work::claim::Scope;
use crate::work::find::{self, ALL_REPOSITORIES};
use crate::work::lease::Names;
use crate::work::view::{self, TaskView};

/// The largest number of tasks beyond the limit that is counted exactly: a list takes the same time in a store of any size.
pub const MAX_COUNTED_TASKS: u64 = 1_000;

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
    /// The number of tasks beyond the limit; 1,000 if there are more.
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
        page::fetched(self.limit)?;
        if let Some(Cursor(TaskPosition::Claimable(..))) = &self.after {
            return Err(Error::invalid("the cursor is of another list"));
        }
        let any = (!self.here).then_some(ALL_REPOSITORIES);
        let scope = Scope::of(cx, None, self.worktree_id.as_ref(), self.repository.as_deref().or(any))?;
        // Without a limit all tasks are read in any case, and all workflows at once need the fewest statements.
        let is_plain = self.limit < u32::MAX && !self.claimable && !self.here && scope.includes_all_repositories();
        let Found { workflows, mut tasks, counted } =
            if is_plain { self.read_page(cx)? } else { self.read_all(cx, &scope)? };
        let next = page::cut(&mut tasks, self.limit, |TaskView { task, .. }| {
            let created_at = workflows.get(&task.workflow_id).map_or(Timestamp::NEVER, |workflow| workflow.created_at);
            TaskPosition::Planned(created_at, task.workflow_id.clone(), task.sequence, task.id.clone())
        });
        let more = (counted - tasks.len() as u64).min(MAX_COUNTED_TASKS);
        Ok(TaskList { tasks, more, next })
    }
}

/// The tasks from the beginning of a page on.
struct Found {
    /// Their workflows.
    workflows: BTreeMap<WorkflowId, Workflow>,
    /// Those of the page and at least one more, if there is one.
    tasks: Vec<TaskView>,
    /// Their number, at least up to [`MAX_COUNTED_TASKS`] after the page.
    counted: u64,
}

impl ListTasks {
    /// Reads all tasks, for a list without a limit, or with a filter that depends on more than a task.
    fn read_all(&self, cx: &mut OpContext<'_>, scope: &Scope) -> Result<Found> {
        let mut workflows = self.workflows_from_cursor(cx)?;
        let last = workflows.last().map(|workflow| Cursor((workflow.created_at, workflow.id.clone())));
        workflows.extend(self.workflows_after(cx, last, u32::MAX)?);
        let here = cx.caller.worktree.id.clone();
        let mut tasks = view::tasks_in(cx, &workflows)?;
        tasks.retain(|view| {
            let TaskView { task, reach, is_claimable, .. } = view;
            (self.statuses.is_empty() || self.statuses.contains(&task.status))
                && (!self.claimable || *is_claimable)
                && scope.includes_repository(view.repository_id())
                && (!self.here || scope.includes(&here, task, *reach, view.repository_id()))
                && self.position_in(&task.workflow_id).is_none_or(|last| (task.sequence, task.id.clone()) > last)
        });
        Ok(Found { workflows: by_id(workflows), counted: tasks.len() as u64, tasks })
    }

    /// Reads the tasks of the page and one more, and counts those after them, until their number is large enough. Neither
    /// depends on how many workflows and tasks there are.
    fn read_page(&self, cx: &mut OpContext<'_>) -> Result<Found> {
        let wanted = u64::from(self.limit) + 1;
        let (mut workflows, mut tasks, mut counted) = (Vec::new(), Vec::new(), 0);
        // A workflow can have any number of tasks: few statements count many small ones, and not too many large ones.
        let (mut chunk, mut asked) = (self.workflows_from_cursor(cx)?, 1_u32);
        loop {
            let mut parts = Vec::new();
            for (workflow, count) in self.count(cx, &chunk)? {
                if count > 0 && counted < wanted {
                    parts.push(self.part(workflow, wanted - counted));
                }
                counted += count;
            }
            cx.tx.prefetch(&mut |tx| parts.iter().try_for_each(|part| tx.task_list_part(part).map(drop)))?;
            for part in &parts {
                tasks.extend(cx.tx.task_list_part(part)?);
            }
            let is_last = asked > 1 && chunk.len() < asked as usize;
            workflows.append(&mut chunk);
            if is_last || counted >= wanted.saturating_add(MAX_COUNTED_TASKS) {
                break;
            }
            asked = asked.saturating_mul(2);
            let last = workflows.last().map(|last: &Workflow| Cursor((last.created_at, last.id.clone())));
            chunk = self.workflows_after(cx, last, asked)?;
        }
        let workflows = by_id(workflows);
        let names = Names::of(&cx.tx.agent_list()?);
        Ok(Found { tasks: view::some_tasks(cx, tasks, &workflows, &names)?, workflows, counted })
    }

    /// Returns the workflow that the list is limited to, or else that of the cursor, in which the page begins.
    fn workflows_from_cursor(&self, cx: &mut OpContext<'_>) -> Result<Vec<Workflow>> {
        if let Some(reference) = &self.workflow {
            return Ok(vec![find::workflow(cx, reference)?]);
        }
        let Some(Cursor(TaskPosition::Planned(_, workflow, ..))) = &self.after else { return Ok(Vec::new()) };
        let is_listed = |workflow: &Workflow| {
            !workflow.status.is_final() && self.worktree_id.as_ref().is_none_or(|id| workflow.worktree_id == *id)
        };
        Ok(cx.tx.workflow_get(workflow)?.filter(is_listed).into_iter().collect())
    }

    /// Returns the next live workflows, newest first: those after the last one, or else after that of the cursor.
    fn workflows_after(
        &self,
        cx: &mut OpContext<'_>,
        last: Option<Cursor<(Timestamp, WorkflowId)>>,
        limit: u32,
    ) -> Result<Vec<Workflow>> {
        if self.workflow.is_some() {
            return Ok(Vec::new());
        }
        let of_cursor = || match &self.after {
            Some(Cursor(TaskPosition::Planned(created_at, workflow, ..))) => {
                Some(Cursor((*created_at, workflow.clone())))
            }
            _ => None,
        };
        cx.tx.workflow_list(&WorkflowQuery {
            statuses: WorkflowStatus::ALL.iter().copied().filter(|status| !status.is_final()).collect(),
            worktree_id: self.worktree_id.clone(),
            after: last.or_else(of_cursor),
            limit,
            ..WorkflowQuery::default()
        })
    }

    /// Returns the number of tasks of each workflow that are not on earlier pages, in the same order.
    fn count(&self, cx: &mut OpContext<'_>, workflows: &[Workflow]) -> Result<Vec<(WorkflowId, u64)>> {
        let ids: Vec<WorkflowId> = workflows.iter().map(|workflow| workflow.id.clone()).collect();
        if let [only] = ids.as_slice()
            && self.position_in(only).is_some()
        {
            return Ok(vec![(only.clone(), cx.tx.task_count_part(&self.part(only.clone(), u64::MAX))?)]);
        }
        let mut counts: BTreeMap<WorkflowId, u64> = BTreeMap::new();
        let counted = if ids.is_empty() { Vec::new() } else { cx.tx.task_count_in_workflows(&ids)? };
        for (workflow, status, count) in counted {
            if self.statuses.is_empty() || self.statuses.contains(&status) {
                *counts.entry(workflow).or_default() += count;
            }
        }
        Ok(ids.into_iter().map(|id| (id.clone(), counts.get(&id).copied().unwrap_or_default())).collect())
    }

    /// Returns the next tasks of a workflow.
    fn part(&self, workflow: WorkflowId, limit: u64) -> PlanPart {
        PlanPart {
            statuses: self.statuses.clone(),
            after: self.position_in(&workflow),
            limit: u32::try_from(limit).unwrap_or(u32::MAX),
            workflow_id: workflow,
        }
    }

    /// Returns the last task of the page before, if it was of this workflow.
    fn position_in(&self, workflow: &WorkflowId) -> Option<(u32, TaskId)> {
        match &self.after {
            Some(Cursor(TaskPosition::Planned(_, of, sequence, task))) if of == workflow => {
                Some((*sequence, task.clone()))
            }
            _ => None,
        }
    }
}

fn by_id(workflows: Vec<Workflow>) -> BTreeMap<WorkflowId, Workflow> {
    workflows.into_iter().map(|workflow| (workflow.id.clone(), workflow)).collect()
}
