//! `way machine`

use std::process::ExitCode;

use waypost_core::Result;
use waypost_core::op::ListMachines;

use crate::CommandContext;
use crate::ui::{DIM, GOOD, cell, header, number, styled};
use waypost::work::workspaces;

/// List the machines that run jobs
///
/// A machine is known once it has run a worker or a job in the store. Several machines can share a PostgreSQL store or a
/// server. way job start --on MACHINE runs a job on one of them.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way machine list
  way job start --on build-1a2b3c -- make test")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List machines
    #[command(visible_alias = "ls")]
    List,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::List => list(cx),
    }
}

fn list(cx: &mut CommandContext) -> Result<ExitCode> {
    let mut session = cx.session()?;
    let all = session.call(ListMachines::all())?.machines;
    let (own, now) = (workspaces::machine(&session).ok(), session.now()?);
    cx.ui.answer(&all, |text| {
        let titles = header(["  NAME", "SEEN", "WORKER", "RUNNING", "WAITING", "WORKSPACES"]);
        let rows = all.iter().map(|view| {
            let is_own = own.as_ref() == Some(&view.machine.name);
            let name = format!("{} {}", if is_own { "*" } else { " " }, view.machine.name);
            let worker = match (view.has_worker, view.machine.worker_seen) {
                (true, _) => styled(GOOD, "yes"),
                (false, Some(seen)) => styled(DIM, format!("last {}", seen.ago(now))),
                (false, None) => styled(DIM, "-"),
            };
            vec![
                if is_own { styled(GOOD, name) } else { cell(name) },
                cell(view.machine.last_seen.ago(now)),
                worker,
                number(view.live_jobs),
                number(view.waiting_jobs),
                number(view.workspaces),
            ]
        });
        text.list(titles, rows);
    })?;
    if all.is_empty() {
        cx.ui.note("no machine has run a job; to run one here: way job start -- COMMAND");
    }
    Ok(ExitCode::SUCCESS)
}
