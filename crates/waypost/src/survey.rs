//! One view of all worktrees: what the store remembers joined with what is on disk.

use std::io::ErrorKind;
use std::path::PathBuf;

use serde::Serialize;
use waypost_core::id::{RepositoryId, WorktreeId};
use waypost_core::model::{Repository, Worktree};
use waypost_core::op::ListWorktrees;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result, path_text};
use waypost_workspace::{Environment, Listed, detect, repository_id, worktree_id};

use crate::session::Session;

/// A worktree, as remembered and as found.
#[derive(Clone, Debug, Serialize)]
pub struct Surveyed {
    /// Its id; none if no command was ever run in it. The store may not know it.
    pub id: Option<WorktreeId>,
    /// What it is called.
    pub name: String,
    /// Where it is now, or was last.
    #[serde(with = "path_text::serde")]
    pub path: PathBuf,
    /// The branch it is on now, or was on last.
    pub branch: Option<String>,
    /// The name of its repository.
    pub repository: String,
    /// The id of its repository.
    pub repository_id: RepositoryId,
    /// How it was found.
    pub state: State,
    /// When it last wrote, in milliseconds.
    pub last_seen: Option<Timestamp>,
}

/// How a worktree was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is the one we are in.
    Here,
    /// It is on disk.
    Present,
    /// It is on disk, and has never used this store.
    New,
    /// It is not where it was, and nobody told us.
    Gone,
    /// It is of a repository that is not on this machine; another one uses the store too.
    Elsewhere,
    /// It cannot be looked into, so nothing is known of it.
    Unreachable,
    /// It was removed with `way worktree rm`.
    Removed,
}

impl State {
    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Here => "here",
            State::Present => "present",
            State::New => "new",
            State::Gone => "gone",
            State::Elsewhere => "elsewhere",
            State::Unreachable => "unreachable",
            State::Removed => "removed",
        }
    }
}

/// Lists every worktree that the store or the version control has heard of.
pub fn survey(session: &mut Session) -> Result<Vec<Surveyed>> {
    let known = session.read(ListWorktrees {})?;
    let here = session.worktree().clone();
    let mut listed: Vec<(Option<WorktreeId>, Listed)> = Vec::new();
    let ours = session.repository().clone();
    if let Some(checkout) = &session.place.checkout {
        for entry in checkout.worktrees() {
            // An id that cannot be read is the doctor's business; the row of that path says which it was.
            let by_path = || known.worktrees.iter().find(|row| row.path == entry.path).map(|row| row.id.clone());
            let id = worktree_id(&entry.private_dir).unwrap_or_else(|_| by_path());
            listed.push((id, entry));
        }
    }
    // Only a server has users on other machines.
    let absent: Vec<RepositoryId> = if session.is_remote() {
        let absent = known.repositories.iter().filter(|one| one.id != ours.id && !is_here(one));
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
            let mut one = look_at(row, found, repository, &here);
            if one.state == State::Gone && is_absent {
                one.state = State::Elsewhere;
            }
            one
        })
        .collect();
    surveyed.extend(listed.into_iter().map(|(id, entry)| Surveyed {
        id,
        state: if entry.path.is_dir() { State::New } else { State::Gone },
        name: entry.name,
        path: entry.path,
        branch: entry.branch,
        repository: ours.name.clone(),
        repository_id: ours.id.clone(),
        last_seen: None,
    }));
    Ok(surveyed)
}

/// Finds the one that an id, the beginning of an id, a name, a branch or a path means.
pub fn find<'a>(surveyed: &'a [Surveyed], wanted: &str, cwd: &std::path::Path) -> Result<&'a Surveyed> {
    let path = cwd.join(wanted);
    let path = std::fs::canonicalize(&path).unwrap_or(path);
    if let Some(found) = surveyed.iter().find(|one| one.id.as_ref().is_some_and(|id| id.as_str() == wanted)) {
        return Ok(found);
    }
    let is_at = |one: &&Surveyed| !wanted.is_empty() && one.path == path;
    let is_prefix = |one: &&Surveyed| {
        wanted.len() > WorktreeId::PREFIX.len() && one.id.as_ref().is_some_and(|id| id.as_str().starts_with(wanted))
    };
    let is_named = |one: &&Surveyed| one.name == wanted || one.branch.as_deref() == Some(wanted);
    let all: Vec<&Surveyed> = surveyed.iter().filter(|one| is_at(one) || is_named(one) || is_prefix(one)).collect();
    // A removed one keeps its name and path; the one that has them now is meant.
    let live: Vec<&Surveyed> = all.iter().copied().filter(|one| one.is_live()).collect();
    match (live.as_slice(), all.as_slice()) {
        ([one], _) | ([], [one]) => Ok(one),
        ([], []) => {
            Err(Error::not_found(format!("there is no worktree {wanted:?}")).hint("way worktree list shows all"))
        }
        (many, _) => {
            let many = if many.is_empty() { all.as_slice() } else { many };
            let mut error = Error::ambiguous(format!("{wanted:?} fits {} worktrees", many.len()));
            for one in many {
                let id = one.id.as_ref().map_or("(no id yet)", |id| id.as_str());
                error = error.hint(format!("{id} at {}", path_text::to_text(&one.path)));
            }
            Err(error)
        }
    }
}

impl Surveyed {
    /// Tells whether it is on disk.
    pub fn is_live(&self) -> bool {
        matches!(self.state, State::Here | State::Present | State::New)
    }
}

/// Tells whether a repository is where it is said to be. On another machine that path may be another one's.
fn is_here(repository: &Repository) -> bool {
    let found = detect(&repository.path, &Environment::default()).ok().flatten();
    found.is_some_and(|found| repository_id(&found.private_dir).ok().flatten().as_ref() == Some(&repository.id))
}

fn look_at(row: Worktree, found: Option<Listed>, repository: String, here: &Worktree) -> Surveyed {
    let (state, path, branch) = match found {
        _ if row.id == here.id => (State::Here, here.path.clone(), here.branch.clone()),
        Some(found) => (State::Present, found.path, found.branch),
        None => {
            let is_it = |dir: &std::path::Path| worktree_id(dir).ok().flatten().as_ref() == Some(&row.id);
            match (row.path.symlink_metadata(), detect(&row.path, &Environment::default())) {
                // Mercurial keeps no list, and other repositories have their own: ask the place itself.
                (_, Ok(Some(there))) if is_it(&there.worktree_private_dir) => {
                    (State::Present, row.path.clone(), there.branch)
                }
                // Our own directory is not a checkout, but it is a place to write from.
                _ if is_it(&row.path) => (State::Present, row.path.clone(), None),
                _ if row.removed_at.is_some() => (State::Removed, row.path.clone(), row.branch.clone()),
                (Err(error), _) if error.kind() != ErrorKind::NotFound => {
                    (State::Unreachable, row.path.clone(), row.branch.clone())
                }
                _ => (State::Gone, row.path.clone(), row.branch.clone()),
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
