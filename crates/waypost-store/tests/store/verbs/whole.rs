//! Facts about the store as a whole: its time, savepoints and commits.

use std::time::{Duration, Instant};

use waypost_core::clock::{Anchor, Doubt, Remembered};
use waypost_core::model::{Agent, Lease, NewEvent, SavedAnswer, Task, TaskStatus};
use waypost_core::store::{Store, Tx};
use waypost_core::time::Timestamp;

use super::{all, event, failure, repository, worktree};
use crate::rows::{Dice, World};
use crate::{read, write};

pub(crate) fn a_dropped_transaction_has_no_effect(store: &mut dyn Store) {
    let mut tx = store.begin_write().unwrap();
    tx.repository_put(&repository(1)).unwrap();
    drop(tx);
    assert_eq!(read(store, |tx| tx.repository_list().unwrap()), []);
}

pub(crate) fn undo_reverts_only_the_writes_since_the_mark(store: &mut dyn Store) {
    let repository = repository(1);
    let worktree = worktree(2, &repository);
    let append = |tx: &mut dyn Tx, subject: &str, time: i64| {
        let time = Timestamp::from_millis(time);
        tx.event_append(&NewEvent { time, ..event(&worktree, subject) }).unwrap()
    };
    write(store, |tx| {
        assert!(tx.undo().is_err(), "there is no mark");
        tx.repository_put(&repository).unwrap();
        tx.worktree_put(&worktree).unwrap();
        tx.mark().unwrap();
        assert_eq!(append(tx, "first", 1_000), 1);
        tx.mark().unwrap();
        assert_eq!(append(tx, "undone", 9_000_000_000_000), 2);
        tx.worktree_touch(&worktree.id, Timestamp::from_millis(99)).unwrap();
        assert_eq!(tx.worktree_get(&worktree.id).unwrap().unwrap().last_seen.as_millis(), 99);
        tx.undo().unwrap();
        assert_eq!(tx.worktree_get(&worktree.id).unwrap().unwrap(), worktree);
        assert_eq!(tx.event_last().unwrap(), 1);
        assert!(
            tx.now().unwrap() < Timestamp::from_millis(9_000_000_000_000),
            "the time of what was undone is forgotten"
        );
        assert_eq!(append(tx, "undone too", 1_000), 2);
        tx.undo().unwrap();
        assert_eq!(append(tx, "second", 1_000), 2);
    });
    let events = read(store, |tx| tx.event_list(&all()).unwrap());
    assert_eq!(events.iter().map(|event| event.subject.as_str()).collect::<Vec<_>>(), ["second", "first"]);
    write(store, |tx| {
        tx.mark().unwrap();
        append(tx, "third", 1_000);
        tx.undo().unwrap();
    });
    assert_eq!(read(store, |tx| tx.event_last().unwrap()), 2);
}

pub(crate) fn a_transaction_can_continue_after_a_failure_is_undone(store: &mut dyn Store) {
    let repository = repository(1);
    write(store, |tx| {
        tx.repository_put(&repository).unwrap();
        tx.mark().unwrap();
        let elsewhere = event(&worktree(3, &repository), "its worktree is not there");
        assert!(failure(tx, |tx| tx.event_append(&elsewhere).map(drop)).is_some());
        tx.undo().unwrap();
        // The backend may report the failure later: the undo covers that, too.
        let _ = tx.event_append(&elsewhere);
        tx.undo().unwrap();
        tx.worktree_put(&worktree(2, &repository)).unwrap();
    });
    assert_eq!(read(store, |tx| tx.worktree_list().unwrap().len()), 1);
}

pub(crate) fn a_prefetched_read_returns_the_same_as_a_plain_one(store: &mut dyn Store) {
    let repository = repository(1);
    let worktree = worktree(2, &repository);
    let prefetch = |tx: &mut dyn Tx| {
        tx.prefetch(&mut |tx| {
            tx.now()?;
            tx.event_last()?;
            tx.repository_list()?;
            tx.event_list(&all())?;
            tx.worktree_get(&worktree.id).map(drop)
        })
        .unwrap();
    };
    write(store, |tx| {
        prefetch(tx);
        assert_eq!(tx.worktree_get(&worktree.id).unwrap(), None);
        tx.repository_put(&repository).unwrap();
        tx.worktree_put(&worktree).unwrap();
        assert_eq!(tx.event_append(&event(&worktree, "one")).unwrap(), 1);
        assert_eq!(
            tx.worktree_get(&worktree.id).unwrap().as_ref(),
            Some(&worktree),
            "it was stored after the prefetch"
        );
        prefetch(tx);
        assert_eq!(tx.event_append(&event(&worktree, "two")).unwrap(), 2, "a prefetch changes nothing");
        assert_eq!(tx.event_list(&all()).unwrap().len(), 2);
        assert_eq!(tx.repository_list().unwrap(), std::slice::from_ref(&repository));
    });
}

pub(crate) fn time_never_goes_backwards(store: &mut dyn Store) {
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
    assert_eq!(read(store, |tx| tx.now().unwrap()), ahead, "the clock went back, the store's time did not");
    assert_eq!(write(store, |tx| tx.now().unwrap()), ahead);
}

pub(crate) fn committed_rows_are_stored_and_others_are_not(store: &mut dyn Store) {
    let world = World::small(&mut Dice::new(1));
    write(store, |tx| world.put(tx));
    let mut tx = store.begin_write().unwrap();
    let other = Task { description: "other".to_owned(), ..world.tasks[0].clone() };
    tx.task_put(&other).unwrap();
    tx.task_remove(&world.tasks[1].id).unwrap();
    assert_eq!(tx.task_get(&other.id).unwrap().as_ref(), Some(&other), "a transaction sees its own writes");
    drop(tx);
    read(store, |tx| {
        for task in &world.tasks {
            assert_eq!(tx.task_get(&task.id).unwrap().as_ref(), Some(task));
        }
    });
    write(store, |tx| tx.task_remove(&world.tasks[1].id).unwrap());
    assert_eq!(read(store, |tx| tx.task_get(&world.tasks[1].id).unwrap()), None);
}

pub(crate) fn the_state_of_the_store_is_read_back(store: &mut dyn Store) {
    let world = World::small(&mut Dice::new(14));
    assert_eq!(read(store, |tx| tx.clock_get().unwrap()), Remembered::default());
    assert_eq!(read(store, |tx| (tx.epoch_floor().unwrap(), tx.lease_max_epoch().unwrap())), (0, 0));
    let doubt = Some(Doubt { wall: Timestamp::from_millis(7), since_ms: Some(8) });
    let anchor = Anchor { boot: "a boot".to_owned(), offset_ms: -5, is_firm: false, doubt };
    let later = Timestamp::from_millis(9_000);
    write(store, |tx| {
        world.put(tx);
        tx.anchor_put(&anchor).unwrap();
        tx.epoch_floor_put(1_000_000).unwrap();
        tx.lease_put(&Lease { epoch: 41, ..world.lease(&mut Dice::new(14)) }).unwrap();
        tx.event_append(&NewEvent { time: later, ..event(&world.worktrees[0], "x") }).unwrap();
        assert_eq!(tx.clock_get().unwrap(), Remembered { anchor: anchor.clone(), last: Some(later) });
    });
    let read_back =
        read(store, |tx| (tx.clock_get().unwrap(), tx.epoch_floor().unwrap(), tx.lease_max_epoch().unwrap()));
    assert_eq!(read_back, (Remembered { anchor, last: Some(later) }, 1_000_000, 41));
    // An event may be earlier than the one before it. The last event counts.
    write(store, |tx| {
        tx.anchor_put(&Anchor::default()).unwrap();
        tx.event_append(&event(&world.worktrees[0], "x")).unwrap();
    });
    let last = Some(Timestamp::from_millis(1_000));
    assert_eq!(read(store, |tx| tx.clock_get().unwrap()), Remembered { anchor: Anchor::default(), last });
}

pub(crate) fn deadlines_move_together(store: &mut dyn Store) {
    let dice = &mut Dice::new(15);
    let world = World::small(dice);
    let at = Timestamp::from_millis;
    let never = at(i64::MAX);
    let agent = Agent { silent_at: Some(at(20)), ..world.agents[0].clone() };
    let held = Lease {
        subject: "held".to_owned(),
        holder: Some(agent.id.clone()),
        expires_at: at(30),
        run_until: Some(never),
        stall_at: None,
        ..world.lease(dice)
    };
    let free = Lease { subject: "free".to_owned(), holder: None, ..held.clone() };
    let pending =
        Task { status: TaskStatus::Pending, due_at: Some(at(40)), queued_at: at(10), ..world.tasks[0].clone() };
    let answer = SavedAnswer { key: "k".to_owned(), created_at: at(10), ..world.answer(dice) };
    write(store, |tx| {
        world.put(tx);
        tx.agent_put(&agent).unwrap();
        tx.lease_put(&held).unwrap();
        tx.lease_put(&free).unwrap();
        tx.task_put(&pending).unwrap();
        tx.answer_put(&answer).unwrap();
    });
    let mut check = |by: i64, now: i64, moved: i64, redated: i64| {
        write(store, |tx| tx.deadlines_shift(by, at(now)).unwrap());
        read(store, |tx| {
            assert_eq!(tx.agent_get(&agent.id).unwrap().unwrap().silent_at, Some(at(20 + moved)));
            assert_eq!(tx.lease_get("held").unwrap(), Some(Lease { expires_at: at(30 + moved), ..held.clone() }));
            assert_eq!(tx.lease_get("free").unwrap().as_ref(), Some(&free));
            assert_eq!(tx.lease_list_due(at(30 + moved), 9).unwrap().len(), 1, "its deadline moved, too");
            let task = tx.task_get(&pending.id).unwrap().unwrap();
            assert_eq!((task.due_at, task.queued_at), (Some(at(40 + moved)), at(redated)));
            assert_eq!(tx.answer_get("k").unwrap().unwrap().created_at, at(redated));
        });
    };
    check(1_000, 5_000, 1_000, 1_010);
    check(-700, 300, 300, 300);
}

pub(crate) fn a_wait_returns_at_once_if_there_is_a_newer_event(store: &mut dyn Store) {
    let world = World::small(&mut Dice::new(9));
    write(store, |tx| {
        world.put(tx);
        tx.event_append(&world.event(&mut Dice::new(9))).unwrap();
    });
    let start = Instant::now();
    store.wait(0, Duration::from_mins(1)).unwrap();
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    store.wait(1, Duration::ZERO).unwrap();
}

pub(crate) fn a_transaction_with_a_failed_write_cannot_be_committed(store: &mut dyn Store) {
    let world = World::small(&mut Dice::new(11));
    let mut tx = store.begin_write().unwrap();
    tx.repository_put(&world.repositories[0]).unwrap();
    assert!(failure(&mut *tx, |tx| tx.agent_put(&world.agents[0])).is_some());
    tx.commit().unwrap_err();
    assert_eq!(read(store, |tx| tx.repository_list().unwrap()), []);

    let mut tx = store.begin_write().unwrap();
    tx.repository_put(&world.repositories[0]).unwrap();
    // The commit fails even if the caller ignores the error of the write.
    let _ = tx.agent_put(&world.agents[0]);
    tx.commit().unwrap_err();
    assert_eq!(read(store, |tx| tx.repository_list().unwrap()), []);
}
