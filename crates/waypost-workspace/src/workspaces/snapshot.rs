//! Snapshots: all files of a workspace that are not ignored, as git objects in its mirror.
//!
//! The workspace's index and branches do not change. A snapshot is stored in the mirror, so it outlives the workspace.
//! It also keeps commits on other branches and in stashes. Without a mirror, it is a copy of all files.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use waypost_core::{Error, Kind, Result};
use waypost_fs::{read_small_file, sync_file_system};

use super::beside::beside;
use super::copies::{copies, restore_copy, save_copy};
use super::examine::examine_files;
use super::files_lock::lock_files;
use super::mirror::Mirror;
use super::model::{Name, Plan, Restored, Snapshot, Strategy};
use super::push::git_in;
use super::reflog::{abandoned, tips};
use super::repair::ensure_usable;
use super::saved;
use super::snapshot_refs::{REFS, SNAPSHOTS, foreign_error, list, read, reference, refs_of};
use crate::surroundings;
use crate::vcs::run::Git;
use crate::worktrees::{commit_everything, nested};

/// The files in a git directory that name the commit of stashed changes.
const AUTOSTASHES: [&str; 3] = ["rebase-merge/autostash", "rebase-apply/autostash", "MERGE_AUTOSTASH"];

/// Saves everything in a workspace under a name. An existing name is an error.
pub fn snapshot(plan: &Plan, id: &Name) -> Result<Snapshot> {
    let _files = lock_files(plan)?;
    if is_saved_as_copy(plan) {
        return save_copy(plan, id);
    }
    let mirror = mirror_of(plan)?;
    let git = open(plan)?;
    let left_out = nested(&plan.workspace)?;
    let message = format!("Workspace {}", plan.name);
    let commit = commit_everything(&git, &plan.workspace.join(".git"), &plan.workspace, &message, &left_out)?;
    let reference = reference(id);
    // The snapshot's own ref comes first: it reserves the name.
    if mirror.git()?.command().args(["show-ref", "--verify", "--quiet", &reference]).succeeds()? {
        return Err(Error::conflict(format!("snapshot {id} exists already")));
    }
    let mut wanted = vec![(commit, reference)];
    let others = only_here(&git, plan)?.into_iter().chain(work_beside(plan)?);
    wanted.extend(others.map(|(name, commit)| (commit, format!("{REFS}{id}/{name}"))));
    mirror.fetch_all_from(&plan.workspace.join(".git"), &wanted)?;
    // Git syncs files, but not their directories. The workspace may be deleted right afterwards.
    sync_file_system(mirror.path())
        .map_err(|error| Error::unavailable(format!("cannot sync {}", mirror.path().display())).because(error))?;
    let mut saved = read(&mirror, id)?;
    saved.kept_in = Some(saved::keep(plan, &mirror, id)?);
    saved.left_out = left_out;
    Ok(saved)
}

/// Lists the snapshots of all workspaces of the same source repository.
pub fn snapshots(plan: &Plan) -> Result<Vec<Snapshot>> {
    if is_saved_as_copy(plan) {
        return copies(&plan.workspaces, plan.saved.as_deref(), plan.source.as_deref());
    }
    let mut all = snapshots_of(mirror_of(plan)?.path())?;
    // The mirror has most of what is kept elsewhere.
    let kept = saved::in_keeper(plan)?;
    let is_new = |one: &Snapshot, all: &[Snapshot]| all.iter().all(|known| known.id != one.id);
    for one in kept {
        if is_new(&one, &all) {
            all.push(one);
        }
    }
    Ok(all)
}

/// Lists the snapshots in a mirror. A missing mirror has none.
pub fn snapshots_of(mirror: &Path) -> Result<Vec<Snapshot>> {
    let mirror = Mirror::at(mirror);
    if !mirror.path().is_dir() {
        return Ok(Vec::new());
    }
    ensure_usable(&mirror)?;
    list(&mirror.git()?, mirror.path(), SNAPSHOTS, REFS)
}

/// Restores a snapshot in a workspace: one of its own, or of another workspace of the same repository.
///
/// The current state is saved as `before`, if a name is given and the state differs. With git, ignored files stay.
pub fn restore(plan: &Plan, id: &Name, before: Option<&Name>) -> Result<Restored> {
    let _files = lock_files(plan)?;
    let saved_copies = copies(&plan.workspaces, plan.saved.as_deref(), plan.source.as_deref())?;
    let saved_copy = saved_copies.into_iter().find(|one| one.id == *id);
    if let Some((wanted, path)) = saved_copy.and_then(|one| Some((one.clone(), one.path?))) {
        let before = before.map(|before| snapshot(plan, before)).transpose()?;
        restore_copy(plan, &path)?;
        return Ok(Restored { snapshot: wanted, before, left_alone: Vec::new() });
    }
    let mirror = mirror_of(plan)?;
    let wanted = match read(&mirror, id) {
        // The mirror is a cache: another repository keeps what it has lost.
        Err(error) if error.kind() == Kind::NotFound => {
            saved::fetch(plan, &mirror, id)?;
            read(&mirror, id)?
        }
        found => found?,
    };
    let (Some(commit), Some(head)) = (&wanted.commit, &wanted.head) else { return Err(foreign_error(id)) };
    let left_out = nested(&plan.workspace)?;
    check_ignored(&open(plan)?, &mirror, commit)?;
    let saved = before.map(|before| snapshot(plan, before)).transpose()?;
    let is_same = |saved: &Snapshot| saved.tree == wanted.tree && saved.head == wanted.head;
    if let Some(saved) = saved.as_ref().filter(|saved| is_same(saved))
        && staged(&mirror, saved)? == staged(&mirror, &wanted)?
    {
        saved::remove(plan, &mirror, &saved.id)?;
        let left_alone = restore_refs(&open(plan)?, &mirror, id)?;
        return Ok(Restored { snapshot: wanted, before: None, left_alone });
    }
    let git = open(plan)?;
    // Stage everything, so that files that are not in the snapshot are removed.
    let except = left_out.iter().map(|path| format!(":(exclude,literal,top){path}"));
    git.command().args(["add", "--all", "--", "."]).args(except).stdout()?;
    git.command().args(["read-tree", "--reset", "-u", commit]).stdout()?;
    // Restore the branch and the staged state, without changing files.
    git.command().args(["update-ref", "-m", "waypost: restore a snapshot", "HEAD", head]).stdout()?;
    git.command().args(["read-tree", &format!("{commit}^2")]).stdout()?;
    // It exits with 1 if files differ from the index, which is allowed here.
    git.command().args(["update-index", "-q", "--refresh"]).code()?;
    let tree = tree_of_files(&git, plan)?;
    if Some(&tree) != wanted.tree.as_ref() {
        let error =
            Error::conflict(format!("{} differs from snapshot {id} after the restore", plan.workspace.display()));
        return Err(match before {
            Some(before) => error.hint(format!("the state before is snapshot {before}")),
            None => error,
        });
    }
    let left_alone = restore_refs(&git, &mirror, id)?;
    Ok(Restored { snapshot: wanted, before: saved, left_alone })
}

/// Returns the hash of a snapshot's staged tree.
fn staged(mirror: &Mirror, snapshot: &Snapshot) -> Result<Option<String>> {
    let Some(commit) = &snapshot.commit else { return Ok(None) };
    mirror.git()?.command().args(["rev-parse", "--verify", "--quiet", &format!("{commit}^2^{{tree}}")]).stdout_or_none()
}

/// Refuses to restore a snapshot over ignored files: a snapshot does not have them, so the current ones would be lost.
fn check_ignored(git: &Git, mirror: &Mirror, commit: &str) -> Result<()> {
    let ignored = ["ls-files", "--others", "--ignored", "--exclude-standard", "-z"];
    let ignored = git.command().args(ignored).stdout()?;
    let ignored: BTreeSet<String> = ignored.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    if ignored.is_empty() {
        return Ok(());
    }
    let tree = mirror.git()?.command().args(["ls-tree", "-r", "-z", "--name-only", commit]).stdout()?;
    let in_the_way = tree.split('\0').filter(|path| !path.is_empty()).find_map(|path| {
        // The file itself, a directory in its place, or a file in the place of one of its directories.
        let below = format!("{path}/");
        let first_below = ignored.range(below.clone()..).next().filter(|ignored| ignored.starts_with(&below));
        let above = path.match_indices('/').find_map(|(end, _)| ignored.get(&path[..end]));
        ignored.get(path).or(first_below).or(above)
    });
    match in_the_way {
        None => Ok(()),
        Some(path) => Err(Error::refused(format!("the ignored file {path} would be overwritten"))
            .hint("move it away, or restore into a new workspace: way ws restore without --into")),
    }
}

/// Lists refs and stashes with commits that neither a remote nor the base has, by their names below `refs`.
fn only_here(git: &Git, plan: &Plan) -> Result<Vec<(String, String)>> {
    let mut lacking = git.command().args(["rev-list", "--all", "--not", "--remotes"]);
    lacking = lacking.args(plan.base.iter().chain(plan.upstream.iter().map(|(_, commit)| commit)));
    let lacking = lacking.stdout()?;
    let lacking: HashSet<&str> = lacking.lines().collect();
    let format = "--format=%(objectname) %(*objectname) %(refname:strip=1)";
    let refs = git.command().args(["for-each-ref", format]).stdout()?;
    let mut found = Vec::new();
    for line in refs.lines() {
        let mut parts = line.splitn(3, ' ');
        let (Some(object), Some(peeled), Some(name)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let commit = if peeled.is_empty() { object } else { peeled };
        if name != "stash" && !name.starts_with("remotes/") && lacking.contains(commit) {
            found.push((name.to_owned(), object.to_owned()));
        }
    }
    // The ref has only the latest stash; the others are in its reflog. Number them from the oldest.
    let mut stashes = Vec::new();
    if git.command().args(["rev-parse", "--verify", "--quiet", "refs/stash"]).succeeds()? {
        let listed = git.command().args(["reflog", "show", "--format=%H", "refs/stash"]).stdout()?;
        stashes.extend(listed.lines().rev().map(str::to_owned));
    }
    stashes.extend(autostashes(plan)?);
    found.extend(stashes.into_iter().zip(0..).map(|(commit, number)| (format!("stash/{number:06}"), commit)));
    // Detached HEADs of other worktrees, and commits that only reflogs have.
    let heads = other_heads(git)?.into_iter().filter(|head| lacking.contains(head.as_str()));
    let abandoned = tips(git, &abandoned(plan, git)?)?.into_iter();
    let numbered = |kind: &'static str| move |(number, commit)| (format!("{kind}/{number:06}"), commit);
    found.extend(heads.enumerate().map(numbered("detached")));
    found.extend(abandoned.enumerate().map(numbered("abandoned")));
    Ok(found)
}

/// Lists the changes that a rebase or merge under way has stashed, and would apply again at its end. No ref points to them.
fn autostashes(plan: &Plan) -> Result<Vec<String>> {
    let mut git_dirs = vec![plan.workspace.join(".git")];
    git_dirs.extend(beside(plan)?.worktrees.into_iter().map(|linked| linked.git_dir));
    let mut found = Vec::new();
    for file in git_dirs.iter().flat_map(|dir| AUTOSTASHES.map(|file| dir.join(file))) {
        let commit = read_small_file(&file)?;
        found.extend(commit.map(|commit| String::from_utf8_lossy(&commit).trim_end().to_owned()));
    }
    Ok(found)
}

/// Lists the detached HEADs of a repository's other worktrees.
fn other_heads(git: &Git) -> Result<Vec<String>> {
    let listed = git.command().args(["worktree", "list", "--porcelain", "-z"]).stdout()?;
    // The first entry is the main worktree.
    let records = listed.split("\0\0").skip(1).filter(|record| record.split('\0').any(|line| line == "detached"));
    Ok(records
        .filter_map(|record| record.split('\0').find_map(|line| line.strip_prefix("HEAD ")))
        .map(str::to_owned)
        .collect())
}

/// Commits the files of every git worktree beside a workspace that has unsaved work. No ref points to the commits yet.
fn work_beside(plan: &Plan) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for (number, linked) in beside(plan)?.worktrees.iter().enumerate() {
        let git = linked.git()?;
        let files = examine_files(&git, &linked.git_dir, &linked.root)?;
        if files.has_work() {
            let message = format!("Worktree {} beside workspace {}", linked.root.display(), plan.name);
            let commit = commit_everything(&git, &linked.git_dir, &linked.root, &message, &files.nested)?;
            found.push((format!("beside/{number:06}"), commit));
        }
    }
    Ok(found)
}

/// Creates refs in the user's repository for commits that only the reflog of a git worktree has. Returns their names.
pub fn keep_abandoned(plan: &Plan) -> Result<Vec<String>> {
    let _files = lock_files(plan)?;
    let git = git_in(plan)?;
    let mut names = Vec::new();
    for (number, commit) in tips(&git, &abandoned(plan, &git)?)?.iter().enumerate() {
        let name = format!("refs/waypost/abandoned/{}/{number}", plan.name);
        git.command().args(["update-ref", &name, commit]).stdout()?;
        names.push(name);
    }
    Ok(names)
}

/// Restores branches, tags and stashes. Existing ones stay unchanged; returns their names.
fn restore_refs(git: &Git, mirror: &Mirror, id: &Name) -> Result<Vec<String>> {
    let mut left_alone = Vec::new();
    let has_stashes = git.command().args(["rev-parse", "--verify", "--quiet", "refs/stash"]).succeeds()?;
    for (name, commit) in refs_of(&mirror.git()?, id)? {
        let is_restored = match name.strip_prefix("stash/") {
            Some(_) => !has_stashes && git.command().args(["stash", "store", "-m", "Restored", &commit]).succeeds()?,
            // An empty old value: only if the ref does not exist.
            None => git.command().args(["update-ref", &format!("refs/{name}"), &commit, ""]).succeeds()?,
        };
        if !is_restored {
            left_alone.push(name);
        }
    }
    Ok(left_alone)
}

/// Writes a snapshot with its whole history into a bundle, from which git can clone and fetch.
pub fn export(snapshot: &Snapshot, file: &Path) -> Result<()> {
    let (Some(repository), Some(own)) = (&snapshot.kept_in, &snapshot.reference) else {
        return Err(foreign_error(&snapshot.id));
    };
    let refs = snapshot.refs.iter().map(|name| format!("{REFS}{}/{name}", snapshot.id));
    let file = std::path::absolute(surroundings::resolve(file))
        .map_err(|error| Error::unavailable(format!("cannot write {}", file.display())).because(error))?;
    let git = Git::of_repository(repository)?;
    git.command().args(["bundle", "create", "--quiet"]).arg(file).arg(own).args(refs).stdout().map(drop)
}

/// Returns the tree hash of all files of a workspace that are not ignored.
fn tree_of_files(git: &Git, plan: &Plan) -> Result<String> {
    let left_out = nested(&plan.workspace)?;
    let commit = commit_everything(git, &plan.workspace.join(".git"), &plan.workspace, "Restored", &left_out)?;
    git.command().args(["rev-parse", "--verify", &format!("{commit}^{{tree}}")]).stdout()
}

/// Returns whether a snapshot is a copy of files. Waypost does not write snapshots into the user's own repository.
fn is_saved_as_copy(plan: &Plan) -> bool {
    matches!(plan.strategy, Strategy::Copy | Strategy::Worktree | Strategy::Jj)
}

fn open(plan: &Plan) -> Result<Git> {
    git_in(plan)
}

fn mirror_of(plan: &Plan) -> Result<Mirror> {
    let mirror = Mirror::of(plan).map_err(|error| error.hint("commit there: commits stay in the repository"))?;
    ensure_usable(&mirror)?;
    Ok(mirror)
}
