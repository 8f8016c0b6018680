//! A checkout as found on disk, and its worktrees.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use waypost_core::model::Vcs;
use waypost_core::{Result, path_text};
use waypost_fs::{FileLock, PrivateDir};

use super::config_file::ConfigFile;

/// A checkout, as found on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkout {
    /// The version control system that manages it.
    pub vcs: Vcs,
    /// The root of the current worktree; none inside a bare repository.
    pub root: Option<PathBuf>,
    /// The root of the main worktree, from which linked ones were made; none if the repository is bare.
    pub main_root: Option<PathBuf>,
    /// The version control directory that all worktrees share.
    pub shared_dir: PathBuf,
    /// The git directory that all worktrees share, if commits are kept in git.
    pub git_dir: Option<PathBuf>,
    /// Waypost's private directory for this clone. May not exist yet.
    pub private_dir: PrivateDir,
    /// Waypost's private directory for this worktree. May not exist yet.
    pub worktree_private_dir: PathBuf,
    /// The worktree's name in the version control system, else the last component of its path.
    pub name: String,
    /// The branch checked out, if the system has branches.
    pub branch: Option<String>,
    /// The URL of the remote, without a password.
    pub remote_url: Option<String>,
    /// The default branch, as far as it is known offline.
    pub default_branch: Option<String>,
    /// The configuration in `git_dir`, as it was when the checkout was found.
    pub(crate) git_config: Arc<ConfigFile>,
}

impl Checkout {
    /// Returns the path that identifies the whole repository: its main worktree, else its shared directory.
    pub fn repository_path(&self) -> &Path {
        self.main_root.as_deref().unwrap_or(&self.shared_dir)
    }

    /// Acquires a lock in the private directory of this clone.
    pub(crate) fn lock(&self, file: &str, timeout: Duration) -> Result<FileLock> {
        // One that exists was checked when the place was resolved.
        if !self.private_dir.is_dir() {
            self.private_dir.create()?;
        }
        FileLock::acquire(&self.private_dir.join(file), timeout)
    }

    /// Returns the repository's name: `proj` for `proj/`, `proj.git/` and `proj/.bare/`.
    pub fn repository_name(&self) -> String {
        let path = self.repository_path();
        let name = path_text::name_of(path);
        match (path.parent(), self.main_root.is_none() && name.starts_with('.')) {
            (Some(parent), true) => path_text::name_of(parent),
            _ => name.strip_suffix(".git").map(str::to_owned).unwrap_or(name),
        }
    }

    /// Returns the system that manages the whole repository: jj, if jj and git share the directory.
    pub fn repository_vcs(&self) -> Vcs {
        let has_jj = self.main_root.as_ref().is_some_and(|root| root.join(".jj/repo").exists());
        if self.vcs == Vcs::Git && has_jj { Vcs::Jj } else { self.vcs }
    }

    /// Returns whether the repository is a submodule of another.
    pub fn is_submodule(&self) -> bool {
        let parts: Vec<_> = self.shared_dir.components().map(std::path::Component::as_os_str).collect();
        self.vcs == Vcs::Git && parts.windows(2).any(|pair| pair == [".git", "modules"])
    }

    /// Returns whether this is the main worktree.
    pub fn is_main(&self) -> bool {
        self.root.is_some() && self.root == self.main_root
    }
}

/// A worktree in the version control system's own list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedWorktree {
    /// Its name there.
    pub name: String,
    /// Its root. May not exist any more.
    pub path: PathBuf,
    /// The branch checked out.
    pub branch: Option<String>,
    /// Waypost's private directory for it. May not exist yet.
    pub private_dir: PathBuf,
}
