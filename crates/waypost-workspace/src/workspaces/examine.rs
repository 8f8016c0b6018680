//! What is in a workspace that somebody could miss.

use std::path::Path;

use serde::{Deserialize, Serialize};
use waypost_core::{Error, Result};
use waypost_fs::{Usage, measure_tree};

use super::copies::is_copied;
use super::living::{Process, living_in};
use super::make::source;
use super::overlay::enter;
use super::plan::{Plan, Strategy};
use crate::run::Git;
use crate::worktrees::{self, PlainIndex, UNDER_WAY, count, nested_repositories};

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
    /// What else no snapshot keeps, each with what to do about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_the_way: Vec<(String, String)>,
    /// What the version control says besides.
    pub other: Vec<String>,
    /// Processes that live in it.
    pub living: Vec<Process>,
}

impl Findings {
    /// Says what would be lost with it, in words.
    pub fn at_risk(&self) -> Vec<String> {
        let some = |number: usize, words: String| (number > 0).then_some(words);
        let files = |list: &[String]| count(list.len(), "file");
        [
            some(self.changed.len(), format!("{} changed, not committed", files(&self.changed))),
            some(self.untracked.len(), format!("{} not under version control", files(&self.untracked))),
            some(self.unpushed, format!("{} that no remote has", count(self.unpushed, "commit"))),
            some(self.nested.len(), format!("another repository in it, {}", self.nested.join(", "))),
        ]
        .into_iter()
        .flatten()
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
    let mut findings = Findings::default();
    for (mark, what, end) in UNDER_WAY {
        if git_dir.join(mark).exists() {
            findings.under_way.push(((*what).to_owned(), (*end).to_owned()));
        }
    }
    findings.nested = nested(root)?;
    // Files can be hidden from git status; a copy of the index hides nothing. Submodules have programs of their own.
    let index = PlainIndex::new(&git, &git_dir, root)?;
    let status = [
        "status",
        "--porcelain",
        "-z",
        "--untracked-files=all",
        "--ignored=matching",
        "--no-renames",
        "--ignore-submodules=all",
    ];
    let status = index.tool(&git).args(status).stdout()?;
    for entry in status.split('\0').filter(|entry| entry.len() > 3) {
        let (kind, path) = (&entry[..3], entry[3..].to_owned());
        let is_nested = findings.nested.iter().any(|nested| path.trim_end_matches('/') == nested);
        match kind {
            _ if is_nested => {}
            "!! " => findings.ignored.push(path),
            "?? " => findings.untracked.push(path),
            _ => findings.changed.push(path),
        }
    }
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
    Ok(findings)
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
    Ok(Findings { ignored: found.ignored, in_the_way, other, ..Findings::default() })
}

/// Without version control nothing tells what a job changed, so everything counts.
fn changed_copy(plan: &Plan) -> Result<Vec<String>> {
    let mut entries = std::fs::read_dir(&plan.workspace)
        .map_err(|error| Error::unavailable(format!("cannot read {}", plan.workspace.display())).because(error))?;
    Ok(if entries.next().is_some() { vec!["files, and no version control".to_owned()] } else { Vec::new() })
}
