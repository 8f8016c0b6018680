//! Answers and errors in their JSON form.

use serde_json::{Value, json};
use waypost_core::{Error, Kind};

/// The schema of all answers.
pub const SCHEMA: &str = "waypost/1";

/// Returns the HTTP status of an error.
pub fn status(kind: Kind) -> u16 {
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
pub fn error_body(error: &Error) -> Value {
    json!({
        "schema": SCHEMA,
        "error": { "code": error.kind().code(), "message": error.full_message(), "hints": error.hints() },
    })
}

/// Parses the JSON form of an error.
pub fn read_error(body: &Value) -> Option<Error> {
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
            assert!((400..600).contains(&status(kind)));
        }
    }
}
