//! Builds the context of a task, within a token budget.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::op::{Effect, Operation, StoreOperation};
use crate::work::context::{self, Context};
use crate::work::{agents, find};

/// Builds the context of a task, within a token budget.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ShowContext {
    /// The task: its id, its name, or `workflow/name`.
    pub task: String,
    /// The workflow of the task, if the task's name alone is ambiguous.
    #[serde(default)]
    pub workflow: Option<String>,
    /// Only a task of this repository: its id, name or path.
    #[serde(default)]
    pub repository: Option<String>,
    /// The token budget.
    #[serde(default)]
    pub budget: Option<u32>,
}

impl Operation for ShowContext {
    const NAME: &'static str = "show_context";
    const SUMMARY: &'static str = "Show the context of a task";
    const EFFECT: Effect = Effect::Read;
    type Answer = Context;
}

impl StoreOperation for ShowContext {
    fn run(self, cx: &mut OpContext<'_>) -> Result<Context> {
        let repositories = find::chosen_repositories(cx, self.repository.as_deref())?;
        let task = find::task_in(cx, &self.task, self.workflow.as_deref(), &repositories)?;
        let reader = agents::known_caller(cx)?.map(|agent| agent.id);
        context::pack(cx, &task, reader.as_ref(), self.budget.unwrap_or(context::DEFAULT_BUDGET))
    }
}
