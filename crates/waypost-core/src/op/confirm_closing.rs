//! Records that the ledger was told that an issue is done.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Effect, Operation};
use crate::engine::Cx;
use crate::error::Result;
use crate::id::TaskId;
use crate::model::kind;

/// Records that the ledger was told that an issue is done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConfirmClosing {
    /// The task that is done.
    pub task: TaskId,
    /// What became of the issue.
    pub result: String,
}

/// The answer to [`ConfirmClosing`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmed {
    /// Whether it was still to be told.
    pub was_open: bool,
}

impl Operation for ConfirmClosing {
    const NAME: &'static str = "confirm_closing";
    const SUMMARY: &'static str = "Record that an issue was closed";
    const EFFECT: Effect = Effect::Write;
    type Answer = Confirmed;

    fn run(self, cx: &mut Cx<'_>) -> Result<Confirmed> {
        let Some(closing) = cx.tx.closing_list()?.into_iter().find(|closing| closing.task_id == self.task) else {
            return Ok(Confirmed { was_open: false });
        };
        cx.tx.closing_remove(&self.task)?;
        cx.event(kind::ISSUE_CLOSED, &closing.issue, json!({ "task": self.task, "result": self.result }))?;
        Ok(Confirmed { was_open: true })
    }
}
