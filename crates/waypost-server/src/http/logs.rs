//! What a job prints, as it prints it.
//!
//! Nothing waits for a reader but what the job printed, which lies in a file: whoever reads slowly reads later.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{RawPathParams, Request, State};
use axum::http::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use waypost_core::op::Effect;
use waypost_core::{Error, Result};

use super::sse::{self, Client, Gone, Listener};
use super::text::pairs;
use super::{Shared, answer, ask, blocking, number};
use waypost::access::Grant;
use waypost::host::{Call, Who};

/// The operation that reads a part of it.
pub(super) const OPERATION: &str = "get_log";
/// How many may listen.
pub(super) const LISTENERS: usize = 64;
/// How often it is looked whether there is more.
const LOOK: Duration = Duration::from_millis(200);

/// Answers at an address of its own.
pub(super) async fn stream(State(shared): State<Arc<Shared>>, key: RawPathParams, request: Request) -> Response<Body> {
    let job = key.iter().next().map(|(_, value)| value.to_owned());
    tell(&shared, job, request).await
}

/// Tells what a job prints, from a byte on, until it has ended.
pub(super) async fn tell(shared: &Arc<Shared>, job: Option<String>, request: Request) -> Response<Body> {
    let job = job.unwrap_or_default();
    let asked = asked(shared, &job, &request);
    drop(request);
    let begun = match asked {
        Ok(asked) => begin(shared, job, asked).await,
        Err(error) => Err(error),
    };
    begun.unwrap_or_else(|error| answer::error(&error))
}

/// Returns who asks, over which connection, and from which byte on it wants to be told.
fn asked(shared: &Shared, job: &str, request: &Request) -> Result<(Who, Client, u64)> {
    let grant = request.extensions().get::<Grant>();
    let grant = grant.ok_or_else(|| Error::internal("a request came in without a grant"))?;
    grant.allow(OPERATION, Effect::Read, &json!({ "job": job }))?;
    let mut from = 0;
    for (name, value) in pairs(request.uri().query().unwrap_or_default()) {
        match name.as_str() {
            "from" => from = number(&name, &value)?,
            _ => return Err(Error::invalid(format!("there is no {name:?} to ask for"))),
        }
    }
    let from = sse::last_id(request)?.unwrap_or(from);
    Ok((ask::who(shared, grant, request.headers())?, sse::client(request)?, from))
}

async fn begin(shared: &Arc<Shared>, job: String, (who, client, from): (Who, Client, u64)) -> Result<Response<Body>> {
    let place = Arc::clone(&shared.log_listeners).try_acquire_owned();
    let place = place.map_err(|_| Error::unavailable("too many listen to logs"))?;
    // A job that is not known is an error, and no stream.
    let first = read(shared, &who, job, from).await?;
    let behind = Arc::clone(shared);
    Ok(sse::stream(shared, client, move |listener| async move {
        let told = follow(&behind, &who, first, from, listener).await;
        drop(place);
        told
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
    who: &Who,
    mut part: Part,
    mut at: u64,
    mut listener: Listener,
) -> Result<(), Gone> {
    // Whoever waits for headers has them at once.
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
            tokio::time::sleep(LOOK).await;
        }
        part = match read(shared, who, part.job, at).await {
            Ok(part) => part,
            // Whoever asks again is told what is wrong.
            Err(_) => return Err(Gone),
        };
    }
}

async fn read(shared: &Arc<Shared>, who: &Who, job: String, from: u64) -> Result<Part> {
    let host = Arc::clone(&shared.host);
    let arguments = json!({ "job": job, "from": from });
    let call = Call { operation: OPERATION.to_owned(), arguments, who: who.clone(), key: None };
    let answer = blocking(move || host.call(call)).await?;
    serde_json::from_value(answer).map_err(|error| Error::internal("a log cannot be read").because(error))
}
