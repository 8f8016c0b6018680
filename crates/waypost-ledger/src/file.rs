//! Reading and changing a ledger's file.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use waypost_core::ledger::document::Document;
use waypost_core::{Error, Result};
use waypost_fs::{FileLock, Seen, create_private_dir, read_seen, replace_seen};

/// How often a change is tried while another program keeps swapping the file.
const ATTEMPTS: usize = 100;

/// How long a checkout that is under way is waited for.
const SETTLING: Duration = Duration::from_secs(1);

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

    /// Changes the file: whatever `change` does to what it says now is on disk when this returns, all of it or nothing.
    ///
    /// If somebody who knows no lock, as a checkout, puts another file there meanwhile, `change` is asked again about
    /// that one.
    pub fn change<T>(&self, mut change: impl FnMut(&mut Document) -> Result<T>) -> Result<T> {
        let cannot =
            |error| Error::unavailable(format!("cannot write the ledger {}", self.path.display())).because(error);
        if let Some(dir) = self.lock.parent() {
            create_private_dir(dir).map_err(cannot)?;
        }
        let _lock = FileLock::acquire(&self.lock, self.patience)?;
        for _ in 0..ATTEMPTS {
            let (mut document, seen) = self.read_seen()?;
            let before = document.to_bytes();
            let answer = change(&mut document)?;
            let after = document.to_bytes();
            if after == before {
                return Ok(answer);
            }
            if let Some(dir) = self.path.parent() {
                std::fs::create_dir_all(dir).map_err(cannot)?;
            }
            if replace_seen(&seen, &after, 0o644).map_err(cannot)? {
                return Ok(answer);
            }
        }
        Err(Error::unavailable(format!("the ledger {} is being changed by another program", self.path.display()))
            .hint("try again when that is done"))
    }

    /// Reads the file when no checkout is under way: in the middle of one it is missing, or half of it is there.
    fn read_seen(&self) -> Result<(Document, Seen)> {
        // A mark that stays is a dead tool's, or that of one who waits for an editor. Neither is writing.
        let deadline = Instant::now() + SETTLING;
        let is_settled = || !self.marks.iter().any(|mark| mark.symlink_metadata().is_ok());
        loop {
            while !is_settled() && Instant::now() < deadline {
                std::thread::park_timeout(Duration::from_millis(2));
            }
            let (bytes, seen) = read_seen(&self.path).map_err(|error| {
                Error::unavailable(format!("cannot read the ledger {}", self.path.display())).because(error)
            })?;
            if is_settled() || Instant::now() >= deadline {
                return Ok((Document::parse(bytes), seen));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use waypost_core::ledger::record::Record;

    use super::*;

    fn ledger(dir: &Path) -> LedgerFile {
        LedgerFile::new(dir.join("tree/issues.jsonl"), dir.join("private/lock"), Duration::from_secs(20))
    }

    fn record(id: usize) -> Record {
        Record::parse(&format!("{{\"id\":\"a-{id:04}\"}}")).unwrap()
    }

    #[test]
    fn changes_at_once_are_all_there_afterwards() {
        let dir = waypost_testkit::temp_dir();
        let ledger = ledger(dir.path());
        std::thread::scope(|scope| {
            for worker in 0..8 {
                let ledger = &ledger;
                scope.spawn(move || {
                    for number in 0..25 {
                        ledger.change(|document| document.insert(&record(worker * 25 + number))).unwrap();
                    }
                });
            }
        });
        let document = ledger.read().unwrap();
        assert_eq!(document.len(), 200);
        assert_eq!(std::fs::read_dir(dir.path().join("tree")).unwrap().count(), 1, "nothing beside the ledger");
    }

    #[test]
    fn a_change_that_fails_or_changes_nothing_leaves_the_file_alone() {
        let dir = waypost_testkit::temp_dir();
        let ledger = ledger(dir.path());
        ledger.change(|_| Ok(())).unwrap();
        assert!(!ledger.path().exists());
        ledger.change(|document| document.insert(&record(1))).unwrap();
        let modified = || std::fs::metadata(ledger.path()).unwrap().modified().unwrap();
        let before = modified();
        ledger
            .change(|document| -> Result<()> {
                document.insert(&record(2))?;
                Err(Error::invalid("changed my mind"))
            })
            .unwrap_err();
        assert_eq!((ledger.read().unwrap().len(), modified()), (1, before));
    }

    #[test]
    fn what_cannot_be_read_is_not_empty() {
        let dir = waypost_testkit::temp_dir();
        let ledger = ledger(dir.path());
        std::fs::create_dir_all(ledger.path()).unwrap();
        assert!(ledger.read().is_err());
    }
}
