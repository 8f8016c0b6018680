//! The work that jobs leave for later tasks: kept by refs, brought to where it is needed, and merged.
//!
//! With a mirror, a result is a ref in it. A git worktree keeps its result in the repository that it belongs to, a jj
//! workspace and a Mercurial share as a commit of theirs. Merges are made by git itself, before the workspace exists: the
//! merge is its base.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use waypost_core::{Error, Result};
use waypost_fs::read_small_file;

use super::files_lock::lock_files;
use super::held_mirror;
use super::mirror::{FETCH, Mirror, check_url, fetch_local};
use super::model::{Plan, Strategy};
use super::plan::resolve;
use super::push::{git_in, head, identity};
use super::repair::ensure_usable;
use crate::vcs::git_layout::OPERATIONS_IN_PROGRESS;
use crate::vcs::run::{Git, NetworkOptions, Tool, UPLOAD_PACK, hg, jj};
use crate::worktrees::nested;

/// The prefix of the refs that keep results. A workflow and a job follow.
const RESULTS: &str = "refs/waypost/results/";

/// The size of the conflicts that are shown.
const MAX_SHOWN_BYTES: usize = 4000;

/// The work of a finished task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The name of the task.
    pub task: String,
    /// The commit that it left.
    pub commit: String,
    /// The branch that may lead to the commit in the remote.
    pub branch: Option<String>,
}

/// Work that does not merge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// The tasks whose work is merged already.
    pub merged: Vec<String>,
    /// The task whose work conflicts.
    pub task: String,
    /// Its commit.
    pub commit: String,
    /// The tasks whose work comes after it.
    pub left: Vec<String>,
    /// The conflicting files.
    pub files: Vec<String>,
    /// The conflicts themselves, in part if they are long.
    pub shown: String,
}

/// The outcome of merging work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merge {
    /// The base of the plan contains all of it.
    Done,
    /// Two pieces conflict. The base of the plan contains those that come before.
    Conflict(Conflict),
    /// The work of this task is not on this machine.
    Missing(Work),
}

/// Keeps the commit that a workspace is on, as the result of a job of a workflow. Returns the commit. None if the
/// workspace has no commits.
pub fn keep_result(plan: &Plan, workflow: &str) -> Result<Option<String>> {
    let reference = format!("{RESULTS}{workflow}/{}", plan.name);
    match (plan.strategy, &plan.git_dir) {
        (Strategy::Clone | Strategy::Overlay, _) => {
            let commit = head(plan)?;
            let mirror = Mirror::of(plan)?;
            ensure_usable(&mirror)?;
            if !mirror.point(&reference, &commit)? {
                mirror.fetch_from(&plan.workspace.join(".git"), &commit, &reference)?;
            }
            Ok(Some(commit))
        }
        (Strategy::Worktree, Some(_)) => {
            let commit = head(plan)?;
            // The job can also change the refs of the repository, so this is not done outside of its sandbox.
            git_in(plan)?.command().args(["update-ref", &reference, &commit]).stdout()?;
            Ok(Some(commit))
        }
        (Strategy::Worktree, None) | (Strategy::Jj, _) => last_commit(plan).map(Some),
        (Strategy::Copy | Strategy::InPlace, _) => Ok(None),
    }
}

/// Prints something for a commit with conflicts.
const CONFLICT_MARK: &str = r#"--template=if(conflict, "x")"#;

/// Returns the commit that a jj workspace or a Mercurial share is on.
fn last_commit(plan: &Plan) -> Result<String> {
    if plan.strategy != Strategy::Jj {
        return hg(&plan.workspace).args(["log", "--rev=.", "--template={node}"]).stdout();
    }
    // An empty working-copy commit without a description is not work, unless it merges.
    let last = r#"coalesce(@ ~ ((empty() & description(exact:"")) ~ merges()), @-)"#;
    jj(&plan.workspace)?.args(["log", "--no-graph", "--template=commit_id", "--revisions", last]).stdout()
}

/// Deletes the refs of results in a repository that `is_over` selects, by workflow and commit. Returns how many.
pub fn release_results(repository: &Path, is_over: &mut dyn FnMut(&str, &str) -> Result<bool>) -> Result<usize> {
    if !repository.is_dir() {
        return Ok(0);
    }
    let git = Git::of_repository(repository)?;
    let found = git.command().args(["for-each-ref", "--format=%(objectname) %(refname)", RESULTS]).stdout()?;
    let mut lines = String::new();
    let mut count = 0;
    for (commit, name) in found.lines().filter_map(|line| line.split_once(' ')) {
        let Some((workflow, _)) = name.strip_prefix(RESULTS).and_then(|rest| rest.split_once('/')) else { continue };
        if is_over(workflow, commit)? {
            let _ = writeln!(lines, "delete {name} {commit}");
            count += 1;
        }
    }
    if count > 0 {
        git.command().args(["update-ref", "--stdin"]).stdout_with_input(lines.as_bytes())?;
    }
    Ok(count)
}

/// Returns whether a branch of a repository, or of its remotes, contains a commit.
pub fn is_in_branches(repository: &Path, commit: &str) -> Result<bool> {
    let git = Git::of_repository(repository)?;
    // A repository without the commit has no branch with it.
    if !git.command().args(["cat-file", "-e", &format!("{commit}^{{commit}}")]).succeeds()? {
        return Ok(false);
    }
    let list = ["for-each-ref", "--count=1", "--format=x", "--contains", commit, "refs/heads", "refs/remotes"];
    Ok(!git.command().args(list).stdout()?.is_empty())
}

/// Counts the files of a workspace that are neither committed nor ignored.
pub fn count_uncommitted(plan: &Plan) -> Result<usize> {
    let _files = lock_files(plan)?;
    let git = match (plan.strategy, &plan.git_dir) {
        (Strategy::Clone | Strategy::Overlay, _) | (Strategy::Worktree, Some(_)) => git_in(plan)?,
        _ => return Ok(0),
    };
    nested(&plan.workspace)?;
    let status = ["status", "--porcelain", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=all"];
    let status = git.command().env("GIT_OPTIONAL_LOCKS", "0").args(status).stdout()?;
    Ok(status.split('\0').filter(|entry| entry.len() > 3).count())
}

/// Returns the commit on which a person resolved a conflict in a workspace, if nothing is under way there any more.
pub fn resolved(plan: &Plan) -> Result<Option<String>> {
    let git = match (plan.strategy, &plan.git_dir) {
        (Strategy::Clone | Strategy::Overlay, _) | (Strategy::Worktree, Some(_)) => git_in(plan)?,
        (Strategy::Jj, _) => {
            let has_conflict =
                jj(&plan.workspace)?.args(["log", "--no-graph", "--revisions=@", CONFLICT_MARK]).stdout()?;
            return if has_conflict.is_empty() { last_commit(plan).map(Some) } else { Ok(None) };
        }
        (Strategy::Worktree, None) => {
            let head = last_commit(plan)?;
            let is_under_way = plan.workspace.join(".hg/merge").exists();
            return Ok(Some(head).filter(|head| !is_under_way && plan.base.as_ref() != Some(head)));
        }
        (Strategy::Copy | Strategy::InPlace, _) => return Ok(None),
    };
    let git_dir = git.git_dir()?;
    let is_under_way = OPERATIONS_IN_PROGRESS.iter().any(|(mark, ..)| git_dir.join(mark).exists());
    let head = resolve(&git, "HEAD")?;
    Ok(Some(head).filter(|head| !is_under_way && plan.base.as_ref() != Some(head)))
}

/// Merges the work of finished tasks, in order, and makes the merge the base of a plan. Nothing is made but objects.
///
/// `sources` are repositories on this machine that may have the commits.
pub fn merge(
    plan: &mut Plan,
    work: &[Work],
    sources: &[PathBuf],
    network: NetworkOptions,
    url: Option<&str>,
) -> Result<Merge> {
    if work.is_empty() {
        return Ok(Merge::Done);
    }
    let (git, _held) = match (plan.strategy, &plan.git_dir) {
        (Strategy::Clone | Strategy::Overlay, _) => {
            let held = held_mirror::hold(Mirror::of(plan)?, plan)?;
            (held.mirror().git()?, Some(held))
        }
        (Strategy::Worktree, Some(git_dir)) => (Git::of_repository(git_dir)?, None),
        (Strategy::Jj, _) => {
            // jj merges when it makes the workspace, and records conflicts in the commit.
            let commits: Vec<&str> = work.iter().map(|work| work.commit.as_str()).collect();
            plan.base = Some(commits.join(" | "));
            return Ok(Merge::Done);
        }
        (Strategy::Worktree, None) => {
            plan.base = work.first().map(|work| work.commit.clone());
            return Ok(Merge::Done);
        }
        (Strategy::Copy | Strategy::InPlace, _) => {
            return Err(Error::invalid(format!("the strategy {} knows no commits to start from", plan.strategy))
                .hint("start it from the files as they are: --base head"));
        }
    };
    for work in work {
        if !bring(&git, plan, work, sources, network, url)? {
            return Ok(Merge::Missing(work.clone()));
        }
    }
    merge_in(&git, plan, work)
}

/// Gets a commit from wherever it is. Returns whether the repository has it now.
fn bring(
    git: &Git,
    plan: &Plan,
    work: &Work,
    sources: &[PathBuf],
    network: NetworkOptions,
    url: Option<&str>,
) -> Result<bool> {
    let commit = work.commit.as_str();
    let is_there = || git.command().args(["cat-file", "-e", &format!("{commit}^{{commit}}")]).succeeds();
    if is_there()? {
        return Ok(true);
    }
    for source in sources.iter().chain(&plan.git_dir).filter(|source| source.is_dir()) {
        // A repository that lacks the commit refuses.
        if fetch_local(git, source, &[])?.arg(commit).succeeds()? && is_there()? {
            return Ok(true);
        }
    }
    let Some(url) = url.or(plan.origin.as_deref()) else { return Ok(false) };
    check_url(url)?;
    let remote = git.clone().with_setting("remote.waypost.url", url);
    for revision in work.branch.iter().map(|branch| format!("refs/heads/{branch}")).chain([commit.to_owned()]) {
        if remote.network(network).args(FETCH).args([UPLOAD_PACK, "--", "waypost", &revision]).succeeds()?
            && is_there()?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Merges commits that a repository has.
fn merge_in(git: &Git, plan: &mut Plan, work: &[Work]) -> Result<Merge> {
    let Some((first, rest)) = work.split_first() else { return Ok(Merge::Done) };
    let mut merged = vec![first.task.clone()];
    let mut base = first.commit.clone();
    plan.base = Some(base.clone());
    for (number, next) in rest.iter().enumerate() {
        let contains =
            |one: &str, other: &str| git.command().args(["merge-base", "--is-ancestor", other, one]).succeeds();
        if contains(&base, &next.commit)? {
            merged.push(next.task.clone());
            continue;
        }
        if contains(&next.commit, &base)? {
            base.clone_from(&next.commit);
        } else {
            let (tree, conflicts) = merge_trees(git, &base, &next.commit)?;
            if !conflicts.files.is_empty() {
                let shown = show(git, &tree, &conflicts, &merged.join(", "), &next.task);
                return Ok(Merge::Conflict(Conflict {
                    merged,
                    task: next.task.clone(),
                    commit: next.commit.clone(),
                    left: rest[number + 1..].iter().map(|work| work.task.clone()).collect(),
                    files: conflicts.files,
                    shown,
                }));
            }
            let commit = git.command().args(["commit-tree", &tree, "-p", &base, "-p", &next.commit]);
            base = with_identity(commit, plan)?.args(["-m", &message(&next.task)]).stdout()?;
        }
        merged.push(next.task.clone());
        plan.base = Some(base.clone());
    }
    Ok(Merge::Done)
}

fn message(task: &str) -> String {
    format!("Merge the work of task {task}")
}

fn with_identity(mut tool: Tool, plan: &Plan) -> Result<Tool> {
    let (name, email) = identity(plan)?;
    for role in ["AUTHOR", "COMMITTER"] {
        tool = tool.env(&format!("GIT_{role}_NAME"), &name).env(&format!("GIT_{role}_EMAIL"), &email);
    }
    Ok(tool)
}

/// The conflicts that git reports.
#[derive(Default)]
struct Conflicts {
    files: Vec<String>,
    messages: Vec<String>,
}

/// Merges two commits with git. Returns the tree, which has conflict markers if there are conflicts.
fn merge_trees(git: &Git, one: &str, other: &str) -> Result<(String, Conflicts)> {
    // The attributes of the files decide how git merges them; a bare repository has no files.
    let merge = git.command().env("GIT_ATTR_SOURCE", one);
    let printed = merge.args(["merge-tree", "--write-tree", "-z", "--name-only", "--messages", one, other]);
    let (is_clean, printed) = printed.bytes_or_failed()?;
    let printed = String::from_utf8_lossy(&printed).into_owned();
    let mut words = printed.split('\0');
    let tree = words.next().unwrap_or_default().to_owned();
    if is_clean {
        return Ok((tree, Conflicts::default()));
    }
    let files: BTreeSet<String> = words.by_ref().take_while(|word| !word.is_empty()).map(str::to_owned).collect();
    let mut messages = Vec::new();
    // A number of paths, the paths, the kind of message, the message.
    while let Some(count) = words.next().and_then(|word| word.parse::<usize>().ok()) {
        let mut rest = words.by_ref().skip(count);
        let (Some(kind), Some(text)) = (rest.next(), rest.next()) else { break };
        if kind.starts_with("CONFLICT") {
            messages.push(text.trim().to_owned());
        }
    }
    if tree.is_empty() || files.is_empty() {
        return Err(Error::conflict(format!("git cannot merge {other}")).because(messages.join("; ")));
    }
    Ok((tree, Conflicts { files: files.into_iter().collect(), messages }))
}

/// Returns the conflicting parts of the files, with the names of tasks for those of commits.
fn show(git: &Git, tree: &str, conflicts: &Conflicts, one: &str, other: &str) -> String {
    let read = |file: &str| git.command().args(["show", &format!("{tree}:{file}")]).bytes_or_none().ok().flatten();
    let mut shown = conflicts.messages.clone();
    shown.extend(conflicts.files.iter().filter_map(|file| {
        let parts = marked_parts(&read(file)?, |line| match line.split_once(' ') {
            Some(("<<<<<<<", _)) => format!("<<<<<<< {one}"),
            Some((">>>>>>>", _)) => format!(">>>>>>> {other}"),
            _ => line.to_owned(),
        });
        Some(format!("{file}:\n{parts}")).filter(|_| !parts.is_empty())
    }));
    shorten(&shown.join("\n"))
}

/// Returns the lines between conflict markers.
fn marked_parts(content: &[u8], line: impl Fn(&str) -> String) -> String {
    let content = String::from_utf8_lossy(content);
    let mut is_inside = false;
    let mut parts = String::new();
    for text in content.lines() {
        is_inside |= text.starts_with("<<<<<<<");
        if is_inside {
            let _ = writeln!(parts, "{}", line(text));
        }
        is_inside &= !text.starts_with(">>>>>>>");
    }
    parts
}

fn shorten(text: &str) -> String {
    if text.len() <= MAX_SHOWN_BYTES {
        return text.to_owned();
    }
    let end = (0..=MAX_SHOWN_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}…", &text[..end])
}

/// Completes a merge that git did not make: jj merges when it makes the workspace, Mercurial in the workspace.
pub fn finish_merge(plan: &Plan, work: &[Work]) -> Result<Option<Conflict>> {
    let root = &plan.workspace;
    let names = |work: &[Work]| work.iter().map(|work| work.task.clone()).collect::<Vec<_>>();
    let conflict = |number: usize, files: &str| {
        let files: Vec<String> = files.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
        let parts = files.iter().filter_map(|file| {
            let parts = marked_parts(&read_small_file(&root.join(file)).ok()??, str::to_owned);
            Some(format!("{file}:\n{parts}"))
        });
        let shown = shorten(&parts.collect::<Vec<_>>().join("\n"));
        let (merged, left) = (names(&work[..number]), names(&work[number + 1..]));
        let Work { task, commit, .. } = work[number].clone();
        Ok(Some(Conflict { merged, task, commit, left, files, shown }))
    };
    match (plan.strategy, &plan.git_dir) {
        (Strategy::Jj, _) if work.len() > 1 => {
            if jj(root)?.args(["log", "--no-graph", "--revisions=@", CONFLICT_MARK]).stdout()?.is_empty() {
                return Ok(None);
            }
            let files = jj(root)?.args(["file", "list", r#"--template=if(conflict, path ++ "\n")"#]).stdout()?;
            conflict(work.len() - 1, &files)
        }
        (Strategy::Worktree, None) => {
            for (number, next) in work.iter().enumerate().skip(1) {
                let is_contained = hg(root).args(["log", "--template=x", "--rev", &format!("{} and ::.", next.commit)]);
                if !is_contained.stdout()?.is_empty() {
                    continue;
                }
                // It exits with 1 if there are conflicts.
                let is_merged = hg(root).args(["merge", "--tool=:merge", "--rev", &next.commit]).succeeds()?;
                let files = hg(root).args(["resolve", "--list", "--no-status", "set:unresolved()"]).stdout()?;
                if !files.is_empty() {
                    return conflict(number, &files);
                }
                if !is_merged {
                    return Err(Error::conflict(format!("hg cannot merge {}", next.commit)));
                }
                hg(root).args(["commit", "--message", &message(&next.task)]).stdout()?;
            }
            Ok(None)
        }
        _ => Ok(None),
    }
}

/// Begins the merge that conflicts in a workspace, and leaves the conflict to be resolved there.
pub fn leave_conflict(plan: &Plan, conflict: &Conflict) -> Result<()> {
    let git = match (plan.strategy, &plan.git_dir) {
        (Strategy::Clone | Strategy::Overlay, _) | (Strategy::Worktree, Some(_)) => git_in(plan)?,
        // jj and Mercurial have left theirs.
        _ => return Ok(()),
    };
    let merge = git.command().args(["merge", "--quiet", "--no-ff", "--no-commit", "-m", &message(&conflict.task)]);
    // It exits with 1 because of the conflict.
    with_identity(merge, plan)?.arg(&conflict.commit).code().map(drop)
}
