//! Workspaces made in advance, so that a job can start at once.
//!
//! A slot is an ordinary workspace in the pool's directory. Taking it moves it to the job's directory and updates it to
//! the requested commit. A workspace that is given back gets a new git directory, and every file is compared with git's
//! content, since a job may have changed file times.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use waypost_core::{Error, Result};
use waypost_fs::{FileIdentity, FileLock, create_private_dir, measure_tree, rename_new};

use super::abandon::abandon;
use super::dirs::{private_dir, remove_if_there};
use super::files_lock::lock_files;
use super::make::make;
use super::mirror::Mirror;
use super::model::{Files, Identity, Made, MakeOptions, Name, Plan, Strategy};
use super::open_processes::{Process, check_no_process_in, processes_in};
use super::plan::real;
use super::{git_dir, held_mirror, plan_file};
use crate::vcs::run::{Git, NetworkOptions};
use crate::worktrees::nested;

/// The maximum time to wait for another process that uses the pool.
const LOCK_TIMEOUT: Duration = Duration::from_mins(2);

/// The file that marks a slot as complete.
const READY_FILE: &str = "ready";

/// A workspace in the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Its plan.
    pub plan: Plan,
    /// Processes that use it. A slot in use is not taken.
    pub living: Vec<Process>,
}

/// Makes a workspace for the pool, from an ordinary plan.
pub fn warm(plan: &Plan, options: &MakeOptions<'_>) -> Result<Slot> {
    let pool = pool_of(plan)?;
    let plan = in_pool(plan, &pool);
    make(&plan, options)?;
    mark_ready(&plan.home())?;
    Ok(Slot { plan, living: Vec::new() })
}

/// Returns the plan that [`warm`] uses.
pub fn pooled(plan: &Plan) -> Result<Plan> {
    Ok(in_pool(plan, &pool_of(plan)?))
}

/// Lists the slots that a plan could take.
pub fn list(plan: &Plan) -> Result<Vec<Slot>> {
    list_in(&pool_of(plan)?)
}

/// Lists the slots that borrow from a mirror.
pub fn list_of(mirror: &Path, workspaces: &Path) -> Result<Vec<Slot>> {
    list_in(&pool_at(mirror, &real(workspaces)))
}

fn list_in(pool: &Path) -> Result<Vec<Slot>> {
    let Ok(entries) = fs::read_dir(pool) else { return Ok(Vec::new()) };
    let mut slots = Vec::new();
    for entry in entries.flatten() {
        // An incomplete slot has no plan or is not ready; the record of the process that makes it names it.
        let Some(slot) = plan_file::read(&entry.path()) else { continue };
        if slot.home() == entry.path() && slot.home().join(READY_FILE).is_file() {
            slots.push(Slot { living: processes_in(&slot.home())?, plan: slot });
        }
    }
    slots.sort_by(|one, other| one.plan.name.cmp(&other.plan.name));
    Ok(slots)
}

/// Takes a workspace out of the pool for a plan: updated to its commit, without files of another job.
///
/// None if the pool has no unused slot. The caller has recorded the plan before.
pub fn take(plan: &Plan, options: &MakeOptions<'_>) -> Result<Option<Made>> {
    if plan.strategy != Strategy::Clone {
        return Ok(None);
    }
    let Some(slot) = move_slot(plan)? else { return Ok(None) };
    let identity = FileIdentity::of_entry(&plan.home())
        .map_err(|error| Error::unavailable(format!("cannot access {}", plan.home().display())).because(error))?;
    let taken = (|| {
        {
            let held = held_mirror::hold(Mirror::of(plan)?, plan)?;
            held.keep(plan, options.network, options.url)?;
        }
        renew_git_dir(plan, plan.workspace.join(".git/index"))?;
        clean(plan)
    })();
    taken.inspect_err(|_| {
        if let Err(error) = abandon(plan) {
            log::debug!("cannot remove workspace {}: {}", plan.name, error.full_message());
        }
    })?;
    // The new owner's refs keep the borrowed objects by now.
    held_mirror::release(&Mirror::of(plan)?, &slot.name)?;
    let (base, strategy) = (plan.base.clone(), plan.strategy);
    Ok(Some(Made { identity: Some(identity.into()), base, strategy, files: Files::Copied, notes: Vec::new() }))
}

/// Returns the plan of the slot that [`give_back`] makes. The caller records it before.
pub fn returned(plan: &Plan, slot: &Name) -> Result<Plan> {
    let mut next = in_pool(plan, &pool_of(plan)?);
    next.name = slot.clone();
    next.branch = Some(format!("waypost/{slot}"));
    next.workspace = next.home().join("workspace");
    Ok(next)
}

/// Gives a workspace back to the pool under the plan from [`returned`], without anything that the job left in it.
///
/// The caller has saved the work before. A workspace that is not fit for the pool stays where it is. If cleaning fails,
/// it stays as an incomplete slot, which the caller abandons.
pub fn give_back(plan: &Plan, identity: Identity, next: &Plan) -> Result<Slot> {
    let is_same = FileIdentity::of_entry(&plan.home()).is_ok_and(|found| Identity::from(found) == identity);
    // Cleaning deletes files, so it must not follow a link that replaced the directory.
    if !is_same || !plan.workspace.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        return Err(Error::refused(format!("{} is not the directory that Waypost made", plan.workspace.display())));
    }
    if plan.strategy != Strategy::Clone {
        return Err(Error::refused("only a clone can be given back to the pool"));
    }
    let _files = lock_files(plan)?;
    check_no_process_in(&plan.home())?;
    // The owner of another hard link could change the file later.
    if measure_tree(&plan.workspace)?.hard_links > 0 {
        return Err(Error::refused(format!("{} has files with several hard links", plan.workspace.display())));
    }
    if !nested(&plan.workspace)?.is_empty() {
        return Err(Error::refused(format!("{} has other repositories in it", plan.workspace.display())));
    }
    {
        let held = held_mirror::hold(Mirror::of(next)?, next)?;
        held.keep(next, NetworkOptions::default(), None)?;
    }
    create_private_dir(&next.workspaces).map_err(|error| cannot_move(&plan.home(), error))?;
    plan_file::write(next, &plan.home())?;
    rename_new(&plan.home(), &next.home()).map_err(|error| cannot_move(&plan.home(), error))?;
    // From here on it is a slot. It can be taken once it is clean and marked as ready.
    renew_git_dir(next, PathBuf::new())?;
    refresh_index(next)?;
    clean(next)?;
    empty_home(next)?;
    mark_ready(&next.home())?;
    held_mirror::release(&Mirror::of(plan)?, &plan.name)?;
    Ok(Slot { plan: next.clone(), living: Vec::new() })
}

/// Moves a slot to the directory of a plan. Returns the slot's plan.
fn move_slot(plan: &Plan) -> Result<Option<Plan>> {
    let pool = pool_of(plan)?;
    if !pool.is_dir() {
        return Ok(None);
    }
    let _lock = FileLock::acquire(&pool.with_extension("lock"), LOCK_TIMEOUT)?;
    let slots = list(plan)?;
    // Prefer a slot that is already at the commit.
    let free = || slots.iter().filter(|slot| slot.living.is_empty());
    let Some(slot) = free().find(|slot| slot.plan.base == plan.base).or_else(|| free().next()) else {
        return Ok(None);
    };
    let (from, to) = (slot.plan.home(), plan.home());
    if !plan_file::is_of(&slot.plan, &from)? {
        return Ok(None);
    }
    // From here on it belongs to the plan. Until its plan file is rewritten, `abandon` recognizes it as a slot.
    rename_new(&from, &to).map_err(|error| cannot_move(&from, error))?;
    plan_file::write(plan, &to)?;
    fs::remove_file(to.join(READY_FILE)).map_err(|error| cannot_move(&to, error))?;
    Ok(Some(slot.plan.clone()))
}

/// Replaces the git directory with a new one for the plan's branch and commit. Keeps `index`, if it exists.
fn renew_git_dir(plan: &Plan, index: PathBuf) -> Result<()> {
    let (own, new) = (plan.workspace.join(".git"), plan.home().join("git"));
    let failed = |error| Error::unavailable(format!("cannot write {}", own.display())).because(error);
    remove_if_there(&new)?;
    git_dir::write(&new, Mirror::of(plan)?.path(), plan)?;
    if index.is_file() {
        fs::rename(index, new.join("index")).map_err(failed)?;
    }
    let old = plan.home().join("old-git");
    remove_if_there(&old)?;
    fs::rename(&own, &old).and_then(|()| fs::rename(&new, &own)).map_err(failed)?;
    remove_if_there(&old)
}

/// Resets the files to the plan's commit, and removes all others.
fn clean(plan: &Plan) -> Result<()> {
    let git = Git::of_workspace(&plan.workspace)?;
    git.command().args(["reset", "--quiet", "--hard", plan.base()?]).stdout()?;
    git.command().args(["clean", "--quiet", "-ffdx"]).stdout().map(drop)
}

/// Makes an index that compares every file by content, whatever its times are.
fn refresh_index(plan: &Plan) -> Result<()> {
    let git = Git::of_workspace(&plan.workspace)?;
    git.command().args(["read-tree", "--reset", plan.base()?]).stdout()?;
    // It exits with 1 if files differ. The reset that follows restores them.
    git.command().args(["update-index", "-q", "--really-refresh"]).code().map(drop)
}

/// Removes everything else in a workspace's directory: the job's context and logs.
fn empty_home(plan: &Plan) -> Result<()> {
    let home = plan.home();
    let failed = |error| Error::unavailable(format!("cannot empty {}", home.display())).because(error);
    for entry in fs::read_dir(&home).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if name == "workspace" || name == "plan.json" {
            continue;
        }
        if entry.file_type().map_err(failed)?.is_dir() {
            remove_if_there(&entry.path())?;
        } else {
            fs::remove_file(entry.path()).map_err(failed)?;
        }
    }
    private_dir(&plan.context())
}

/// Marks a slot as complete. A slot without the mark is being made, or an interrupted process left it.
fn mark_ready(home: &Path) -> Result<()> {
    fs::File::create(home.join(READY_FILE)).map(drop).map_err(|error| cannot_move(home, error))
}

fn in_pool(plan: &Plan, pool: &Path) -> Plan {
    let mut plan = plan.clone();
    pool.clone_into(&mut plan.workspaces);
    plan.workspace = plan.home().join("workspace");
    plan
}

/// Returns the pool directory of a plan's repository.
fn pool_of(plan: &Plan) -> Result<PathBuf> {
    Ok(pool_at(Mirror::of(plan)?.path(), &plan.workspaces))
}

fn pool_at(mirror: &Path, workspaces: &Path) -> PathBuf {
    let name = mirror.file_stem().unwrap_or_default();
    // The plan of a slot is in the pool already.
    if workspaces.file_name() == Some(name) {
        return workspaces.to_owned();
    }
    workspaces.join("pool").join(name)
}

fn cannot_move(path: &Path, error: std::io::Error) -> Error {
    Error::unavailable(format!("cannot move {}", path.display())).because(error)
}
