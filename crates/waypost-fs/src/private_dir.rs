//! A private directory, and the proof that this user's `way` created it here.
//!
//! Everything in a private directory is believed: configuration, stores, tokens. A clone or an archive can bring such a
//! directory along, with any content. So `way` writes a random key into each private directory that it creates, and a file
//! with the key as its name into the user's Waypost directory. That file says which directory has the key: its path, and
//! where the file system has numbers that last, its number and that of its inode. A private directory whose key is not
//! there, or is that of another directory, is refused. So a key that a job reads and copies proves nothing.
//!
//! The user's own moves and copies are refused too, until they adopt the directory. That adds a line to the file of its key.
//! Homes do not share these files: each home of a user that adopts a directory knows it from then on, and the others still do.

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

use crate::fs_type::has_lasting_numbers;
use crate::{FileLock, create_private_dir, read_small_file, rename_new, replace};

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
    /// Where it was before git managed the repository.
    former: Option<PathBuf>,
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
        PrivateDir { path, former: None, user_dir: None, must_exist: false, is_known: Arc::default() }
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

    /// Returns whether this process has seen that this user's `way` created the directory.
    pub fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// Sets where the directory was before git managed the repository, as long as it does not exist itself.
    #[must_use]
    pub fn with_former(self, former: Option<PathBuf>) -> Self {
        PrivateDir { former, ..self }
    }

    /// Refuses a directory that this user's `way` did not create here. One that does not exist or is empty is accepted: there
    /// is nothing in it to believe.
    pub fn check(&self) -> Result<()> {
        let shown = self.path.display();
        let metadata = match std::fs::symlink_metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(error) if is_absent(&error) => return self.check_former(),
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
        if self.is_proved()? || !has_content(&self.path)? || self.is_proved()? {
            return Ok(());
        }
        self.keys()?;
        let known = self.own_key()?.map(|key| self.lines_of(&key)).transpose()?.unwrap_or_default();
        Err(match known.lines().next().map(shown_path) {
            Some(there) => {
                Error::refused(format!("{shown} is not the directory that your way knows: its key is that of {there}"))
                    .hint("if you moved or copied it, or restored a backup: way init --adopt; otherwise delete it")
            }
            None => Error::refused(format!("{shown} was not created by your way on this machine"))
                .hint("its settings, queued jobs and tokens may be another person's, so they are not used")
                .hint("if it is yours, for example from a backup: way init --adopt; otherwise delete it"),
        })
    }

    /// Refuses to begin without the state that is still in the former directory.
    fn check_former(&self) -> Result<()> {
        let Some(former) = self.former.as_ref().filter(|former| former.symlink_metadata().is_ok()) else {
            return Ok(());
        };
        Err(Error::refused(format!("the state of this repository is in {}", former.display()))
            .because(format!("where git manages a repository, only {} is used", self.path.display()))
            .hint("if it is yours, way init --adopt moves it there; otherwise delete it"))
    }

    /// Creates the directory with a key. Does nothing if it exists.
    pub fn create(&self) -> Result<()> {
        if (self.is_known() && self.path.is_dir()) || self.is_proved()? {
            return Ok(());
        }
        let _lock = self.lock_keys()?;
        self.check()?;
        if self.is_proved()? {
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

    /// Accepts an existing directory from now on. Moves it there from the former one. Its key stays: other homes know it.
    pub fn adopt(&self) -> Result<()> {
        let _lock = self.lock_keys()?;
        if let (Some(former), false) = (&self.former, self.path.symlink_metadata().is_ok())
            && former.is_dir()
        {
            rename_new(former, &self.path).map_err(|error| cannot_write(&self.path, error))?;
        }
        match self.own_key()? {
            _ if !self.path.exists() || self.is_proved()? => Ok(()),
            Some(key) => self.add_line(&key),
            None => self.write_key(),
        }
    }

    /// Returns where the directory is now, if it is still the former one.
    pub fn or_former(&self) -> &Path {
        let is_there = |path: &&PathBuf| path.symlink_metadata().is_ok();
        self.former.as_ref().filter(|former| !is_there(&&self.path) && is_there(former)).unwrap_or(&self.path)
    }

    /// Returns every private directory that the keys in a user's Waypost directory belong to. They need not exist.
    pub fn all_of(user_dir: &Path) -> Vec<PathBuf> {
        let keys = std::fs::read_dir(user_dir.join(KEYS_DIR)).into_iter().flatten().flatten();
        let files = keys.filter(|key| key.file_name().to_str().is_some_and(is_key));
        let texts = files.filter_map(|key| std::fs::read_to_string(key.path()).ok());
        texts.flat_map(|text| text.lines().map(path_of).collect::<Vec<_>>()).collect()
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
        self.add_line(&key)?;
        let own = self.path.join(KEY_FILE);
        replace(&own, format!("{key}\n").as_bytes(), 0o600).map_err(|error| cannot_write(&own, error))
    }

    /// Records that this directory has a key.
    fn add_line(&self, key: &str) -> Result<()> {
        let known = self.keys()?.join(key);
        let lines = format!("{}{}\n", self.lines_of(key)?, self.line()?);
        replace(&known, lines.as_bytes(), 0o600).map_err(|error| cannot_write(&known, error))
    }

    /// Returns whether the user's Waypost directory says that this directory has the key that is in it.
    fn is_proved(&self) -> Result<bool> {
        let is_known = match self.own_key()? {
            Some(key) => {
                let lines = self.lines_of(&key)?;
                let has = |wanted: &str| lines.lines().any(|line| line == wanted);
                // A line from a file system without lasting numbers is the path alone.
                has(&line_of(&self.path, None)) || (!lines.is_empty() && has(&self.line_with_numbers()?))
            }
            None => false,
        };
        self.is_known.store(is_known, Ordering::Relaxed);
        Ok(is_known)
    }

    /// Returns the key in the directory, if there is one.
    fn own_key(&self) -> Result<Option<String>> {
        let key = read_small_file(&self.path.join(KEY_FILE))?;
        let key = key.and_then(|key| String::from_utf8(key).ok()).map(|key| key.trim_end().to_owned());
        // It becomes the name of a file, so it must not be any other text.
        Ok(key.filter(|key| is_key(key)))
    }

    /// Returns the lines in the user's Waypost directory that say which directories have a key.
    fn lines_of(&self, key: &str) -> Result<String> {
        let Ok(keys) = self.keys() else { return Ok(String::new()) };
        let lines = read_small_file(&keys.join(key))?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&lines).into_owned())
    }

    /// Returns the line that means this directory, which exists.
    fn line(&self) -> Result<String> {
        let has_lasting_numbers = has_lasting_numbers(&self.path).map_err(|error| cannot_read(&self.path, error))?;
        if has_lasting_numbers { self.line_with_numbers() } else { Ok(line_of(&self.path, None)) }
    }

    fn line_with_numbers(&self) -> Result<String> {
        // Not the number of the device, which is that of the order in which devices were found.
        let numbers = rustix::fs::statvfs(&self.path)
            .map_err(std::io::Error::from)
            .and_then(|facts| Ok((facts.f_fsid, std::fs::symlink_metadata(&self.path)?.ino())));
        Ok(line_of(&self.path, Some(numbers.map_err(|error| cannot_read(&self.path, error))?)))
    }

    fn keys(&self) -> Result<PathBuf> {
        self.user_dir.as_ref().map(|dir| dir.join(KEYS_DIR)).ok_or_else(|| {
            Error::invalid(format!("there is no home directory with the key of {}", self.path.display()))
                .hint("set HOME or WAYPOST_HOME")
        })
    }
}

fn is_key(text: &str) -> bool {
    text.len() == KEY_LENGTH && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the line of a directory: `DEVICE:INODE PATH`, or its path alone. Backslashes and newlines in the path are escaped.
fn line_of(path: &Path, numbers: Option<(u64, u64)>) -> String {
    let path = path_text::to_text(path).replace('\\', "\\\\").replace('\n', "\\n");
    match numbers {
        Some((device, inode)) => format!("{device:x}:{inode} {path}"),
        None => path,
    }
}

/// Returns the path in a line as it was escaped.
fn shown_path(line: &str) -> &str {
    let is_path = line.starts_with('/') || line.starts_with("file:");
    line.split_once(' ').filter(|_| !is_path).map_or(line, |(_, path)| path)
}

/// Returns the path in a line.
fn path_of(line: &str) -> PathBuf {
    let mut path = String::new();
    let mut chars = shown_path(line).chars();
    while let Some(char) = chars.next() {
        match (char, chars.clone().next()) {
            ('\\', Some('n')) => {
                path.push('\n');
                chars.next();
            }
            ('\\', Some(_)) => path.extend(chars.next()),
            _ => path.push(char),
        }
    }
    path_text::from_text(&path)
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
    fn a_key_proves_nothing_about_a_moved_directory_a_copy_or_one_in_the_same_place() {
        let scratch = tempfile::tempdir().unwrap();
        let (home, elsewhere, copy) =
            (scratch.path().join("home"), scratch.path().join("elsewhere"), scratch.path().join("copy"));
        let dir = private(scratch.path(), &home);
        dir.create().unwrap();
        write(&dir.join("state.db"), "");
        let key = std::fs::read(dir.join(KEY_FILE)).unwrap();
        let refused = |at: &Path| {
            let error = private(at, &home).check().unwrap_err();
            assert_eq!(error.kind(), Kind::Refused);
            assert!(error.to_string().contains("is not the directory that your way knows"), "{error}");
        };
        create_private_dir(&copy.join("private")).unwrap();
        replace(&copy.join("private/key"), &key, 0o600).unwrap();
        write(&copy.join("private/config.toml"), "");
        refused(&copy);
        std::fs::create_dir(&elsewhere).unwrap();
        std::fs::rename(&*dir, elsewhere.join("private")).unwrap();
        refused(&elsewhere);
        // The copy takes its place.
        std::fs::rename(copy.join("private"), &*dir).unwrap();
        refused(scratch.path());
        // The user accepts both. The one in the old place is known then, and is still the only one there.
        private(&elsewhere, &home).adopt().unwrap();
        private(&elsewhere, &home).check().unwrap();
        dir.adopt().unwrap();
        dir.check().unwrap();
        assert_eq!(PrivateDir::all_of(&home), [dir.to_path_buf(), elsewhere.join("private"), dir.to_path_buf()]);
    }

    #[test]
    fn a_home_that_adopts_a_directory_locks_no_other_home_out() {
        let scratch = tempfile::tempdir().unwrap();
        let homes = ["one", "two", "three"].map(|home| scratch.path().join(home));
        private(scratch.path(), &homes[0]).create().unwrap();
        write(&scratch.path().join("private/state.db"), "");
        for home in &homes[1..] {
            assert_eq!(private(scratch.path(), home).check().unwrap_err().kind(), Kind::Refused);
            private(scratch.path(), home).adopt().unwrap();
        }
        for home in &homes {
            private(scratch.path(), home).check().unwrap();
        }
    }

    #[test]
    fn a_file_system_without_lasting_numbers_is_known_by_the_path() {
        let scratch = tempfile::tempdir().unwrap();
        let home = scratch.path().join("home");
        let dir = private(scratch.path(), &home);
        dir.create().unwrap();
        write(&dir.join("state.db"), "");
        let known = home.join(KEYS_DIR).join(dir.own_key().unwrap().unwrap());
        write(&known, &format!("{}\n", line_of(&dir, None)));
        dir.check().unwrap();
        write(&known, &format!("{}\n", line_of(&dir, Some((1, 1)))));
        assert_eq!(dir.check().unwrap_err().kind(), Kind::Refused);
    }

    #[test]
    fn a_former_directory_is_moved_on_request_and_never_ignored() {
        let scratch = tempfile::tempdir().unwrap();
        let home = scratch.path().join("home");
        let former = private(&scratch.path().join("former"), &home);
        former.create().unwrap();
        write(&former.join("state.db"), "kept");
        let dir = private(scratch.path(), &home).with_former(Some(former.to_path_buf()));
        assert_eq!((dir.check().unwrap_err().kind(), dir.create().unwrap_err().kind()), (Kind::Refused, Kind::Refused));
        assert_eq!(dir.or_former(), &*former);
        dir.adopt().unwrap();
        dir.check().unwrap();
        assert_eq!(std::fs::read(dir.join("state.db")).unwrap(), b"kept");
        // Another one in the former place is nothing.
        former.with_user_dir(Some(scratch.path().join("other"))).create().unwrap();
        dir.check().unwrap();
        assert_eq!(dir.or_former(), &*dir);
    }

    #[test]
    fn the_path_of_a_line_is_the_path_that_was_written() {
        for path in ["/a b/c", "/a\nb", "/a\\nb", "/a\\\nb\\", "/", "/dead:1 x"] {
            for numbers in [None, Some((0xbeef, 12))] {
                let line = line_of(Path::new(path), numbers);
                assert!(!line.contains('\n'));
                assert_eq!(path_of(&line), Path::new(path), "{line:?}");
            }
        }
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
