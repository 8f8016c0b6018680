//! What SQLite's errors mean for the person in front of the screen.
//!
//! Busy, full, read-only and damaged are different things; only damage is called damage.

use std::path::Path;

use rusqlite::ErrorCode;
use waypost_core::{Error, Kind};

/// Turns SQLite's errors into ours: `what` failed for the store at `path`.
pub(super) fn at<'a>(path: &'a Path, what: &'a str) -> impl Fn(rusqlite::Error) -> Error + 'a {
    move |error| {
        let (kind, hint) = classify(&error);
        let ours = Error::new(kind, format!("{what} the store {}", path.display())).because(&error);
        match hint {
            Some(hint) => ours.hint(hint),
            None => ours,
        }
    }
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
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => (
            Kind::Damaged,
            Some("move it away together with its -wal and -shm files, then start anew or put a backup there"),
        ),
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            (Kind::Unavailable, Some("another program holds it; try again when that has ended"))
        }
        ErrorCode::DiskFull => (Kind::Unavailable, Some("the disk is full")),
        ErrorCode::ReadOnly => (Kind::Unavailable, Some("its file or directory is not writable")),
        ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::SystemIoFailure => (Kind::Unavailable, None),
        _ => (Kind::Internal, None),
    }
}
