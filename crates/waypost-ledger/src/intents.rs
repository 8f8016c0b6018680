//! Records that a change with a key is about to be written, so that it is made exactly once.
//!
//! A deferred change is in the ledger and still in the store if a process ends between writing the one and confirming to the
//! other. Before it writes the ledger, a process records the key and the new lines. The next process that takes the ledger's
//! lock, before it changes anything, finds out from the ledger whether it was written.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use waypost_core::ledger::conflict;
use waypost_core::ledger::document::Document;
use waypost_core::seeded::seeded_bug;
use waypost_fs::{read_version, replace};

/// The records of the changes with a key, beside the lock that guards them.
pub(crate) struct Intents {
    /// The change that is about to be written.
    intent: PathBuf,
    /// The keys of changes that are in the ledger, one per line.
    written: PathBuf,
}

impl Intents {
    pub(crate) fn beside(lock: &Path) -> Intents {
        Intents { intent: lock.with_extension("intent"), written: lock.with_extension("written") }
    }

    /// Records a change that is about to be written.
    pub(crate) fn begin<'l>(&self, key: &str, ledger: &Path, lines: impl Iterator<Item = &'l [u8]>) -> io::Result<()> {
        let path = ledger.as_os_str().as_bytes();
        let mut content = format!("{key:?}\n{}\n", path.len()).into_bytes();
        content.extend([path, b"\n"].concat());
        content.extend(lines.flat_map(|line| [line, b"\n"].concat()));
        replace(&self.intent, &content, 0o600)
    }

    /// Finds out whether the recorded change was written. The caller holds the lock and has changed nothing yet.
    pub(crate) fn resolve(&self) -> io::Result<()> {
        let Some(content) = read(&self.intent)? else { return Ok(()) };
        if let Some(intent) = Intent::parse(&content)
            && intent.is_written()?
            && !seeded_bug("deliver_twice")
        {
            let mut keys = read(&self.written)?.unwrap_or_default();
            keys.extend([intent.key, b"\n"].concat());
            replace(&self.written, &keys, 0o600)?;
        }
        remove(&self.intent)
    }

    /// Returns whether a change was written. The caller holds the lock, and resolved the intent when it took the lock.
    pub(crate) fn is_written(&self, key: &str) -> io::Result<bool> {
        let key = format!("{key:?}");
        let keys = read(&self.written)?.unwrap_or_default();
        Ok(keys.split(|byte| *byte == b'\n').any(|line| line == key.as_bytes()))
    }

    /// Removes the records of a change that will not be made again. The caller holds the lock, so its intent is resolved.
    pub(crate) fn forget(&self, key: &str) -> io::Result<()> {
        let Some(keys) = read(&self.written)? else { return Ok(()) };
        let key = format!("{key:?}");
        let others = keys.split_inclusive(|byte| *byte == b'\n').filter(|line| line.trim_ascii_end() != key.as_bytes());
        let others = others.collect::<Vec<_>>().concat();
        if others.is_empty() { remove(&self.written) } else { replace(&self.written, &others, 0o600) }
    }

    /// Returns whether there are any records.
    pub(crate) fn exist(&self) -> bool {
        self.intent.exists() || self.written.exists()
    }
}

/// A change that was about to be written.
struct Intent<'a> {
    key: &'a [u8],
    ledger: PathBuf,
    /// Its new lines, each with its end.
    lines: &'a [u8],
}

impl Intent<'_> {
    /// Returns None for a file that is damaged.
    fn parse(content: &[u8]) -> Option<Intent<'_>> {
        let mut parts = content.splitn(3, |byte| *byte == b'\n');
        let (key, length, rest) = (parts.next()?, parts.next()?, parts.next()?);
        let length: usize = std::str::from_utf8(length).ok()?.parse().ok()?;
        let (ledger, lines) = rest.split_at_checked(length)?;
        let ledger = PathBuf::from(std::ffi::OsString::from_vec(ledger.to_vec()));
        Some(Intent { key, ledger, lines: lines.strip_prefix(b"\n")? })
    }

    /// Returns whether the ledger has one of the lines. Another program may have merged or changed others since.
    fn is_written(&self) -> io::Result<bool> {
        let (bytes, _) = read_version(&self.ledger)?;
        let document = conflict::read(Document::parse(bytes));
        let is_new = |line: &[u8]| !line.is_empty() && self.lines.split(|byte| *byte == b'\n').any(|new| new == line);
        Ok(document.lines().any(is_new))
    }
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes a file, if it exists.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ledger_tells_whether_a_change_was_written_before_a_crash() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = dir.path().join("issues\n.jsonl");
        let intents = Intents::beside(&dir.path().join("ledger.lock"));
        replace(&ledger, b"{\"id\":\"a\"}\n{\"id\":\"b\"}\n", 0o600).unwrap();
        let mut document = Document::parse(fs::read(&ledger).unwrap());
        let mut record = document.record(1).unwrap();
        record.set("title", &"new").unwrap();
        document.replace(1, &record).unwrap();

        // A process that ended before it wrote the ledger.
        intents.begin("one\ntwo", &ledger, document.changed_lines()).unwrap();
        assert!(intents.exist());
        intents.resolve().unwrap();
        assert!(!intents.is_written("one\ntwo").unwrap() && !intents.exist());

        // One that ended after it, and another program changed another line since.
        for key in ["one\ntwo", "one"] {
            intents.begin(key, &ledger, document.changed_lines()).unwrap();
            let newer = [b"{\"id\":\"a\",\"title\":\"newer\"}\n", &document.to_bytes()[11..]].concat();
            replace(&ledger, &newer, 0o600).unwrap();
            intents.resolve().unwrap();
            assert!(intents.is_written(key).unwrap());
        }
        assert!(!intents.is_written("two").unwrap());
        intents.forget("one\ntwo").unwrap();
        assert!(!intents.is_written("one\ntwo").unwrap() && intents.is_written("one").unwrap());
        intents.forget("one").unwrap();
        assert!(!intents.exist());

        // A damaged record counts as none.
        replace(&dir.path().join("ledger.intent"), b"\"one\"\n999\nx", 0o600).unwrap();
        intents.resolve().unwrap();
        assert!(!intents.exist());
    }
}
