//! Lists leases and their holders.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::id::TaskId;
use crate::model::{Lease, Task};
use crate::op::{Audience, Effect, Operation, StoreOperation};
use crate::time::Timestamp;
use crate::tree;
use crate::work::lease::{self, Names};

/// Lists leases and their holders.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListLeases {}

/// The answer to [`ListLeases`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeaseList {
    /// The active leases, by subject.
    pub leases: Vec<LeaseView>,
}

impl Operation for ListLeases {
    const NAME: &'static str = "list_leases";
    const SUMMARY: &'static str = "List leases";
    const EFFECT: Effect = Effect::Read;
    const AUDIENCE: Audience = Audience::Client;
    type Answer = LeaseList;
}

impl StoreOperation for ListLeases {
    fn run(self, cx: &mut OpContext<'_>) -> Result<LeaseList> {
        let leases = cx.tx.lease_list(None)?;
        let tasks = lease::tasks_of(cx, &leases)?;
        let names = Names::of(&cx.tx.agent_list()?);
        Ok(LeaseList { leases: LeaseView::all(cx.now, &leases, &tasks, &names) })
    }
}

/// A lease, with the name of its holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeaseView {
    /// The lease.
    #[serde(flatten, deserialize_with = "tree::flattened")]
    pub lease: Lease,
    /// The name of the holder.
    pub holder_name: String,
    /// The issue that is worked on: the subject itself, or the issue of the task.
    pub issue: Option<String>,
}

impl LeaseView {
    /// Builds the views of unexpired leases from their tasks and the names of all agents.
    pub(crate) fn all(
        now: Timestamp,
        leases: &[Lease],
        tasks: &BTreeMap<TaskId, Task>,
        names: &Names,
    ) -> Vec<LeaseView> {
        let view = |lease: &Lease| LeaseView {
            lease: lease.clone(),
            holder_name: lease.holder.as_ref().map_or_else(|| "none".to_owned(), |holder| names.get(holder)),
            issue: match lease.subject.parse::<TaskId>() {
                Ok(id) => tasks.get(&id).and_then(|task| task.issue.clone()),
                Err(_) => Some(lease.subject.clone()),
            },
        };
        leases.iter().filter(|lease| lease.deadline() > now).map(view).collect()
    }
}
