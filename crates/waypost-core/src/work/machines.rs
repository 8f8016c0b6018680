//! Machines that run jobs: when they were last seen, and which are known.

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::Machine;
use crate::work::check_name;

/// Who reports that a machine is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reporter {
    /// The supervisor of a job.
    Job,
    /// A worker.
    Worker,
}

/// Records that a machine is there. As with worktrees and agents, that is not an event.
pub(crate) fn note(cx: &mut OpContext<'_>, name: &str, reporter: Reporter) -> Result<Machine> {
    check_name("machine", name)?;
    let known = cx.tx.machine_get(name)?;
    let mut machine = known.unwrap_or_else(|| Machine {
        name: name.to_owned(),
        first_seen: cx.now,
        last_seen: cx.now,
        worker_seen: None,
    });
    machine.last_seen = cx.now;
    if reporter == Reporter::Worker {
        machine.worker_seen = Some(cx.now);
    }
    cx.tx.machine_put(&machine)?;
    Ok(machine)
}

/// Refuses a machine that has never run a worker or a job: its name is probably mistyped.
pub(crate) fn check_known(cx: &mut OpContext<'_>, name: &str) -> Result<()> {
    if cx.tx.machine_get(name)?.is_some() {
        return Ok(());
    }
    let known: Vec<_> = cx.tx.machine_list()?.into_iter().map(|machine| machine.name).collect();
    let error = Error::not_found(format!("no machine {name} has run a worker or a job in this store"));
    let error = match known.as_slice() {
        [] => error.hint("start a worker on that machine: way worker -- COMMAND"),
        _ => error.hint(format!("known machines: {}", known.join(", "))),
    };
    Err(error.hint("--new-machine accepts a machine that has run nothing yet"))
}
