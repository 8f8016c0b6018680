//! Who is let in: whoever shows a token, has logged a browser in, or comes over the socket.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use axum::middleware::Next;
use serde_json::json;
use waypost_core::Error;

use super::guard::Transport;
use super::text::{hash, hex, pairs};
use super::{Shared, answer, blocking, guard, lock};
use waypost::access::Grant;

/// How many requests of one token are worked on at once.
const OF_ONE_TOKEN: usize = 256;
/// How many wrong tokens are looked at within [`WRONG_WITHIN`] before they are not even answered as such.
const WRONG: usize = 50;
const WRONG_WITHIN: Duration = Duration::from_secs(10);
/// How long a browser stays logged in.
const SESSION: Duration = Duration::from_hours(12);

/// What is answered without a token. It says nothing that is worth knowing.
const OPEN: &[&str] = &["/healthz", "/readyz", "/login"];

/// Lets a request in, or does not; and says what every answer says.
pub(super) async fn pass(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response<Body> {
    let (began, method, path) = (Instant::now(), request.method().clone(), request.uri().path().to_owned());
    shared.in_flight.fetch_add(1, Ordering::Relaxed);
    let admitted = match admit(&shared, &request) {
        Ok(Admitted::IfStoreKnows(token)) => admit_by_store(&shared, token).await,
        Ok(Admitted::Open) => Ok(None),
        Ok(Admitted::As(grant, shown)) => Ok(Some((grant, shown))),
        Err(response) => Err(response),
    };
    let (token, mut response) = match admitted {
        Ok(None) => (None, next.run(request).await),
        Ok(Some((grant, shown))) => {
            let token = grant.token.clone();
            let turn = RequestPermit::take(&shared, &token);
            let response = if turn.is_some() {
                request.extensions_mut().insert(grant);
                request.extensions_mut().insert(shown);
                next.run(request).await
            } else {
                let hints = ["wait for the answers to what was asked before"];
                answer::refusal(429, "unavailable", "this token asks too much at once", &hints)
            };
            drop(turn);
            (Some(token), response)
        }
        Err(response) => (None, *response),
    };
    shared.in_flight.fetch_sub(1, Ordering::Relaxed);
    for (name, value) in guard::HEADERS {
        response.headers_mut().insert(*name, HeaderValue::from_static(value));
    }
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    // Neither what stands after the question mark nor any header: both may have secrets in them.
    shared.log(&json!({
        "level": if response.status().is_server_error() { "error" } else { "info" },
        "event": "request",
        "method": method.as_str(),
        "path": path,
        "status": response.status().as_u16(),
        "us": u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX),
        "token": token,
    }));
    response
}

/// What a request showed to be let in.
#[derive(Clone)]
pub(super) enum Shown {
    Token(String),
    /// The hash of a cookie.
    Browser([u8; 32]),
    Socket,
}

impl Shown {
    /// Tells whether it would still let somebody in.
    pub(super) fn is_good(&self, shared: &Shared, now: Instant) -> bool {
        match self {
            // A token that cannot be checked now is checked again: while the store is away, nothing is told.
            Shown::Token(token) => {
                let known = (shared.lookup)(token).unwrap_or_default();
                known.is_some() || !matches!((shared.lookup_in_store)(token), Ok(None))
            }
            Shown::Browser(cookie) => lock(&shared.sessions).get(cookie).is_some_and(|end| *end > now),
            Shown::Socket => true,
        }
    }
}

/// One of the requests that a token may have at once.
struct RequestPermit<'a> {
    shared: &'a Shared,
    token: &'a str,
}

impl<'a> RequestPermit<'a> {
    fn take(shared: &'a Shared, token: &'a str) -> Option<RequestPermit<'a>> {
        let mut busy = lock(&shared.busy);
        let count = busy.entry(token.to_owned()).or_default();
        if *count >= OF_ONE_TOKEN {
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

/// What a request is let in as.
enum Admitted {
    /// Its address is open to all.
    Open,
    As(Grant, Shown),
    /// It has shown a token that only the store may know.
    IfStoreKnows(String),
}

/// Asks the store for a token, on a thread that may wait for it.
async fn admit_by_store(shared: &Arc<Shared>, token: String) -> Result<Option<(Grant, Shown)>, Box<Response<Body>>> {
    let (asked, shown) = (Arc::clone(shared), token.clone());
    match blocking(move || (asked.lookup_in_store)(&shown)).await {
        Ok(Some(grant)) => Ok(Some((grant, Shown::Token(token)))),
        Ok(None) => Err(Box::new(wrong(shared))),
        Err(error) => Err(Box::new(answer::error(&error))),
    }
}

/// Finds out who asks. Nothing but a token, a logged in browser or the socket says it.
fn admit(shared: &Shared, request: &Request) -> Result<Admitted, Box<Response<Body>>> {
    let way = request.extensions().get::<Transport>().copied().unwrap_or(Transport::Network);
    let headers = request.headers();
    if let Err((status, message)) = guard::check(&shared.names, way, request.method(), request.uri(), headers) {
        let code = if status == 415 { "invalid" } else { "refused" };
        return Err(Box::new(answer::refusal(status, code, message, &[])));
    }
    if OPEN.contains(&request.uri().path()) {
        return Ok(Admitted::Open);
    }
    if let Some(token) = bearer(headers) {
        return match (shared.lookup)(token) {
            Ok(Some(grant)) => Ok(Admitted::As(grant, Shown::Token(token.to_owned()))),
            Ok(None) => Ok(Admitted::IfStoreKnows(token.to_owned())),
            Err(error) => Err(Box::new(answer::error(&error))),
        };
    }
    if way == Transport::Socket && !headers.contains_key(header::AUTHORIZATION) {
        return Ok(Admitted::As(Grant::owner("socket"), Shown::Socket));
    }
    if let Some(cookie) = cookie(shared, headers) {
        let shown = Shown::Browser(hash(&cookie));
        let is_in = shown.is_good(shared, Instant::now());
        // A form of another site sends the cookie too, but no header of its own choice.
        let is_meant = request.method() != Method::POST || headers.contains_key("waypost-page");
        return match (is_in, is_meant) {
            (true, true) => Ok(Admitted::As(Grant::owner("browser"), shown)),
            (true, false) => Err(Box::new(answer::refusal(403, "refused", "a browser says Waypost-Page too", &[]))),
            (false, _) => Err(Box::new(wrong(shared))),
        };
    }
    let mut response = answer::refusal(
        401,
        "refused",
        "a token is needed",
        &["Authorization: Bearer TOKEN; way serve says where it is kept"],
    );
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    Err(Box::new(response))
}

/// Returns the token that a request shows.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ").map(str::trim)
}

/// Answers somebody whose token is not known.
fn wrong(shared: &Shared) -> Response<Body> {
    let mut wrong = lock(&shared.wrong);
    let now = Instant::now();
    wrong.retain(|moment| now.duration_since(*moment) < WRONG_WITHIN);
    if wrong.len() >= WRONG {
        return answer::refusal(429, "refused", "too many wrong tokens", &["wait some seconds"]);
    }
    wrong.push(now);
    let mut response = answer::refusal(401, "refused", "the token is wrong, revoked or expired", &["way token list"]);
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

fn cookie_name(shared: &Shared) -> String {
    format!("waypost-{}", shared.port.unwrap_or_default())
}

fn cookie(shared: &Shared, headers: &HeaderMap) -> Option<String> {
    let name = cookie_name(shared);
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value.to_owned())
}

/// Exchanges a code, which is good once, for a cookie.
pub(super) async fn login(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let query = pairs(request.uri().query().unwrap_or_default());
    let code = query.iter().find(|(name, _)| name == "code").map(|(_, code)| hash(code));
    let end = code.and_then(|code| lock(&shared.codes).remove(&code));
    if end.is_none_or(|end| end < Instant::now()) {
        return wrong(&shared);
    }
    let mut bytes = [0; 32];
    if getrandom::fill(&mut bytes).is_err() {
        return answer::error(&Error::internal("there are no random bytes"));
    }
    let secret = hex(&bytes);
    let mut sessions = lock(&shared.sessions);
    sessions.retain(|_, end| *end > Instant::now());
    sessions.insert(hash(&secret), Instant::now() + SESSION);
    let cookie =
        format!("{}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}", cookie_name(&shared), SESSION.as_secs());
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/"));
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}
