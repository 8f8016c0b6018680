//! Claims a task, and waits for one.

use waypost_core::op::{ClaimTask, Claimed, ShowTask};
use waypost_core::{Error, Kind, Result};

use crate::CommandContext;
use crate::work::{WorkflowArg, format_duration, parse_duration, wait_for, write_lines};
use waypost::app::session::Session;

/// Claim a task, and print its context
///
/// Without a name, claims the most urgent task available to you; exits with 6 if there is none. Tasks planned in this
/// worktree come first, then those that other worktrees share: work planned in the main worktree is open to every
/// worktree, work planned in a linked worktree belongs to it. --worktree takes the tasks of another worktree. In a store
/// that repositories share, only tasks of this repository are taken, or of the one that --repo names; --repo all takes
/// any.
///
/// Exits with 4 if another agent holds the task, if it is blocked or assigned to another agent, if it needs capabilities
/// that you did not register, or if you have reached a limit on claims. Claiming a task that you hold renews its lease.
#[derive(clap::Args)]
pub(super) struct ClaimArgs {
    /// Task: an id, a name, or workflow/name
    #[arg(value_name = "TASK")]
    task: Option<String>,
    #[command(flatten)]
    within: WorkflowArg,
    /// Time until the lease expires, counted from each renewal [default: lease.ttl or lease.ttl_human; else 10m for agents,
    /// unlimited for people]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    ttl: Option<u64>,
    /// Maximum number of tokens in the context, at four bytes each [default: 8000]
    #[arg(long, value_name = "N")]
    budget: Option<u32>,
    /// Wait until the task, or any task, can be claimed
    #[arg(long)]
    wait: bool,
    /// Maximum time to wait, e.g. 10m [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "wait")]
    timeout: Option<u64>,
}

pub(super) fn claim(cx: &mut CommandContext, args: &ClaimArgs) -> Result<()> {
    let mut session = cx.session()?;
    let operation = ClaimTask {
        task: args.task.clone(),
        workflow: args.within.workflow.clone(),
        worktree_id: cx.worktree_filter(&mut session)?,
        repository: cx.repository_filter(&mut session)?,
        ttl_ms: args.ttl,
        budget: args.budget,
    };
    let claimed = if args.wait {
        let mut refused = None;
        let found = wait_for(&mut session, args.timeout, |session| match try_claim(session, &operation)? {
            Ok(claimed) => Ok(Some(claimed)),
            Err(error) => {
                refused = Some(error);
                Ok(None)
            }
        })?;
        match (found, refused) {
            (Some(claimed), _) => claimed,
            (None, Some(error)) => {
                let waited = format_duration(args.timeout.unwrap_or_default());
                return Err(error.within(format!("after {waited}")));
            }
            (None, None) => return Err(Error::internal("the claim was refused without an error")),
        }
    } else {
        session.call(operation)?
    };
    cx.ui.answer(&claimed, |text| {
        let lease = &claimed.lease;
        text.line(format!(
            "Claimed {}  {}/{}  epoch {}, until {}",
            claimed.task.task.id,
            claimed.task.workflow,
            claimed.task.task.name,
            lease.epoch,
            lease.end()
        ));
        text.gap();
        write_lines(text, &claimed.context.text);
    })
}

/// Claims a task. The inner error says why the claim was refused, if a later one may succeed.
fn try_claim(session: &mut Session, operation: &ClaimTask) -> Result<Result<Claimed>> {
    let error = match session.call(operation.clone()) {
        Ok(claimed) => return Ok(Ok(claimed)),
        Err(error) => error,
    };
    match (error.kind(), &operation.task) {
        (Kind::NothingToDo, None) => Ok(Err(error)),
        (Kind::Conflict, Some(task)) => {
            let ClaimTask { workflow, repository, .. } = operation.clone();
            let page = session.call(ShowTask { task: task.clone(), workflow, repository })?;
            if page.task.task.status.is_final() { Err(error) } else { Ok(Err(error)) }
        }
        _ => Err(error),
    }
}
