//! Facts about events.

use waypost_core::id::WorktreeId;
use waypost_core::model::{EventQuery, NewEvent};
use waypost_core::store::Store;

use super::{all, event, repository, worktree};
use crate::{read, write};

pub(crate) fn sequences_have_no_gaps_after_a_rollback(store: &mut dyn Store) {
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

pub(crate) fn events_are_listed_by_every_filter(store: &mut dyn Store) {
    let repository = repository(1);
    let (here, there) = (worktree(2, &repository), worktree(3, &repository));
    write(store, |tx| {
        tx.repository_put(&repository).unwrap();
        for (worktree, subject, kind) in [
            (&here, "a", "task.claimed"),
            (&there, "b", "task.completed"),
            (&here, "b", "workflow.created"),
            (&there, "b", "task_like"),
        ] {
            tx.worktree_put(worktree).unwrap();
            tx.event_append(&NewEvent { kind, ..event(worktree, subject) }).unwrap();
        }
    });
    let mut check = |query: EventQuery, expected: &[u64]| {
        let found: Vec<_> =
            read(store, |tx| tx.event_list(&query).unwrap()).into_iter().map(|event| event.sequence).collect();
        assert_eq!(found, expected, "{query:?}");
    };
    let (all, b, tasks) = (all(), Some("b".to_owned()), Some("task.".to_owned()));
    check(all.clone(), &[4, 3, 2, 1]);
    check(EventQuery { limit: 2, ..all.clone() }, &[4, 3]);
    check(EventQuery { limit: 0, ..all.clone() }, &[]);
    check(EventQuery { since: Some(0), limit: 2, ..all.clone() }, &[1, 2]);
    check(EventQuery { since: Some(4), ..all.clone() }, &[]);
    check(EventQuery { worktree_id: Some(here.id.clone()), ..all.clone() }, &[3, 1]);
    check(EventQuery { since: Some(1), worktree_id: Some(here.id.clone()), ..all.clone() }, &[3]);
    check(EventQuery { subject: b.clone(), ..all.clone() }, &[4, 3, 2]);
    check(EventQuery { since: Some(2), subject: b.clone(), ..all.clone() }, &[3, 4]);
    check(EventQuery { kind: tasks.clone(), ..all.clone() }, &[2, 1]);
    check(EventQuery { kind: tasks, subject: b.clone(), ..all.clone() }, &[2]);
    // The limit counts matching events, not scanned ones.
    check(EventQuery { subject: b, worktree_id: Some(here.id.clone()), limit: 1, ..all }, &[3]);
}

pub(crate) fn events_of_a_subject_are_filtered_before_they_are_counted(store: &mut dyn Store) {
    let repository = repository(1);
    let (one, other) = (worktree(1, &repository), worktree(2, &repository));
    write(store, |tx| {
        tx.repository_put(&repository).unwrap();
        tx.worktree_put(&one).unwrap();
        tx.worktree_put(&other).unwrap();
        for worktree in [&one, &one, &one, &other, &other, &other] {
            tx.event_append(&event(worktree, "thing")).unwrap();
        }
    });
    let listed = |since, worktree_id: &WorktreeId| EventQuery {
        since,
        worktree_id: Some(worktree_id.clone()),
        subject: Some("thing".to_owned()),
        limit: 2,
        ..EventQuery::default()
    };
    let sequences = |store: &mut dyn Store, query: &EventQuery| -> Vec<u64> {
        read(store, |tx| tx.event_list(query).unwrap().into_iter().map(|event| event.sequence).collect())
    };
    assert_eq!(sequences(store, &listed(None, &one.id)), [3, 2]);
    assert_eq!(sequences(store, &listed(Some(0), &other.id)), [4, 5]);
    assert_eq!(sequences(store, &listed(Some(5), &other.id)), [6]);
}
