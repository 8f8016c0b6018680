//! Writes a workspace down, before anything of it is made.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Audience, Effect, Operation};
use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::{RepositoryId, WorkspaceId};
use crate::model::{Strategy, Workspace, WorkspaceStatus, kind};
use crate::path_text;
use crate::work::jobs;

/// Writes a workspace down, before anything of it is made.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CreateWorkspace {
    /// Its id, drawn by whoever makes it: it is a part of the path.
    pub id: WorkspaceId,
    /// The job it is for.
    #[serde(default)]
    pub job: Option<String>,
    /// The repository it comes from; the caller's, if nobody says.
    #[serde(default)]
    pub repository: Option<RepositoryId>,
    /// The machine it is on.
    pub machine: String,
    /// The directory to work in.
    #[serde(with = "path_text::serde")]
    #[schemars(with = "String")]
    pub path: PathBuf,
    /// The directory of what its job is told and tells.
    #[serde(with = "path_text::optional", default)]
    #[schemars(with = "Option<String>")]
    pub context: Option<PathBuf>,
    /// How it is made.
    pub strategy: Strategy,
    /// The branch to work on.
    #[serde(default)]
    pub branch: Option<String>,
    /// The commit it starts from.
    #[serde(default)]
    pub base: Option<String>,
    /// All that its maker has to know to take it back.
    #[serde(default)]
    pub plan: Value,
}

impl Operation for CreateWorkspace {
    const NAME: &'static str = "create_workspace";
    const SUMMARY: &'static str = "Write a workspace down";
    const EFFECT: Effect = Effect::Write;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = Workspace;

    fn run(self, cx: &mut OpContext<'_>) -> Result<Workspace> {
        let job = self.job.as_deref().map(|reference| jobs::find_job(cx, reference)).transpose()?;
        if let Some(job) = job.as_ref().filter(|job| job.status.is_final()) {
            return Err(Error::conflict(format!("job {} is {}, and needs no workspace", job.id, job.status)));
        }
        if cx.tx.workspace_get(&self.id)?.is_some() {
            return Err(Error::conflict(format!("there is a workspace {} already", self.id)));
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
            jobs::enter_workspace(cx, &job, &workspace, self.context)?;
        }
        Ok(workspace)
    }
}
