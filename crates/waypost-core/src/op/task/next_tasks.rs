//! Lists the tasks that the caller can claim, the most urgent first.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::op::TaskList;
use crate::op::{Effect, Operation, StoreOperation};
use crate::work::{agents, claim, find, view};

/// Lists the tasks that the caller can claim, the most urgent first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NextTasks {
    /// Only tasks of this workflow.
    #[serde(default)]
    pub workflow: Option<String>,
    /// The maximum number of results.
    pub limit: u32,
}

impl Operation for NextTasks {
    const NAME: &'static str = "next_tasks";
    const SUMMARY: &'static str = "List the tasks that the caller can claim";
    const EFFECT: Effect = Effect::Read;
    type Answer = TaskList;
}

impl StoreOperation for NextTasks {
    fn run(self, cx: &mut OpContext<'_>) -> Result<TaskList> {
        let workflow = self.workflow.as_deref().map(|reference| find::workflow(cx, reference)).transpose()?;
        // An unregistered caller may claim tasks that require no capability.
        let agent = match agents::known_caller(cx)? {
            Some(agent) => agent,
            None => agents::unregistered(cx),
        };
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let tasks = claim::candidates(cx, workflow.as_ref(), &[], &agent, limit)?;
        if tasks.is_empty() {
            return Err(claim::nothing_to_claim_error(cx, workflow.as_ref())?);
        }
        let tasks = tasks.into_iter().map(|task| view::task(cx, task)).collect::<Result<_>>()?;
        Ok(TaskList { tasks, more: 0 })
    }
}
