//! `way ws`

mod deliver;
mod inspect;
mod make;
mod remove;
mod save;

use std::process::ExitCode;

use waypost_core::{Error, Result};

pub(crate) use deliver::{DeliveryArgs, deliver};

use crate::CommandContext;
use waypost::machine::bytes;
use waypost::work::jobs;
use waypost::work::workspaces::UserWorkspaces;

/// Create, list, save and remove the workspaces of jobs
///
/// Every job gets its own workspace, which is kept after the job ends. A workspace whose work exists nowhere else is
/// never removed without saving the work, except with way ws rm --discard.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way ws list                        all workspaces and their sizes
  way ws list --all                  also those of other repositories, and of deleted ones
  way ws show jb_4k2j                the workspace of a job
  way ws diff jb_4k2j                its changes since it started
  way ws whose .                     the job of this directory
  way ws gc --older-than 7d --dry-run
  way ws rm ws_1a2b --force          saves its content, then removes it
  way ws restore ws_1a2b-1           restores it in a new workspace")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    #[command(visible_aliases = ["create", "add"])]
    New(make::NewArgs),
    #[command(visible_alias = "ls")]
    List(inspect::ListArgs),
    /// Show a workspace, and the work that its removal would lose
    Show(OneArgs),
    Diff(inspect::DiffArgs),
    Whose(inspect::WhoseArgs),
    /// Measure the size of workspaces
    Du(inspect::DuArgs),
    /// Protect a workspace from removal
    Pin(OneArgs),
    /// Allow the removal of a pinned workspace
    Unpin(OneArgs),
    #[command(visible_alias = "remove")]
    Rm(remove::RmArgs),
    #[command(visible_alias = "clean")]
    Gc(remove::GcArgs),
    /// Save the content of a workspace, including untracked files
    Snapshot(OneArgs),
    Snapshots(save::SnapshotsArgs),
    Restore(save::RestoreArgs),
    Export(save::ExportArgs),
    /// Print the path of a workspace, and remount it if it is an overlay
    Enter(OneArgs),
    Update(make::UpdateArgs),
    Warm(make::WarmArgs),
    /// List the workspaces in the pool
    Pool,
    Push(deliver::PushArgs),
    Land(deliver::LandArgs),
    Merged(deliver::MergedArgs),
    Trust(make::TrustArgs),
}

#[derive(clap::Args)]
struct OneArgs {
    /// Workspace: an id or its prefix, a job, or a path in the workspace
    workspace: String,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let command = &args.command;
    if is_for_any_workspace(command) {
        let (place, mut session) = cx.session_if_any()?;
        if let Some(session) = &mut session {
            jobs::recover_interrupted_work(session)?;
        }
        return run_for_any(cx, &mut UserWorkspaces::new(place, session.as_mut()), command);
    }
    let is_new = matches!(command, Command::New(_) | Command::Warm(_));
    let mut session = if is_new { cx.session_to_write()? } else { cx.session()? };
    jobs::recover_interrupted_work(&mut session)?;
    let session = &mut session;
    match command {
        Command::New(args) => make::new(cx, session, args),
        Command::List(args) => inspect::list(cx, session, args),
        Command::Diff(args) => inspect::diff(cx, session, args),
        Command::Restore(args) => save::restore(cx, session, args),
        Command::Enter(args) => make::enter(cx, session, &args.workspace),
        Command::Update(args) => make::update(cx, session, args),
        Command::Warm(args) => make::warm(cx, session, args),
        Command::Pool => inspect::pool(cx, session),
        Command::Push(args) => deliver::push(cx, session, args),
        Command::Land(args) => deliver::land(cx, session, args),
        Command::Merged(args) => deliver::merged(cx, session, args),
        Command::Trust(args) => make::trust(cx, session, args),
        _ => run_for_any(cx, &mut UserWorkspaces::new(session.place.clone(), Some(session)), command),
    }
}

/// Returns whether a command works from anywhere, on workspaces that no store has any more.
fn is_for_any_workspace(command: &Command) -> bool {
    match command {
        Command::List(args) => args.is_of_user(),
        Command::Du(args) => args.is_of_user(),
        Command::Gc(args) => args.is_of_user(),
        Command::Snapshots(args) => args.is_of_user(),
        Command::Show(_)
        | Command::Whose(_)
        | Command::Pin(_)
        | Command::Unpin(_)
        | Command::Rm(_)
        | Command::Snapshot(_)
        | Command::Export(_) => true,
        _ => false,
    }
}

fn run_for_any(cx: &mut CommandContext, workspaces: &mut UserWorkspaces<'_>, command: &Command) -> Result<ExitCode> {
    match command {
        Command::List(args) => inspect::list_all(cx, workspaces, args),
        Command::Show(args) => inspect::show(cx, workspaces, &args.workspace),
        Command::Whose(args) => inspect::whose(cx, workspaces, args),
        Command::Du(args) => inspect::du(cx, workspaces, args),
        Command::Pin(args) => remove::pin(cx, workspaces, &args.workspace, true),
        Command::Unpin(args) => remove::pin(cx, workspaces, &args.workspace, false),
        Command::Rm(args) => remove::rm(cx, workspaces, args),
        Command::Gc(args) => remove::gc(cx, workspaces, args),
        Command::Snapshot(args) => save::snapshot(cx, workspaces, &args.workspace),
        Command::Snapshots(args) => save::snapshots(cx, workspaces, args),
        Command::Export(args) => save::export(cx, workspaces.place(), args),
        _ => Err(Error::internal("this command needs a store")),
    }
}

/// Parses a size from the command line.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    bytes::parse(text).ok_or_else(|| "expected a size, e.g. 500MB or 20GiB".to_owned())
}
