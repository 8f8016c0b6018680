//! The history as it happens.
//!
//! One task follows the store, encodes each event once, and keeps the newest ones within a bound. Listeners take events
//! from there, or read the store page by page if they are further behind: each takes more only when its socket has taken
//! what it was sent. So a slow listener misses nothing, delays no other, and costs the memory of one page.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::Response;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinHandle;
use waypost_core::model::{Event, EventQuery};
use waypost_core::{Error, Result};

use super::sse::{self, Client, Gone, KEEPALIVE_INTERVAL, Listener};
use super::{Shared, lock};
use waypost::host::{Call, Measure, Who};

/// How many of the newest events are kept for listeners, and how many bytes of them.
const MAX_RECENT_EVENTS: usize = 1_024;
const MAX_RECENT_BYTES: usize = 4 * 1024 * 1024;
/// How many bytes a listener takes at once; one event may be larger.
const PAGE_BYTES: usize = 32 * 1024;
/// How many events are read from the store at once, at first and at most.
const FIRST_PAGE: u32 = 4;
const MAX_PAGE: u32 = 500;
/// How many pages are read from the store at once, each for one listener.
const MAX_PAGE_READS: usize = 4;
/// The pause between two reads of the store: in busy times every read then finds several events.
const PAUSE: Duration = Duration::from_millis(10);
/// How long one wait for the store's news takes, and the pause before a failed read is repeated.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How many listeners there may be.
pub(crate) const LISTENERS: usize = 512;

/// What listeners are told.
pub(crate) struct Events {
    recent: Mutex<Recent>,
    position: watch::Sender<Position>,
    state: watch::Sender<State>,
    /// Notified when this server wrote something.
    own: Notify,
    /// How many events of each kind were published.
    kinds: Mutex<BTreeMap<String, u64>>,
    page_reads: Semaphore,
    /// How many events are read at once: about as many as fit into a page.
    page_size: AtomicU32,
    /// Each listener has a clone.
    listeners: Arc<()>,
}

/// The end of the history, as far as it was published.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Position {
    /// Counts the histories: a store that was replaced has another one.
    history: u64,
    /// The sequence of the newest event.
    last: u64,
}

/// Whether the store could be read when it was last asked.
#[derive(Clone, PartialEq, Eq)]
enum State {
    Starting,
    Reachable,
    /// It could not, for this reason.
    Unreachable(String),
}

/// An event as it is sent.
struct Encoded {
    sequence: u64,
    kind: String,
    subject: String,
    worktree_id: String,
    bytes: Bytes,
}

impl Encoded {
    fn of(event: &Event) -> Encoded {
        let data = serde_json::to_string(event).unwrap_or_default();
        Encoded {
            sequence: event.sequence,
            kind: event.kind.clone(),
            subject: event.subject.clone(),
            worktree_id: event.worktree_id.to_string(),
            bytes: Bytes::from(format!("id: {}\nevent: {}\ndata: {data}\n\n", event.sequence, event.kind)),
        }
    }
}

/// The newest events.
#[derive(Default)]
struct Recent {
    events: VecDeque<Arc<Encoded>>,
    bytes: usize,
    /// All events after this sequence are there.
    complete_after: u64,
}

impl Recent {
    fn restart(&mut self, last: u64) {
        *self = Recent { complete_after: last, ..Recent::default() };
    }

    fn push(&mut self, event: Arc<Encoded>) {
        self.bytes += event.bytes.len();
        self.events.push_back(event);
        while self.bytes > MAX_RECENT_BYTES || self.events.len() > MAX_RECENT_EVENTS {
            let Some(oldest) = self.events.pop_front() else { return };
            self.bytes -= oldest.bytes.len();
            self.complete_after = oldest.sequence;
        }
    }

    /// Returns the next events after one, as many as a listener takes at once. If they are not there any more, the error
    /// says up to which sequence only the store has them.
    fn after(&self, last: u64) -> Result<Vec<Arc<Encoded>>, u64> {
        if last < self.complete_after {
            return Err(self.complete_after);
        }
        let first = self.events.partition_point(|event| event.sequence <= last);
        Ok(within_page(self.events.range(first..).cloned()))
    }
}

/// Takes events up to the size of a page, but at least one.
fn within_page(events: impl Iterator<Item = Arc<Encoded>>) -> Vec<Arc<Encoded>> {
    let mut bytes = 0;
    let fits = |event: &Arc<Encoded>| {
        let is_first = bytes == 0;
        bytes += event.bytes.len();
        is_first || bytes <= PAGE_BYTES
    };
    events.take_while(fits).collect()
}

/// Which events a listener wants.
pub(crate) struct EventRequest {
    pub(crate) client: Client,
    pub(crate) since: Option<u64>,
    pub(crate) kinds: Vec<String>,
    pub(crate) subject: Option<String>,
    pub(crate) worktree_id: Option<String>,
}

impl EventRequest {
    fn has(&self, event: &Encoded) -> bool {
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
            state: watch::channel(State::Starting).0,
            own: Notify::new(),
            kinds: Mutex::default(),
            page_reads: Semaphore::new(MAX_PAGE_READS),
            page_size: AtomicU32::new(FIRST_PAGE),
            listeners: Arc::default(),
        }
    }

    /// Returns how many events of each kind were published since the server began: claims, leases that ended, and all else.
    pub(crate) fn by_kind(&self) -> Measure {
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        let value = |(kind, count): (&String, &u64)| (format!("kind=\"{kind}\""), *count as f64);
        let values = lock(&self.kinds).iter().map(value).collect();
        Measure { name: "events_total", help: "Events by kind, since the server began.", is_counter: true, values }
    }

    /// Returns how many listen.
    pub(crate) fn listeners(&self) -> usize {
        Arc::strong_count(&self.listeners) - 1
    }

    /// Says that this server wrote something.
    pub(crate) fn wrote(&self) {
        self.own.notify_one();
    }

    pub(crate) fn last(&self) -> u64 {
        self.position.borrow().last
    }

    /// Waits until something came after an event, or until time is up.
    pub(crate) async fn wait(&self, since: u64, at_most: Duration) {
        let mut position = self.position.subscribe();
        let _ = tokio::time::timeout(at_most, position.wait_for(|position| position.last > since)).await;
    }

    fn page_size(&self) -> u32 {
        self.page_size.load(Ordering::Relaxed)
    }

    /// Expects the next events to be as large as these. It grows slowly: after small events a page of large ones would take
    /// much memory.
    fn learn_page_size(&self, events: &[Arc<Encoded>]) {
        if !events.is_empty() {
            let bytes: usize = events.iter().map(|event| event.bytes.len()).sum();
            let fitting = u32::try_from(PAGE_BYTES * events.len() / bytes.max(1)).unwrap_or(MAX_PAGE);
            let most = (self.page_size() * 2).min(MAX_PAGE);
            self.page_size.store(fitting.clamp(1, most), Ordering::Relaxed);
        }
    }

    fn publish(&self, events: &[Arc<Encoded>]) {
        let Some(newest) = events.last() else { return };
        for event in events {
            *lock(&self.kinds).entry(event.kind.clone()).or_default() += 1;
            lock(&self.recent).push(Arc::clone(event));
        }
        self.position.send_modify(|position| position.last = newest.sequence);
    }

    /// Begins with a history of which nothing was published yet.
    fn begin_history(&self, last: u64) {
        lock(&self.recent).restart(last);
        self.position.send_modify(|position| *position = Position { history: position.history + 1, last });
    }
}

/// Follows the store, for as long as the server runs.
pub(crate) async fn follow(shared: Arc<Shared>) {
    let mut follower = Follower { has_begun: false, newest: None, waiting: None };
    let mut stop = shared.stop.subscribe();
    loop {
        let read = follower.read(&shared);
        let read = tokio::select! { read = read => read, _ = stop.wait_for(|stop| *stop) => return };
        let state = match &read {
            Ok(()) => State::Reachable,
            Err(error) => State::Unreachable(error.full_message()),
        };
        let is_news = shared.events.state.send_if_modified(|known| {
            let is_news = *known != state;
            *known = state;
            is_news
        });
        if let Err(error) = read {
            follower.waiting = None;
            if is_news {
                shared.log(&json!({ "level": "error", "event": "follow", "error": error.full_message() }));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Publishes what is new in the store.
struct Follower {
    has_begun: bool,
    /// The newest event that was published, unless the store had none.
    newest: Option<Arc<Encoded>>,
    waiting: Option<JoinHandle<Result<()>>>,
}

impl Follower {
    /// Waits for news, and publishes them. Writes of this server are news at once; those of others are waited for by a
    /// thread, and that wait goes on meanwhile.
    async fn read(&mut self, shared: &Arc<Shared>) -> Result<()> {
        if !self.has_begun {
            return self.begin(shared).await;
        }
        let last = self.newest.as_ref().map_or(0, |newest| newest.sequence);
        let host = Arc::clone(&shared.host);
        let wait =
            self.waiting.get_or_insert_with(|| tokio::task::spawn_blocking(move || host.wait(last, POLL_INTERVAL)));
        tokio::select! {
            waited = wait => {
                self.waiting = None;
                waited.unwrap_or(Ok(()))?;
            }
            () = shared.events.own.notified() => {}
        }
        while self.publish_page(shared).await? {}
        Ok(())
    }

    async fn begin(&mut self, shared: &Arc<Shared>) -> Result<()> {
        let newest = read(shared, EventQuery { limit: 1, ..EventQuery::default() }).await?.pop();
        shared.events.begin_history(newest.as_ref().map_or(0, |newest| newest.sequence));
        (self.newest, self.has_begun) = (newest, true);
        Ok(())
    }

    /// Publishes a page of news, and tells whether there may be more.
    async fn publish_page(&mut self, shared: &Arc<Shared>) -> Result<bool> {
        let newest = self.newest.clone();
        // The newest published event is read again: if it is another one, the store was replaced.
        let since = newest.as_ref().map_or(0, |newest| newest.sequence - 1);
        let limit = shared.events.page_size() + 1;
        let mut events = read(shared, EventQuery { since: Some(since), limit, ..EventQuery::default() }).await?;
        let is_full = events.len() >= limit as usize;
        if let Some(newest) = newest {
            if events.first().is_none_or(|first| first.bytes != newest.bytes) {
                self.begin(shared).await?;
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

/// Returns how many events have happened that were not published yet.
pub(crate) async fn lag(shared: &Arc<Shared>) -> Result<u64> {
    let query = EventQuery { limit: 0, ..EventQuery::default() };
    let call = call(shared, &query);
    let host = Arc::clone(&shared.host);
    let answer = super::blocking(move || host.call(call)).await?;
    let newest = answer.get("last").and_then(Value::as_u64).unwrap_or_default();
    Ok(newest.saturating_sub(shared.events.last()))
}

fn call(shared: &Shared, query: &EventQuery) -> Call {
    let who = Who { actor: shared.actor.clone(), agent: None };
    Call { operation: "list_events".to_owned(), arguments: json!({ "query": query }), who, key: None }
}

/// Reads a part of the history and encodes it. Few do so at once, since what the store returns can be large.
async fn read(shared: &Arc<Shared>, query: EventQuery) -> Result<Vec<Arc<Encoded>>> {
    let _permit = shared.events.page_reads.acquire().await;
    let (host, call) = (Arc::clone(&shared.host), call(shared, &query));
    let events = super::blocking(move || {
        let mut answer = host.call(call)?;
        let events: Vec<Event> = serde_json::from_value(answer["events"].take())
            .map_err(|error| Error::internal("events cannot be read").because(error))?;
        Ok(events.iter().map(|event| Arc::new(Encoded::of(event))).collect::<Vec<_>>())
    })
    .await?;
    shared.events.learn_page_size(&events);
    Ok(events)
}

/// Tells a listener what happens, from a moment of the past on.
pub(crate) fn tell(shared: &Arc<Shared>, wanted: EventRequest) -> Response<Body> {
    let (behind, counted) = (Arc::clone(shared), Arc::clone(&shared.events.listeners));
    sse::stream(shared, wanted.client.clone(), move |listener| async move {
        let told = tell_all(&behind, wanted, listener).await;
        drop(counted);
        told
    })
}

async fn tell_all(shared: &Arc<Shared>, wanted: EventRequest, mut listener: Listener) -> Result<(), Gone> {
    let (mut position, mut state) = (shared.events.position.subscribe(), shared.events.state.subscribe());
    let started = state.wait_for(|state| *state != State::Starting).await.map(drop);
    started.map_err(|_| Gone)?;
    wait_until_reachable(&mut state, &mut listener).await?;
    let Position { mut history, last } = *position.borrow_and_update();
    let mut last = wanted.since.unwrap_or(last);
    // A client that waits for the headers gets them at once.
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
                        if wanted.has(&event) {
                            listener.send(event.bytes.clone()).await?;
                        }
                    }
                }
                // The task that follows the store finds out why.
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

/// Returns the next events after one, at most a page of them.
async fn next_events(shared: &Arc<Shared>, last: u64) -> Result<Vec<Arc<Encoded>>> {
    let recent = lock(&shared.events.recent).after(last);
    let only_in_store = match recent {
        Ok(events) => return Ok(events),
        Err(until) => u32::try_from(until - last).unwrap_or(u32::MAX),
    };
    let limit = shared.events.page_size().min(only_in_store);
    let query = EventQuery { since: Some(last), limit, ..EventQuery::default() };
    Ok(within_page(read(shared, query).await?.into_iter()))
}

/// Says so if the store cannot be read, and waits until it can.
async fn wait_until_reachable(state: &mut watch::Receiver<State>, listener: &mut Listener) -> Result<(), Gone> {
    let known = state.borrow_and_update().clone();
    let State::Unreachable(why) = known else { return Ok(()) };
    listener.send(format!("event: unavailable\ndata: {}\n\n", json!({ "message": why }))).await?;
    loop {
        let reachable = async { state.wait_for(|state| *state == State::Reachable).await.map(drop) };
        match tokio::time::timeout(KEEPALIVE_INTERVAL, reachable).await {
            Ok(reachable) => break reachable.map_err(|_| Gone)?,
            Err(_) => listener.keep_alive().await?,
        }
    }
    listener.send("event: available\ndata: {}\n\n").await
}
