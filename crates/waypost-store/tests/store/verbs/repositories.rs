//! Facts about repositories and worktrees.

use std::path::PathBuf;

use serde_json::json;
use waypost_core::id::RepositoryId;
use waypost_core::model::{Repository, Worktree};
use waypost_core::store::Store;
use waypost_core::time::Timestamp;

use super::{Numbers, all, event, repository, worktree};
use crate::{read, write};

pub(crate) fn rows_are_read_back_as_they_were_put(store: &mut dyn Store) {
    let repository = repository(1);
    let worktree = Worktree { removed_at: Some(Timestamp::from_millis(-5)), branch: None, ..worktree(2, &repository) };
    write(store, |tx| {
        tx.repository_put(&repository).unwrap();
        tx.worktree_put(&worktree).unwrap();
        assert_eq!(tx.event_append(&event(&worktree, "it")).unwrap(), 1);
    });
    read(store, |tx| {
        assert_eq!(tx.repository_get(&repository.id).unwrap(), Some(repository.clone()));
        assert_eq!(tx.worktree_get(&worktree.id).unwrap(), Some(worktree.clone()));
        let events = tx.event_list(&all()).unwrap();
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].data, json!({ "z": 1, "a": [null, "ü"] }));
        assert_eq!(
            (events[0].sequence, events[0].kind.as_str(), events[0].subject.as_str()),
            (1, "store.probed", "it")
        );
        assert_eq!(tx.repository_get(&RepositoryId::generate(&mut Numbers(9))).unwrap(), None);
    });
}

pub(crate) fn putting_again_replaces_and_keeps_references(store: &mut dyn Store) {
    let repository = repository(1);
    let worktree = worktree(2, &repository);
    let moved = Repository { path: PathBuf::from("/elsewhere"), ..repository.clone() };
    write(store, |tx| {
        tx.repository_put(&repository).unwrap();
        tx.worktree_put(&worktree).unwrap();
        tx.event_append(&event(&worktree, "it")).unwrap();
    });
    write(store, |tx| {
        tx.repository_put(&moved).unwrap();
        tx.worktree_put(&Worktree { name: "new name".to_owned(), ..worktree.clone() }).unwrap();
        tx.worktree_touch(&worktree.id, Timestamp::from_millis(99)).unwrap();
    });
    read(store, |tx| {
        assert_eq!(tx.repository_list().unwrap(), std::slice::from_ref(&moved));
        let now = tx.worktree_get(&worktree.id).unwrap().unwrap();
        assert_eq!((now.name.as_str(), now.last_seen.as_millis()), ("new name", 99));
        assert_eq!(tx.event_list(&all()).unwrap().len(), 1);
    });
}

pub(crate) fn lists_are_ordered(store: &mut dyn Store) {
    let repositories = [repository(3), repository(1), repository(2)];
    let worktrees = [
        worktree(5, &repositories[0]),
        worktree(4, &repositories[0]),
        Worktree { first_seen: Timestamp::from_millis(1), ..worktree(6, &repositories[1]) },
    ];
    write(store, |tx| {
        for repository in &repositories {
            tx.repository_put(repository).unwrap();
        }
        for worktree in &worktrees {
            tx.worktree_put(worktree).unwrap();
        }
    });
    read(store, |tx| {
        let names: Vec<_> = tx.repository_list().unwrap().into_iter().map(|repository| repository.name).collect();
        assert_eq!(names, ["repository 1", "repository 2", "repository 3"]);
        let names: Vec<_> = tx.worktree_list().unwrap().into_iter().map(|worktree| worktree.name).collect();
        assert_eq!(names, ["worktree 6", "worktree 4", "worktree 5"]);
    });
}

pub(crate) fn paths_of_any_bytes_are_read_back(store: &mut dyn Store) {
    use std::os::unix::ffi::OsStringExt as _;
    let path = PathBuf::from(std::ffi::OsString::from_vec(b"/tmp/\xff \n%41".to_vec()));
    let repository = Repository { path, ..repository(1) };
    write(store, |tx| tx.repository_put(&repository).unwrap());
    assert_eq!(read(store, |tx| tx.repository_get(&repository.id).unwrap()), Some(repository));
}

pub(crate) fn a_repository_is_removed_only_if_nothing_refers_to_it(store: &mut dyn Store) {
    let (used, unused) = (repository(1), repository(2));
    write(store, |tx| {
        tx.repository_put(&used).unwrap();
        tx.repository_put(&unused).unwrap();
        tx.worktree_put(&worktree(1, &used)).unwrap();
    });
    write(store, |tx| tx.repository_remove(&unused.id).unwrap());
    {
        let mut tx = store.begin_write().unwrap();
        let refused = tx.repository_remove(&used.id).is_err() || tx.commit().is_err();
        assert!(refused);
    }
    assert_eq!(read(store, |tx| tx.repository_list().unwrap()), [used]);
}
