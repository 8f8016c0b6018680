//! A private directory, and the proof that this user's `way` created it.
//!
//! Everything in a private directory is believed: configuration, stores, tokens. A clone or an archive can bring such a
//! directory along, with any content. So `way` writes a random key into each private directory that it creates, and a file
//! with the key as its name into the user's Waypost directory. A private directory whose key is not there is refused. The
//! key moves with the directory and is copied with it, but no other person's directory has it.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::ops::Deref;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use waypost_core::digest::hex;
use waypost_core::{Error, Result, path_text};

use crate::{FileLock, create_private_dir, replace};

/// The file in a private directory that holds its key.
const KEY_FILE: &str = "key";
/// The directory in the user's Waypost directory with a file for each key.
const KEYS_DIR: &str = "keys";
/// The number of characters of a key: 128 random bits in hexadecimal.
const KEY_LENGTH: usize = 32;
/// The maximum time to wait for another process that creates a private directory.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// A private directory, which may not exist yet.
#[derive(Clone, Debug)]
pub struct PrivateDir {
    path: PathBuf,
    /// The user's Waypost directory, which has the keys.
    user_dir: Option<PathBuf>,
    /// Whether it is never created: see [`PrivateDir::existing`].
    must_exist: bool,
    /// Whether this process has seen its key. Clones share it.
    is_known: Arc<AtomicBool>,
}

impl PartialEq for PrivateDir {
    fn eq(&self, other: &PrivateDir) -> bool {
        (&self.path, &self.user_dir, self.must_exist) == (&other.path, &other.user_dir, other.must_exist)
    }
}

impl Eq for PrivateDir {}

impl Deref for PrivateDir {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl AsRef<Path> for PrivateDir {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

impl From<PathBuf> for PrivateDir {
    fn from(path: PathBuf) -> Self {
        PrivateDir { path, user_dir: None, must_exist: false, is_known: Arc::default() }
    }
}

impl PrivateDir {
    /// Sets the user's Waypost directory. Without one, only an empty directory is accepted.
    #[must_use]
    pub fn with_user_dir(self, user_dir: Option<PathBuf>) -> Self {
        PrivateDir { user_dir, is_known: Arc::default(), ..self }
    }

    /// Returns the same directory for a process that has used it before. If it is missing from then on, it was moved or deleted,
    /// so [`PrivateDir::create`] fails instead of creating an empty one.
    #[must_use]
    pub fn existing(self) -> Self {
        PrivateDir { must_exist: true, ..self }
    }

    /// Returns whether a process has used the directory before, and it is missing now.
    pub fn is_lost(&self) -> bool {
        self.must_exist && !self.path.exists()
    }

    /// Refuses a directory that this user's `way` did not create. One that does not exist or is empty is accepted: there is
    /// nothing in it to believe.
    pub fn check(&self) -> Result<()> {
        let shown = self.path.display();
        let metadata = match std::fs::symlink_metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) => return Err(cannot_read(&self.path, error)),
        };
        if !metadata.is_dir() {
            return Err(Error::refused(format!("{shown} is not a directory")).hint("delete it; way creates a new one"));
        }
        let us = rustix::process::geteuid().as_raw();
        if metadata.uid() != us {
            let owner = metadata.uid();
            return Err(Error::refused(format!("{shown} belongs to user {owner}, and you are user {us}"))
                .hint("run the command as that user"));
        }
        if metadata.mode() & 0o022 != 0 {
            return Err(Error::refused(format!("other users can write to {shown}"))
                .hint(format!("check what is in it, then: chmod go-w {shown}")));
        }
        // The process that creates the directory writes the key first. So if there is content, there is a key by now.
        if self.has_known_key()? || !has_content(&self.path)? || self.has_known_key()? {
            return Ok(());
        }
        self.keys()?;
        Err(Error::refused(format!("{shown} was not created by your way on this machine"))
            .hint("its settings, queued jobs and tokens may be another person's, so they are not used")
            .hint("if it is yours, for example from a backup: way init --adopt; otherwise delete it"))
    }

    /// Creates the directory with a key. Does nothing if it exists.
    pub fn create(&self) -> Result<()> {
        if (self.is_known.load(Ordering::Relaxed) && self.path.is_dir()) || self.has_known_key()? {
            return Ok(());
        }
        let _lock = self.lock_keys()?;
        self.check()?;
        if self.has_known_key()? {
            return Ok(());
        }
        if !self.must_exist {
            create_private_dir(&self.path).map_err(|error| cannot_write(&self.path, error))?;
        } else if self.is_lost() {
            let path = self.path.display();
            return Err(Error::unavailable(format!("{path} is gone: it was moved or deleted while it was in use"))
                .hint("put it back; no restart is needed"));
        }
        self.write_key()
    }

    /// Accepts an existing directory from now on.
    pub fn adopt(&self) -> Result<()> {
        let _lock = self.lock_keys()?;
        if self.path.exists() && !self.has_known_key()? { self.write_key() } else { Ok(()) }
    }

    fn lock_keys(&self) -> Result<FileLock> {
        let keys = self.keys()?;
        create_private_dir(&keys).map_err(|error| cannot_write(&keys, error))?;
        FileLock::acquire(&keys.join("lock"), LOCK_TIMEOUT)
    }

    /// Writes a new key into the directory and into the user's Waypost directory.
    fn write_key(&self) -> Result<()> {
        let mut bytes = [0; KEY_LENGTH / 2];
        let random = Path::new("/dev/urandom");
        File::open(random)
            .and_then(|mut source| source.read_exact(&mut bytes))
            .map_err(|error| cannot_read(random, error))?;
        let key = hex(&bytes);
        // The user's file first: each key in a private directory is known.
        let known = self.keys()?.join(&key);
        let path = path_text::to_text(&self.path);
        replace(&known, format!("{path}\n").as_bytes(), 0o600).map_err(|error| cannot_write(&known, error))?;
        let own = self.path.join(KEY_FILE);
        replace(&own, format!("{key}\n").as_bytes(), 0o600).map_err(|error| cannot_write(&own, error))
    }

    /// Returns whether the directory has a key that the user's Waypost directory has, too.
    fn has_known_key(&self) -> Result<bool> {
        let is_known = self.proof()?.is_some();
        self.is_known.store(is_known, Ordering::Relaxed);
        Ok(is_known)
    }

    /// Returns the file in the user's Waypost directory that proves that the user's `way` created this directory.
    pub fn proof(&self) -> Result<Option<PathBuf>> {
        let file = self.path.join(KEY_FILE);
        let key = match std::fs::read(&file) {
            Ok(key) => key,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(cannot_read(&file, error)),
        };
        let key = std::str::from_utf8(&key).ok().map(str::trim_end);
        // It becomes the name of a file, so it must not be any other text.
        let is_key = |key: &&str| key.len() == KEY_LENGTH && key.bytes().all(|byte| byte.is_ascii_hexdigit());
        let (Some(key), Ok(keys)) = (key.filter(is_key), self.keys()) else { return Ok(None) };
        let known = keys.join(key);
        match std::fs::symlink_metadata(&known) {
            Ok(metadata) => Ok(metadata.is_file().then_some(known)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(cannot_read(&known, error)),
        }
    }

    fn keys(&self) -> Result<PathBuf> {
        self.user_dir.as_ref().map(|dir| dir.join(KEYS_DIR)).ok_or_else(|| {
            Error::invalid(format!("there is no home directory with the key of {}", self.path.display()))
                .hint("set HOME or WAYPOST_HOME")
        })
    }
}

/// Returns whether a directory contains anything but the beginnings of a key.
fn has_content(dir: &Path) -> Result<bool> {
    for entry in std::fs::read_dir(dir).map_err(|error| cannot_read(dir, error))? {
        let name = entry.map_err(|error| cannot_read(dir, error))?.file_name();
        let name = name.to_string_lossy();
        if name != KEY_FILE && !name.starts_with(&format!(".{KEY_FILE}.")) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn cannot_read(path: &Path, error: std::io::Error) -> Error {
    Error::unavailable(format!("cannot read {}", path.display())).because(error)
}

fn cannot_write(path: &Path, error: std::io::Error) -> Error {
    Error::unavailable(format!("cannot write {}", path.display())).because(error)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use waypost_core::error::Kind;

    use super::*;

    fn private(at: &Path, user_dir: &Path) -> PrivateDir {
        PrivateDir::from(at.join("private")).with_user_dir(Some(user_dir.to_owned()))
    }

    fn write(path: &Path, text: &str) {
        replace(path, text.as_bytes(), 0o600).unwrap();
    }

    #[test]
    fn only_a_directory_that_this_user_created_is_accepted() {
        let scratch = tempfile::tempdir().unwrap();
        let (mine, other) = (scratch.path().join("mine"), scratch.path().join("other"));
        let dir = private(scratch.path(), &mine);
        dir.check().unwrap();
        dir.create().unwrap();
        write(&dir.join("config.toml"), "");
        dir.check().unwrap();
        dir.create().unwrap();
        let refused = private(scratch.path(), &other);
        assert_eq!(refused.check().unwrap_err().kind(), Kind::Refused);
        assert_eq!(refused.create().unwrap_err().kind(), Kind::Refused);
        assert_eq!(PrivateDir::from(dir.to_path_buf()).check().unwrap_err().kind(), Kind::Invalid);
        refused.adopt().unwrap();
        refused.check().unwrap();
    }

    #[test]
    fn a_moved_directory_and_a_copy_keep_their_key() {
        let scratch = tempfile::tempdir().unwrap();
        let home = scratch.path().join("home");
        let dir = private(scratch.path(), &home);
        dir.create().unwrap();
        let elsewhere = scratch.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        std::fs::rename(&*dir, elsewhere.join("private")).unwrap();
        write(&elsewhere.join("private/state.db"), "");
        private(&elsewhere, &home).check().unwrap();
    }

    #[test]
    fn a_directory_that_was_in_use_is_not_created_again() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = private(scratch.path(), &scratch.path().join("home"));
        dir.create().unwrap();
        let dir = dir.existing();
        dir.create().unwrap();
        let away = scratch.path().join("away");
        std::fs::rename(&*dir, &away).unwrap();
        assert!(dir.is_lost());
        assert_eq!(dir.create().unwrap_err().kind(), Kind::Unavailable);
        assert!(!dir.exists());
        std::fs::rename(&away, &*dir).unwrap();
        assert!(!dir.is_lost());
        dir.create().unwrap();
    }

    #[test]
    fn a_key_that_is_a_path_or_unknown_proves_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let home = scratch.path().join("home");
        private(scratch.path(), &home).create().unwrap();
        let hostile = scratch.path().join("hostile");
        create_private_dir(&hostile.join("private")).unwrap();
        for key in ["../lock", "lock", "", "00000000000000000000000000000000", "../../../../../../../../etc/hosts"] {
            write(&hostile.join("private/key"), key);
            write(&hostile.join("private/config.toml"), "");
            assert_eq!(private(&hostile, &home).check().unwrap_err().kind(), Kind::Refused, "{key:?}");
        }
    }

    #[test]
    fn a_link_and_a_directory_that_others_can_write_are_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let home = scratch.path().join("home");
        let dir = private(scratch.path(), &home);
        dir.create().unwrap();
        let linked = scratch.path().join("linked");
        std::fs::create_dir(&linked).unwrap();
        std::os::unix::fs::symlink(&*dir, linked.join("private")).unwrap();
        assert_eq!(private(&linked, &home).check().unwrap_err().kind(), Kind::Refused);
        std::fs::set_permissions(&*dir, std::fs::Permissions::from_mode(0o770)).unwrap();
        assert_eq!(dir.check().unwrap_err().kind(), Kind::Refused);
    }
}
