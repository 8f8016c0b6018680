//! Lists all worktrees: those in the store joined with those on disk.

use std::io::ErrorKind;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use waypost_core::id::{RepositoryId, WorktreeId};
use waypost_core::model::{Repository, Worktree};
use waypost_core::op::ListWorktrees;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result, path_text};
use waypost_workspace::{Environment, ListedWorktree, detect, repository_id, worktree_id};

use crate::app::session::Session;

/// A worktree, as stored and as found on disk.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Surveyed {
    /// Its id; none if no command ever ran in it. The store may not know it.
    pub id: Option<WorktreeId>,
    /// Its name.
    pub name: String,
    /// Its current or last path.
    #[serde(with = "path_text::serde")]
    #[schemars(with = "String")]
    pub path: PathBuf,
    /// Its current or last branch.
    pub branch: Option<String>,
    /// The name of its repository.
    pub repository: String,
    /// The id of its repository.
    pub repository_id: RepositoryId,
    /// Its state.
    pub state: WorktreeState,
    /// When it last wrote, in milliseconds.
    pub last_seen: Option<Timestamp>,
}

/// The state of a worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorktreeState {
    /// The caller is in it.
    Here,
    /// It is on disk.
    Present,
    /// It is on disk and has never used this store.
    New,
    /// It is missing, and was not removed with `way worktree rm`.
    Gone,
    /// Its repository is on another machine that uses the same store.
    Elsewhere,
    /// Its directory cannot be read.
    Unreachable,
    /// It was removed with `way worktree rm`.
    Removed,
}

impl WorktreeState {
    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            WorktreeState::Here => "here",
            WorktreeState::Present => "present",
            WorktreeState::New => "new",
            WorktreeState::Gone => "gone",
            WorktreeState::Elsewhere => "elsewhere",
            WorktreeState::Unreachable => "unreachable",
            WorktreeState::Removed => "removed",
        }
    }
}

/// Lists every worktree that the store or the version control knows.
pub fn survey_worktrees(session: &mut Session) -> Result<Vec<Surveyed>> {
    let known = session.read(ListWorktrees::all())?;
    let here = session.worktree().clone();
    let mut listed: Vec<(Option<WorktreeId>, ListedWorktree)> = Vec::new();
    let repository_here = session.repository().clone();
    if let Some(checkout) = &session.place.checkout {
        for entry in checkout.worktrees() {
            // If the id cannot be read, use the stored one of this path. `way doctor` reports the damage.
            let by_path = || known.worktrees.iter().find(|row| row.path == entry.path).map(|row| row.id.clone());
            let id = worktree_id(&entry.private_dir).unwrap_or_else(|_| by_path());
            listed.push((id, entry));
        }
    }
    // Only a store on a server has users on other machines.
    let absent: Vec<RepositoryId> = if session.is_remote() {
        let absent = known.repositories.iter().filter(|one| one.id != repository_here.id && !is_here(one));
        absent.map(|repository| repository.id.clone()).collect()
    } else {
        Vec::new()
    };
    let mut surveyed: Vec<Surveyed> = known
        .worktrees
        .into_iter()
        .map(|row| {
            let repository = known.repositories.iter().find(|repository| repository.id == row.repository_id);
            let repository = repository.map(|repository| repository.name.clone()).unwrap_or_default();
            let at = listed.iter().position(|(id, _)| id.as_ref() == Some(&row.id));
            let found = at.map(|at| listed.remove(at).1).filter(|found| found.path.is_dir());
            let is_absent = absent.contains(&row.repository_id);
            let mut one = surveyed_from(row, found, repository, &here);
            if one.state == WorktreeState::Gone && is_absent {
                one.state = WorktreeState::Elsewhere;
            }
            one
        })
        .collect();
    surveyed.extend(listed.into_iter().map(|(id, entry)| Surveyed {
        id,
        state: if entry.path.is_dir() { WorktreeState::New } else { WorktreeState::Gone },
        name: entry.name,
        path: entry.path,
        branch: entry.branch,
        repository: repository_here.name.clone(),
        repository_id: repository_here.id.clone(),
        last_seen: None,
    }));
    Ok(surveyed)
}

/// Finds a worktree by its id, the start of its id, its name, its branch or its path.
pub fn find_worktree<'a>(surveyed: &'a [Surveyed], name: &str, cwd: &std::path::Path) -> Result<&'a Surveyed> {
    let path = cwd.join(name);
    let path = std::fs::canonicalize(&path).unwrap_or(path);
    if let Some(found) = surveyed.iter().find(|one| one.id.as_ref().is_some_and(|id| id.as_str() == name)) {
        return Ok(found);
    }
    let is_at = |one: &&Surveyed| !name.is_empty() && one.path == path;
    let is_prefix = |one: &&Surveyed| {
        name.len() > WorktreeId::PREFIX.len() && one.id.as_ref().is_some_and(|id| id.as_str().starts_with(name))
    };
    let is_named = |one: &&Surveyed| one.name == name || one.branch.as_deref() == Some(name);
    let all: Vec<&Surveyed> = surveyed.iter().filter(|one| is_at(one) || is_named(one) || is_prefix(one)).collect();
    // A removed worktree keeps its name and path. Prefer one that exists.
    let live: Vec<&Surveyed> = all.iter().copied().filter(|one| one.is_live()).collect();
    match (live.as_slice(), all.as_slice()) {
        ([one], _) | ([], [one]) => Ok(one),
        ([], []) => Err(Error::not_found(format!("there is no worktree {name:?}")).hint("way worktree list shows all")),
        (many, _) => {
            let many = if many.is_empty() { all.as_slice() } else { many };
            let mut error = Error::ambiguous(format!("{name:?} matches {} worktrees", many.len()));
            for one in many {
                let id = one.id.as_ref().map_or("(no id yet)", |id| id.as_str());
                error = error.hint(format!("{id} at {}", path_text::to_text(&one.path)));
            }
            Err(error)
        }
    }
}

impl Surveyed {
    /// Returns whether it is on disk.
    pub fn is_live(&self) -> bool {
        matches!(self.state, WorktreeState::Here | WorktreeState::Present | WorktreeState::New)
    }
}

/// Returns whether a repository is at its stored path. The path may be that of another machine.
fn is_here(repository: &Repository) -> bool {
    let found = detect(&repository.path, &Environment::default()).ok().flatten();
    found.is_some_and(|found| repository_id(&found.private_dir).ok().flatten().as_ref() == Some(&repository.id))
}

fn surveyed_from(row: Worktree, found: Option<ListedWorktree>, repository: String, here: &Worktree) -> Surveyed {
    let (state, path, branch) = match found {
        _ if row.id == here.id => (WorktreeState::Here, here.path.clone(), here.branch.clone()),
        Some(found) => (WorktreeState::Present, found.path, found.branch),
        None => {
            let is_it = |dir: &std::path::Path| worktree_id(dir).ok().flatten().as_ref() == Some(&row.id);
            match (row.path.symlink_metadata(), detect(&row.path, &Environment::default())) {
                // Mercurial has no list of worktrees, and other repositories have their own: read the directory itself.
                (_, Ok(Some(there))) if is_it(&there.worktree_private_dir) => {
                    (WorktreeState::Present, row.path.clone(), there.branch)
                }
                // The user's Waypost directory is not a checkout, but commands can run there.
                _ if is_it(&row.path) => (WorktreeState::Present, row.path.clone(), None),
                _ if row.removed_at.is_some() => (WorktreeState::Removed, row.path.clone(), row.branch.clone()),
                (Err(error), _) if error.kind() != ErrorKind::NotFound => {
                    (WorktreeState::Unreachable, row.path.clone(), row.branch.clone())
                }
                _ => (WorktreeState::Gone, row.path.clone(), row.branch.clone()),
            }
        }
    };
    Surveyed {
        id: Some(row.id),
        name: row.name,
        path,
        branch,
        repository,
        repository_id: row.repository_id,
        state,
        last_seen: Some(row.last_seen),
    }
}
