//! Writes of several processes that become durable together.
//!
//! While other processes wait for the lock, a writer does not sync its version: it puts it in place, lets the others write,
//! and takes a second turn. The first process with a second turn syncs the file for all of them. A write is acknowledged only
//! after that.
//!
//! Until then a power cut may leave any part of the new versions. So the last durable version keeps a second name, and the
//! newest one that is not durable another: after a restart, the durable version gets its place back, unless another program
//! has replaced the file meanwhile.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use waypost_fs::{boot_id, sync_dir};

use crate::intents::remove;

/// The files of a group, beside the lock that guards them.
pub(crate) struct Group {
    /// The last durable version of the ledger. It exists while the group is open.
    base: PathBuf,
    /// The newest version, which is not durable.
    next: PathBuf,
    state: PathBuf,
}

/// What is known about the open group.
struct State {
    boot: String,
    id: String,
    ledger: PathBuf,
}

impl Group {
    pub(crate) fn beside(lock: &Path) -> Group {
        let file = |extension| lock.with_extension(extension);
        Group { base: file("base"), next: file("next"), state: file("group") }
    }

    /// Returns the name that the newest version gets before it is put in place.
    pub(crate) fn next(&self) -> &Path {
        &self.next
    }

    fn is_open(&self) -> bool {
        self.base.symlink_metadata().is_ok()
    }

    /// Joins the open group or begins one, and returns its id. Returns None if writes cannot be grouped here. The caller
    /// holds the lock.
    pub(crate) fn join(&self, ledger: &Path) -> Option<String> {
        let boot = boot_id()?;
        let ledger = fs::canonicalize(ledger).ok()?;
        if self.is_open() {
            let state = self.read_state();
            if let Some(state) = state.filter(|state| state.ledger == ledger && is_same_file(&ledger, &self.next)) {
                return Some(state.id);
            }
            // It is of another ledger, or another program has replaced the file.
            self.sync(&ledger).ok()?;
        }
        let id = new_id();
        let began = (|| {
            File::open(&ledger)?.sync_all()?;
            self.write_state(&State { boot: boot.to_owned(), id: id.clone(), ledger: ledger.clone() })?;
            fs::hard_link(&ledger, &self.base)?;
            sync_dir(&self.base)
        })();
        if began.is_err() {
            let _ = self.remove();
            return None;
        }
        Some(id)
    }

    /// Returns whether the writes of a group are durable. The caller holds the lock.
    pub(crate) fn is_synced(&self, id: &str) -> bool {
        !self.is_open() || self.read_state().is_some_and(|state| state.id != id)
    }

    /// Makes the writes of the open group durable, and closes it. The caller holds the lock.
    pub(crate) fn sync(&self, ledger: &Path) -> io::Result<()> {
        let ledger = self.read_state().map_or_else(|| ledger.to_owned(), |state| state.ledger);
        match File::open(&ledger) {
            Ok(file) => file.sync_all().and_then(|()| sync_dir(&ledger))?,
            // Another program has removed it.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        self.remove()?;
        sync_dir(&self.base)
    }

    /// Makes the writes of the open group durable, if one is open, and closes it. The caller holds the lock.
    pub(crate) fn sync_if_open(&self, ledger: &Path) -> io::Result<()> {
        if self.is_open() { self.sync(ledger) } else { Ok(()) }
    }

    /// Closes the open group after a durable write of the same ledger, which contains its writes.
    pub(crate) fn close(&self, ledger: &Path) {
        if self.is_open() && self.read_state().is_some_and(|state| is_same_file(&state.ledger, ledger)) {
            // A name that stays, or comes back after a power cut, does no harm: the ledger is another file.
            let _ = self.remove();
        }
    }

    /// Returns whether a power cut may have damaged the ledger.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.is_open() && self.read_state().is_none_or(|state| boot_id() != Some(state.boot.as_str()))
    }

    /// Puts the durable version back after a power cut. The caller holds the lock.
    pub(crate) fn recover(&self, ledger: &Path) -> io::Result<()> {
        if !self.is_interrupted() {
            return Ok(());
        }
        let ledger = self.read_state().map_or_else(|| ledger.to_owned(), |state| state.ledger);
        if is_same_file(&ledger, &self.next) {
            let aside = self.next.with_extension("unsynced");
            remove(&aside)?;
            fs::rename(&self.next, &aside)?;
            let mut name = std::ffi::OsString::from(".");
            name.push(ledger.file_name().ok_or(ErrorKind::InvalidInput)?);
            name.push(format!(".{}-0.tmp", std::process::id()));
            let temporary = ledger.with_file_name(name);
            remove(&temporary)?;
            fs::hard_link(&self.base, &temporary)?;
            fs::rename(&temporary, &ledger)?;
            sync_dir(&ledger)?;
        }
        self.remove()?;
        sync_dir(&self.base)
    }

    /// Removes the names of the versions. The base is last: as long as it exists, the group is open.
    fn remove(&self) -> io::Result<()> {
        remove(&self.next)?;
        remove(&self.base)
    }

    fn read_state(&self) -> Option<State> {
        let content = fs::read(&self.state).ok()?;
        let mut parts = content.splitn(3, |byte| *byte == b'\n');
        let mut text = || parts.next().and_then(|part| String::from_utf8(part.to_vec()).ok());
        let (boot, id) = (text()?, text()?);
        let ledger = PathBuf::from(std::ffi::OsString::from_vec(parts.next()?.to_vec()));
        Some(State { boot, id, ledger })
    }

    fn write_state(&self, state: &State) -> io::Result<()> {
        let State { boot, id, ledger } = state;
        write(&self.state, &[boot.as_bytes(), b"\n", id.as_bytes(), b"\n", ledger.as_os_str().as_bytes()].concat())
    }
}

/// Changes that several processes appended to one ledger, and that become durable together.
///
/// They need no durable version to return to: after a power cut, the ledger has some of them, and none was acknowledged.
pub(crate) struct AppendGroup {
    /// Has the id of the group and the path of the ledger. It exists while the group is open.
    state: PathBuf,
}

impl AppendGroup {
    pub(crate) fn beside(lock: &Path) -> AppendGroup {
        AppendGroup { state: lock.with_extension("appended") }
    }

    /// Joins the open group or begins one, and returns its id. The caller holds the lock.
    pub(crate) fn join(&self, ledger: &Path) -> io::Result<String> {
        if let Some((id, _)) = read_group(&self.state).filter(|(_, open)| is_same_file(open, ledger)) {
            return Ok(id);
        }
        // It is of another ledger.
        self.sync_if_open()?;
        let id = new_id();
        write_group(&self.state, &id, &fs::canonicalize(ledger)?)?;
        Ok(id)
    }

    /// Returns whether the changes of a group are durable. The caller holds the lock.
    pub(crate) fn is_synced(&self, id: &str) -> bool {
        read_group(&self.state).is_none_or(|(open, _)| open != id)
    }

    /// Makes the changes of the open group durable, and closes it. The caller holds the lock.
    pub(crate) fn sync_if_open(&self) -> io::Result<()> {
        let Some((_, ledger)) = read_group(&self.state) else { return remove(&self.state) };
        match File::open(&ledger) {
            // A name, too, if another program has replaced the file and kept the changes.
            Ok(file) => file.sync_all().and_then(|()| sync_dir(&ledger))?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        remove(&self.state)
    }

    /// Closes the open group after a durable write of the same ledger, which contains its changes.
    pub(crate) fn close(&self, ledger: &Path) {
        if read_group(&self.state).is_some_and(|(_, open)| is_same_file(&open, ledger)) {
            // If it stays open, the next process syncs once more.
            let _ = remove(&self.state);
        }
    }
}

/// A group that could not be synced. The system reports that once, so no other process may sync the same file again and
/// believe it; only a new file makes the writes durable.
pub(crate) struct FailedGroup(PathBuf);

impl FailedGroup {
    pub(crate) fn beside(lock: &Path) -> FailedGroup {
        FailedGroup(lock.with_extension("failed"))
    }

    /// Records the id of a group of writes to a ledger.
    pub(crate) fn record(&self, id: &str, ledger: &Path) {
        // If not even this can be written, every later sync fails as well, most likely.
        let _ = write_group(&self.0, id, ledger);
    }

    pub(crate) fn exists(&self) -> bool {
        self.0.symlink_metadata().is_ok()
    }

    /// Returns whether it is this group.
    pub(crate) fn is(&self, id: &str) -> bool {
        read_group(&self.0).is_some_and(|(failed, _)| failed == id)
    }

    /// Forgets it, after a durable replacement of its ledger.
    pub(crate) fn clear(&self, ledger: &Path) {
        if self.exists() && read_group(&self.0).is_none_or(|(_, failed)| failed == ledger) {
            let _ = remove(&self.0);
        }
    }
}

/// Writes the id of a group, and the ledger that it is of, to a file.
fn write_group(file: &Path, id: &str, ledger: &Path) -> io::Result<()> {
    write(file, &[id.as_bytes(), b"\n", ledger.as_os_str().as_bytes()].concat())
}

/// Reads what [`write_group`] wrote. None if there is no such file.
fn read_group(file: &Path) -> Option<(String, PathBuf)> {
    let content = fs::read(file).ok()?;
    let end = content.iter().position(|byte| *byte == b'\n')?;
    let id = String::from_utf8(content[..end].to_vec()).ok()?;
    Some((id, PathBuf::from(std::ffi::OsString::from_vec(content[end + 1..].to_vec()))))
}

fn write(file: &Path, content: &[u8]) -> io::Result<()> {
    let options = &mut OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).open(file)?.write_all(content)
}

/// Returns an id that no other group of this boot has.
fn new_id() -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let process = std::process::id();
    let start = waypost_fs::process_start(process).unwrap_or_default();
    format!("{process}-{start}-{}", COUNTER.fetch_add(1, Ordering::Relaxed))
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
    identity(one).is_some_and(|one| identity(other) == Some(one))
}

#[cfg(test)]
mod tests {
    use waypost_fs::{Durability, Part, Replaced, read_version, replace, replace_with};

    use super::*;

    /// A ledger with one durable version.
    struct Scene {
        dir: tempfile::TempDir,
        ledger: PathBuf,
        group: Group,
    }

    impl Scene {
        fn new() -> Scene {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir(dir.path().join("private")).unwrap();
            let (ledger, group) =
                (dir.path().join("issues.jsonl"), Group::beside(&dir.path().join("private/ledger.lock")));
            replace(&ledger, b"durable\n", 0o600).unwrap();
            Scene { dir, ledger, group }
        }

        /// Writes a version that is not durable. Returns its group.
        fn write(&self, content: &str) -> String {
            let id = self.group.join(&self.ledger).unwrap();
            let (_, seen) = read_version(&self.ledger).unwrap();
            let later = Durability::Later(self.group.next());
            let replaced = replace_with(&seen, &[Part::Bytes(content.as_bytes())], 0o600, later).unwrap();
            assert!(matches!(replaced, Replaced::Done(_)), "{replaced:?}");
            id
        }

        fn content(&self) -> String {
            fs::read_to_string(&self.ledger).unwrap()
        }

        /// Makes the group one of an earlier boot.
        fn restart(&self) {
            let state = self.group.read_state().unwrap();
            self.group.write_state(&State { boot: "earlier".to_owned(), ..state }).unwrap();
        }

        /// Returns the names in both directories.
        fn names(&self) -> Vec<String> {
            let dirs = [self.dir.path().to_owned(), self.dir.path().join("private")];
            let entries = dirs.iter().flat_map(|dir| fs::read_dir(dir).unwrap());
            let mut names: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned()).collect();
            names.sort();
            names
        }
    }

    #[test]
    fn writes_of_a_group_are_synced_once_for_all() {
        let scene = Scene::new();
        let first = scene.write("one\n");
        assert_eq!(scene.write("two\n"), first, "the second write joins the group");
        assert!(!scene.group.is_synced(&first) && !scene.group.is_interrupted());
        assert_eq!(fs::read_to_string(&scene.group.base).unwrap(), "durable\n");
        scene.group.sync(&scene.ledger).unwrap();
        assert!(scene.group.is_synced(&first));
        assert_eq!((scene.content().as_str(), scene.names()), ("two\n", names(&["ledger.group"])));
        let second = scene.write("three\n");
        assert!(scene.group.is_synced(&first) && !scene.group.is_synced(&second));
        assert_eq!(fs::read_to_string(&scene.group.base).unwrap(), "two\n");
        // A durable write contains those of the group.
        replace(&scene.ledger, b"four\n", 0o600).unwrap();
        scene.group.close(&scene.ledger);
        assert!(scene.group.is_synced(&second));
    }

    fn names(more: &[&str]) -> Vec<String> {
        let mut names: Vec<String> =
            ["issues.jsonl", "private"].iter().chain(more).map(|name| (*name).to_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn after_a_power_cut_the_durable_version_gets_its_place_back() {
        let scene = Scene::new();
        let _ = scene.write("one\n");
        let _ = scene.write("two, of which the disk has nothing\n");
        OpenOptions::new().write(true).open(&scene.ledger).unwrap().set_len(0).unwrap();
        scene.restart();
        assert!(scene.group.is_interrupted());
        scene.group.recover(&scene.ledger).unwrap();
        assert_eq!(scene.content(), "durable\n");
        assert_eq!(scene.names(), names(&["ledger.group", "ledger.unsynced"]));
        assert!(!scene.group.is_interrupted());
    }

    #[test]
    fn after_a_power_cut_the_version_of_another_program_or_of_a_durable_write_stays() {
        let scene = Scene::new();
        let _ = scene.write("one\n");
        replace(&scene.ledger, b"theirs\n", 0o600).unwrap();
        scene.restart();
        scene.group.recover(&scene.ledger).unwrap();
        assert_eq!((scene.content().as_str(), scene.names()), ("theirs\n", names(&["ledger.group"])));
        // An unreadable state is one of another boot.
        let _ = scene.write("two\n");
        fs::remove_file(&scene.group.state).unwrap();
        scene.group.recover(&scene.ledger).unwrap();
        assert_eq!(scene.content(), "theirs\n");
    }

    #[test]
    fn appended_changes_are_synced_once_for_all_that_joined() {
        let scene = Scene::new();
        let group = AppendGroup::beside(&scene.group.base.with_extension("lock"));
        let first = group.join(&scene.ledger).unwrap();
        assert_eq!(group.join(&scene.ledger).unwrap(), first);
        assert!(!group.is_synced(&first));
        group.sync_if_open().unwrap();
        assert!(group.is_synced(&first));
        // A group of another ledger, which has the same lock, is synced first.
        let second = group.join(&scene.ledger).unwrap();
        let other = scene.dir.path().join("other.jsonl");
        replace(&other, b"", 0o600).unwrap();
        let third = group.join(&other).unwrap();
        assert!(second != first && group.is_synced(&second) && !group.is_synced(&third));
        group.close(&scene.ledger);
        assert!(!group.is_synced(&third));
        // A ledger that another program removed has nothing to sync.
        fs::remove_file(&other).unwrap();
        group.sync_if_open().unwrap();
        assert!(group.is_synced(&third));
    }

    #[test]
    fn a_failed_sync_counts_for_all_members_until_the_ledger_is_replaced() {
        let scene = Scene::new();
        let failed = FailedGroup::beside(&scene.group.base.with_extension("lock"));
        assert!(!failed.exists());
        failed.record("one", &scene.ledger);
        assert!(failed.exists() && failed.is("one") && !failed.is("two"));
        failed.clear(&scene.dir.path().join("other"));
        assert!(failed.exists());
        failed.clear(&scene.ledger);
        assert!(!failed.exists() && !failed.is("one"));
    }

    #[test]
    fn a_group_does_not_take_the_version_of_another_program_for_a_durable_one() {
        let scene = Scene::new();
        let first = scene.write("one\n");
        replace(&scene.ledger, b"theirs\n", 0o600).unwrap();
        let second = scene.write("two\n");
        assert_ne!(first, second);
        assert_eq!(fs::read_to_string(&scene.group.base).unwrap(), "theirs\n");
        assert!(scene.group.is_synced(&first) && !scene.group.is_synced(&second));
    }
}
