//! The history as it happens.
//!
//! One task follows the store and tells everybody who listens. Each has a queue of its own that cannot grow: whoever reads
//! too slowly is told what it missed, and nobody waits for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::Response;
use serde_json::{Value, json};
use tokio::sync::{Notify, broadcast, watch};
use tokio::task::JoinHandle;
use waypost_core::Result;
use waypost_core::model::{Event, EventQuery};

use super::admit::Shown;
use super::sse::{self, Gone, Listener, SIGN_OF_LIFE, STILL_HERE};
use super::{Shared, lock};
use crate::host::{Call, Measure, Who};

/// How many events wait for a reader before it has missed some.
const QUEUE: usize = 1_024;
/// How many events are read at once.
const PAGE: u32 = 500;
/// How long nobody looks after a look: in busy times every event is one of many.
const PAUSE: Duration = Duration::from_millis(10);
/// How long the store is waited for at once.
const PATIENCE: Duration = Duration::from_secs(1);
/// How many may listen.
pub(crate) const LISTENERS: usize = 512;

/// What those who listen are told.
pub(crate) struct Events {
    sender: broadcast::Sender<Arc<Event>>,
    /// The sequence of the newest event that was told.
    last: watch::Sender<u64>,
    /// Whether the store could be read when it was last asked.
    pub(crate) is_reachable: watch::Sender<bool>,
    /// Says that something was written here.
    own: Notify,
    /// How many events of each kind were told.
    kinds: Mutex<BTreeMap<String, u64>>,
}

/// Which events somebody wants to hear of.
pub(crate) struct Wanted {
    /// What was shown: when it ends, so does what is told.
    pub(crate) shown: Shown,
    pub(crate) since: Option<u64>,
    pub(crate) kinds: Vec<String>,
    pub(crate) subject: Option<String>,
    pub(crate) worktree_id: Option<String>,
}

impl Wanted {
    fn has(&self, event: &Event) -> bool {
        let fits = |kind: &String| event.kind == *kind || event.kind.split('.').next() == Some(kind);
        (self.kinds.is_empty() || self.kinds.iter().any(fits))
            && self.subject.as_ref().is_none_or(|subject| event.subject == *subject)
            && self.worktree_id.as_ref().is_none_or(|id| event.worktree_id.as_str() == id)
    }
}

impl Events {
    pub(crate) fn new() -> Events {
        Events {
            sender: broadcast::channel(QUEUE).0,
            last: watch::channel(0).0,
            is_reachable: watch::channel(false).0,
            own: Notify::new(),
            kinds: Mutex::default(),
        }
    }

    /// Returns how many events of each kind were told since the server began: claims, leases that ended, and all else.
    pub(crate) fn by_kind(&self) -> Measure {
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        let value = |(kind, count): (&String, &u64)| (format!("kind=\"{kind}\""), *count as f64);
        let values = lock(&self.kinds).iter().map(value).collect();
        Measure { name: "events_total", help: "Events by kind, since the server began.", is_counter: true, values }
    }

    /// Returns how many listen.
    pub(crate) fn listeners(&self) -> usize {
        self.sender.receiver_count()
    }

    /// Says that something was written here.
    pub(crate) fn wrote(&self) {
        self.own.notify_one();
    }

    pub(crate) fn last(&self) -> u64 {
        *self.last.borrow()
    }

    /// Waits until something came after an event, or until time is up.
    pub(crate) async fn wait(&self, since: u64, at_most: Duration) {
        let mut last = self.last.subscribe();
        let _ = tokio::time::timeout(at_most, last.wait_for(|last| *last > since)).await;
    }
}

/// Follows the store, for as long as the server runs.
pub(crate) async fn follow(shared: Arc<Shared>) {
    let mut last = None;
    let mut stop = shared.stop.subscribe();
    let mut waiting = None;
    loop {
        let look = look(&shared, &mut last, &mut waiting);
        let looked = tokio::select! { looked = look => looked, _ = stop.wait_for(|stop| *stop) => return };
        shared.events.is_reachable.send_replace(looked.is_ok());
        if let Err(error) = looked {
            waiting = None;
            shared.log(&json!({ "level": "error", "event": "follow", "error": error.full_message() }));
            tokio::time::sleep(PATIENCE).await;
        }
        // Whatever happens meanwhile is told at once then. In quiet times nobody waits for this.
        tokio::time::sleep(PAUSE).await;
    }
}

/// Waits for news, and tells them. Our own writes are news at once; those of others are waited for elsewhere, and that
/// waiting goes on meanwhile.
async fn look(
    shared: &Arc<Shared>,
    last: &mut Option<u64>,
    waiting: &mut Option<JoinHandle<Result<()>>>,
) -> Result<()> {
    let Some(mut since) = *last else {
        let (_, newest) = page(shared, EventQuery { limit: 0, ..EventQuery::default() }).await?;
        shared.events.last.send_replace(newest);
        *last = Some(newest);
        return Ok(());
    };
    let host = Arc::clone(&shared.host);
    let wait = waiting.get_or_insert_with(|| tokio::task::spawn_blocking(move || host.wait(since, PATIENCE)));
    tokio::select! {
        waited = wait => {
            *waiting = None;
            waited.unwrap_or(Ok(()))?;
        }
        () = shared.events.own.notified() => {}
    }
    loop {
        let query = EventQuery { since: Some(since), limit: PAGE, ..EventQuery::default() };
        let (events, next) = page(shared, query).await?;
        let count = events.len();
        for event in events {
            *lock(&shared.events.kinds).entry(event.kind.clone()).or_default() += 1;
            // Without listeners there is nobody to tell.
            let _ = shared.events.sender.send(Arc::new(event));
        }
        since = next;
        *last = Some(next);
        shared.events.last.send_replace(next);
        if count < PAGE as usize {
            return Ok(());
        }
    }
}

/// Returns how many events have happened that were not told yet.
pub(crate) async fn lag(shared: &Arc<Shared>) -> Result<u64> {
    let (_, newest) = page(shared, EventQuery { limit: 0, ..EventQuery::default() }).await?;
    Ok(newest.saturating_sub(shared.events.last()))
}

/// Reads a part of the history, and where it goes on.
async fn page(shared: &Arc<Shared>, query: EventQuery) -> Result<(Vec<Event>, u64)> {
    let host = Arc::clone(&shared.host);
    let who = Who { actor: shared.actor.clone(), agent: None };
    let arguments = json!({ "query": query });
    let call = Call { operation: "list_events".to_owned(), arguments, who, key: None };
    let mut answer = super::blocking(move || host.call(call)).await?;
    let next = answer.get("next").and_then(Value::as_u64).unwrap_or_default();
    let events = serde_json::from_value(answer["events"].take())
        .map_err(|error| waypost_core::Error::internal("events cannot be read").because(error))?;
    Ok((events, next))
}

/// Tells somebody what happens, from a moment of the past on.
pub(crate) fn tell(shared: &Arc<Shared>, wanted: Wanted) -> Response<Body> {
    // Listened to before the past is read: nothing can happen between the two.
    let live = shared.events.sender.subscribe();
    let behind = Arc::clone(shared);
    sse::stream(shared, wanted.shown.clone(), move |listener| async move {
        tell_all(&behind, wanted, live, &listener).await
    })
}

async fn tell_all(
    shared: &Arc<Shared>,
    wanted: Wanted,
    mut live: broadcast::Receiver<Arc<Event>>,
    listener: &Listener,
) -> Result<(), Gone> {
    let mut last = wanted.since.unwrap_or_else(|| shared.events.last());
    // Whoever waits for headers has them at once.
    listener.tell(format!(": after {last}\n\n")).await?;
    // What happened before, page by page; then what happens.
    loop {
        let query = EventQuery { since: Some(last), limit: PAGE, ..EventQuery::default() };
        let (events, next) = page(shared, query).await.map_err(|_| Gone)?;
        let count = events.len();
        for event in events.iter().filter(|event| wanted.has(event)) {
            listener.tell(encode(event)).await?;
        }
        last = next;
        if count < PAGE as usize {
            break;
        }
    }
    loop {
        match tokio::time::timeout(SIGN_OF_LIFE, live.recv()).await {
            Err(_) => listener.tell(STILL_HERE).await?,
            Ok(Ok(event)) if event.sequence <= last => {}
            Ok(Ok(event)) => {
                last = event.sequence;
                if wanted.has(&event) {
                    listener.tell(encode(&event)).await?;
                }
            }
            Ok(Err(broadcast::error::RecvError::Lagged(missed))) => {
                // It says where to go on; the events themselves are in the history.
                let data = json!({ "missed": missed, "since": last });
                listener.tell(format!("event: resync\ndata: {data}\n\n")).await?;
            }
            Ok(Err(broadcast::error::RecvError::Closed)) => return Ok(()),
        }
    }
}

fn encode(event: &Event) -> Bytes {
    let data = serde_json::to_string(event).unwrap_or_default();
    Bytes::from(format!("id: {}\nevent: {}\ndata: {data}\n\n", event.sequence, event.kind))
}
