//! Facts about a checkout that are read from the repository's files.

use std::path::{Path, PathBuf};

use waypost_core::ledger::role::Remote;
use waypost_core::model::Vcs;

use super::checkout::{Checkout, ListedWorktree};
use super::{git_layout, hg_layout, jj_layout};

impl Checkout {
    /// Returns the root of the worktree that holds the ledger and the shared configuration.
    ///
    /// This is the main worktree. A bare repository has none, so it is the one with the default branch checked out,
    /// else the current one.
    pub fn home(&self) -> Option<PathBuf> {
        if let Some(main) = &self.main_root {
            return Some(main.clone());
        }
        let default = self.default_branch.as_deref();
        self.worktrees()
            .into_iter()
            .find(|listed| default.is_some() && listed.branch.as_deref() == default && listed.path.is_dir())
            .map(|listed| listed.path)
            .or_else(|| self.root.clone())
    }

    /// Returns the branch that git has checked out in the main worktree, or `HEAD` if it is a commit. None without git, and
    /// under jj, which has no current branch.
    pub fn main_branch(&self) -> Option<String> {
        let is_git = self.vcs == Vcs::Git && self.main_root.is_some();
        let branch = || if self.is_main() { self.branch.clone() } else { git_layout::branch(&self.shared_dir) };
        is_git.then(|| branch().unwrap_or_else(|| "HEAD".to_owned()))
    }

    /// Returns the user's name from the configuration files of the version control system; under jj also from git's.
    pub fn user_name(&self, home: Option<&Path>) -> Option<String> {
        let own = match self.vcs {
            Vcs::Jj => jj_layout::user_name(&self.shared_dir, home),
            Vcs::Hg | Vcs::Sl => hg_layout::user_name(self, home),
            Vcs::Git | Vcs::None => None,
        };
        let key = "user.name";
        let in_git = || self.git_setting(key).or_else(|| git_layout::setting(self.git_dir.as_deref()?, home, key));
        own.or_else(in_git).filter(|name| !name.is_empty())
    }

    /// Returns the remotes of the repository.
    pub fn remotes(&self) -> Vec<Remote> {
        if self.git_dir.is_some() {
            return git_layout::remotes(&self.git_config);
        }
        let remote = |url: &String| Remote { name: "origin".to_owned(), url: url.clone(), push_url: None };
        self.remote_url.iter().map(remote).collect()
    }

    /// Returns the value of a key in the repository's own git configuration.
    pub fn git_setting(&self, key: &str) -> Option<String> {
        self.git_config.get(key).map(str::to_owned)
    }

    /// Lists the worktrees that the version control system has on record, and this one.
    ///
    /// Mercurial and Sapling do not keep such a list.
    pub fn worktrees(&self) -> Vec<ListedWorktree> {
        let mut listed = match self.vcs {
            Vcs::Git => git_layout::worktrees(&self.shared_dir, self.main_root.as_deref()),
            Vcs::Jj => jj_layout::workspaces(&self.shared_dir),
            Vcs::Hg | Vcs::Sl | Vcs::None => Vec::new(),
        };
        if let Some(root) = &self.root
            && !listed.iter().any(|listed| listed.path == *root)
        {
            listed.push(ListedWorktree {
                name: self.name.clone(),
                path: root.clone(),
                branch: self.branch.clone(),
                private_dir: self.worktree_private_dir.clone(),
            });
        }
        listed
    }
}
