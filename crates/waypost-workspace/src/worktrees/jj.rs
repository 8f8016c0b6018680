//! jj workspaces.

use std::path::Path;

use waypost_core::{Error, Result};
use waypost_fs::{FileIdentity, remove_tree};

use super::git::{change_times, differing_files};
use super::{Add, Findings, Saved, unpushed};
use crate::vcs::checkout::Checkout;
use crate::vcs::run::{Git, jj};

pub(super) fn add(checkout: &Checkout, request: Add<'_>, target: &Path) -> Result<()> {
    let here = checkout.root.as_deref().unwrap_or(&checkout.shared_dir);
    let mut command = jj(here)?.args(["workspace", "add", "--name", request.branch]);
    if let Some(base) = request.base {
        // Check the revision first: jj makes the workspace before it fails.
        if !jj(here)?.args(["log", "--no-graph", "--template=", "--revisions", base]).succeeds()? {
            return Err(Error::not_found(format!("there is no commit {base} to start {} from", request.branch)));
        }
        command = command.args(["--revision", base]);
    }
    command.arg("--").arg(target).stdout().map(drop)
}

/// Finds unpushed commits. Uncommitted files are not at risk: every jj command snapshots them into a commit of the
/// repository.
pub(super) fn examine(path: &Path) -> Result<Findings> {
    let mut findings = Findings::default();
    if !jj(path)?.args(["git", "remote", "list"]).stdout()?.is_empty() {
        let unpushed_commits = r#"::@ ~ ::remote_bookmarks() ~ root() ~ (empty() & description(exact:""))"#;
        let commits =
            jj(path)?.args(["log", "--no-graph", r#"--template="x""#, "--revisions", unpushed_commits]).stdout()?;
        findings.at_risk.extend(unpushed(commits.len(), "remote"));
    }
    Ok(findings)
}

/// Snapshots the files of a workspace into its working-copy commit. With a ref, git keeps the commit and `way ws snapshots`
/// lists it.
pub(super) fn save(path: &Path, reference: Option<&str>) -> Result<Saved> {
    let commit = || jj(path)?.args(["log", "--no-graph", "--revisions=@", "--template=commit_id"]).stdout();
    let mut name = commit()?;
    // jj compares files by size and time, which an edit can leave unchanged.
    if let Some(git_dir) = jj(path)?.args(["git", "root"]).stdout_or_none()? {
        let git = Git::of_linked_worktree(path, Path::new(&git_dir))?;
        let differing = differing_files(&git, path, &name)?;
        if !differing.is_empty() {
            change_times(&differing)?;
            name = commit()?;
        }
    }
    if let (Some(reference), Some(git_dir)) = (reference, jj(path)?.args(["git", "root"]).stdout_or_none()?) {
        Git::of_repository(Path::new(&git_dir))?.command().args(["update-ref", reference, &name]).stdout()?;
    }
    Ok(Saved { restored_by: format!("jj new {name}"), name })
}

pub(super) fn remove(checkout: &Checkout, name: &str, path: &Path) -> Result<()> {
    let identity = FileIdentity::of(path)
        .map_err(|error| Error::unavailable(format!("cannot read {}", path.display())).because(error))?;
    // Snapshot again, to save files that were written since.
    save(path, None)?;
    forget(checkout, name)?;
    remove_tree(path, identity)
}

pub(super) fn forget(checkout: &Checkout, name: &str) -> Result<()> {
    let main = checkout.main_root.as_deref().unwrap_or(&checkout.shared_dir);
    jj(main)?.args(["workspace", "forget", "--", name]).stdout().map(drop)
}
