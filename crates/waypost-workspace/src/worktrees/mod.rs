//! Adding and removing worktrees, with the real tools and without losing work.

use std::path::{Path, PathBuf};
use std::time::Duration;

use waypost_core::model::Vcs;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};
use waypost_fs::{FileIdentity, FileLock, create_private_dir, remove_tree};

use crate::checkout::{Checkout, Listed};
use crate::run::{git, hg, jj};

/// Checking out a large tree takes its time, and so does waiting for others who do.
const PATIENCE: Duration = Duration::from_mins(10);

/// A worktree to be made.
#[derive(Clone, Copy, Debug)]
pub struct Add<'a> {
    /// The branch to check out; made if it does not exist. For jj the name of the workspace.
    pub branch: &'a str,
    /// Where; beside the main worktree if not said.
    pub path: Option<&'a Path>,
    /// What a new branch starts from; the current commit if not said.
    pub base: Option<&'a str>,
}

/// What came of an [`Add`].
#[derive(Debug, PartialEq, Eq)]
pub struct Added {
    /// The worktree's root.
    pub path: PathBuf,
    /// Whether it was made now; otherwise it was there already.
    pub created: bool,
}

/// Makes a worktree of the repository of `checkout`, or finds the one that has the branch already.
pub fn add(checkout: &Checkout, request: Add<'_>) -> Result<Added> {
    if request.branch.is_empty() || request.branch.starts_with('-') {
        return Err(Error::invalid(format!("{:?} cannot be the name of a branch", request.branch)));
    }
    let target = match request.path {
        Some(path) => path.to_owned(),
        None => default_path(checkout, request.branch)?,
    };
    // Git's own registration races: of many at once, some fail. One at a time, none does.
    create_private_dir(&checkout.private_dir).map_err(|error| {
        Error::unavailable(format!("cannot write {}", checkout.private_dir.display())).because(error)
    })?;
    let _lock = FileLock::acquire(&checkout.private_dir.join("worktrees.lock"), PATIENCE)?;
    if let Some(existing) = find_existing(checkout, request, &target)? {
        return Ok(Added { path: existing.path, created: false });
    }
    if target.read_dir().is_ok_and(|mut entries| entries.next().is_some()) || target.is_file() {
        return Err(Error::conflict(format!(
            "{} is there already, and is not a worktree of {}",
            target.display(),
            request.branch
        ))
        .hint("name another place: way worktree add BRANCH PATH"));
    }
    match checkout.vcs {
        Vcs::Git => add_git(checkout, request, &target)?,
        Vcs::Jj => add_jj(checkout, request, &target)?,
        Vcs::Hg => add_hg(checkout, request, &target)?,
        Vcs::Sl | Vcs::None => {
            return Err(Error::invalid(format!("a repository under {} has no further worktrees", checkout.vcs)));
        }
    }
    let path = std::fs::canonicalize(&target)
        .map_err(|error| Error::internal(format!("{} was not made", target.display())).because(error))?;
    Ok(Added { path, created: true })
}

/// Says what would be lost or forgotten if a worktree were removed; nothing is an empty list.
///
/// Commits on a branch stay in the repository, but where there is a remote they should be there, too.
pub fn at_risk(checkout: &Checkout, path: &Path) -> Result<Vec<String>> {
    match checkout.vcs {
        Vcs::Git => at_risk_git(path),
        Vcs::Jj => at_risk_jj(path),
        Vcs::Hg => at_risk_hg(checkout, path),
        Vcs::Sl | Vcs::None => Ok(Vec::new()),
    }
}

/// Where everything in a worktree was saved.
#[derive(Debug, PartialEq, Eq)]
pub struct Saved {
    /// The ref or the commit.
    pub name: String,
    /// The command that shows it.
    pub shown_by: String,
}

/// Saves everything in a worktree, files not under version control too, in the repository.
///
/// Ignored files are not saved.
pub fn save(checkout: &Checkout, path: &Path, label: &str, now: Timestamp) -> Result<Saved> {
    let message = format!("Worktree {} before it was removed", path.display());
    match checkout.vcs {
        Vcs::Git => {
            let name = save_git(path, &message, label, now)?;
            Ok(Saved { shown_by: format!("git log {name}"), name })
        }
        Vcs::Jj => {
            // Any command of jj saves the files as a commit, and forgetting a workspace keeps it.
            let name = jj(path).args(["log", "--no-graph", "--revisions=@", "--template=commit_id"]).stdout()?;
            Ok(Saved { shown_by: format!("jj log -r {name}"), name })
        }
        Vcs::Hg => {
            hg(path).args(["commit", "--addremove", "--secret", "--message", &message]).stdout()?;
            let name = hg(path).args(["log", "--rev=.", "--template={node}"]).stdout()?;
            Ok(Saved { shown_by: format!("hg log -r {name}"), name })
        }
        Vcs::Sl | Vcs::None => Err(Error::internal(format!("worktrees of {} are never removed", checkout.vcs))),
    }
}

/// Removes a worktree. What is at risk in it has been looked at, and saved if need be.
pub fn remove(checkout: &Checkout, name: &str, path: &Path, force: bool) -> Result<()> {
    let _lock = FileLock::acquire(&checkout.private_dir.join("worktrees.lock"), PATIENCE)?;
    match checkout.vcs {
        Vcs::Git => {
            // Without --force git looks once more, and refuses what appeared since we looked.
            let force: &[&str] = if force { &["--force"] } else { &[] };
            git(&checkout.shared_dir).args(["worktree", "remove"]).args(force).arg("--").arg(path).stdout().map(drop)
        }
        Vcs::Jj => {
            let identity = FileIdentity::of(path).map_err(|error| gone(path).because(error))?;
            let main = checkout.main_root.as_deref().unwrap_or(&checkout.shared_dir);
            jj(main).args(["workspace", "forget", "--"]).arg(name).stdout()?;
            remove_tree(path, identity)
        }
        Vcs::Hg => {
            let identity = FileIdentity::of(path).map_err(|error| gone(path).because(error))?;
            remove_tree(path, identity)
        }
        Vcs::Sl | Vcs::None => Err(Error::refused(format!("worktrees of {} are not ours to remove", checkout.vcs))),
    }
}

fn gone(path: &Path) -> Error {
    Error::unavailable(format!("cannot look into {}", path.display()))
}

fn at_risk_git(path: &Path) -> Result<Vec<String>> {
    let mut risks = Vec::new();
    let status = git(path).args(["status", "--porcelain", "-z", "--untracked-files=all"]).stdout()?;
    let entries: Vec<&str> = status.split('\0').filter(|entry| entry.len() > 3).collect();
    let untracked = entries.iter().filter(|entry| entry.starts_with("??")).count();
    if entries.len() > untracked {
        risks.push(format!("{} changed, not committed", count(entries.len() - untracked, "file")));
    }
    if untracked > 0 {
        risks.push(format!("{} not under version control", count(untracked, "file")));
    }
    let git_dir = PathBuf::from(git(path).args(["rev-parse", "--absolute-git-dir"]).stdout()?);
    for (mark, what) in [
        ("rebase-merge", "a rebase"),
        ("rebase-apply", "a rebase"),
        ("MERGE_HEAD", "a merge"),
        ("CHERRY_PICK_HEAD", "a cherry-pick"),
        ("REVERT_HEAD", "a revert"),
        ("BISECT_LOG", "a bisection"),
    ] {
        if git_dir.join(mark).exists() {
            risks.push(format!("{what} under way"));
        }
    }
    if git(path).args(["rev-parse", "--quiet", "--verify", "HEAD"]).succeeds()? {
        let lacking = |refs: &[&str]| -> Result<usize> {
            let commits = git(path).args(["rev-list", "--count", "HEAD", "--not"]).args(refs).stdout()?;
            commits.parse().map_err(|_| Error::internal(format!("git counts {commits:?} commits")))
        };
        if !git(path).arg("remote").stdout()?.is_empty() {
            risks.extend(some(lacking(&["--remotes"])?, "remote"));
        } else if !git(path).args(["symbolic-ref", "--quiet", "HEAD"]).succeeds()? {
            risks.extend(some(lacking(&["--branches", "--tags"])?, "branch"));
        }
    }
    Ok(risks)
}

fn at_risk_jj(path: &Path) -> Result<Vec<String>> {
    if jj(path).args(["git", "remote", "list"]).stdout()?.is_empty() {
        return Ok(Vec::new());
    }
    let unpushed = r#"::@ ~ ::remote_bookmarks() ~ root() ~ (empty() & description(exact:""))"#;
    let commits = jj(path).args(["log", "--no-graph", r#"--template="x""#, "--revisions", unpushed]).stdout()?;
    Ok(some(commits.len(), "remote").into_iter().collect())
}

fn at_risk_hg(checkout: &Checkout, path: &Path) -> Result<Vec<String>> {
    let mut risks = Vec::new();
    let status = hg(path)
        .args(["status", "--modified", "--added", "--removed", "--deleted", "--unknown", "--print0"])
        .stdout()?;
    let entries: Vec<&str> = status.split('\0').filter(|entry| !entry.is_empty()).collect();
    let unknown = entries.iter().filter(|entry| entry.starts_with('?')).count();
    if entries.len() > unknown {
        risks.push(format!("{} changed, not committed", count(entries.len() - unknown, "file")));
    }
    if unknown > 0 {
        risks.push(format!("{} not under version control", count(unknown, "file")));
    }
    if checkout.remote_url.is_some() {
        let commits = hg(path).args(["log", "--rev", "not public() and ::.", "--template=x"]).stdout()?;
        risks.extend(some(commits.len(), "remote"));
    }
    Ok(risks)
}

fn some(commits: usize, holder: &str) -> Option<String> {
    (commits > 0).then(|| format!("{} that no {holder} has", count(commits, "commit")))
}

fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// Saves a git worktree as a commit under a ref of its own. Neither the worktree nor its index is touched.
fn save_git(path: &Path, message: &str, label: &str, now: Timestamp) -> Result<String> {
    let git_dir = PathBuf::from(git(path).args(["rev-parse", "--absolute-git-dir"]).stdout()?);
    let index = git_dir.join(format!("waypost-save-{}.index", std::process::id()));
    let saved = (|| {
        let own_index = git_dir.join("index");
        if own_index.exists() {
            // Starting from the real index spares git reading every unchanged file again.
            std::fs::copy(&own_index, &index)
                .map_err(|error| Error::unavailable(format!("cannot write {}", index.display())).because(error))?;
        }
        git(path).env("GIT_INDEX_FILE", &index).args(["add", "--all", "--", "."]).stdout()?;
        let tree = git(path).env("GIT_INDEX_FILE", &index).arg("write-tree").stdout()?;
        let mut commit = git(path)
            .args(["-c", "core.fsync=all"])
            .env("GIT_AUTHOR_NAME", "waypost")
            .env("GIT_AUTHOR_EMAIL", "waypost@localhost")
            .env("GIT_COMMITTER_NAME", "waypost")
            .env("GIT_COMMITTER_EMAIL", "waypost@localhost")
            .args(["commit-tree", &tree, "-m", message]);
        if git(path).args(["rev-parse", "--quiet", "--verify", "HEAD"]).succeeds()? {
            commit = commit.args(["-p", "HEAD"]);
        }
        let commit = commit.stdout()?;
        let reference = format!("refs/waypost/snapshots/{label}/{}", now.as_millis());
        git(path).args(["-c", "core.fsync=all", "update-ref", &reference, &commit, ""]).stdout()?;
        Ok(reference)
    })();
    // A copy nobody else knows of.
    let _ = std::fs::remove_file(&index);
    saved
}

/// Keeps one file name in worktrees out of `git status`, in this clone only.
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

/// Beside the main worktree, named after the repository and the branch.
fn default_path(checkout: &Checkout, branch: &str) -> Result<PathBuf> {
    let slug: String = branch
        .chars()
        .map(|char| if char.is_ascii_alphanumeric() || "._-".contains(char) { char } else { '-' })
        .collect();
    match checkout.repository_path().parent() {
        Some(parent) => Ok(parent.join(format!("{}-{slug}", checkout.repository_name()))),
        None => {
            Err(Error::invalid("there is no room beside the repository")
                .hint("say where: way worktree add BRANCH PATH"))
        }
    }
}

fn find_existing(checkout: &Checkout, request: Add<'_>, target: &Path) -> Result<Option<Listed>> {
    let place = std::fs::canonicalize(target).ok();
    let found = checkout.worktrees().into_iter().find(|listed| match checkout.vcs {
        Vcs::Git => listed.branch.as_deref() == Some(request.branch),
        Vcs::Jj => listed.name == request.branch,
        _ => false,
    });
    let found = match found {
        None if matches!(checkout.vcs, Vcs::Hg) => return Ok(existing_share(checkout, target)),
        None => return Ok(None),
        Some(found) => found,
    };
    if !found.path.is_dir() {
        return Err(Error::conflict(format!(
            "{} has a worktree at {}, which is gone",
            request.branch,
            found.path.display()
        ))
        .hint("if it was deleted: git worktree prune; if its disk is not mounted: mount it"));
    }
    match request.path {
        Some(path) if place.as_deref() != Some(&found.path) => Err(Error::conflict(format!(
            "{} is checked out at {}, not at {}",
            request.branch,
            found.path.display(),
            path.display()
        ))),
        _ => Ok(Some(found)),
    }
}

/// Mercurial keeps no list of shares, but the share itself says whose it is.
fn existing_share(checkout: &Checkout, target: &Path) -> Option<Listed> {
    let found = crate::hg_layout::open(&std::fs::canonicalize(target).ok()?).ok()??;
    let root = found.root.filter(|_| found.shared_dir == checkout.shared_dir)?;
    Some(Listed { name: found.name, path: root, branch: found.branch, private_dir: found.worktree_private_dir })
}

fn add_git(checkout: &Checkout, request: Add<'_>, target: &Path) -> Result<()> {
    let repository = || git(&checkout.shared_dir);
    let branch = request.branch;
    if !repository().args(["check-ref-format", "--branch", branch]).succeeds()? {
        return Err(Error::invalid(format!("{branch:?} cannot be the name of a branch")));
    }
    let local = format!("refs/heads/{branch}");
    if repository().args(["show-ref", "--verify", "--quiet", &local]).succeeds()? {
        if let Some(base) = request.base {
            return Err(Error::conflict(format!("branch {branch} exists already, so it cannot start from {base}")));
        }
        return repository().args(["worktree", "add", "--quiet", "--"]).arg(target).arg(branch).stdout().map(drop);
    }
    // HEAD means the commit of the worktree we stand in, not of the main one.
    let here = checkout.root.as_deref().unwrap_or(&checkout.shared_dir);
    let remote = repository()
        .args(["for-each-ref", "--format=%(refname:short)", &format!("refs/remotes/*/{branch}")])
        .stdout()?;
    let (track, base) = match (request.base, remote.lines().collect::<Vec<_>>().as_slice()) {
        (Some(base), _) => ("--no-track", base.to_owned()),
        (None, [only]) => ("--track", (*only).to_owned()),
        (None, _) => ("--no-track", "HEAD".to_owned()),
    };
    let Ok(commit) =
        git(here).args(["rev-parse", "--verify", "--end-of-options", &format!("{base}^{{commit}}")]).stdout()
    else {
        return Err(Error::not_found(format!("there is no commit {base} to start {branch} from"))
            .hint("make a first commit, or name another start with --base"));
    };
    let start = if track == "--track" { &base } else { &commit };
    let added = repository()
        .args(["worktree", "add", "--quiet", track, "-b", branch, "--"])
        .arg(target)
        .arg(start)
        .stdout()
        .map(drop);
    if added.is_err() {
        // Git makes the branch before the tree, and leaves it behind when the tree fails.
        let _ = repository().args(["update-ref", "-d", &local, &commit]).succeeds();
    }
    added
}

fn add_jj(checkout: &Checkout, request: Add<'_>, target: &Path) -> Result<()> {
    let here = checkout.root.as_deref().unwrap_or(&checkout.shared_dir);
    let mut command = jj(here).args(["workspace", "add", "--name", request.branch]);
    if let Some(base) = request.base {
        command = command.args(["--revision", base]);
    }
    command.arg("--").arg(target).stdout().map(drop)
}

fn add_hg(checkout: &Checkout, request: Add<'_>, target: &Path) -> Result<()> {
    let here = checkout.main_root.as_deref().unwrap_or(&checkout.shared_dir);
    if request.base.is_some() {
        return Err(Error::invalid("hg share has no --base; update the new worktree instead"));
    }
    let has_branch = hg(here).args(["identify", "--id", "--rev", request.branch]).succeeds()?;
    hg(here).args(["--config", "extensions.share=", "share", "--noupdate", "--"]).arg(here).arg(target).stdout()?;
    if has_branch {
        return hg(target).args(["update", "--rev", request.branch]).stdout().map(drop);
    }
    hg(target).args(["update", "--rev", "default"]).stdout()?;
    hg(target).args(["branch", "--", request.branch]).stdout().map(drop)
}
