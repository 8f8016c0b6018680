//! Encoding of responses.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};
use waypost_core::op::AnyAnswer;
use waypost_core::{Error, Kind, Result};

use super::guard;
use waypost::serving::{PROBLEM_TYPE, SCHEMA, http_status, problem_body};

/// Returns the body of an answer.
pub(crate) fn data(answer: &AnyAnswer, warnings: &[String]) -> Result<Vec<u8>> {
    // Most answers fit.
    let mut body = Vec::with_capacity(1024);
    for part in ["{\"schema\":\"", SCHEMA, "\",\"data\":"] {
        body.extend_from_slice(part.as_bytes());
    }
    answer.write_to(&mut body)?;
    body.extend_from_slice(b",\"warnings\":");
    serde_json::to_writer(&mut body, warnings).map_err(not_json)?;
    body.push(b'}');
    Ok(body)
}

/// Encodes an answer of the HTTP layer itself.
pub(crate) fn value(answer: Value) -> Response<Body> {
    data(&answer.into(), &[]).map_or_else(|reason| error(&reason), json)
}

/// Returns the body of a list: `data` is the list itself, and the other fields stand beside it.
pub(crate) fn list(answer: AnyAnswer, warnings: &[String]) -> Result<Vec<u8>> {
    let mut body = Map::from_iter([("schema".to_owned(), json!(SCHEMA))]);
    match answer.into_tree()? {
        Value::Object(fields) if fields.values().filter(|value| value.is_array()).count() == 1 => {
            let (lists, others): (Vec<_>, Vec<_>) = fields.into_iter().partition(|(_, value)| value.is_array());
            body.extend(lists.into_iter().map(|(_, list)| ("data".to_owned(), list)));
            body.extend(others);
        }
        other => drop(body.insert("data".to_owned(), other)),
    }
    body.insert("warnings".to_owned(), json!(warnings));
    serde_json::to_vec(&body).map_err(not_json)
}

fn not_json(reason: serde_json::Error) -> Error {
    Error::internal("the answer is not JSON").because(reason)
}

/// Encodes a response with a JSON body.
pub(crate) fn json(body: Vec<u8>) -> Response<Body> {
    text("application/json", body)
}

/// The error that a response reports. [`with_problem`] writes it into the body, together with the address.
#[derive(Clone)]
struct Problem(Error);

/// Encodes an error.
pub(crate) fn error(error: &Error) -> Response<Body> {
    let status = StatusCode::from_u16(http_status(error.kind())).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = failed(status, error.clone());
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// Encodes an error of the HTTP layer, with a status of its own.
pub(crate) fn refusal(status: u16, kind: Kind, message: &str, hints: &[&str]) -> Response<Body> {
    let error = hints.iter().fold(Error::new(kind, message), |error, hint| error.hint(*hint));
    failed(StatusCode::from_u16(status).unwrap_or(StatusCode::FORBIDDEN), error)
}

fn failed(status: StatusCode, error: Error) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response.extensions_mut().insert(Problem(error));
    response
}

/// Writes the body of a response that reports an error.
pub(super) fn with_problem(mut response: Response<Body>, path: &str) -> Response<Body> {
    if let Some(Problem(error)) = response.extensions_mut().remove::<Problem>() {
        let body = problem_body(&error, response.status().as_u16(), path);
        *response.body_mut() = Body::from(body.to_string());
        response.headers_mut().remove(header::CONTENT_LENGTH);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_TYPE));
    }
    response
}

/// Encodes a body of another content type.
pub(crate) fn text(content_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    // Those of every response are added later; the map grows once.
    response.headers_mut().reserve(guard::HEADERS.len() + 4);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
