//! Removes a task that was never started from its workflow. Its dependents inherit its dependencies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::{Dependency, DependencyKind, TaskStatus, kind};
use crate::op::{Access, Effect, Operation, StoreOperation};
use crate::work::view::{self, TaskView};
use crate::work::{find, progress};

/// Removes a task that was never started from its workflow. Its dependents inherit its dependencies.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RemoveTask {
    /// The task: its id, its name, or `workflow/name`.
    pub task: String,
    /// The workflow of the task, if the task's name alone is ambiguous.
    #[serde(default)]
    pub workflow: Option<String>,
}

impl Operation for RemoveTask {
    const NAME: &'static str = "remove_task";
    const SUMMARY: &'static str = "Remove a task from its workflow";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::OWN_WORK;
    type Answer = TaskView;
}

impl StoreOperation for RemoveTask {
    fn run(self, cx: &mut OpContext<'_>) -> Result<TaskView> {
        let task = find::task_to_change(cx, &self.task, self.workflow.as_deref())?;
        let was_begun = task.status != TaskStatus::Pending
            || task.attempts > 0
            || task.started_at.is_some()
            || cx.tx.checkpoint_last(&task.id)? > 0;
        if was_begun {
            return Err(Error::conflict(format!("task {} was started and cannot be removed", task.name))
                .hint(format!("way task skip {}", task.id)));
        }
        let others = cx.tx.task_count(&task.workflow_id)?.into_iter().map(|(_, count)| count).sum::<u64>();
        if others <= 1 {
            return Err(Error::conflict(format!("task {} is the only task of its workflow", task.name))
                .hint(format!("way workflow cancel {}", task.workflow_id)));
        }
        let seen = view::task(cx, task.clone())?;
        let all = cx.tx.dependency_list(&task.workflow_id)?;
        let (own, waiting): (Vec<_>, Vec<_>) = all
            .into_iter()
            .filter(|dependency| dependency.task_id == task.id || dependency.depends_on == task.id)
            .partition(|dependency| dependency.task_id == task.id);
        for dependency in own.iter().chain(&waiting) {
            cx.tx.dependency_remove(&dependency.task_id, &dependency.depends_on)?;
            cx.event(kind::TASK_DEPENDENCY_REMOVED, dependency.task_id.as_str(), json!({ "before": dependency }))?;
        }
        for dependency in &waiting {
            let has = cx.tx.dependency_list_of(&dependency.task_id)?;
            for through in own.iter().filter(|through| through.depends_on != dependency.task_id) {
                // A task that was only informed by the removed task does not become blocked by its dependencies.
                let blocks = [dependency.kind, through.kind].iter().all(|kind| *kind == DependencyKind::Blocks);
                let bridge = Dependency {
                    task_id: dependency.task_id.clone(),
                    depends_on: through.depends_on.clone(),
                    kind: if blocks { DependencyKind::Blocks } else { DependencyKind::Informs },
                };
                let known = has.iter().find(|known| known.depends_on == bridge.depends_on).map(|known| known.kind);
                if known.is_none() || (blocks && known == Some(DependencyKind::Informs)) {
                    cx.tx.dependency_put(&bridge)?;
                    cx.event(kind::TASK_DEPENDENCY_ADDED, bridge.task_id.as_str(), json!({ "after": bridge }))?;
                }
            }
        }
        cx.tx.message_detach(&task.id)?;
        cx.tx.task_remove(&task.id)?;
        cx.event(kind::TASK_REMOVED, task.id.as_str(), json!({ "before": task }))?;
        progress::complete_or_fail_workflow(cx, &task.workflow_id)?;
        Ok(seen)
    }
}
