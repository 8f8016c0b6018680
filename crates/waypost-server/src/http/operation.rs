//! Handling of a request for an operation: decode, authorize, run, encode.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use serde_json::{Map, Value, json};
use waypost_core::digest::{hex, sha256};
use waypost_core::op::{self, Effect, ListEvents, Operation as _, TakeWorkflow};
use waypost_core::{Error, Kind, Result};

use super::route::{Op, ROOT};
use super::text::{hash, pairs, text_header};
use super::{READ_TIMEOUT, Shared, answer, caller, event_request, logs, sse, start_event_stream};
use crate::calls::{self, with_timeout};
use crate::percent;
use waypost::app::origin::{self, Origin};
use waypost::app::{Call, Reply};
use waypost::serving::{Grant, Role};

/// Maximum size of a request body.
pub(super) const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;
/// The limits of a body that carries a whole workflow, which only an admin may send.
const MAX_WORKFLOW_BYTES: usize = 256 * 1024 * 1024;
const WORKFLOW_READ_TIMEOUT: Duration = Duration::from_mins(5);

/// How an operation is addressed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Address {
    /// `POST /api/v1/op/NAME`.
    Name,
    /// `POST /api/v1/op/NAME` with the name of the version before.
    FormerName,
    /// The address of its resource.
    Rest,
    /// The address of the version before.
    Former,
}

impl Address {
    /// Returns whether the operation is addressed by its name, with all arguments in the body.
    fn is_name(self) -> bool {
        matches!(self, Address::Name | Address::FormerName)
    }
}

/// Answers a request for an operation.
pub(super) async fn handle(
    shared: &Arc<Shared>,
    number: usize,
    address: Address,
    keys: Vec<(String, String)>,
    request: Request,
) -> Response<Body> {
    let op = &shared.ops[number];
    if !address.is_name() && sse::is_accepted(&request) {
        match op.about.name {
            ListEvents::NAME => {
                let parsed = event_request(shared, &request);
                return start_event_stream(shared, parsed).await;
            }
            logs::OPERATION => {
                let job = keys.into_iter().next().map(|(_, job)| job);
                return logs::start_stream(shared, job, request).await;
            }
            _ => {}
        }
    }
    let successor = match address {
        Address::Former => successor(op, &keys),
        Address::FormerName => Some(format!("{ROOT}/op/{}", op.about.name)),
        Address::Name | Address::Rest => None,
    };
    let mut response = match run(shared, op, address, keys, request).await {
        Ok(response) => response,
        Err(failure) => failure.into_response(),
    };
    shared.metrics.count_response(op.about.name, response.status().as_u16());
    if matches!(address, Address::Former | Address::FormerName) {
        deprecate(&mut response, successor.as_deref());
    }
    response
}

/// The time from which the addresses and names of the version before are deprecated, as RFC 9745 writes it.
const DEPRECATED_SINCE: &str = "@1794787200";

/// Says that an address is deprecated, and which one replaces it.
fn deprecate(response: &mut Response<Body>, successor: Option<&str>) {
    response.headers_mut().insert("deprecation", HeaderValue::from_static(DEPRECATED_SINCE));
    let link = successor.map(|path| HeaderValue::from_str(&format!("<{path}>; rel=\"successor-version\"")));
    if let Some(Ok(link)) = link {
        response.headers_mut().insert(header::LINK, link);
    }
}

/// Returns the current path of an operation that was called at its former address, unless the body had a part of it.
fn successor(op: &Op, keys: &[(String, String)]) -> Option<String> {
    let fill =
        |path: String, (name, value): &(String, String)| path.replace(&format!("{{{name}}}"), &percent::encode(value));
    Some(keys.iter().fold(op.rest.path.clone(), fill)).filter(|path| !path.contains('{'))
}

pub(super) enum Failure {
    Error(Error),
    TooLarge(usize),
}

impl Failure {
    pub(super) fn into_response(self) -> Response<Body> {
        match self {
            Failure::Error(error) => answer::error(&error),
            Failure::TooLarge(max_bytes) => {
                let message = format!("the request body must be at most {max_bytes} bytes");
                answer::refusal(413, Kind::Invalid, &message, &[])
            }
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Error(error)
    }
}

async fn run(
    shared: &Arc<Shared>,
    op: &Op,
    address: Address,
    keys: Vec<(String, String)>,
    request: Request,
) -> Result<Response<Body>, Failure> {
    let (parts, body) = request.into_parts();
    let grant = parts.extensions.get::<Grant>().cloned();
    let grant = grant.ok_or_else(|| Error::internal("the request has no grant"))?;
    let is_get = !address.is_name() && op.rest.method == Method::GET;
    let has_query = match address {
        Address::Name | Address::FormerName => false,
        Address::Rest => op.rest.has_query(),
        Address::Former => is_get,
    };
    let mut arguments = if has_query {
        op.parse_query(&pairs(parts.uri.query().unwrap_or_default()))?
    } else {
        if parts.uri.query().is_some() {
            return Err(Error::invalid("arguments belong in the body, not in the query string").into());
        }
        let is_workflow = grant.role == Role::Admin && op.about.name == TakeWorkflow::NAME;
        let (max_bytes, timeout) =
            if is_workflow { (MAX_WORKFLOW_BYTES, WORKFLOW_READ_TIMEOUT) } else { (MAX_BODY_BYTES, READ_TIMEOUT) };
        read_body(body, max_bytes, timeout).await?
    };
    for (name, value) in keys {
        if arguments.insert(name.clone(), Value::String(value)).is_some() {
            return Err(Error::invalid(format!("{name} is part of the path; remove it from the arguments")).into());
        }
    }
    let arguments = Value::Object(arguments);
    op.check(&arguments)?;
    let call = Call {
        operation: op.about.name.to_owned(),
        arguments,
        who: caller::identify(shared, &grant, &parts.headers)?,
        grant,
        from: text_header(&parts.headers, origin::HEADER)?.map(|from| Origin::from_header(&from)).transpose()?,
        key: idempotency_key(&parts.headers)?,
    };
    // Before the entity tag, which tells whether the store has changed.
    shared.app.authorize(&call)?;
    let is_write = op.about.effect == Effect::Write;
    let is_store_operation = op::named(op.about.name).is_some();
    let revision = if is_get && is_store_operation { Some(with_timeout(revision(shared, &call)).await?) } else { None };
    let if_none_match = parts.headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    if let (Some(revision), Some(expected)) = (&revision, if_none_match)
        && tag_matches(expected, revision)
    {
        return Ok(not_modified(revision));
    }
    let (began, app) = (Instant::now(), Arc::clone(&shared.app));
    let Reply { answer, warnings } = with_timeout(calls::call(app, call)).await?;
    shared.metrics.record_duration(is_write, began.elapsed());
    if is_write {
        shared.events.notify_write();
    }
    let is_list = !address.is_name() && op.rest.is_list;
    let body = if is_list { answer::list(answer, &warnings)? } else { answer::data(&answer, &warnings)? };
    let tag = match revision {
        Some(revision) => Some(revision),
        None if is_get => Some(format!("\"{}\"", hex(&sha256(&body)[..16]))),
        None => None,
    };
    if let (Some(tag), Some(expected)) = (&tag, if_none_match)
        && tag_matches(expected, tag)
    {
        return Ok(not_modified(tag));
    }
    let mut response = answer::json(body);
    if let Some(tag) = tag {
        set_tag(&mut response, &tag);
    }
    Ok(response)
}

/// Returns the key that makes a write safe to retry. An empty one is refused: without a key the write is not safe.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>> {
    let key = text_header(headers, "idempotency-key")?;
    if key.is_none() && headers.contains_key("idempotency-key") {
        return Err(Error::invalid("the header Idempotency-Key is empty").hint("leave it out, or send a random text"));
    }
    Ok(key)
}

/// Returns an entity tag for the current state of the store, as this caller sees it.
async fn revision(shared: &Arc<Shared>, call: &Call) -> Result<String> {
    let (app, who) = (Arc::clone(&shared.app), call.who.clone());
    // The caller may read the answer, if not the events themselves.
    let (arguments, grant) = (json!({ "query": { "limit": 1 } }), Grant::owner(&shared.actor));
    let operation = ListEvents::NAME.to_owned();
    let call = Call { operation, arguments, who: who.clone(), grant, from: None, key: None };
    let answer = calls::call_for_tree(app, call).await?.answer;
    let name = format!("{}\0{}", who.actor, who.agent.as_deref().unwrap_or_default());
    let last = answer.get("last").and_then(Value::as_u64).unwrap_or_default();
    Ok(format!("W/\"{last}-{}\"", hex(&hash(&name)[..4])))
}

fn tag_matches(expected: &str, tag: &str) -> bool {
    let weak = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    expected.split(',').any(|one| weak(one) == weak(tag) || one.trim() == "*")
}

fn not_modified(tag: &str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    set_tag(&mut response, tag);
    response
}

fn set_tag(response: &mut Response<Body>, tag: &str) {
    if let Ok(tag) = HeaderValue::from_str(tag) {
        response.headers_mut().insert(header::ETAG, tag);
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        response.headers_mut().insert(header::VARY, HeaderValue::from_static("Authorization"));
    }
}

/// Reads the body of a request, a JSON object; an empty body is an empty object.
async fn read_body(body: Body, max_bytes: usize, timeout: Duration) -> Result<Map<String, Value>, Failure> {
    let bytes = read_bytes(body, max_bytes, timeout).await?;
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Error::invalid("the body must be a JSON object").into()),
        Err(error) => Err(Error::invalid("the body is not valid JSON").because(error).into()),
    }
}

/// Reads the body of a request, within a limit of size and time.
pub(super) async fn read_bytes(body: Body, max_bytes: usize, timeout: Duration) -> Result<Bytes, Failure> {
    match tokio::time::timeout(timeout, to_bytes(body, max_bytes)).await {
        Err(_) => Err(Error::invalid("timeout while reading the request body").into()),
        Ok(Err(error)) => {
            let is_large = std::error::Error::source(&error).is_some_and(|cause| cause.to_string().contains("limit"));
            let broken = Error::invalid("cannot read the request body").because(error);
            Err(if is_large { Failure::TooLarge(max_bytes) } else { broken.into() })
        }
        Ok(Ok(bytes)) => Ok(bytes),
    }
}
