//! Authentication: by bearer token or by browser session. Any program of the user can connect to a Unix socket, also one in a
//! sandbox, so connecting gives no rights.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Response, header};
use axum::middleware::Next;
use serde::Serialize;
use serde_json::{Value, json};

use super::connections::Connection;
use super::guard::Transport;
use super::log_lines::Sample;
use super::sessions::{self, Holder};
use super::text::{hash, pairs};
use super::{Shared, answer, guard, lock, page};
use crate::calls::blocking;
use waypost::serving::{Challenge, Ends, Grant, PROOF_PATH, Role};
use waypost_core::{Error, Kind, Result};

/// Maximum concurrent requests per token.
const MAX_REQUESTS_PER_TOKEN: usize = 256;
/// After this many invalid tokens within [`INVALID_TOKEN_WINDOW`] the server answers 429.
const MAX_INVALID_TOKENS: usize = 50;
const INVALID_TOKEN_WINDOW: Duration = Duration::from_secs(10);

/// Paths that need no token. Their answers reveal nothing about the store.
const PUBLIC_PATHS: &[&str] = &["/healthz", "/readyz", "/login", PROOF_PATH];

/// Middleware: authenticates the request, limits concurrency, adds the security headers, and logs the request.
pub(super) async fn authenticate(
    State(shared): State<Arc<Shared>>,
    mut request: Request,
    next: Next,
) -> Response<Body> {
    let (began, method, path) = (Instant::now(), request.method().clone(), request.uri().path().to_owned());
    shared.in_flight.fetch_add(1, Ordering::Relaxed);
    let admitted = match admit(&shared, &request) {
        Ok(Admission::CheckStore(token)) => admit_by_store(&shared, token).await,
        Ok(Admission::Public) => Ok(None),
        Ok(Admission::Granted(grant, credential)) => Ok(Some((grant, credential))),
        Err(response) => Err(response),
    };
    let (token, response) = match admitted {
        Ok(None) => (None, next.run(request).await),
        Ok(Some((grant, _))) if grant.role == Role::Admin && is_from_job(&request) => {
            let hints = ["way in a job uses the socket and the token in its environment"];
            let message = "a process of a job does not get the rights of the owner";
            (Some(grant.token), answer::refusal(403, Kind::Refused, message, &hints))
        }
        Ok(Some((grant, credential))) => {
            let token = grant.token.clone();
            let has_slot = request
                .extensions()
                .get::<Connection>()
                .is_none_or(|connection| connection.present(&token, grant.role == Role::Admin));
            let permit = has_slot.then(|| RequestPermit::acquire(&shared, &token)).flatten();
            let response = if permit.is_some() {
                request.extensions_mut().insert(grant);
                request.extensions_mut().insert(credential);
                next.run(request).await
            } else {
                let hints = ["wait for the pending requests to complete, and close connections"];
                let what = if has_slot { "requests" } else { "connections" };
                answer::refusal(429, Kind::Unavailable, &format!("too many concurrent {what} for this token"), &hints)
            };
            drop(permit);
            (Some(token), response)
        }
        Err(mut response) => {
            // A client without a token cannot keep its connection with refused requests.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            (None, *response)
        }
    };
    shared.in_flight.fetch_sub(1, Ordering::Relaxed);
    let mut response = answer::with_problem(response, &path);
    response.headers_mut().reserve(guard::HEADERS.len() + 1);
    for (name, value) in &guard::HEADERS {
        response.headers_mut().insert(name, value.clone());
    }
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if token.is_none() {
        match shared.anonymous_lines.next(Instant::now()) {
            Sample::LeaveOut => return response,
            Sample::Write { left_out: 0 } => {}
            Sample::Write { left_out } => {
                shared.log(&json!({ "level": "warn", "event": "requests_left_out", "count": left_out }));
            }
        }
    }
    // The query string and the headers are not logged: both may contain secrets.
    shared.log(&RequestLine {
        level: if response.status().is_server_error() { "error" } else { "info" },
        event: "request",
        method: method.as_str(),
        path: &path,
        status: response.status().as_u16(),
        us: u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX),
        token: token.as_deref(),
    });
    response
}

/// The log line of a request.
#[derive(Serialize)]
struct RequestLine<'a> {
    level: &'static str,
    event: &'static str,
    method: &'a str,
    path: &'a str,
    status: u16,
    us: u64,
    token: Option<&'a str>,
}

/// The credential that a request presented.
#[derive(Clone)]
pub(super) enum Credential {
    Token(String),
    /// The session of a browser, by the hash of its secret.
    Browser([u8; 32]),
}

impl Credential {
    /// Returns whether the credential is still valid.
    pub(super) fn is_valid(&self, shared: &Shared, now: Instant) -> bool {
        match self {
            // While the store is unreachable a token cannot be checked. It stays valid until the next check: the stream
            // sends no events meanwhile.
            Credential::Token(token) => {
                let known = (shared.lookup)(token).unwrap_or_default();
                known.is_some() || !matches!((shared.lookup_in_store)(token), Ok(None))
            }
            Credential::Browser(session) => !matches!(grant_of_session(shared, session, now), Ok(None)),
        }
    }
}

/// One of the concurrent requests that a token may have.
struct RequestPermit<'a> {
    shared: &'a Shared,
    token: &'a str,
}

impl<'a> RequestPermit<'a> {
    fn acquire(shared: &'a Shared, token: &'a str) -> Option<RequestPermit<'a>> {
        let mut busy = lock(&shared.busy);
        let count = busy.entry(token.to_owned()).or_default();
        if *count >= MAX_REQUESTS_PER_TOKEN {
            return None;
        }
        *count += 1;
        Some(RequestPermit { shared, token })
    }
}

impl Drop for RequestPermit<'_> {
    fn drop(&mut self) {
        let mut busy = lock(&self.shared.busy);
        if let Some(count) = busy.get_mut(self.token) {
            *count -= 1;
            if *count == 0 {
                busy.remove(self.token);
            }
        }
    }
}

/// The outcome of checks that need no access to the store.
enum Admission {
    /// The path needs no token.
    Public,
    Granted(Grant, Credential),
    /// The token is in no file; the store may know it.
    CheckStore(String),
}

/// Looks the token up in the store, on a thread that may block.
async fn admit_by_store(
    shared: &Arc<Shared>,
    token: String,
) -> Result<Option<(Grant, Credential)>, Box<Response<Body>>> {
    let (state, secret) = (Arc::clone(shared), token.clone());
    match blocking(move || (state.lookup_in_store)(&secret)).await {
        Ok(Some(grant)) => Ok(Some((grant, Credential::Token(token)))),
        Ok(None) => Err(Box::new(reject_token(shared))),
        Err(error) => Err(Box::new(answer::error(&error))),
    }
}

fn is_from_job(request: &Request) -> bool {
    request.extensions().get::<Transport>() == Some(&Transport::JobSocket)
}

/// Authenticates a request, by nothing but its token or its browser session.
fn admit(shared: &Shared, request: &Request) -> Result<Admission, Box<Response<Body>>> {
    let transport = request.extensions().get::<Transport>().copied().unwrap_or(Transport::Network);
    let headers = request.headers();
    if let Err((status, message)) = guard::check(&shared.names, transport, request.method(), request.uri(), headers) {
        let kind = if status == 415 { Kind::Invalid } else { Kind::Refused };
        return Err(Box::new(answer::refusal(status, kind, message, &[])));
    }
    let path = request.uri().path();
    if PUBLIC_PATHS.contains(&path) || page::is_page(path) {
        return Ok(Admission::Public);
    }
    if let Some(secret) = bearer(headers).filter(|secret| secret.starts_with(sessions::PREFIX)) {
        let session = hash(secret);
        return match grant_of_session(shared, &session, Instant::now()) {
            Ok(Some(grant)) => Ok(Admission::Granted(grant, Credential::Browser(session))),
            Ok(None) => Err(Box::new(reject_token(shared))),
            Err(error) => Err(Box::new(answer::error(&error))),
        };
    }
    if let Some(token) = bearer(headers) {
        return match (shared.lookup)(token) {
            Ok(Some(grant)) => Ok(Admission::Granted(grant, Credential::Token(token.to_owned()))),
            Ok(None) => Ok(Admission::CheckStore(token.to_owned())),
            Err(error) => Err(Box::new(answer::error(&error))),
        };
    }
    let mut response = answer::refusal(
        401,
        Kind::Refused,
        "authentication required",
        &["send Authorization: Bearer TOKEN; way serve prints the path of the token file"],
    );
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    Err(Box::new(response))
}

/// Returns the bearer token of a request.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ").map(str::trim)
}

/// Answers a request whose token is unknown.
fn reject_token(shared: &Shared) -> Response<Body> {
    let now = Instant::now();
    let mut invalid = lock(&shared.invalid_tokens);
    invalid.retain(|moment| now.duration_since(*moment) < INVALID_TOKEN_WINDOW);
    if invalid.len() >= MAX_INVALID_TOKENS {
        return answer::refusal(429, Kind::Refused, "too many invalid tokens", &["wait 10 seconds"]);
    }
    invalid.push(now);
    let mut response =
        answer::refusal(401, Kind::Refused, "the token is invalid, revoked or expired", &["way token list"]);
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

/// Returns the rights of the session of a browser. None if it has ended, or the token with which it began.
fn grant_of_session(shared: &Shared, session: &[u8; 32], now: Instant) -> Result<Option<Grant>> {
    match shared.sessions.holder(session, now) {
        Some(Holder::Owner(hash)) => Ok(((shared.owner_hash)() == Some(hash)).then(|| Grant::owner("browser"))),
        Some(Holder::Token(token)) => (shared.lookup)(&token),
        None => Ok(None),
    }
}

/// Exchanges a single-use code in the body, or the token of the request, for the secret of a session.
pub(super) fn begin_session(shared: &Shared, token: Option<String>, body: &[u8]) -> Response<Body> {
    let now = Instant::now();
    let code = serde_json::from_slice::<Value>(body).ok();
    let code = code.as_ref().and_then(|body| body.get("code")).and_then(Value::as_str);
    let holder = match (code, token) {
        (Some(code), _) if shared.sessions.use_code(code, now) => match (shared.owner_hash)() {
            Some(hash) => Holder::Owner(hash),
            None => return answer::error(&Error::unavailable("the owner's token cannot be read")),
        },
        (None, Some(token)) => match (shared.lookup)(&token) {
            Ok(Some(_)) => Holder::Token(token),
            Ok(None) => return reject_token(shared),
            Err(error) => return answer::error(&error),
        },
        _ => return reject_token(shared),
    };
    match shared.sessions.begin(holder, now) {
        Ok(secret) => answer::value(json!({ "session": secret })),
        Err(error) => answer::error(&error),
    }
}

/// Ends the session of a browser.
pub(super) async fn logout(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    if let Some(Credential::Browser(session)) = request.extensions().get::<Credential>() {
        shared.sessions.end(session);
    }
    answer::value(json!({}))
}

/// Proves that this server knows the token that a client is about to send. It reveals nothing to a client that does not
/// have the token.
pub(super) async fn prove(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let query = pairs(request.uri().query().unwrap_or_default());
    let parameter = |name: &str| query.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str());
    let Some(ends) = request.extensions().get::<Ends>() else {
        return answer::error(&Error::internal("the addresses of the connection are unknown"));
    };
    let challenge = match Challenge::read(*ends, parameter("nonce"), parameter("key")) {
        Ok(challenge) => challenge,
        Err(error) => return answer::error(&error),
    };
    let state = Arc::clone(&shared);
    match blocking(move || (state.answer)(&challenge)).await {
        Ok(Some(proof)) => answer::value(json!({ "proof": proof })),
        Ok(None) => reject_token(&shared),
        Err(error) => answer::error(&error),
    }
}
