//! Assigns a task to an agent, or removes the assignment. Only the assignee may claim an assigned task.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::{MessageKind, Urgency, kind};
use crate::op::{Access, Effect, Operation, StoreOperation};
use crate::work::inbox::{self, Draft};
use crate::work::view::{self, TaskView};
use crate::work::{agents, find};

/// Assigns a task to an agent, or removes the assignment. Only the assignee may claim an assigned task.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AssignTask {
    /// The task: its id, its name, or `workflow/name`.
    pub task: String,
    /// The workflow of the task, if the task's name alone is ambiguous.
    #[serde(default)]
    pub workflow: Option<String>,
    /// The agent [default: none, so that every agent may claim the task].
    #[serde(default)]
    pub agent: Option<String>,
}

impl Operation for AssignTask {
    const NAME: &'static str = "assign_task";
    const SUMMARY: &'static str = "Assign a task to an agent";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::OWN_WORK;
    type Answer = TaskView;
}

impl StoreOperation for AssignTask {
    fn run(self, cx: &mut OpContext<'_>) -> Result<TaskView> {
        let caller = agents::caller(cx)?;
        let task = find::task_to_change(cx, &self.task, self.workflow.as_deref())?;
        if task.status.is_final() {
            return Err(Error::conflict(format!("task {} is {}", task.name, task.status)));
        }
        let assignee = self.agent.as_deref().map(|agent| find::agent(cx, agent)).transpose()?;
        if let Some(agent) = &assignee
            && agent.retired_at.is_some()
        {
            return Err(Error::conflict(format!("agent {} has retired", agent.name)));
        }
        if assignee.as_ref().is_none_or(|assignee| assignee.id != caller.id) {
            agents::require_coordinator(&caller, "assigning work to other agents")?;
        }
        let mut after = task.clone();
        after.assignee = assignee.as_ref().map(|agent| agent.id.clone());
        after.updated_at = cx.now;
        cx.change_task(kind::TASK_ASSIGNED, &task, &after, json!({}))?;
        if let Some(agent) = assignee.filter(|agent| agent.id != caller.id) {
            let draft = Draft {
                kind: MessageKind::TaskAssignment,
                priority: Urgency::Normal,
                subject: format!("{} is assigned to you", after.name),
                body: after.description.clone(),
                reply_to: None,
                workflow_id: Some(after.workflow_id.clone()),
                task_id: Some(after.id.clone()),
                expires_at: None,
            };
            inbox::send(cx, &caller, &agent.id, &draft)?;
        }
        view::task(cx, after)
    }
}
