//! Lists the tasks that the caller can claim: those of its own worktree first, each part in order of urgency.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::WorktreeId;
use crate::model::Task;
use crate::op::{Effect, Operation, StoreOperation};
use crate::op::{TaskList, TaskPosition};
use crate::page::{self, Cursor};
use crate::work::claim::{self, Scope};
use crate::work::{agents, view};

/// Lists the tasks that the caller can claim: those of its own worktree first, each part in order of urgency.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListNextTasks {
    /// Only tasks of this workflow.
    #[serde(default)]
    pub workflow: Option<String>,
    /// Only tasks planned in this worktree.
    #[serde(default)]
    pub worktree_id: Option<WorktreeId>,
    /// Only tasks of this repository: its id, name or path, or `all` [default: in a shared store, the caller's].
    #[serde(default)]
    pub repository: Option<String>,
    /// The position after which the page begins: `next` of the page before. The order changes as tasks are claimed.
    #[serde(default)]
    pub after: Option<Cursor<TaskPosition>>,
    /// The maximum number of results.
    #[serde(default = "page::default_limit")]
    #[schemars(range(min = 1))]
    pub limit: u32,
}

impl Operation for ListNextTasks {
    const NAME: &'static str = "list_next_tasks";
    const SUMMARY: &'static str = "List the tasks that the caller can claim";
    const EFFECT: Effect = Effect::Read;
    type Answer = TaskList;
}

impl StoreOperation for ListNextTasks {
    fn run(self, cx: &mut OpContext<'_>) -> Result<TaskList> {
        let ListNextTasks { workflow, worktree_id, repository, .. } = &self;
        let scope = Scope::of(cx, workflow.as_deref(), worktree_id.as_ref(), repository.as_deref())?;
        // An unregistered caller may claim tasks that require no capability.
        let agent = match agents::known_caller(cx)? {
            Some(agent) => agent,
            None => agents::unregistered(cx),
        };
        let last = match self.after {
            None => None,
            Some(Cursor(TaskPosition::Claimable(is_elsewhere, priority, queued_at, sequence, id))) => {
                Some((is_elsewhere, priority, queued_at, sequence, id))
            }
            Some(Cursor(TaskPosition::Planned(..))) => return Err(Error::invalid("the cursor is of another list")),
        };
        let here = cx.caller.worktree.id.clone();
        let key = |task: &Task| {
            let is_elsewhere = scope.prefers_own_worktree() && task.worktree_id != here;
            (is_elsewhere, task.priority, task.queued_at, task.sequence, task.id.clone())
        };
        // Earlier pages are found again: a claim may have changed which tasks they have.
        let fetched = page::fetched(self.limit)?;
        let fetched = if last.is_some() { usize::MAX } else { usize::try_from(fetched).unwrap_or(usize::MAX) };
        let mut tasks = claim::candidates(cx, &scope, &agent, fetched)?;
        if tasks.is_empty() && last.is_none() {
            return Err(claim::nothing_to_claim_error(cx, &scope)?);
        }
        page::skip(&mut tasks, last.map(Cursor).as_ref(), key);
        let next = page::cut(&mut tasks, self.limit, |task| {
            let (is_elsewhere, priority, queued_at, sequence, id) = key(task);
            TaskPosition::Claimable(is_elsewhere, priority, queued_at, sequence, id)
        });
        let tasks = tasks.into_iter().map(|task| view::task(cx, task)).collect::<Result<_>>()?;
        Ok(TaskList { tasks, more: 0, next })
    }
}
