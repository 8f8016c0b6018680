//! Lists what ledgers have not received yet: notices about their issues, and deferred changes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::{Authority, OpContext};
use crate::error::Result;
use crate::model::{DeferredChanges, Notice};
use crate::op::{Audience, Effect, Operation, StoreOperation};

/// Lists what ledgers have not received yet: notices about their issues, and deferred changes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListNotices {}

/// The answer to [`ListNotices`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NoticeList {
    /// The notices, oldest first.
    pub notices: Vec<Notice>,
    /// Changes that callers made without reaching the ledger, oldest first.
    #[serde(default)]
    pub deferred: Vec<DeferredChanges>,
}

impl Operation for ListNotices {
    const NAME: &'static str = "list_notices";
    const SUMMARY: &'static str = "List undelivered notices to ledgers";
    const EFFECT: Effect = Effect::Read;
    const AUDIENCE: Audience = Audience::Client;
    type Answer = NoticeList;
}

impl StoreOperation for ListNotices {
    fn run(self, cx: &mut OpContext<'_>) -> Result<NoticeList> {
        let mut deferred = cx.tx.deferred_list()?;
        if cx.caller.authority == Authority::Agent {
            // An agent delivers its own changes, and sees no others.
            deferred.retain(|deferred| deferred.actor == cx.caller.actor);
        }
        Ok(NoticeList { notices: cx.tx.notice_list()?, deferred })
    }
}
