//! Records that a notice about an issue was delivered to its ledger.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::OpContext;
use crate::error::Result;
use crate::model::{News, kind};
use crate::op::{Access, Audience, Effect, JobAccess, Operation, StoreOperation};
use crate::time::Timestamp;

/// Records that a notice about an issue was delivered to its ledger.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ConfirmNotice {
    /// The issue.
    pub issue: String,
    /// The time of the notice. A later notice about the same issue stays undelivered.
    pub created_at: Timestamp,
    /// The effect of the notice on the ledger.
    pub result: String,
}

/// The answer to [`ConfirmNotice`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Confirmed {
    /// Whether the notice was still undelivered.
    pub was_open: bool,
}

impl Operation for ConfirmNotice {
    const NAME: &'static str = "confirm_notice";
    const SUMMARY: &'static str = "Record that a notice was delivered to a ledger";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::AGENTS.with_jobs(JobAccess::All);
    const AUDIENCE: Audience = Audience::Client;
    type Answer = Confirmed;
}

impl StoreOperation for ConfirmNotice {
    fn run(self, cx: &mut OpContext<'_>) -> Result<Confirmed> {
        let mut notices = cx.tx.notice_list()?.into_iter();
        let Some(notice) = notices.find(|notice| notice.issue == self.issue && notice.created_at == self.created_at)
        else {
            return Ok(Confirmed { was_open: false });
        };
        cx.tx.notice_remove(&self.issue)?;
        let kind = match notice.news {
            News::Finished => kind::ISSUE_CLOSED,
            News::Abandoned => kind::ISSUE_RELEASED,
        };
        cx.event(kind, &self.issue, json!({ "task": notice.task_id, "result": self.result }))?;
        Ok(Confirmed { was_open: true })
    }
}
