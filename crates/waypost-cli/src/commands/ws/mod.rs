//! `way ws`

mod deliver;
mod inspect;
mod make;
mod remove;
mod save;

use std::process::ExitCode;

use waypost_core::Result;

pub(crate) use deliver::{DeliveryArgs, deliver};

use crate::CommandContext;
use waypost::bytes;
use waypost::jobs;

/// Create, list, save and remove the workspaces of jobs
///
/// Every job gets its own workspace, which is kept after the job ends. A workspace whose work exists nowhere else is
/// never removed without saving the work, except with way ws rm --discard.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way ws list                        all workspaces and their sizes
  way ws show jb_4k2j                the workspace of a job
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
    let is_new = matches!(args.command, Command::New(_) | Command::Warm(_));
    let mut session = if is_new { cx.session_to_write()? } else { cx.session()? };
    jobs::recover_interrupted_work(&mut session)?;
    let session = &mut session;
    match &args.command {
        Command::New(args) => make::new(cx, session, args),
        Command::List(args) => inspect::list(cx, session, args),
        Command::Show(args) => inspect::show(cx, session, &args.workspace),
        Command::Whose(args) => inspect::whose(cx, session, args),
        Command::Du(args) => inspect::du(cx, session, args),
        Command::Pin(args) => remove::pin(cx, session, &args.workspace, true),
        Command::Unpin(args) => remove::pin(cx, session, &args.workspace, false),
        Command::Rm(args) => remove::rm(cx, session, args),
        Command::Gc(args) => remove::gc(cx, session, args),
        Command::Snapshot(args) => save::snapshot(cx, session, &args.workspace),
        Command::Snapshots(args) => save::snapshots(cx, session, args),
        Command::Restore(args) => save::restore(cx, session, args),
        Command::Export(args) => save::export(cx, session, args),
        Command::Enter(args) => make::enter(cx, session, &args.workspace),
        Command::Warm(args) => make::warm(cx, session, args),
        Command::Pool => inspect::pool(cx, session),
        Command::Push(args) => deliver::push(cx, session, args),
        Command::Land(args) => deliver::land(cx, session, args),
        Command::Merged(args) => deliver::merged(cx, session, args),
        Command::Trust(args) => make::trust(cx, session, args),
    }
}

/// Parses a size from the command line.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    bytes::parse(text).ok_or_else(|| "expected a size, e.g. 500MB or 20GiB".to_owned())
}

fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
