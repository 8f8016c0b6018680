//! The file with the changes of a ledger that no commit has yet.
//!
//! It is not synced, because the ledger is. The last line has the stamp of the ledger's file as it was when all kept changes
//! were in it. As long as the file has this stamp, nothing is looked for.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use waypost_core::digest::hex;
use waypost_core::ledger::document::Document;
use waypost_core::ledger::kept::{Kept, KeptChange, end_line};
use waypost_core::seeded::seeded_bug;
use waypost_core::time::Timestamp;
use waypost_core::{Result, path_text};
use waypost_fs::{Stamp, boot_id, replace};

/// From this size on, changes that a commit has are looked for and removed.
const MIN_COMPACTED_BYTES: u64 = 256 * 1024;

/// Receives a version of the ledger that a commit or a stash has, with its time, and returns whether it wants another one.
pub(crate) type SavedVersion<'a> = &'a mut dyn FnMut(&Document, Timestamp) -> bool;

/// Reads the versions of the ledger that commits and stashes have, newest first.
type ReadSaved = dyn Fn(SavedVersion<'_>) -> Result<()> + Send + Sync;

/// The kept changes of one ledger. The lock of the ledger guards them.
#[derive(Clone)]
pub(crate) struct KeptFile {
    path: PathBuf,
    ledger: String,
    saved: Arc<ReadSaved>,
}

impl fmt::Debug for KeptFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptFile").field("path", &self.path).field("ledger", &self.ledger).finish_non_exhaustive()
    }
}

impl KeptFile {
    /// Describes the kept changes of a ledger, beside its lock.
    pub(crate) fn beside(lock: &Path, ledger: &Path, saved: Arc<ReadSaved>) -> KeptFile {
        KeptFile { path: lock.with_extension("kept"), ledger: path_text::to_text(ledger), saved }
    }

    /// Returns whether there may be kept changes that a version of the ledger's file does not have.
    pub(crate) fn is_unsettled(&self, stamp: Option<Stamp>) -> bool {
        match self.last_line() {
            Ok(last) => !last.is_empty() && stamp.is_none_or(|stamp| last != end_of(Some(stamp))),
            // A file that cannot be read may have any change, if it exists.
            Err(_) => fs::metadata(&self.path).is_ok_and(|metadata| metadata.len() > 0),
        }
    }

    /// Records changes that are about to be written to the ledger.
    pub(crate) fn begin<'c>(
        &self,
        changes: impl Iterator<Item = &'c KeptChange>,
        now: Timestamp,
    ) -> io::Result<Keeping<'_>> {
        let lines = changes.filter(|_| !seeded_bug("forget_kept")).map(|change| change.to_line(&self.ledger, now));
        let file = self.append(&lines.collect::<String>())?;
        Ok(Keeping { kept: self, file })
    }

    /// Forgets changes that a commit or a stash has, if the ledger does not have them any more. The caller holds the lock.
    pub(crate) fn settle(&self, document: &Document, stamp: Option<Stamp>) -> io::Result<()> {
        let (mut kept, others) = self.read(document)?;
        // A process that died has left changes without an end, or the machine was restarted.
        let last = self.last_line()?;
        let mut is_changed = !last.starts_with("{\"end\"") || !last.contains(boot_id().unwrap_or_default());
        let mut is_complete = kept.taken_back(document).is_empty();
        if !is_complete && !seeded_bug("keep_committed") {
            self.read_saved(&mut |saved, at| {
                is_changed |= kept.forget_saved(saved, at);
                is_complete = kept.taken_back(document).is_empty();
                !is_complete
            });
        }
        let stamp = stamp.filter(|_| is_complete);
        if is_changed {
            self.write(&kept, &others, stamp)
        } else if stamp.is_some() {
            self.append(&end_of(stamp)).map(drop)
        } else {
            Ok(())
        }
    }

    /// Puts back what another program took back, and returns the ids of these issues.
    pub(crate) fn restore(&self, document: &mut Document) -> Result<Vec<String>> {
        let Ok((kept, _)) = self.read(document) else { return Ok(Vec::new()) };
        Ok(kept.restore(document)?.into_iter().collect())
    }

    /// Forgets all changes of the ledger.
    pub(crate) fn clear(&self) -> io::Result<()> {
        let (_, others) = self.read(&Document::parse(Vec::new()))?;
        self.write(&Kept::default(), &others, None)
    }

    /// Reads the changes. `document` is the ledger as it is now.
    fn read(&self, document: &Document) -> io::Result<(Kept, Vec<u8>)> {
        match fs::read(&self.path) {
            Ok(content) => Ok(Kept::parse(&content, &self.ledger, document, boot_id().unwrap_or_default())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((Kept::default(), Vec::new())),
            Err(error) => Err(error),
        }
    }

    fn read_saved(&self, each: SavedVersion<'_>) {
        if let Err(error) = (self.saved)(each) {
            // Then nothing more counts as saved.
            log::debug!("cannot read the committed ledger: {}", error.full_message());
        }
    }

    fn write(&self, kept: &Kept, others: &[u8], stamp: Option<Stamp>) -> io::Result<()> {
        let own = kept.to_lines(&self.ledger);
        let size = format!("{{\"compacted\":{}}}\n", own.len() + others.len());
        let end = end_of(stamp);
        replace(&self.path, &[size.as_bytes(), own.as_bytes(), others, end.as_bytes()].concat(), 0o600)
    }

    /// Appends lines, and returns the open file.
    fn append(&self, lines: &str) -> io::Result<File> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&self.path)?;
        let mut last = [b'\n'];
        if file.seek(SeekFrom::End(-1)).is_ok() {
            file.read_exact(&mut last)?;
        }
        // A crash may have cut the last line off.
        let start = if last == [b'\n'] { "" } else { "\n" };
        file.write_all(format!("{start}{lines}").as_bytes())?;
        Ok(file)
    }

    /// Returns the last line, if it is short.
    fn last_line(&self) -> io::Result<String> {
        let file = File::open(&self.path)?;
        let length = file.metadata()?.len();
        let start = length.saturating_sub(512);
        let mut end = vec![0; usize::try_from(length - start).unwrap_or_default()];
        file.read_exact_at(&mut end, start)?;
        let start = end[..end.len().saturating_sub(1)].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        Ok(String::from_utf8_lossy(&end[start..]).into_owned())
    }

    /// Returns the size of the file when saved changes were removed last.
    fn compacted_bytes(&self) -> u64 {
        let mut start = [0; 64];
        let read = File::open(&self.path).and_then(|mut file| file.read(&mut start)).unwrap_or(0);
        let text = String::from_utf8_lossy(&start[..read]);
        let number = text.strip_prefix("{\"compacted\":").and_then(|rest| rest.split('}').next()?.parse().ok());
        number.unwrap_or(0)
    }
}

/// Changes that are being written to the ledger. The lock of the ledger guards them.
pub(crate) struct Keeping<'a> {
    kept: &'a KeptFile,
    file: File,
}

impl Keeping<'_> {
    /// Records that the changes were written to the ledger, whose file has this content and this stamp now.
    pub(crate) fn end(mut self, document: &Document, stamp: Option<Stamp>) -> io::Result<()> {
        self.file.write_all(end_of(stamp).as_bytes())?;
        let (kept_file, size) = (self.kept, self.file.metadata()?.len());
        if size > MIN_COMPACTED_BYTES && size > kept_file.compacted_bytes() * 2 {
            let (mut kept, others) = kept_file.read(document)?;
            kept_file.read_saved(&mut |saved, at| {
                kept.forget_saved(saved, at);
                !kept.is_empty()
            });
            kept_file.write(&kept, &others, stamp)?;
        }
        Ok(())
    }
}

/// Returns the line that ends changes, after which the ledger's file has this stamp.
fn end_of(stamp: Option<Stamp>) -> String {
    let bytes = stamp.map(Stamp::to_bytes).unwrap_or_default();
    end_line(&hex(&bytes), boot_id().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use waypost_core::ledger::record::Record;
    use waypost_core::ledger::vocabulary::Terms;
    use waypost_fs::PrivateDir;

    use super::*;
    use crate::{Filter, LedgerFile, Ledgers, Sort};

    const NOW: Timestamp = Timestamp::from_millis(1_767_225_600_000);
    const ONE: &str = "{\"id\":\"a-1\",\"title\":\"One\"}\n";
    const TWO: &str = "{\"id\":\"a-2\",\"title\":\"Two\"}\n";

    /// Returns a ledger in a directory. The last commit has this version of it.
    fn ledger(dir: &Path, committed: &'static str) -> Ledgers {
        Ledgers::new(vec![file(dir, committed)], dir.join("private/index.db"), Terms::default())
    }

    fn file(dir: &Path, committed: &'static str) -> LedgerFile {
        let private = PrivateDir::from(dir.join("private")).with_user_dir(Some(dir.join("home")));
        LedgerFile::new(dir.join("issues.jsonl"), private, "ledger.lock", Duration::from_secs(20)).with_kept_changes(
            move |each| {
                each(&Document::parse(committed.into()), NOW);
                Ok(())
            },
        )
    }

    fn add(ledgers: &Ledgers, line: &str) {
        let record = Record::parse(line.trim_end()).unwrap();
        ledgers.change(0, NOW, |draft| draft.add(&record)).unwrap();
    }

    fn ids(ledgers: &Ledgers) -> Vec<String> {
        let listed = ledgers.with_index(NOW, |index| index.list(&Filter::default(), Sort::Id, false, None)).unwrap();
        listed.into_iter().map(|issue| issue.id).collect()
    }

    #[test]
    fn a_change_that_another_program_takes_back_is_shown_and_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let ledgers = ledger(dir.path(), "");
        add(&ledgers, ONE);
        replace(&dir.path().join("issues.jsonl"), b"", 0o600).unwrap();
        assert_eq!(ids(&ledgers), ["a-1"]);
        add(&ledgers, TWO);
        assert_eq!((ledgers.take_put_back(), ids(&ledgers)), (1, vec!["a-1".to_owned(), "a-2".to_owned()]));
        assert_eq!(fs::read_to_string(dir.path().join("issues.jsonl")).unwrap(), [ONE, TWO].concat());
    }

    #[test]
    fn a_change_that_a_commit_has_stays_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let ledgers = ledger(dir.path(), ONE);
        add(&ledgers, ONE);
        replace(&dir.path().join("issues.jsonl"), b"", 0o600).unwrap();
        assert_eq!(ids(&ledgers), [""; 0]);
        add(&ledgers, TWO);
        assert_eq!((ledgers.take_put_back(), ids(&ledgers)), (0, vec!["a-2".to_owned()]));
    }

    #[test]
    fn a_change_that_is_made_while_the_ledger_is_read_is_not_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        add(&ledger(dir.path(), ""), ONE);
        std::thread::scope(|threads| {
            let writer = threads.spawn(|| {
                let ledgers = ledger(dir.path(), "");
                for number in 0..150 {
                    add(&ledgers, &format!("{{\"id\":\"b-{number}\",\"title\":\"New\"}}\n"));
                }
            });
            let file = file(dir.path(), "");
            while !writer.is_finished() {
                assert_eq!(file.source().unwrap().restored, [""; 0]);
            }
        });
    }
}
