//! Lists tasks: all of them, or those that the caller can claim.

use waypost_core::Result;
use waypost_core::model::TaskStatus;
use waypost_core::op::{ListNextTasks, ListTasks, MAX_COUNTED_TASKS, TaskList};
use waypost_core::words::count;

use crate::CommandContext;
use crate::places::PlaceColumns;
use crate::work::{WorkflowArg, parse_enum, task_table};
use waypost::app::session::Session;

/// List the tasks of one workflow in plan order, or of all live workflows
#[derive(clap::Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    within: WorkflowArg,
    /// Only tasks with this status; may be given repeatedly
    #[arg(long, value_name = "STATUS", value_parser = parse_enum::<TaskStatus>)]
    status: Vec<TaskStatus>,
    /// Only tasks that can be claimed now
    #[arg(long)]
    claimable: bool,
    /// Only tasks that a claim without a name takes in this worktree, now or later
    #[arg(long)]
    here: bool,
    /// Maximum number of tasks; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
}

/// List the tasks that you can claim: those of this worktree first, each part in order of urgency
#[derive(clap::Args)]
pub(super) struct NextArgs {
    #[command(flatten)]
    within: WorkflowArg,
    /// Maximum number of tasks
    #[arg(long, value_name = "N", default_value_t = 10)]
    limit: u32,
}

pub(super) fn list(cx: &mut CommandContext, args: &ListArgs) -> Result<()> {
    let mut session = cx.session()?;
    let operation = ListTasks {
        workflow: args.within.workflow.clone(),
        statuses: args.status.clone(),
        claimable: args.claimable,
        worktree_id: cx.worktree_filter(&mut session)?,
        repository: cx.repository_filter(&mut session)?,
        here: args.here,
        limit: if args.limit == 0 { u32::MAX } else { args.limit },
        after: None,
    };
    let list = session.call(operation)?;
    let more = match list.more {
        MAX_COUNTED_TASKS => format!("at least {}; to list all: --limit 0", count(list.more, "more task")),
        more => format!("{}; to list all: --limit 0", count(more, "more task")),
    };
    if list.more > 0 && cx.ui.json {
        cx.ui.warn(&more);
    }
    answer_list(cx, &session, &list, args.within.workflow.is_none())?;
    if list.more > 0 {
        cx.ui.note(&more);
    }
    if list.tasks.is_empty() {
        let is_filtered = args.within.workflow.is_some() || !args.status.is_empty() || args.claimable || args.here;
        cx.ui.note(if is_filtered || cx.has_place_filter() {
            "no matching tasks; way task list shows those of all live workflows"
        } else {
            "no tasks yet; to plan some: way workflow create NAME --plan FILE --start"
        });
    }
    Ok(())
}

pub(super) fn next(cx: &mut CommandContext, args: &NextArgs) -> Result<()> {
    let mut session = cx.session()?;
    let operation = ListNextTasks {
        workflow: args.within.workflow.clone(),
        worktree_id: cx.worktree_filter(&mut session)?,
        repository: cx.repository_filter(&mut session)?,
        limit: args.limit.max(1),
        after: None,
    };
    let list = session.call(operation)?;
    answer_list(cx, &session, &list, args.within.workflow.is_none())
}

fn answer_list(cx: &CommandContext, session: &Session, list: &TaskList, of_several: bool) -> Result<()> {
    cx.ui.answer(&list.tasks, |text| {
        if !list.tasks.is_empty() {
            text.table(&task_table(&list.tasks, of_several, PlaceColumns::of(session, &list.tasks)));
        }
    })
}
