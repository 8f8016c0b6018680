//! Server-sent events: a body that is sent as it comes.
//!
//! It ends when whoever listens goes, when the server ends, and when whoever listens may not listen any more.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Response, header};
use tokio::sync::mpsc;
use waypost_core::{Error, Result};

use super::admit::Shown;
use super::{Shared, answer, number};

/// How often it is looked whether whoever listens still may.
const LOOK: Duration = Duration::from_secs(1);
/// How often a listener hears that the connection lives, if there is nothing else to say.
pub(super) const SIGN_OF_LIFE: Duration = Duration::from_secs(15);
/// What is said then.
pub(super) const STILL_HERE: Bytes = Bytes::from_static(b": still here\n\n");

/// Whoever listens. Telling waits until it has read what was told before.
pub(super) struct Listener(mpsc::Sender<Bytes>);

impl Listener {
    /// Tells something; an error says that nobody listens any more.
    pub(super) async fn tell(&self, text: impl Into<Bytes>) -> Result<(), Gone> {
        self.0.send(text.into()).await.map_err(|_| Gone)
    }
}

/// Nobody listens any more.
pub(super) struct Gone;

/// Answers with what is told to the listener, until that ends.
pub(super) fn stream<F>(shared: &Arc<Shared>, shown: Shown, tell: impl FnOnce(Listener) -> F) -> Response<Body>
where
    F: Future<Output = Result<(), Gone>> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(1);
    let (gone, shared) = (sender.clone(), Arc::clone(shared));
    let told = tell(Listener(sender));
    tokio::spawn(async move {
        let mut stop = shared.stop.subscribe();
        tokio::select! {
            _ = told => {}
            () = ended(&shared, shown) => {}
            _ = stop.wait_for(|stop| *stop) => {}
            () = gone.closed() => {}
        }
    });
    let mut response = answer::text("text/event-stream", Body::from_stream(Chunks(receiver)));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Waits until what was shown is not good any more.
async fn ended(shared: &Arc<Shared>, shown: Shown) {
    let shown = Arc::new(shown);
    loop {
        tokio::time::sleep(LOOK).await;
        let (looked, shown) = (Arc::clone(shared), Arc::clone(&shown));
        let is_good = tokio::task::spawn_blocking(move || shown.is_good(&looked, Instant::now())).await;
        if !is_good.unwrap_or(false) {
            return;
        }
    }
}

/// Returns what a request showed.
pub(super) fn shown(request: &Request) -> Result<Shown> {
    request.extensions().get::<Shown>().cloned().ok_or_else(|| Error::internal("a request came in without a grant"))
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
