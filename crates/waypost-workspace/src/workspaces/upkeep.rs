//! Upkeep of mirrors: every fetch left a pack, and git gets slower with each.
//!
//! No object ever goes, whether anything leads to it or not: a workspace may have it from here alone. So small packs are
//! put together and nothing is collected, and a large pack that is a link to the source's own stays one.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use waypost_core::{Error, Result};
use waypost_fs::FileLock;

use super::mirror::Mirror;

/// With fewer packs than this git is as quick as with one.
const MANY: usize = 10;

/// How long somebody is waited for who makes a workspace of the same repository.
const PATIENCE: Duration = Duration::from_mins(2);

/// After this long nobody writes any more to a file that was begun.
const ABANDONED: Duration = Duration::from_hours(24);

/// A mirror whose packs were put together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Packed {
    /// The mirror.
    #[serde(with = "waypost_core::path_text::serde")]
    pub mirror: PathBuf,
    /// How many packs it had.
    pub before: usize,
    /// How many it has.
    pub after: usize,
}

/// Puts the packs of every mirror together that has many. Returns those, and what could not be done.
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
    if before < MANY {
        return Ok(None);
    }
    let _lock = FileLock::acquire(&path.with_extension("lock"), PATIENCE)?;
    // By their sizes: the small ones become one, with everything that is in them.
    let git = Mirror::at(path).git().with_setting("repack.writeBitmaps", "false");
    git.command().args(["repack", "--quiet", "--geometric=2", "-d", "-n"]).stdout()?;
    sweep(&path.join("objects/pack"));
    Ok(Some(Packed { mirror: path.to_owned(), before, after: packs(path) }))
}

fn packs(mirror: &Path) -> usize {
    let entries = fs::read_dir(mirror.join("objects/pack")).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().extension().is_some_and(|kind| kind == "pack")).count()
}

/// Deletes what a git that was killed began to write.
fn sweep(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let is_begun = entry.file_name().to_str().is_some_and(|name| name.starts_with("tmp_"));
        let age = entry.metadata().and_then(|found| found.modified()).ok().and_then(|time| age_of(time).ok());
        if is_begun && age.is_some_and(|age| age > ABANDONED) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "files are stamped by the machine's clock")]
fn age_of(time: SystemTime) -> std::result::Result<Duration, std::time::SystemTimeError> {
    SystemTime::now().duration_since(time)
}
