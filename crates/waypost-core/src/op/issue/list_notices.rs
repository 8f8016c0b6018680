//! Lists the undelivered notices to ledgers about their issues.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::model::Notice;
use crate::op::{Audience, Effect, Operation, StoreOperation};

/// Lists the undelivered notices to ledgers about their issues.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListNotices {}

/// The answer to [`ListNotices`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NoticeList {
    /// The notices, oldest first.
    pub notices: Vec<Notice>,
}

impl Operation for ListNotices {
    const NAME: &'static str = "list_notices";
    const SUMMARY: &'static str = "List undelivered notices to ledgers";
    const EFFECT: Effect = Effect::Read;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = NoticeList;
}

impl StoreOperation for ListNotices {
    fn run(self, cx: &mut OpContext<'_>) -> Result<NoticeList> {
        Ok(NoticeList { notices: cx.tx.notice_list()? })
    }
}
