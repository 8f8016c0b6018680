//! Standard input that says when it was closed.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::oneshot;

/// Standard input that says when it was closed.
pub(super) struct Stdin {
    inner: tokio::io::Stdin,
    /// Taken when it is closed.
    open: Option<oneshot::Sender<()>>,
}

impl Stdin {
    /// Returns it, and what ends when it is closed.
    pub(super) fn new() -> (Stdin, impl Future<Output = ()>) {
        let (open, closed) = oneshot::channel();
        let closed = async {
            // However the sender goes, nobody reads any more.
            let _ = closed.await;
        };
        (Stdin { inner: tokio::io::stdin(), open: Some(open) }, closed)
    }
}

impl AsyncRead for Stdin {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buffer);
        let is_over = match &read {
            Poll::Pending => false,
            Poll::Ready(Ok(())) => buffer.filled().len() == before && buffer.remaining() > 0,
            Poll::Ready(Err(_)) => true,
        };
        if is_over {
            self.open = None;
        }
        read
    }
}
