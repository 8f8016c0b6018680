//! What PostgreSQL's errors mean for the person in front of the screen.
//!
//! The driver's own words are kept; they never contain a password.

use std::error::Error as _;
use std::time::Duration;

use tokio_postgres::error::SqlState;
use waypost_core::{Error, Kind};

use super::address::Address;
use super::begun::{Begun, Effect};
use super::client::Failed;

/// Turns the driver's errors into ours: `what` failed for the store.
pub(super) fn at(address: &Address, what: &str, error: &Failed) -> Error {
    let (kind, hint) = classify(error);
    let mut ours = Error::new(kind, format!("{what} the store {}", address.shown())).because(words(error));
    if let Some(hint) = hint {
        ours = ours.hint(hint);
    }
    if is_loss(error) || is_contention(error) { ours.transient() } else { ours }
}

/// A transaction that did not begin.
pub(super) fn begin(
    address: &Address,
    error: &Failed,
    effect: Effect,
    patience: Duration,
    holder: Option<String>,
) -> Error {
    if !is_lock_timeout(error) {
        return at(address, if effect == Effect::Read { "cannot read" } else { "cannot write" }, error);
    }
    let waited = format!("waited {patience:?} for the store {} in vain", address.shown());
    let error = Error::unavailable(waited).transient();
    match holder {
        Some(holder) => error.because(holder),
        None => error.hint("others are writing; try again, or wait longer with store.wait"),
    }
}

/// A server that took over from the one that the store knows.
pub(super) fn failover(address: &Address, begun: &Begun) -> Error {
    let name = |server: &Option<String>| server.clone().unwrap_or_else(|| "unknown".to_owned());
    Error::unavailable(format!(
        "the store {} is on another server than before: it was on {} and is on {} (system identifier/timeline). \
        After a failover to an asynchronous standby, or a restore, acknowledged writes may be missing",
        address.shown(),
        name(&begun.known_server),
        name(&begun.server)
    ))
    .hint("if the former server is stopped for good and this one is meant to take over: way db accept-failover")
}

/// A commit that failed. Whoever lost the connection does not know whether it happened.
pub(super) fn commit(address: &Address, error: &Failed) -> Error {
    let ours = at(address, "cannot write", error);
    if is_loss(error) { ours.outcome_unknown() } else { ours }
}

/// Tells whether the connection is gone, or never was.
pub(super) fn is_loss(error: &Failed) -> bool {
    match error.code() {
        Some(code) => {
            code.code().starts_with("08")
                || [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT]
                    .contains(code)
                || is_worth_waiting(error)
        }
        None => {
            matches!(error, Failed::Silence(_))
                || error.is_closed()
                || source_of::<std::io::Error>(error).is_some_and(|io| !is_tls(io))
        }
    }
}

/// Returns whether the server may be restarting. A wrong port looks the same; a wrong name or password does not.
pub(super) fn is_restarting(error: &Failed) -> bool {
    use std::io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, NotFound, UnexpectedEof,
    };
    let away = [BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, NotFound, UnexpectedEof];
    is_worth_waiting(error)
        || error.is_closed()
        || error.code().is_some_and(|code| [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN].contains(code))
        || source_of::<std::io::Error>(error).is_some_and(|io| away.contains(&io.kind()))
}

/// Tells whether the server is there, but not for us yet.
pub(super) fn is_worth_waiting(error: &Failed) -> bool {
    error.code().is_some_and(|code| [SqlState::CANNOT_CONNECT_NOW, SqlState::TOO_MANY_CONNECTIONS].contains(code))
}

pub(super) fn is_lock_timeout(error: &Failed) -> bool {
    error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

/// Tells whether others were in the way, or the prepared statements of a pooled connection.
fn is_contention(error: &Failed) -> bool {
    let is_others = error.code().is_some_and(|code| {
        [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED, SqlState::LOCK_NOT_AVAILABLE]
            .contains(code)
    });
    is_others || is_about_names(error)
}

/// Tells whether a prepared statement is not there, or another one of its name is.
pub(super) fn is_about_names(error: &Failed) -> bool {
    error
        .code()
        .is_some_and(|code| [SqlState::INVALID_SQL_STATEMENT_NAME, SqlState::DUPLICATE_PSTATEMENT].contains(code))
}

fn classify(error: &Failed) -> (Kind, Option<&'static str>) {
    let Some(code) = error.code() else { return classify_without_code(error) };
    match (code.code(), code.code().get(..2).unwrap_or_default()) {
        ("42501", _) => (Kind::Unavailable, Some("the role in the URL has not the rights for it")),
        ("3D000", _) => (Kind::Unavailable, Some("make the database first, with createdb")),
        ("42P01" | "3F000", _) => (Kind::Unavailable, Some("its schema was deleted or changed by somebody else")),
        ("25006", _) => (Kind::Unavailable, Some("the server takes no writes: name the primary server")),
        // An entry of an index has an end that a row has not.
        ("54000", _) => (Kind::Invalid, Some("a name, key or subject is longer than PostgreSQL can find again")),
        ("57014", _) => (Kind::Unavailable, Some("it took too long")),
        ("53100", _) => (Kind::Unavailable, Some("the server's disk is full")),
        ("53300", _) => (Kind::Unavailable, Some("the server has no connection left for us")),
        ("26000" | "42P05" | "55P03" | "57P01" | "57P02" | "57P03", _)
        | (_, "08" | "25" | "28" | "40" | "53" | "58") => (Kind::Unavailable, None),
        ("XX001" | "XX002", _) => (Kind::Damaged, Some("restore the database from a backup")),
        _ => (Kind::Internal, None),
    }
}

/// What did not come from the server is told apart by the driver's words, because it keeps its kinds to itself.
fn classify_without_code(error: &Failed) -> (Kind, Option<&'static str>) {
    if matches!(error, Failed::System(_)) {
        return (Kind::Unavailable, Some("this machine has no descriptor or thread left for it; try again"));
    }
    if error.driver().is_none() {
        return (Kind::Unavailable, Some("it is there and does not answer: was it stopped, or is it another program?"));
    }
    let io = source_of::<std::io::Error>(error);
    match error.to_string().as_str() {
        "error performing TLS handshake" if io.is_some_and(is_tls) => (
            Kind::Unavailable,
            Some("if its certificate is from an authority of your own, name that with sslrootcert=FILE in the URL"),
        ),
        "error performing TLS handshake" => (
            Kind::Unavailable,
            Some("a server on another machine must offer TLS; sslmode=disable in the URL does without"),
        ),
        "authentication error" | "invalid configuration" => {
            (Kind::Unavailable, Some("is the user in the URL the right one, and its password?"))
        }
        words if words.starts_with("error deserializing") => (Kind::Damaged, None),
        _ if is_restarting(error) => (
            Kind::Unavailable,
            Some("is the server running, and are host and port right? store.wait says how long to wait for it"),
        ),
        _ if io.is_some() || error.is_closed() => (Kind::Unavailable, None),
        _ => (Kind::Internal, None),
    }
}

/// Returns what the server or the system said.
fn words(error: &Failed) -> String {
    if let Some(error) = error.as_db_error() {
        return match error.detail() {
            Some(detail) => format!("{} ({detail})", error.message()),
            None => error.message().to_owned(),
        };
    }
    match error.driver().and_then(std::error::Error::source) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn is_tls(error: &std::io::Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<rustls::Error>)
}

fn source_of<E: std::error::Error + 'static>(error: &Failed) -> Option<&E> {
    error.driver()?.source()?.downcast_ref()
}
