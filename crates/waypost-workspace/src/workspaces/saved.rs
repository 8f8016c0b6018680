//! Where snapshots are kept: mirrors are caches, so a bare repository outside of them has the same refs. The source
//! repository stays as it is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};
use waypost_fs::{FileLock, create_private_dir};

use super::dirs::remove_if_there;
use super::mirror::{Mirror, fetch_local, write_settings};
use super::model::{Name, Plan, Snapshot, Strategy};
use super::repair::{ensure_usable, remove_abandoned_locks};
use super::snapshot_refs::{REFS, SNAPSHOTS, delete, list, not_found, refs_of};
use crate::vcs::checkout::Checkout;
use crate::vcs::run::{Git, hg};

/// The maximum time to wait for another process that saves, which may be large.
const LOCK_TIMEOUT: Duration = Duration::from_mins(30);

/// Returns the repository that keeps the snapshots of a plan.
fn keeper(plan: &Plan) -> Option<PathBuf> {
    let mirror = plan.mirror.as_ref()?;
    let saved = plan.saved.clone().or_else(|| Some(mirror.parent()?.parent()?.join("saved")))?;
    Some(saved.join(mirror.file_name()?))
}

/// Copies a snapshot from a mirror to the repository that keeps it. Returns that repository.
pub(super) fn keep(plan: &Plan, mirror: &Mirror, id: &Name) -> Result<PathBuf> {
    let Some(keeper) = keeper(plan) else { return Ok(mirror.path().to_owned()) };
    let dir = keeper.parent().unwrap_or(Path::new("/"));
    create_private_dir(dir)
        .map_err(|error| Error::unavailable(format!("cannot write {}", dir.display())).because(error))?;
    let _lock = FileLock::acquire(&keeper.with_extension("lock"), LOCK_TIMEOUT)?;
    if !keeper.exists() {
        create(&keeper, mirror)?;
    }
    remove_abandoned_locks(&keeper)?;
    copy(&Git::of_repository(&keeper)?.offline(), mirror.path(), &format!("{SNAPSHOTS}{id}"), id)?;
    waypost_fs::sync_file_system(&keeper)
        .map_err(|error| Error::unavailable(format!("cannot sync {}", keeper.display())).because(error))?;
    Ok(keeper)
}

/// Creates the repository that keeps snapshots. It links the objects of the mirror, so it takes almost no space.
fn create(keeper: &Path, mirror: &Mirror) -> Result<()> {
    let new = keeper.with_extension("new");
    // An interrupted process left it: this one holds the lock.
    remove_if_there(&new)?;
    let dir = keeper.parent().unwrap_or(Path::new("/"));
    let clone =
        Git::that_makes(dir).command().args(["clone", "--quiet", "--bare", "--template=", "--no-tags", "--local"]);
    let from = Git::of_repository(mirror.path())?;
    clone.arg(from.upload_pack()).arg("--").arg(mirror.path()).arg(&new).stdout()?;
    write_settings(&new, "")?;
    waypost_fs::sync_file_system(&new)
        .and_then(|()| std::fs::rename(&new, keeper))
        .and_then(|()| waypost_fs::sync_dir(keeper))
        .map_err(|error| Error::unavailable(format!("cannot make {}", keeper.display())).because(error))
}

/// Brings a snapshot back into a mirror that has lost it.
pub(super) fn fetch(plan: &Plan, mirror: &Mirror, id: &Name) -> Result<()> {
    let found = in_keeper(plan)?.into_iter().find(|one| one.id == *id).ok_or_else(|| not_found(id))?;
    let (Some(repository), Some(own)) = (found.kept_in, found.reference) else { return Err(not_found(id)) };
    copy(&mirror.git()?, &repository, &own, id)
}

/// Fetches a snapshot with its refs from another repository, in which it has the ref `own`.
fn copy(git: &Git, from: &Path, own: &str, id: &Name) -> Result<()> {
    let fetch = fetch_local(git, from, &["--atomic"])?.arg(format!("+{own}:{SNAPSHOTS}{id}"));
    fetch.arg(format!("+{REFS}{id}/*:{REFS}{id}/*")).stdout().map(drop)
}

/// Lists the snapshots outside of a plan's mirror: in their keeper, and in the source, which has those of worktrees.
pub(super) fn in_keeper(plan: &Plan) -> Result<Vec<Snapshot>> {
    let mut found = Vec::new();
    for repository in keeper(plan).iter().chain(&plan.git_dir) {
        found.extend(saved_in(repository)?);
    }
    Ok(found)
}

/// Lists the snapshots in a repository that is not a mirror, and the work of worktrees that were removed. A missing repository
/// has none.
pub fn saved_in(repository: &Path) -> Result<Vec<Snapshot>> {
    if !repository.is_dir() {
        return Ok(Vec::new());
    }
    list(&Git::of_repository(repository)?, repository, SNAPSHOTS, REFS)
}

/// Lists the work of removed worktrees that Mercurial keeps as secret commits.
pub fn saved_in_hg(checkout: &Checkout) -> Result<Vec<Snapshot>> {
    let Some(root) = &checkout.main_root else { return Ok(Vec::new()) };
    let which = "secret() and desc('re:^Worktree .* before it was removed')";
    let template = "--template={node}\\0{date|hgdate}\\0{desc|firstline}\\n";
    let found = hg(root).args(["log", "--rev", which, template]).stdout()?;
    let mut all = Vec::new();
    for line in found.lines() {
        let words: Vec<&str> = line.split('\0').collect();
        let [node, date, text] = words.as_slice() else { continue };
        let seconds = date.split(' ').next().and_then(|seconds| seconds.parse::<i64>().ok());
        all.push(Snapshot {
            id: Name::try_from(format!("hg-{}", node.get(..12).unwrap_or(node)))?,
            strategy: Strategy::Worktree,
            time: seconds.map(|seconds| Timestamp::from_millis(seconds.saturating_mul(1000))),
            size: None,
            origin: Some(text.trim_end_matches(" before it was removed").to_owned()),
            kept_in: Some(root.clone()),
            reference: None,
            commit: Some((*node).to_owned()),
            tree: None,
            head: None,
            path: None,
            refs: Vec::new(),
            left_out: Vec::new(),
        });
    }
    Ok(all)
}

/// Deletes a snapshot from a mirror and from the repository that keeps it.
pub(super) fn remove(plan: &Plan, mirror: &Mirror, id: &Name) -> Result<()> {
    delete(&mirror.git()?, &format!("{SNAPSHOTS}{id}"), id)?;
    in_keeper(plan)?.iter().filter(|one| one.id == *id).try_for_each(remove_snapshot)
}

/// Deletes a snapshot from where it is kept.
pub fn remove_snapshot(snapshot: &Snapshot) -> Result<()> {
    if let Some(path) = &snapshot.path {
        return remove_if_there(path);
    }
    let (Some(repository), Some(own)) = (&snapshot.kept_in, &snapshot.reference) else {
        return Err(Error::refused(format!("snapshot {} is a commit of the repository", snapshot.id))
            .hint("delete it with the version control tool"));
    };
    delete(&Git::of_repository(repository)?, own, &snapshot.id)
}

/// Deletes a snapshot from a mirror, if the mirror has it.
pub fn remove_from_mirror(mirror: &Path, id: &Name) -> Result<()> {
    let mirror = Mirror::at(mirror);
    if !mirror.path().is_dir() {
        return Ok(());
    }
    ensure_usable(&mirror)?;
    let own = format!("{SNAPSHOTS}{id}");
    let git = mirror.git()?;
    let has_it = git.command().args(["show-ref", "--verify", "--quiet", &own]).succeeds()?;
    if has_it || !refs_of(&git, id)?.is_empty() { delete(&git, &own, id) } else { Ok(()) }
}
