//! Lists machines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::model::{JobQuery, Machine, WorkspaceQuery};
use crate::op::{Effect, Operation, StoreOperation};
use crate::page::{self, Cursor};
use crate::tree;

/// The time after which a worker that does not report is not there any more. It reports several times as often.
const WORKER_TIMEOUT_MS: i64 = 90_000;

/// Lists the machines that have run a worker or a job in this store.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListMachines {
    /// The position after which the page begins: `next` of the page before.
    #[serde(default)]
    pub after: Option<Cursor<String>>,
    /// The maximum number of results.
    #[serde(default = "page::default_limit")]
    #[schemars(range(min = 1))]
    pub limit: u32,
}

impl ListMachines {
    /// Lists all of them on one page.
    pub fn all() -> ListMachines {
        ListMachines { after: None, limit: u32::MAX }
    }
}

/// The answer to [`ListMachines`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineList {
    /// The machines, by name.
    pub machines: Vec<MachineView>,
    /// The position of the next page: `after` of the next call. Null on the last page.
    #[serde(default)]
    pub next: Option<Cursor<String>>,
}

/// A machine, with its work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineView {
    /// The machine.
    #[serde(flatten, deserialize_with = "tree::flattened")]
    pub machine: Machine,
    /// Whether a worker on it reported within the last 90 seconds.
    pub has_worker: bool,
    /// The number of jobs that it runs.
    pub live_jobs: u32,
    /// The number of jobs that wait for a worker on it.
    pub waiting_jobs: u32,
    /// The number of workspaces on it.
    pub workspaces: u32,
}

impl Operation for ListMachines {
    const NAME: &'static str = "list_machines";
    const SUMMARY: &'static str = "List the machines that run jobs";
    const EFFECT: Effect = Effect::Read;
    type Answer = MachineList;
}

impl StoreOperation for ListMachines {
    const DEPENDS_ON_JOBS: bool = true;

    fn run(self, cx: &mut OpContext<'_>) -> Result<MachineList> {
        page::fetched(self.limit)?;
        let mut machines = cx.tx.machine_list()?;
        page::skip(&mut machines, self.after.as_ref(), |machine| machine.name.clone());
        let next = page::cut(&mut machines, self.limit, |machine| machine.name.clone());
        let mut machines: Vec<_> = machines.into_iter().map(|machine| view(cx, machine)).collect();
        for job in cx.tx.job_list(&JobQuery { is_live: true, limit: u32::MAX, ..JobQuery::default() })? {
            let on = |view: &&mut MachineView| job.machine.as_ref() == Some(&view.machine.name);
            if let Some(view) = machines.iter_mut().find(on) {
                let count = if job.supervisor.is_some() { &mut view.live_jobs } else { &mut view.waiting_jobs };
                *count += 1;
            }
        }
        for workspace in cx.tx.workspace_list(&WorkspaceQuery { limit: u32::MAX, ..WorkspaceQuery::default() })? {
            let on = |view: &&mut MachineView| workspace.machine == view.machine.name;
            if let Some(view) = machines.iter_mut().find(on).filter(|_| workspace.status.is_live()) {
                view.workspaces += 1;
            }
        }
        Ok(MachineList { machines, next })
    }
}

fn view(cx: &OpContext<'_>, machine: Machine) -> MachineView {
    let is_recent = |seen| cx.now.as_millis() - crate::time::Timestamp::as_millis(seen) < WORKER_TIMEOUT_MS;
    MachineView {
        has_worker: machine.worker_seen.is_some_and(is_recent),
        machine,
        live_jobs: 0,
        waiting_jobs: 0,
        workspaces: 0,
    }
}
