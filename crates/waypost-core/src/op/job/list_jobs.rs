//! Lists jobs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::id::{JobId, WorktreeId};
use crate::model::{Job, JobQuery, JobStatus, WorkspaceStatus};
use crate::op::{Effect, Operation, StoreOperation};
use crate::page::{self, Cursor};
use crate::time::Timestamp;
use crate::tree;
use crate::work::places::{Places, WorktreeSummary};
use crate::work::{find, lease};

/// The default number of jobs in a list.
const DEFAULT_LIMIT: u32 = 50;

/// Lists jobs.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ListJobs {
    /// Only jobs in this status.
    #[serde(default)]
    pub status: Option<JobStatus>,
    /// Only jobs that have not ended.
    #[serde(default)]
    pub live: bool,
    /// Only jobs of this task.
    #[serde(default)]
    pub task: Option<String>,
    /// Only jobs that were requested from this worktree, or that work on its tasks.
    #[serde(default)]
    pub worktree_id: Option<WorktreeId>,
    /// Only jobs that work on this repository: its id, name or path.
    #[serde(default)]
    pub repository: Option<String>,
    /// The position after which the page begins: `next` of the page before.
    #[serde(default)]
    pub after: Option<Cursor<(Timestamp, JobId)>>,
    /// The maximum number of results.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub limit: Option<u32>,
}

impl ListJobs {
    /// Lists all jobs that have not ended.
    pub fn live() -> ListJobs {
        let limit = Some(u32::MAX);
        ListJobs { live: true, limit, ..ListJobs::default() }
    }
}

/// The answer to [`ListJobs`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobList {
    /// The jobs, newest first.
    pub jobs: Vec<JobView>,
    /// The position of the next page: `after` of the next call. Null on the last page.
    #[serde(default)]
    pub next: Option<Cursor<(Timestamp, JobId)>>,
}

/// A job, with the names of its repository, task and agent, its worktree, and the state of its workspace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobView {
    /// The job.
    #[serde(flatten, deserialize_with = "tree::flattened")]
    pub job: Job,
    /// The name of its repository.
    pub repository: String,
    /// The name of the task it works on.
    pub task: Option<String>,
    /// The name of the agent that it acts as.
    pub agent: Option<String>,
    /// The worktree it was requested from.
    #[serde(default)]
    pub worktree: Option<WorktreeSummary>,
    /// The status of its workspace: `removed`, `snapshotted` or `lost` if its directory is gone.
    #[serde(default)]
    pub workspace_status: Option<WorkspaceStatus>,
}

impl JobView {
    pub(crate) fn of(cx: &mut OpContext<'_>, job: Job) -> Result<JobView> {
        let repository = cx.tx.repository_get(&job.repository_id)?;
        let repository = repository.map_or_else(|| job.repository_id.to_string(), |repository| repository.name);
        let task = job.task_id.as_ref().map(|id| cx.tx.task_get(id)).transpose()?.flatten().map(|task| task.name);
        let agent = job.agent_id.as_ref().map(|id| lease::name(cx, id)).transpose()?;
        let worktree = Places::of(cx, &job.worktree_id, None)?.worktree(&job.worktree_id);
        let workspace = job.workspace_id.as_ref().map(|id| cx.tx.workspace_get(id)).transpose()?.flatten();
        let workspace_status = workspace.map(|workspace| workspace.status);
        Ok(JobView { job, repository, task, agent, worktree, workspace_status })
    }
}

impl Operation for ListJobs {
    const NAME: &'static str = "list_jobs";
    const SUMMARY: &'static str = "List jobs";
    const EFFECT: Effect = Effect::Read;
    type Answer = JobList;
}

impl StoreOperation for ListJobs {
    const DEPENDS_ON_JOBS: bool = true;

    fn run(self, cx: &mut OpContext<'_>) -> Result<JobList> {
        let task_id = self.task.as_deref().map(|reference| find::task(cx, reference, None)).transpose()?;
        find::check_worktree(cx, self.worktree_id.as_ref())?;
        let limit = self.limit.unwrap_or(DEFAULT_LIMIT);
        let query = JobQuery {
            worktree_id: self.worktree_id,
            repositories: find::chosen_repositories(cx, self.repository.as_deref())?,
            task_id: task_id.map(|task| task.id),
            status: self.status,
            is_live: self.live,
            after: self.after,
            limit: page::fetched(limit)?,
        };
        let mut found = cx.tx.job_list(&query)?;
        let next = page::cut(&mut found, limit, |job| (job.created_at, job.id.clone()));
        Ok(JobList { jobs: found.into_iter().map(|job| JobView::of(cx, job)).collect::<Result<_>>()?, next })
    }
}
