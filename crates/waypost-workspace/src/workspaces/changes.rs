//! Uncommitted changes of the checkout that a workspace is made from: found, and taken along on request.

use std::path::Path;

use waypost_core::model::Vcs;
use waypost_core::{Error, Result};

use super::mirror::{Mirror, keep};
use super::model::{Plan, Strategy};
use super::plan::resolve;
use super::push::git_in;
use crate::vcs::checkout::Checkout;
use crate::vcs::run::{Git, hg, jj};
use crate::worktrees::{commit_everything, nested};

/// The directories of ledgers. A job uses the ledger of its owner, not a copy.
const LEDGER_DIRS: [&str; 2] = [".waypost", ".beads"];

/// Uncommitted changes of a checkout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncommitted {
    /// The number of changed and new files, without ledgers.
    pub files: usize,
    /// The commit that they are based on.
    pub head: String,
}

/// Finds uncommitted changes of a checkout. None if there are none, or if its files have no commits.
pub fn uncommitted(checkout: &Checkout) -> Result<Option<Uncommitted>> {
    let Some(root) = checkout.root.as_deref() else { return Ok(None) };
    let (paths, head) = match checkout.vcs {
        Vcs::Git => {
            let git = Git::in_worktree(root)?;
            let Ok(head) = resolve(&git, "HEAD") else { return Ok(None) };
            let status =
                ["status", "--porcelain", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=dirty"];
            // Git must not refresh the user's index.
            let status = git.command().env("GIT_OPTIONAL_LOCKS", "0").args(status).stdout()?;
            (status.split('\0').filter_map(|entry| entry.get(3..)).map(str::to_owned).collect::<Vec<_>>(), head)
        }
        Vcs::Jj => {
            let head = jj(root)?.args(["log", "--no-graph", "--revisions=@", "--template=commit_id"]).stdout()?;
            let changed = jj(root)?.args(["diff", "--revisions=@", "--name-only"]).stdout()?;
            (changed.lines().map(str::to_owned).collect(), head)
        }
        Vcs::Hg => {
            let head = hg(root).args(["log", "--rev=.", "--template={node}"]).stdout()?;
            let status = hg(root).args(["status", "--print0", "--no-status", "-mardu"]).stdout()?;
            (status.split('\0').map(str::to_owned).collect(), head)
        }
        Vcs::Sl | Vcs::None => return Ok(None),
    };
    let is_work = |path: &&String| !path.is_empty() && !LEDGER_DIRS.iter().any(|dir| Path::new(path).starts_with(dir));
    let files = paths.iter().filter(is_work).count();
    Ok(Some(Uncommitted { files, head }).filter(|found| found.files > 0))
}

/// Returns the commit that a workspace starts from to have the uncommitted changes of a jj checkout.
pub fn commit_with_changes(checkout: &Checkout) -> Result<Option<String>> {
    match (&checkout.root, checkout.vcs) {
        (Some(root), Vcs::Jj) => {
            jj(root)?.args(["log", "--no-graph", "--revisions=@", "--template=commit_id"]).stdout().map(Some)
        }
        _ => Ok(None),
    }
}

/// Brings the uncommitted changes of the checkout into a workspace that was made from its head. There they are
/// uncommitted, too. The checkout does not change.
pub fn take_changes(plan: &Plan) -> Result<()> {
    let refused = |why: &str| Err(Error::refused(format!("cannot include uncommitted changes: {why}")));
    let (Some(root), Some(base)) = (&plan.checkout, &plan.base) else { return refused("there is no checkout") };
    let workspace = match (plan.strategy, &plan.git_dir) {
        (Strategy::Clone | Strategy::Overlay | Strategy::Worktree, Some(_)) => git_in(plan)?,
        // It starts from a commit that has them, or from the files themselves.
        (Strategy::Jj | Strategy::Copy | Strategy::InPlace, _) => return Ok(()),
        _ => return refused("commit them first, or use git or jj"),
    };
    let git = Git::in_worktree(root)?;
    if resolve(&git, "HEAD")? != *base {
        return refused("the job does not start from the commit that they are based on");
    }
    let git_dir = git.command().args(["rev-parse", "--absolute-git-dir"]).path()?;
    let except: Vec<String> = nested(root)?.into_iter().chain(LEDGER_DIRS.map(str::to_owned)).collect();
    let commit = commit_everything(&git, &git_dir, root, "Uncommitted changes", &except)?;
    if plan.strategy.borrows() {
        Mirror::of(plan)?.fetch_from(&git_dir, &commit, &keep(&plan.name, "changes"))?;
    }
    // The files become those of the commit, and the index that of the head again.
    workspace.command().args(["read-tree", "--reset", "-u", &commit]).stdout()?;
    workspace.command().args(["read-tree", "HEAD"]).stdout()?;
    // It exits with 1 because files differ from the index.
    workspace.command().args(["update-index", "-q", "--refresh"]).code().map(drop)
}
