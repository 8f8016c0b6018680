//! Refuses what another user, or an author of the repository, could have prepared for this user.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use waypost_core::{Error, Result};
use waypost_workspace::Checkout;

use super::{DOT_DIR, Place};
use crate::machine::environment::WAYPOST_HOME;

impl Place {
    /// Returns the path of a file in the tracked directory, for writing.
    ///
    /// Refuses a path that a tracked symbolic link redirects out of the repository: an author of the repository must not
    /// choose which files of the user are overwritten.
    pub fn check_tracked(&self, name: &str) -> Result<PathBuf> {
        if let Some(reason) = self.unreachable_owner() {
            return Err(Error::unavailable("the tracked files of a workspace belong to its owner").because(reason));
        }
        let Some(root) = &self.home_worktree else {
            return Err(Error::invalid("there is no worktree for tracked files")
                .hint("create one first: way worktree add BRANCH"));
        };
        let dir = root.join(DOT_DIR);
        let file = dir.join(name);
        for path in [&dir, &file] {
            if path.is_symlink() && !std::fs::canonicalize(path).is_ok_and(|real| real.starts_with(root)) {
                return Err(Error::refused(format!(
                    "{} is a symbolic link that leads out of the repository",
                    path.display()
                ))
                .hint("replace the link with a regular file or directory"));
            }
        }
        Ok(file)
    }
}

/// Refuses a repository that another user owns, as git does: that user controls its configuration.
pub(crate) fn check_owner(checkout: &Checkout) -> Result<()> {
    let user = rustix::process::geteuid().as_raw();
    let linked = checkout.root.iter().filter(|_| !checkout.is_main());
    let roots = linked.chain(&checkout.main_root);
    // Each of these says where everything else is.
    let entries = roots.flat_map(|root| ["", ".git", ".jj", ".hg", ".sl", DOT_DIR].map(|name| root.join(name)));
    for path in entries.chain([checkout.shared_dir.clone()]) {
        let owner = match std::fs::symlink_metadata(&path) {
            Ok(metadata) => metadata.uid(),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
            Err(error) => return Err(Error::unavailable(format!("cannot read {}", path.display())).because(error)),
        };
        if owner != user {
            let path = path.display();
            return Err(Error::refused(format!(
                "the repository at {path} belongs to user {owner}, and you are user {user}"
            ))
            .hint("run the command as that user"));
        }
    }
    Ok(())
}

/// Refuses a user's Waypost directory that another user can replace: keys, tokens and trust are in it.
pub(super) fn check_user_dir(dir: &Path) -> Result<()> {
    let problem = waypost_fs::check_path(dir)
        .map_err(|error| Error::unavailable(format!("cannot read {}", dir.display())).because(error))?;
    match problem {
        None => Ok(()),
        Some(problem) => Err(Error::refused(format!("{} cannot be trusted: {problem}", dir.display()))
            .hint(format!("remove the access of other users, or set {WAYPOST_HOME} to another directory"))),
    }
}
