//! Removes everything that was made for a plan: its directory, and the records in the source and the mirror.

use std::io::ErrorKind;

use waypost_core::{Error, Result};
use waypost_fs::FileIdentity;

use super::mirror::Mirror;
use super::model::{Plan, Strategy};
use super::plan::{is_source_gone, source};
use super::trash::{delete, delete_trash};
use super::{held_mirror, overlay, plan_file, template};
use crate::vcs::run::Git;
use crate::worktrees;

/// Removes whatever was made for a plan, complete or not. The caller must not have handed the workspace to a job.
pub fn abandon(plan: &Plan) -> Result<()> {
    let home = plan.home();
    if plan.strategy == Strategy::InPlace {
        return Ok(());
    }
    match FileIdentity::of_entry(&home) {
        Ok(identity) => {
            if !plan_file::is_of(plan, &home)? {
                return Err(Error::refused(format!("{} was not made for this plan", home.display())));
            }
            if plan.strategy == Strategy::Overlay {
                overlay::leave(plan)?;
            }
            delete(plan, identity)?;
        }
        // An interrupted removal moved it, or it was never made.
        Err(error) if error.kind() == ErrorKind::NotFound => delete_trash(&plan.trash(), None)?,
        Err(error) => return Err(Error::unavailable(format!("cannot access {}", home.display())).because(error)),
    }
    forget(plan)
}

/// Removes the records of a workspace whose directory is gone: in the source first, in the mirror last.
pub(super) fn forget(plan: &Plan) -> Result<()> {
    // A source that is gone has no records.
    if matches!(plan.strategy, Strategy::Worktree | Strategy::Jj) && !is_source_gone(plan) {
        let checkout = source(plan)?;
        match (plan.strategy, &plan.branch) {
            (Strategy::Jj, Some(name)) => worktrees::forget_named(&checkout, name)?,
            _ => worktrees::forget(&checkout, &plan.workspace)?,
        }
        // Git worktrees that a job added beside its own are gone with the directory.
        for listed in checkout.worktrees().iter().filter(|listed| listed.path.starts_with(plan.home())) {
            worktrees::forget(&checkout, &listed.path)?;
        }
        if let (Strategy::Worktree, Some(git_dir), Some(branch), Some(base)) =
            (plan.strategy, &plan.git_dir, &plan.branch, &plan.base)
        {
            // A branch without new commits is deleted, unless it is now checked out elsewhere. A branch with commits stays.
            let git = Git::of_repository(git_dir)?;
            let reference = format!("refs/heads/{branch}");
            let places = git.command().args(["for-each-ref", "--format=%(worktreepath)", &reference]).stdout()?;
            if places.trim().is_empty() {
                let _ = git.command().args(["update-ref", "-d", &reference, base]).succeeds()?;
            }
        }
    }
    release_mirror(plan)
}

/// Removes a workspace's refs in the mirror and its marks on templates.
fn release_mirror(plan: &Plan) -> Result<()> {
    if !plan.strategy.borrows() {
        return Ok(());
    }
    let mirror = Mirror::of(plan)?;
    template::leave_all(&mirror, &plan.name);
    held_mirror::release(&mirror, &plan.name)
}
