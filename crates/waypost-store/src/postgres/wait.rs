//! Waiting for a write of another process.
//!
//! The server's notifications are only a hint: they are lost with the connection, and a pooled connection delivers none.
//! So the store is also polled every few seconds.

use std::time::{Duration, Instant};

use waypost_core::{Result, engine};

use super::address::Address;
use super::connection::Connection;
use super::{PostgresStore, pause};

/// How often to read the store without a notification.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// A connection that receives notifications of writes.
pub(super) struct Listener(Connection);

/// Waits until there is an event after `last`, or until the time is up.
pub(super) fn wait(store: &mut PostgresStore, last: u64, at_most: Duration) -> Result<()> {
    let end = Instant::now().checked_add(at_most);
    loop {
        if store.listener.is_none() {
            store.listener = Listener::open(&store.address);
        }
        // Read after the listener is set up, so that no write between the two is missed.
        if engine::query(store, |tx| tx.event_last())? > last {
            return Ok(());
        }
        let left = end.map_or(POLL_INTERVAL, |end| end.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Ok(());
        }
        let left = left.min(POLL_INTERVAL);
        match &mut store.listener {
            Some(listener) => {
                if !listener.wait(left) {
                    store.listener = None;
                }
            }
            None => pause(left),
        }
    }
}

impl Listener {
    /// Starts to listen. Returns None if that fails: the caller polls instead.
    fn open(address: &Address) -> Option<Listener> {
        let mut connection = Connection::open(address, POLL_INTERVAL).ok()?;
        connection.client.batch_execute(&format!("LISTEN {}", address.channel())).ok()?;
        Some(Listener(connection))
    }

    /// Waits for a notification. Returns false if the connection was lost.
    fn wait(&mut self, at_most: Duration) -> bool {
        self.0.client.wait_for_notification(at_most)
    }
}
