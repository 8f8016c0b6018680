//! `way context`

use std::process::ExitCode;

use waypost_core::Result;
use waypost_core::op::ShowContext;

use crate::CommandContext;
use crate::work::TaskArg;

/// Print the context for a task, within a token budget
///
/// Contains the task and its plan, its checkpoints, the outcomes of its dependencies, unread messages and the other
/// tasks. The budget is a hard limit, at four bytes per token; the end of the text lists the parts that did not fit.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way context build
  way context build --budget 4000")]
pub(crate) struct Args {
    #[command(flatten)]
    task: TaskArg,
    /// Maximum number of tokens [default: 8000]
    #[arg(long, value_name = "N")]
    budget: Option<u32>,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let (task, workflow) = (args.task.task.clone(), args.task.within.workflow.clone());
    let mut session = cx.session()?;
    let repository = cx.repository_filter(&mut session)?;
    let context = session.call(ShowContext { task, workflow, repository, budget: args.budget })?;
    cx.answer_context(&context)?;
    Ok(ExitCode::SUCCESS)
}
