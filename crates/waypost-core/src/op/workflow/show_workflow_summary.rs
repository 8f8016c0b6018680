//! Summarizes the progress of a workflow.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::model::TaskStatus;
use crate::op::{Effect, Operation, StoreOperation};
use crate::tree;
use crate::work::find;
use crate::work::timeline::{self, TaskTimes};
use crate::work::view::{self, TaskView, WorkflowView};

/// Summarizes the progress of a workflow.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ShowWorkflowSummary {
    /// The workflow: its id or name.
    pub workflow: String,
}

/// The answer to [`ShowWorkflowSummary`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowSummary {
    /// The workflow.
    #[serde(flatten, deserialize_with = "tree::flattened")]
    pub workflow: WorkflowView,
    /// The progress in percent, rounded down.
    pub percent: u64,
    /// The number of tasks that can be claimed now.
    pub claimable: u64,
    /// The number of tasks that wait for others.
    pub blocked: u64,
    /// The longest dependency chain of open tasks, in order of execution.
    pub critical_path: Vec<String>,
    /// The task that has been in progress for the longest time.
    pub oldest: Option<TaskView>,
    /// Tasks that wait for an answer from a person.
    pub questions: Vec<TaskView>,
    /// Tasks whose last attempt failed, including those without attempts left.
    pub failed: Vec<TaskView>,
    /// Where the time of each task went, in plan order.
    #[serde(default)]
    pub timeline: Vec<TaskTimes>,
}

impl Operation for ShowWorkflowSummary {
    const NAME: &'static str = "show_workflow_summary";
    const SUMMARY: &'static str = "Summarize the progress of a workflow";
    const EFFECT: Effect = Effect::Read;
    type Answer = WorkflowSummary;
}

impl StoreOperation for ShowWorkflowSummary {
    fn run(self, cx: &mut OpContext<'_>) -> Result<WorkflowSummary> {
        let workflow = find::workflow(cx, &self.workflow)?;
        let tasks = view::tasks(cx, &workflow)?;
        let timeline = timeline::of_workflow(cx, &workflow, &tasks)?;
        let workflow = view::workflow(cx, workflow)?;
        let of = |statuses: &[TaskStatus]| -> Vec<TaskView> {
            tasks.iter().filter(|task| statuses.contains(&task.task.status)).cloned().collect()
        };
        let count = |is_meant: fn(&TaskView) -> bool| tasks.iter().filter(|task| is_meant(task)).count() as u64;
        Ok(WorkflowSummary {
            percent: (workflow.done * 100).checked_div(workflow.total).unwrap_or(0),
            claimable: count(|task| task.is_claimable),
            blocked: count(|task| !task.blocked_by.is_empty()),
            critical_path: critical_path(&tasks),
            oldest: of(&[TaskStatus::InProgress]).into_iter().min_by_key(|task| task.task.started_at),
            questions: of(&[TaskStatus::WaitingInput]),
            failed: of(&[TaskStatus::Dead, TaskStatus::Failed]),
            timeline,
            workflow,
        })
    }
}

/// Returns the longest dependency chain of open tasks; of equally long ones, the first in plan order.
fn critical_path(tasks: &[TaskView]) -> Vec<String> {
    let open: BTreeMap<&str, &TaskView> =
        tasks.iter().filter(|task| !task.task.status.is_final()).map(|task| (task.task.name.as_str(), task)).collect();
    let blockers = |task: &TaskView| task.blocked_by.iter().filter_map(|name| open.get(name.as_str())).count();
    let mut waiting: BTreeMap<&str, usize> = open.iter().map(|(name, task)| (*name, blockers(task))).collect();
    let mut dependents: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, task) in &open {
        for blocker in task.blocked_by.iter().filter_map(|blocker| open.get_key_value(blocker.as_str())) {
            dependents.entry(blocker.0).or_default().push(name);
        }
    }
    // Topological order: all blockers of a task come before it, so the longest chain to the task is known then.
    let mut chains: BTreeMap<&str, (usize, Option<&str>)> = BTreeMap::new();
    let mut free: Vec<&str> = waiting.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect();
    while let Some(name) = free.pop() {
        let length = chains.entry(name).or_insert((1, None)).0;
        for dependent in dependents.remove(name).unwrap_or_default() {
            let chain = chains.entry(dependent).or_insert((1, None));
            if chain.0 < length + 1 {
                *chain = (length + 1, Some(name));
            }
            if let Some(count) = waiting.get_mut(dependent) {
                *count -= 1;
                if *count == 0 {
                    free.push(dependent);
                }
            }
        }
    }
    let length = |task: &&TaskView| chains.get(task.task.name.as_str()).map_or(0, |(length, _)| *length);
    let longest = open.values().map(&length).max().unwrap_or(0);
    let last = open.values().filter(|task| length(task) == longest).min_by_key(|task| task.task.sequence);
    let mut path = Vec::new();
    let mut next = last.map(|task| task.task.name.as_str());
    while let Some(name) = next {
        path.push(name.to_owned());
        next = chains.get(name).and_then(|(_, before)| *before);
    }
    path.reverse();
    path
}
