//! Encoding of responses.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};
use waypost_core::Error;

use waypost::wire;

/// Encodes an answer.
pub(crate) fn data(data: &Value, warnings: &[String]) -> Response<Body> {
    json_body(StatusCode::OK, &json!({ "schema": wire::SCHEMA, "data": data, "warnings": warnings }))
}

/// Encodes a list: `data` is the list itself, and the other fields stand beside it.
pub(crate) fn list(answer: Value, warnings: &[String]) -> Response<Body> {
    let mut body = Map::from_iter([("schema".to_owned(), json!(wire::SCHEMA))]);
    match answer {
        Value::Object(fields) if fields.values().filter(|value| value.is_array()).count() == 1 => {
            let (lists, others): (Vec<_>, Vec<_>) = fields.into_iter().partition(|(_, value)| value.is_array());
            body.extend(lists.into_iter().map(|(_, list)| ("data".to_owned(), list)));
            body.extend(others);
        }
        other => drop(body.insert("data".to_owned(), other)),
    }
    body.insert("warnings".to_owned(), json!(warnings));
    json_body(StatusCode::OK, &Value::Object(body))
}

/// Encodes an error.
pub(crate) fn error(error: &Error) -> Response<Body> {
    let status = StatusCode::from_u16(wire::status(error.kind())).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json_body(status, &wire::error_body(error));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// Encodes an error of the HTTP layer, with a status of its own.
pub(crate) fn refusal(status: u16, code: &str, message: &str, hints: &[&str]) -> Response<Body> {
    let body = json!({ "schema": wire::SCHEMA, "error": { "code": code, "message": message, "hints": hints } });
    json_body(StatusCode::from_u16(status).unwrap_or(StatusCode::FORBIDDEN), &body)
}

/// Encodes a body of another content type.
pub(crate) fn text(content_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn json_body(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = text("application/json", body.to_string());
    *response.status_mut() = status;
    response
}
