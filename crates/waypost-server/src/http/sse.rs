//! Server-sent events: a response body that is streamed.
//!
//! A stream ends when the client disconnects, when the server shuts down, and when the client's credential expires. The
//! server disconnects a client that reads nothing for a while. When all queues together hold too much memory, it
//! disconnects the client that has read nothing for the longest time. Each event has an id, so a client that was
//! disconnected resumes where it was.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Response, header};
use tokio::sync::{Notify, mpsc};
use waypost_core::{Error, Result};

use super::admit::Credential;
use super::{Shared, answer, lock, number};

/// How often the server checks a client's credential, once for all clients with the same token.
const ACCESS_INTERVAL: Duration = Duration::from_secs(1);
/// Idle time after which the server sends a keepalive comment. A client that left is noticed when the second one cannot
/// be sent: a client may close its sending side and still read.
pub(super) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// A client that reads nothing for this long is disconnected.
const STALL_TIMEOUT: Duration = Duration::from_mins(1);
/// Maximum memory of all queues together.
const MAX_QUEUED_BYTES: usize = 64 * 1024 * 1024;

/// The client behind a request for a stream.
#[derive(Clone)]
pub(crate) struct Client {
    /// The stream ends when this credential expires.
    credential: Credential,
    hangup: Hangup,
}

/// Closes a connection at once, even while its socket accepts no bytes.
#[derive(Clone, Default)]
pub(super) struct Hangup(Arc<Notify>);

impl Hangup {
    pub(super) async fn requested(&self) {
        self.0.notified().await;
    }
}

/// The sending side of a stream. A send waits until the client has read the event before.
pub(super) struct Listener {
    sender: mpsc::Sender<Bytes>,
    account: Arc<Account>,
    last_sent_at: Instant,
}

impl Listener {
    /// Sends a part of the body. Fails if the client is gone.
    pub(super) async fn send(&mut self, text: impl Into<Bytes>) -> Result<(), Gone> {
        let text = Account::hold(&self.account, text.into());
        self.last_sent_at = Instant::now();
        if let Ok(sent) = tokio::time::timeout(STALL_TIMEOUT, self.sender.send(text)).await {
            return sent.map_err(|_| Gone);
        }
        self.account.hangup.0.notify_one();
        Err(Gone)
    }

    /// Sends a keepalive comment if nothing was sent for a while.
    pub(super) async fn keep_alive(&mut self) -> Result<(), Gone> {
        if self.last_sent_at.elapsed() < KEEPALIVE_INTERVAL {
            return Ok(());
        }
        self.send(Bytes::from_static(b": still here\n\n")).await
    }
}

/// The client has disconnected, or was disconnected.
pub(super) struct Gone;

/// The bytes queued for all listeners.
#[derive(Default)]
pub(super) struct Budget {
    bytes: AtomicUsize,
    accounts: Mutex<Vec<Weak<Account>>>,
}

/// The bytes queued for one listener.
struct Account {
    budget: Arc<Budget>,
    hangup: Hangup,
    queued: Mutex<Queued>,
}

#[derive(Clone, Copy)]
struct Queued {
    bytes: usize,
    /// When the client last read something, or its queue was empty.
    taken_at: Instant,
    is_disconnected: bool,
}

impl Budget {
    fn open(self: &Arc<Budget>, hangup: Hangup) -> Arc<Account> {
        let queued = Mutex::new(Queued { bytes: 0, taken_at: Instant::now(), is_disconnected: false });
        let account = Arc::new(Account { budget: Arc::clone(self), hangup, queued });
        let mut accounts = lock(&self.accounts);
        accounts.retain(|account| account.strong_count() > 0);
        accounts.push(Arc::downgrade(&account));
        account
    }

    /// Disconnects the clients that have read nothing for the longest time, until the others hold no more than allowed.
    fn enforce(&self) {
        let accounts: Vec<Arc<Account>> = lock(&self.accounts).iter().filter_map(Weak::upgrade).collect();
        let mut holding: Vec<_> = accounts.iter().map(|account| (*lock(&account.queued), account)).collect();
        holding.retain(|(queued, _)| queued.bytes > 0 && !queued.is_disconnected);
        holding.sort_by_key(|(queued, _)| queued.taken_at);
        let mut bytes: usize = holding.iter().map(|(queued, _)| queued.bytes).sum();
        for (queued, account) in holding {
            if bytes <= MAX_QUEUED_BYTES {
                return;
            }
            lock(&account.queued).is_disconnected = true;
            account.hangup.0.notify_one();
            bytes -= queued.bytes;
        }
    }
}

impl Account {
    /// Counts bytes for as long as they are in memory, in whichever queue.
    fn hold(account: &Arc<Account>, bytes: Bytes) -> Bytes {
        let count = bytes.len();
        {
            let mut queued = lock(&account.queued);
            if queued.bytes == 0 {
                queued.taken_at = Instant::now();
            }
            queued.bytes += count;
        }
        let held = Bytes::from_owner(Held { bytes, account: Arc::clone(account) });
        if account.budget.bytes.fetch_add(count, Ordering::Relaxed) + count > MAX_QUEUED_BYTES {
            account.budget.enforce();
        }
        held
    }
}

/// Bytes that are queued for a listener.
struct Held {
    bytes: Bytes,
    account: Arc<Account>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.account.budget.bytes.fetch_sub(self.bytes.len(), Ordering::Relaxed);
        let mut queued = lock(&self.account.queued);
        queued.bytes -= self.bytes.len();
        queued.taken_at = Instant::now();
    }
}

/// Answers with a stream of the events that `produce` sends.
pub(super) fn stream<F>(shared: &Arc<Shared>, client: Client, produce: impl FnOnce(Listener) -> F) -> Response<Body>
where
    F: Future<Output = Result<(), Gone>> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(1);
    let (connection, shared) = (sender.clone(), Arc::clone(shared));
    let account = shared.budget.open(client.hangup);
    let producer = produce(Listener { sender, account, last_sent_at: Instant::now() });
    tokio::spawn(async move {
        let mut stop = shared.stop.subscribe();
        tokio::select! {
            _ = producer => {}
            () = credential_expired(&shared, client.credential) => {}
            _ = stop.wait_for(|stop| *stop) => {}
            () = connection.closed() => {}
        }
    });
    let mut response = answer::text("text/event-stream", Body::from_stream(Chunks(receiver)));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Waits until the credential is no longer valid.
async fn credential_expired(shared: &Arc<Shared>, credential: Credential) {
    let credential = Arc::new(credential);
    loop {
        tokio::time::sleep(ACCESS_INTERVAL).await;
        if let Credential::Token(token) = &*credential
            && lock(&shared.checked_tokens).get(token).is_some_and(|at| at.elapsed() < ACCESS_INTERVAL)
        {
            continue;
        }
        let (state, checked) = (Arc::clone(shared), Arc::clone(&credential));
        let is_valid = tokio::task::spawn_blocking(move || checked.is_valid(&state, Instant::now())).await;
        if let (Ok(true), Credential::Token(token)) = (&is_valid, &*credential) {
            let mut tokens = lock(&shared.checked_tokens);
            tokens.retain(|_, at| at.elapsed() < ACCESS_INTERVAL);
            tokens.insert(token.clone(), Instant::now());
        }
        if !is_valid.unwrap_or(false) {
            return;
        }
    }
}

/// Returns the client behind a request.
pub(super) fn client(request: &Request) -> Result<Client> {
    let credential = request.extensions().get::<Credential>().cloned();
    let credential = credential.ok_or_else(|| Error::internal("the request has no grant"))?;
    let hangup = request.extensions().get::<Hangup>().cloned().unwrap_or_default();
    Ok(Client { credential, hangup })
}

/// Returns the event after which a reconnecting client resumes. It takes precedence over the query string.
pub(super) fn last_id(request: &Request) -> Result<Option<u64>> {
    let last = request.headers().get("last-event-id");
    last.map(|last| number("Last-Event-ID", last.to_str().unwrap_or_default())).transpose()
}

/// Returns whether a request accepts server-sent events.
pub(super) fn is_accepted(request: &Request) -> bool {
    request.headers().get(header::ACCEPT).is_some_and(|accept| accept == "text/event-stream")
}

/// A response body that is streamed.
struct Chunks(mpsc::Receiver<Bytes>);

impl futures_core::Stream for Chunks {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|chunk| chunk.map(Ok))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listener_idle_for_longest_is_disconnected_when_the_queues_exceed_the_budget() {
        let budget = Arc::new(Budget::default());
        let accounts: Vec<_> = (0..4).map(|_| budget.open(Hangup::default())).collect();
        let third = Bytes::from(vec![0; MAX_QUEUED_BYTES / 3]);
        let is_disconnected =
            || accounts.iter().map(|account| lock(&account.queued).is_disconnected).collect::<Vec<_>>();
        let mut held: Vec<_> = accounts[..3].iter().map(|account| Account::hold(account, third.clone())).collect();
        assert_eq!(is_disconnected(), [false; 4], "exactly the maximum");
        // The first client reads its event, so the second one has been idle for longest.
        drop(held.remove(0));
        held.push(Account::hold(&accounts[0], third.clone()));
        held.push(Account::hold(&accounts[3], third.clone()));
        assert_eq!(is_disconnected(), [false, true, false, false]);
        drop(held);
        assert_eq!(budget.bytes.load(Ordering::Relaxed), 0, "the whole budget is free again");
        let _held = Account::hold(&accounts[0], third);
        assert_eq!(is_disconnected(), [false, true, false, false], "within the budget again");
    }
}
