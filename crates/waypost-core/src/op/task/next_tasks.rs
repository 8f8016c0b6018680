//! Lists the tasks that the caller can claim: those of its own worktree first, each part in order of urgency.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::id::WorktreeId;
use crate::op::TaskList;
use crate::op::{Effect, Operation, StoreOperation};
use crate::work::claim::{self, Scope};
use crate::work::{agents, view};

/// Lists the tasks that the caller can claim: those of its own worktree first, each part in order of urgency.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NextTasks {
    /// Only tasks of this workflow.
    #[serde(default)]
    pub workflow: Option<String>,
    /// Only tasks planned in this worktree.
    #[serde(default)]
    pub worktree_id: Option<WorktreeId>,
    /// Only tasks of this repository: its id, name or path, or `all` [default: in a shared store, the caller's].
    #[serde(default)]
    pub repository: Option<String>,
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
        let NextTasks { workflow, worktree_id, repository, .. } = &self;
        let scope = Scope::of(cx, workflow.as_deref(), worktree_id.as_ref(), repository.as_deref())?;
        // An unregistered caller may claim tasks that require no capability.
        let agent = match agents::known_caller(cx)? {
            Some(agent) => agent,
            None => agents::unregistered(cx),
        };
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let tasks = claim::candidates(cx, &scope, &agent, limit)?;
        if tasks.is_empty() {
            return Err(claim::nothing_to_claim_error(cx, &scope)?);
        }
        let tasks = tasks.into_iter().map(|task| view::task(cx, task)).collect::<Result<_>>()?;
        Ok(TaskList { tasks, more: 0 })
    }
}
