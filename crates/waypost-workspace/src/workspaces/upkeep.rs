//! Repacks mirrors: every fetch leaves a pack, and git gets slower with each.
//!
//! No object is ever deleted, reachable or not, because a workspace may borrow it from here alone. So small packs are
//! combined and nothing is garbage-collected. A large pack stays a link to the source's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use waypost_core::{Error, Result};
use waypost_fs::FileLock;

use super::mirror::Mirror;

/// With fewer packs, git is as fast as with one.
const MIN_PACKS: usize = 10;

/// The maximum time to wait for a process that makes a workspace of the same repository.
const LOCK_TIMEOUT: Duration = Duration::from_mins(2);

/// A temporary file of this age was abandoned.
const MIN_ABANDONED_AGE: Duration = Duration::from_hours(24);

/// A repacked mirror.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Packed {
    /// The mirror.
    #[serde(with = "waypost_core::path_text::serde")]
    pub mirror: PathBuf,
    /// How many packs it had.
    pub before: usize,
    /// How many packs it has now.
    pub after: usize,
}

/// Repacks every mirror that has many packs. Returns those mirrors, and the errors of others.
pub fn upkeep(mirrors: &Path) -> (Vec<Packed>, Vec<Error>) {
    let (mut packed, mut failed) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(mirrors).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|kind| kind != "git") || !path.join("HEAD").is_file() {
            continue;
        }
        match pack(&path) {
            Ok(Some(done)) => packed.push(done),
            Ok(None) => {}
            Err(error) => failed.push(error),
        }
    }
    (packed, failed)
}

fn pack(path: &Path) -> Result<Option<Packed>> {
    let before = packs(path);
    if before < MIN_PACKS {
        return Ok(None);
    }
    let _lock = FileLock::acquire(&path.with_extension("lock"), LOCK_TIMEOUT)?;
    // A geometric repack combines the small packs into one, with all of their objects.
    let git = Mirror::at(path).git()?.with_setting("repack.writeBitmaps", "false");
    git.command().args(["repack", "--quiet", "--geometric=2", "-d", "-n"]).stdout()?;
    sweep(&path.join("objects/pack"));
    Ok(Some(Packed { mirror: path.to_owned(), before, after: packs(path) }))
}

fn packs(mirror: &Path) -> usize {
    let entries = fs::read_dir(mirror.join("objects/pack")).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().extension().is_some_and(|kind| kind == "pack")).count()
}

/// Deletes temporary files that a killed git left behind.
fn sweep(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let is_temporary = entry.file_name().to_str().is_some_and(|name| name.starts_with("tmp_"));
        let age = entry.metadata().and_then(|found| found.modified()).ok().and_then(|time| age_of(time).ok());
        if is_temporary && age.is_some_and(|age| age > MIN_ABANDONED_AGE) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "files are stamped by the machine's clock")]
fn age_of(time: SystemTime) -> std::result::Result<Duration, std::time::SystemTimeError> {
    SystemTime::now().duration_since(time)
}
