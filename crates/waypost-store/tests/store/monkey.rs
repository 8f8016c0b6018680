//! Many writers on a server that crashes repeatedly: every acknowledged write is stored exactly once.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

use waypost_core::model::{EventQuery, Lease, NewEvent, SavedAnswer};
use waypost_core::store::Store;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};
use waypost_store::postgres::{Options, PostgresStore};
use waypost_testkit::Postgres;

use crate::read;
use crate::rows::{Dice, World};

const WRITERS: usize = 8;
const WRITES: usize = 40;
const CRASHES: usize = 6;

#[test]
fn f33_every_acknowledged_write_is_stored_exactly_once_although_the_server_crashes() {
    let server = Postgres::start(&[]);
    let url = server.url();
    let options = Options { timeout: Duration::from_mins(1), ..Options::default() };
    let mut store = PostgresStore::open(&url, options).unwrap();
    let world = World::small(&mut Dice::new(1));
    crate::write(&mut store, |tx| world.put(tx));

    let (acknowledged, progress) = mpsc::channel();
    let unknown: usize = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (url, world, acknowledged) = (&url, &world, acknowledged.clone());
                scope.spawn(move || {
                    let mut store = PostgresStore::open(url, options).unwrap();
                    let mut unknown = 0;
                    for number in 0..WRITES {
                        unknown += write_once(&mut store, world, &format!("{writer}/{number}"));
                        acknowledged.send(()).unwrap();
                    }
                    unknown
                })
            })
            .collect();
        for _ in 0..CRASHES {
            // Crashes while the writers are busy.
            progress.iter().take(WRITERS * WRITES / (CRASHES + 2)).for_each(drop);
            server.crash();
        }
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });

    let total = u64::try_from(WRITERS * WRITES).unwrap();
    read(&mut store, |tx| {
        let events = tx.event_list(&EventQuery { since: Some(0), limit: u32::MAX, ..EventQuery::default() }).unwrap();
        let mut times = BTreeMap::new();
        for (expected, event) in (1..).zip(&events) {
            assert_eq!(event.sequence, expected, "the history has no gaps");
            *times.entry(event.subject.as_str()).or_insert(0) += 1;
        }
        assert!(times.values().all(|times| *times == 1), "{times:?}; {unknown} outcomes were unknown");
        assert_eq!(u64::try_from(times.len()).unwrap(), total);
        assert_eq!(tx.lease_get("it").unwrap().map(|lease| lease.epoch), Some(total), "each grant has its own epoch");
    });
}

/// Repeats a write until it succeeds. Returns how often its outcome was unknown.
fn write_once(store: &mut dyn Store, world: &World, key: &str) -> usize {
    let mut unknown = 0;
    loop {
        match try_to_write(store, world, key) {
            Ok(()) => return unknown,
            Err(error) if error.is_retriable() => unknown += usize::from(error.is_outcome_unknown()),
            Err(error) => panic!("{}: {}", error.kind().code(), error.full_message()),
        }
    }
}

/// Writes an event and a lease together with the saved answer that makes a repetition a no-op.
fn try_to_write(store: &mut dyn Store, world: &World, key: &str) -> Result<(), Error> {
    let mut tx = store.begin_write()?;
    if tx.answer_get(key)?.is_some() {
        return Ok(());
    }
    let now = tx.now()?;
    let dice = &mut Dice::new(1);
    tx.event_append(&NewEvent { time: now, subject: key.to_owned(), ..world.event(dice) })?;
    let epoch = tx.lease_get("it")?.map_or(0, |lease| lease.epoch) + 1;
    tx.lease_put(&Lease { subject: "it".to_owned(), epoch, ..world.lease(dice) })?;
    tx.answer_put(&SavedAnswer { key: key.to_owned(), created_at: Timestamp::from_millis(0), ..world.answer(dice) })?;
    tx.commit()
}
