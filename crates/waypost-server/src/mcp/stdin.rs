//! Standard input that signals when it is closed.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::oneshot;

/// Standard input that signals when it is closed.
pub(super) struct Stdin {
    inner: tokio::io::Stdin,
    /// Dropped when standard input is closed.
    open: Option<oneshot::Sender<()>>,
}

impl Stdin {
    /// Returns standard input, and a future that completes when it is closed.
    pub(super) fn new() -> (Stdin, impl Future<Output = ()>) {
        let (open, closed) = oneshot::channel();
        let closed = async {
            // The sender is only ever dropped.
            let _ = closed.await;
        };
        (Stdin { inner: tokio::io::stdin(), open: Some(open) }, closed)
    }
}

impl AsyncRead for Stdin {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buffer);
        let is_closed = match &read {
            Poll::Pending => false,
            Poll::Ready(Ok(())) => buffer.filled().len() == before && buffer.remaining() > 0,
            Poll::Ready(Err(_)) => true,
        };
        if is_closed {
            self.open = None;
        }
        read
    }
}
