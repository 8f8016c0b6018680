//! Waits until a task ends.

use waypost_core::model::TaskStatus;
use waypost_core::op::ShowTask;
use waypost_core::{Error, Kind, Result};

use crate::CommandContext;
use crate::work::{TaskArg, format_duration, humanize, parse_duration, wait_for};

/// Wait until a task ends or asks a question
///
/// Exits with 0 if the task is completed or skipped, with 4 if it is dead, cancelled or asks a question, and with 6 on
/// timeout.
#[derive(clap::Args)]
pub(super) struct WaitArgs {
    #[command(flatten)]
    task: TaskArg,
    /// Maximum time to wait, e.g. 10m [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<u64>,
}

pub(super) fn wait(cx: &mut CommandContext, args: &WaitArgs) -> Result<()> {
    let mut session = cx.session()?;
    let (task, workflow) = (args.task.task.clone(), args.task.within.workflow.clone());
    let operation = ShowTask { task, workflow, repository: cx.repository_filter(&mut session)? };
    // Use the id from here on: another task may get the name.
    let task = session.call(operation)?.task.task.id.to_string();
    let mut status = TaskStatus::Pending;
    let ended = wait_for(&mut session, args.timeout, |session| {
        let seen = session.call(ShowTask { task: task.clone(), ..ShowTask::default() })?.task;
        status = seen.task.status;
        let has_ended = seen.task.status.is_final() || seen.task.status == TaskStatus::WaitingInput;
        Ok(has_ended.then_some(seen))
    })?;
    let Some(ended) = ended else {
        let waited = format_duration(args.timeout.unwrap_or_default());
        let message = format!("task {task} has not ended after {waited}: {}", humanize(status.as_str()));
        return Err(Error::new(Kind::NothingToDo, message));
    };
    let (name, status) = (&ended.task.name, ended.task.status);
    if status.satisfies() {
        return cx.answer_task("Ended", &ended);
    }
    let question_error = |question: &String| {
        Error::conflict(format!("task {name} asks a question"))
            .because(question)
            .hint(format!("way task answer {} TEXT", ended.task.id))
    };
    Err(match (status, &ended.task.question) {
        (TaskStatus::WaitingInput, Some(question)) => question_error(question),
        _ => ended.task.error.iter().fold(
            Error::conflict(format!("task {name} is {status}")).hint(format!("way task show {}", ended.task.id)),
            Error::because,
        ),
    })
}
