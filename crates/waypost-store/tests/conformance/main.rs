//! One suite for every backend: each verb of a transaction, with the memory store as the reference.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use serde_json::json;
use waypost_core::id::{Entropy, RepositoryId, WorktreeId};
use waypost_core::memory::MemoryStore;
use waypost_core::model::{EventQuery, NewEvent, Repository, Vcs, Worktree};
use waypost_core::store::{Store, Tx};
use waypost_core::time::{FixedClock, Timestamp};
use waypost_store::postgres::PostgresStore;
use waypost_store::sqlite::{Options, SqliteStore};

/// Stamps the cases for one backend. `$open` makes an empty store with the given clock and keeps it alive.
macro_rules! conformance {
    ($backend:ident, $open:expr) => {
        mod $backend {
            use super::*;

            conformance!(@cases $open;
                rows_are_read_back_as_they_were_put,
                putting_again_replaces_and_keeps_references,
                a_dropped_transaction_leaves_nothing,
                lists_are_ordered,
                a_worktree_needs_its_repository,
                g3_an_event_needs_its_worktree,
                sequences_have_no_gaps_after_a_rollback,
                events_are_listed_newest_first_and_by_worktree,
                time_never_goes_back,
                paths_of_any_bytes_survive,
            );
        }
    };
    (@cases $open:expr; $($case:ident,)*) => {
        $(
            #[test]
            fn $case() {
                let open = $open;
                open(FixedClock(Timestamp::from_millis(1_000)), &mut |store| super::$case(store));
            }
        )*
    };
}

conformance!(memory, |clock: FixedClock, case: &mut dyn FnMut(&mut dyn Store)| {
    case(&mut MemoryStore::new(Box::new(clock)));
});

conformance!(sqlite, |clock: FixedClock, case: &mut dyn FnMut(&mut dyn Store)| {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    case(&mut SqliteStore::open(&path, Options::default(), Box::new(clock)).unwrap());
});

conformance!(postgres, |_: FixedClock, case: &mut dyn FnMut(&mut dyn Store)| {
    let url = waypost_testkit::postgres_url();
    case(&mut PostgresStore::open(&url, waypost_store::postgres::Options::default()).unwrap());
});

struct Numbers(u8);

impl Entropy for Numbers {
    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.fill(self.0);
    }
}

fn repository(number: u8) -> Repository {
    Repository {
        id: RepositoryId::generate(&mut Numbers(number)),
        name: format!("repository {number}"),
        path: PathBuf::from("/r"),
        vcs: Vcs::Git,
        remote_url: Some("ssh://example.org/r".to_owned()),
        default_branch: None,
    }
}

fn worktree(number: u8, of: &Repository) -> Worktree {
    Worktree {
        id: WorktreeId::generate(&mut Numbers(number)),
        repository_id: of.id.clone(),
        name: format!("worktree {number}"),
        path: PathBuf::from("/w"),
        branch: Some("topic".to_owned()),
        first_seen: Timestamp::from_millis(10),
        last_seen: Timestamp::from_millis(20),
        removed_at: None,
    }
}

fn event(of: &Worktree, subject: &str) -> NewEvent {
    NewEvent {
        time: Timestamp::from_millis(1_000),
        actor: "somebody".to_owned(),
        worktree_id: of.id.clone(),
        kind: "store.probed",
        subject: subject.to_owned(),
        data: json!({ "z": 1, "a": [null, "ü"] }),
    }
}

fn write<T>(store: &mut dyn Store, work: impl FnOnce(&mut dyn Tx) -> T) -> T {
    let mut tx = store.begin_write().unwrap();
    let result = work(&mut *tx);
    tx.commit().unwrap();
    result
}

fn read<T>(store: &mut dyn Store, work: impl FnOnce(&mut dyn Tx) -> T) -> T {
    work(&mut *store.begin_read().unwrap())
}

fn all(worktree_id: Option<WorktreeId>) -> EventQuery {
    EventQuery { worktree_id, limit: 100, ..EventQuery::default() }
}

fn rows_are_read_back_as_they_were_put(store: &mut dyn Store) {
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
        let events = tx.event_list(&all(None)).unwrap();
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].data, json!({ "z": 1, "a": [null, "ü"] }));
        assert_eq!(
            (events[0].sequence, events[0].kind.as_str(), events[0].subject.as_str()),
            (1, "store.probed", "it")
        );
        assert_eq!(tx.repository_get(&RepositoryId::generate(&mut Numbers(9))).unwrap(), None);
    });
}

fn putting_again_replaces_and_keeps_references(store: &mut dyn Store) {
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
        assert_eq!(tx.event_list(&all(None)).unwrap().len(), 1);
    });
}

fn a_dropped_transaction_leaves_nothing(store: &mut dyn Store) {
    let mut tx = store.begin_write().unwrap();
    tx.repository_put(&repository(1)).unwrap();
    drop(tx);
    assert_eq!(read(store, |tx| tx.repository_list().unwrap()), []);
}

fn lists_are_ordered(store: &mut dyn Store) {
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

fn a_worktree_needs_its_repository(store: &mut dyn Store) {
    let mut tx = store.begin_write().unwrap();
    tx.worktree_put(&worktree(1, &repository(1))).unwrap_err();
}

fn g3_an_event_needs_its_worktree(store: &mut dyn Store) {
    let mut tx = store.begin_write().unwrap();
    tx.event_append(&event(&worktree(1, &repository(1)), "it")).unwrap_err();
}

fn sequences_have_no_gaps_after_a_rollback(store: &mut dyn Store) {
    let repository = repository(1);
    let worktree = worktree(2, &repository);
    write(store, |tx| {
        tx.repository_put(&repository).unwrap();
        tx.worktree_put(&worktree).unwrap();
        assert_eq!(tx.event_last().unwrap(), 0);
        assert_eq!(tx.event_append(&event(&worktree, "one")).unwrap(), 1);
    });
    let mut tx = store.begin_write().unwrap();
    assert_eq!(tx.event_append(&event(&worktree, "lost")).unwrap(), 2);
    drop(tx);
    assert_eq!(write(store, |tx| tx.event_append(&event(&worktree, "two")).unwrap()), 2);
    assert_eq!(read(store, |tx| tx.event_last().unwrap()), 2);
}

fn events_are_listed_newest_first_and_by_worktree(store: &mut dyn Store) {
    let repository = repository(1);
    let (here, there) = (worktree(2, &repository), worktree(3, &repository));
    write(store, |tx| {
        tx.repository_put(&repository).unwrap();
        for (worktree, subject) in [(&here, "a"), (&there, "b"), (&here, "c")] {
            tx.worktree_put(worktree).unwrap();
            tx.event_append(&event(worktree, subject)).unwrap();
        }
    });
    let mut subjects = |query: EventQuery| -> Vec<String> {
        read(store, |tx| tx.event_list(&query).unwrap().into_iter().map(|event| event.subject).collect())
    };
    assert_eq!(subjects(all(None)), ["c", "b", "a"]);
    assert_eq!(subjects(EventQuery { limit: 2, ..EventQuery::default() }), ["c", "b"]);
    assert_eq!(subjects(all(Some(here.id.clone()))), ["c", "a"]);
}

fn time_never_goes_back(store: &mut dyn Store) {
    let repository = repository(1);
    let worktree = worktree(2, &repository);
    let ahead = write(store, |tx| {
        let ahead = tx.now().unwrap().plus(3_600_000);
        tx.repository_put(&repository).unwrap();
        tx.worktree_put(&worktree).unwrap();
        tx.event_append(&NewEvent { time: ahead, ..event(&worktree, "ahead") }).unwrap();
        assert_eq!(tx.now().unwrap(), ahead, "within the transaction");
        ahead
    });
    assert_eq!(read(store, |tx| tx.now().unwrap()), ahead, "the clock stepped back, the store did not");
    assert_eq!(write(store, |tx| tx.now().unwrap()), ahead);
}

fn paths_of_any_bytes_survive(store: &mut dyn Store) {
    use std::os::unix::ffi::OsStringExt as _;
    let path = PathBuf::from(std::ffi::OsString::from_vec(b"/tmp/\xff \n%41".to_vec()));
    let repository = Repository { path, ..repository(1) };
    write(store, |tx| tx.repository_put(&repository).unwrap());
    assert_eq!(read(store, |tx| tx.repository_get(&repository.id).unwrap()), Some(repository));
}
