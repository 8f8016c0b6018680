//! A SQLite store whose file is moved, deleted or replaced while it is open.

use std::fs;
use std::path::{Path, PathBuf};

use waypost_core::Kind;
use waypost_core::store::Store;
use waypost_store::sqlite::{Options, SqliteStore};

use crate::rows::{Dice, World};
use crate::{clock, read, write};

const FILES: [&str; 3] = ["state.db", "state.db-wal", "state.db-shm"];

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, Options::default(), Box::new(clock())).unwrap()
}

/// Creates a store with some events.
fn create(dir: &Path, events: u64) -> SqliteStore {
    let mut store = open(&dir.join("state.db"));
    let world = World::small(&mut Dice::new(1));
    write(&mut store, |tx| world.put(tx));
    for _ in 0..events {
        append(&mut store);
    }
    store
}

fn append(store: &mut SqliteStore) {
    let world = World::small(&mut Dice::new(1));
    write(store, |tx| tx.event_append(&world.event(&mut Dice::new(2))).unwrap());
}

fn events(store: &mut SqliteStore) -> u64 {
    read(store, |tx| tx.event_last().unwrap())
}

fn dirs() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let (one, other) = (root.path().join("one"), root.path().join("other"));
    fs::create_dir(&one).unwrap();
    fs::create_dir(&other).unwrap();
    (root, one, other)
}

fn move_files(from: &Path, to: &Path) {
    for file in FILES {
        fs::rename(from.join(file), to.join(file)).unwrap();
    }
}

#[test]
fn a_store_that_was_moved_is_neither_read_nor_written_nor_created_again() {
    let (_root, dir, away) = dirs();
    let mut store = create(&dir, 3);
    let count = events(&mut store);
    move_files(&dir, &away);
    assert_eq!(store.begin_read().err().unwrap().kind(), Kind::Unavailable);
    let error = store.begin_write().err().unwrap();
    assert_eq!((error.kind(), error.is_retriable()), (Kind::Unavailable, false), "{error}");
    assert_eq!(store.wait(count, std::time::Duration::ZERO).unwrap_err().kind(), Kind::Unavailable);
    assert!(!dir.join("state.db").exists());
    let existing = Options { create: false, ..Options::default() };
    let error = SqliteStore::open(&dir.join("state.db"), existing, Box::new(clock())).err().unwrap();
    assert_eq!(error.kind(), Kind::Unavailable);
    move_files(&away, &dir);
    assert_eq!(events(&mut store), count);
    append(&mut store);
    assert_eq!(events(&mut open(&dir.join("state.db"))), count + 1);
}

#[test]
fn a_store_that_was_replaced_is_opened_again() {
    let (root, dir, other) = dirs();
    let (mut store, few) = (create(&dir, 9), events(&mut create(&other, 1)));
    let away = root.path().join("away");
    fs::create_dir(&away).unwrap();
    move_files(&dir, &away);
    move_files(&other, &dir);
    assert_eq!(events(&mut store), few, "the new file is read");
    append(&mut store);
    assert_eq!(events(&mut open(&dir.join("state.db"))), few + 1, "and written");
}

#[test]
fn a_link_that_leads_to_another_store_is_followed() {
    let (root, dir, other) = dirs();
    let (many, few) = (events(&mut create(&dir, 9)), events(&mut create(&other, 1)));
    let link = root.path().join("link");
    std::os::unix::fs::symlink(&dir, &link).unwrap();
    let mut store = open(&link.join("state.db"));
    assert_eq!(events(&mut store), many);
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&other, &link).unwrap();
    append(&mut store);
    assert_eq!(events(&mut open(&other.join("state.db"))), few + 1);
    assert_eq!(events(&mut open(&dir.join("state.db"))), many);
}

#[test]
fn a_commit_into_a_file_that_was_moved_is_not_acknowledged() {
    let (_root, dir, away) = dirs();
    let mut store = create(&dir, 1);
    let world = World::small(&mut Dice::new(1));
    let mut tx = store.begin_write().unwrap();
    tx.event_append(&world.event(&mut Dice::new(2))).unwrap();
    move_files(&dir, &away);
    let error = tx.commit().unwrap_err();
    assert_eq!((error.kind(), error.is_outcome_unknown()), (Kind::Unavailable, true), "{error}");
}
