//! What client and server exchange: callers, and answers and errors in their JSON form.

use serde_json::{Value, json};
use waypost_core::{Error, Kind};

use crate::app::origin::Origin;

/// The schema of all answers.
pub const SCHEMA: &str = "waypost/1";

/// The author, the agent and the worktree of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    /// The author.
    pub actor: Option<String>,
    /// The agent.
    pub agent: Option<String>,
    /// The worktree.
    pub origin: Option<Origin>,
}

/// The answer of a server.
#[derive(Debug)]
pub(crate) struct ServerReply {
    /// The answer of the operation.
    pub answer: Value,
    /// The warnings about it.
    pub warnings: Vec<String>,
}

/// Returns the HTTP status of an error.
pub fn http_status(kind: Kind) -> u16 {
    match kind {
        Kind::Internal | Kind::Damaged => 500,
        Kind::Invalid => 400,
        Kind::NotFound | Kind::NothingToDo => 404,
        Kind::Ambiguous | Kind::Conflict | Kind::LeaseLost => 409,
        Kind::Refused => 403,
        Kind::Unavailable => 503,
    }
}

/// Returns the JSON form of an error, without internal details.
pub(crate) fn error_body(error: &Error) -> Value {
    json!({
        "schema": SCHEMA,
        "error": { "code": error.kind().code(), "message": error.full_message(), "hints": error.hints() },
    })
}

/// The content type of errors.
pub const PROBLEM_TYPE: &str = "application/problem+json";

/// Returns an error as RFC 9457 describes problems of HTTP, beside its JSON form on other surfaces. The instance is the
/// path of the request.
pub fn problem_body(error: &Error, status: u16, instance: &str) -> Value {
    let kind = error.kind();
    let mut body = json!({
        "type": format!("urn:waypost:error:{}", kind.code()),
        "title": title(kind),
        "status": status,
        "detail": error.full_message(),
        "instance": instance,
        "code": kind.code(),
        "exit": kind.exit_code(),
        "hints": error.hints(),
    });
    if let (Value::Object(fields), Value::Object(common)) = (&mut body, error_body(error)) {
        fields.extend(common);
    }
    body
}

/// Returns the name of a kind of error, for people.
fn title(kind: Kind) -> &'static str {
    match kind {
        Kind::Internal => "Internal error",
        Kind::Invalid => "Invalid request",
        Kind::NotFound => "Not found",
        Kind::Ambiguous => "Ambiguous name",
        Kind::Conflict => "Conflict with the current state",
        Kind::LeaseLost => "Lease lost",
        Kind::NothingToDo => "Nothing to do",
        Kind::Refused => "Refused",
        Kind::Unavailable => "Unavailable",
        Kind::Damaged => "Damaged data",
    }
}

/// Parses the JSON form of an error.
pub(crate) fn read_error(body: &Value) -> Option<Error> {
    let error = body.get("error")?;
    let code = error.get("code")?.as_str()?;
    let kind = Kind::ALL.into_iter().find(|kind| kind.code() == code).unwrap_or(Kind::Internal);
    let hints = error.get("hints").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let message = error.get("message")?.as_str()?;
    Some(hints.fold(Error::new(kind, message), Error::hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_its_kind_message_and_hints() {
        for kind in Kind::ALL {
            let error = Error::new(kind, "it is so").because("of that").hint("do this").hint("or that");
            let read = read_error(&error_body(&error)).unwrap();
            assert_eq!((read.kind(), read.full_message()), (kind, "it is so: of that".to_owned()));
            assert_eq!(read.hints(), ["do this", "or that"]);
            assert!((400..600).contains(&http_status(kind)));
            let problem = problem_body(&error, http_status(kind), "/api/v1/tasks");
            assert_eq!(read_error(&problem).unwrap().kind(), kind);
            assert_eq!((&problem["code"], &problem["exit"]), (&json!(kind.code()), &json!(kind.exit_code())));
            assert_eq!((&problem["detail"], &problem["hints"][1]), (&json!("it is so: of that"), &json!("or that")));
        }
    }
}
