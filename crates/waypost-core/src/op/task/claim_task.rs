//! Claims a task and returns its context.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::id::WorktreeId;
use crate::model::Lease;
use crate::op::{Access, Effect, IssueEffect, IssuesOf, ListNextTasks, Operation, StoreOperation};
use crate::work::claim::{self, Scope};
use crate::work::context::{self, Context};
use crate::work::view::{self, TaskView};
use crate::work::{agents, find};

/// Claims a task and returns its context.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ClaimTask {
    /// The task [default: the most urgent task that the caller may claim, of its own worktree first].
    #[serde(default)]
    pub task: Option<String>,
    /// Only a task of this workflow.
    #[serde(default)]
    pub workflow: Option<String>,
    /// Only a task planned in this worktree.
    #[serde(default)]
    pub worktree_id: Option<WorktreeId>,
    /// Only a task of this repository: its id, name or path, or `all` [default: in a shared store, the caller's].
    #[serde(default)]
    pub repository: Option<String>,
    /// How long the lease lasts after each renewal, in milliseconds.
    #[serde(default)]
    pub ttl_ms: Option<u64>,
    /// The token budget of the context.
    #[serde(default)]
    pub budget: Option<u32>,
}

/// The answer to [`ClaimTask`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Claimed {
    /// The task.
    pub task: TaskView,
    /// The lease. Every later write on the task needs its epoch.
    pub lease: Lease,
    /// The context of the task.
    pub context: Context,
}

impl Operation for ClaimTask {
    const NAME: &'static str = "claim_task";
    const SUMMARY: &'static str = "Claim a task";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::AGENTS;
    type Answer = Claimed;
}

impl StoreOperation for ClaimTask {
    const ISSUES: Option<IssuesOf<Claimed>> =
        Some(|claimed| claimed.task.task.issue.as_deref().map(IssueEffect::Claimed));
    const READ_FIRST: Option<fn(&ClaimTask) -> Option<ListNextTasks>> = Some(|claim| {
        let ClaimTask { workflow, worktree_id, repository, .. } = claim.clone();
        claim.task.is_none().then_some(ListNextTasks { workflow, worktree_id, repository, after: None, limit: 1 })
    });

    fn run(self, cx: &mut OpContext<'_>) -> Result<Claimed> {
        let mut agent = agents::find_or_register_caller(cx)?;
        let (task, lease) = if let Some(reference) = &self.task {
            let repositories = find::chosen_repositories(cx, self.repository.as_deref())?;
            let task = find::task_to_claim(cx, reference, self.workflow.as_deref(), &repositories)?;
            claim::task(cx, &task, &mut agent, self.ttl_ms)?
        } else {
            let ClaimTask { workflow, worktree_id, repository, .. } = &self;
            let scope = Scope::of(cx, workflow.as_deref(), worktree_id.as_ref(), repository.as_deref())?;
            claim::next(cx, &scope, &mut agent, self.ttl_ms)?
        };
        let context = context::pack(cx, &task, Some(&agent.id), self.budget.unwrap_or(context::DEFAULT_BUDGET))?;
        Ok(Claimed { task: view::task(cx, task)?, lease, context })
    }
}
