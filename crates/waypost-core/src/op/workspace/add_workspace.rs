//! Creates the record of a workspace, before any of its files exist.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::{RepositoryId, WorkspaceId};
use crate::model::{Strategy, Workspace, WorkspaceStatus, kind};
use crate::op::{Audience, Effect, Operation, StoreOperation};
use crate::path_text;
use crate::work::jobs;

/// Creates the record of a workspace, before any of its files exist.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AddWorkspace {
    /// The id. The caller generates it, because it is part of the path.
    pub id: WorkspaceId,
    /// The job that works in it.
    #[serde(default)]
    pub job: Option<String>,
    /// The source repository [default: the job's, else the caller's].
    #[serde(default)]
    pub repository: Option<RepositoryId>,
    /// The machine that holds it.
    pub machine: String,
    /// The working directory.
    #[serde(with = "path_text::serde")]
    #[schemars(with = "String")]
    pub path: PathBuf,
    /// The directory for the input and the reports of the job.
    #[serde(with = "path_text::optional", default)]
    #[schemars(with = "Option<String>")]
    pub context: Option<PathBuf>,
    /// The method of creation.
    pub strategy: Strategy,
    /// The branch.
    #[serde(default)]
    pub branch: Option<String>,
    /// The base commit.
    #[serde(default)]
    pub base: Option<String>,
    /// What the base commit contains, in words for the agent.
    #[serde(default)]
    pub started_from: Option<String>,
    /// The data that the backend needs to remove the workspace.
    #[serde(default)]
    pub plan: Value,
}

impl Operation for AddWorkspace {
    const NAME: &'static str = "add_workspace";
    const SUMMARY: &'static str = "Create the record of a workspace";
    const EFFECT: Effect = Effect::Write;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = Workspace;
}

impl StoreOperation for AddWorkspace {
    fn run(self, cx: &mut OpContext<'_>) -> Result<Workspace> {
        let job = self.job.as_deref().map(|reference| jobs::find_job(cx, reference)).transpose()?;
        if let Some(job) = job.as_ref().filter(|job| job.status.is_final()) {
            return Err(Error::conflict(format!("job {} is {} and needs no workspace", job.id, job.status)));
        }
        if cx.tx.workspace_get(&self.id)?.is_some() {
            return Err(Error::conflict(format!("workspace {} already exists", self.id)));
        }
        let repository_id = match (self.repository, &job) {
            (Some(id), _) => id,
            (None, Some(job)) => job.repository_id.clone(),
            (None, None) => cx.caller.repository.id.clone(),
        };
        if cx.tx.repository_get(&repository_id)?.is_none() {
            return Err(Error::not_found(format!("no repository {repository_id}")));
        }
        let workspace = Workspace {
            id: self.id,
            repository_id,
            job_id: job.as_ref().map(|job| job.id.clone()),
            machine: self.machine,
            path: self.path,
            strategy: self.strategy,
            branch: self.branch,
            base: self.base,
            status: WorkspaceStatus::Creating,
            size: None,
            identity: None,
            is_pinned: false,
            snapshot: None,
            merge_commit: None,
            pr_url: None,
            note: None,
            plan: self.plan,
            worktree_id: cx.caller.worktree.id.clone(),
            created_at: cx.now,
            updated_at: cx.now,
            removed_at: None,
        };
        cx.tx.workspace_put(&workspace)?;
        cx.event(kind::WORKSPACE_CREATED, workspace.id.as_str(), json!({ "after": workspace }))?;
        if let Some(job) = job {
            jobs::enter_workspace(cx, &job, &workspace, self.context, self.started_from)?;
        }
        Ok(workspace)
    }
}
