//! Mercurial shares.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use waypost_core::{Error, Result};
use waypost_fs::{FileIdentity, remove_tree};

use super::git::{TemporaryDir, change_times, is_same_file};
use super::{Add, Findings, Saved, dirty, unpushed};
use crate::vcs::checkout::{Checkout, ListedWorktree};
use crate::vcs::hg_layout;
use crate::vcs::run::{Scratch, hg, hg_with};

/// State that Mercurial stores in a share's own directory: the entry, what it is, and how to resolve it.
const KEPT_IN_SHARE: &[(&str, &str, &str)] = &[
    ("shelved", "shelved changes", "hg unshelve them, or delete them with hg shelve --delete"),
    ("patches", "a patch queue", "hg qfinish the patches, or delete them"),
    ("rebasestate", "a rebase", "hg rebase --continue or --abort"),
    ("histedit-state", "a histedit", "hg histedit --continue or --abort"),
    ("graftstate", "a graft", "hg graft --continue or --abort"),
    ("merge", "a merge", "hg commit it, or hg merge --abort"),
];

/// Finds a share at a path. Mercurial has no list of shares, but a share names its repository.
pub(super) fn find(checkout: &Checkout, target: &Path) -> Option<ListedWorktree> {
    let found = hg_layout::open(&std::fs::canonicalize(target).ok()?).ok()??;
    let root = found.root.filter(|_| found.shared_dir == checkout.shared_dir)?;
    Some(ListedWorktree { name: found.name, path: root, branch: found.branch, private_dir: found.worktree_private_dir })
}

pub(super) fn add(checkout: &Checkout, request: Add<'_>, target: &Path) -> Result<()> {
    let main = checkout.main_root.as_deref().unwrap_or(&checkout.shared_dir);
    let branch = request.branch;
    // Check the revision first: the share must be made before it can be updated.
    let exists = |revision: &str| hg(main).args(["identify", "--id", "--rev", revision]).succeeds();
    let has_branch = exists(branch)?;
    if let Some(base) = request.base {
        if has_branch {
            return Err(Error::conflict(format!("branch {branch} exists already, so it cannot start from {base}")));
        }
        if base.starts_with('-') || !exists(base)? {
            return Err(Error::not_found(format!("there is no commit {base} to start {branch} from")));
        }
    } else if !has_branch && !exists("default")? {
        return Err(Error::not_found(format!("there is no commit to start {branch} from")).hint("make a first commit"));
    }
    hg(main).args(["share", "--config", "extensions.share=", "--noupdate", "--"]).arg(main).arg(target).stdout()?;
    let start = request.base.unwrap_or(if has_branch { branch } else { "default" });
    hg(target).args(["update", "--rev", start]).stdout()?;
    if has_branch { Ok(()) } else { hg(target).args(["branch", "--", branch]).stdout().map(drop) }
}

pub(super) fn examine(checkout: &Checkout, path: &Path) -> Result<Findings> {
    let mut findings = Findings::default();
    for (mark, what, end) in KEPT_IN_SHARE {
        if path.join(".hg").join(mark).exists() {
            findings.in_the_way.push(((*what).to_owned(), (*end).to_owned()));
        }
    }
    let status = hg(path).args(["status", "--print0", "-mardui"]).stdout()?;
    let entries: Vec<&str> = status.split('\0').filter(|entry| entry.len() > 2).collect();
    findings.ignored = entries.iter().filter_map(|entry| entry.strip_prefix("I ")).map(str::to_owned).collect();
    let new = entries.iter().filter(|entry| entry.starts_with("? ")).count();
    let hidden = differing_files(path)?.len();
    findings.at_risk = dirty(entries.len() - new - findings.ignored.len() + hidden, new);
    if checkout.remote_url.is_some() {
        let commits = hg(path).args(["log", "--rev", "not public() and ::.", "--template=x"]).stdout()?;
        findings.at_risk.extend(unpushed(commits.len(), "remote"));
    }
    Ok(findings)
}

/// Commits everything as secret, so that it stays in the repository and is never pushed.
pub(super) fn save(path: &Path, message: &str) -> Result<Saved> {
    change_times(&differing_files(path)?)?;
    if !hg(path).args(["status", "-mardu"]).stdout()?.is_empty() {
        hg(path).args(["commit", "--addremove", "--secret", "--message", message]).stdout()?;
    }
    let name = hg(path).args(["log", "--rev=.", "--template={node}"]).stdout()?;
    Ok(Saved { restored_by: format!("hg update {name}"), name })
}

/// Lists files that Mercurial reports as clean by size and time although their content changed.
fn differing_files(path: &Path) -> Result<Vec<PathBuf>> {
    let clean = hg(path).args(["status", "--clean", "--no-status", "--print0"]).bytes()?;
    let clean: Vec<&OsStr> =
        clean.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(OsStr::from_bytes).collect();
    if clean.is_empty() {
        return Ok(Vec::new());
    }
    let archive = ["archive", "--rev=.", "--type=files", "--config=ui.archivemeta=false", "--"];
    let scratch = Scratch::new()?;
    let expected = TemporaryDir(scratch.temporary("compare"));
    hg_with(path, Some(&scratch)).args(archive).arg(&expected.0).stdout()?;
    let mut differing = Vec::new();
    for name in clean {
        if !is_same_file(&path.join(name), &expected.0.join(name))? {
            differing.push(path.join(name));
        }
    }
    Ok(differing)
}

pub(super) fn remove(path: &Path) -> Result<()> {
    let identity = FileIdentity::of(path)
        .map_err(|error| Error::unavailable(format!("cannot read {}", path.display())).because(error))?;
    if !hg(path).args(["status", "-mardu"]).stdout()?.is_empty() {
        return Err(Error::conflict(format!("{} changed meanwhile", path.display())).hint("try again"));
    }
    remove_tree(path, identity)
}
