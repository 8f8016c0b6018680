//! Lists workspaces.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::id::{WorkspaceId, WorktreeId};
use crate::model::{JobStatus, Workspace, WorkspaceQuery};
use crate::op::{Effect, Operation, StoreOperation};
use crate::page::{self, Cursor};
use crate::time::Timestamp;
use crate::tree;
use crate::work::find;
use crate::work::places::{Places, WorktreeSummary};

/// The default number of workspaces in a list.
const DEFAULT_LIMIT: u32 = 1000;

/// Lists workspaces.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListWorkspaces {
    /// Only workspaces on this machine.
    #[serde(default)]
    pub machine: Option<String>,
    /// Include removed workspaces.
    #[serde(default)]
    pub all: bool,
    /// Only workspaces that were requested from this worktree, or whose job works on its tasks.
    #[serde(default)]
    pub worktree_id: Option<WorktreeId>,
    /// Only workspaces of this repository: its id, name or path.
    #[serde(default)]
    pub repository: Option<String>,
    /// The position after which the page begins: `next` of the page before.
    #[serde(default)]
    pub after: Option<Cursor<(Timestamp, WorkspaceId)>>,
    /// The maximum number of results.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub limit: Option<u32>,
}

/// The answer to [`ListWorkspaces`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceList {
    /// The workspaces, newest first.
    pub workspaces: Vec<WorkspaceView>,
    /// The position of the next page: `after` of the next call. Null on the last page.
    #[serde(default)]
    pub next: Option<Cursor<(Timestamp, WorkspaceId)>>,
}

/// A workspace, with its repository, task and job status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceView {
    /// The workspace.
    #[serde(flatten, deserialize_with = "tree::flattened")]
    pub workspace: Workspace,
    /// The name of its repository.
    pub repository: String,
    /// The status of its job.
    pub job_status: Option<JobStatus>,
    /// The name of the task that its job works on.
    pub task: Option<String>,
    /// The worktree it was requested from.
    #[serde(default)]
    pub worktree: Option<WorktreeSummary>,
}

impl WorkspaceView {
    pub(crate) fn of(cx: &mut OpContext<'_>, workspace: Workspace) -> Result<WorkspaceView> {
        let repository = cx.tx.repository_get(&workspace.repository_id)?;
        let repository = repository.map_or_else(|| workspace.repository_id.to_string(), |repository| repository.name);
        let job = workspace.job_id.as_ref().map(|id| cx.tx.job_get(id)).transpose()?.flatten();
        let task =
            job.as_ref().and_then(|job| job.task_id.as_ref()).map(|id| cx.tx.task_get(id)).transpose()?.flatten();
        let worktree = Places::of(cx, &workspace.worktree_id, None)?.worktree(&workspace.worktree_id);
        Ok(WorkspaceView {
            workspace,
            worktree,
            repository,
            job_status: job.map(|job| job.status),
            task: task.map(|task| task.name),
        })
    }
}

impl Operation for ListWorkspaces {
    const NAME: &'static str = "list_workspaces";
    const SUMMARY: &'static str = "List workspaces";
    const EFFECT: Effect = Effect::Read;
    type Answer = WorkspaceList;
}

impl StoreOperation for ListWorkspaces {
    const DEPENDS_ON_JOBS: bool = true;

    fn run(self, cx: &mut OpContext<'_>) -> Result<WorkspaceList> {
        find::check_worktree(cx, self.worktree_id.as_ref())?;
        let limit = self.limit.unwrap_or(DEFAULT_LIMIT);
        let query = WorkspaceQuery {
            worktree_id: self.worktree_id,
            repositories: find::chosen_repositories(cx, self.repository.as_deref())?,
            machine: self.machine,
            job_id: None,
            all: self.all,
            after: self.after,
            limit: page::fetched(limit)?,
        };
        let mut found = cx.tx.workspace_list(&query)?;
        let next = page::cut(&mut found, limit, |workspace| (workspace.created_at, workspace.id.clone()));
        let workspaces = found.into_iter().map(|workspace| WorkspaceView::of(cx, workspace)).collect::<Result<_>>()?;
        Ok(WorkspaceList { workspaces, next })
    }
}
