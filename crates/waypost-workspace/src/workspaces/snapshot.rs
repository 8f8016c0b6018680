//! Snapshots: everything in a workspace that is not ignored, as git objects in its mirror.
//!
//! Neither the workspace's index nor its branches are touched. A snapshot lives in the mirror, so it outlives the
//! workspace.

use std::path::Path;

use serde::{Deserialize, Serialize};
use waypost_core::{Error, Result};

use super::examine::nested;
use super::mirror::Mirror;
use super::overlay::enter;
use super::plan::{Name, Plan, resolve};
use crate::run::Git;
use crate::worktrees::commit_everything;

const SNAPSHOTS: &str = "refs/waypost/snapshots/";

/// A state of a workspace that was saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// What it is called.
    pub id: Name,
    /// The commit that is it.
    pub commit: String,
    /// The hash of all its files.
    pub tree: String,
    /// The commit that the workspace was on.
    pub head: String,
    /// Repositories in the workspace, which it does not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// What was restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// What was there before, if that was anything else.
    pub before: Option<Snapshot>,
}

/// Saves everything in a workspace under a name. The same name twice is an error.
pub fn snapshot(plan: &Plan, id: &Name) -> Result<Snapshot> {
    let mirror = mirror_of(plan)?;
    let git = open(plan)?;
    let left_out = nested(&plan.workspace)?;
    let message = format!("Workspace {}", plan.name);
    let commit = commit_everything(&git, &plan.workspace.join(".git"), &plan.workspace, &message, &left_out)?;
    let reference = reference(id);
    // Ours before theirs: the ref is what makes the name taken.
    if mirror.git().command().args(["show-ref", "--verify", "--quiet", &reference]).succeeds()? {
        return Err(Error::conflict(format!("there is a snapshot {id} already")));
    }
    mirror.fetch_from(&plan.workspace.join(".git"), &commit, &reference)?;
    let mut saved = read(&mirror, id)?;
    saved.left_out = left_out;
    Ok(saved)
}

/// Lists the snapshots in a workspace's mirror: its own, and those of others that came from the same repository.
pub fn snapshots(plan: &Plan) -> Result<Vec<Snapshot>> {
    let mirror = mirror_of(plan)?;
    if !mirror.path().join("HEAD").is_file() {
        return Ok(Vec::new());
    }
    let format = format!("--format=%(refname:strip={})", SNAPSHOTS.matches('/').count());
    let names = mirror.git().command().args(["for-each-ref", &format, SNAPSHOTS]).stdout()?;
    names.lines().map(|name| read(&mirror, &Name::try_from(name.to_owned())?)).collect()
}

/// Brings a workspace to the state of a snapshot of it, or of another one of the same repository.
///
/// What is there now is saved as `before`, unless it is the same. Ignored files stay.
pub fn restore(plan: &Plan, id: &Name, before: &Name) -> Result<Restored> {
    let mirror = mirror_of(plan)?;
    let wanted = read(&mirror, id)?;
    let left_out = nested(&plan.workspace)?;
    let saved = snapshot(plan, before)?;
    if saved.tree == wanted.tree && saved.head == wanted.head {
        mirror.git().command().args(["update-ref", "-d", &reference(before)]).stdout()?;
        return Ok(Restored { snapshot: wanted, before: None });
    }
    let git = open(plan)?;
    // Everything that is there becomes known, so that whatever the snapshot does not have goes.
    let except = left_out.iter().map(|path| format!(":(exclude,literal,top){path}"));
    git.command().args(["add", "--all", "--", "."]).args(except).stdout()?;
    git.command().args(["read-tree", "--reset", "-u", &wanted.commit]).stdout()?;
    // The branch and what was staged are as they were. The files are not touched any more.
    git.command().args(["update-ref", "-m", "waypost: restore a snapshot", "HEAD", &wanted.head]).stdout()?;
    git.command().args(["read-tree", &format!("{}^2", wanted.commit)]).stdout()?;
    // It ends with 1 if files differ from what is staged, which they may.
    git.command().args(["update-index", "-q", "--refresh"]).code()?;
    let tree = tree_of_files(&git, plan)?;
    if tree != wanted.tree {
        return Err(Error::conflict(format!("{} did not become what snapshot {id} is", plan.workspace.display()))
            .hint(format!("what was there before is snapshot {before}")));
    }
    Ok(Restored { snapshot: wanted, before: Some(saved) })
}

/// Writes a snapshot with its whole history into one file, which git can clone and fetch from.
pub fn export(plan: &Plan, id: &Name, file: &Path) -> Result<()> {
    let mirror = mirror_of(plan)?;
    read(&mirror, id)?;
    let file = std::path::absolute(file)
        .map_err(|error| Error::unavailable(format!("cannot write {}", file.display())).because(error))?;
    mirror.git().command().args(["bundle", "create", "--quiet"]).arg(file).arg(reference(id)).stdout().map(drop)
}

/// Returns the hash of all files of a workspace that are not ignored.
fn tree_of_files(git: &Git, plan: &Plan) -> Result<String> {
    let left_out = nested(&plan.workspace)?;
    let commit = commit_everything(git, &plan.workspace.join(".git"), &plan.workspace, "Restored", &left_out)?;
    git.command().args(["rev-parse", "--verify", &format!("{commit}^{{tree}}")]).stdout()
}

fn open(plan: &Plan) -> Result<Git> {
    enter(plan)?;
    Git::of_workspace(&plan.workspace)
}

fn mirror_of(plan: &Plan) -> Result<Mirror> {
    Mirror::of(plan).map_err(|error| error.hint("snapshots are of workspaces that were cloned or overlaid"))
}

fn read(mirror: &Mirror, id: &Name) -> Result<Snapshot> {
    let git = mirror.git();
    let reference = reference(id);
    let commit = resolve(&git, &reference).map_err(|_| Error::not_found(format!("there is no snapshot {id}")))?;
    let lines = git.command().args(["show", "--no-patch", "--format=%T%n%P", &commit]).stdout()?;
    let damaged = || Error::damaged(format!("snapshot {id} is not one of ours"));
    let (tree, parents) = lines.split_once('\n').ok_or_else(damaged)?;
    let head = parents.split(' ').next().filter(|head| !head.is_empty()).ok_or_else(damaged)?;
    Ok(Snapshot { id: id.clone(), commit, tree: tree.to_owned(), head: head.to_owned(), left_out: Vec::new() })
}

fn reference(id: &Name) -> String {
    format!("{SNAPSHOTS}{id}")
}
