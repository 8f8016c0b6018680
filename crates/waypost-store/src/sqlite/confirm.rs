//! A second look at a file that SQLite calls damaged.
//!
//! SQLite reports a read that failed with EIO as damage, and such a store may be whole. So all pages are copied into memory,
//! by the one interface that reports a failed read as a failed read, and the copy is checked, which reads no file.
//!
//! The copy goes through SQLite and not through a descriptor of our own: closing that would drop the locks that other
//! connections of this process hold.

use std::path::Path;
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};

/// How long to wait for a program that keeps the file locked.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// What the second look found.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Every page could be read, and they do not fit together.
    Damaged,
    /// Every page could be read, and all is well: it was a read that failed.
    Whole,
    /// The file cannot be read, so nothing is known about its content.
    Unreadable(rusqlite::Error),
}

/// Reads the whole file again, and checks what was read.
pub(super) fn examine(path: &Path) -> Verdict {
    match read_and_check(path) {
        Ok(verdict) if verdict == "ok" => Verdict::Whole,
        Ok(_) => Verdict::Damaged,
        Err(error) if is_damage(&error) => Verdict::Damaged,
        Err(error) => Verdict::Unreadable(error),
    }
}

/// Returns whether SQLite says that the file is damaged, which may also mean that a read failed.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

fn read_and_check(path: &Path) -> rusqlite::Result<String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let file = Connection::open_with_flags(path, flags)?;
    file.busy_timeout(LOCK_TIMEOUT)?;
    // Nothing is written to a file that may be damaged.
    file.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    let mut copy = Connection::open_in_memory()?;
    match Backup::new(&file, &mut copy)?.step(-1)? {
        StepResult::Done => {}
        _ => return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_BUSY), None)),
    }
    copy.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, SeekFrom, Write as _};

    use super::*;

    /// Makes a file with write-ahead logging and some rows, closed again.
    fn database(path: &Path) {
        let connection = Connection::open(path).unwrap();
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
        connection
            .execute_batch(
                "CREATE TABLE t (a TEXT); CREATE INDEX i ON t (a);
                WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 400)
                INSERT INTO t SELECT hex(zeroblob(value)) FROM n;",
            )
            .unwrap();
    }

    fn overwrite(path: &Path, offset: u64) {
        let mut file = std::fs::File::options().write(true).open(path).unwrap();
        file.seek(SeekFrom::Start(offset)).unwrap();
        file.write_all(&[0xA5; 512]).unwrap();
    }

    #[test]
    fn damage_is_told_from_a_file_that_is_whole_or_cannot_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        assert!(matches!(examine(&path), Verdict::Unreadable(_)));
        database(&path);
        assert!(matches!(examine(&path), Verdict::Whole), "{:?}", examine(&path));
        for offset in [0, 4096 * 3 + 64] {
            let damaged = dir.path().join(format!("damaged-{offset}"));
            std::fs::copy(&path, &damaged).unwrap();
            overwrite(&damaged, offset);
            assert!(matches!(examine(&damaged), Verdict::Damaged), "{:?}", examine(&damaged));
        }
    }

    #[test]
    fn rows_that_are_only_in_the_log_are_read_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        database(&path);
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("INSERT INTO t VALUES ('x')").unwrap();
        assert!(matches!(examine(&path), Verdict::Whole));
        // Its locks are still there, and so is its log.
        connection.execute_batch("INSERT INTO t VALUES ('y')").unwrap();
    }
}
