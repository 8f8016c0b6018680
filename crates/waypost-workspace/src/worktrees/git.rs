//! Git worktrees.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use waypost_core::{Error, Result};
use waypost_fs::{FileIdentity, open_regular_file, read_small_file, remove_tree};

use super::{Add, Findings, Saved, dirty, unpushed};
use crate::vcs::checkout::{Checkout, ListedWorktree};
use crate::vcs::git_layout::OPERATIONS_IN_PROGRESS;
use crate::vcs::run::{Git, Tool, set_config};

/// The maximum size of an index, which a job may have written.
const MAX_INDEX_BYTES: u64 = 4 << 30;

/// Why git locks a worktree while it is being added.
const INITIALIZING: &str = "initializing";

/// Finds the worktree that has a branch.
pub(super) fn find(checkout: &Checkout, branch: &str) -> Result<Option<ListedWorktree>> {
    let listed = checkout.worktrees();
    if let Some(found) = listed.iter().find(|listed| listed.branch.as_deref() == Some(branch)) {
        return Ok(Some(found.clone()));
    }
    if listed.iter().all(|listed| listed.branch.is_some()) {
        return Ok(None);
    }
    // With reftable, only git knows which branch a worktree is on.
    let reference = format!("refs/heads/{branch}");
    for listed in listed.into_iter().filter(|listed| listed.branch.is_none()) {
        let Ok(git) = Git::in_worktree(&listed.path) else { continue };
        if git.command().args(["symbolic-ref", "--quiet", "HEAD"]).stdout_or_none()?.as_ref() == Some(&reference) {
            return Ok(Some(listed));
        }
    }
    Ok(None)
}

/// Returns a name for a new branch: this one, or with the first number that makes it new.
pub fn new_branch_name(checkout: &Checkout, name: &str) -> Result<String> {
    let repository = Git::of_repository(&checkout.shared_dir)?;
    let pattern = |name: &str| format!("refs/heads/{name}");
    let patterns = [pattern(name), pattern(&format!("{name}-*"))];
    let known =
        repository.command().args(["for-each-ref", "--format=%(refname:lstrip=2)", "--"]).args(patterns).stdout()?;
    let is_new = |name: &String| known.lines().all(|known| known != name);
    let mut names = std::iter::once(name.to_owned()).chain((2_u64..).map(|number| format!("{name}-{number}")));
    names.find(is_new).ok_or_else(|| Error::internal("no number is left for a branch"))
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
        return add_worktree(&repository, &checkout.shared_dir, &[], target, branch);
    }
    if let Some((_, name)) = branch.split_once('/')
        && exists(&format!("refs/remotes/{branch}"))?
    {
        return Err(Error::invalid(format!("{branch} is a branch of a remote"))
            .hint(format!("for a branch of your own that follows it: way worktree add {name}")));
    }
    let pattern = format!("refs/remotes/*/{branch}");
    let remote = repository.command().args(["for-each-ref", "--format=%(refname:short)", &pattern]).stdout()?;
    let (followed, base) = match (request.base, remote.lines().collect::<Vec<_>>().as_slice()) {
        (Some(base), _) => (None, base),
        (None, [only]) => (only.strip_suffix(&format!("/{branch}")), *only),
        (None, _) => (None, "HEAD"),
    };
    // HEAD is the commit of the current worktree, not of the main one.
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
    let how = ["--no-track", "-b", branch];
    let added = add_worktree(&repository, &checkout.shared_dir, &how, target, &commit);
    if added.is_err() {
        // Git creates the branch before the worktree, and leaves it behind if that fails.
        let _ = repository.command().args(["update-ref", "-d", &local, &commit]).succeeds();
    }
    added?;
    if let Some(remote) = followed {
        // Git would write this into a configuration of ours.
        let config = checkout.shared_dir.join("config");
        set_config(&config, &format!("branch.{branch}.remote"), remote)?;
        set_config(&config, &format!("branch.{branch}.merge"), &local)?;
    }
    Ok(())
}

/// Adds a worktree, and checks its files out. Until it has them, it is locked.
///
/// Git writes where the repository is, and that is a directory of ours. So the files come in a second step, after the
/// worktree was told the real one.
fn add_worktree(repository: &Git, common_dir: &Path, how: &[&str], target: &Path, start: &str) -> Result<()> {
    let worktrees = common_dir.join("worktrees");
    let cannot = |error| Error::unavailable(format!("cannot write {}", target.display())).because(error);
    match std::fs::create_dir(&worktrees) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(cannot(error)),
        _ => {}
    }
    let options = ["worktree", "add", "--quiet", "--no-checkout", "--lock", "--reason", INITIALIZING];
    repository.command().args(options).args(how).arg("--").arg(target).arg(start).stdout()?;
    let checked_out = (|| {
        let mark = target.join(".git");
        let written = read_small_file(&mark)?.unwrap_or_default();
        let name = written.trim_ascii_end().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let git_dir = worktrees.join(OsStr::from_bytes(name));
        let line = [b"gitdir: ", git_dir.as_os_str().as_bytes(), b"\n"].concat();
        waypost_fs::replace(&mark, &line, 0o644).map_err(cannot)?;
        if let Some(config) = repository.sparse_config() {
            waypost_fs::replace(&git_dir.join("config.worktree"), &config, 0o644).map_err(cannot)?;
        }
        Git::in_worktree(target)?.command().args(["reset", "--quiet", "--hard"]).stdout()?;
        std::fs::remove_file(git_dir.join("locked")).map_err(cannot)
    })();
    if checked_out.is_err() {
        // As git does it. The error tells why there is no worktree.
        let remove = ["worktree", "remove", "--force", "--force", "--"];
        let _ = repository.command().args(remove).arg(target).succeeds();
    }
    checked_out
}

pub(super) fn examine(path: &Path) -> Result<Findings> {
    let git = Git::in_worktree(path)?;
    let git_dir = git.git_dir()?;
    let mut findings = Findings::default();
    if git_dir.join("locked").exists() {
        let unlock = format!("git worktree unlock {}", path.display());
        findings.in_the_way.push(("a lock (git worktree lock)".to_owned(), unlock));
    }
    for (mark, what, end) in OPERATIONS_IN_PROGRESS {
        if git_dir.join(mark).exists() {
            findings.in_the_way.push((format!("{what} under way"), (*end).to_owned()));
        }
    }
    if git_dir.join("modules").read_dir().is_ok_and(|mut modules| modules.next().is_some()) {
        let what = "submodules, whose commits are stored in it".to_owned();
        findings
            .in_the_way
            .push((what, format!("push their commits, then: git worktree remove --force {}", path.display())));
    }

    // Index flags can hide files from git status; a plain copy of the index has no such flags.
    let index = PlainIndex::new(&git, &git_dir, path)?;
    let status = [
        "status",
        "--porcelain",
        "-z",
        "--untracked-files=all",
        "--ignored=traditional",
        "--no-renames",
        // Git would examine the files of a submodule with programs that the submodule configures. A repository in the
        // worktree is in the way of its removal anyway.
        "--ignore-submodules=dirty",
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

/// Saves a worktree as a commit under its own ref. The worktree and its index do not change.
///
/// As with git stash, the staged state is a second parent, because it may differ from the files.
pub(super) fn save(path: &Path, message: &str, name: &str) -> Result<Saved> {
    let git = Git::in_worktree(path)?;
    let saved = commit_everything(&git, &git.git_dir()?, path, message, &[])?;
    git.command().args(["update-ref", name, &saved, ""]).stdout()?;
    Ok(Saved { restored_by: format!("git worktree add {} {name}", path.display()), name: name.to_owned() })
}

/// Commits all files that are not ignored, except `except`, and the staged state as second parent. No ref points to the
/// commit yet.
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
    // An index with conflicts cannot be written as a tree.
    if !index.tool(git).args(["ls-files", "--unmerged"]).stdout()?.is_empty() {
        add_all()?;
    }
    let staged = commit(&index.tool(git).arg("write-tree").stdout()?, "Staged changes", head)?;
    add_all()?;
    let tree = index.tool(git).arg("write-tree").stdout()?;
    commit(&tree, message, &[head, &[&staged]].concat())
}

pub(super) fn remove(checkout: &Checkout, path: &Path, saved: bool) -> Result<()> {
    // Without --force, git checks again, and refuses if there are changes since the examination.
    let force: &[&str] = if saved { &["--force"] } else { &[] };
    let repository = Git::of_repository(&checkout.shared_dir)?;
    repository.command().args(["worktree", "remove"]).args(force).arg("--").arg(path).stdout().map(drop)
}

/// Deletes git's record of a worktree whose directory is gone.
pub(super) fn forget(checkout: &Checkout, name: &str, path: &Path) -> Result<()> {
    let locked = checkout.shared_dir.join("worktrees").join(name).join("locked");
    // Git locks a worktree while it adds it. If git was killed meanwhile, the lock stays.
    let why = read_small_file(&locked)?.unwrap_or_default();
    if why.trim_ascii() == INITIALIZING.as_bytes() {
        let repository = Git::of_repository(&checkout.shared_dir)?;
        repository.command().args(["worktree", "unlock", "--"]).arg(path).stdout()?;
    }
    remove(checkout, path, false)
}

/// Hides a pattern from `git status`, in this clone only.
pub fn exclude(checkout: &Checkout, pattern: &str) -> Result<()> {
    change_excludes(checkout, |content| {
        if content.split(|byte| *byte == b'\n').any(|line| line == pattern.as_bytes()) {
            return None;
        }
        let end: &[u8] = if content.is_empty() || content.ends_with(b"\n") { b"" } else { b"\n" };
        Some([content, end, pattern.as_bytes(), b"\n"].concat())
    })
}

/// Removes a pattern that [`exclude`] added.
pub fn include(checkout: &Checkout, pattern: &str) -> Result<()> {
    change_excludes(checkout, |content| {
        let lines: Vec<&[u8]> = content.split_inclusive(|byte| *byte == b'\n').collect();
        let kept = |line: &&[u8]| line.trim_ascii_end() != pattern.as_bytes();
        lines.iter().any(|line| !kept(line)).then(|| lines.into_iter().filter(kept).collect::<Vec<_>>().concat())
    })
}

/// Replaces the file with this clone's patterns, unless `change` returns none.
fn change_excludes(checkout: &Checkout, change: impl FnOnce(&[u8]) -> Option<Vec<u8>>) -> Result<()> {
    let Some(git_dir) = &checkout.git_dir else { return Ok(()) };
    let file = git_dir.join("info/exclude");
    let content = read_small_file(&file)?.unwrap_or_default();
    let Some(content) = change(&content) else { return Ok(()) };
    let cannot = |error| Error::unavailable(format!("cannot write {}", file.display())).because(error);
    std::fs::create_dir_all(git_dir.join("info")).map_err(cannot)?;
    waypost_fs::replace(&file, &content, 0o644).map_err(cannot)
}

/// A copy of a worktree's index that hides no change from git. Deleted when dropped.
///
/// Git compares files again that are marked as assumed unchanged, and files whose content changed although their size
/// and time match the index: `touch -r` after an edit causes that.
pub(crate) struct PlainIndex(PathBuf);

impl PlainIndex {
    pub(crate) fn new(git: &Git, git_dir: &Path, root: &Path) -> Result<Self> {
        let index = PlainIndex(git.temporary("index")?);
        let own = git_dir.join("index");
        if own.symlink_metadata().is_ok() {
            // A copy of the real index saves git from reading every unchanged file again.
            // It gets the same time: git compares the content of files that changed when the index was written.
            let written = open_regular_file(&own).and_then(|own| {
                let mut copy = waypost_fs::create_private_file(&index.0)?;
                let length = own.metadata()?.len();
                if length > MAX_INDEX_BYTES || std::io::copy(&mut (&own).take(length), &mut copy)? != length {
                    return Err(std::io::Error::other("it is too large, or changes"));
                }
                copy.set_modified(own.metadata()?.modified()?)
            });
            written.map_err(|error| Error::refused(format!("cannot copy {}", own.display())).because(error))?;
        }
        let listed = index.tool(git).args(["ls-files", "-v", "--stage", "-z"]).bytes()?;
        let entries: Vec<IndexEntry<'_>> = listed.split(|byte| *byte == 0).filter_map(IndexEntry::parse).collect();
        let hidden = entries.iter().filter(|entry| entry.is_hidden() && entry.exists(root));
        let hidden: Vec<u8> = hidden.flat_map(|entry| [entry.path, b"\0"].concat()).collect();
        for flag in ["--no-assume-unchanged", "--no-skip-worktree"] {
            if !hidden.is_empty() {
                index.tool(git).args(["update-index", flag, "-z", "--stdin"]).stdout_with_input(&hidden).map(drop)?;
            }
        }
        let changed = changed_content(git, root, &entries)?;
        if !changed.is_empty() {
            // A newly added entry has neither size nor time, so git compares the content.
            index
                .tool(git)
                .args(["update-index", "-z", "--index-info"])
                .stdout_with_input(&index_info(&changed))
                .map(drop)?;
        }
        Ok(index)
    }

    pub(crate) fn tool(&self, git: &Git) -> Tool {
        git.command().env("GIT_INDEX_FILE", &self.0)
    }
}

impl Drop for PlainIndex {
    fn drop(&mut self) {
        // No other process uses the copy.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// An entry of an index, as `git ls-files -v --stage -z` prints it.
#[derive(Clone, Copy)]
struct IndexEntry<'a> {
    mark: u8,
    /// Mode, object and stage.
    object: &'a [u8],
    path: &'a [u8],
}

impl<'a> IndexEntry<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let tab = line.iter().position(|byte| *byte == b'\t')?;
        Some(IndexEntry { mark: *line.first()?, object: line.get(2..tab)?, path: &line[tab + 1..] })
    }

    /// Returns whether git skips the comparison of the file. Lower case: assumed unchanged. S: not in a sparse
    /// checkout.
    fn is_hidden(&self) -> bool {
        self.mark.is_ascii_lowercase() || self.mark == b'S'
    }

    /// Returns whether the file exists. A file outside of a sparse checkout usually does not.
    fn exists(&self, root: &Path) -> bool {
        self.file(root).symlink_metadata().is_ok()
    }

    fn file(&self, root: &Path) -> PathBuf {
        root.join(OsStr::from_bytes(self.path))
    }

    /// Returns whether it is a file or a link without conflict.
    fn is_comparable(&self) -> bool {
        !self.object.starts_with(b"160000") && self.object.ends_with(b" 0")
    }
}

/// Lists the files of a worktree whose content differs from a commit, whatever their sizes and times are. Missing files
/// are left out.
pub(super) fn differing_files(git: &Git, root: &Path, commit: &str) -> Result<Vec<PathBuf>> {
    let index = PlainIndex(git.temporary("index")?);
    index.tool(git).args(["read-tree", commit]).stdout()?;
    let listed = index.tool(git).args(["ls-files", "-v", "--stage", "-z"]).bytes()?;
    let entries: Vec<IndexEntry<'_>> = listed.split(|byte| *byte == 0).filter_map(IndexEntry::parse).collect();
    Ok(changed_content(git, root, &entries)?.iter().map(|entry| entry.file(root)).collect())
}

/// Changes the modification times of files, so that a tool that compares times reads the files again.
pub(super) fn change_times(files: &[PathBuf]) -> Result<()> {
    for path in files.iter().filter(|path| !path.is_symlink()) {
        let changed = path
            .symlink_metadata()
            .and_then(|found| found.modified())
            .and_then(|time| open_regular_file(path)?.set_modified(time + Duration::from_secs(2)));
        changed
            .map_err(|error| Error::refused(format!("cannot change the time of {}", path.display())).because(error))?;
    }
    Ok(())
}

/// Formats entries as input of `git update-index -z --index-info`.
fn index_info(entries: &[IndexEntry<'_>]) -> Vec<u8> {
    entries.iter().flat_map(|entry| [entry.object, b"\t", entry.path, b"\0"].concat()).collect()
}

/// Lists the entries whose files differ from what git would check out, whatever their sizes and times are.
fn changed_content<'a>(git: &Git, root: &Path, entries: &[IndexEntry<'a>]) -> Result<Vec<IndexEntry<'a>>> {
    let comparable = entries.iter().filter(|entry| entry.is_comparable() && entry.exists(root));
    let comparable: Vec<IndexEntry<'a>> = comparable.copied().collect();
    if comparable.is_empty() {
        return Ok(Vec::new());
    }
    // With core.ignoreStat, git would mark new entries as assumed unchanged.
    let git = git.clone().with_setting("core.ignoreStat", "false").with_setting("core.splitIndex", "false");
    let fresh = PlainIndex(git.temporary("index")?);
    fresh.tool(&git).args(["update-index", "-z", "--index-info"]).stdout_with_input(&index_info(&comparable))?;
    // It exits with 1 if files differ.
    fresh.tool(&git).args(["update-index", "-q", "--really-refresh"]).code()?;
    let differing = fresh.tool(&git).args(["diff-files", "--name-only", "-z"]).bytes()?;
    let differing: HashSet<&[u8]> = differing.split(|byte| *byte == 0).filter(|path| !path.is_empty()).collect();
    if differing.is_empty() {
        return Ok(Vec::new());
    }
    // Because of line endings and filters, git may report a change in a file that is exactly as git checked it out.
    let expected = TemporaryDir(git.temporary("compare")?);
    let names: Vec<u8> = differing.iter().flat_map(|path| [path, b"\0".as_slice()].concat()).collect();
    let mut prefix = OsString::from("--prefix=");
    prefix.push(&expected.0);
    prefix.push("/");
    fresh.tool(&git).args(["checkout-index", "--quiet", "-z", "--stdin"]).arg(prefix).stdout_with_input(&names)?;
    let is_changed = |entry: &IndexEntry<'a>| -> Result<bool> {
        Ok(differing.contains(entry.path) && !is_same_file(&entry.file(root), &entry.file(&expected.0))?)
    };
    let mut changed = Vec::new();
    for entry in comparable {
        if is_changed(&entry)? {
            changed.push(entry);
        }
    }
    Ok(changed)
}

/// Returns whether two files have the same content, or two links the same target.
pub(super) fn is_same_file(one: &Path, other: &Path) -> Result<bool> {
    let content = |path: &Path| -> std::io::Result<Vec<u8>> {
        if path.is_symlink() {
            return Ok(std::fs::read_link(path)?.into_os_string().into_vec());
        }
        let mut content = Vec::new();
        open_regular_file(path)?.read_to_end(&mut content)?;
        Ok(content)
    };
    let cannot = |error| Error::refused(format!("cannot compare {}", one.display())).because(error);
    let found = |path: &Path| path.symlink_metadata().ok();
    let (Some(of_one), Some(of_other)) = (found(one), found(other)) else {
        return Ok(found(one).is_none() && found(other).is_none());
    };
    if of_one.file_type() != of_other.file_type() || of_one.len() != of_other.len() {
        return Ok(false);
    }
    let is_comparable = of_one.is_symlink() || of_one.is_file();
    Ok(!is_comparable || content(one).map_err(cannot)? == content(other).map_err(cannot)?)
}

/// A temporary directory that is deleted when dropped.
pub(super) struct TemporaryDir(pub(super) PathBuf);

impl Drop for TemporaryDir {
    fn drop(&mut self) {
        // If it stays, it only costs disk space.
        let _ = FileIdentity::of_entry(&self.0).ok().map(|identity| remove_tree(&self.0, identity));
    }
}
