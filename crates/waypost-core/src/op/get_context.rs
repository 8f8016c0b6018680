//! Packs what whoever works on a task has to know.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, Operation};
use crate::context::OpContext;
use crate::error::Result;
use crate::work::context::{self, Context};
use crate::work::{agents, find};

/// Packs what whoever works on a task has to know.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct GetContext {
    /// Which one: its id, its name, or `workflow/name`.
    pub task: String,
    /// The workflow it is in, if its name alone does not say.
    #[serde(default)]
    pub workflow: Option<String>,
    /// How many tokens it may have.
    #[serde(default)]
    pub budget: Option<u32>,
}

impl Operation for GetContext {
    const NAME: &'static str = "get_context";
    const SUMMARY: &'static str = "Pack what to know about a task";
    const EFFECT: Effect = Effect::Read;
    type Answer = Context;

    fn run(self, cx: &mut OpContext<'_>) -> Result<Context> {
        let task = find::task(cx, &self.task, self.workflow.as_deref())?;
        let reader = agents::known_caller(cx)?.map(|agent| agent.id);
        context::pack(cx, &task, reader.as_ref(), self.budget.unwrap_or(context::DEFAULT_BUDGET))
    }
}
