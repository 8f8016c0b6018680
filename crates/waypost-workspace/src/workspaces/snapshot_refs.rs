//! The refs of snapshots in a mirror, and in the repository that keeps them.

use std::fmt::Write as _;
use std::path::Path;

use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};

use super::mirror::Mirror;
use super::model::{Name, Snapshot, Strategy};
use super::repair::ensure_usable;
use crate::vcs::run::Git;

pub(super) const SNAPSHOTS: &str = "refs/waypost/snapshots/";
/// The prefix of a snapshot's branches, tags and stashes. The snapshot's name follows.
pub(super) const REFS: &str = "refs/waypost/saved/";

pub(super) fn read(mirror: &Mirror, id: &Name) -> Result<Snapshot> {
    let found = list(&mirror.git()?, mirror.path(), &reference(id), &format!("{REFS}{id}/"))?;
    found.into_iter().find(|one| one.id == *id).ok_or_else(|| not_found(id))
}

pub(super) fn not_found(id: &Name) -> Error {
    Error::not_found(format!("there is no snapshot {id}"))
}

/// Reads snapshots and the refs that belong to them. A ref that Waypost did not make is left out.
pub(super) fn list(git: &Git, repository: &Path, snapshots: &str, refs: &str) -> Result<Vec<Snapshot>> {
    let list = |format: &str, below: &str| git.command().args(["for-each-ref", format, below]).stdout();
    let refs = list("--format=%(refname)", refs)?;
    let refs: Vec<(&str, &str)> = refs.lines().filter_map(|name| name.strip_prefix(REFS)?.split_once('/')).collect();
    let fields = "%(refname)%00%(objectname)%00%(tree)%00%(parent)%00%(committerdate:unix)%00%(contents:subject)";
    let found = list(&format!("--format={fields}"), snapshots)?;
    let mut all = Vec::new();
    for line in found.lines() {
        let words: Vec<&str> = line.split('\0').collect();
        let [name, commit, tree, parents, seconds, subject] = words.as_slice() else { continue };
        let Some(id) = name.strip_prefix(SNAPSHOTS).and_then(id_of) else { continue };
        let Some(head) = parents.split(' ').next().filter(|head| !head.is_empty()) else { continue };
        all.push(Snapshot {
            strategy: Strategy::Clone,
            time: seconds.parse::<i64>().ok().map(|seconds| Timestamp::from_millis(seconds.saturating_mul(1000))),
            size: size_of(git, commit, head),
            origin: Some(origin(subject, &id)),
            kept_in: Some(repository.to_owned()),
            reference: Some((*name).to_owned()),
            commit: Some((*commit).to_owned()),
            tree: Some((*tree).to_owned()),
            head: Some(head.to_owned()),
            path: None,
            refs: refs.iter().filter(|(of, _)| *of == id.as_str()).map(|(_, name)| (*name).to_owned()).collect(),
            left_out: Vec::new(),
            id,
        });
    }
    Ok(all)
}

/// Returns what was saved. A commit of jj has the user's description, or none.
fn origin(subject: &str, id: &Name) -> String {
    let text = subject.trim_end_matches(" before it was removed");
    let is_ours = text.starts_with("Workspace ") || text.starts_with("Worktree ");
    if is_ours { text.to_owned() } else { format!("Worktree {id}") }
}

/// Returns the name of a snapshot from the end of its ref. A removed worktree has two words there.
fn id_of(end: &str) -> Option<Name> {
    let is_allowed = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || "_-".contains(char);
    let name: String = end.to_ascii_lowercase().chars().map(|char| if is_allowed(char) { char } else { '-' }).collect();
    let long = name.len().saturating_sub(64);
    Name::try_from(name.get(long..)?.trim_start_matches(['_', '-']).to_owned()).ok()
}

/// Returns the size of the objects that a snapshot has beyond the commit that the workspace was on.
fn size_of(git: &Git, commit: &str, head: &str) -> Option<u64> {
    let size = git.command().args(["rev-list", "--disk-usage", "--objects", commit, &format!("^{head}")]);
    size.stdout_or_none().ok().flatten()?.parse().ok()
}

pub(super) fn foreign_error(id: &Name) -> Error {
    Error::damaged(format!("snapshot {id} was not made by Waypost"))
}

pub(super) fn reference(id: &Name) -> String {
    format!("{SNAPSHOTS}{id}")
}

/// Lists the commits of all snapshots in a mirror, including their branches, tags and stashes.
pub(super) fn saved_commits(mirror: &Mirror) -> Result<Vec<String>> {
    if !mirror.path().is_dir() {
        return Ok(Vec::new());
    }
    ensure_usable(mirror)?;
    let list = ["for-each-ref", "--format=%(objectname)", SNAPSHOTS, REFS];
    Ok(mirror.git()?.command().args(list).stdout()?.lines().map(str::to_owned).collect())
}

/// Lists the branches, tags and stashes of a snapshot with their objects.
pub(super) fn refs_of(git: &Git, id: &Name) -> Result<Vec<(String, String)>> {
    let prefix = format!("{REFS}{id}/");
    let refs = git.command().args(["for-each-ref", "--format=%(objectname) %(refname)", &prefix]).stdout()?;
    let refs = refs.lines().filter_map(|line| line.split_once(' '));
    Ok(refs.filter_map(|(object, name)| Some((name.strip_prefix(&prefix)?.to_owned(), object.to_owned()))).collect())
}

/// Deletes a snapshot by its ref and its name.
pub(super) fn delete(git: &Git, reference: &str, id: &Name) -> Result<()> {
    let mut lines = format!("delete {reference}\n");
    for (name, _) in refs_of(git, id)? {
        let _ = writeln!(lines, "delete {REFS}{id}/{name}");
    }
    git.command().args(["update-ref", "--stdin"]).stdout_with_input(lines.as_bytes()).map(drop)
}
