//! The store's file: created on demand, private, intact, never mixed with another.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use serde_json::json;
use waypost::Kind;
use waypost::app::session::Session;
use waypost::machine::place::Place;
use waypost::op::{Maintenance, RecordMaintenance};

use crate::harness::{Office, PERSON, data, open};

/// Writes some events into the store of a place.
fn probe(place: &Place, writes: u32) {
    let mut session = open(place, "writer");
    for _ in 0..writes {
        session.call(RecordMaintenance { what: Maintenance::Probed, detail: json!({}) }).unwrap();
    }
}

/// Returns the number of events in the store of a place.
fn events(place: &Place) -> u64 {
    data(place, PERSON, "show_status", json!({}))["store"]["events"].as_u64().unwrap()
}

/// Everything about a store's files that a write would change.
fn fingerprint(dir: &Path) -> Vec<(String, Vec<u8>, i64, i64)> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let metadata = std::fs::metadata(&path).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let content = if metadata.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
            (name, content, metadata.mtime(), metadata.mtime_nsec())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn a5_trials_with_a_scratch_store_leave_the_real_one_alone() {
    let office = Office::new();
    probe(&office.place(&office.repo), 3);
    let before = fingerprint(&office.repo.join(".git/waypost"));
    let scratch = office.with_store(&office.repo, &office.sandbox.path("scratch.db"));
    probe(&scratch, 3);
    open(&scratch, "writer").sqlite().unwrap().vacuum().unwrap();
    probe(&office.shared(&office.repo), 1);
    assert!(fingerprint(&office.repo.join(".git/waypost")) == before, "a file of the store has changed");
}

#[test]
fn a10_work_continues_in_an_older_store_that_is_named() {
    let office = Office::new();
    let old = office.with_store(&office.repo, &office.sandbox.path("old.db"));
    probe(&old, 5);
    probe(&office.place(&office.repo), 1);
    probe(&old, 1);
    let last = data(&old, PERSON, "list_events", json!({ "query": { "limit": 1 } }))["events"][0].take();
    assert_eq!(last["sequence"], 8, "after the 7 that were there");
}

#[test]
fn files_are_for_their_owner_alone() {
    let office = Office::new();
    probe(&office.place(&office.repo), 1);
    probe(&office.shared(&office.repo), 1);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for dir in [office.repo.join(".git/waypost"), office.sandbox.path("home/.waypost")] {
        assert_eq!(mode(&dir), 0o700);
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(mode(&path), if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
        }
    }
    let backup = office.sandbox.path("backup.db");
    office.session("ann").sqlite().unwrap().backup(&backup).unwrap();
    assert_eq!(mode(&backup), 0o600);
}

#[test]
fn a_store_deleted_between_calls_is_created_again_only_on_request() {
    let office = Office::new();
    let place = office.place(&office.repo);
    let id = open(&place, "ann").worktree().id.clone();
    for file in ["state.db", "state.db-wal", "state.db-shm"] {
        let _ = std::fs::remove_file(office.repo.join(".git/waypost").join(file));
    }
    let Err(error) = Session::open(place.clone()) else { panic!("the store was created again") };
    assert!(error.kind() == Kind::Unavailable && error.to_string().ends_with("was here, and is gone"), "{error}");
    waypost::machine::forget_store(&place).unwrap();
    assert_eq!(events(&place), 2);
    assert_eq!(open(&place, "ann").worktree().id, id, "the worktree keeps its id");
}

#[test]
fn a_store_moved_away_without_its_log_is_not_created_again() {
    let office = Office::new();
    let place = office.place(&office.repo);
    probe(&place, 5);
    let private = office.repo.join(".git/waypost");
    // What a process leaves that did not close the store.
    let log = private.join("state.db-wal");
    if !log.exists() {
        office.sandbox.write(&log, "");
    }
    std::fs::rename(private.join("state.db"), office.sandbox.path("away.db")).unwrap();
    // A store that this home does not know, as that of another home or an older program.
    std::fs::remove_file(office.sandbox.path("home/.waypost/stores")).unwrap();
    let Err(error) = Session::open(place.clone()) else { panic!("the store was created again") };
    assert_eq!(error.kind(), Kind::Unavailable);
    assert!(error.to_string().contains("is not there, but its log is"), "{error}");
    assert!(log.exists() && !private.join("state.db").exists());
    std::fs::rename(office.sandbox.path("away.db"), private.join("state.db")).unwrap();
    assert_eq!(events(&place), 7, "after the files are restored, nothing is lost");
}

#[test]
fn reading_does_not_wait_for_a_writer() {
    let office = Office::new();
    drop(office.session("ann"));
    let tree = office.worktree("tree");
    let gate = office.repo.join(".git/waypost/state.db-gate");
    let gate = std::fs::OpenOptions::new().write(true).open(gate).unwrap();
    gate.lock().unwrap();
    let place = office.place(&tree);
    assert_eq!(events(&place), 2);
    gate.unlock().unwrap();
    assert_eq!(events(&place), 3, "the next call records the worktree");
}
