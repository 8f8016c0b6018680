//! Plans the rest of a workflow anew. What is claimed, started or done stays, and what it waits for.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Effect, Operation};
use crate::engine::Cx;
use crate::error::{Error, Result};
use crate::id::TaskId;
use crate::model::{Dependency, DependencyKind, Task, TaskStatus, WorkflowStatus, kind};
use crate::work::plan::{self as plans, Graph, Plan, PlannedTask};
use crate::work::view::{self, WorkflowView};
use crate::work::{changes, described, find, progress};

/// Plans the rest of a workflow anew. What is claimed, started or done stays, and what it waits for.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReplanWorkflow {
    /// Which one: its id or name.
    pub workflow: String,
    /// The tasks that should be there, by name.
    pub plan: Plan,
    /// Why the plan changes.
    pub reason: String,
}

/// The answer to [`ReplanWorkflow`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Replanned {
    /// The workflow.
    pub workflow: WorkflowView,
    /// The names of tasks that are new.
    pub added: Vec<String>,
    /// The names of tasks that were changed.
    pub changed: Vec<String>,
    /// The names of tasks that are gone.
    pub removed: Vec<String>,
    /// The names of tasks that stay as they are.
    pub kept: Vec<String>,
}

impl Operation for ReplanWorkflow {
    const NAME: &'static str = "replan_workflow";
    const SUMMARY: &'static str = "Plan the rest of a workflow anew";
    const EFFECT: Effect = Effect::Write;
    type Answer = Replanned;

    fn run(self, cx: &mut Cx<'_>) -> Result<Replanned> {
        let workflow = find::workflow_to_change(cx, &self.workflow)?;
        if workflow.status.is_final() || workflow.status == WorkflowStatus::Planning {
            return Err(Error::conflict(format!(
                "workflow {} is {} and cannot be planned anew",
                workflow.name, workflow.status
            )));
        }
        if self.reason.trim().is_empty() {
            return Err(Error::invalid("planning anew needs a reason").hint("--reason TEXT"));
        }
        let tasks = cx.tx.task_list(&workflow.id)?;
        let dependencies = cx.tx.dependency_list(&workflow.id)?;
        let kept = kept(cx, &tasks, &dependencies)?;
        let kept_names: BTreeSet<String> =
            tasks.iter().filter(|task| kept.contains(&task.id)).map(|task| task.name.clone()).collect();
        let planned: Vec<PlannedTask> =
            self.plan.tasks.into_iter().filter(|task| !kept_names.contains(&task.name)).collect();
        if planned.is_empty() && kept.is_empty() {
            return Err(Error::invalid("a plan needs at least one task")
                .hint(format!("to end it: way workflow cancel {}", workflow.id)));
        }
        let names: BTreeMap<TaskId, String> = tasks.iter().map(|task| (task.id.clone(), task.name.clone())).collect();
        let mut graph = Graph::check(&planned, &kept_names)?;
        for task in tasks.iter().filter(|task| kept.contains(&task.id)) {
            let blocks = |dependency: &&Dependency| dependency.kind == DependencyKind::Blocks;
            let on = dependencies.iter().filter(|dependency| dependency.task_id == task.id).filter(blocks);
            graph.add(task.name.clone(), on.map(|dependency| names[&dependency.depends_on].clone()).collect());
        }
        graph.check_circles()?;

        let mut answer = (Vec::new(), Vec::new(), Vec::new());
        let wanted: BTreeSet<&str> = planned.iter().map(|task| task.name.as_str()).collect();
        for dependency in dependencies.iter().filter(|dependency| !kept.contains(&dependency.task_id)) {
            cx.tx.dependency_remove(&dependency.task_id, &dependency.depends_on)?;
            cx.event(kind::TASK_DEPENDENCY_REMOVED, dependency.task_id.as_str(), json!({ "before": dependency }))?;
        }
        for task in tasks.iter().filter(|task| !kept.contains(&task.id)) {
            if !wanted.contains(task.name.as_str()) {
                cx.tx.message_detach(&task.id)?;
                cx.tx.task_remove(&task.id)?;
                cx.event(kind::TASK_REMOVED, task.id.as_str(), json!({ "before": task }))?;
                answer.2.push(task.name.clone());
            }
        }
        let first = tasks.iter().map(|task| task.sequence).max().unwrap_or(0) + 1;
        let mut new = Vec::new();
        for (sequence, planned) in (first..).zip(&planned) {
            match tasks.iter().find(|task| task.name == planned.name) {
                Some(known) => {
                    let fresh = plans::task(cx, &workflow, planned, sequence)?;
                    let changed = Task {
                        id: known.id.clone(),
                        created_at: known.created_at,
                        assignee: known.assignee.clone(),
                        ..fresh
                    };
                    cx.change_task(kind::TASK_CHANGED, known, &changed, json!({ "reason": self.reason }))?;
                    answer.1.push(known.name.clone());
                }
                None => new.push((sequence, planned.clone())),
            }
        }
        for (sequence, planned) in &new {
            let task = plans::task(cx, &workflow, planned, *sequence)?;
            cx.tx.task_put(&task)?;
            cx.event(kind::TASK_ADDED, task.id.as_str(), json!({ "after": task }))?;
            answer.0.push(task.name.clone());
        }
        let now = cx.tx.task_list(&workflow.id)?;
        let ids: BTreeMap<String, TaskId> = now.iter().map(|task| (task.name.clone(), task.id.clone())).collect();
        for planned in &planned {
            if let Some(task) = now.iter().find(|task| task.name == planned.name) {
                plans::depend(cx, task, planned, &ids)?;
            }
        }
        let mut after = workflow.clone();
        after.updated_at = cx.now;
        after.summary = self.plan.summary.or(after.summary);
        after.max_parallel = self.plan.max_parallel.or(after.max_parallel);
        cx.tx.workflow_put(&after)?;
        let data = described(changes(&workflow, &after), json!({ "reason": self.reason }));
        cx.event(kind::WORKFLOW_REPLANNED, after.id.as_str(), data)?;
        progress::look(cx, &after.id)?;
        let after = find::workflow(cx, after.id.as_str())?;
        let (added, changed, removed) = answer;
        let kept = kept_names.into_iter().collect();
        Ok(Replanned { workflow: view::workflow(cx, after)?, added, changed, removed, kept })
    }
}

/// Returns what must stay: whatever was ever begun, and everything that it waits for.
fn kept(cx: &mut Cx<'_>, tasks: &[Task], dependencies: &[Dependency]) -> Result<BTreeSet<TaskId>> {
    let mut kept = BTreeSet::new();
    for task in tasks {
        let was_begun = task.status != TaskStatus::Pending
            || task.attempts > 0
            || task.started_at.is_some()
            || !cx.tx.checkpoint_list(&task.id, None, 1)?.is_empty();
        if was_begun {
            kept.insert(task.id.clone());
        }
    }
    let mut queue: Vec<_> = kept.iter().cloned().collect();
    while let Some(task) = queue.pop() {
        for dependency in dependencies.iter().filter(|dependency| dependency.task_id == task) {
            if kept.insert(dependency.depends_on.clone()) {
                queue.push(dependency.depends_on.clone());
            }
        }
    }
    Ok(kept)
}
