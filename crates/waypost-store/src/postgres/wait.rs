//! Waiting for somebody else's write.
//!
//! The server's notifications are a hint: one is lost with the connection that should have brought it, and a pooled
//! connection brings none. So it is looked at every few seconds in any case.

use std::time::{Duration, Instant};

use waypost_core::{Result, engine};

use super::address::Address;
use super::connection::Connection;
use super::{PostgresStore, pause};

/// How often to look although nothing was heard.
const LOOK: Duration = Duration::from_secs(2);

/// A connection that hears of writes.
pub(super) struct Listener(Connection);

/// Waits until there is an event after `last`, or until time is up.
pub(super) fn wait(store: &mut PostgresStore, last: u64, at_most: Duration) -> Result<()> {
    let end = Instant::now().checked_add(at_most);
    loop {
        if store.listener.is_none() {
            store.listener = Listener::open(&store.address);
        }
        // Looked at after we began to listen: what was written before that is seen here, what is written after it is heard.
        if engine::query(store, |tx| tx.event_last())? > last {
            return Ok(());
        }
        let left = end.map_or(LOOK, |end| end.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Ok(());
        }
        let left = left.min(LOOK);
        match &mut store.listener {
            Some(listener) => {
                if !listener.hear(left) {
                    store.listener = None;
                }
            }
            None => pause(left),
        }
    }
}

impl Listener {
    /// Begins to listen. Where that does not work, waiting goes without.
    fn open(address: &Address) -> Option<Listener> {
        let mut connection = Connection::open(address, LOOK).ok()?;
        connection.client.batch_execute(&format!("LISTEN {}", address.channel())).ok()?;
        Some(Listener(connection))
    }

    /// Waits for a notification, at most so long. Returns false if the connection is gone.
    fn hear(&mut self, at_most: Duration) -> bool {
        self.0.client.hear(at_most)
    }
}
