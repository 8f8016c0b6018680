//! Adds one task to the plan of a workflow.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::{Dependency, DependencyKind, TaskStatus, WorkflowStatus, kind};
use crate::op::{Access, Effect, Operation, StoreOperation};
use crate::work::find;
use crate::work::plan::{self, Graph, PlannedTask};
use crate::work::view::{self, TaskView};

/// Adds one task to the plan of a workflow.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AddTask {
    /// The workflow: its id or name.
    pub workflow: String,
    /// The task.
    pub task: PlannedTask,
    /// The names of existing tasks that will depend on it.
    #[serde(default)]
    pub before: Vec<String>,
}

impl Operation for AddTask {
    const NAME: &'static str = "add_task";
    const SUMMARY: &'static str = "Add a task to a workflow";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::AGENTS;
    type Answer = TaskView;
}

impl StoreOperation for AddTask {
    fn run(self, cx: &mut OpContext<'_>) -> Result<TaskView> {
        let workflow = find::workflow_to_change(cx, &self.workflow)?;
        if workflow.status.is_final() {
            return Err(Error::conflict(format!("workflow {} is {}", workflow.name, workflow.status)));
        }
        let tasks = cx.tx.task_list(&workflow.id)?;
        if tasks.iter().any(|task| task.name == self.task.name) {
            return Err(Error::conflict(format!("workflow {} already has a task {}", workflow.name, self.task.name)));
        }
        let names: BTreeSet<String> = tasks.iter().map(|task| task.name.clone()).collect();
        let planned = std::slice::from_ref(&self.task);
        let mut graph = Graph::check(planned, &names)?;
        let ids: BTreeMap<_, _> = tasks.iter().map(|task| (task.id.clone(), task.name.clone())).collect();
        let mut on: BTreeMap<String, Vec<String>> = names.iter().map(|name| (name.clone(), Vec::new())).collect();
        for dependency in cx.tx.dependency_list(&workflow.id)? {
            if dependency.kind == DependencyKind::Blocks
                && let Some(list) = on.get_mut(&ids[&dependency.task_id])
            {
                list.push(ids[&dependency.depends_on].clone());
            }
        }
        for waiting in &self.before {
            match on.get_mut(waiting) {
                Some(list) => list.push(self.task.name.clone()),
                None => return Err(Error::not_found(format!("workflow {} has no task {waiting:?}", workflow.name))),
            }
        }
        for (name, on) in on {
            graph.add(name, on);
        }
        graph.check_cycles()?;
        let sequence = tasks.iter().map(|task| task.sequence).max().unwrap_or(0) + 1;
        let stored = plan::store(cx, &workflow, planned, sequence)?;
        let Some(task) = stored.into_iter().next() else {
            return Err(Error::internal("a stored task is missing"));
        };
        for waiting in tasks.iter().filter(|task| self.before.contains(&task.name)) {
            if waiting.status != TaskStatus::Pending {
                return Err(Error::conflict(format!(
                    "task {} is {} and cannot get a dependency",
                    waiting.name, waiting.status
                )));
            }
            let dependency =
                Dependency { task_id: waiting.id.clone(), depends_on: task.id.clone(), kind: DependencyKind::Blocks };
            cx.tx.dependency_put(&dependency)?;
            cx.event(kind::TASK_DEPENDENCY_ADDED, waiting.id.as_str(), json!({ "after": dependency }))?;
        }
        if workflow.status == WorkflowStatus::Planning {
            let mut after = workflow.clone();
            after.move_to(WorkflowStatus::Ready, cx.now)?;
            cx.change_workflow(kind::WORKFLOW_PLANNED, &workflow, &after)?;
        }
        view::task(cx, task)
    }
}
