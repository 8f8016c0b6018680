//! What is known of the checkout a command stands in.

use std::path::{Path, PathBuf};

use waypost_core::model::Vcs;
use waypost_core::path_text;

/// A checkout, as found on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkout {
    /// What manages it.
    pub vcs: Vcs,
    /// The worktree we stand in; none inside a bare repository.
    pub root: Option<PathBuf>,
    /// The worktree the others were made from; none if the repository is bare.
    pub main_root: Option<PathBuf>,
    /// The version control directory that all worktrees share.
    pub shared_dir: PathBuf,
    /// The git directory behind it, that all worktrees share, if there is one.
    pub git_dir: Option<PathBuf>,
    /// Where Waypost keeps what is private to this clone. May not exist yet.
    pub private_dir: PathBuf,
    /// Where Waypost keeps what is private to this worktree. May not exist yet.
    pub worktree_private_dir: PathBuf,
    /// What the version control calls this worktree, else the last component of its path.
    pub name: String,
    /// The branch checked out, where there is such a thing.
    pub branch: Option<String>,
    /// Where the repository is fetched from, without any password.
    pub remote_url: Option<String>,
    /// The branch others build on, as far as that is known offline.
    pub default_branch: Option<String>,
}

impl Checkout {
    /// Returns a path that stands for the repository as a whole.
    pub fn repository_path(&self) -> &Path {
        self.main_root.as_deref().unwrap_or(&self.shared_dir)
    }

    /// Returns what people call the repository: `proj` for `proj/`, `proj.git/` and `proj/.bare/`.
    pub fn repository_name(&self) -> String {
        let path = self.repository_path();
        let name = path_text::name_of(path);
        match (path.parent(), self.main_root.is_none() && name.starts_with('.')) {
            (Some(parent), true) => path_text::name_of(parent),
            _ => name.strip_suffix(".git").map(str::to_owned).unwrap_or(name),
        }
    }

    /// Returns what manages the repository as a whole: jj, if it shares the directory with git.
    pub fn repository_vcs(&self) -> Vcs {
        let has_jj = self.main_root.as_ref().is_some_and(|root| root.join(".jj/repo").exists());
        if self.vcs == Vcs::Git && has_jj { Vcs::Jj } else { self.vcs }
    }

    /// Tells whether the repository is a submodule of another.
    pub fn is_submodule(&self) -> bool {
        let parts: Vec<_> = self.shared_dir.components().map(std::path::Component::as_os_str).collect();
        self.vcs == Vcs::Git && parts.windows(2).any(|pair| pair == [".git", "modules"])
    }

    /// Tells whether we stand in the main worktree.
    pub fn is_main(&self) -> bool {
        self.root.is_some() && self.root == self.main_root
    }
}

/// A worktree in the version control's own list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// What the version control calls it.
    pub name: String,
    /// Its root. May be gone.
    pub path: PathBuf,
    /// The branch checked out.
    pub branch: Option<String>,
    /// Where Waypost keeps what is private to it. May not exist yet.
    pub private_dir: PathBuf,
}
