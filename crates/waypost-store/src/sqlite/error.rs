//! What SQLite's errors mean for the person in front of the screen.
//!
//! Busy, full, read-only, unreadable and damaged are different things. Only damage that a second look confirms is called
//! damage.

use std::path::Path;

use rusqlite::ErrorCode;
use waypost_core::{Error, Kind};

use super::confirm::{self, Verdict};

/// Turns SQLite's errors into ours: `what` failed for the store at `path`.
pub(super) fn at<'a>(path: &'a Path, what: &'a str) -> impl Fn(rusqlite::Error) -> Error + 'a {
    move |error| {
        if confirm::is_damage(&error) {
            return verdict(path, what, &error);
        }
        let (kind, hint) = classify(&error);
        let mut ours = Error::new(kind, message(path, what)).because(&error);
        if let Some(hint) = hint {
            ours = ours.hint(hint);
        }
        // Nothing of it happened, and there may be room a moment later.
        if error.sqlite_error_code() == Some(ErrorCode::DiskFull) { ours.transient() } else { ours }
    }
}

/// Looks again before a store is called damaged: only then is there advice that gives its content up.
fn verdict(path: &Path, what: &str, error: &rusqlite::Error) -> Error {
    match confirm::examine(path) {
        Verdict::Damaged => Error::damaged(message(path, what))
            .because(error)
            .hint("move it away together with its -wal and -shm files, then start anew or put a backup there"),
        Verdict::Whole => failed_read(path, what),
        Verdict::Unreadable(error) => Error::unavailable(message(path, what))
            .because(error)
            .hint("its file cannot be read: check the disk and the system log, then try again"),
    }
}

/// Says that a read failed although the file is whole.
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
            // The row is there but is not what we write: wrong type, bad id, bad JSON.
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
