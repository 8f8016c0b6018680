//! Makes a planned workspace.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use waypost_core::{Error, Result};
use waypost_fs::{FileIdentity, copy_tree, create_private_dir, read_small_file};

use super::abandon::abandon;
use super::dirs::make_dir;
use super::model::{Files, Made, MakeOptions, Plan, Strategy};
use super::plan::source;
use super::{clone, plan_file};
use crate::worktrees::{self, Add};

/// Waypost's private directories, which are not copied: only SQLite may open the store's file.
const PRIVATE_DIRS: &[&str] = &[".git/waypost", ".hg/waypost", ".jj/repo/waypost", ".sl/waypost", ".waypost/local"];

/// Makes a planned workspace. On failure, everything that was made is removed.
pub fn make(plan: &Plan, options: &MakeOptions<'_>) -> Result<Made> {
    if plan.strategy == Strategy::InPlace {
        let notes = vec!["no isolation: this is the checkout itself".to_owned()];
        return Ok(Made { identity: None, base: None, strategy: plan.strategy, files: Files::InPlace, notes });
    }
    let identity = make_home(plan)?;
    let files = fill(plan, options).inspect_err(|_| {
        // The first error is the one to report. The caller's record still names anything that could not be removed.
        if let Err(error) = abandon(plan) {
            log::debug!("cannot remove workspace {}: {}", plan.name, error.full_message());
        }
    })?;
    let (base, strategy) = (plan.base.clone(), plan.strategy);
    Ok(Made { identity: Some(identity.into()), base, strategy, files, notes: notes(&plan.workspace) })
}

/// Makes the directory of a workspace. Its plan is written first.
fn make_home(plan: &Plan) -> Result<FileIdentity> {
    let home = plan.home();
    let failed = |error| Error::unavailable(format!("cannot make {}", home.display())).because(error);
    create_private_dir(&plan.workspaces).map_err(failed)?;
    DirBuilder::new().mode(0o700).create(&home).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Error::conflict(format!("{} exists already", home.display())),
        _ => failed(error),
    })?;
    let identity = FileIdentity::of_entry(&home).map_err(failed)?;
    plan_file::write(plan, &home)?;
    fs::create_dir(plan.context()).map_err(failed)?;
    Ok(identity)
}

fn fill(plan: &Plan, options: &MakeOptions<'_>) -> Result<Files> {
    match plan.strategy {
        Strategy::Clone | Strategy::Overlay => {
            make_dir(&plan.workspace)?;
            clone::fill(plan, options)
        }
        Strategy::Worktree | Strategy::Jj => {
            let checkout = source(plan)?;
            let branch = plan.branch.as_deref().unwrap_or(plan.name.as_str());
            let add = Add { branch, path: Some(&plan.workspace), base: plan.base.as_deref() };
            let added = worktrees::add(&checkout, add)?;
            if !added.created {
                return Err(Error::conflict(format!("{branch} is checked out at {}", added.path.display())));
            }
            Ok(Files::CheckedOut)
        }
        Strategy::Copy => {
            let from =
                plan.checkout.as_deref().ok_or_else(|| Error::internal("the plan of a copy names no checkout"))?;
            make_dir(&plan.workspace)?;
            let copied = copy_tree(from, &plan.workspace, PRIVATE_DIRS)?;
            Ok(if copied.is_shared { Files::Shared } else { Files::Copied })
        }
        Strategy::InPlace => Ok(Files::InPlace),
    }
}

/// Returns notes about files that are missing although a job may expect them.
fn notes(workspace: &Path) -> Vec<String> {
    let mut notes = Vec::new();
    if workspace.join(".gitmodules").is_file() {
        notes.push("submodules are empty directories; fetch them with: git submodule update --init".to_owned());
    }
    let attributes = read_small_file(&workspace.join(".gitattributes")).ok().flatten().unwrap_or_default();
    if String::from_utf8_lossy(&attributes).contains("filter=lfs") {
        notes.push("large files are pointers; fetch them with: git lfs pull".to_owned());
    }
    notes
}
