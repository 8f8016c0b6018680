//! Mirrors of repositories.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::jobs::{Shop, path};

/// Returns the only mirror of a user.
pub(crate) fn mirror(shop: &Shop) -> PathBuf {
    let entries = fs::read_dir(shop.sandbox.path("home/.waypost/mirrors")).unwrap().map(|entry| entry.unwrap().path());
    entries.into_iter().find(|path| path.extension().is_some_and(|kind| kind == "git")).unwrap()
}

/// Makes a workspace with a new file and saves it. Returns the name of the snapshot.
pub(crate) fn saved(shop: &Shop) -> String {
    let made = shop.way(["ws", "new", "--json"]).data();
    shop.sandbox.write(path(&made["path"]).join("new"), "precious\n");
    let saved = shop.way(["ws", "snapshot", made["id"].as_str().unwrap(), "--json"]).data();
    saved["id"].as_str().unwrap().to_owned()
}

#[track_caller]
pub(crate) fn is_restored(shop: &Shop, snapshot: &str) {
    let restored = shop.way(["ws", "restore", snapshot, "--json"]).data();
    assert_eq!(fs::read_to_string(path(&restored["workspace"]["path"]).join("new")).unwrap(), "precious\n");
}

/// Empties a file, as a power cut does. It may be read-only.
pub(crate) fn empty(file: &Path) {
    fs::remove_file(file).unwrap();
    fs::File::create_new(file).unwrap();
}

/// Runs a doctor that finds a problem, and returns its output.
#[track_caller]
pub(crate) fn broken(shop: &Shop, args: &[&str]) -> String {
    let run = shop.run(args);
    assert_eq!(run.code, 9, "{}", run.whole());
    run.stdout
}
