//! Adds and removes worktrees with the repository's own tool, without losing work.
//!
//! Git, jj and Mercurial have one file each. Rules for all of them are here: one change at a time, no worktree twice,
//! no removal of a worktree that contains another repository.

mod git;
mod hg;
mod jj;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use waypost_core::model::Vcs;
use waypost_core::time::Timestamp;
use waypost_core::words::count;
use waypost_core::{Error, Result};
use waypost_fs::{FileLock, check_no_mount_in, mounts_in};

use crate::vcs::checkout::{Checkout, ListedWorktree};

pub(crate) use git::{PlainIndex, commit_everything};
pub use git::{exclude, include, new_branch_name};

/// The maximum time to wait for another process that adds or removes a worktree, which may be large.
const LOCK_TIMEOUT: Duration = Duration::from_mins(10);

/// A request to add a worktree.
#[derive(Clone, Copy, Debug)]
pub struct Add<'a> {
    /// The branch to check out; created if it does not exist. For jj, the name of the workspace.
    pub branch: &'a str,
    /// The path [default: beside the main worktree].
    pub path: Option<&'a Path>,
    /// The start of a new branch [default: the current commit].
    pub base: Option<&'a str>,
}

/// The result of an [`Add`].
#[derive(Debug, PartialEq, Eq)]
pub struct Added {
    /// The worktree's root.
    pub path: PathBuf,
    /// Whether it was made now; otherwise it existed already.
    pub created: bool,
}

/// Adds a worktree to the repository of `checkout`, or finds the one that has the branch already.
pub fn add(checkout: &Checkout, request: Add<'_>) -> Result<Added> {
    if request.branch.is_empty() || request.branch.starts_with('-') {
        return Err(Error::invalid(format!("{:?} cannot be the name of a branch", request.branch)));
    }
    let target = match request.path {
        Some(path) => path.to_owned(),
        None => default_path(checkout, request.branch)?,
    };
    // Git's registration of worktrees has races: without the lock, some concurrent calls fail.
    let _lock = lock(checkout)?;
    let existing = match checkout.vcs {
        Vcs::Git => git::find(checkout, request.branch)?,
        Vcs::Jj => checkout.worktrees().into_iter().find(|listed| listed.name == request.branch),
        Vcs::Hg => hg::find(checkout, &target),
        Vcs::Sl | Vcs::None => None,
    };
    if let Some(existing) = existing {
        return check_existing(existing, request, &target);
    }
    let is_empty_dir = target.read_dir().is_ok_and(|mut entries| entries.next().is_none());
    if target.symlink_metadata().is_ok() && !is_empty_dir {
        return Err(Error::conflict(format!(
            "{} exists already, and is not a worktree of {}",
            target.display(),
            request.branch
        ))
        .hint("use another path: way worktree add BRANCH PATH"));
    }
    match checkout.vcs {
        Vcs::Git => git::add(checkout, request, &target)?,
        Vcs::Jj => jj::add(checkout, request, &target)?,
        Vcs::Hg => hg::add(checkout, request, &target)?,
        Vcs::Sl => {
            return Err(Error::invalid("Waypost does not make worktrees of sl").hint("sl share, or sl worktree add"));
        }
        Vcs::None => return Err(Error::invalid("a directory without version control has only one worktree")),
    }
    let path = std::fs::canonicalize(&target)
        .map_err(|error| Error::internal(format!("{} was not made", target.display())).because(error))?;
    Ok(Added { path, created: true })
}

/// The findings in a worktree that is to be removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Work that a removal would lose, and that can be saved first.
    pub at_risk: Vec<String>,
    /// Things that Waypost cannot save, each with advice. They prevent a removal, even a forced one.
    pub in_the_way: Vec<(String, String)>,
    /// Ignored files and directories, which are removed with it.
    pub ignored: Vec<String>,
}

/// Finds all work in a worktree that a removal would lose.
///
/// Commits on a branch stay in the repository, but if there is a remote, they should be there, too.
pub fn examine(checkout: &Checkout, path: &Path) -> Result<Findings> {
    let mut findings = match checkout.vcs {
        Vcs::Git => {
            nested_repositories(path)?;
            git::examine(path)?
        }
        Vcs::Jj => jj::examine(path)?,
        Vcs::Hg => hg::examine(checkout, path)?,
        Vcs::Sl | Vcs::None => Findings::default(),
    };
    for nested in nested_repositories(path)? {
        let what = format!("another repository in it, {}", nested.display());
        findings.in_the_way.push((what, "move it elsewhere, or delete it if you are done with it".to_owned()));
    }
    // First, because the other findings may be in it.
    findings.in_the_way.splice(0..0, mounts_in(path)?.iter().map(|point| mounted(point)));
    Ok(findings)
}

/// Describes a mounted file system that prevents a removal, with advice.
pub(crate) fn mounted(point: &Path) -> (String, String) {
    (
        format!("a file system mounted in it, {}", point.display()),
        format!("unmount it first: umount {}", point.display()),
    )
}

/// Where a worktree's work was saved.
#[derive(Debug, PartialEq, Eq)]
pub struct Saved {
    /// The ref or the commit.
    pub name: String,
    /// The command that restores it.
    pub restored_by: String,
}

/// Saves in the repository everything that [`examine`] reports as at risk.
pub fn save(checkout: &Checkout, path: &Path, label: &str, now: Timestamp) -> Result<Saved> {
    let message = format!("Worktree {} before it was removed", path.display());
    let reference = format!("refs/waypost/snapshots/{label}/{}", now.as_millis());
    match checkout.vcs {
        Vcs::Git => git::save(path, &message, &reference),
        Vcs::Jj => jj::save(path, Some(&reference)),
        Vcs::Hg => hg::save(path, &message),
        Vcs::Sl | Vcs::None => Err(unsupported_error(checkout.vcs)),
    }
}

/// Snapshots the files of a jj workspace into a commit of its repository.
pub(crate) fn snapshot_jj(path: &Path) -> Result<()> {
    jj::save(path, None).map(drop)
}

/// Removes a worktree that was examined. Unless its work was `saved`, it must still be clean.
pub fn remove(checkout: &Checkout, name: &str, path: &Path, saved: bool) -> Result<()> {
    let _lock = lock(checkout)?;
    // Git would delete the files in it.
    check_no_mount_in(path, None)?;
    match checkout.vcs {
        Vcs::Git => git::remove(checkout, path, saved),
        Vcs::Jj => jj::remove(checkout, name, path),
        Vcs::Hg => hg::remove(path),
        Vcs::Sl | Vcs::None => Err(unsupported_error(checkout.vcs)),
    }
}

/// Deletes the record of a worktree whose directory is gone. A missing record is not an error.
pub fn forget(checkout: &Checkout, path: &Path) -> Result<()> {
    let _lock = lock(checkout)?;
    let known = checkout.worktrees().into_iter().find(|listed| listed.path == path);
    match (checkout.vcs, known) {
        (Vcs::Git, Some(listed)) => git::forget(checkout, &listed.name, path),
        (Vcs::Jj, Some(listed)) => jj::forget(checkout, &listed.name),
        _ => Ok(()),
    }
}

/// Deletes jj's record of a workspace by its name, if its directory is gone. Its path cannot be compared: jj may have
/// recorded it with `..`, which no longer resolves.
pub(crate) fn forget_named(checkout: &Checkout, name: &str) -> Result<()> {
    let _lock = lock(checkout)?;
    let is_known = checkout.worktrees().iter().any(|listed| listed.name == name && !listed.path.is_dir());
    if is_known { jj::forget(checkout, name) } else { Ok(()) }
}

fn lock(checkout: &Checkout) -> Result<FileLock> {
    checkout.lock("worktrees.lock", LOCK_TIMEOUT)
}

fn unsupported_error(vcs: Vcs) -> Error {
    Error::refused(format!("Waypost does not remove worktrees of {vcs}"))
}

/// Returns the default path: beside the main worktree, named after the repository and the branch.
fn default_path(checkout: &Checkout, branch: &str) -> Result<PathBuf> {
    let path_needed = |why: &str| Err(Error::invalid(why).hint("give a path: way worktree add BRANCH PATH"));
    if checkout.is_submodule() {
        return path_needed("the default path of a submodule's worktree is in another repository");
    }
    let slug: String =
        branch.chars().map(|char| if char.is_alphanumeric() || "._-".contains(char) { char } else { '-' }).collect();
    match checkout.repository_path().parent() {
        Some(parent) => Ok(parent.join(format!("{}-{slug}", checkout.repository_name()))),
        None => path_needed("the repository has no parent directory"),
    }
}

fn check_existing(existing: ListedWorktree, request: Add<'_>, target: &Path) -> Result<Added> {
    if !existing.path.is_dir() {
        return Err(Error::conflict(format!(
            "{} has a worktree at {}, which is gone",
            request.branch,
            existing.path.display()
        ))
        .hint(format!("if it was deleted: way worktree rm {}", existing.name))
        .hint("if its disk is not mounted: mount it"));
    }
    let place = std::fs::canonicalize(target).ok();
    if request.path.is_some() && place.as_deref() != Some(&existing.path) {
        return Err(Error::conflict(format!("{} is checked out at {}", request.branch, existing.path.display())));
    }
    Ok(Added { path: existing.path, created: false })
}

/// Returns whether an entry of this name marks its directory as a repository or a worktree.
pub(crate) fn is_repository_mark(name: &OsStr) -> bool {
    [".git", ".jj", ".hg", ".sl"].iter().any(|mark| name == *mark)
}

/// The files of a worktree that git itself reads.
const PATTERN_FILES: [&str; 3] = [".gitattributes", ".gitignore", ".gitmodules"];

/// Lists the repositories inside a worktree, by relative path.
pub(crate) fn nested(root: &Path) -> Result<Vec<String>> {
    let found = nested_repositories(root)?;
    let relative = |path: &Path| path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
    Ok(found.iter().map(|path| relative(path)).collect())
}

/// Finds repositories inside a worktree: clones, submodules, other worktrees. Links are not followed. Refuses pipes and
/// devices in the place of files that git itself reads.
fn nested_repositories(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        let unreadable = |error| Error::refused(format!("cannot read {}", dir.display())).because(error);
        let mut inner = Vec::new();
        let mut is_repository = false;
        for entry in std::fs::read_dir(&dir).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let (name, kind) = (entry.file_name(), entry.file_type().map_err(unreadable)?);
            if is_repository_mark(&name) {
                is_repository = true;
            } else if kind.is_dir() {
                inner.push(entry.path());
            } else if PATTERN_FILES.iter().any(|known| name == *known) && !kind.is_file() && !kind.is_symlink() {
                let what = format!("{} is not a regular file, and git would wait for it", entry.path().display());
                return Err(Error::refused(what).hint("delete it"));
            }
        }
        if is_repository && dir != root {
            found.push(dir);
        } else {
            dirs.append(&mut inner);
        }
    }
    found.sort();
    Ok(found)
}

/// Describes commits that only this repository has, if any.
fn unpushed(commits: usize, holder: &str) -> Option<String> {
    (commits > 0).then(|| format!("{} that no {holder} has", count(commits, "commit")))
}

/// Describes changed and new files, if any.
fn dirty(changed: usize, new: usize) -> Vec<String> {
    let changed = (changed > 0).then(|| format!("{} changed, not committed", count(changed, "file")));
    let new = (new > 0).then(|| format!("{} not under version control", count(new, "file")));
    changed.into_iter().chain(new).collect()
}
