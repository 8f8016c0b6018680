//! Authentication: by bearer token, by browser session, or by connecting over the Unix socket.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use axum::middleware::Next;
use serde::Serialize;
use serde_json::json;

use super::connections::Connection;
use super::guard::Transport;
use super::log_lines::Sample;
use super::text::{hash, pairs};
use super::{Shared, answer, guard, lock, page};
use crate::calls::blocking;
use waypost::access::{Grant, Role};
use waypost::challenge::Challenge;
use waypost::client::PROOF_PATH;
use waypost_core::Kind;

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
    /// The session, by the hash of its cookie.
    Browser([u8; 32]),
    Socket,
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
            Credential::Browser(session) => shared.sessions.is_valid(session, (shared.owner_hash)().as_deref(), now),
            Credential::Socket => true,
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

/// Authenticates a request, by nothing but its token, its browser session or the socket.
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
    if let Some(token) = bearer(headers) {
        return match (shared.lookup)(token) {
            Ok(Some(grant)) => Ok(Admission::Granted(grant, Credential::Token(token.to_owned()))),
            Ok(None) => Ok(Admission::CheckStore(token.to_owned())),
            Err(error) => Err(Box::new(answer::error(&error))),
        };
    }
    if transport == Transport::Socket && !headers.contains_key(header::AUTHORIZATION) {
        return Ok(Admission::Granted(Grant::owner("socket"), Credential::Socket));
    }
    if let Some(session) = shared.sessions.cookie(headers) {
        let credential = Credential::Browser(session);
        let is_logged_in =
            credential.is_valid(shared, Instant::now()) && shared.sessions.is_of_host(&session, host(headers));
        // A form on another site sends the cookie too, but cannot set a custom header.
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let has_page_header = is_read || headers.contains_key("waypost-page");
        return match (is_logged_in, has_page_header) {
            (true, true) => Ok(Admission::Granted(Grant::owner("browser"), credential)),
            (true, false) => Err(Box::new(answer::refusal(403, Kind::Refused, "missing header Waypost-Page", &[]))),
            (false, _) => Err(Box::new(reject_token(shared))),
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

/// Exchanges a single-use code for a session cookie.
pub(super) async fn login(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let query = pairs(request.uri().query().unwrap_or_default());
    let code = query.iter().find(|(name, _)| name == "code").map(|(_, code)| hash(code));
    let end = code.and_then(|code| lock(&shared.codes).remove(&code));
    if end.is_none_or(|end| end < Instant::now()) {
        return reject_token(&shared);
    }
    match shared.sessions.begin(host(request.headers()), (shared.owner_hash)()) {
        Ok(cookie) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::SEE_OTHER;
            response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/"));
            with_cookie(response, &cookie)
        }
        Err(error) => answer::error(&error),
    }
}

/// Ends the session of a browser.
pub(super) async fn logout(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let response = answer::value(json!({}));
    match request.extensions().get::<Credential>() {
        Some(Credential::Browser(session)) => with_cookie(response, &shared.sessions.end(session)),
        _ => response,
    }
}

/// Proves that this server knows the token that a client is about to send. It reveals nothing to a client that does not
/// have the token.
pub(super) async fn prove(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let query = pairs(request.uri().query().unwrap_or_default());
    let parameter = |name: &str| query.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str());
    let challenge = match Challenge::read(host(request.headers()), parameter("nonce"), parameter("key")) {
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

fn host(headers: &HeaderMap) -> &str {
    headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default()
}

fn with_cookie(mut response: Response<Body>, cookie: &str) -> Response<Body> {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}
