//! Shows a workspace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::list_workspaces::WorkspaceView;
use crate::context::OpContext;
use crate::error::Result;
use crate::op::{Effect, Operation, StoreOperation};
use crate::work::jobs;

/// Shows a workspace.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ShowWorkspace {
    /// The workspace: its id, a prefix of it, or its job.
    pub workspace: String,
}

impl Operation for ShowWorkspace {
    const NAME: &'static str = "show_workspace";
    const SUMMARY: &'static str = "Show a workspace";
    const EFFECT: Effect = Effect::Read;
    type Answer = WorkspaceView;
}

impl StoreOperation for ShowWorkspace {
    const DEPENDS_ON_JOBS: bool = true;

    fn run(self, cx: &mut OpContext<'_>) -> Result<WorkspaceView> {
        let workspace = jobs::find_workspace(cx, &self.workspace)?;
        WorkspaceView::of(cx, workspace)
    }
}
