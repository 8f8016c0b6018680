//! Answers the question of a task. The task can then be claimed again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::{TaskStatus, kind};
use crate::op::{Effect, Operation, StoreOperation};
use crate::work::view::{self, TaskView};
use crate::work::{agents, find};

/// Answers the question of a task. The task can then be claimed again.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AnswerQuestion {
    /// The task: its id, its name, or `workflow/name`.
    pub task: String,
    /// The workflow of the task, if the task's name alone is ambiguous.
    #[serde(default)]
    pub workflow: Option<String>,
    /// The answer.
    pub answer: String,
}

impl Operation for AnswerQuestion {
    const NAME: &'static str = "answer_question";
    const SUMMARY: &'static str = "Answer the question of a task";
    const EFFECT: Effect = Effect::Write;
    type Answer = TaskView;
}

impl StoreOperation for AnswerQuestion {
    fn run(self, cx: &mut OpContext<'_>) -> Result<TaskView> {
        let agent = agents::caller(cx)?;
        agents::require_coordinator(&agent, "answering questions")?;
        let task = find::task_to_change(cx, &self.task, self.workflow.as_deref())?;
        if task.status != TaskStatus::WaitingInput {
            return Err(Error::conflict(format!("task {} is {} and has no open question", task.name, task.status)));
        }
        if self.answer.trim().is_empty() {
            return Err(Error::invalid("an answer needs text"));
        }
        let mut after = task.clone();
        after.move_to(TaskStatus::Pending, cx.now)?;
        after.answer = Some(self.answer);
        cx.change_task(kind::TASK_ANSWERED, &task, &after, json!({}))?;
        view::task(cx, after)
    }
}
