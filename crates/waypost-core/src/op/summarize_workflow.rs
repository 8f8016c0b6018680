//! Tells in a few facts how far a workflow got.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, Operation};
use crate::context::OpContext;
use crate::error::Result;
use crate::model::TaskStatus;
use crate::work::find;
use crate::work::view::{self, TaskView, WorkflowView};

/// Tells in a few facts how far a workflow got.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SummarizeWorkflow {
    /// Which one: its id or name.
    pub workflow: String,
}

/// The answer to [`SummarizeWorkflow`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowSummary {
    /// The workflow.
    #[serde(flatten)]
    pub workflow: WorkflowView,
    /// How much is done, in percent, rounded down.
    pub percent: u64,
    /// How many tasks could be claimed now.
    pub claimable: u64,
    /// How many wait for others.
    pub blocked: u64,
    /// The longest chain of tasks that are not over and wait for each other, the first one first.
    pub critical_path: Vec<String>,
    /// The task that has been worked on for longest.
    pub oldest: Option<TaskView>,
    /// Tasks that ask a person something.
    pub questions: Vec<TaskView>,
    /// Tasks whose last attempt failed, and those that have none left.
    pub failed: Vec<TaskView>,
}

impl Operation for SummarizeWorkflow {
    const NAME: &'static str = "summarize_workflow";
    const SUMMARY: &'static str = "Tell how far a workflow got";
    const EFFECT: Effect = Effect::Read;
    type Answer = WorkflowSummary;

    fn run(self, cx: &mut OpContext<'_>) -> Result<WorkflowSummary> {
        let workflow = find::workflow(cx, &self.workflow)?;
        let tasks = view::tasks(cx, &workflow)?;
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
            workflow,
        })
    }
}

/// Returns the longest chain of tasks that are not over. Of equally long ones it is the first in the order of the plan.
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
    // A task comes once all that it waits for have come. The longest chain to each is known then.
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
