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
    let Some(code) = error.sqlite_error_code() else {
        // The row is there but is not what we write: wrong type, bad id, bad JSON.
        return (Kind::Damaged, Some("way doctor says more"));
    };
    match code {
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
            (Kind::Damaged, Some("keep the file, then restore a backup, or move it away and start anew"))
        }
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            (Kind::Unavailable, Some("another program holds it; try again when that has ended"))
        }
        ErrorCode::DiskFull => (Kind::Unavailable, Some("the disk is full; nothing was changed")),
        ErrorCode::ReadOnly => (Kind::Unavailable, Some("its file or directory is not writable")),
        ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::SystemIoFailure => (Kind::Unavailable, None),
        _ => (Kind::Internal, None),
    }
}
