//! Translation of PostgreSQL's errors into errors with hints for the user.
//!
//! The driver's own message is kept; it never contains a password.

use std::error::Error as _;
use std::time::Duration;

use tokio_postgres::error::SqlState;
use waypost_core::{Error, Kind};

use super::address::Address;
use super::begun::{Begun, Effect};
use super::client::Failed;

/// Translates an error of the driver: `what` failed for the store.
pub(super) fn at(address: &Address, what: &str, error: &Failed) -> Error {
    let (kind, hint) = classify(error);
    let mut translated = Error::new(kind, format!("{what} the store {}", address.shown())).because(message(error));
    if let Some(hint) = hint {
        translated = translated.hint(hint);
    }
    if is_loss(error) || is_contention(error) { translated.transient() } else { translated }
}

/// Returns the error for a transaction that did not begin.
pub(super) fn begin(
    address: &Address,
    error: &Failed,
    effect: Effect,
    timeout: Duration,
    holder: Option<String>,
) -> Error {
    if !is_lock_timeout(error) {
        return at(address, if effect == Effect::Read { "cannot read" } else { "cannot write" }, error);
    }
    let waited = format!("timed out after waiting {timeout:?} for the lock of the store {}", address.shown());
    let error = Error::unavailable(waited).transient();
    match holder {
        Some(holder) => error.because(holder),
        None => error.hint("other processes are writing; try again, or set a longer store.wait"),
    }
}

/// Returns the error for a server that took over from the one that the store knows.
pub(super) fn failover(address: &Address, begun: &Begun) -> Error {
    let name = |server: &Option<String>| server.clone().unwrap_or_else(|| "unknown".to_owned());
    Error::unavailable(format!(
        "the store {} is on another server than before: it was on {} and is now on {} (system identifier/timeline). \
        After a failover to an asynchronous standby, or a restore, acknowledged writes may be missing",
        address.shown(),
        name(&begun.known_server),
        name(&begun.server)
    ))
    .hint("if the former server is stopped for good and this one is meant to take over: way db accept-failover")
}

/// Returns the error for a failed commit. If the connection was lost, the outcome is unknown.
pub(super) fn commit(address: &Address, error: &Failed) -> Error {
    let translated = at(address, "cannot write", error);
    if is_loss(error) { translated.outcome_unknown() } else { translated }
}

/// Returns whether the connection was lost or could not be opened.
pub(super) fn is_loss(error: &Failed) -> bool {
    match error.code() {
        Some(code) => {
            code.code().starts_with("08")
                || [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT]
                    .contains(code)
                || is_unready(error)
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
    let unreachable = [BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, NotFound, UnexpectedEof];
    is_unready(error)
        || error.is_closed()
        || error.code().is_some_and(|code| [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN].contains(code))
        || source_of::<std::io::Error>(error).is_some_and(|io| unreachable.contains(&io.kind()))
}

/// Returns whether nothing listens at the address.
pub(super) fn is_refused(error: &Failed) -> bool {
    source_of::<std::io::Error>(error).is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused)
}

/// Returns whether the server runs, but does not accept this connection yet.
fn is_unready(error: &Failed) -> bool {
    error.code().is_some_and(|code| [SqlState::CANNOT_CONNECT_NOW, SqlState::TOO_MANY_CONNECTIONS].contains(code))
}

pub(super) fn is_lock_timeout(error: &Failed) -> bool {
    error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

/// Returns whether a retry can help: another transaction conflicts, or a pooled connection lost its prepared statements.
fn is_contention(error: &Failed) -> bool {
    let is_conflict = error.code().is_some_and(|code| {
        [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED, SqlState::LOCK_NOT_AVAILABLE]
            .contains(code)
    });
    is_conflict || is_statement_conflict(error)
}

/// Returns whether a prepared statement is missing, or its name is already used.
pub(super) fn is_statement_conflict(error: &Failed) -> bool {
    error
        .code()
        .is_some_and(|code| [SqlState::INVALID_SQL_STATEMENT_NAME, SqlState::DUPLICATE_PSTATEMENT].contains(code))
}

fn classify(error: &Failed) -> (Kind, Option<&'static str>) {
    let Some(code) = error.code() else { return classify_without_code(error) };
    match (code.code(), code.code().get(..2).unwrap_or_default()) {
        ("42501", _) => (Kind::Unavailable, Some("the role in the URL lacks the privileges for it")),
        ("3D000", _) => (Kind::Unavailable, Some("create the database first, with createdb")),
        ("42P01" | "3F000", _) => (Kind::Unavailable, Some("another program deleted or changed its schema")),
        ("25006", _) => (Kind::Unavailable, Some("the server is read-only: name the primary server")),
        // The size of an index entry is limited, unlike the size of a row.
        ("54000", _) => (Kind::Invalid, Some("a name, key or subject is too long for a PostgreSQL index")),
        ("57014", _) => (Kind::Unavailable, Some("it took too long")),
        ("53100", _) => (Kind::Unavailable, Some("the server's disk is full")),
        ("53300", _) => (Kind::Unavailable, Some("the server has no free connection")),
        ("26000" | "42P05" | "55P03" | "57P01" | "57P02" | "57P03", _)
        | (_, "08" | "25" | "28" | "40" | "53" | "58") => (Kind::Unavailable, None),
        ("XX001" | "XX002", _) => (Kind::Damaged, Some("restore the database from a backup")),
        _ => (Kind::Internal, None),
    }
}

/// Classifies errors that did not come from the server by the driver's message, because its error kinds are private.
fn classify_without_code(error: &Failed) -> (Kind, Option<&'static str>) {
    if matches!(error, Failed::System(_)) {
        return (Kind::Unavailable, Some("this machine has no free file descriptor or thread; try again"));
    }
    if error.driver().is_none() {
        return (
            Kind::Unavailable,
            Some("it accepts connections and does not answer: is it suspended, or another program?"),
        );
    }
    let io = source_of::<std::io::Error>(error);
    match error.to_string().as_str() {
        "error performing TLS handshake" if io.is_some_and(is_tls) => (
            Kind::Unavailable,
            Some("if a private authority issued its certificate, name that authority with sslrootcert=FILE in the URL"),
        ),
        "error performing TLS handshake" => (
            Kind::Unavailable,
            Some("a server on another machine must offer TLS; sslmode=disable in the URL turns that off"),
        ),
        "authentication error" | "invalid configuration" => {
            (Kind::Unavailable, Some("check the user and the password in the URL"))
        }
        message if message.starts_with("error deserializing") => (Kind::Damaged, None),
        _ if is_restarting(error) => (
            Kind::Unavailable,
            Some("is the server running, and are host and port right? store.wait sets how long to wait for it"),
        ),
        _ if io.is_some() || error.is_closed() => (Kind::Unavailable, None),
        _ => (Kind::Internal, None),
    }
}

/// Returns the message of the server or of the system.
fn message(error: &Failed) -> String {
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
