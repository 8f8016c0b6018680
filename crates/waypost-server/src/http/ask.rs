//! A request for an operation: read, allowed, asked, answered.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::oneshot;
use waypost_core::op::{Effect, TABLE};
use waypost_core::{Error, Result};

use super::route::Op;
use super::text::{hash, hex, pairs, text_header};
use super::{PATIENCE, Shared, answer, blocking, ended, logs, sse, tell};
use waypost::access::{Grant, Role};
use waypost::host::{Call, Who};
use waypost::origin::{self, Origin};

/// How large a request may be.
const LARGEST: usize = 4 * 1024 * 1024;
/// How large one may be that carries a whole workflow, from whoever owns the server, and how long it may take to come.
const LARGEST_WORKFLOW: usize = 256 * 1024 * 1024;
const PATIENCE_WITH_WORKFLOW: Duration = Duration::from_mins(5);
/// How long an operation may take before its client is told that nobody knows.
const LONGEST: Duration = Duration::from_mins(1);

/// How an operation is addressed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Address {
    Name,
    Expected,
}

/// Answers a request for an operation.
pub(super) async fn operate(
    shared: &Arc<Shared>,
    number: usize,
    address: Address,
    key: Option<String>,
    request: Request,
) -> Response<Body> {
    let op = &shared.ops[number];
    if address == Address::Expected && sse::is_wanted(&request) {
        match op.described.name {
            "list_events" => return tell(shared, &request),
            logs::OPERATION => return logs::tell(shared, key, request).await,
            _ => {}
        }
    }
    let response = match ask(shared, op, address, key, request).await {
        Ok(response) => response,
        Err(Failure::Error(error)) => answer::error(&error),
        Err(Failure::TooLarge(most)) => {
            let message = format!("a request has at most {most} bytes");
            answer::refusal(413, "invalid", &message, &[])
        }
    };
    shared.metrics.answered(op.described.name, response.status().as_u16());
    response
}

enum Failure {
    Error(Error),
    TooLarge(usize),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Error(error)
    }
}

async fn ask(
    shared: &Arc<Shared>,
    op: &Op,
    address: Address,
    key: Option<String>,
    request: Request,
) -> Result<Response<Body>, Failure> {
    let (parts, body) = request.into_parts();
    let grant = parts.extensions.get::<Grant>().cloned();
    let grant = grant.ok_or_else(|| Error::internal("a request came in without a grant"))?;
    let is_get = address == Address::Expected && op.rest.is_get;
    let mut arguments = if is_get {
        op.arguments_of(&pairs(parts.uri.query().unwrap_or_default()))?
    } else {
        if parts.uri.query().is_some() {
            return Err(Error::invalid("what is asked for stands in the body, and not in the address").into());
        }
        let is_workflow = grant.role == Role::Admin && op.described.name == "take_workflow";
        let (most, patience) =
            if is_workflow { (LARGEST_WORKFLOW, PATIENCE_WITH_WORKFLOW) } else { (LARGEST, PATIENCE) };
        body_of(body, most, patience).await?
    };
    if let (Some(name), Some(value)) = (&op.rest.key, key)
        && arguments.insert(name.clone(), Value::String(value)).is_some()
    {
        return Err(Error::invalid(format!("{name} stands in the address, and nowhere else")).into());
    }
    let arguments = Value::Object(arguments);
    op.check(&arguments)?;
    grant.allow(op.described.name, op.described.effect, &arguments)?;
    let call = Call {
        operation: op.described.name.to_owned(),
        arguments,
        who: who(shared, &grant, &parts.headers)?,
        key: text_header(&parts.headers, "idempotency-key")?,
    };
    let from = text_header(&parts.headers, origin::HEADER)?.map(|from| Origin::from_header(&from)).transpose()?;
    let is_write = op.described.effect == Effect::Write;
    let is_of_store = TABLE.iter().any(|entry| entry.name == op.described.name);
    let revision = if is_get && is_of_store { Some(in_time(revision(shared, &call.who)).await?) } else { None };
    let wanted = parts.headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    if let (Some(revision), Some(wanted)) = (&revision, wanted)
        && matches(wanted, revision)
    {
        return Ok(unchanged(revision));
    }
    let (began, host) = (Instant::now(), Arc::clone(&shared.host));
    let answered = async move {
        let call = match from {
            Some(from) => return blocking(move || host.call_from(call, from)).await,
            None => call,
        };
        let (sender, answer) = oneshot::channel();
        // Whoever asked may have gone.
        match host.submit(call, Box::new(move |answer| drop(sender.send(answer)))) {
            None => answer.await.unwrap_or_else(|_| Err(ended())),
            Some(call) => blocking(move || host.call(call)).await,
        }
    };
    let mut answer = in_time(answered).await?;
    shared.metrics.took(is_write, began.elapsed());
    if is_write {
        shared.events.wrote();
    }
    let is_list = address == Address::Expected && op.rest.is_list;
    let tag = match revision {
        Some(revision) => Some(revision),
        None if is_get => Some(format!("\"{}\"", hex(&Sha256::digest(answer.to_string().as_bytes())[..16]))),
        None => None,
    };
    if let (Some(tag), Some(wanted)) = (&tag, wanted)
        && matches(wanted, tag)
    {
        return Ok(unchanged(tag));
    }
    let warnings = op.take_warnings(&mut answer);
    let mut response = if is_list { answer::list(answer, &warnings) } else { answer::data(&answer, &warnings) };
    if let Some(tag) = tag {
        set_tag(&mut response, &tag);
    }
    Ok(response)
}

/// Waits for the store, but not for ever.
async fn in_time<T>(answer: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(LONGEST, answer).await.unwrap_or_else(|_| {
        Err(Error::unavailable("the store did not answer in time")
            .hint("it may still happen; ask again with the same Idempotency-Key"))
    })
}

/// Returns what stands for all that the store says to somebody now.
async fn revision(shared: &Arc<Shared>, who: &Who) -> Result<String> {
    let host = Arc::clone(&shared.host);
    let arguments = json!({ "query": { "limit": 0 } });
    let call = Call { operation: "list_events".to_owned(), arguments, who: who.clone(), key: None };
    let answer = blocking(move || host.call(call)).await?;
    let name = format!("{}\0{}", who.actor, who.agent.as_deref().unwrap_or_default());
    let last = answer.get("last").and_then(Value::as_u64).unwrap_or_default();
    Ok(format!("W/\"{last}-{}\"", hex(&hash(&name)[..4])))
}

fn matches(wanted: &str, tag: &str) -> bool {
    let weak = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    wanted.split(',').any(|one| weak(one) == weak(tag) || one.trim() == "*")
}

fn unchanged(tag: &str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    set_tag(&mut response, tag);
    response
}

fn set_tag(response: &mut Response<Body>, tag: &str) {
    if let Ok(tag) = HeaderValue::from_str(tag) {
        response.headers_mut().insert(header::ETAG, tag);
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        response.headers_mut().insert(header::VARY, HeaderValue::from_static("Authorization, Cookie"));
    }
}

/// Reads the body of a request, which is an object; no body at all is an empty one.
async fn body_of(body: Body, most: usize, patience: Duration) -> Result<Map<String, Value>, Failure> {
    let read = tokio::time::timeout(patience, to_bytes(body, most)).await;
    let bytes = match read {
        Err(_) => return Err(Error::invalid("the request did not come to its end in time").into()),
        Ok(Err(error)) => {
            let is_large = std::error::Error::source(&error).is_some_and(|cause| cause.to_string().contains("limit"));
            let broken = Error::invalid("the request cannot be read").because(error);
            return Err(if is_large { Failure::TooLarge(most) } else { broken.into() });
        }
        Ok(Ok(bytes)) => bytes,
    };
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Error::invalid("the body is an object with the arguments").into()),
        Err(error) => Err(Error::invalid("the body is not JSON").because(error).into()),
    }
}

/// Finds out in whose name something is asked. A token that belongs to an agent asks for that agent alone.
pub(super) fn who(shared: &Shared, grant: &Grant, headers: &HeaderMap) -> Result<Who> {
    let agent = text_header(headers, "waypost-agent")?;
    let actor = text_header(headers, "waypost-actor")?;
    if let Some(own) = &grant.agent {
        if agent.as_ref().is_some_and(|agent| agent != own) {
            return Err(Error::refused(format!("this token is that of {own}, who asks for nobody else")));
        }
        return Ok(Who { actor: own.clone(), agent: Some(own.clone()) });
    }
    if grant.role != Role::Admin {
        return Ok(Who { actor: grant.role.as_str().to_owned(), agent: None });
    }
    let actor = actor.or_else(|| agent.clone()).unwrap_or_else(|| shared.actor.clone());
    Ok(Who { actor, agent })
}
