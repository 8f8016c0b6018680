//! Replaces the rest of a workflow's plan. Started and finished tasks stay, and so do their dependencies.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::TaskId;
use crate::model::{Dependency, DependencyKind, Task, TaskStatus, Workflow, WorkflowStatus, kind};
use crate::op::{Access, Effect, Operation, StoreOperation};
use crate::work::plan::{self as plans, Graph, Plan, PlannedTask};
use crate::work::view::{self, WorkflowView};
use crate::work::{changes, described, find, progress};

/// Replaces the rest of a workflow's plan. Started and finished tasks stay, and so do their dependencies.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReplanWorkflow {
    /// The workflow: its id or name.
    pub workflow: String,
    /// The new plan. Tasks are matched by name.
    pub plan: Plan,
    /// The reason for the change.
    pub reason: String,
}

/// The answer to [`ReplanWorkflow`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Replanned {
    /// The workflow.
    pub workflow: WorkflowView,
    /// The names of added tasks.
    pub added: Vec<String>,
    /// The names of changed tasks.
    pub changed: Vec<String>,
    /// The names of removed tasks.
    pub removed: Vec<String>,
    /// The names of unchanged tasks.
    pub kept: Vec<String>,
}

impl Operation for ReplanWorkflow {
    const NAME: &'static str = "replan_workflow";
    const SUMMARY: &'static str = "Replace the rest of a workflow's plan";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::OWN_WORK;
    type Answer = Replanned;
}

impl StoreOperation for ReplanWorkflow {
    fn run(self, cx: &mut OpContext<'_>) -> Result<Replanned> {
        let workflow = find::workflow_to_change(cx, &self.workflow)?;
        if workflow.status.is_final() || workflow.status == WorkflowStatus::Planning {
            return Err(Error::conflict(format!(
                "workflow {} is {} and cannot be replanned",
                workflow.name, workflow.status
            )));
        }
        if self.reason.trim().is_empty() {
            return Err(Error::invalid("replanning needs a reason").hint("--reason TEXT"));
        }
        self.plan.check_base()?;
        let tasks = cx.tx.task_list(&workflow.id)?;
        let dependencies = cx.tx.dependency_list(&workflow.id)?;
        let kept = tasks_to_keep(cx, &tasks, &dependencies)?;
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
        graph.check_cycles()?;

        let (mut added, mut removed) = (Vec::new(), Vec::new());
        let planned_names: BTreeSet<&str> = planned.iter().map(|task| task.name.as_str()).collect();
        // The planned and the current dependencies of each task, by name.
        let needs: BTreeMap<&str, Needs> = planned.iter().map(|task| (task.name.as_str(), needs(task))).collect();
        let mut known_needs: BTreeMap<&str, Needs> = BTreeMap::new();
        for dependency in &dependencies {
            let on = names[&dependency.depends_on].clone();
            known_needs.entry(&names[&dependency.task_id]).or_default().insert(on, dependency.kind);
        }
        let waits_as_before = |name: &str| {
            needs.get(name).is_some_and(|wanted| *wanted == known_needs.get(name).cloned().unwrap_or_default())
        };
        let is_left = |dependency: &&Dependency| {
            kept.contains(&dependency.task_id) || waits_as_before(&names[&dependency.task_id])
        };
        for dependency in dependencies.iter().filter(|dependency| !is_left(dependency)) {
            cx.tx.dependency_remove(&dependency.task_id, &dependency.depends_on)?;
            cx.event(kind::TASK_DEPENDENCY_REMOVED, dependency.task_id.as_str(), json!({ "before": dependency }))?;
        }
        for task in tasks.iter().filter(|task| !kept.contains(&task.id)) {
            if !planned_names.contains(task.name.as_str()) {
                cx.tx.message_detach(&task.id)?;
                cx.tx.task_remove(&task.id)?;
                cx.event(kind::TASK_REMOVED, task.id.as_str(), json!({ "before": task }))?;
                removed.push(task.name.clone());
            }
        }
        let Rest { new, changed, unchanged } =
            carry_over(cx, &workflow, &tasks, &planned, &self.reason, &waits_as_before)?;
        for (sequence, planned) in &new {
            let task = plans::task(cx, &workflow, planned, *sequence)?;
            cx.tx.task_put(&task)?;
            cx.event(kind::TASK_ADDED, task.id.as_str(), json!({ "after": task }))?;
            added.push(task.name.clone());
        }
        let now = cx.tx.task_list(&workflow.id)?;
        let ids: BTreeMap<String, TaskId> = now.iter().map(|task| (task.name.clone(), task.id.clone())).collect();
        for planned in planned.iter().filter(|planned| !waits_as_before(&planned.name)) {
            if let Some(task) = now.iter().find(|task| task.name == planned.name) {
                plans::store_dependencies(cx, task, planned, &ids)?;
            }
        }
        let mut after = workflow.clone();
        after.updated_at = cx.now;
        after.summary = self.plan.summary.or(after.summary);
        after.max_parallel = self.plan.max_parallel.or(after.max_parallel);
        after.base = self.plan.base.or(after.base);
        cx.tx.workflow_put(&after)?;
        let data = described(changes(&workflow, &after), json!({ "reason": self.reason }));
        cx.event(kind::WORKFLOW_REPLANNED, after.id.as_str(), data)?;
        progress::complete_or_fail_workflow(cx, &after.id)?;
        let after = find::workflow(cx, after.id.as_str())?;
        let kept = kept_names.into_iter().chain(unchanged).collect::<BTreeSet<_>>().into_iter().collect();
        Ok(Replanned { workflow: view::workflow(cx, after)?, added, changed, removed, kept })
    }
}

/// The dependencies of a task, by name.
type Needs = BTreeMap<String, DependencyKind>;

fn needs(planned: &PlannedTask) -> Needs {
    // The stronger kind comes last, so that it wins if the plan names both.
    let informs = planned.informed_by.iter().map(|name| (name.clone(), DependencyKind::Informs));
    informs.chain(planned.depends_on.iter().map(|name| (name.clone(), DependencyKind::Blocks))).collect()
}

/// Returns whether a task matches the plan, apart from its position and times.
fn is_as_planned(known: &Task, planned: &Task) -> bool {
    let Task { sequence, updated_at, queued_at, due_at, .. } = known.clone();
    *known == Task { sequence, updated_at, queued_at, due_at, ..planned.clone() }
}

/// The planned tasks that were not started, by outcome.
#[derive(Default)]
struct Rest {
    /// New tasks, with their sequence numbers.
    new: Vec<(u32, PlannedTask)>,
    /// The names of changed tasks.
    changed: Vec<String>,
    /// The names of unchanged tasks.
    unchanged: Vec<String>,
}

/// Updates existing tasks to the new plan.
fn carry_over(
    cx: &mut OpContext<'_>,
    workflow: &Workflow,
    tasks: &[Task],
    planned: &[PlannedTask],
    reason: &str,
    waits_as_before: &dyn Fn(&str) -> bool,
) -> Result<Rest> {
    let mut rest = Rest::default();
    let mut highest = tasks.iter().map(|task| task.sequence).max().unwrap_or(0);
    let mut last = 0;
    for planned in planned {
        let known = tasks.iter().find(|task| task.name == planned.name);
        // Sequence numbers follow the plan; an existing task keeps its number if the order allows it.
        let sequence = match known {
            Some(known) if known.sequence > last => known.sequence,
            _ => {
                highest += 1;
                highest
            }
        };
        last = sequence;
        let Some(known) = known else {
            rest.new.push((sequence, planned.clone()));
            continue;
        };
        let fresh = plans::task(cx, workflow, planned, sequence)?;
        let fresh =
            Task { id: known.id.clone(), created_at: known.created_at, assignee: known.assignee.clone(), ..fresh };
        let is_same = is_as_planned(known, &fresh);
        let after = if is_same { Task { sequence, updated_at: cx.now, ..known.clone() } } else { fresh };
        if !is_same || known.sequence != sequence {
            cx.change_task(kind::TASK_CHANGED, known, &after, json!({ "reason": reason }))?;
        }
        let names = if is_same && waits_as_before(&known.name) { &mut rest.unchanged } else { &mut rest.changed };
        names.push(known.name.clone());
    }
    Ok(rest)
}

/// Returns the tasks that must stay: every started task and everything it depends on.
fn tasks_to_keep(cx: &mut OpContext<'_>, tasks: &[Task], dependencies: &[Dependency]) -> Result<BTreeSet<TaskId>> {
    let mut kept = BTreeSet::new();
    for task in tasks {
        let was_started = task.status != TaskStatus::Pending
            || task.attempts > 0
            || task.started_at.is_some()
            || cx.tx.checkpoint_last(&task.id)? > 0;
        if was_started {
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
