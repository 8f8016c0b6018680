//! `way repo`

use std::path::PathBuf;
use std::process::ExitCode;

use waypost_core::Result;
use waypost_core::op::{AddRepository, ListRepositories, RemoveRepository};

use crate::CommandContext;
use crate::ui::{DIM, GOOD, cell, cell_keeping_end, header, number, styled};
use waypost::issues::Repo;
use waypost::machine::SystemEntropy;
use waypost::machine::place::expand;

/// List, register and remove repositories of the store
///
/// Using way in a repository registers it. Registering one explicitly lets a workflow over several repositories name it
/// before its first use; this needs a store that repositories share: --global, or PostgreSQL.
///
/// This does not affect issues, which are in ledgers, not in the store. To read the issues of another repository, use
/// way config --add-repo PATH.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way --global repo add ../backend
  way --global repo list
  way --global repo remove ../backend")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Register a repository
    Add {
        /// Directory in the repository
        path: PathBuf,
    },
    /// List registered repositories
    #[command(visible_alias = "ls")]
    List,
    /// Unregister a repository that nothing refers to, without touching its files
    #[command(visible_alias = "rm")]
    Remove {
        /// Repository id, name or path
        #[arg(value_name = "REPOSITORY")]
        target: String,
    },
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Add { path } => add(cx, path),
        Command::List => list(cx),
        Command::Remove { target } => remove(cx, target),
    }
}

fn add(cx: &mut CommandContext, path: &std::path::Path) -> Result<ExitCode> {
    let mut session = cx.session_to_write()?;
    let path = expand(path, &session.place.cwd, &session.place.variables)?;
    let found = Repo::open(&path, &session.place.variables).map_err(|error| error.within(path.display()))?;
    let id = found.checkout.ensure_repository_id(&mut SystemEntropy)?;
    let repository = session.call(AddRepository { repository: found.as_known(id) })?;
    cx.ui.answer(&repository, |text| {
        text.line(format!(
            "Registered repository {} at {} as {}",
            repository.name,
            repository.path.display(),
            repository.id
        ));
    })?;
    Ok(ExitCode::SUCCESS)
}

fn list(cx: &mut CommandContext) -> Result<ExitCode> {
    let mut session = cx.session()?;
    let own = session.repository().id.clone();
    let all = session.call(ListRepositories::all())?.repositories;
    cx.ui.answer(&all, |text| {
        let titles = header(["  NAME", "VCS", "WORKTREES", "LIVE WORKFLOWS", "ID", "PATH"]);
        let rows = all.iter().map(|seen| {
            let is_own = seen.repository.id == own;
            let name = format!("{} {}", if is_own { "*" } else { " " }, seen.repository.name);
            vec![
                if is_own { styled(GOOD, name) } else { cell(name) },
                cell(seen.repository.vcs),
                number(seen.worktrees),
                number(seen.live_workflows),
                styled(DIM, &seen.repository.id),
                cell_keeping_end(seen.repository.path.display()),
            ]
        });
        text.list(titles, rows);
    })?;
    Ok(ExitCode::SUCCESS)
}

fn remove(cx: &mut CommandContext, target: &str) -> Result<ExitCode> {
    let mut session = cx.session()?;
    // The store contains the canonical path only.
    let path = session.place.cwd.join(target);
    let known = session.call(ListRepositories::all())?.repositories;
    let at = std::fs::canonicalize(&path).unwrap_or(path);
    let named = known.iter().find(|seen| seen.repository.path == at).map(|seen| seen.repository.id.to_string());
    let operation = RemoveRepository { repository: named.unwrap_or_else(|| target.to_owned()) };
    let repository = session.call(operation)?;
    cx.ui.answer(&repository, |text| {
        text.line(format!("Unregistered repository {} at {}", repository.name, repository.path.display()));
    })?;
    Ok(ExitCode::SUCCESS)
}
