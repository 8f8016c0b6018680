//! The live stream of events.
//!
//! One task follows the store, encodes each event once, and caches the newest ones within a bound. Listeners read from
//! the cache, or page by page from the store if they are further behind. Each reads the next event only when its socket
//! has accepted the one before, so a slow listener misses nothing, delays no other, and costs the memory of one page.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::Response;
use serde_json::json;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinHandle;
use waypost_core::Result;
use waypost_core::model::{Event, EventQuery};
use waypost_core::op::EventList;
use waypost_core::seeded::seeded_bug;

use super::sse::{self, Client, Gone, KEEPALIVE_INTERVAL, Listener};
use super::{Shared, lock};
use crate::calls;
use waypost::app::{Measure, Who};

/// The size of the cache of recent events.
const MAX_RECENT_EVENTS: usize = 1_024;
const MAX_RECENT_BYTES: usize = 4 * 1024 * 1024;
/// Maximum size of a page; a single larger event is a page of its own.
const MAX_PAGE_BYTES: usize = 32 * 1024;
/// How many events one read of the store returns, initially and at most.
const INITIAL_PAGE_EVENTS: u32 = 4;
const MAX_PAGE_EVENTS: u32 = 500;
/// Maximum concurrent page reads, each for one listener.
const MAX_PAGE_READS: usize = 4;
/// The pause between two reads of the store, so that under load every read returns several events.
const MIN_READ_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum duration of one wait for new events, and the pause before a failed read is retried.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of listeners.
pub(crate) const MAX_LISTENERS: usize = 512;

/// The published events and their listeners.
pub(crate) struct Events {
    recent: Mutex<Recent>,
    position: watch::Sender<Position>,
    state: watch::Sender<StoreState>,
    /// Notified after each write of this server.
    own_write: Notify,
    /// The number of published events of each kind.
    kinds: Mutex<BTreeMap<String, u64>>,
    page_reads: Semaphore,
    /// How many events the next read returns: about as many as fit into a page.
    page_size: AtomicU32,
    /// Each listener has a clone; the reference count is the number of listeners.
    listeners: Arc<()>,
}

/// The end of the published history.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Position {
    /// Incremented when the store was replaced.
    history: u64,
    /// The sequence of the newest event.
    last: u64,
}

/// The outcome of the last read of the store.
#[derive(Clone, PartialEq, Eq)]
enum StoreState {
    Starting,
    Reachable,
    /// The message of the error.
    Unreachable(String),
}

/// An event in its wire format.
struct EncodedEvent {
    sequence: u64,
    kind: String,
    subject: String,
    worktree_id: String,
    bytes: Bytes,
    /// The event without texts that are not for every listener, if it has some.
    hidden: Option<Bytes>,
}

impl EncodedEvent {
    fn of(event: &Event) -> EncodedEvent {
        let encode = |event: &Event| {
            let data = serde_json::to_string(event).unwrap_or_default();
            Bytes::from(format!("id: {}\nevent: {}\ndata: {data}\n\n", event.sequence, event.kind))
        };
        let mut hidden = event.clone();
        hidden.hide_text();
        EncodedEvent {
            sequence: event.sequence,
            kind: event.kind.clone(),
            subject: event.subject.clone(),
            worktree_id: event.worktree_id.to_string(),
            bytes: encode(event),
            hidden: (hidden != *event).then(|| encode(&hidden)),
        }
    }
}

/// The newest events.
#[derive(Default)]
struct Recent {
    events: VecDeque<Arc<EncodedEvent>>,
    bytes: usize,
    /// All events after this sequence are cached.
    complete_after: u64,
}

impl Recent {
    fn restart(&mut self, last: u64) {
        *self = Recent { complete_after: last, ..Recent::default() };
    }

    fn push(&mut self, event: Arc<EncodedEvent>) {
        self.bytes += event.bytes.len();
        self.events.push_back(event);
        while self.bytes > MAX_RECENT_BYTES || self.events.len() > MAX_RECENT_EVENTS {
            let Some(oldest) = self.events.pop_front() else { return };
            self.bytes -= oldest.bytes.len();
            self.complete_after = oldest.sequence;
        }
    }

    /// Returns the next page of events after `last`. If they are no longer cached, the error is the sequence up to
    /// which only the store has them.
    fn after(&self, last: u64) -> Result<Vec<Arc<EncodedEvent>>, u64> {
        if last < self.complete_after {
            return Err(self.complete_after);
        }
        let first = self.events.partition_point(|event| event.sequence <= last + u64::from(seeded_bug("skip_event")));
        Ok(take_page(self.events.range(first..).cloned()))
    }
}

/// Takes events up to the size of a page, but at least one.
fn take_page(events: impl Iterator<Item = Arc<EncodedEvent>>) -> Vec<Arc<EncodedEvent>> {
    let mut bytes = 0;
    let fits = |event: &Arc<EncodedEvent>| {
        let is_first = bytes == 0;
        bytes += event.bytes.len();
        is_first || bytes <= MAX_PAGE_BYTES
    };
    events.take_while(fits).collect()
}

/// The filter of a listener.
pub(crate) struct EventRequest {
    pub(crate) client: Client,
    /// Whether the listener sees texts that are for the owner alone.
    pub(crate) is_owner: bool,
    pub(crate) since: Option<u64>,
    pub(crate) kinds: Vec<String>,
    pub(crate) subject: Option<String>,
    pub(crate) worktree_id: Option<String>,
}

impl EventRequest {
    fn matches(&self, event: &EncodedEvent) -> bool {
        let fits = |kind: &String| event.kind == *kind || event.kind.split('.').next() == Some(kind);
        (self.kinds.is_empty() || self.kinds.iter().any(fits))
            && self.subject.as_ref().is_none_or(|subject| event.subject == *subject)
            && self.worktree_id.as_ref().is_none_or(|id| event.worktree_id == *id)
    }
}

impl Events {
    pub(crate) fn new() -> Events {
        Events {
            recent: Mutex::default(),
            position: watch::channel(Position::default()).0,
            state: watch::channel(StoreState::Starting).0,
            own_write: Notify::new(),
            kinds: Mutex::default(),
            page_reads: Semaphore::new(MAX_PAGE_READS),
            page_size: AtomicU32::new(INITIAL_PAGE_EVENTS),
            listeners: Arc::default(),
        }
    }

    /// Returns the number of events published since the server started, by kind: claims, expired leases, and all
    /// others.
    pub(crate) fn by_kind(&self) -> Measure {
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        let value = |(kind, count): (&String, &u64)| (format!("kind=\"{kind}\""), *count as f64);
        let values = lock(&self.kinds).iter().map(value).collect();
        Measure { name: "events_total", help: "Events by kind, since the server started.", is_counter: true, values }
    }

    /// Returns the number of listeners.
    pub(crate) fn listeners(&self) -> usize {
        Arc::strong_count(&self.listeners) - 1
    }

    /// Makes the follower read the store at once, after a write of this server.
    pub(crate) fn notify_write(&self) {
        self.own_write.notify_one();
    }

    pub(crate) fn last(&self) -> u64 {
        self.position.borrow().last
    }

    /// Waits until there is an event after `since`, or until the timeout.
    pub(crate) async fn wait(&self, since: u64, timeout: Duration) {
        let mut position = self.position.subscribe();
        let _ = tokio::time::timeout(timeout, position.wait_for(|position| position.last > since)).await;
    }

    fn page_size(&self) -> u32 {
        self.page_size.load(Ordering::Relaxed)
    }

    /// Adapts the page size, assuming that the next events are as large as these. It grows slowly: after small events,
    /// a page of large ones would take much memory.
    fn adapt_page_size(&self, events: &[Arc<EncodedEvent>]) {
        if !events.is_empty() {
            let bytes: usize = events.iter().map(|event| event.bytes.len()).sum();
            let fitting_count = u32::try_from(MAX_PAGE_BYTES * events.len() / bytes.max(1)).unwrap_or(MAX_PAGE_EVENTS);
            let max_count = (self.page_size() * 2).min(MAX_PAGE_EVENTS);
            self.page_size.store(fitting_count.clamp(1, max_count), Ordering::Relaxed);
        }
    }

    fn publish(&self, events: &[Arc<EncodedEvent>]) {
        let Some(newest) = events.last() else { return };
        for event in events {
            *lock(&self.kinds).entry(event.kind.clone()).or_default() += 1;
            lock(&self.recent).push(Arc::clone(event));
        }
        self.position.send_modify(|position| position.last = newest.sequence);
    }

    /// Starts at the end of a new history, after `last`.
    fn begin_history(&self, last: u64) {
        lock(&self.recent).restart(last);
        self.position.send_modify(|position| *position = Position { history: position.history + 1, last });
    }
}

/// Follows the store, for as long as the server runs.
pub(crate) async fn follow(shared: Arc<Shared>) {
    let mut follower = Follower { has_started: false, newest: None, waiting: None };
    let mut stop = shared.stop.subscribe();
    loop {
        let read = follower.read(&shared);
        let read = tokio::select! { read = read => read, _ = stop.wait_for(|stop| *stop) => return };
        let state = match &read {
            Ok(()) => StoreState::Reachable,
            Err(error) => StoreState::Unreachable(error.full_message()),
        };
        let has_changed = shared.events.state.send_if_modified(|known| {
            let has_changed = *known != state;
            *known = state;
            has_changed
        });
        if let Err(error) = read {
            follower.waiting = None;
            if has_changed {
                shared.log(&json!({ "level": "error", "event": "follow", "error": error.full_message() }));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        tokio::time::sleep(MIN_READ_INTERVAL).await;
    }
}

/// Publishes new events of the store.
struct Follower {
    has_started: bool,
    /// The newest published event; `None` if the store has none.
    newest: Option<Arc<EncodedEvent>>,
    waiting: Option<JoinHandle<Result<()>>>,
}

impl Follower {
    /// Waits for new events and publishes them. A write of this server ends the wait at once; a thread waits for writes
    /// of other processes, and keeps waiting meanwhile.
    async fn read(&mut self, shared: &Arc<Shared>) -> Result<()> {
        if !self.has_started {
            return self.start(shared).await;
        }
        let last = self.newest.as_ref().map_or(0, |newest| newest.sequence);
        let app = Arc::clone(&shared.app);
        let wait =
            self.waiting.get_or_insert_with(|| tokio::task::spawn_blocking(move || app.wait(last, POLL_INTERVAL)));
        tokio::select! {
            waited = wait => {
                self.waiting = None;
                waited.unwrap_or(Ok(()))?;
            }
            () = shared.events.own_write.notified() => {}
        }
        while self.publish_page(shared).await? {}
        Ok(())
    }

    async fn start(&mut self, shared: &Arc<Shared>) -> Result<()> {
        let newest = read(shared, EventQuery { limit: 1, ..EventQuery::default() }).await?.pop();
        shared.events.begin_history(newest.as_ref().map_or(0, |newest| newest.sequence));
        (self.newest, self.has_started) = (newest, true);
        Ok(())
    }

    /// Publishes a page of new events, and returns whether there may be more.
    async fn publish_page(&mut self, shared: &Arc<Shared>) -> Result<bool> {
        let newest = self.newest.clone();
        // Reads the newest published event again: if it differs, the store was replaced.
        let since = newest.as_ref().map_or(0, |newest| newest.sequence - 1);
        let limit = shared.events.page_size() + 1;
        let mut events = read(shared, EventQuery { since: Some(since), limit, ..EventQuery::default() }).await?;
        let is_full = events.len() >= limit as usize;
        if let Some(newest) = newest {
            if events.first().is_none_or(|first| first.bytes != newest.bytes) {
                self.start(shared).await?;
                return Ok(false);
            }
            events.remove(0);
        }
        let Some(newest) = events.last() else { return Ok(false) };
        self.newest = Some(Arc::clone(newest));
        shared.events.publish(&events);
        Ok(is_full)
    }
}

/// Returns the number of events in the store that are not published yet.
pub(crate) async fn lag(shared: &Arc<Shared>) -> Result<u64> {
    let query = EventQuery { limit: 1, ..EventQuery::default() };
    let newest = list(shared, query, |list| list.last).await?;
    Ok(newest.saturating_sub(shared.events.last()))
}

/// Reads a part of the history, and what it needs of it, on a thread that may block.
async fn list<T: Send + 'static>(
    shared: &Arc<Shared>,
    query: EventQuery,
    take: impl FnOnce(EventList) -> T + Send + 'static,
) -> Result<T> {
    let (app, who) = (Arc::clone(&shared.app), Who { actor: shared.actor.clone(), agent: None });
    calls::blocking(move || app.list_events(&query, &who).map(take)).await
}

/// Reads a part of the history and encodes it. Concurrency is limited, since the store can return large pages.
async fn read(shared: &Arc<Shared>, query: EventQuery) -> Result<Vec<Arc<EncodedEvent>>> {
    let _permit = shared.events.page_reads.acquire().await;
    let encode =
        |list: EventList| list.events.iter().map(|event| Arc::new(EncodedEvent::of(event))).collect::<Vec<_>>();
    let events = list(shared, query, encode).await?;
    shared.events.adapt_page_size(&events);
    Ok(events)
}

/// Streams events to a listener, from a sequence on.
pub(crate) async fn stream(shared: &Arc<Shared>, mut request: EventRequest) -> Response<Body> {
    // The start is known before the headers are sent: every event after them is part of the stream.
    let mut started = shared.events.state.subscribe();
    if started.wait_for(|state| *state != StoreState::Starting).await.is_ok_and(|state| *state == StoreState::Reachable)
    {
        request.since = request.since.or_else(|| Some(shared.events.last()));
    }
    let (state, counted) = (Arc::clone(shared), Arc::clone(&shared.events.listeners));
    sse::stream(shared, request.client.clone(), move |listener| async move {
        let sent = send_events(&state, request, listener).await;
        drop(counted);
        sent
    })
}

async fn send_events(shared: &Arc<Shared>, request: EventRequest, mut listener: Listener) -> Result<(), Gone> {
    let (mut position, mut state) = (shared.events.position.subscribe(), shared.events.state.subscribe());
    let started = state.wait_for(|state| *state != StoreState::Starting).await.map(drop);
    started.map_err(|_| Gone)?;
    wait_until_reachable(&mut state, &mut listener).await?;
    let Position { mut history, last } = *position.borrow_and_update();
    let mut last = request.since.unwrap_or(last);
    // Sends the headers at once.
    listener.send(format!(": after {last}\n\n")).await?;
    loop {
        wait_until_reachable(&mut state, &mut listener).await?;
        listener.keep_alive().await?;
        let now = *position.borrow_and_update();
        if now.history != history {
            (history, last) = (now.history, now.last);
            let data = json!({ "replaced": true, "since": last });
            listener.send(format!("event: resync\ndata: {data}\n\n")).await?;
        } else if last < now.last {
            match next_events(shared, last).await {
                Ok(events) if !events.is_empty() => {
                    for event in events {
                        last = event.sequence;
                        if request.matches(&event) {
                            let hidden = event.hidden.as_ref().filter(|_| !request.is_owner);
                            listener.send(hidden.unwrap_or(&event.bytes).clone()).await?;
                        }
                    }
                }
                // The follower reports the error.
                _ => tokio::time::sleep(POLL_INTERVAL / 4).await,
            }
        } else {
            tokio::select! {
                changed = position.changed() => changed.map_err(|_| Gone)?,
                changed = state.changed() => changed.map_err(|_| Gone)?,
                () = tokio::time::sleep(KEEPALIVE_INTERVAL) => {}
            }
        }
    }
}

/// Returns the next page of events after `last`.
async fn next_events(shared: &Arc<Shared>, last: u64) -> Result<Vec<Arc<EncodedEvent>>> {
    let recent = lock(&shared.events.recent).after(last);
    let only_in_store = match recent {
        Ok(events) => return Ok(events),
        Err(until) => u32::try_from(until - last).unwrap_or(u32::MAX),
    };
    let limit = shared.events.page_size().min(only_in_store);
    let query = EventQuery { since: Some(last), limit, ..EventQuery::default() };
    Ok(take_page(read(shared, query).await?.into_iter()))
}

/// If the store is unreachable, tells the client and waits until it is reachable.
async fn wait_until_reachable(state: &mut watch::Receiver<StoreState>, listener: &mut Listener) -> Result<(), Gone> {
    let known = state.borrow_and_update().clone();
    let StoreState::Unreachable(message) = known else { return Ok(()) };
    listener.send(format!("event: unavailable\ndata: {}\n\n", json!({ "message": message }))).await?;
    loop {
        let reachable = async { state.wait_for(|state| *state == StoreState::Reachable).await.map(drop) };
        match tokio::time::timeout(KEEPALIVE_INTERVAL, reachable).await {
            Ok(reachable) => break reachable.map_err(|_| Gone)?,
            Err(_) => listener.keep_alive().await?,
        }
    }
    listener.send("event: available\ndata: {}\n\n").await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(sequence: u64, bytes: usize) -> Arc<EncodedEvent> {
        let text = String::new;
        let bytes = Bytes::from(vec![b'x'; bytes]);
        Arc::new(EncodedEvent { sequence, kind: text(), subject: text(), worktree_id: text(), bytes, hidden: None })
    }

    #[test]
    fn a_listener_gets_each_event_after_its_last_one_once() {
        let mut recent = Recent::default();
        recent.restart(10);
        for sequence in 11..=30 {
            // Some pages have one event.
            recent.push(event(sequence, if sequence % 5 == 0 { MAX_PAGE_BYTES } else { 10 }));
        }
        for start in 10..30 {
            let (mut last, mut seen) = (start, Vec::new());
            while last < 30 {
                let page = recent.after(last).unwrap_or_default();
                assert!(!page.is_empty(), "nothing after {last}");
                seen.extend(page.iter().map(|event| event.sequence));
                last = seen[seen.len() - 1];
            }
            assert_eq!(seen, (start + 1..=30).collect::<Vec<_>>());
        }
        assert_eq!(recent.after(9).err(), Some(10));
    }
}
