//! `way worktree`

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;
use waypost_core::model::Vcs;
use waypost_core::op::RemoveWorktree;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result, path_text};
use waypost_workspace::worktrees;

use crate::CommandContext;
use crate::ui::{BAD, Cell, DIM, GOOD, PLAIN, WARN, cell, cell_keeping_end, header, styled};
use waypost::app::session::Session;
use waypost::machine::place::{DOT_DIR, STORE_FILE, Scope};
use waypost::work::{Surveyed, WorktreeState, find_worktree, survey_worktrees};

/// Add, list and remove worktrees that share one store
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way worktree add topic             a new branch from the current commit, beside the repository
  way worktree add fix ../fix --base v1.2
  way worktree rm topic              refuses if work would be lost")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Add(AddArgs),
    #[command(visible_alias = "ls")]
    List(ListArgs),
    #[command(visible_alias = "remove")]
    Rm(RmArgs),
}

/// Add a worktree for a branch
///
/// Creates the branch from --base or the current commit if it does not exist. If the branch has a worktree already,
/// prints that one. For jj, BRANCH names the new workspace.
#[derive(clap::Args)]
struct AddArgs {
    /// Branch to check out
    branch: String,
    /// Directory of the worktree [default: beside the main worktree]
    path: Option<PathBuf>,
    /// Starting point of a new branch [default: the current commit]
    #[arg(long, value_name = "REVISION")]
    base: Option<String>,
}

/// List all worktrees, including missing ones
#[derive(clap::Args)]
struct ListArgs {}

/// Remove a worktree, and keep its branch and its history
///
/// Refuses if the worktree has uncommitted files or commits that are on no remote. Refuses even with --force if it
/// contains another repository or an operation is in progress. Ignored files are deleted with the worktree.
#[derive(clap::Args)]
struct RmArgs {
    /// Worktree: an id, a name, a branch or a path
    #[arg(value_name = "WORKTREE")]
    target: String,
    /// Save uncommitted and unpushed work in the repository, then remove the worktree
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Add(args) => add(cx, args),
        Command::List(args) => list(cx, args),
        Command::Rm(args) => rm(cx, args),
    }
}

fn add(cx: &mut CommandContext, args: &AddArgs) -> Result<ExitCode> {
    let session = cx.session_to_write()?;
    let checkout = session.place.require_checkout()?.clone();
    let path = args.path.as_deref().map(|path| session.place.cwd.join(path));
    let request = worktrees::Add { branch: &args.branch, path: path.as_deref(), base: args.base.as_deref() };
    let added = worktrees::add(&checkout, request)?;
    if session.choice.scope == Some(Scope::Repo)
        && matches!(checkout.vcs, Vcs::Git | Vcs::Jj)
        && let Err(error) = link(&session, &added.path)
    {
        // The link is for other tools only, so a failure to create it is not an error.
        log::debug!("no link to the store: {}", error.full_message());
    }
    let session = Session::open(session.place.seen_from(&added.path, &session.choice)?)?;
    let worktree = session.worktree();
    let data = json!({
        "id": worktree.id,
        "name": worktree.name,
        "path": path_text::to_text(&worktree.path),
        "branch": worktree.branch,
        "created": added.created,
    });
    cx.ui.answer(&data, |text| {
        let verb = if added.created { "Created" } else { "Found existing" };
        text.line(format!("{verb} worktree {} at {}", worktree.name, worktree.path.display()));
    })?;
    Ok(ExitCode::SUCCESS)
}

fn list(cx: &mut CommandContext, _args: &ListArgs) -> Result<ExitCode> {
    let mut session = cx.session()?;
    let mut all = survey_worktrees(&mut session)?;
    if let Some(reference) = &cx.global.worktree {
        all = vec![find_worktree(&all, reference, &session.place.cwd)?.clone()];
    }
    let now = session.now()?;
    cx.ui.answer(&all, |text| text.table(&table_of(&all, now)))?;
    Ok(ExitCode::SUCCESS)
}

fn rm(cx: &mut CommandContext, args: &RmArgs) -> Result<ExitCode> {
    let mut session = cx.session()?;
    let checkout = session.place.require_checkout()?.clone();
    let all = survey_worktrees(&mut session)?;
    let target = find_worktree(&all, &args.target, &session.place.cwd)?;
    if target.repository_id != session.repository().id {
        return Err(Error::refused(format!("worktree {} belongs to repository {}", target.name, target.repository))
            .hint("run the command in that repository"));
    }
    let mut saved = None;
    let mut ignored = Vec::new();
    if target.is_live() {
        check_removable(&session, target)?;
        let findings = worktrees::examine(&checkout, &target.path)?;
        if let Some((obstacle, hint)) = findings.in_the_way.first() {
            return Err(Error::refused(format!("worktree {} has {obstacle}", target.name)).hint(hint));
        }
        if !findings.at_risk.is_empty() {
            if !args.force {
                return Err(Error::refused(format!("worktree {} has work that would be lost", target.name))
                    .because(findings.at_risk.join(", "))
                    .hint("commit and push it, or save and remove it with --force"));
            }
            let label = target.id.as_ref().map_or(target.name.as_str(), |id| id.as_str());
            saved = Some(worktrees::save(&checkout, &target.path, label, session.now()?)?);
        }
        ignored = findings.ignored;
        unlink(&session, &target.path);
        ignored.retain(|name| name != &format!("{DOT_DIR}/{STORE_FILE}") && name != &format!("{DOT_DIR}/"));
        worktrees::remove(&checkout, &target.name, &target.path, saved.is_some())?;
    } else if target.state == WorktreeState::Unreachable {
        return Err(Error::unavailable(format!("cannot read worktree {}", target.name)));
    } else if target.path.symlink_metadata().is_err() {
        worktrees::forget(&checkout, &target.path)?;
    }
    if let (Some(id), Some(_)) = (target.id.clone(), target.last_seen) {
        session.call(RemoveWorktree { id })?;
    }
    let data = json!({
        "id": target.id,
        "name": target.name,
        "path": path_text::to_text(&target.path),
        "was": target.state,
        "saved": saved.as_ref().map(|saved| &saved.name),
        "ignored": ignored,
    });
    cx.ui.answer(&data, |text| {
        if target.is_live() {
            text.line(format!("Removed worktree {} at {}", target.name, target.path.display()));
        } else {
            text.line(format!("Worktree {} was already gone", target.name));
        }
        if let Some(saved) = &saved {
            text.line(format!("Its work is saved. To restore it: {}", saved.restored_by));
        }
        if !ignored.is_empty() {
            text.line(format!("Deleted its ignored files: {}", shortened(&ignored)));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn check_removable(session: &Session, target: &Surveyed) -> Result<()> {
    let checkout = session.place.require_checkout()?;
    if session.place.cwd.starts_with(&target.path) {
        return Err(Error::refused(format!("worktree {} is the current one", target.name))
            .hint("change to another directory first"));
    }
    if checkout.main_root.as_deref() == Some(&target.path) || checkout.shared_dir == target.path {
        return Err(Error::refused(format!(
            "worktree {} is the main worktree, which contains the repository",
            target.name
        )));
    }
    Ok(())
}

/// Joins names, and abbreviates a long list.
fn shortened(names: &[String]) -> String {
    const MAX_NAMES: usize = 4;
    let shown = names.iter().take(MAX_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > MAX_NAMES { format!("{shown} and {} more", names.len() - MAX_NAMES) } else { shown }
}

/// Creates a link to the store in a worktree, for tools that open the file by a path.
fn link(session: &Session, root: &Path) -> Result<()> {
    let Some(store) = session.sqlite() else { return Ok(()) };
    let dir = root.join(DOT_DIR);
    let cannot = |error| Error::unavailable(format!("cannot write in {}", dir.display())).because(error);
    if dir.is_symlink() {
        return Err(Error::refused(format!("{} is a link", dir.display())));
    }
    worktrees::exclude(session.place.require_checkout()?, &format!("/{DOT_DIR}/{STORE_FILE}"))?;
    std::fs::create_dir_all(&dir).map_err(cannot)?;
    let link = dir.join(STORE_FILE);
    if link.symlink_metadata().is_ok() {
        return Ok(());
    }
    symlink(store.path(), link).map_err(cannot)
}

/// Removes the link to the store before the worktree is removed, and its directory if that is empty.
fn unlink(session: &Session, root: &Path) {
    let link = root.join(DOT_DIR).join(STORE_FILE);
    let is_store = |target| session.sqlite().is_some_and(|store| target == store.path());
    if std::fs::read_link(&link).is_ok_and(is_store) {
        let _ = std::fs::remove_file(&link);
        let _ = std::fs::remove_dir(root.join(DOT_DIR));
    }
}

/// Returns the table of worktrees.
pub(crate) fn table_of(worktrees: &[Surveyed], now: Timestamp) -> Vec<Vec<Cell>> {
    let several = worktrees.iter().any(|one| one.repository != worktrees[0].repository);
    let titles = header(["  NAME", "BRANCH", "STATE", "SEEN", "ID", "PATH"]);
    let rows = worktrees.iter().map(|one| {
        let mark = if one.state == WorktreeState::Here { "*" } else { " " };
        let style = match one.state {
            WorktreeState::Here => GOOD,
            WorktreeState::Present => PLAIN,
            WorktreeState::New | WorktreeState::Elsewhere => DIM,
            WorktreeState::Gone | WorktreeState::Unreachable => BAD,
            WorktreeState::Removed => WARN,
        };
        let name = if several { format!("{}/{}", one.repository, one.name) } else { one.name.clone() };
        vec![
            styled(style, format!("{mark} {name}")),
            cell(one.branch.as_deref().unwrap_or("-")),
            styled(style, one.state.as_str()),
            styled(DIM, one.last_seen.map_or_else(|| "-".to_owned(), |seen| seen.ago(now))),
            styled(DIM, one.id.as_ref().map_or("-", |id| id.as_str())),
            cell_keeping_end(one.path.display()),
        ]
    });
    std::iter::once(titles).chain(rows).collect()
}
