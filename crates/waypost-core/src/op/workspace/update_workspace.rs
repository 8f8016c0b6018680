//! Updates the record of a workspace.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::model::{Identity, Workspace, WorkspaceStatus};
use crate::op::{Audience, Effect, Operation, StoreOperation};
use crate::path_text;
use crate::time::Timestamp;
use crate::work::jobs;

/// Updates the record of a workspace.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct UpdateWorkspace {
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

impl UpdateWorkspace {
    /// Returns a change of a workspace that sets nothing yet. The workspace is an id, a prefix of it, or its job.
    pub fn of(workspace: impl Into<String>) -> UpdateWorkspace {
        UpdateWorkspace { workspace: workspace.into(), ..UpdateWorkspace::default() }
    }

    /// Applies the change to a record, except for a change of the job.
    pub fn apply_to(&self, workspace: &mut Workspace, now: Timestamp) -> Result<()> {
        if let Some(status) = self.status.filter(|status| *status != workspace.status) {
            workspace.move_to(status, now)?;
        }
        workspace.identity = self.identity.or(workspace.identity);
        workspace.size = self.size.or(workspace.size);
        workspace.is_pinned = self.pinned.unwrap_or(workspace.is_pinned);
        for (field, new) in [
            (&mut workspace.snapshot, &self.snapshot),
            (&mut workspace.merge_commit, &self.merge_commit),
            (&mut workspace.pr_url, &self.pr_url),
        ] {
            if new.is_some() {
                field.clone_from(new);
            }
        }
        if let Some(note) = &self.note {
            workspace.note = Some(note.clone()).filter(|note| !note.is_empty());
        }
        Ok(())
    }
}

impl Operation for UpdateWorkspace {
    const NAME: &'static str = "update_workspace";
    const SUMMARY: &'static str = "Update the record of a workspace";
    const EFFECT: Effect = Effect::Write;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = Workspace;
}

impl StoreOperation for UpdateWorkspace {
    fn run(self, cx: &mut OpContext<'_>) -> Result<Workspace> {
        let before = jobs::find_workspace(cx, &self.workspace)?;
        let mut after = before.clone();
        self.apply_to(&mut after, cx.now)?;
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
