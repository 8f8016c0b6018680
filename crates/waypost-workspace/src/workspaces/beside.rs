//! Finds work that a job left in its workspace's directory, outside of the workspace itself.
//!
//! Removing a workspace removes the whole directory. A job may have added git worktrees, cloned repositories or written
//! files there, so all of it is examined.

use std::ffi::OsStr;
use std::fs::{self, FileType};
use std::path::{Path, PathBuf};

use waypost_core::{Error, Result};
use waypost_fs::read_small_file;

use super::model::{Plan, Strategy};
use crate::sandbox::RECORD;
use crate::vcs::run::Git;
use crate::worktrees::is_repository_mark;

/// Everything in a workspace's directory that Waypost did not put there.
#[derive(Default)]
pub(super) struct Beside {
    /// Git worktrees of the workspace's own repository.
    pub(super) worktrees: Vec<Linked>,
    /// Other repositories.
    pub(super) repositories: Vec<PathBuf>,
    /// Files, and directories with files that belong to no repository.
    pub(super) files: Vec<PathBuf>,
}

/// A git worktree that a job added to the repository of its workspace.
pub(super) struct Linked {
    pub(super) root: PathBuf,
    /// Its own git directory, in the repository's.
    pub(super) git_dir: PathBuf,
}

impl Linked {
    /// Returns git on this worktree.
    pub(super) fn git(&self) -> Result<Git> {
        Git::of_linked_worktree(&self.root, &self.git_dir)
    }
}

/// Finds everything beside a workspace that would be removed with it.
pub(super) fn beside(plan: &Plan) -> Result<Beside> {
    let mut found = Beside::default();
    let home = plan.home();
    for (path, kind) in entries(&home)? {
        if !is_own(plan, path.file_name().unwrap_or_default(), kind) {
            examine_entry(plan, &path, kind, &mut found)?;
        }
    }
    found.worktrees.sort_by(|one, other| one.root.cmp(&other.root));
    found.repositories.sort();
    found.files.sort();
    Ok(found)
}

/// Returns whether Waypost itself puts an entry of this name and kind into the directory of a workspace.
fn is_own(plan: &Plan, name: &OsStr, kind: FileType) -> bool {
    let name = name.to_string_lossy();
    match name.as_ref() {
        "workspace" | "context" => kind.is_dir(),
        "layers" => kind.is_dir() && plan.strategy == Strategy::Overlay,
        "plan.json" | "setup.log" | "ready" | RECORD => kind.is_file(),
        // An interrupted replacement of the plan.
        _ => kind.is_file() && name.starts_with(".plan.json."),
    }
}

/// Finds the repositories in an entry, and whether it has other files. Links are not followed.
fn examine_entry(plan: &Plan, entry: &Path, kind: FileType, found: &mut Beside) -> Result<()> {
    if !kind.is_dir() {
        found.files.push(entry.to_owned());
        return Ok(());
    }
    let mut has_files = false;
    let mut dirs = vec![entry.to_owned()];
    while let Some(dir) = dirs.pop() {
        let entries = entries(&dir)?;
        if entries.iter().any(|(path, _)| path.file_name().is_some_and(is_repository_mark)) {
            match linked(plan, &dir) {
                Some(linked) => found.worktrees.push(linked),
                None => found.repositories.push(dir),
            }
            continue;
        }
        has_files |= entries.iter().any(|(_, kind)| !kind.is_dir());
        dirs.extend(entries.into_iter().filter(|(_, kind)| kind.is_dir()).map(|(path, _)| path));
    }
    if has_files {
        found.files.push(entry.to_owned());
    }
    Ok(())
}

/// Returns a directory as a worktree of the workspace's repository, if repository and worktree point to each other.
///
/// A job can write all of these files, and git would follow them anywhere.
fn linked(plan: &Plan, root: &Path) -> Option<Linked> {
    let common = match plan.strategy {
        Strategy::Clone | Strategy::Overlay => plan.workspace.join(".git"),
        Strategy::Worktree => plan.git_dir.clone()?,
        Strategy::Jj | Strategy::Copy | Strategy::InPlace => return None,
    };
    let common = common.canonicalize().ok()?;
    let leads_to = |file: &Path, prefix: &str| -> Option<PathBuf> {
        let text = String::from_utf8(read_small_file(file).ok()??).ok()?;
        file.parent()?.join(text.trim_end().strip_prefix(prefix)?).canonicalize().ok()
    };
    let has_others = [".jj", ".hg", ".sl"].iter().any(|mark| root.join(mark).symlink_metadata().is_ok());
    let mark = root.join(".git");
    if has_others || !mark.symlink_metadata().ok()?.is_file() {
        return None;
    }
    let git_dir = leads_to(&mark, "gitdir: ")?;
    let is_known = git_dir.parent()? == common.join("worktrees")
        && leads_to(&git_dir.join("commondir"), "")? == common
        && leads_to(&git_dir.join("gitdir"), "")? == mark.canonicalize().ok()?;
    is_known.then(|| Linked { root: root.to_owned(), git_dir })
}

fn entries(dir: &Path) -> Result<Vec<(PathBuf, FileType)>> {
    let unreadable = |error| Error::refused(format!("cannot read {}", dir.display())).because(error);
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        found.push((entry.path(), entry.file_type().map_err(unreadable)?));
    }
    Ok(found)
}
