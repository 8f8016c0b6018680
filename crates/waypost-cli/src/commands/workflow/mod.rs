//! `way workflow`

mod change;
mod create;
mod lifecycle;
mod list;
mod show;

use std::process::ExitCode;

use waypost_core::Result;

use crate::CommandContext;

/// Create workflows of tasks with dependencies, and follow them
///
/// A workflow is one execution of a plan. After its start, each task becomes claimable as soon as the tasks it needs
/// are done.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way workflow create release --plan plan.yaml --start
  way workflow create release --plan - <<'END'
  # Ship it
  build: Compile everything
  test: Run the tests
      needs: build
  END
  way workflow from-issue way-12 --start   the open issues of an epic
  way workflow summary release             shows the progress
  way workflow wait release --timeout 2h   waits until it ends

A plan is JSON, YAML, or the short form above. The extension of the file (.json, .yaml, .yml) decides, else the \
content: JSON starts with a bracket, YAML has a line that starts with `tasks:` or `- name:`. In JSON:
  {\"summary\": \"Ship it\", \"tasks\": [{\"name\": \"build\"}, {\"name\": \"test\", \"depends_on\": [\"build\"]}]}

A task has a name, and may have: description, depends_on (in the short form: needs), informed_by, context_from, \
parallel_group, priority, plan, acceptance, context, capabilities, files, repository, base, issue, max_attempts, \
backoff, timeout, queue_timeout, stall_timeout, needs_evidence. Durations are written 90s, 10m, 2h or 1d.

A job of a task starts from its base. By default that is `plan`: the branches of the jobs of the tasks it depends on, \
merged in plan order; without such tasks, the head of the workflow's worktree. `head` starts from that head in any \
case, and any other text names a revision. The plan as a whole may have a base, too.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    #[command(visible_alias = "new")]
    Create(create::CreateArgs),
    Plan(create::PlanArgs),
    #[command(visible_alias = "ls")]
    List(list::ListArgs),
    /// Show a workflow and its tasks
    Show(NamedArgs),
    /// Summarize the progress of a workflow
    Summary(NamedArgs),
    /// Start a workflow, so that agents can claim its tasks
    Start(NamedArgs),
    /// Pause a workflow; agents finish claimed tasks, but claim no more
    Pause(NamedArgs),
    /// Resume a paused workflow
    Resume(NamedArgs),
    /// Record that the work of a workflow is merged
    ///
    /// A workflow with the setting "awaits_merge": true completes only after this, not with its last task.
    Merged(NamedArgs),
    Cancel(lifecycle::CancelArgs),
    Replan(change::ReplanArgs),
    AddTask(Box<change::AddTaskArgs>),
    RemoveTask(change::RemoveTaskArgs),
    Repos(change::ReposArgs),
    Wait(lifecycle::WaitArgs),
    FromIssue(create::FromIssueArgs),
}

#[derive(clap::Args)]
struct NamedArgs {
    /// Workflow: an id or a name
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Create(args) => create::create(cx, args)?,
        Command::Plan(args) => create::plan(cx, args)?,
        Command::List(args) => list::list(cx, args)?,
        Command::Show(args) => show::show(cx, args)?,
        Command::Summary(args) => show::summary(cx, args)?,
        Command::Start(args) => lifecycle::start(cx, args)?,
        Command::Pause(args) => lifecycle::pause(cx, args)?,
        Command::Resume(args) => lifecycle::resume(cx, args)?,
        Command::Merged(args) => lifecycle::merged(cx, args)?,
        Command::Cancel(args) => lifecycle::cancel(cx, args)?,
        Command::Replan(args) => change::replan(cx, args)?,
        Command::AddTask(args) => change::add_task(cx, args)?,
        Command::RemoveTask(args) => change::remove_task(cx, args)?,
        Command::Repos(args) => change::repos(cx, args)?,
        Command::Wait(args) => lifecycle::wait(cx, args)?,
        Command::FromIssue(args) => create::from_issue(cx, args)?,
    }
    Ok(ExitCode::SUCCESS)
}
