//! `way ws`

mod deliver;
mod look;
mod make;
mod remove;
mod save;

use std::process::ExitCode;

use waypost_core::Result;

pub(crate) use deliver::{DeliveryArgs, deliver};
pub(crate) use make::StartingPoint;

use crate::CommandContext;
use waypost::bytes;
use waypost::{jobs, workspaces};

/// Isolated directories for jobs: list, look into, save and remove them
///
/// A workspace is made for every job, and kept when the job has ended. It is never removed with work in it that nobody
/// else has, unless that is saved first.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way ws list                        what is there, and how large it is
  way ws show jb_4k2j                the workspace of a job
  way ws whose .                     which job this directory was made for
  way ws gc --older-than 7d --dry-run
  way ws rm ws_1a2b --force          saves what is in it, then removes it
  way ws restore ws_1a2b-1           gets it back, in a new workspace")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    #[command(visible_aliases = ["create", "add"])]
    New(make::NewArgs),
    #[command(visible_alias = "ls")]
    List(look::ListArgs),
    /// Show a workspace, and what would be lost with it
    Show(OneArgs),
    Whose(look::WhoseArgs),
    /// Measure workspaces
    Du(look::DuArgs),
    /// Keep a workspace until it is unpinned
    Pin(OneArgs),
    /// Let a workspace be removed again
    Unpin(OneArgs),
    #[command(visible_alias = "remove")]
    Rm(remove::RmArgs),
    #[command(visible_alias = "clean")]
    Gc(remove::GcArgs),
    /// Save everything in a workspace, untracked files too
    Snapshot(OneArgs),
    /// List what was saved of workspaces of this repository
    Snapshots,
    Restore(save::RestoreArgs),
    Export(save::ExportArgs),
    /// Make sure that a workspace can be worked in, and say where it is: an overlay is mounted again
    Enter(OneArgs),
    Warm(make::WarmArgs),
    /// List the workspaces that wait for a job
    Pool,
    Push(deliver::PushArgs),
    Merged(deliver::MergedArgs),
    Trust(make::TrustArgs),
}

#[derive(clap::Args)]
struct OneArgs {
    /// Its id, the beginning of it, its job, or a path in it
    workspace: String,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let mut session = cx.session()?;
    jobs::reap_orphaned_jobs(&mut session)?;
    workspaces::recover_interrupted(&mut session)?;
    let session = &mut session;
    match &args.command {
        Command::New(args) => make::new(cx, session, args),
        Command::List(args) => look::list(cx, session, args),
        Command::Show(args) => look::show(cx, session, &args.workspace),
        Command::Whose(args) => look::whose(cx, session, args),
        Command::Du(args) => look::du(cx, session, args),
        Command::Pin(args) => remove::pin(cx, session, &args.workspace, true),
        Command::Unpin(args) => remove::pin(cx, session, &args.workspace, false),
        Command::Rm(args) => remove::rm(cx, session, args),
        Command::Gc(args) => remove::gc(cx, session, args),
        Command::Snapshot(args) => save::snapshot(cx, session, &args.workspace),
        Command::Snapshots => save::snapshots(cx, session),
        Command::Restore(args) => save::restore(cx, session, args),
        Command::Export(args) => save::export(cx, session, args),
        Command::Enter(args) => make::enter(cx, session, &args.workspace),
        Command::Warm(args) => make::warm(cx, session, args),
        Command::Pool => look::pool(cx, session),
        Command::Push(args) => deliver::push(cx, session, args),
        Command::Merged(args) => deliver::merged(cx, session, args),
        Command::Trust(args) => make::trust(cx, session, args),
    }
}

/// Reads an amount of bytes from the command line.
pub(crate) fn amount(text: &str) -> Result<u64, String> {
    bytes::parse(text).ok_or_else(|| "an amount of bytes, for example 500MB or 20GiB".to_owned())
}

fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
