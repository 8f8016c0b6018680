//! Finding the checkout a path is in, by reading files alone.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use waypost_core::model::Vcs;
use waypost_core::{Error, Result, path_text};

use crate::checkout::Checkout;
use crate::{git_layout, hg_layout, jj_layout};

/// What the environment says about finding a repository.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `GIT_DIR`.
    pub git_dir: Option<PathBuf>,
    /// `GIT_COMMON_DIR`.
    pub git_common_dir: Option<PathBuf>,
    /// `GIT_WORK_TREE`.
    pub git_work_tree: Option<PathBuf>,
    /// `GIT_CEILING_DIRECTORIES`: directories the search does not rise above.
    pub ceilings: Vec<PathBuf>,
    /// The user's own Waypost directory, which is not a repository although it may be called `.waypost`.
    pub home: Option<PathBuf>,
}

/// The name of our directory in a worktree.
pub(crate) const DOT_DIR: &str = ".waypost";

/// Finds the checkout that `start` is in. `start` must exist.
///
/// The nearest version control directory wins; on one level jj comes before git. Without any, a directory
/// with `.waypost` in it is a repository without version control.
pub fn detect(start: &Path, environment: &Environment) -> Result<Option<Checkout>> {
    let start = std::fs::canonicalize(start)
        .map_err(|error| Error::unavailable(format!("cannot look into {}", start.display())).because(error))?;
    if let Some(git_dir) = &environment.git_dir {
        return git_layout::from_environment(&start, git_dir, environment).map(Some);
    }
    let mut bare = None;
    for dir in below_ceilings(&start, environment) {
        let found = if let Some(checkout) = jj_layout::open(dir)? {
            Some(checkout)
        } else if let Some(checkout) = git_layout::open(dir)? {
            Some(checkout)
        } else {
            hg_layout::open(dir)?
        };
        if found.is_some() {
            // A bare repository inside somebody's tree is content, and content does not configure us.
            return Ok(found);
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
            ours.is_dir() && environment.home.as_deref().is_none_or(|home| !is_same_place(&ours, home))
        })
        .map(without_vcs))
}

/// Returns what was found at a path; `None` if there is nothing, or nothing that this user may see.
///
/// A disk that cannot be read is an error: it must not look like a directory without a repository.
pub(crate) fn found<T>(path: &Path, result: io::Result<T>) -> Result<Option<T>> {
    const FAILURES: &[Errno] = &[
        Errno::IO,
        Errno::NOMEM,
        Errno::MFILE,
        Errno::NFILE,
        Errno::STALE,
        Errno::UCLEAN,
        Errno::TIMEDOUT,
        Errno::NOTCONN,
    ];
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if Errno::from_io_error(&error).is_some_and(|errno| FAILURES.contains(&errno)) => {
            Err(Error::unavailable(format!("cannot read {}", path.display())).because(error))
        }
        Err(_) => Ok(None),
    }
}

/// Returns the checkout that a directory without version control is.
pub(crate) fn without_vcs(root: &Path) -> Checkout {
    let local = root.join(DOT_DIR).join("local");
    Checkout {
        vcs: Vcs::None,
        root: Some(root.to_owned()),
        main_root: Some(root.to_owned()),
        shared_dir: local.clone(),
        git_dir: None,
        private_dir: local.clone(),
        worktree_private_dir: local,
        name: path_text::name_of(root),
        branch: None,
        remote_url: None,
        default_branch: None,
    }
}

/// The directories from `start` upwards, up to but without a ceiling. `start` itself is always searched.
fn below_ceilings<'a>(start: &'a Path, environment: &'a Environment) -> impl Iterator<Item = &'a Path> {
    start
        .ancestors()
        .enumerate()
        .take_while(|(depth, dir)| {
            *depth == 0 || !environment.ceilings.iter().any(|ceiling| is_same_place(ceiling, dir))
        })
        .map(|(_, dir)| dir)
}

/// Tells whether two paths lead to the same place.
pub fn is_same_place(one: &Path, other: &Path) -> bool {
    one == other || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}
