//! A second check of a file that SQLite reports as damaged.
//!
//! SQLite reports a read that failed with EIO as damage, although the store may be intact. So all pages are copied into
//! memory with the backup interface, which reports a failed read as such, and the copy is checked without reading the
//! file.
//!
//! The copy is made by SQLite, not through another descriptor: closing that would release the locks that other
//! connections of this process hold.

use std::path::Path;
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, ffi};

use super::OPEN_FLAGS;

/// The maximum time to wait for a program that holds a lock on the file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// The result of the second check.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Every page can be read, and the content is inconsistent.
    Damaged,
    /// Every page can be read, and the content is consistent: the first read failed.
    Intact,
    /// The file cannot be read, so the state of its content is unknown.
    Unreadable(rusqlite::Error),
}

/// Reads the whole file again, and checks its content.
pub(super) fn examine(path: &Path) -> Verdict {
    match read_and_check(path) {
        Ok(verdict) if verdict == "ok" => Verdict::Intact,
        Ok(_) => Verdict::Damaged,
        Err(error) if is_damage(&error) => Verdict::Damaged,
        Err(error) => Verdict::Unreadable(error),
    }
}

/// Returns whether SQLite reports damage, which may also mean that a read failed.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

fn read_and_check(path: &Path) -> rusqlite::Result<String> {
    let file = Connection::open_with_flags(path, OPEN_FLAGS)?;
    file.busy_timeout(LOCK_TIMEOUT)?;
    // A file that may be damaged must not be written.
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

    /// Creates a database with write-ahead logging and some rows.
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
    fn damaged_intact_and_unreadable_files_are_distinguished() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        assert!(matches!(examine(&path), Verdict::Unreadable(_)));
        database(&path);
        assert!(matches!(examine(&path), Verdict::Intact), "{:?}", examine(&path));
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
        assert!(matches!(examine(&path), Verdict::Intact));
        // The check released none of its locks, and its log is still there.
        connection.execute_batch("INSERT INTO t VALUES ('y')").unwrap();
    }
}
