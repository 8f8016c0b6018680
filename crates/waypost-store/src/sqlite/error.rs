//! Translation of SQLite's errors into errors with hints for the user.
//!
//! Busy, full, read-only, unreadable and damaged are different conditions. Damage is reported only after a second check
//! confirms it.

use std::path::Path;

use rusqlite::ErrorCode;
use waypost_core::{Error, Kind};

use super::confirm::{self, Verdict};

/// Returns a function that translates SQLite's errors: `what` failed for the store at `path`.
pub(super) fn at<'a>(path: &'a Path, what: &'a str) -> impl Fn(rusqlite::Error) -> Error + 'a {
    move |error| {
        if confirm::is_damage(&error) {
            return verdict(path, what, &error);
        }
        let (kind, hint) = classify(&error);
        let mut translated = Error::new(kind, message(path, what)).because(&error);
        if let Some(hint) = hint {
            translated = translated.hint(hint);
        }
        // The transaction had no effect, and space may be available soon.
        if error.sqlite_error_code() == Some(ErrorCode::DiskFull) { translated.transient() } else { translated }
    }
}

/// Returns a function that translates the error of a failed commit.
///
/// If the disk failed, the outcome is unknown: the transaction may be whole in the log, and the next process that opens the
/// store then takes it for committed.
pub(super) fn at_commit(path: &Path) -> impl Fn(rusqlite::Error) -> Error {
    move |error| match error.sqlite_error_code() {
        Some(ErrorCode::SystemIoFailure) => Error::unavailable(message(path, "cannot write"))
            .because(error)
            .hint("the write may be in the store: check the disk, then repeat it with the same idempotency key")
            .hint("without a key, check whether the store has the write before you repeat it")
            .outcome_unknown(),
        _ => at(path, "cannot write")(error),
    }
}

/// Reads the store again before it is reported as damaged, because that hint tells the user to give up its content.
fn verdict(path: &Path, what: &str, error: &rusqlite::Error) -> Error {
    match confirm::examine(path) {
        Verdict::Damaged => Error::damaged(message(path, what)).because(error).hint(
            "move it away together with its -wal and -shm files, then start with an empty store or restore a backup",
        ),
        Verdict::Intact => failed_read(path, what),
        Verdict::Unreadable(error) => Error::unavailable(message(path, what))
            .because(error)
            .hint("its file cannot be read: check the disk and the system log, then try again"),
    }
}

/// Returns the error for a failed read of an intact file.
pub(super) fn failed_read(path: &Path, what: &str) -> Error {
    Error::unavailable(message(path, what))
        .because("a read of its file failed")
        .hint("the file was whole when it was read again: try again")
}

fn message(path: &Path, what: &str) -> String {
    format!("{what} the store {}", path.display())
}

fn classify(error: &rusqlite::Error) -> (Kind, Option<&'static str>) {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    let Some(code) = error.sqlite_error_code() else {
        return match error {
            // The row has content that Waypost does not write: wrong type, invalid id, invalid JSON.
            FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..) => {
                (Kind::Damaged, Some("way doctor says more"))
            }
            _ => (Kind::Internal, None),
        };
    };
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            (Kind::Unavailable, Some("another program holds it; try again when that has ended"))
        }
        ErrorCode::DiskFull => (Kind::Unavailable, Some("the disk is full")),
        ErrorCode::ReadOnly => (Kind::Unavailable, Some("its file or directory is not writable")),
        ErrorCode::SystemIoFailure => {
            (Kind::Unavailable, Some("the system could not read or write its file: try again, then check the disk"))
        }
        ErrorCode::CannotOpen | ErrorCode::PermissionDenied => (Kind::Unavailable, None),
        _ => (Kind::Internal, None),
    }
}
