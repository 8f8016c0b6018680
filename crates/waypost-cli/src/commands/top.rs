//! `way top`

use std::process::ExitCode;

use waypost_core::{Error, Result};

use crate::CommandContext;
use crate::top::{self, Options, Wanted};

/// Follow the status on a screen, with logs, answers and actions
///
/// Shows the same groups, reasons and order as way status, and follows the store. Enter opens a row, l follows the log of its
/// job, a answers the question of a task, space lists the actions of the row, each with the command that does the same, / filters,
/// : opens a list or runs an action, and ? lists all keys.
///
/// Needs a terminal; 80 columns and 24 lines are enough.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way top
  way top --worktree topic       only this worktree
  way --global top               all repositories of the global store
  way top --read-only            without actions")]
pub(crate) struct Args {
    /// Show everything, and change nothing
    #[arg(long)]
    read_only: bool,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let mut session = cx.session()?;
    if cx.ui.json {
        return Err(Error::invalid("way top has no JSON output").hint("way status --json prints the same"));
    }
    top::check_terminal()?;
    let wanted = Wanted {
        worktree_id: cx.worktree_filter(&mut session)?,
        repository: cx.repository_filter(&mut session)?,
        repo: cx.global.repo.clone(),
    };
    let options = Options {
        place: session.place.clone(),
        wanted,
        is_read_only: args.read_only,
        has_color: cx.ui.has_color(),
        arguments: cx.global.arguments()?,
    };
    drop(session);
    top::run(options)?;
    Ok(ExitCode::SUCCESS)
}
