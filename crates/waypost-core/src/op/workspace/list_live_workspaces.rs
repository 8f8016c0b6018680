//! Lists the records of the existing workspaces of a machine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::model::{Workspace, WorkspaceQuery};
use crate::op::{Audience, Effect, Operation, StoreOperation};

/// Lists the records of the existing workspaces of a machine, in one statement.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListLiveWorkspaces {
    /// The machine.
    pub machine: String,
}

/// The answer to [`ListLiveWorkspaces`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LiveWorkspaces {
    /// The workspaces, newest first.
    pub workspaces: Vec<Workspace>,
}

impl Operation for ListLiveWorkspaces {
    const NAME: &'static str = "list_live_workspaces";
    const SUMMARY: &'static str = "List the records of the existing workspaces of a machine";
    const EFFECT: Effect = Effect::Read;
    const AUDIENCE: Audience = Audience::Client;
    type Answer = LiveWorkspaces;
}

impl StoreOperation for ListLiveWorkspaces {
    fn run(self, cx: &mut OpContext<'_>) -> Result<LiveWorkspaces> {
        let query = WorkspaceQuery { machine: Some(self.machine), limit: u32::MAX, ..WorkspaceQuery::default() };
        Ok(LiveWorkspaces { workspaces: cx.tx.workspace_list(&query)? })
    }
}
