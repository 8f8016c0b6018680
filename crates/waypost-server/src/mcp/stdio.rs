//! Standard input and output of a server for one client.
//!
//! The SDK ignores a line that is not JSON, and the client would wait for its answer. So input answers lines itself that
//! [`refusal`] refuses, and all answers go through one channel, which keeps their lines whole.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::sync::{mpsc, oneshot};

use super::refusal;

/// Maximum length of a line, in bytes.
const MAX_LINE_BYTES: usize = 16 << 20;

/// Lines for standard output.
type Lines = mpsc::UnboundedSender<Vec<u8>>;

/// Returns standard input, a future that completes when it is closed, standard output, and the future that writes to it
/// until both are dropped.
pub(super) fn open() -> (Stdin, impl Future<Output = ()>, Stdout, impl Future<Output = ()>) {
    let (open, closed) = oneshot::channel();
    let closed = async {
        // The sender is only ever dropped.
        let _ = closed.await;
    };
    let (lines, to_write) = mpsc::unbounded_channel();
    let accepted = Accepted { line: Vec::new(), is_too_long: false, ready: Vec::new(), answers: lines.clone() };
    let stdin = Stdin { inner: tokio::io::stdin(), open: Some(open), accepted };
    (stdin, closed, Stdout { lines, partial: Vec::new() }, write_lines(to_write))
}

async fn write_lines(mut lines: mpsc::UnboundedReceiver<Vec<u8>>) {
    let mut stdout = tokio::io::stdout();
    while let Some(line) = lines.recv().await {
        if stdout.write_all(&line).await.is_err() || stdout.flush().await.is_err() {
            return;
        }
    }
}

/// Standard input without the lines that are refused.
pub(super) struct Stdin {
    inner: tokio::io::Stdin,
    /// Dropped when standard input is closed.
    open: Option<oneshot::Sender<()>>,
    accepted: Accepted,
}

impl AsyncRead for Stdin {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            if !self.accepted.ready.is_empty() {
                let length = self.accepted.ready.len().min(buffer.remaining());
                buffer.put_slice(&self.accepted.ready[..length]);
                self.accepted.ready.drain(..length);
                return Poll::Ready(Ok(()));
            }
            let mut chunk = [0; 8192];
            let mut chunk = ReadBuf::new(&mut chunk);
            let read = ready!(Pin::new(&mut self.inner).poll_read(cx, &mut chunk));
            if read.is_err() || chunk.filled().is_empty() {
                self.open = None;
                return Poll::Ready(read);
            }
            self.accepted.take(chunk.filled());
        }
    }
}

/// The lines of the input that are messages.
struct Accepted {
    /// The line that has not ended yet.
    line: Vec<u8>,
    is_too_long: bool,
    /// Whole lines that were not read yet.
    ready: Vec<u8>,
    answers: Lines,
}

impl Accepted {
    fn take(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.is_too_long |= self.line.len() + part.len() > MAX_LINE_BYTES;
            if self.is_too_long {
                self.line.clear();
            } else {
                self.line.extend_from_slice(part);
            }
            if part.ends_with(b"\n") {
                // Too long a line is empty by now, which is not JSON.
                let is_blank = !self.is_too_long && self.line.trim_ascii().is_empty();
                match refusal(&self.line).filter(|_| !is_blank) {
                    None => self.ready.append(&mut self.line),
                    Some(answer) if answer.is_null() => {}
                    // The client may have closed its end.
                    Some(answer) => drop(self.answers.send(format!("{answer}\n").into_bytes())),
                }
                self.line.clear();
                self.is_too_long = false;
            }
        }
    }
}

/// Standard output, line by line.
pub(super) struct Stdout {
    lines: Lines,
    /// The line that has not ended yet.
    partial: Vec<u8>,
}

impl AsyncWrite for Stdout {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.partial.extend_from_slice(bytes);
        if let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') {
            let rest = self.partial.split_off(end + 1);
            let lines = std::mem::replace(&mut self.partial, rest);
            self.lines.send(lines).map_err(|_| io::ErrorKind::BrokenPipe)?;
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_not_json_are_answered_and_the_others_accepted_whole() {
        let (answers, mut answered) = mpsc::unbounded_channel();
        let mut accepted = Accepted { line: Vec::new(), is_too_long: false, ready: Vec::new(), answers };
        let message = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
        let (begin, end) = message.split_at(9);
        accepted.take(begin.as_bytes());
        assert!(accepted.ready.is_empty());
        accepted.take(format!("{end}no JSON\n\n\u{feff}{message}{begin}").as_bytes());
        assert_eq!(accepted.ready, format!("{message}\n\u{feff}{message}").as_bytes());
        let mut code = || {
            let answer: serde_json::Value = serde_json::from_slice(&answered.try_recv().ok()?).unwrap();
            answer["error"]["code"].as_i64()
        };
        assert_eq!((code(), code()), (Some(-32700), None));
        accepted.ready.clear();
        accepted.take(&vec![b'1'; MAX_LINE_BYTES]);
        assert!(accepted.line.is_empty(), "the rest of the line is not kept");
        accepted.take(format!("1\n{message}").as_bytes());
        assert_eq!((code(), accepted.ready.as_slice()), (Some(-32700), message.as_bytes()));
    }
}
