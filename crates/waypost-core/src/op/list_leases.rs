//! Lists what is held, and by whom.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, Operation};
use crate::engine::Cx;
use crate::error::Result;
use crate::id::TaskId;
use crate::model::Lease;
use crate::work::lease;

/// Lists what is held, and by whom.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListLeases {}

/// The answer to [`ListLeases`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeaseList {
    /// The leases that somebody holds, by subject.
    pub leases: Vec<LeaseView>,
}

impl Operation for ListLeases {
    const NAME: &'static str = "list_leases";
    const SUMMARY: &'static str = "List what is held";
    const EFFECT: Effect = Effect::Read;
    type Answer = LeaseList;

    fn run(self, cx: &mut Cx<'_>) -> Result<LeaseList> {
        let mut leases = Vec::new();
        let now = cx.now;
        for lease in cx.tx.lease_list(None)?.into_iter().filter(|lease| lease.deadline() > now) {
            let holder_name = lease::holder_name(cx, &lease)?;
            let issue = match lease.subject.parse::<TaskId>() {
                Ok(id) => cx.tx.task_get(&id)?.and_then(|task| task.issue),
                Err(_) => Some(lease.subject.clone()),
            };
            leases.push(LeaseView { lease, holder_name, issue });
        }
        Ok(LeaseList { leases })
    }
}

/// A lease, with the name of its holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeaseView {
    /// The lease.
    #[serde(flatten)]
    pub lease: Lease,
    /// What its holder is called.
    pub holder_name: String,
    /// The issue that is worked on: the subject itself, or the one its task stands for.
    pub issue: Option<String>,
}
