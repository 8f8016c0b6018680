//! What is in a workspace that somebody could miss.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use waypost_core::{Error, Result, path_text};
use waypost_fs::{Usage, measure_tree};

use super::beside::{Linked, beside};
use super::copies::is_copied;
use super::model::{Plan, Strategy};
use super::open_processes::{Process, living_in};
use super::overlay::enter;
use super::plan::source;
use super::reflog::abandoned;
use crate::vcs::git_layout::OPERATIONS_IN_PROGRESS;
use crate::vcs::run::Git;
use crate::worktrees::{self, PlainIndex, count, nested_repositories};

/// What was found in a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// Tracked files that are not as committed.
    pub changed: Vec<String>,
    /// Files that are neither tracked nor ignored.
    pub untracked: Vec<String>,
    /// Ignored files and directories, which no snapshot keeps.
    pub ignored: Vec<String>,
    /// How many commits neither a remote nor the base has.
    pub unpushed: usize,
    /// Operations that were begun and not ended, each with how to end it.
    pub under_way: Vec<(String, String)>,
    /// Other repositories in it, which no snapshot keeps.
    pub nested: Vec<String>,
    /// How many commits only a reflog leads to.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub abandoned: usize,
    /// Git worktrees of its repository beside it, with work in them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worktrees: Vec<WorktreeFindings>,
    /// What else no snapshot keeps, each with what to do about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_the_way: Vec<(String, String)>,
    /// What the version control says besides.
    pub other: Vec<String>,
    /// Processes that live in it.
    pub living: Vec<Process>,
}

/// Work in a git worktree that a job added beside its workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeFindings {
    /// Where it is.
    #[serde(with = "path_text::serde")]
    pub path: PathBuf,
    /// Tracked files that are not as committed.
    pub changed: Vec<String>,
    /// Files that are neither tracked nor ignored.
    pub untracked: Vec<String>,
    /// Operations that were begun and not ended, each with how to end it.
    pub under_way: Vec<(String, String)>,
}

impl WorktreeFindings {
    fn at_risk(&self) -> Vec<String> {
        let files = uncommitted(&self.changed, &self.untracked);
        let under_way = self.under_way.iter().map(|(what, _)| format!("{what} under way"));
        let place = |what| format!("{what} in the git worktree {}", self.path.display());
        files.into_iter().chain(under_way).map(place).collect()
    }
}

/// Says how many files are changed and how many are new, if any.
fn uncommitted(changed: &[String], untracked: &[String]) -> Vec<String> {
    let some =
        |list: &[String], what: &str| (!list.is_empty()).then(|| format!("{} {what}", count(list.len(), "file")));
    [some(changed, "changed, not committed"), some(untracked, "not under version control")]
        .into_iter()
        .flatten()
        .collect()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Findings {
    /// Says what would be lost with it, in words.
    pub fn at_risk(&self) -> Vec<String> {
        let some = |number: usize, words: String| (number > 0).then_some(words);
        let commits = [
            some(self.unpushed, format!("{} that no remote has", count(self.unpushed, "commit"))),
            some(self.abandoned, format!("{} that only a reflog has", count(self.abandoned, "commit"))),
            some(self.nested.len(), format!("another repository in it, {}", self.nested.join(", "))),
        ];
        uncommitted(&self.changed, &self.untracked)
            .into_iter()
            .chain(commits.into_iter().flatten())
            .chain(self.worktrees.iter().flat_map(WorktreeFindings::at_risk))
            .chain(self.under_way.iter().map(|(what, _)| format!("{what} under way")))
            .chain(self.in_the_way.iter().map(|(what, _)| what.clone()))
            .chain(self.other.iter().cloned())
            .collect()
    }

    /// Says what would be lost even if all else is saved first.
    pub fn unsaved(&self) -> Vec<String> {
        let nested = self.nested.iter().map(|path| format!("another repository in it, {path}"));
        nested.chain(self.in_the_way.iter().map(|(what, _)| what.clone())).collect()
    }
}

/// Looks for everything in a workspace that somebody could miss.
pub fn examine(plan: &Plan) -> Result<Findings> {
    let mut findings = match plan.strategy {
        Strategy::Clone | Strategy::Overlay => look(plan)?,
        Strategy::Worktree | Strategy::Jj => of_worktree(plan)?,
        Strategy::Copy => Findings { other: changed_copy(plan)?, ..Findings::default() },
        Strategy::InPlace => Findings::default(),
    };
    if plan.strategy != Strategy::InPlace {
        examine_beside(plan, &mut findings)?;
        findings.living = living_in(&plan.home())?;
    }
    Ok(findings)
}

/// Returns what a workspace takes on disk, with its context. What is only laid under it is not counted.
pub fn measure(plan: &Plan) -> Result<Usage> {
    match plan.strategy {
        Strategy::InPlace => measure_tree(&plan.workspace),
        _ => measure_tree(&plan.home()),
    }
}

fn look(plan: &Plan) -> Result<Findings> {
    enter(plan)?;
    let root = &plan.workspace;
    let git = Git::of_workspace(root)?;
    let git_dir = root.join(".git");
    let found = examine_files(&git, &git_dir, root)?;
    let mut findings = Findings {
        changed: found.changed,
        untracked: found.untracked,
        ignored: found.ignored,
        under_way: found.under_way,
        nested: found.nested,
        ..Findings::default()
    };
    // Branches, tags, stashes, and what HEAD is on without any of them.
    let mut lacking = git.command().args(["rev-list", "--count", "--all", "HEAD", "--not", "--remotes"]);
    if let Some(base) = &plan.base {
        lacking = lacking.arg(base);
    }
    if let Some((_, commit)) = &plan.upstream {
        lacking = lacking.arg(commit);
    }
    let commits = lacking.stdout()?;
    findings.unpushed = commits.parse().map_err(|_| Error::internal(format!("git counts {commits:?} commits")))?;
    findings.abandoned = abandoned(plan, &git)?.len();
    Ok(findings)
}

/// The state of the files of one git worktree.
pub(super) struct Files {
    changed: Vec<String>,
    untracked: Vec<String>,
    ignored: Vec<String>,
    under_way: Vec<(String, String)>,
    pub(super) nested: Vec<String>,
}

impl Files {
    /// Returns whether something would be lost with them that is in no commit.
    pub(super) fn has_work(&self) -> bool {
        !self.changed.is_empty() || !self.untracked.is_empty() || !self.under_way.is_empty()
    }
}

/// Compares the files of a git worktree with its index and its commit, by content.
pub(super) fn examine_files(git: &Git, git_dir: &Path, root: &Path) -> Result<Files> {
    let under_way = OPERATIONS_IN_PROGRESS.iter().filter(|(mark, ..)| git_dir.join(mark).exists());
    let under_way = under_way.map(|(_, what, end)| ((*what).to_owned(), (*end).to_owned())).collect();
    let nested = nested(root)?;
    let mut files = Files { changed: Vec::new(), untracked: Vec::new(), ignored: Vec::new(), under_way, nested };
    // Submodules have programs of their own.
    let index = PlainIndex::new(git, git_dir, root)?;
    let status = [
        "status",
        "--porcelain",
        "-z",
        "--untracked-files=all",
        "--ignored=matching",
        "--no-renames",
        "--ignore-submodules=all",
    ];
    let status = index.tool(git).args(status).stdout()?;
    for entry in status.split('\0').filter(|entry| entry.len() > 3) {
        let (kind, path) = (&entry[..3], entry[3..].to_owned());
        let is_nested = files.nested.iter().any(|nested| path.trim_end_matches('/') == nested);
        match kind {
            _ if is_nested => {}
            "!! " => files.ignored.push(path),
            "?? " => files.untracked.push(path),
            _ => files.changed.push(path),
        }
    }
    Ok(files)
}

/// Adds what a job left beside its workspace.
fn examine_beside(plan: &Plan, findings: &mut Findings) -> Result<()> {
    const MOVE: &str = "move it out of the workspace's directory, or delete it if you are done with it";
    let found = beside(plan)?;
    for path in &found.repositories {
        let what = format!("another repository beside it, {}", path.display());
        findings.in_the_way.push((what, MOVE.to_owned()));
    }
    for path in &found.files {
        findings.in_the_way.push((format!("files beside it, {}", path.display()), MOVE.to_owned()));
    }
    for linked in &found.worktrees {
        examine_linked(plan, linked, findings)?;
    }
    Ok(())
}

/// Adds the work in a git worktree beside a workspace. Its commits are the repository's, and counted there.
fn examine_linked(plan: &Plan, linked: &Linked, findings: &mut Findings) -> Result<()> {
    let git = linked.git()?;
    let files = examine_files(&git, &linked.git_dir, &linked.root)?;
    for nested in &files.nested {
        let what = format!("another repository beside it, {}", linked.root.join(nested).display());
        findings.in_the_way.push((what, "move it elsewhere, or delete it if you are done with it".to_owned()));
    }
    let Files { changed, untracked, under_way, .. } = files;
    let found = WorktreeFindings { path: linked.root.clone(), changed, untracked, under_way };
    if plan.strategy.borrows() {
        findings.worktrees.extend((!found.at_risk().is_empty()).then_some(found));
        return Ok(());
    }
    // It is a worktree of the user's repository, where a snapshot of the workspace leaves nothing.
    let mut at_risk = found.at_risk();
    let lacking = git
        .command()
        .args(["rev-list", "--count", "HEAD", "--not", "--branches", "--tags", "--remotes"])
        .stdout_or_none()?;
    at_risk.extend(
        lacking
            .filter(|number| number != "0")
            .map(|number| format!("{number} commits that no branch has in the git worktree {}", linked.root.display())),
    );
    let hint = format!("commit it on a branch there, or: git worktree move {} ELSEWHERE", linked.root.display());
    findings.in_the_way.extend(at_risk.into_iter().map(|what| (what, hint.clone())));
    Ok(())
}

/// Lists repositories in a workspace, by their paths in it.
pub(super) fn nested(root: &Path) -> Result<Vec<String>> {
    let found = nested_repositories(root)?;
    let relative = |path: &Path| path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
    Ok(found.iter().map(|path| relative(path)).collect())
}

fn of_worktree(plan: &Plan) -> Result<Findings> {
    let found = worktrees::examine(&source(plan)?, &plan.workspace)?;
    // A copy of all files has all that Mercurial keeps with them.
    let (saved, in_the_way) = if is_copied(plan) { (found.in_the_way, vec![]) } else { (vec![], found.in_the_way) };
    let mut other = found.at_risk;
    other.extend(saved.into_iter().map(|(what, _)| what));
    if let (Some(base), Some(_)) = (&plan.base, &plan.git_dir) {
        // Without a remote, commits are as safe as their branch; but what was there before is not this job's.
        let git = Git::in_worktree(&plan.workspace)?;
        let commits = git.command().args(["rev-list", "--count", "HEAD", "--not", "--remotes", base]).stdout()?;
        if commits == "0" {
            other.retain(|finding| !finding.contains("that no remote has"));
        }
    }
    let abandoned = match &plan.git_dir {
        Some(_) if plan.strategy == Strategy::Worktree => abandoned(plan, &Git::in_worktree(&plan.workspace)?)?.len(),
        _ => 0,
    };
    Ok(Findings { ignored: found.ignored, in_the_way, other, abandoned, ..Findings::default() })
}

/// Without version control nothing tells what a job changed, so everything counts.
fn changed_copy(plan: &Plan) -> Result<Vec<String>> {
    let mut entries = std::fs::read_dir(&plan.workspace)
        .map_err(|error| Error::unavailable(format!("cannot read {}", plan.workspace.display())).because(error))?;
    Ok(if entries.next().is_some() { vec!["files, and no version control".to_owned()] } else { Vec::new() })
}
