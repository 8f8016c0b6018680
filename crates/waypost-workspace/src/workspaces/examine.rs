//! Finds work in a workspace that a removal would lose.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use waypost_core::seeded::seeded_bug;
use waypost_core::words::count;
use waypost_core::{Error, Result, path_text};
use waypost_fs::{Usage, measure_tree, mounts_in};

use super::beside::{Linked, beside};
use super::copies::is_copied;
use super::files_lock::lock_files;
use super::model::{Plan, Strategy};
use super::open_processes::{Process, processes_in};
use super::plan::{is_source_gone, resolve, source};
use super::push::{Merged, borrowing, git_in, merged_in_source, targets};
use super::reflog::abandoned;
use super::repair::entries;
use crate::vcs::config_file::ConfigFile;
use crate::vcs::git_layout::OPERATIONS_IN_PROGRESS;
use crate::vcs::run::Git;
use crate::worktrees::{self, PlainIndex, nested};

/// The findings in a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// Tracked files with uncommitted changes.
    pub changed: Vec<String>,
    /// Files that are neither tracked nor ignored.
    pub untracked: Vec<String>,
    /// Ignored files and directories, which snapshots do not contain.
    pub ignored: Vec<String>,
    /// The number of commits that neither a remote nor the base has.
    pub unpushed: usize,
    /// Unfinished operations, each with the command that ends it.
    pub under_way: Vec<(String, String)>,
    /// Other repositories in it, which snapshots do not contain.
    pub nested: Vec<String>,
    /// The number of commits that only a reflog leads to.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub abandoned: usize,
    /// Git worktrees of its repository beside it, with unsaved work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worktrees: Vec<WorktreeFindings>,
    /// Other things that snapshots do not contain, each with advice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_the_way: Vec<(String, String)>,
    /// Other findings of the version control tool.
    pub other: Vec<String>,
    /// Processes that use it.
    pub living: Vec<Process>,
}

/// Work in a git worktree that a job added beside its workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeFindings {
    /// Its root.
    #[serde(with = "path_text::serde")]
    pub path: PathBuf,
    /// Tracked files with uncommitted changes.
    pub changed: Vec<String>,
    /// Files that are neither tracked nor ignored.
    pub untracked: Vec<String>,
    /// Unfinished operations, each with the command that ends it.
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

/// Describes changed and new files, if any.
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
    /// Describes the work that a removal would lose.
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

    /// Describes an unfinished operation, such as a rebase, and how to end it.
    pub fn operation_under_way(&self) -> Option<(String, &str)> {
        let own = self.under_way.iter().map(|(what, end)| (format!("{what} under way"), end.as_str()));
        let found = self.in_the_way.iter().map(|(what, end)| (what.clone(), end.as_str()));
        own.chain(found).find(|(what, _)| what.ends_with(" under way"))
    }

    /// Describes the work that a removal would lose even after a snapshot.
    pub fn unsaved(&self) -> Vec<String> {
        let nested = self.nested.iter().map(|path| format!("another repository in it, {path}"));
        nested.chain(self.in_the_way.iter().map(|(what, _)| what.clone())).collect()
    }
}

/// Finds all work in a workspace that a removal would lose.
pub fn examine(plan: &Plan) -> Result<Findings> {
    let _files = lock_files(plan)?;
    let mut findings = match plan.strategy {
        Strategy::Clone | Strategy::Overlay => examine_clone(plan)?,
        Strategy::Worktree | Strategy::Jj => of_worktree(plan)?,
        Strategy::Copy => Findings { other: changed_copy(plan)?, ..Findings::default() },
        Strategy::InPlace => Findings::default(),
    };
    if plan.strategy != Strategy::InPlace {
        examine_beside(plan, &mut findings)?;
        let is_own = |point: &PathBuf| plan.strategy == Strategy::Overlay && *point == plan.workspace;
        let mounts = mounts_in(&plan.home())?.into_iter().filter(|point| !is_own(point));
        let mounts: Vec<_> = mounts.map(|point| worktrees::mounted(&point)).collect();
        findings.in_the_way.retain(|finding| !mounts.contains(finding));
        findings.in_the_way.splice(0..0, mounts);
        findings.living = processes_in(&plan.home())?;
    }
    Ok(findings)
}

/// Returns the disk usage of a workspace and its context, without the lower layer of an overlay.
pub fn measure(plan: &Plan) -> Result<Usage> {
    let _files = lock_files(plan)?;
    match plan.strategy {
        Strategy::InPlace => measure_tree(&plan.workspace),
        _ => measure_tree(&plan.home()),
    }
}

fn examine_clone(plan: &Plan) -> Result<Findings> {
    let root = &plan.workspace;
    let git = git_in(plan)?;
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
    // Branches, tags, stashes and a detached HEAD.
    let mut lacking = git.command().args(["rev-list", "--count", "--all", "HEAD", "--not", "--remotes"]);
    let is_source_gone = is_source_gone(plan);
    // Without the source, only the workspace and a cache have the base.
    if let Some(base) = plan.base.as_ref().filter(|_| !is_source_gone) {
        lacking = lacking.arg(base);
    }
    if let Some((_, commit)) = &plan.upstream {
        lacking = lacking.arg(commit);
    }
    let commits = lacking.stdout()?;
    findings.unpushed = if seeded_bug("ignore_unpushed") { 0 } else { number(&commits)? };
    if findings.unpushed > 0 && !is_source_gone {
        findings.unpushed = count_unmerged(plan, &git)?;
    }
    findings.abandoned = abandoned(plan, &git)?.len();
    if let Some(module) = hidden_module(&git_dir)? {
        let what = format!("the repository of a submodule that is not checked out, {module}");
        let way_out = "check it out and push its commits, or let it go: way ws rm --discard".to_owned();
        findings.in_the_way.push((what, way_out));
    }
    Ok(findings)
}

/// Returns the name of a submodule whose repository is in a git directory, while its files are not checked out. Those that
/// are checked out are found there.
fn hidden_module(git_dir: &Path) -> Result<Option<String>> {
    let modules = git_dir.join("modules");
    let mut dirs = vec![modules.clone()];
    while let Some(dir) = dirs.pop() {
        for entry in entries(&dir)? {
            if !entry.join("HEAD").is_file() {
                // Links could lead around in circles.
                dirs.extend(entry.symlink_metadata().is_ok_and(|found| found.is_dir()).then_some(entry));
                continue;
            }
            let work_tree = ConfigFile::read(&entry.join("config")).get("core.worktree").map(|path| entry.join(path));
            if !work_tree.is_some_and(|work_tree| work_tree.join(".git").exists()) {
                return Ok(Some(entry.strip_prefix(&modules).unwrap_or(&entry).display().to_string()));
            }
        }
    }
    Ok(None)
}

/// Counts the commits that neither a remote nor a branch that the source repository works on has.
fn count_unmerged(plan: &Plan, git: &Git) -> Result<usize> {
    let head = resolve(git, "HEAD")?;
    let mut known = targets(plan)?;
    // Commits that change no file are in no other commit: their messages would be lost.
    let tree = |commit: &str| git.command().args(["rev-parse", "--verify", &format!("{commit}^{{tree}}")]).stdout();
    let changes_files = tree(plan.base()?)? != tree(&head)?;
    if changes_files && merged_in_source(plan, &head)? == Merged::Squashed {
        known.push(head);
    }
    let known = known.iter().chain(&plan.base).chain(plan.upstream.iter().map(|(_, commit)| commit));
    let count = borrowing(git.command(), plan).args(["rev-list", "--count", "--all", "HEAD", "--not", "--remotes"]);
    let count = count.args(known).stdout()?;
    number(&count)
}

/// Reads a number of commits. Git prints none and succeeds if the write of its output is interrupted.
fn number(count: &str) -> Result<usize> {
    count.parse().map_err(|_| Error::unavailable(format!("git counts {count:?} commits")).hint("try again"))
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
    /// Returns whether there is uncommitted work.
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
    // Submodules are ignored: their configuration may name programs.
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
            "?? " if seeded_bug("ignore_untracked") => {}
            "?? " => files.untracked.push(path),
            _ => files.changed.push(path),
        }
    }
    Ok(files)
}

/// Adds findings beside a workspace.
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

/// Adds uncommitted work in a git worktree beside a workspace. Its commits are counted with those of the repository.
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
    // It is a worktree of the user's repository, into which snapshots are not written.
    let mut at_risk = found.at_risk();
    let lacking = git
        .command()
        .args(["rev-list", "--count", "HEAD", "--not", "--branches", "--tags", "--remotes"])
        .stdout_or_none()?;
    at_risk.extend(lacking.filter(|number| number != "0").map(|number| {
        format!("{} that no branch has in the git worktree {}", count(number, "commit"), linked.root.display())
    }));
    let hint = format!("commit it on a branch there, or: git worktree move {} ELSEWHERE", linked.root.display());
    findings.in_the_way.extend(at_risk.into_iter().map(|what| (what, hint.clone())));
    Ok(())
}

fn of_worktree(plan: &Plan) -> Result<Findings> {
    let found = worktrees::examine(&source(plan)?, &plan.workspace)?;
    // A copy of all files includes Mercurial's state, so nothing is in the way.
    let (saved, in_the_way) = if is_copied(plan) { (found.in_the_way, vec![]) } else { (vec![], found.in_the_way) };
    let mut other = found.at_risk;
    other.extend(saved.into_iter().map(|(what, _)| what));
    if let (Some(base), Some(_)) = (&plan.base, &plan.git_dir) {
        // Commits that existed before the job are not its work.
        let git = git_in(plan)?;
        let commits = git.command().args(["rev-list", "--count", "HEAD", "--not", "--remotes", base]).stdout()?;
        if commits == "0" {
            other.retain(|finding| !finding.contains("that no remote has"));
        }
    }
    let abandoned = match &plan.git_dir {
        Some(_) if plan.strategy == Strategy::Worktree => abandoned(plan, &git_in(plan)?)?.len(),
        _ => 0,
    };
    Ok(Findings { ignored: found.ignored, in_the_way, other, abandoned, ..Findings::default() })
}

/// Without version control, any file may be the job's work.
fn changed_copy(plan: &Plan) -> Result<Vec<String>> {
    let mut entries = std::fs::read_dir(&plan.workspace)
        .map_err(|error| Error::unavailable(format!("cannot read {}", plan.workspace.display())).because(error))?;
    Ok(if entries.next().is_some() { vec!["files, and no version control".to_owned()] } else { Vec::new() })
}
