//! Finds the checkout that contains a path, by reading files.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use waypost_core::model::Vcs;
use waypost_core::{Error, Result, path_text};

use super::checkout::Checkout;
use super::environment::Environment;
use super::probe::is_same_place;
use super::tracked::check_untracked;
use super::{git_layout, hg_layout, jj_layout};

/// The name of Waypost's directory in a worktree.
const DOT_DIR: &str = ".waypost";

/// Files and directories that only a user's `.waypost` has.
const USER_STATE: &[&str] = &["state.db", "machine", "token", "trusted.json", "mirrors", "workspaces"];

/// Files and directories that only a repository's `.waypost` has.
const REPOSITORY_STATE: &[&str] = &["issues.jsonl", "local", ".gitignore"];

/// Finds the checkout that contains `start`, which must exist.
///
/// The nearest version control directory wins; on the same level jj takes precedence over git, but the state is in git's
/// directory. If there is none, a directory that contains `.waypost` is a repository without version control.
pub fn detect(start: &Path, environment: &Environment) -> Result<Option<Checkout>> {
    let found = find(start, environment)?;
    Ok(found.map(|checkout| {
        let private_dir = checkout.private_dir.with_user_dir(environment.user_dir.clone());
        Checkout { private_dir, ..checkout }
    }))
}

fn find(start: &Path, environment: &Environment) -> Result<Option<Checkout>> {
    let start = std::fs::canonicalize(start)
        .map_err(|error| Error::unavailable(format!("cannot read {}", start.display())).because(error))?;
    if let Some(git_dir) = &environment.git_dir {
        return git_layout::from_environment(&start, git_dir, environment).map(Some);
    }
    let mut bare = None;
    for dir in below_ceilings(&start, environment) {
        let found = open(dir);
        if !matches!(found, Ok(None)) {
            check_untracked(dir)?;
            let main = found.as_ref().ok().and_then(Option::as_ref).and_then(|found| found.main_root.as_deref());
            main.filter(|main| *main != dir).map_or(Ok(()), check_untracked)?;
            // A bare repository inside a worktree is content. It must not configure Waypost.
            return found;
        }
        if bare.is_none() && dir.file_name() != Some(OsStr::new(".git")) && git_layout::is_git_dir(dir)? {
            bare = Some(dir);
        }
    }
    if let Some(dir) = bare {
        return git_layout::open_bare(dir).map(Some);
    }
    Ok(below_ceilings(&start, environment)
        .find(|dir| {
            let ours = dir.join(DOT_DIR);
            ours.is_dir() && !environment.homes.iter().any(|home| is_same_place(&ours, home)) && !is_of_user(dir, &ours)
        })
        .map(without_vcs))
}

/// Opens the checkout whose version control directory is in `dir`, if there is one.
fn open(dir: &Path) -> Result<Option<Checkout>> {
    let git = git_layout::open(dir)?;
    Ok(match (jj_layout::open(dir, git.as_ref())?, git) {
        (None, None) => hg_layout::open(dir)?,
        (jj, git) => jj.or(git),
    })
}

/// Returns whether a `.waypost` is the directory of a user, for example of another user or with another `HOME`, and not of
/// a repository.
fn is_of_user(dir: &Path, ours: &Path) -> bool {
    let is_there = |name: &str| ours.join(name).symlink_metadata().is_ok_and(|found| !found.is_symlink());
    if USER_STATE.iter().any(|name| is_there(name)) {
        return true;
    }
    !REPOSITORY_STATE.iter().any(|name| is_there(name)) && is_home(dir)
}

/// Returns whether a directory is the home of a user of this machine.
fn is_home(dir: &Path) -> bool {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    users.lines().filter_map(|user| user.split(':').nth(5)).any(|home| home.len() > 1 && Path::new(home) == dir)
}

/// Describes a directory without version control as a checkout.
fn without_vcs(root: &Path) -> Checkout {
    let local = root.join(DOT_DIR).join("local");
    Checkout {
        vcs: Vcs::None,
        root: Some(root.to_owned()),
        main_root: Some(root.to_owned()),
        shared_dir: local.clone(),
        git_dir: None,
        private_dir: local.clone().into(),
        worktree_private_dir: local,
        name: path_text::name_of(root),
        branch: None,
        remote_url: None,
        default_branch: None,
        git_config: Arc::default(),
    }
}

/// Returns the directories from `start` upwards, below the first ceiling. `start` itself is always searched.
fn below_ceilings<'a>(start: &'a Path, environment: &'a Environment) -> impl Iterator<Item = &'a Path> {
    start
        .ancestors()
        .enumerate()
        .take_while(|(depth, dir)| {
            *depth == 0 || !environment.ceilings.iter().any(|ceiling| is_same_place(ceiling, dir))
        })
        .map(|(_, dir)| dir)
}
