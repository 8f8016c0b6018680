//! `way task`

mod change;
mod claim;
mod finish;
mod list;
mod progress;
mod show;
mod wait;

use std::process::ExitCode;

use waypost_core::Result;

use super::context;
use crate::CommandContext;

/// Claim tasks, record their progress, and finish them
///
/// The agent that claims a task holds a lease with an epoch. Checkpoints, the outcome and all other writes to the task
/// need this lease. Every write and every heartbeat renews it. When the lease expires, the attempt ends; further writes
/// of the agent fail with exit code 5, and the agent must stop working on the task.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way task claim --agent alice                 the most urgent task, with its context
  way task claim release/test --agent alice --ttl 30m
  way task checkpoint test --agent alice --epoch 1 --type progress --summary 'half of the tests pass'
  way task done test --agent alice --epoch 1 --outcome 'all green' --evidence 'cargo test: 412 passed'
  way task fail test --agent alice --epoch 1 --error 'the database is down'
  way task claim --agent alice --wait --timeout 1h   waits until a task is ready

A task is named by its id, by its name, or by workflow/name. WAYPOST_AGENT replaces --agent.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    #[command(visible_alias = "ls")]
    List(list::ListArgs),
    Next(list::NextArgs),
    Show(show::ShowArgs),
    Claim(claim::ClaimArgs),
    Checkpoint(progress::CheckpointArgs),
    Heartbeat(progress::HeartbeatArgs),
    Done(finish::DoneArgs),
    Fail(finish::FailArgs),
    Release(finish::ReleaseArgs),
    Pause(finish::PauseArgs),
    Skip(change::SkipArgs),
    Reopen(change::ReopenArgs),
    Ask(progress::AskArgs),
    Answer(change::AnswerArgs),
    Assign(change::AssignArgs),
    Update(change::UpdateArgs),
    Context(context::Args),
    Wait(wait::WaitArgs),
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::List(args) => list::list(cx, args)?,
        Command::Next(args) => list::next(cx, args)?,
        Command::Show(args) => show::show(cx, args)?,
        Command::Claim(args) => claim::claim(cx, args)?,
        Command::Checkpoint(args) => progress::checkpoint(cx, args)?,
        Command::Heartbeat(args) => progress::heartbeat(cx, args)?,
        Command::Done(args) => finish::done(cx, args)?,
        Command::Fail(args) => finish::fail(cx, args)?,
        Command::Release(args) => finish::release(cx, args)?,
        Command::Pause(args) => finish::pause(cx, args)?,
        Command::Skip(args) => change::skip(cx, args)?,
        Command::Reopen(args) => change::reopen(cx, args)?,
        Command::Ask(args) => progress::ask(cx, args)?,
        Command::Answer(args) => change::answer(cx, args)?,
        Command::Assign(args) => change::assign(cx, args)?,
        Command::Update(args) => change::update(cx, args)?,
        Command::Context(args) => return context::run(cx, args),
        Command::Wait(args) => wait::wait(cx, args)?,
    }
    Ok(ExitCode::SUCCESS)
}
