//! Notes what became of a workspace.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Audience, Effect, Operation};
use crate::context::OpContext;
use crate::error::Result;
use crate::model::{Identity, Workspace, WorkspaceStatus};
use crate::path_text;
use crate::work::jobs;

/// Notes what became of a workspace.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ChangeWorkspace {
    /// Which one: its id, the beginning of it, or its job.
    pub workspace: String,
    /// The job that works in it from now on.
    #[serde(default)]
    pub job: Option<String>,
    /// The directory of what that job is told and tells.
    #[serde(with = "path_text::optional", default)]
    #[schemars(with = "Option<String>")]
    pub context: Option<PathBuf>,
    /// What it is now.
    #[serde(default)]
    pub status: Option<WorkspaceStatus>,
    /// Which directory it is.
    #[serde(default)]
    pub identity: Option<Identity>,
    /// What it takes on disk, in bytes.
    #[serde(default)]
    pub size: Option<u64>,
    /// Whether it stays until somebody says otherwise.
    #[serde(default)]
    pub pinned: Option<bool>,
    /// What its work was saved as.
    #[serde(default)]
    pub snapshot: Option<String>,
    /// The commit with which its work arrived.
    #[serde(default)]
    pub merge_commit: Option<String>,
    /// Where its work is looked at by others.
    #[serde(default)]
    pub pr_url: Option<String>,
    /// What somebody should know. Nothing, if it is empty.
    #[serde(default)]
    pub note: Option<String>,
}

impl Operation for ChangeWorkspace {
    const NAME: &'static str = "change_workspace";
    const SUMMARY: &'static str = "Note what became of a workspace";
    const EFFECT: Effect = Effect::Write;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = Workspace;

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
            jobs::enter_workspace(cx, &job, &after, self.context)?;
        }
        // Measuring it is no use of it, from which its age is counted.
        if after != before {
            jobs::change_workspace(cx, &before, &after)?;
        }
        Ok(after)
    }
}
