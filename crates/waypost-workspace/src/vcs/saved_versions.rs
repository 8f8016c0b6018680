//! The versions of a file that git would not lose: those of commits and of stashes.

use std::collections::HashSet;
use std::path::Path;

use waypost_core::Result;
use waypost_core::time::Timestamp;

use super::history::{offline, read_object};
use super::run::Git;

/// The number of entries of the reflog, of stashes and of branches that are searched.
const MAX_COMMITS: &str = "100";

/// The number of different versions that are read.
const MAX_VERSIONS: usize = 100;

/// Passes the versions of a file to `each`, with the times of their commits, as long as it returns true. First come the
/// commits that were checked out in this worktree last, then stashes, then branches.
pub fn each_saved_version(root: &Path, path: &str, mut each: impl FnMut(Vec<u8>, Timestamp) -> bool) -> Result<()> {
    let git = Git::in_worktree(root)?;
    // Git fails if there is no commit or no stash.
    let listed = |args: &[&str]| offline(&git).args(args).stdout().map_or_else(|_| String::new(), |text| text + "\n");
    let format = "--format=%H %ct";
    let no_signature = "--no-show-signature";
    let mut commits = listed(&["log", "-1", format, no_signature, "HEAD", "--"]);
    commits += &listed(&["log", "--walk-reflogs", "-n", MAX_COMMITS, format, no_signature, "HEAD", "--"]);
    let stashes = listed(&["log", "--walk-reflogs", "-n", MAX_COMMITS, format, no_signature, "refs/stash", "--"]);
    commits += &stashes;
    let branches = "--format=%(objectname) %(committerdate:unix)";
    let sorted = ["for-each-ref", "--sort=-committerdate", "--count", MAX_COMMITS, branches, "refs/heads"];
    commits += &listed(&sorted);
    let commit = |line: &str| {
        let (id, seconds) = line.split_once(' ')?;
        Some((id.to_owned(), Timestamp::from_millis(seconds.parse::<i64>().ok()?.checked_mul(1000)?)))
    };
    let mut names: Vec<(String, Timestamp)> = commits.lines().filter_map(commit).collect();
    // A stash has untracked files in a commit of their own.
    let untracked = stashes.lines().filter_map(commit).map(|(id, at)| (format!("{id}^3"), at));
    names.extend(untracked.collect::<Vec<_>>());
    let mut known = HashSet::new();
    names.retain(|(id, _)| known.insert(id.clone()));
    if names.is_empty() {
        return Ok(());
    }
    let request: String = names.iter().flat_map(|(id, _)| [id, ":", path, "\n"]).collect();
    let answer = offline(&git).args(["cat-file", "--batch-check"]).stdout_with_input(request.as_bytes())?;
    let object = |line: &str| line.split_once(" blob ").map(|(object, _)| object.to_owned());
    let mut reader = None;
    let mut read = HashSet::new();
    for (object, (_, at)) in answer.lines().zip(names).filter_map(|(line, name)| Some((object(line)?, name))) {
        if read.len() >= MAX_VERSIONS || !read.insert(object.clone()) {
            continue;
        }
        let reader = match &mut reader {
            Some(reader) => reader,
            none => none.insert(offline(&git).args(["cat-file", "--batch"]).converse()?),
        };
        if !each(read_object(reader, &object)?, at) {
            break;
        }
    }
    Ok(())
}
