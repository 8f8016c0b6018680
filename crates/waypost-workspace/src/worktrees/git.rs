//! Worktrees of git.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};

use super::{Add, Findings, Saved, dirty, unpushed};
use crate::checkout::{Checkout, Listed};
use crate::run::{Git, Tool};

/// What git leaves in a worktree's directory while something is under way.
pub(crate) const UNDER_WAY: &[(&str, &str, &str)] = &[
    ("rebase-merge", "a rebase", "git rebase --continue or --abort"),
    ("rebase-apply", "a rebase", "git rebase --continue or --abort"),
    ("MERGE_HEAD", "a merge", "git merge --continue or --abort"),
    ("CHERRY_PICK_HEAD", "a cherry-pick", "git cherry-pick --continue or --abort"),
    ("REVERT_HEAD", "a revert", "git revert --continue or --abort"),
    ("BISECT_LOG", "a bisection", "git bisect reset"),
];

/// Finds the worktree that has a branch.
pub(super) fn find(checkout: &Checkout, branch: &str) -> Result<Option<Listed>> {
    let listed = checkout.worktrees();
    if let Some(found) = listed.iter().find(|listed| listed.branch.as_deref() == Some(branch)) {
        return Ok(Some(found.clone()));
    }
    if listed.iter().all(|listed| listed.branch.is_some()) {
        return Ok(None);
    }
    // Where refs are kept in tables, only git knows which branch a worktree is on.
    let said =
        Git::of_repository(&checkout.shared_dir)?.command().args(["worktree", "list", "--porcelain", "-z"]).stdout()?;
    let wanted = format!("branch refs/heads/{branch}");
    let path = said.split("\0\0").find(|record| record.split('\0').any(|line| line == wanted)).and_then(|record| {
        let path = record.split('\0').find_map(|line| line.trim_start_matches('\0').strip_prefix("worktree "))?;
        std::fs::canonicalize(path).ok()
    });
    Ok(listed.into_iter().find(|listed| Some(&listed.path) == path.as_ref()))
}

pub(super) fn add(checkout: &Checkout, request: Add<'_>, target: &Path) -> Result<()> {
    let repository = Git::of_repository(&checkout.shared_dir)?;
    let branch = request.branch;
    if !repository.command().args(["check-ref-format", "--branch", branch]).succeeds()? {
        return Err(Error::invalid(format!("{branch:?} cannot be the name of a branch")));
    }
    let exists = |reference: &str| repository.command().args(["show-ref", "--verify", "--quiet", reference]).succeeds();
    let local = format!("refs/heads/{branch}");
    if exists(&local)? {
        if let Some(base) = request.base {
            return Err(Error::conflict(format!("branch {branch} exists already, so it cannot start from {base}")));
        }
        return repository
            .command()
            .args(["worktree", "add", "--quiet", "--"])
            .arg(target)
            .arg(branch)
            .stdout()
            .map(drop);
    }
    if let Some((_, name)) = branch.split_once('/')
        && exists(&format!("refs/remotes/{branch}"))?
    {
        return Err(Error::invalid(format!("{branch} is a branch of a remote"))
            .hint(format!("for a branch of your own that follows it: way worktree add {name}")));
    }
    let pattern = format!("refs/remotes/*/{branch}");
    let remote = repository.command().args(["for-each-ref", "--format=%(refname:short)", &pattern]).stdout()?;
    let (track, base) = match (request.base, remote.lines().collect::<Vec<_>>().as_slice()) {
        (Some(base), _) => ("--no-track", base),
        (None, [only]) => ("--track", *only),
        (None, _) => ("--no-track", "HEAD"),
    };
    // HEAD means the commit of the worktree we stand in, not of the main one.
    let here = match &checkout.root {
        Some(root) => Git::in_worktree(root)?,
        None => Git::of_repository(&checkout.shared_dir)?,
    };
    let revision = format!("{base}^{{commit}}");
    let Ok(commit) = here.command().args(["rev-parse", "--verify", "--quiet", "--end-of-options", &revision]).stdout()
    else {
        let error = Error::not_found(format!("there is no commit {base} to start {branch} from"));
        return Err(if base == "HEAD" { error.hint("make a first commit") } else { error });
    };
    let start = if track == "--track" { base } else { &commit };
    let added = repository
        .command()
        .args(["worktree", "add", "--quiet", track, "-b", branch, "--"])
        .arg(target)
        .arg(start)
        .stdout()
        .map(drop);
    if added.is_err() {
        // Git makes the branch before the tree, and leaves it behind when the tree fails.
        let _ = repository.command().args(["update-ref", "-d", &local, &commit]).succeeds();
    }
    added
}

pub(super) fn examine(path: &Path) -> Result<Findings> {
    let git = Git::in_worktree(path)?;
    let git_dir = git_dir(&git)?;
    let mut findings = Findings::default();
    if git_dir.join("locked").exists() {
        let unlock = format!("git worktree unlock {}", path.display());
        findings.in_the_way.push(("a lock that somebody put on it".to_owned(), unlock));
    }
    for (mark, what, end) in UNDER_WAY {
        if git_dir.join(mark).exists() {
            findings.in_the_way.push((format!("{what} under way"), (*end).to_owned()));
        }
    }
    if git_dir.join("modules").read_dir().is_ok_and(|mut modules| modules.next().is_some()) {
        let what = "submodules, whose commits are kept with it".to_owned();
        findings
            .in_the_way
            .push((what, format!("push what is in them, then: git worktree remove --force {}", path.display())));
    }

    // Files can be hidden from git status; a copy of the index hides nothing.
    let index = PlainIndex::new(&git, &git_dir, path)?;
    let status = [
        "status",
        "--porcelain",
        "-z",
        "--untracked-files=all",
        "--ignored=traditional",
        "--no-renames",
        "--ignore-submodules=none",
    ];
    let status = index.tool(&git).args(status).stdout()?;
    let entries: Vec<&str> = status.split('\0').filter(|entry| entry.len() > 3).collect();
    findings.ignored = entries.iter().filter_map(|entry| entry.strip_prefix("!! ")).map(str::to_owned).collect();
    let new = entries.iter().filter(|entry| entry.starts_with("?? ")).count();
    findings.at_risk = dirty(entries.len() - new - findings.ignored.len(), new);

    if git.command().args(["rev-parse", "--quiet", "--verify", "HEAD"]).succeeds()? {
        let lacking = |refs: &[&str]| -> Result<usize> {
            let commits = git.command().args(["rev-list", "--count", "HEAD", "--not"]).args(refs).stdout()?;
            commits.parse().map_err(|_| Error::internal(format!("git counts {commits:?} commits")))
        };
        if !git.command().arg("remote").stdout()?.is_empty() {
            findings.at_risk.extend(unpushed(lacking(&["--remotes"])?, "remote"));
        } else if !git.command().args(["symbolic-ref", "--quiet", "HEAD"]).succeeds()? {
            findings.at_risk.extend(unpushed(lacking(&["--branches", "--tags"])?, "branch"));
        }
    }
    Ok(findings)
}

/// Saves a worktree as a commit under a ref of its own. Neither the worktree nor its index is touched.
///
/// As with git stash, what was staged is a second parent: it may differ from what is in the files.
pub(super) fn save(path: &Path, message: &str, label: &str, now: Timestamp) -> Result<Saved> {
    let git = Git::in_worktree(path)?;
    let saved = commit_everything(&git, &git_dir(&git)?, path, message, &[])?;
    let name = format!("refs/waypost/snapshots/{label}/{}", now.as_millis());
    git.command().args(["update-ref", &name, &saved, ""]).stdout()?;
    Ok(Saved { restored_by: format!("git worktree add {} {name}", path.display()), name })
}

/// Makes a commit of all files that are not ignored, except these, and of what is staged. No ref leads to it yet.
pub(crate) fn commit_everything(
    git: &Git,
    git_dir: &Path,
    path: &Path,
    message: &str,
    except: &[String],
) -> Result<String> {
    let index = PlainIndex::new(git, git_dir, path)?;
    let has_head = git.command().args(["rev-parse", "--quiet", "--verify", "HEAD"]).succeeds()?;
    let commit = |tree: &str, message: &str, parents: &[&str]| {
        let mut command = git.command();
        for role in ["AUTHOR", "COMMITTER"] {
            command = command.env(&format!("GIT_{role}_NAME"), "waypost");
            command = command.env(&format!("GIT_{role}_EMAIL"), "waypost@localhost");
        }
        let parents = parents.iter().flat_map(|parent| ["-p", parent]);
        command.args(["commit-tree", tree, "-m", message]).args(parents).stdout()
    };
    let head: &[&str] = if has_head { &["HEAD"] } else { &[] };
    let add_all = || {
        let except = except.iter().map(|path| format!(":(exclude,literal,top){path}"));
        index.tool(git).args(["add", "--all", "--", "."]).args(except).stdout().map(drop)
    };
    // Where versions of a file are in conflict, nothing is staged yet that could be a tree.
    if !index.tool(git).args(["ls-files", "--unmerged"]).stdout()?.is_empty() {
        add_all()?;
    }
    let staged = commit(&index.tool(git).arg("write-tree").stdout()?, "What was staged", head)?;
    add_all()?;
    let tree = index.tool(git).arg("write-tree").stdout()?;
    commit(&tree, message, &[head, &[&staged]].concat())
}

pub(super) fn remove(checkout: &Checkout, path: &Path, saved: bool) -> Result<()> {
    // Without --force git looks once more, and refuses what appeared since we looked.
    let force: &[&str] = if saved { &["--force"] } else { &[] };
    let repository = Git::of_repository(&checkout.shared_dir)?;
    repository.command().args(["worktree", "remove"]).args(force).arg("--").arg(path).stdout().map(drop)
}

/// Makes git forget a worktree whose directory is gone.
pub(super) fn forget(checkout: &Checkout, name: &str, path: &Path) -> Result<()> {
    let locked = checkout.shared_dir.join("worktrees").join(name).join("locked");
    // Git locks a worktree while it adds it. If it was killed then, nobody else takes the lock off.
    if std::fs::read_to_string(locked).is_ok_and(|why| why.trim() == "initializing") {
        let repository = Git::of_repository(&checkout.shared_dir)?;
        repository.command().args(["worktree", "unlock", "--"]).arg(path).stdout()?;
    }
    remove(checkout, path, false)
}

/// Keeps a file name in worktrees out of `git status`, in this clone only.
pub fn exclude(checkout: &Checkout, pattern: &str) -> Result<()> {
    let Some(git_dir) = &checkout.git_dir else { return Ok(()) };
    let file = git_dir.join("info/exclude");
    let cannot = |error| Error::unavailable(format!("cannot write {}", file.display())).because(error);
    let mut content = std::fs::read(&file).unwrap_or_default();
    if content.split(|byte| *byte == b'\n').any(|line| line == pattern.as_bytes()) {
        return Ok(());
    }
    if !content.is_empty() && !content.ends_with(b"\n") {
        content.push(b'\n');
    }
    content.extend(format!("{pattern}\n").bytes());
    std::fs::create_dir_all(git_dir.join("info")).map_err(cannot)?;
    waypost_fs::replace(&file, &content, 0o644).map_err(cannot)
}

fn git_dir(git: &Git) -> Result<PathBuf> {
    git.command().args(["rev-parse", "--absolute-git-dir"]).path()
}

/// A copy of a worktree's index in which no file is marked as not to be looked at. Deleted when dropped.
pub(crate) struct PlainIndex(PathBuf);

impl PlainIndex {
    pub(crate) fn new(git: &Git, git_dir: &Path, root: &Path) -> Result<Self> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let index = PlainIndex(git_dir.join(format!("waypost-{}-{number}.index", std::process::id())));
        let own = git_dir.join("index");
        if own.exists() {
            // Starting from the real index spares git reading every unchanged file again.
            // As old as that: git looks twice at files that were changed in the moment in which the index was written.
            let written = std::fs::copy(&own, &index.0).and_then(|_| {
                let time = own.metadata()?.modified()?;
                std::fs::File::options().write(true).open(&index.0)?.set_modified(time)
            });
            written
                .map_err(|error| Error::unavailable(format!("cannot write {}", index.0.display())).because(error))?;
        }
        let listed = index.tool(git).args(["ls-files", "-v", "-z"]).stdout()?;
        let mut hidden = String::new();
        for entry in listed.split('\0') {
            // Lower case: assumed unchanged. S: not in a sparse checkout; then it is usually not there at all.
            if entry.starts_with(|mark: char| mark.is_ascii_lowercase() || mark == 'S')
                && let Some(name) = entry.get(2..)
                && root.join(name).symlink_metadata().is_ok()
            {
                hidden.push_str(name);
                hidden.push('\0');
            }
        }
        for flag in ["--no-assume-unchanged", "--no-skip-worktree"] {
            if !hidden.is_empty() {
                index.tool(git).args(["update-index", flag, "-z", "--stdin"]).fed(hidden.as_bytes()).map(drop)?;
            }
        }
        Ok(index)
    }

    pub(crate) fn tool(&self, git: &Git) -> Tool {
        git.command().env("GIT_INDEX_FILE", &self.0)
    }
}

impl Drop for PlainIndex {
    fn drop(&mut self) {
        // A copy nobody else knows of.
        let _ = std::fs::remove_file(&self.0);
    }
}
