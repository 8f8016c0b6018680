//! Finds commits that only reflogs lead to: amended, reset away, or left on a deleted branch.
//!
//! When the git directory is deleted, its reflogs are lost, and with them the last reference to such a commit.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use waypost_core::{Error, Result};
use waypost_fs::read_regular_file;

use super::mirror::Mirror;
use super::model::{Plan, Strategy};
use super::snapshot_refs::saved_commits;
use crate::vcs::run::Git;

/// The maximum size of a reflog.
const MAX_REFLOG_BYTES: u64 = 256 << 20;

/// Lists the commits that would be lost with a workspace because only its reflogs lead to them, newest first.
///
/// Commits in snapshots are not among them, nor are those that a remote branch has moved away from.
pub(super) fn abandoned(plan: &Plan, git: &Git) -> Result<Vec<String>> {
    match plan.strategy {
        Strategy::Clone | Strategy::Overlay => {
            let found = recorded(&plan.workspace.join(".git"))?;
            let saved = saved_commits(&Mirror::of(plan)?)?;
            unreachable(git, &found, plan, &saved)
        }
        Strategy::Worktree if plan.git_dir.is_some() => abandoned_in_worktree(plan, git),
        Strategy::Worktree | Strategy::Jj | Strategy::Copy | Strategy::InPlace => Ok(Vec::new()),
    }
}

/// Lists those of a git worktree. The reflogs of the repository's branches stay, except that of a branch without new
/// commits, which is deleted with the worktree.
fn abandoned_in_worktree(plan: &Plan, git: &Git) -> Result<Vec<String>> {
    let git_dir = git.git_dir()?;
    let found: HashSet<String> = commits_in(&git_dir.join("logs/HEAD"))?;
    let branch = plan.branch.as_ref().map(|branch| format!("refs/heads/{branch}"));
    let (Some(common), Some(branch)) = (&plan.git_dir, branch) else { return Ok(Vec::new()) };
    let tip = git.command().args(["rev-parse", "--verify", "--quiet", &branch]).stdout_or_none()?;
    let stays =
        if tip.is_some() && tip != plan.base { commits_in(&common.join("logs").join(branch))? } else { HashSet::new() };
    unreachable(git, &found, plan, &stays.into_iter().collect::<Vec<_>>())
}

/// Lists the commits reachable from `found`, but neither from a ref nor from `kept`.
fn unreachable(git: &Git, found: &HashSet<String>, plan: &Plan, kept: &[String]) -> Result<Vec<String>> {
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let known = plan.base.iter().chain(plan.upstream.iter().map(|(_, commit)| commit)).chain(kept);
    let known = known.map(|commit| format!("^{commit}"));
    // A reflog may name commits that git has garbage-collected.
    let list = git.command().args(["rev-list", "--ignore-missing", "--stdin", "--not", "--all"]);
    let listed = list.stdout_with_input(&lines(found.iter().cloned().chain(known)))?;
    Ok(listed.lines().map(str::to_owned).collect())
}

/// Lists the commits among these from which all others can be reached.
pub(super) fn tips(git: &Git, commits: &[String]) -> Result<Vec<String>> {
    if commits.is_empty() {
        return Ok(Vec::new());
    }
    let parents = git
        .command()
        .args(["rev-list", "--no-walk=unsorted", "--parents", "--stdin"])
        .stdout_with_input(&lines(commits.iter().cloned()))?;
    let parents: HashSet<&str> = parents.lines().flat_map(|line| line.split(' ').skip(1)).collect();
    Ok(commits.iter().filter(|commit| !parents.contains(commit.as_str())).cloned().collect())
}

fn lines(words: impl Iterator<Item = String>) -> Vec<u8> {
    words.flat_map(|word| (word + "\n").into_bytes()).collect()
}

/// Returns the commits that the reflogs in a git directory name, including those of its worktrees.
///
/// Reflogs of remotes are skipped, because their commits are not local work, and those of stashes, which are counted
/// separately.
fn recorded(git_dir: &Path) -> Result<HashSet<String>> {
    let logs = git_dir.join("logs");
    let skipped = [logs.join("refs/remotes"), logs.join("refs/stash")];
    let mut places = vec![logs];
    places.extend(entries(&git_dir.join("worktrees"))?.into_iter().map(|worktree| worktree.join("logs")));
    let mut found = HashSet::new();
    while let Some(place) = places.pop() {
        if skipped.contains(&place) {
            continue;
        }
        if place.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            places.extend(entries(&place)?);
        } else {
            found.extend(commits_in(&place)?);
        }
    }
    Ok(found)
}

/// Returns the commits that a reflog names. A missing reflog names none.
fn commits_in(log: &Path) -> Result<HashSet<String>> {
    let text = read_regular_file(log, MAX_REFLOG_BYTES)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let words = text.lines().flat_map(|line| line.splitn(3, ' ').take(2));
    let is_commit = |word: &&str| {
        word.len() >= 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit()) && word.bytes().any(|byte| byte != b'0')
    };
    Ok(words.filter(is_commit).map(str::to_owned).collect())
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Ok(entries) => Ok(entries.flatten().map(|entry| entry.path()).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::refused(format!("cannot read {}", dir.display())).because(error)),
    }
}
