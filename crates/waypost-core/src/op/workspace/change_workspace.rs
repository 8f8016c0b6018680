//! Updates the record of a workspace.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::model::{Identity, Workspace, WorkspaceStatus};
use crate::op::{Audience, Effect, Operation, StoreOperation};
use crate::path_text;
use crate::work::jobs;

/// Updates the record of a workspace.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ChangeWorkspace {
    /// The workspace: its id, a prefix of it, or its job.
    pub workspace: String,
    /// The job that now works in the workspace.
    #[serde(default)]
    pub job: Option<String>,
    /// The directory for the input and the reports of that job.
    #[serde(with = "path_text::optional", default)]
    #[schemars(with = "Option<String>")]
    pub context: Option<PathBuf>,
    /// The new status.
    #[serde(default)]
    pub status: Option<WorkspaceStatus>,
    /// The identity of the directory.
    #[serde(default)]
    pub identity: Option<Identity>,
    /// The disk usage, in bytes.
    #[serde(default)]
    pub size: Option<u64>,
    /// Whether the workspace is pinned, so that garbage collection keeps it.
    #[serde(default)]
    pub pinned: Option<bool>,
    /// The snapshot of its work.
    #[serde(default)]
    pub snapshot: Option<String>,
    /// The commit that delivered its work.
    #[serde(default)]
    pub merge_commit: Option<String>,
    /// The URL of the pull request with its work.
    #[serde(default)]
    pub pr_url: Option<String>,
    /// A note for readers. An empty text removes it.
    #[serde(default)]
    pub note: Option<String>,
}

impl Operation for ChangeWorkspace {
    const NAME: &'static str = "change_workspace";
    const SUMMARY: &'static str = "Update the record of a workspace";
    const EFFECT: Effect = Effect::Write;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = Workspace;
}

impl StoreOperation for ChangeWorkspace {
    fn run(self, cx: &mut OpContext<'_>) -> Result<Workspace> {
        let before = jobs::find_workspace(cx, &self.workspace)?;
        let mut after = before.clone();
        if let Some(status) = self.status.filter(|status| *status != before.status) {
            after.move_to(status, cx.now)?;
        }
        after.identity = self.identity.or(after.identity);
        after.size = self.size.or(after.size);
        after.is_pinned = self.pinned.unwrap_or(after.is_pinned);
        after.snapshot = self.snapshot.or(after.snapshot);
        after.merge_commit = self.merge_commit.or(after.merge_commit);
        after.pr_url = self.pr_url.or(after.pr_url);
        if let Some(note) = self.note {
            after.note = Some(note).filter(|note| !note.is_empty());
        }
        if let Some(reference) = &self.job {
            let job = jobs::find_job(cx, reference)?;
            after.job_id = Some(job.id.clone());
            jobs::enter_workspace(cx, &job, &after, self.context, None)?;
        }
        // A measurement does not count as use: idle time is counted from the last use.
        if after != before {
            jobs::change_workspace(cx, &before, &after)?;
        }
        Ok(after)
    }
}
