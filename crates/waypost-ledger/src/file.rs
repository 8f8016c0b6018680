//! Reading and changing a ledger's file.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use waypost_core::ledger::document::{Document, Splitter, is_marker};
use waypost_core::ledger::{conflict, merge};
use waypost_core::{Error, Result};
use waypost_fs::{
    FileLock, FileVersion, Replaced, create_durable_dir, create_private_dir, find_displaced, read_version,
    replace_if_unchanged, restore_displaced, scan_version, sweep_temporaries,
};

use crate::index::Source;
use crate::tool_locks::ToolLocks;

/// How long reading waits for a checkout that is under way. Writing waits as long as for our own lock.
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
    tool_locks: ToolLocks,
}

impl LedgerFile {
    /// Names a ledger. Neither file need exist.
    ///
    /// The lock lies outside the tree, so that nothing untracked appears in it.
    pub fn new(path: PathBuf, lock: PathBuf, patience: Duration) -> Self {
        LedgerFile { path, lock, patience, tool_locks: ToolLocks::default() }
    }

    /// Names files that are there while a version control tool changes the tree.
    #[must_use]
    pub fn with_marks(self, marks: Vec<PathBuf>) -> Self {
        // The ledger lies in a directory of the work tree's root.
        let root = self.path.ancestors().nth(2).unwrap_or(&self.path).to_owned();
        LedgerFile { tool_locks: ToolLocks::new(marks, root), ..self }
    }

    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file as it is now. A missing one has no issues; one that cannot be read is an error.
    ///
    /// No lock is needed: the file is only ever replaced whole.
    pub fn read(&self) -> Result<Document> {
        self.read_version().map(|(document, _)| document)
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
            let (document, seen) = self.read_version()?;
            let after = change(&document)?;
            if after.to_bytes() == document.to_bytes() || self.replace(&seen, &after)? {
                return Ok(after);
            }
        }
        Err(self.contended_error())
    }

    /// The error of somebody who tried often enough.
    pub(crate) fn contended_error(&self) -> Error {
        Error::unavailable(format!("the ledger {} is being changed by another program", self.path.display()))
            .hint("try again when that is done")
    }

    /// Waits for the lock that every change is made under, and for version control tools that are changing the tree.
    pub(crate) fn lock(&self) -> Result<FileLock> {
        let deadline = Instant::now() + self.patience;
        // Not under our lock: other processes would wait for both, one after the other.
        self.wait_for_tools(deadline)?;
        let lock = self.acquire(self.patience)?;
        self.wait_for_tools(deadline)?;
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

    /// Waits until no change is under way that took the lock before this call.
    pub fn wait_for_changes(&self) -> Result<()> {
        self.acquire(self.patience).map(drop)
    }

    fn wait_for_tools(&self, deadline: Instant) -> Result<()> {
        let waited = self.tool_locks.wait(deadline);
        waited.map(drop).map_err(|lock| {
            let (lock, waited) = (lock.display(), self.patience.as_secs_f32());
            Error::unavailable(format!("waited {waited} s for a version control tool that holds {lock}"))
                .hint("nothing was changed; try again when the tool is done")
        })
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
        self.wait_for_tools(Instant::now())?;
        self.recover()
    }

    /// Merges displaced versions into the ledger, under the lock.
    fn recover(&self) -> Result<()> {
        for displaced in restore_displaced(&self.path) {
            let cannot_read = |error| Error::unavailable(format!("cannot read {}", displaced.display())).because(error);
            let (theirs, _) = read_version(&displaced).map_err(cannot_read)?;
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

    /// Replaces the file durably, if it is still as it was seen. Returns whether the change is in the file, after every
    /// version control tool is done that may have overwritten it.
    pub(crate) fn replace(&self, seen: &FileVersion, document: &Document) -> Result<bool> {
        if let Some(dir) = self.path.parent() {
            create_durable_dir(dir).map_err(|error| self.cannot_write(error))?;
        }
        match replace_if_unchanged(seen, &document.parts(), 0o644).map_err(|error| self.cannot_write(error))? {
            Replaced::Durably(written) => self.confirm(&written, document),
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

    /// Waits until no version control tool can overwrite what we wrote any more. Returns whether it is still there.
    fn confirm(&self, written: &FileVersion, document: &Document) -> Result<bool> {
        if let Err(lock) = self.tool_locks.wait_until_quiet(Instant::now() + self.patience) {
            let (path, lock) = (self.path.display(), lock.display());
            let problem = format!("the change is in {path}, but a version control tool that holds {lock} may undo it");
            return Err(Error::unavailable(problem)
                .hint("when the tool is done, see if it is there")
                .outcome_unknown());
        }
        Ok(written.is_current() || self.has_changes_of(document)?)
    }

    /// Tells whether the file has the lines that were changed in a document, although another program wrote the file.
    fn has_changes_of(&self, document: &Document) -> Result<bool> {
        let (now, _) = self.read_version()?;
        let lines: HashSet<&[u8]> = now.lines().collect();
        let mut changed = document.changed_lines().peekable();
        Ok(if changed.peek().is_some() {
            changed.all(|line| lines.contains(line))
        } else {
            now.to_bytes() == document.to_bytes()
        })
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
    pub(crate) fn read_version(&self) -> Result<(Document, FileVersion)> {
        let (bytes, seen) = self.when_settled(|| read_version(&self.path))?;
        Ok((Document::parse(bytes), seen))
    }

    /// Reads the file when no checkout is under way; what a merge left in conflict is read as it would be merged.
    pub(crate) fn source(&self) -> Result<Source<'_>> {
        let (document, seen) = self.read_version()?;
        // Looking for markers is quick, and hardly any file has them.
        let healed = if document.lines().any(is_marker) { conflict::heal(&document) } else { None };
        let is_conflicted = healed.is_some();
        Ok(Source { path: &self.path, document: healed.unwrap_or(document), is_conflicted, seen })
    }

    /// Goes through the lines of the file when no checkout is under way. `begin` makes what takes the lines; it is made
    /// again if the file has to be read again.
    pub(crate) fn scan<T>(&self, begin: impl Fn() -> T, each: impl Fn(&mut T, &[u8])) -> Result<(T, FileVersion)> {
        self.when_settled(|| {
            let mut taker = begin();
            let mut splitter = Splitter::default();
            let seen = scan_version(&self.path, |piece| splitter.feed(piece, |line| each(&mut taker, line)))?;
            splitter.finish(|line| each(&mut taker, line));
            Ok((taker, seen))
        })
    }

    /// Reads when no checkout is under way: in the middle of one the file is missing, or half of it is there.
    fn when_settled<T>(&self, read: impl Fn() -> std::io::Result<T>) -> Result<T> {
        let deadline = Instant::now() + SETTLING;
        loop {
            let abandoned = self.tool_locks.wait(deadline).unwrap_or_default();
            let answer = read().map_err(|error| {
                Error::unavailable(format!("cannot read the ledger {}", self.path.display())).because(error)
            })?;
            if self.tool_locks.held() == abandoned || Instant::now() >= deadline {
                return Ok(answer);
            }
        }
    }
}

/// Merges the versions that conflict markers enclose.
fn healed(document: Document) -> Document {
    conflict::heal(&document).unwrap_or(document)
}
