//! Server-sent events: a body that is sent as it comes.
//!
//! It ends when the listener goes, when the server ends, and when the listener may not listen any more. A listener that
//! takes nothing for a while is cut off, and so is the one that has waited longest when all together hold too much memory.
//! Each part has an id, so a listener that was cut off goes on where it was.

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

use super::admit::Shown;
use super::{Shared, answer, lock, number};

/// How often the server checks whether a listener still may listen, once for all listeners with the same token.
const ACCESS_INTERVAL: Duration = Duration::from_secs(1);
/// How long a listener hears nothing before it is told that the connection lives. A listener that left is noticed when
/// the second of these cannot be sent: the end of what a client sends says nothing about whether it still reads.
pub(super) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// A listener that takes nothing for so long is cut off.
const STALL_TIMEOUT: Duration = Duration::from_mins(1);
/// How much may wait in memory for all listeners together.
const MAX_QUEUED_BYTES: usize = 64 * 1024 * 1024;

/// The client behind a request for a stream.
#[derive(Clone)]
pub(crate) struct Client {
    /// What it showed to be let in: when that ends, so does the stream.
    shown: Shown,
    hangup: Hangup,
}

/// Closes a connection at once, also while its socket takes nothing.
#[derive(Clone, Default)]
pub(super) struct Hangup(Arc<Notify>);

impl Hangup {
    pub(super) async fn requested(&self) {
        self.0.notified().await;
    }
}

/// A listener. Telling it something waits until it has taken what it was told before.
pub(super) struct Listener {
    sender: mpsc::Sender<Bytes>,
    account: Arc<Account>,
    told_at: Instant,
}

impl Listener {
    /// Tells something; an error says that there is no listener any more.
    pub(super) async fn send(&mut self, text: impl Into<Bytes>) -> Result<(), Gone> {
        let text = Account::hold(&self.account, text.into());
        self.told_at = Instant::now();
        if let Ok(sent) = tokio::time::timeout(STALL_TIMEOUT, self.sender.send(text)).await {
            return sent.map_err(|_| Gone);
        }
        self.account.hangup.0.notify_one();
        Err(Gone)
    }

    /// Says that the connection lives, if nothing else was said for a while.
    pub(super) async fn keep_alive(&mut self) -> Result<(), Gone> {
        if self.told_at.elapsed() < KEEPALIVE_INTERVAL {
            return Ok(());
        }
        self.send(Bytes::from_static(b": still here\n\n")).await
    }
}

/// There is no listener any more.
pub(super) struct Gone;

/// What waits in memory for all listeners.
#[derive(Default)]
pub(super) struct Budget {
    bytes: AtomicUsize,
    accounts: Mutex<Vec<Weak<Account>>>,
}

/// What waits in memory for one listener.
struct Account {
    budget: Arc<Budget>,
    hangup: Hangup,
    queued: Mutex<Queued>,
}

#[derive(Clone, Copy)]
struct Queued {
    bytes: usize,
    /// When the listener last took something, or had nothing to take.
    taken_at: Instant,
    is_cut_off: bool,
}

impl Budget {
    fn open(self: &Arc<Budget>, hangup: Hangup) -> Arc<Account> {
        let queued = Mutex::new(Queued { bytes: 0, taken_at: Instant::now(), is_cut_off: false });
        let account = Arc::new(Account { budget: Arc::clone(self), hangup, queued });
        let mut accounts = lock(&self.accounts);
        accounts.retain(|account| account.strong_count() > 0);
        accounts.push(Arc::downgrade(&account));
        account
    }

    /// Cuts those listeners off that have taken nothing for the longest time, until the others hold no more than allowed.
    fn enforce(&self) {
        let accounts: Vec<Arc<Account>> = lock(&self.accounts).iter().filter_map(Weak::upgrade).collect();
        let mut holding: Vec<_> = accounts.iter().map(|account| (*lock(&account.queued), account)).collect();
        holding.retain(|(queued, _)| queued.bytes > 0 && !queued.is_cut_off);
        holding.sort_by_key(|(queued, _)| queued.taken_at);
        let mut bytes: usize = holding.iter().map(|(queued, _)| queued.bytes).sum();
        for (queued, account) in holding {
            if bytes <= MAX_QUEUED_BYTES {
                return;
            }
            lock(&account.queued).is_cut_off = true;
            account.hangup.0.notify_one();
            bytes -= queued.bytes;
        }
    }
}

impl Account {
    /// Counts bytes for as long as they are in memory, wherever they wait.
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

/// Bytes that wait for a listener.
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

/// Answers with what is told to the listener, until that ends.
pub(super) fn stream<F>(shared: &Arc<Shared>, client: Client, tell: impl FnOnce(Listener) -> F) -> Response<Body>
where
    F: Future<Output = Result<(), Gone>> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(1);
    let (gone, shared) = (sender.clone(), Arc::clone(shared));
    let account = shared.budget.open(client.hangup);
    let told = tell(Listener { sender, account, told_at: Instant::now() });
    tokio::spawn(async move {
        let mut stop = shared.stop.subscribe();
        tokio::select! {
            _ = told => {}
            () = ended(&shared, client.shown) => {}
            _ = stop.wait_for(|stop| *stop) => {}
            () = gone.closed() => {}
        }
    });
    let mut response = answer::text("text/event-stream", Body::from_stream(Chunks(receiver)));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Waits until the client may not listen any more.
async fn ended(shared: &Arc<Shared>, shown: Shown) {
    let shown = Arc::new(shown);
    loop {
        tokio::time::sleep(ACCESS_INTERVAL).await;
        if let Shown::Token(token) = &*shown
            && lock(&shared.checked_tokens).get(token).is_some_and(|at| at.elapsed() < ACCESS_INTERVAL)
        {
            continue;
        }
        let (looked, checked) = (Arc::clone(shared), Arc::clone(&shown));
        let is_good = tokio::task::spawn_blocking(move || checked.is_good(&looked, Instant::now())).await;
        if let (Ok(true), Shown::Token(token)) = (&is_good, &*shown) {
            let mut tokens = lock(&shared.checked_tokens);
            tokens.retain(|_, at| at.elapsed() < ACCESS_INTERVAL);
            tokens.insert(token.clone(), Instant::now());
        }
        if !is_good.unwrap_or(false) {
            return;
        }
    }
}

/// Returns the client behind a request.
pub(super) fn client(request: &Request) -> Result<Client> {
    let shown = request.extensions().get::<Shown>().cloned();
    let shown = shown.ok_or_else(|| Error::internal("a request came in without a grant"))?;
    let hangup = request.extensions().get::<Hangup>().cloned().unwrap_or_default();
    Ok(Client { shown, hangup })
}

/// Returns where a listener that was cut off wants to go on. It knows better than the address that it began with.
pub(super) fn last_id(request: &Request) -> Result<Option<u64>> {
    let last = request.headers().get("last-event-id");
    last.map(|last| number("Last-Event-ID", last.to_str().unwrap_or_default())).transpose()
}

/// Tells whether a request asks for server-sent events.
pub(super) fn is_wanted(request: &Request) -> bool {
    request.headers().get(header::ACCEPT).is_some_and(|accept| accept == "text/event-stream")
}

/// A body that is sent as it comes.
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
    fn listeners_that_wait_longest_are_cut_off_when_all_together_hold_too_much() {
        let budget = Arc::new(Budget::default());
        let accounts: Vec<_> = (0..4).map(|_| budget.open(Hangup::default())).collect();
        let third = Bytes::from(vec![0; MAX_QUEUED_BYTES / 3]);
        let is_cut_off = || accounts.iter().map(|account| lock(&account.queued).is_cut_off).collect::<Vec<_>>();
        let mut held: Vec<_> = accounts[..3].iter().map(|account| Account::hold(account, third.clone())).collect();
        assert_eq!(is_cut_off(), [false; 4], "exactly what is allowed");
        // The first one takes what it was sent, so the second one has waited longest.
        drop(held.remove(0));
        held.push(Account::hold(&accounts[0], third.clone()));
        held.push(Account::hold(&accounts[3], third.clone()));
        assert_eq!(is_cut_off(), [false, true, false, false]);
        drop(held);
        assert_eq!(budget.bytes.load(Ordering::Relaxed), 0, "all of it is given back");
        let _held = Account::hold(&accounts[0], third);
        assert_eq!(is_cut_off(), [false, true, false, false], "there is room again");
    }
}
