//! The changes in a workspace since the commit that it started from.

use waypost_core::{Error, Result};

use super::files_lock::lock_files;
use super::model::{Plan, Strategy};
use super::push::git_in;
use crate::worktrees::PlainIndex;
use crate::worktrees::nested;

/// The changes in a workspace.
pub struct Diff {
    /// The commit that it started from.
    pub base: String,
    /// The changes in the format of git: those that are committed, and those that are not.
    pub text: String,
    /// Whether there are more than the limit.
    pub is_cut: bool,
}

/// Compares all files of a workspace that are not ignored with its base. The workspace's index and branches do not change.
pub fn diff(plan: &Plan, max_bytes: u64) -> Result<Diff> {
    if !matches!(plan.strategy, Strategy::Clone | Strategy::Overlay) {
        let path = plan.workspace.display();
        return Err(Error::refused(format!("workspace {} is not a clone of its repository", plan.name))
            .hint(format!("compare its files there: {path}")));
    }
    let _files = lock_files(plan)?;
    let base = plan.base()?.to_owned();
    let git = git_in(plan)?;
    let except = nested(&plan.workspace)?;
    let index = PlainIndex::new(&git, &plan.workspace.join(".git"), &plan.workspace)?;
    let except = except.iter().map(|path| format!(":(exclude,literal,top){path}"));
    index.tool(&git).args(["add", "--all", "--", "."]).args(except).stdout()?;
    let compare = ["diff", "--cached", "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all"];
    let (bytes, is_cut) = index.tool(&git).args(compare).arg(&base).arg("--").first_bytes(max_bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(Diff { base, text, is_cut })
}
