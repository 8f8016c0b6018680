//! Workspaces made in advance, so that a job only has to take one.
//!
//! A slot of the pool is a workspace like any other, in a directory of the pool. Taking it moves it to the job and brings
//! it to the asked commit. One that a job gives back gets a new git directory, and every file in it is compared with what
//! git has, since a job may have set a file's times as it liked.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use waypost_core::{Error, Result};
use waypost_fs::{FileIdentity, FileLock, create_private_dir, measure_tree, rename_new};

use super::abandon::abandon;
use super::dirs::{private_dir, remove_if_there};
use super::examine::nested;
use super::make::make;
use super::mirror::Mirror;
use super::model::{Files, Identity, Made, Means, Name, Plan, Strategy};
use super::open_processes::{Process, living_in};
use super::plan::real;
use super::{git_dir, held_mirror, plan_file};
use crate::vcs::run::{Git, Own};

/// How long others who use the pool are waited for.
const PATIENCE: Duration = Duration::from_mins(2);

/// What is in the directory of a workspace that can be taken.
const READY: &str = "ready";

/// A workspace of the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// The plan that it was made by.
    pub plan: Plan,
    /// Processes that live in it. It is not taken as long as there are any.
    pub living: Vec<Process>,
}

/// Makes a workspace for the pool, by a plan for a workspace like any other.
pub fn warm(plan: &Plan, means: &Means<'_>) -> Result<Slot> {
    let pool = pool_of(plan)?;
    let plan = in_pool(plan, &pool);
    make(&plan, means)?;
    say_ready(&plan.home())?;
    Ok(Slot { plan, living: Vec::new() })
}

/// Returns the plan that [`warm`] makes a workspace by.
pub fn pooled(plan: &Plan) -> Result<Plan> {
    Ok(in_pool(plan, &pool_of(plan)?))
}

/// Lists the workspaces of the pool that a plan could take.
pub fn list(plan: &Plan) -> Result<Vec<Slot>> {
    list_in(&pool_of(plan)?)
}

/// Lists the workspaces of the pool that borrow from a mirror.
pub fn list_of(mirror: &Path, workspaces: &Path) -> Result<Vec<Slot>> {
    list_in(&pool_at(mirror, &real(workspaces)))
}

fn list_in(pool: &Path) -> Result<Vec<Slot>> {
    let Ok(entries) = fs::read_dir(pool) else { return Ok(Vec::new()) };
    let mut slots = Vec::new();
    for entry in entries.flatten() {
        // One that is not whole has no mark, or is being made; its maker's row names it.
        let Some(slot) = plan_file::read(&entry.path()) else { continue };
        if slot.home() == entry.path() && slot.home().join(READY).is_file() {
            slots.push(Slot { living: living_in(&slot.home())?, plan: slot });
        }
    }
    slots.sort_by(|one, other| one.plan.name.cmp(&other.plan.name));
    Ok(slots)
}

/// Takes a workspace out of the pool for a plan, brought to its commit with no file of anybody else in it.
///
/// None if the pool has none that nobody lives in. The plan was written down before.
pub fn take(plan: &Plan, means: &Means<'_>) -> Result<Option<Made>> {
    if plan.strategy != Strategy::Clone {
        return Ok(None);
    }
    let Some(slot) = claim(plan)? else { return Ok(None) };
    let identity = FileIdentity::of_entry(&plan.home())
        .map_err(|error| Error::unavailable(format!("cannot look at {}", plan.home().display())).because(error))?;
    let taken = (|| {
        {
            let held = held_mirror::hold(Mirror::of(plan)?, plan)?;
            held.keep(plan, means.own, means.url)?;
        }
        renew_git_dir(plan, plan.workspace.join(".git/index"))?;
        clean(plan)
    })();
    taken.inspect_err(|_| {
        if let Err(error) = abandon(plan) {
            log::debug!("cannot take back workspace {}: {}", plan.name, error.full_message());
        }
    })?;
    // What it borrowed is kept in the name of its new owner by now.
    held_mirror::release(&Mirror::of(plan)?, &slot.name)?;
    let (base, strategy) = (plan.base.clone(), plan.strategy);
    Ok(Some(Made { identity: Some(identity.into()), base, strategy, files: Files::Copied, notes: Vec::new() }))
}

/// Returns the plan that [`give_back`] makes of a workspace's, to be written down before.
pub fn returned(plan: &Plan, slot: &Name) -> Result<Plan> {
    let mut next = in_pool(plan, &pool_of(plan)?);
    next.name = slot.clone();
    next.branch = Some(format!("waypost/{slot}"));
    next.workspace = next.home().join("workspace");
    Ok(next)
}

/// Gives a workspace back to the pool as [`returned`] says, with nothing in it of what was done there.
///
/// What is worth keeping was saved before. If it is not fit for the pool it stays where it is; if it cannot be made clean it
/// is left as the slot, which the caller abandons.
pub fn give_back(plan: &Plan, identity: Identity, next: &Plan) -> Result<Slot> {
    let is_same = FileIdentity::of_entry(&plan.home()).is_ok_and(|found| Identity::from(found) == identity);
    // All else is deleted there, so a link to elsewhere in its place would be a disaster.
    if !is_same || !plan.workspace.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        return Err(Error::refused(format!("{} is not the directory that was made", plan.workspace.display())));
    }
    if plan.strategy != Strategy::Clone {
        return Err(Error::refused("only what was cloned can be used again"));
    }
    let living = living_in(&plan.home())?;
    if let Some(first) = living.first() {
        return Err(Error::refused(format!(
            "process {} ({}) lives in {}",
            first.id,
            first.name,
            plan.home().display()
        )));
    }
    // A second name of a file would let its holder change it later.
    if measure_tree(&plan.workspace)?.hard_links > 0 {
        return Err(Error::refused(format!("{} has files with several names", plan.workspace.display())));
    }
    if !nested(&plan.workspace)?.is_empty() {
        return Err(Error::refused(format!("{} has other repositories in it", plan.workspace.display())));
    }
    {
        let held = held_mirror::hold(Mirror::of(next)?, next)?;
        held.keep(next, Own::default(), None)?;
    }
    create_private_dir(&next.workspaces).map_err(|error| cannot_move(&plan.home(), error))?;
    plan_file::write(next, &plan.home())?;
    rename_new(&plan.home(), &next.home()).map_err(|error| cannot_move(&plan.home(), error))?;
    // From here on it is the slot's, whatever happens. It can be taken once it is clean and says that it is ready.
    renew_git_dir(next, PathBuf::new())?;
    compare_all(next)?;
    clean(next)?;
    empty_home(next)?;
    say_ready(&next.home())?;
    held_mirror::release(&Mirror::of(plan)?, &plan.name)?;
    Ok(Slot { plan: next.clone(), living: Vec::new() })
}

/// Moves a slot to a plan's place.
fn claim(plan: &Plan) -> Result<Option<Plan>> {
    let pool = pool_of(plan)?;
    if !pool.is_dir() {
        return Ok(None);
    }
    let _lock = FileLock::acquire(&pool.with_extension("lock"), PATIENCE)?;
    let slots = list(plan)?;
    // The one that is at the commit already comes first.
    let free = || slots.iter().filter(|slot| slot.living.is_empty());
    let Some(slot) = free().find(|slot| slot.plan.base == plan.base).or_else(|| free().next()) else {
        return Ok(None);
    };
    let (from, to) = (slot.plan.home(), plan.home());
    if !plan_file::is_of(&slot.plan, &from)? {
        return Ok(None);
    }
    // From here on it is where the plan says. That it still calls itself a slot does not confuse who cleans up.
    rename_new(&from, &to).map_err(|error| cannot_move(&from, error))?;
    plan_file::write(plan, &to)?;
    fs::remove_file(to.join(READY)).map_err(|error| cannot_move(&to, error))?;
    Ok(Some(slot.plan.clone()))
}

/// Writes the git directory anew, for the plan's branch and commit. An index is kept if one is named.
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

/// Brings the files to the plan's commit, and removes all others.
fn clean(plan: &Plan) -> Result<()> {
    let git = Git::trusted(&plan.workspace.join(".git"), Some(&plan.workspace));
    git.command().args(["reset", "--quiet", "--hard", plan.base()?]).stdout()?;
    git.command().args(["clean", "--quiet", "-ffdx"]).stdout().map(drop)
}

/// Makes an index that knows every file by its content, whatever its times say.
fn compare_all(plan: &Plan) -> Result<()> {
    let git = Git::trusted(&plan.workspace.join(".git"), Some(&plan.workspace));
    git.command().args(["read-tree", "--reset", plan.base()?]).stdout()?;
    // It ends with 1 if files differ, which reset then mends.
    git.command().args(["update-index", "-q", "--really-refresh"]).code().map(drop)
}

/// Removes what else is in a workspace's directory: what the job was told, what it logged.
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

/// Says that a workspace is whole. What does not say so is being made, or was left by somebody who was interrupted.
fn say_ready(home: &Path) -> Result<()> {
    fs::File::create(home.join(READY)).map(drop).map_err(|error| cannot_move(home, error))
}

fn in_pool(plan: &Plan, pool: &Path) -> Plan {
    let mut plan = plan.clone();
    pool.clone_into(&mut plan.workspaces);
    plan.workspace = plan.home().join("workspace");
    plan
}

/// The directory of the workspaces of one repository that wait to be taken.
fn pool_of(plan: &Plan) -> Result<PathBuf> {
    Ok(pool_at(Mirror::of(plan)?.path(), &plan.workspaces))
}

fn pool_at(mirror: &Path, workspaces: &Path) -> PathBuf {
    let name = mirror.file_stem().unwrap_or_default();
    // A plan of the pool itself is in it already.
    if workspaces.file_name() == Some(name) {
        return workspaces.to_owned();
    }
    workspaces.join("pool").join(name)
}

fn cannot_move(path: &Path, error: std::io::Error) -> Error {
    Error::unavailable(format!("cannot move {}", path.display())).because(error)
}
