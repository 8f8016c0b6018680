//! Reading and changing a ledger's file.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use waypost_core::ledger::document::{Document, Splitter, is_marker};
use waypost_core::ledger::{conflict, merge};
use waypost_core::{Error, Result};
use waypost_fs::{
    FileLock, Replaced, Seen, create_durable_dir, create_private_dir, find_displaced, read_seen, replace_seen,
    restore_displaced, scan_seen, sweep_temporaries,
};

use crate::index::Source;

/// How long a checkout that is under way is waited for.
const SETTLING: Duration = Duration::from_secs(1);

/// How often a change is tried while another program keeps swapping the file.
pub(crate) const ATTEMPTS: usize = 100;

/// The locks of one or several ledgers. While they are held, no other command changes these ledgers.
#[derive(Debug)]
pub struct LedgerLocks(Vec<(PathBuf, FileLock)>);

impl LedgerLocks {
    /// Waits for the locks of all these ledgers, in an order that all commands share: two that need the same ledgers
    /// never wait for each other.
    pub fn acquire(files: &[&LedgerFile]) -> Result<LedgerLocks> {
        let mut files = files.to_vec();
        files.sort_by(|one, other| one.lock.cmp(&other.lock));
        // Worktrees of one repository have one lock.
        files.dedup_by(|one, other| one.lock == other.lock);
        files.into_iter().map(|file| Ok((file.lock.clone(), file.lock()?))).collect::<Result<_>>().map(LedgerLocks)
    }

    /// Tells whether the lock of a ledger is among them.
    pub(crate) fn cover(&self, file: &LedgerFile) -> bool {
        self.0.iter().any(|(path, _)| *path == file.lock)
    }
}

/// A ledger's file, and the lock that guards it.
#[derive(Clone, Debug)]
pub struct LedgerFile {
    path: PathBuf,
    lock: PathBuf,
    patience: Duration,
    /// Files that are there while a version control tool changes the tree, and the ledger with it.
    marks: Vec<PathBuf>,
}

impl LedgerFile {
    /// Names a ledger. Neither file need exist.
    ///
    /// The lock lies outside the tree, so that nothing untracked appears in it.
    pub fn new(path: PathBuf, lock: PathBuf, patience: Duration) -> Self {
        LedgerFile { path, lock, patience, marks: Vec::new() }
    }

    /// Names files that are there while a version control tool changes the tree.
    #[must_use]
    pub fn with_marks(self, marks: Vec<PathBuf>) -> Self {
        LedgerFile { marks, ..self }
    }

    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file as it is now. A missing one has no issues; one that cannot be read is an error.
    ///
    /// No lock is needed: the file is only ever replaced whole.
    pub fn read(&self) -> Result<Document> {
        self.read_seen().map(|(document, _)| document)
    }

    /// Makes something else of the whole file, and returns that; it is on disk then, unless it is what was there.
    ///
    /// What `change` is given is what the file says at that moment, under the lock. It is asked again if a program that
    /// knows no lock swaps the file meanwhile.
    pub fn rewrite(&self, change: impl Fn(&[u8]) -> Result<Vec<u8>>) -> Result<Vec<u8>> {
        let _lock = self.lock()?;
        self.rewrite_locked(|document| change(&document.to_bytes()).map(Document::parse)).map(|after| after.to_bytes())
    }

    fn rewrite_locked(&self, change: impl Fn(&Document) -> Result<Document>) -> Result<Document> {
        for _ in 0..ATTEMPTS {
            let (document, seen) = self.read_seen()?;
            let after = change(&document)?;
            if after.to_bytes() == document.to_bytes() || self.replace(&seen, &after)? {
                return Ok(after);
            }
        }
        Err(self.is_restless())
    }

    /// The error of somebody who tried often enough.
    pub(crate) fn is_restless(&self) -> Error {
        Error::unavailable(format!("the ledger {} is being changed by another program", self.path.display()))
            .hint("try again when that is done")
    }

    /// Waits for the lock that every change is made under.
    pub(crate) fn lock(&self) -> Result<FileLock> {
        let lock = self.acquire(self.patience)?;
        // What cannot be merged now stays beside the file. A change can be made all the same.
        let _ = self.recover();
        Ok(lock)
    }

    fn acquire(&self, patience: Duration) -> Result<FileLock> {
        if let Some(dir) = self.lock.parent() {
            create_private_dir(dir).map_err(|error| self.cannot_write(error))?;
            sweep_temporaries(dir);
        }
        FileLock::acquire(&self.lock, patience)
    }

    /// Returns the files that hold versions of the ledger which other programs wrote, and which an interrupted write of
    /// ours displaced. The next write merges them into the ledger.
    pub fn displaced(&self) -> Vec<PathBuf> {
        if find_displaced(&self.path).is_empty() {
            return Vec::new();
        }
        // A process that is replacing the file at this moment holds the lock.
        self.acquire(SETTLING).map_or_else(|_| Vec::new(), |_lock| find_displaced(&self.path))
    }

    /// Merges displaced versions into the ledger, unless a process is writing at this moment.
    pub fn recover_displaced(&self) -> Result<()> {
        if find_displaced(&self.path).is_empty() {
            return Ok(());
        }
        let _lock = self.acquire(Duration::ZERO)?;
        self.recover()
    }

    /// Merges displaced versions into the ledger, under the lock.
    fn recover(&self) -> Result<()> {
        for displaced in restore_displaced(&self.path) {
            let cannot_read = |error| Error::unavailable(format!("cannot read {}", displaced.display())).because(error);
            let (theirs, _) = read_seen(&displaced).map_err(cannot_read)?;
            let theirs = healed(Document::parse(theirs));
            self.rewrite_locked(|ours| {
                if ours.lines().any(is_marker) {
                    return Err(Error::conflict("the ledger has conflict markers").hint("way resolve"));
                }
                // No version is known that both come from. So a line that only one of them has stays.
                Ok(merge::merge(None, ours, &theirs))
            })?;
            // A power cut may bring it back. Merged once more, it changes nothing.
            std::fs::remove_file(&displaced).map_err(|error| self.cannot_write(error))?;
        }
        Ok(())
    }

    /// Replaces the file durably, if it is still as it was seen. Returns whether it was.
    pub(crate) fn replace(&self, seen: &Seen, document: &Document) -> Result<bool> {
        if let Some(dir) = self.path.parent() {
            create_durable_dir(dir).map_err(|error| self.cannot_write(error))?;
        }
        match replace_seen(seen, &document.parts(), 0o644).map_err(|error| self.cannot_write(error))? {
            Replaced::Durably(_) => Ok(true),
            Replaced::Changed => Ok(false),
            Replaced::Unsynced(error) => {
                let problem = format!("the change is in {}, but a power cut may undo it", self.path.display());
                Err(Error::unavailable(problem)
                    .because(error)
                    .hint("do not make it again; check the disk, then any other change makes both last")
                    .outcome_unknown())
            }
        }
    }

    /// Removes the file if there is nothing in it.
    pub fn remove_if_empty(&self) -> Result<()> {
        let _lock = self.lock()?;
        if std::fs::metadata(&self.path).is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0) {
            std::fs::remove_file(&self.path).map_err(|error| self.cannot_write(error))?;
        }
        Ok(())
    }

    fn cannot_write(&self, error: std::io::Error) -> Error {
        Error::unavailable(format!("cannot write the ledger {}", self.path.display())).because(error)
    }

    /// Reads the file when no checkout is under way.
    pub(crate) fn read_seen(&self) -> Result<(Document, Seen)> {
        let (bytes, seen) = self.when_settled(|| read_seen(&self.path))?;
        Ok((Document::parse(bytes), seen))
    }

    /// Reads the file when no checkout is under way; what a merge left in conflict is read as it would be merged.
    pub(crate) fn source(&self) -> Result<Source<'_>> {
        let (document, seen) = self.read_seen()?;
        // Looking for markers is quick, and hardly any file has them.
        let healed = if document.lines().any(is_marker) { conflict::heal(&document) } else { None };
        let is_conflicted = healed.is_some();
        Ok(Source { path: &self.path, document: healed.unwrap_or(document), is_conflicted, seen })
    }

    /// Goes through the lines of the file when no checkout is under way. `begin` makes what takes the lines; it is made
    /// again if the file has to be read again.
    pub(crate) fn scan<T>(&self, begin: impl Fn() -> T, each: impl Fn(&mut T, &[u8])) -> Result<(T, Seen)> {
        self.when_settled(|| {
            let mut taker = begin();
            let mut splitter = Splitter::default();
            let seen = scan_seen(&self.path, |piece| splitter.feed(piece, |line| each(&mut taker, line)))?;
            splitter.finish(|line| each(&mut taker, line));
            Ok((taker, seen))
        })
    }

    /// Reads when no checkout is under way: in the middle of one the file is missing, or half of it is there.
    fn when_settled<T>(&self, read: impl Fn() -> std::io::Result<T>) -> Result<T> {
        // A mark that stays is a dead tool's, or that of one who waits for an editor. Neither is writing.
        let deadline = Instant::now() + SETTLING;
        let is_settled = || !self.marks.iter().any(|mark| mark.symlink_metadata().is_ok());
        loop {
            while !is_settled() && Instant::now() < deadline {
                std::thread::park_timeout(Duration::from_millis(2));
            }
            let answer = read().map_err(|error| {
                Error::unavailable(format!("cannot read the ledger {}", self.path.display())).because(error)
            })?;
            if is_settled() || Instant::now() >= deadline {
                return Ok(answer);
            }
        }
    }
}

/// Merges the versions that conflict markers enclose.
fn healed(document: Document) -> Document {
    conflict::heal(&document).unwrap_or(document)
}
