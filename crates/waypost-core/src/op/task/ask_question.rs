//! Asks a person a question about a claimed task. The task waits for the answer; its worker is free.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::{TaskStatus, kind};
use crate::op::{Access, Effect, JobAccess, Operation, StoreOperation};
use crate::work::view::{self, TaskView};
use crate::work::{agents, find, lease};

/// Asks a person a question about a claimed task. The task waits for the answer; its worker is free.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct AskQuestion {
    /// The task: its id, its name, or `workflow/name`.
    pub task: String,
    /// The workflow of the task, if the task's name alone is ambiguous.
    #[serde(default)]
    pub workflow: Option<String>,
    /// The epoch of the caller's lease.
    #[serde(default)]
    pub epoch: Option<u64>,
    /// The question.
    pub question: String,
}

impl Operation for AskQuestion {
    const NAME: &'static str = "ask_question";
    const SUMMARY: &'static str = "Ask a person a question about a task";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::AGENTS.with_jobs(JobAccess::OwnTask);
    type Answer = TaskView;
}

impl StoreOperation for AskQuestion {
    fn run(self, cx: &mut OpContext<'_>) -> Result<TaskView> {
        let mut agent = agents::find_or_register_caller(cx)?;
        let task = find::task(cx, &self.task, self.workflow.as_deref())?;
        let held = lease::require(cx, &task, &agent, self.epoch)?;
        if self.question.trim().is_empty() {
            return Err(Error::invalid("a question needs text").hint("--question TEXT"));
        }
        let (holder, epoch) = (held.holder.clone(), held.epoch);
        lease::end(cx, held)?;
        let mut after = task.clone();
        after.move_to(TaskStatus::WaitingInput, cx.now)?;
        after.question = Some(self.question);
        after.answer = None;
        cx.change_task(kind::TASK_ASKED, &task, &after, json!({ "agent": holder, "epoch": epoch }))?;
        agents::touch(cx, &mut agent)?;
        view::task(cx, after)
    }
}
