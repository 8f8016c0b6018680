//! The refs of snapshots in a mirror.

use std::fmt::Write as _;

use waypost_core::{Error, Result};

use super::mirror::Mirror;
use super::model::{Name, Snapshot, Strategy};
use super::repair::ensure_usable;

pub(super) const SNAPSHOTS: &str = "refs/waypost/snapshots/";
/// The prefix of a snapshot's branches, tags and stashes. The snapshot's name follows.
pub(super) const REFS: &str = "refs/waypost/saved/";

pub(super) fn read(mirror: &Mirror, id: &Name) -> Result<Snapshot> {
    let found = list(mirror, &reference(id), &format!("{REFS}{id}/"))?;
    found.into_iter().find(|one| one.id == *id).ok_or_else(|| Error::not_found(format!("there is no snapshot {id}")))
}

/// Reads snapshots and the refs that belong to them, with two git commands in total.
pub(super) fn list(mirror: &Mirror, snapshots: &str, refs: &str) -> Result<Vec<Snapshot>> {
    let list = |format: &str, below: &str| mirror.git().command().args(["for-each-ref", format, below]).stdout();
    let refs = list("--format=%(refname)", refs)?;
    let refs: Vec<(&str, &str)> = refs.lines().filter_map(|name| name.strip_prefix(REFS)?.split_once('/')).collect();
    let found = list("--format=%(refname) %(objectname) %(tree) %(parent)", snapshots)?;
    let mut all = Vec::new();
    for line in found.lines() {
        let mut words = line.split(' ');
        let Some(id) = words.next().and_then(|name| name.strip_prefix(SNAPSHOTS)) else { continue };
        let id = Name::try_from(id.to_owned())?;
        let mut word =
            || words.next().filter(|word| !word.is_empty()).map(str::to_owned).ok_or_else(|| foreign_error(&id));
        let (commit, tree, head) = (word()?, word()?, word()?);
        all.push(Snapshot {
            strategy: Strategy::Clone,
            commit: Some(commit),
            tree: Some(tree),
            head: Some(head),
            path: None,
            refs: refs.iter().filter(|(of, _)| *of == id.as_str()).map(|(_, name)| (*name).to_owned()).collect(),
            left_out: Vec::new(),
            id,
        });
    }
    Ok(all)
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
    Ok(mirror.git().command().args(list).stdout()?.lines().map(str::to_owned).collect())
}

/// Lists the branches, tags and stashes of a snapshot with their objects.
pub(super) fn refs_of(mirror: &Mirror, id: &Name) -> Result<Vec<(String, String)>> {
    let prefix = format!("{REFS}{id}/");
    let refs = mirror.git().command().args(["for-each-ref", "--format=%(objectname) %(refname)", &prefix]).stdout()?;
    let refs = refs.lines().filter_map(|line| line.split_once(' '));
    Ok(refs.filter_map(|(object, name)| Some((name.strip_prefix(&prefix)?.to_owned(), object.to_owned()))).collect())
}

/// Deletes a snapshot.
pub(super) fn delete(mirror: &Mirror, id: &Name) -> Result<()> {
    let mut lines = format!("delete {}\n", reference(id));
    for (name, _) in refs_of(mirror, id)? {
        let _ = writeln!(lines, "delete {REFS}{id}/{name}");
    }
    mirror.git().command().args(["update-ref", "--stdin"]).stdout_with_input(lines.as_bytes()).map(drop)
}
