//! Calls of the application from asynchronous code.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use waypost::app::{App, Call, Reply};
use waypost_core::op::AnyAnswer;
use waypost_core::{Error, Result};

/// After this time the client gets an error: the outcome is unknown.
const OPERATION_TIMEOUT: Duration = Duration::from_mins(1);

/// Runs an operation: on the threads of the application where it can, else on a thread that may block.
pub(crate) async fn call(app: Arc<App>, call: Call) -> Result<Reply<AnyAnswer>> {
    let (sender, reply) = oneshot::channel();
    // The client may have disconnected.
    match app.submit(call, Box::new(move |reply| drop(sender.send(reply)))) {
        None => with_timeout(async { reply.await.unwrap_or_else(|_| Err(no_answer_error())) }).await,
        Some(call) => blocking(move || app.call(call).map(Reply::into)).await,
    }
}

/// Runs an operation as [`call`] does, and returns its answer as a JSON value.
pub(crate) async fn call_for_tree(app: Arc<App>, call: Call) -> Result<Reply> {
    self::call(app, call).await?.into_tree()
}

/// Limits how long a client waits for the store.
pub(crate) async fn with_timeout<T>(answer: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(OPERATION_TIMEOUT, answer).await.unwrap_or_else(|_| {
        Err(Error::unavailable("the store did not answer in time")
            .hint("the operation may still complete; retry with the same Idempotency-Key"))
    })
}

/// Runs `work` on a thread that may block.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(no_answer_error()))
}

fn no_answer_error() -> Error {
    Error::internal("the operation ended without an answer")
}
