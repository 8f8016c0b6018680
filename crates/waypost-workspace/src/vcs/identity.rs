//! The ids of a repository and its worktrees, generated once and stored in the version control directory.
//!
//! A worktree's id is stored in git's (or jj's, hg's, sl's) directory for that worktree. So it moves with the worktree,
//! is deleted with it, and is the same under every mount point.

use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use super::checkout::Checkout;
use waypost_core::id::{Entropy, RepositoryId, WorktreeId};
use waypost_core::{Error, Result};
use waypost_fs::{FileLock, PrivateDir, create_private_dir, read_small_file, replace};

const REPOSITORY: &str = "repository-id";
const WORKTREE: &str = "worktree-id";
const ADOPTED: &str = "adopted";
/// The maximum time to wait for another process that writes an id.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the id stored in a repository's private directory.
pub fn repository_id(private_dir: &Path) -> Result<Option<RepositoryId>> {
    read(&private_dir.join(REPOSITORY))
}

/// Returns the id stored in a worktree's private directory.
pub fn worktree_id(worktree_private_dir: &Path) -> Result<Option<WorktreeId>> {
    read(&worktree_private_dir.join(WORKTREE))
}

/// Returns whether a worktree's private directory holds an id.
pub(crate) fn has_worktree_id(worktree_private_dir: &Path) -> bool {
    worktree_private_dir.join(WORKTREE).exists()
}

impl Checkout {
    /// Returns the repository's id, generating it on first use. Concurrent callers get the same id.
    pub fn ensure_repository_id(&self, entropy: &mut dyn Entropy) -> Result<RepositoryId> {
        if self.private_dir.is_known()
            && let Some(id) = repository_id(&self.private_dir)?
        {
            return Ok(id);
        }
        self.private_dir.create()?;
        ensure(&self.private_dir, REPOSITORY, || RepositoryId::generate(entropy))
    }

    /// Returns the worktree's id, generating it on first use. Concurrent callers get the same id.
    pub fn ensure_worktree_id(&self, entropy: &mut dyn Entropy) -> Result<WorktreeId> {
        if self.private_dir.is_known()
            && let Some(id) = worktree_id(&self.worktree_private_dir)?
        {
            return Ok(id);
        }
        self.private_dir.create()?;
        if self.worktree_private_dir != *self.private_dir {
            return ensure_worktree_id(&self.worktree_private_dir, entropy);
        }
        ensure(&self.private_dir, WORKTREE, || WorktreeId::generate(entropy))
    }
}

/// Returns the repository's id in the user's directory, generating it on first use.
pub fn ensure_repository_id(private_dir: &Path, entropy: &mut dyn Entropy) -> Result<RepositoryId> {
    create(private_dir)?;
    ensure(private_dir, REPOSITORY, || RepositoryId::generate(entropy))
}

/// Gives a clone the id of the repository it was cloned from. A clone that has an id keeps it.
pub fn adopt_repository_id(private_dir: &PrivateDir, id: &RepositoryId) -> Result<RepositoryId> {
    private_dir.create()?;
    let known = ensure(private_dir, REPOSITORY, || id.clone())?;
    write(&private_dir.join(ADOPTED), known.as_str())?;
    Ok(known)
}

/// Returns whether a clone uses the id of the repository it was cloned from.
pub fn is_adopted(private_dir: &Path) -> bool {
    private_dir.join(ADOPTED).exists()
}

/// Returns the worktree's id in its own or the user's directory, generating it on first use.
pub fn ensure_worktree_id(worktree_private_dir: &Path, entropy: &mut dyn Entropy) -> Result<WorktreeId> {
    create(worktree_private_dir)?;
    ensure(worktree_private_dir, WORKTREE, || WorktreeId::generate(entropy))
}

/// Replaces damaged ids with known ones. Valid ids stay.
pub fn restore_ids(
    private_dir: &Path,
    repository: &RepositoryId,
    worktree_private_dir: &Path,
    worktree: &WorktreeId,
) -> Result<()> {
    for (dir, name, id, is_damaged) in [
        (private_dir, REPOSITORY, repository.as_str(), repository_id(private_dir).is_err()),
        (worktree_private_dir, WORKTREE, worktree.as_str(), worktree_id(worktree_private_dir).is_err()),
    ] {
        if is_damaged {
            let _lock = FileLock::acquire(&dir.join("lock"), LOCK_TIMEOUT)?;
            write(&dir.join(name), id)?;
        }
    }
    Ok(())
}

/// Gives a copied repository new ids in place of the copied ones. Concurrent callers get the same ids.
pub fn renew_ids(
    private_dir: &Path,
    repository: &RepositoryId,
    worktree_private_dir: &Path,
    worktree: &WorktreeId,
    entropy: &mut dyn Entropy,
) -> Result<(RepositoryId, WorktreeId)> {
    let repository = renew(private_dir, REPOSITORY, repository, || RepositoryId::generate(entropy))?;
    let worktree = renew(worktree_private_dir, WORKTREE, worktree, || WorktreeId::generate(entropy))?;
    Ok((repository, worktree))
}

fn renew<T: FromStr + Display + PartialEq>(dir: &Path, name: &str, old: &T, generate: impl FnOnce() -> T) -> Result<T> {
    let path = dir.join(name);
    let _lock = FileLock::acquire(&dir.join("lock"), LOCK_TIMEOUT)?;
    match read(&path)? {
        Some(id) if id != *old => Ok(id),
        _ => write(&path, generate()),
    }
}

fn write<T: Display>(path: &Path, id: T) -> Result<T> {
    replace(path, format!("{id}\n").as_bytes(), 0o600)
        .map_err(|error| Error::unavailable(format!("cannot write {}", path.display())).because(error))?;
    Ok(id)
}

fn read<T: FromStr>(path: &Path) -> Result<Option<T>> {
    match read_small_file(path)? {
        Some(content) => {
            let id = std::str::from_utf8(&content).ok().and_then(|text| text.trim_end().parse().ok());
            id.map(Some).ok_or_else(|| {
                Error::damaged(format!("{} does not hold an id", path.display()))
                    .hint("way doctor --fix restores it from the store")
            })
        }
        None => Ok(None),
    }
}

fn create(dir: &Path) -> Result<()> {
    create_private_dir(dir)
        .map_err(|error| Error::unavailable(format!("cannot create {}", dir.display())).because(error))
}

/// Returns the id in an existing directory, generating it on first use.
fn ensure<T: FromStr + Display>(dir: &Path, name: &str, generate: impl FnOnce() -> T) -> Result<T> {
    let path = dir.join(name);
    if let Some(id) = read(&path)? {
        return Ok(id);
    }
    let _lock = FileLock::acquire(&dir.join("lock"), LOCK_TIMEOUT)?;
    if let Some(id) = read(&path)? {
        return Ok(id);
    }
    write(&path, generate())
}
