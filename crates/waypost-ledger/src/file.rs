//! Reads and changes a ledger's file.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use waypost_core::ledger::document::{Document, Splitter, check_stand_in, is_marker};
use waypost_core::ledger::kept::KeptChange;
use waypost_core::ledger::{conflict, merge};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};
use waypost_fs::{
    FileLock, FileVersion, PrivateDir, Replaced, Stamp, create_durable_dir, find_displaced, read_version,
    replace_if_unchanged, restore_displaced, scan_version, sweep_temporaries,
};

use crate::intents::Intents;
use crate::kept::KeptFile;
use crate::tool_locks::ToolLocks;

/// How long a reader waits for a checkout in progress. A writer waits as long as for our own lock.
const CHECKOUT_TIMEOUT: Duration = Duration::from_secs(1);

/// How often a reader reads the file again because another process changed it meanwhile.
const MAX_READS: usize = 5;

/// Number of attempts to make a change while another program keeps replacing the file.
pub(crate) const MAX_WRITE_ATTEMPTS: usize = 100;

/// A ledger's file as it was read.
pub(crate) struct Source<'a> {
    pub(crate) path: &'a Path,
    /// Its lines, with the versions between conflict markers merged.
    pub(crate) document: Document,
    pub(crate) is_conflicted: bool,
    /// The issues that another program took back. The document has them again.
    pub(crate) restored: Vec<String>,
    pub(crate) seen: FileVersion,
}

/// The locks of one or several ledgers. While they are held, no other command changes these ledgers.
#[derive(Debug)]
pub struct LedgerLocks {
    held: Vec<(PathBuf, FileLock)>,
}

impl LedgerLocks {
    /// Acquires the locks of all these ledgers, in an order that all commands share, so that two commands never
    /// deadlock.
    pub fn acquire(files: &[&LedgerFile]) -> Result<LedgerLocks> {
        let mut files = files.to_vec();
        files.sort_by(|one, other| one.lock.cmp(&other.lock));
        // Worktrees of one repository share one lock.
        files.dedup_by(|one, other| one.lock == other.lock);
        let held = files.into_iter().map(|file| Ok((file.lock.clone(), file.lock()?))).collect::<Result<_>>()?;
        Ok(LedgerLocks { held })
    }

    /// Returns whether the lock of a ledger is among them.
    pub(crate) fn cover(&self, file: &LedgerFile) -> bool {
        self.held.iter().any(|(path, _)| *path == file.lock)
    }
}

/// Decides whether a file that does not exist is an empty ledger.
#[derive(Clone)]
struct AbsenceCheck(Arc<dyn Fn() -> Result<()> + Send + Sync>);

impl fmt::Debug for AbsenceCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AbsenceCheck")
    }
}

/// A ledger's file and the lock that guards it.
#[derive(Clone, Debug)]
pub struct LedgerFile {
    path: PathBuf,
    lock_dir: PrivateDir,
    lock: PathBuf,
    lock_timeout: Duration,
    tool_locks: ToolLocks,
    absence: Option<AbsenceCheck>,
    /// The changes that no commit has yet. None where they are not kept.
    kept: Option<KeptFile>,
}

impl LedgerFile {
    /// Describes a ledger. Neither file need exist.
    ///
    /// The lock is in a private directory, outside the tree, so that no untracked file appears in it.
    pub fn new(path: PathBuf, lock_dir: PrivateDir, lock: &str, lock_timeout: Duration) -> Self {
        let (lock, tool_locks) = (lock_dir.join(lock), ToolLocks::default());
        LedgerFile { path, lock_dir, lock, lock_timeout, tool_locks, absence: None, kept: None }
    }

    /// Sets the lock files that exist while a version control tool changes the tree.
    #[must_use]
    pub fn with_tool_locks(self, locks: Vec<PathBuf>) -> Self {
        LedgerFile { tool_locks: ToolLocks::new(locks), ..self }
    }

    /// Sets a check that runs if the file does not exist: it returns an error if the ledger is elsewhere, for example in a
    /// commit of which only a part is checked out. Without a check, a missing file is an empty ledger.
    #[must_use]
    pub fn with_absence_check(self, check: impl Fn() -> Result<()> + Send + Sync + 'static) -> Self {
        LedgerFile { absence: Some(AbsenceCheck(Arc::new(check))), ..self }
    }

    /// Has changes kept until a commit or a stash has them. `saved` passes the versions of the ledger that these have, with
    /// their times, as long as its argument returns true.
    #[must_use]
    pub fn with_kept_changes(
        self,
        saved: impl Fn(&mut dyn FnMut(&Document, Timestamp) -> bool) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        let kept = KeptFile::beside(&self.lock, &self.path, Arc::new(saved));
        LedgerFile { kept: Some(kept), ..self }
    }

    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file. A missing file has no issues, unless the check of its absence fails; an unreadable file is an error.
    ///
    /// Needs no lock, because writers replace the file atomically.
    pub fn read(&self) -> Result<Document> {
        self.read_version().map(|(document, _)| document)
    }

    /// Replaces the content of the whole file durably, and returns the new content. Writes nothing if the content stays the
    /// same.
    ///
    /// `change` gets the current content, read under the lock. It is called again if a program that does not use our lock
    /// replaces the file meanwhile.
    pub fn rewrite(&self, change: impl Fn(&[u8]) -> Result<Vec<u8>>) -> Result<Vec<u8>> {
        let _lock = self.lock()?;
        self.rewrite_locked(|document| change(&document.to_bytes()).map(Document::parse)).map(|after| after.to_bytes())
    }

    fn rewrite_locked(&self, change: impl Fn(&Document) -> Result<Document>) -> Result<Document> {
        for _ in 0..MAX_WRITE_ATTEMPTS {
            let (document, seen) = self.read_version()?;
            let after = change(&document)?;
            if after.to_bytes() == document.to_bytes() || self.replace(&seen, &after)?.is_some() {
                return Ok(after);
            }
        }
        Err(self.contended_error())
    }

    /// Returns the error for a writer that used up its attempts.
    pub(crate) fn contended_error(&self) -> Error {
        Error::unavailable(format!("the ledger {} is being changed by another program", self.path.display()))
            .hint("retry when that program is done")
    }

    /// Acquires the lock for changes, and waits for version control tools that are changing the tree.
    pub(crate) fn lock(&self) -> Result<FileLock> {
        let deadline = Instant::now() + self.lock_timeout;
        // We do not hold our lock here: other processes would wait for the tool and then for us.
        self.tool_locks.wait(deadline);
        let lock = self.acquire(self.lock_timeout)?;
        self.tool_locks.wait(deadline);
        // Displaced versions that cannot be merged now stay beside the file and do not prevent the change.
        let _ = self.recover();
        self.intents().resolve().map_err(|error| self.cannot_write(error))?;
        Ok(lock)
    }

    fn intents(&self) -> Intents {
        Intents::beside(&self.lock)
    }

    /// Records a change with a key that is about to be written. The caller holds the lock.
    pub(crate) fn begin_once<'l>(&self, key: &str, lines: impl Iterator<Item = &'l [u8]>) -> Result<()> {
        self.intents().begin(key, &self.path, lines).map_err(|error| self.cannot_write(error))
    }

    /// Returns whether a change with this key was written. The caller holds the lock.
    pub fn has_written(&self, key: &str) -> Result<bool> {
        self.intents().is_written(key).map_err(|error| self.cannot_write(error))
    }

    /// Removes the record of a change with a key, after which no process makes it again.
    pub fn forget_written(&self, key: &str) -> Result<()> {
        let intents = self.intents();
        if !intents.exist() {
            return Ok(());
        }
        let _lock = self.lock()?;
        intents.forget(key).map_err(|error| self.cannot_write(error))
    }

    fn acquire(&self, timeout: Duration) -> Result<FileLock> {
        self.lock_dir.create()?;
        sweep_temporaries(&self.lock_dir);
        FileLock::acquire_queued(&self.lock, timeout)
    }

    fn not_durable(&self, cause: &dyn fmt::Display) -> Error {
        let problem = format!("the change is in {}, but a power cut may undo it", self.path.display());
        Error::unavailable(problem)
            .because(cause)
            .hint("do not repeat the change; check the disk, then make any other change, which makes both durable")
            .outcome_unknown()
    }

    /// Waits for every change that acquired the lock before this call.
    pub fn wait_for_changes(&self) -> Result<()> {
        self.acquire(self.lock_timeout).map(drop)
    }

    /// Returns the displaced versions of the ledger: files that other programs wrote and that an interrupted write of ours
    /// moved aside. The next write merges them into the ledger.
    pub fn displaced(&self) -> Vec<PathBuf> {
        if find_displaced(&self.path).is_empty() {
            return Vec::new();
        }
        // A process that is replacing the file right now holds the lock, and its displaced file is not a leftover.
        self.acquire(CHECKOUT_TIMEOUT).map_or_else(|_| Vec::new(), |_lock| find_displaced(&self.path))
    }

    /// Merges displaced versions into the ledger, unless a process is writing right now.
    pub fn recover_displaced(&self) -> Result<()> {
        if find_displaced(&self.path).is_empty() {
            return Ok(());
        }
        let _lock = self.acquire(Duration::ZERO)?;
        self.recover()
    }

    /// Merges displaced versions into the ledger. The caller holds the lock.
    fn recover(&self) -> Result<()> {
        for displaced in restore_displaced(&self.path) {
            let cannot_read = |error| Error::unavailable(format!("cannot read {}", displaced.display())).because(error);
            let (bytes, _) = read_version(&displaced).map_err(cannot_read)?;
            let displaced_document = conflict::read(Document::parse(bytes));
            self.rewrite_locked(|current| {
                if current.lines().any(is_marker) {
                    return Err(Error::conflict("the ledger has conflict markers").hint("way resolve"));
                }
                // The common ancestor is unknown, so a line that only one of the two has stays.
                Ok(merge::merge(None, current, &displaced_document))
            })?;
            // A power cut may bring the file back. Merging it once more changes nothing.
            std::fs::remove_file(&displaced).map_err(|error| self.cannot_write(error))?;
        }
        Ok(())
    }

    /// Replaces the file durably if it is unchanged since `seen`. Returns the version that was written; None if another
    /// program changed the file.
    pub(crate) fn replace(&self, seen: &FileVersion, document: &Document) -> Result<Option<FileVersion>> {
        if let Some(dir) = self.path.parent() {
            create_durable_dir(dir).map_err(|error| self.cannot_write(error))?;
        }
        match replace_if_unchanged(seen, &document.parts(), 0o644).map_err(|error| self.cannot_write(error))? {
            Replaced::Done(written) => Ok(Some(written)),
            Replaced::Changed => Ok(None),
            Replaced::Unsynced(error) => Err(self.not_durable(&error)),
        }
    }

    /// Removes the file if it is empty. It may stay: an empty file and a missing one are both ledgers without issues.
    pub fn remove_if_empty(&self, locks: &LedgerLocks) {
        let is_empty = || std::fs::metadata(&self.path).is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0);
        if locks.cover(self) && !self.tool_locks.are_held() && is_empty() {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    fn cannot_write(&self, error: std::io::Error) -> Error {
        Error::unavailable(format!("cannot write the ledger {}", self.path.display())).because(error)
    }

    /// Reads the file while no checkout is in progress.
    pub(crate) fn read_version(&self) -> Result<(Document, FileVersion)> {
        let (bytes, seen) = self.read_between_checkouts(|| read_version(&self.path))?;
        let document = Document::parse(bytes);
        if document.is_empty() {
            self.check_absence()?;
        }
        self.check_content(document.lines().next())?;
        Ok((document, seen))
    }

    /// Refuses a missing file if it must not be taken for an empty ledger.
    pub(crate) fn check_absence(&self) -> Result<()> {
        let Some(AbsenceCheck(check)) = &self.absence else { return Ok(()) };
        let is_missing = || std::fs::symlink_metadata(&self.path).is_err();
        if !is_missing() || !self.read_between_checkouts(|| Ok(is_missing()))? {
            return Ok(());
        }
        // Meanwhile another process may have written it.
        check().or_else(|error| if is_missing() { Err(error) } else { Ok(()) })
    }

    /// Refuses a file that stands in the ledger's place without its content.
    fn check_content(&self, first_line: Option<&[u8]>) -> Result<()> {
        let checked = first_line.map_or(Ok(()), check_stand_in);
        checked.map_err(|error| error.within(self.path.display()))
    }

    /// Reads the file while no checkout is in progress, merges the versions between conflict markers, and puts back what
    /// another program took back.
    pub(crate) fn source(&self) -> Result<Source<'_>> {
        for _ in 0..MAX_READS {
            let mut source = self.merged_source()?;
            let stamp = source.seen.stamp();
            let Some(kept) = self.kept.as_ref().filter(|kept| kept.is_unsettled(stamp)) else { return Ok(source) };
            let restored = kept.restore(&mut source.document)?;
            // Else another process has made a change since the file was read: it was kept, and not taken back.
            if restored.is_empty() || source.seen.is_current() {
                return Ok(Source { restored, ..source });
            }
        }
        // So many changes are being made that the next one puts back at once what was taken back.
        self.merged_source()
    }

    /// Reads the file like [`LedgerFile::source`], after forgetting kept changes that a commit or a stash has. The caller holds
    /// the lock.
    pub(crate) fn settled_source(&self) -> Result<Source<'_>> {
        let mut source = self.merged_source()?;
        let stamp = source.seen.stamp();
        if let Some(kept) = self.kept.as_ref().filter(|kept| kept.is_unsettled(stamp)) {
            if let Err(error) = kept.settle(&source.document, stamp) {
                // Then they are looked for again.
                log::debug!("cannot forget what was committed: {error}");
            }
            source.restored = kept.restore(&mut source.document)?;
        }
        Ok(source)
    }

    /// Forgets kept changes like [`LedgerFile::settled_source`], unless a process is writing right now.
    pub(crate) fn try_to_settle_kept(&self) -> Result<()> {
        if !self.has_unsettled_changes() {
            return Ok(());
        }
        let _lock = self.acquire(Duration::ZERO)?;
        self.settled_source().map(drop)
    }

    /// Returns whether there may be kept changes that the file does not have.
    pub(crate) fn has_unsettled_changes(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.is_unsettled(self.stamp()))
    }

    fn stamp(&self) -> Option<Stamp> {
        Stamp::of_path(&self.path).ok().flatten()
    }

    /// Replaces the file like [`LedgerFile::replace`]. These changes of it are kept until a commit has them. The caller holds
    /// the lock.
    pub(crate) fn replace_and_keep<'c>(
        &self,
        seen: &FileVersion,
        document: &Document,
        changes: impl Iterator<Item = &'c KeptChange>,
        now: Timestamp,
    ) -> Result<Option<FileVersion>> {
        let keeping = self.kept.as_ref().map(|kept| kept.begin(changes, now)).transpose();
        let keeping = keeping.map_err(|error| self.cannot_write(error))?;
        let Some(written) = self.replace(seen, document)? else { return Ok(None) };
        if let Some(Err(error)) = keeping.map(|keeping| keeping.end(document, written.stamp())) {
            // The next process finds out from the ledger that they were written.
            log::debug!("cannot record that changes were written: {error}");
        }
        Ok(Some(written))
    }

    /// Forgets all kept changes, so that the file counts as it is. The caller holds the lock.
    pub(crate) fn drop_kept(&self) -> Result<()> {
        let Some(kept) = &self.kept else { return Ok(()) };
        kept.clear().map_err(|error| self.cannot_write(error))?;
        // Every index of the file shows the kept changes, so the file must look changed.
        match File::options().append(true).open(&self.path) {
            #[expect(clippy::disallowed_methods, reason = "files are stamped by the machine's clock")]
            Ok(file) => file.set_modified(SystemTime::now()).map_err(|error| self.cannot_write(error)),
            Err(_) => Ok(()),
        }
    }

    fn merged_source(&self) -> Result<Source<'_>> {
        let (document, seen) = self.read_version()?;
        // The search for markers is fast, and hardly any file has them.
        let merged = if document.lines().any(is_marker) { conflict::resolve(&document) } else { None };
        let is_conflicted = merged.is_some();
        let document = merged.unwrap_or_else(|| document.with_appended_placed());
        Ok(Source { path: &self.path, document, is_conflicted, restored: Vec::new(), seen })
    }

    /// Passes the lines of the file to `each` while no checkout is in progress. `begin` creates the accumulator, again for
    /// each repeated read.
    pub(crate) fn scan<T>(&self, begin: impl Fn() -> T, each: impl Fn(&mut T, &[u8])) -> Result<(T, FileVersion)> {
        let (accumulator, first_line, seen) = self.read_between_checkouts(|| {
            let mut accumulator = begin();
            let mut first_line = None;
            let mut take = |line: &[u8]| {
                first_line.get_or_insert_with(|| line.to_owned());
                each(&mut accumulator, line);
            };
            let mut splitter = Splitter::default();
            let seen = scan_version(&self.path, |piece| splitter.feed(piece, &mut take))?;
            splitter.finish(&mut take);
            Ok((accumulator, first_line, seen))
        })?;
        if first_line.is_none() {
            self.check_absence()?;
        }
        self.check_content(first_line.as_deref())?;
        Ok((accumulator, seen))
    }

    /// Reads while no checkout is in progress, because a checkout removes the file and writes it in pieces.
    fn read_between_checkouts<T>(&self, read: impl Fn() -> std::io::Result<T>) -> Result<T> {
        let deadline = Instant::now() + CHECKOUT_TIMEOUT;
        loop {
            self.tool_locks.wait(deadline);
            let answer = read().map_err(|error| {
                Error::unavailable(format!("cannot read the ledger {}", self.path.display())).because(error)
            })?;
            if !self.tool_locks.are_held() || Instant::now() >= deadline {
                return Ok(answer);
            }
        }
    }
}
