//! `way context`

use std::process::ExitCode;

use waypost_core::Result;
use waypost_core::op::GetContext;

use crate::CommandContext;
use crate::work::TaskArg;

/// Print what whoever works on a task has to know, within a budget
///
/// The task and its plan, its checkpoints, what came out of those it depends on, unread messages, the other tasks. The
/// budget is a hard cap, at four bytes a token; what did not fit is listed at the end.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    task: TaskArg,
    /// How many tokens it may have [default: 8000]
    #[arg(long, value_name = "N")]
    budget: Option<u32>,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let (task, workflow) = (args.task.task.clone(), args.task.within.workflow.clone());
    let context = cx.work()?.read(GetContext { task, workflow, budget: args.budget })?;
    cx.answer_context(&context)?;
    Ok(ExitCode::SUCCESS)
}
