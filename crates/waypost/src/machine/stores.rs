//! The user's register of stores: one that vanished, as from a disk that is not mounted, must not be replaced by an empty one.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use waypost_core::{Error, Result, path_text};

use crate::machine::place::{Location, Place};

/// The file in the user's directory. Each line has the path of a store. If the store is in a repository's private directory,
/// the line also has the id of the repository, which is there too: one that was cloned again has never had a store.
const FILE: &str = "stores";

/// Fails if the user had a store here that is gone.
pub(crate) fn check_gone(place: &Place, store: &Path) -> Result<()> {
    let Some((file, _)) = place.in_home(FILE) else { return Ok(()) };
    let known = std::fs::read_to_string(file).unwrap_or_default();
    let entry = entry(place, store);
    if !known.lines().any(|line| line == entry) {
        return Ok(());
    }
    Err(Error::unavailable(format!("the store {} was here, and is gone", store.display()))
        .hint("mount its disk, or bring it back from a backup")
        .hint("to begin an empty one: way init"))
}

/// Records that the user has a store. Without a user directory that can be written, nothing is recorded.
pub(crate) fn record(place: &Place, store: &Path) {
    let Some((file, _)) = place.in_home(FILE) else { return };
    let line = format!("{}\n", entry(place, store));
    let appended = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&file);
    if let Err(error) = appended.and_then(|mut file| file.write_all(line.as_bytes())) {
        log::debug!("cannot write {}: {error}", file.display());
    }
}

/// Forgets the store of a place, so that an empty one may be created in its place.
pub fn forget_store(place: &Place) -> Result<()> {
    let (Location::Sqlite(store), Some((file, _))) = (place.store()?.location, place.in_home(FILE)) else {
        return Ok(());
    };
    let (known, entry) = (std::fs::read_to_string(&file).unwrap_or_default(), entry(place, &store));
    if store.exists() || !known.lines().any(|line| line == entry) {
        return Ok(());
    }
    let others = known.lines().filter(|line| *line != entry).fold(String::new(), |others, line| others + line + "\n");
    waypost_fs::replace(&file, others.as_bytes(), 0o600)
        .map_err(|error| Error::unavailable(format!("cannot write {}", file.display())).because(error))
}

fn entry(place: &Place, store: &Path) -> String {
    let private_dir = place.checkout.as_ref().map(|checkout| &checkout.private_dir);
    let is_inside = private_dir.is_some_and(|dir| store.starts_with(dir));
    let id = place.repository_id().ok().flatten().filter(|_| is_inside);
    // A line break in a path would be another line.
    format!("{:?} {}", path_text::to_text(store), id.map(|id| id.to_string()).unwrap_or_default())
}
