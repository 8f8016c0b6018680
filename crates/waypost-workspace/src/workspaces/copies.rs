//! Snapshots of workspaces that have no mirror: copies of all their files, outside of caches.
//!
//! A directory without version control and a Mercurial share have no git objects to save; those of a git worktree or a
//! jj workspace would go to the user's own repository. A copy appears under its name only when it is complete and on
//! disk.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};
use waypost_fs::{FileLock, copy_tree, create_private_dir, rename_new, replace, sync_dir, sync_file_system};

use super::dirs::{private_dir, remove_if_there};
use super::files_lock::lock_files;
use super::model::{Name, Plan, Snapshot, Strategy};
use crate::vcs::run::hg;

/// The maximum time to wait for another process that makes a copy, which may be large.
const LOCK_TIMEOUT: Duration = Duration::from_mins(30);

/// The file that describes a copy.
const ABOUT_FILE: &str = "about.json";

/// The directories of version control tools. They are saved, but not restored over a tool's existing directory.
const TOOL_DIRS: [&str; 3] = [".git", ".hg", ".jj"];

/// The description of a copy.
#[derive(Serialize, Deserialize)]
struct About {
    plan: Plan,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    head: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<String>,
}

/// Saves a copy of everything in a workspace under a name. An existing name is an error.
pub fn save_copy(plan: &Plan, id: &Name) -> Result<Snapshot> {
    let _files = lock_files(plan)?;
    check_dir(&plan.workspace)?;
    let dir = dir_of(plan);
    let cannot = |error: io::Error| Error::unavailable(format!("cannot write {}", dir.display())).because(error);
    create_private_dir(&dir).map_err(cannot)?;
    let _lock = FileLock::acquire(&dir.join("lock"), LOCK_TIMEOUT)?;
    let path = dir.join(id.as_str());
    if path.symlink_metadata().is_ok() {
        return Err(Error::conflict(format!("snapshot {id} exists already")));
    }
    let new = dir.join("new");
    // An interrupted process left it: this one holds the lock.
    remove_if_there(&new)?;
    private_dir(&new)?;
    private_dir(&files(&new))?;
    let copied = copy_tree(&plan.workspace, &files(&new), &[])?;
    let about = About { plan: plan.clone(), head: head(plan)?, left_out: copied.left_out };
    let text = serde_json::to_vec_pretty(&about).map_err(|error| Error::internal(error.to_string()))?;
    replace(&new.join(ABOUT_FILE), &text, 0o600).map_err(cannot)?;
    // The original may be deleted right afterwards.
    sync_file_system(&new).map_err(cannot)?;
    rename_new(&new, &path).and_then(|()| sync_dir(&path)).map_err(cannot)?;
    Ok(snapshot_of(id, &path, about))
}

/// Copies a directory to another path, and replaces an older copy there.
pub fn replace_copy(from: &Path, to: &Path) -> Result<()> {
    let cannot = |error: io::Error| Error::unavailable(format!("cannot write {}", to.display())).because(error);
    let dir = to.parent().unwrap_or(Path::new("/"));
    create_private_dir(dir).map_err(cannot)?;
    let new = to.with_extension("new");
    remove_if_there(&new)?;
    private_dir(&new)?;
    copy_tree(from, &new, &[])?;
    sync_file_system(&new).map_err(cannot)?;
    remove_if_there(to)?;
    rename_new(&new, to).and_then(|()| sync_dir(to)).map_err(cannot)
}

/// Deletes a copy that an interrupted process left incomplete.
pub(super) fn sweep(workspaces: &Path, saved: Option<&Path>) -> Result<()> {
    sweep_in(&dir(workspaces)).and(saved.map_or(Ok(()), sweep_in))
}

fn sweep_in(dir: &Path) -> Result<()> {
    if dir.join("new").symlink_metadata().is_err() {
        return Ok(());
    }
    // Another process that holds the lock is still making it.
    let Ok(_lock) = FileLock::acquire(&dir.join("lock"), Duration::ZERO) else { return Ok(()) };
    remove_if_there(&dir.join("new"))
}

/// Lists the copies of workspaces, of all or of one source repository. Earlier versions kept them beside the workspaces.
pub fn copies(workspaces: &Path, saved: Option<&Path>, source: Option<&Path>) -> Result<Vec<Snapshot>> {
    let mut found = copies_in(&dir(workspaces), source)?;
    if let Some(saved) = saved {
        found.extend(copies_in(saved, source)?);
    }
    found.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(found)
}

fn copies_in(dir: &Path, source: Option<&Path>) -> Result<Vec<Snapshot>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::unavailable(format!("cannot read {}", dir.display())).because(error)),
    };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let Some(id) = entry.file_name().into_string().ok().and_then(|name| Name::try_from(name).ok()) else {
            continue;
        };
        // "new" is a copy in progress, "lock" is not a copy.
        let Some(about) = read(&entry.path()).ok().filter(|_| id.as_str() != "new") else { continue };
        if source.is_none_or(|source| about.plan.source.as_deref() == Some(source)) {
            found.push(snapshot_of(&id, &entry.path(), about));
        }
    }
    Ok(found)
}

/// Replaces the files of a workspace with those of a copy. The caller has saved the current files, if they are needed.
pub(super) fn restore_copy(plan: &Plan, saved: &Path) -> Result<()> {
    check_dir(&plan.workspace)?;
    let about = read(saved)?;
    let cannot = |error| Error::unavailable(format!("cannot write {}", plan.workspace.display())).because(error);
    // Keep the directory of a version control tool, unless the workspace itself is a plain copy.
    let own: &[&str] = if plan.strategy == Strategy::Copy { &[] } else { &TOOL_DIRS };
    if let Some(head) = about.head.as_deref().filter(|_| is_of_hg(plan)) {
        hg(&plan.workspace).args(["update", "--clean", "--rev", head]).stdout()?;
    }
    for entry in fs::read_dir(&plan.workspace).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        if own.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        if entry.file_type().map_err(cannot)?.is_dir() {
            remove_if_there(&entry.path())?;
        } else {
            fs::remove_file(entry.path()).map_err(cannot)?;
        }
    }
    copy_tree(&files(saved), &plan.workspace, own).map(drop)
}

/// Returns whether a workspace is saved as a copy.
pub(super) fn is_copied(plan: &Plan) -> bool {
    plan.strategy == Strategy::Copy || is_of_hg(plan)
}

fn is_of_hg(plan: &Plan) -> bool {
    plan.strategy == Strategy::Worktree && plan.git_dir.is_none()
}

/// Returns the commit that a Mercurial share is on.
fn head(plan: &Plan) -> Result<Option<String>> {
    if !is_of_hg(plan) {
        return Ok(None);
    }
    hg(&plan.workspace).args(["log", "--rev=.", "--template={node}"]).stdout().map(Some)
}

fn read(path: &Path) -> Result<About> {
    let damaged = || Error::damaged(format!("{} is not a snapshot", path.display()));
    let text = fs::read(path.join(ABOUT_FILE)).map_err(|error| damaged().because(error))?;
    serde_json::from_slice(&text).map_err(|error| damaged().because(error))
}

fn snapshot_of(id: &Name, path: &Path, about: About) -> Snapshot {
    let saved_at = path.join(ABOUT_FILE).metadata().and_then(|found| found.modified()).ok();
    let time = saved_at.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    Snapshot {
        id: id.clone(),
        strategy: about.plan.strategy,
        time: time.and_then(|time| i64::try_from(time.as_millis()).ok()).map(Timestamp::from_millis),
        size: waypost_fs::measure_tree(path).ok().map(|usage| usage.bytes),
        origin: Some(format!("Workspace {}", about.plan.name)),
        kept_in: Some(path.to_owned()),
        reference: None,
        commit: None,
        tree: None,
        head: about.head,
        path: Some(path.to_owned()),
        refs: Vec::new(),
        left_out: about.left_out,
    }
}

/// Refuses a link in place of a workspace's directory.
fn check_dir(path: &Path) -> Result<()> {
    if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    Err(Error::refused(format!("{} is not the directory that Waypost made", path.display())))
}

/// The directory of a plan's copies.
fn dir_of(plan: &Plan) -> PathBuf {
    plan.saved.clone().unwrap_or_else(|| dir(&plan.workspaces))
}

fn dir(workspaces: &Path) -> PathBuf {
    workspaces.join("saved")
}

fn files(path: &Path) -> PathBuf {
    path.join("files")
}
