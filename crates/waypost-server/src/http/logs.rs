//! The live stream of a job's log.
//!
//! The log is a file, so a slow client queues nothing in memory and does not delay the job.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{RawPathParams, Request, State};
use axum::http::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use waypost_core::op::Operation as _;
use waypost_core::{Error, Result};

use super::sse::{self, Client, Gone, Listener};
use super::text::pairs;
use super::{Shared, answer, caller, number};
use crate::calls;
use waypost::app::{Call, Who};
use waypost::ops::ShowLog;
use waypost::serving::Grant;

/// The operation that reads a part of a log.
pub(super) const OPERATION: &str = ShowLog::NAME;
/// Maximum number of listeners.
pub(super) const MAX_LISTENERS: usize = 64;
/// How often the server checks for new output.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Answers `GET /api/v1/jobs/{job}/log/stream`.
pub(super) async fn stream(State(shared): State<Arc<Shared>>, key: RawPathParams, request: Request) -> Response<Body> {
    let job = key.iter().next().map(|(_, value)| value.to_owned());
    start_stream(&shared, job, request).await
}

/// Streams the log of a job from a byte on, until the job has ended.
pub(super) async fn start_stream(shared: &Arc<Shared>, job: Option<String>, request: Request) -> Response<Body> {
    let job = job.unwrap_or_default();
    let parsed = parse(shared, &request);
    drop(request);
    let response = match parsed {
        Ok(parsed) => begin(shared, job, parsed).await,
        Err(error) => Err(error),
    };
    response.unwrap_or_else(|error| answer::error(&error))
}

/// The caller of a stream.
struct Follower {
    who: Who,
    grant: Grant,
}

/// Returns the caller, its connection, and the first byte to send.
fn parse(shared: &Shared, request: &Request) -> Result<(Follower, Client, u64)> {
    let grant = request.extensions().get::<Grant>();
    let grant = grant.ok_or_else(|| Error::internal("the request has no grant"))?;
    let mut from = 0;
    for (name, value) in pairs(request.uri().query().unwrap_or_default()) {
        match name.as_str() {
            "from" => from = number(&name, &value)?,
            _ => return Err(Error::invalid(format!("unknown parameter {name:?}"))),
        }
    }
    let from = sse::last_id(request)?.unwrap_or(from);
    let who = caller::identify(shared, grant, request.headers())?;
    Ok((Follower { who, grant: grant.clone() }, sse::client(request)?, from))
}

async fn begin(
    shared: &Arc<Shared>,
    job: String,
    (follower, client, from): (Follower, Client, u64),
) -> Result<Response<Body>> {
    let permit = Arc::clone(&shared.log_listeners).try_acquire_owned();
    let permit = permit.map_err(|_| Error::unavailable("too many listeners of logs"))?;
    // A caller that may not read it, and an unknown job, are answered with an error instead of a stream.
    let first = read(shared, &follower, job, from).await?;
    let state = Arc::clone(shared);
    Ok(sse::stream(shared, client, move |listener| async move {
        let sent = follow(&state, &follower, first, from, listener).await;
        drop(permit);
        sent
    }))
}

/// A part of a log.
#[derive(Deserialize)]
struct Part {
    job: String,
    status: Value,
    is_live: bool,
    from: u64,
    next: u64,
    log: String,
}

async fn follow(
    shared: &Arc<Shared>,
    follower: &Follower,
    mut part: Part,
    mut at: u64,
    mut listener: Listener,
) -> Result<(), Gone> {
    // Sends the headers at once.
    listener.send(format!(": from {at}\n\n")).await?;
    loop {
        if part.from > at {
            let data = json!({ "missed": part.from - at, "from": part.from });
            listener.send(format!("event: resync\ndata: {data}\n\n")).await?;
        }
        at = part.next;
        if !part.log.is_empty() {
            let data = json!({ "from": part.from, "text": part.log });
            listener.send(format!("id: {at}\nevent: log\ndata: {data}\n\n")).await?;
        } else if !part.is_live {
            let data = json!({ "status": part.status });
            return listener.send(format!("id: {at}\nevent: end\ndata: {data}\n\n")).await;
        } else {
            listener.keep_alive().await?;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        part = match read(shared, follower, part.job, at).await {
            Ok(part) => part,
            // The client reconnects and gets the error then.
            Err(_) => return Err(Gone),
        };
    }
}

async fn read(shared: &Arc<Shared>, follower: &Follower, job: String, from: u64) -> Result<Part> {
    let app = Arc::clone(&shared.app);
    let arguments = json!({ "job": job, "from": from });
    let (who, grant) = (follower.who.clone(), follower.grant.clone());
    let call = Call { operation: OPERATION.to_owned(), arguments, who, grant, from: None, key: None };
    let answer = calls::call_for_tree(app, call).await?.answer;
    serde_json::from_value(answer).map_err(|error| Error::internal("cannot decode the log").because(error))
}
