//! The HTTP server, by default on loopback and on a Unix socket.
//!
//! A request passes the guard, which checks its host and origin, then authentication, and is then dispatched to an
//! operation of the table. Calls that block on a disk run on threads of their own.

mod admit;
mod answer;
mod caller;
mod connections;
mod events;
mod guard;
mod log_lines;
mod logs;
mod metrics;
mod openapi;
mod operation;
mod page;
mod readiness;
mod route;
mod sessions;
mod sse;
mod text;

use std::collections::HashMap;
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawPathParams, Request, State};
use axum::http::{Method, Response, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::routing::{MethodFilter, any, get, on, post};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, watch};
use waypost_core::op::FORMER_NAMES;
use waypost_core::{Error, Kind, Result};
use waypost_fs::check_threads;

use crate::calls::blocking;
use crate::mcp;
use admit::{authenticate, bearer, begin_session, logout, prove};
use connections::{Connection, Connections, TimedWrites};
use events::{EventRequest, Events, MAX_LISTENERS};
use guard::{Names, Transport};
use log_lines::LineSampler;
use metrics::Metrics;
use operation::{Address, handle};
use readiness::Readiness;
use route::{Op, ROOT};
use sessions::Sessions;
use sse::{Budget, Hangup};
use text::pairs;
use waypost::app::{self, App, Measure};
use waypost::serving::{Challenge, Ends, Grant, PROOF_PATH, Role};

/// Threads of the asynchronous runtime.
const WORKER_THREADS: usize = 2;
/// Maximum concurrent blocking calls; further ones queue. Enough for a full batch of writes and the reads beside it.
const MAX_BLOCKING_THREADS: usize = 96;
/// How long a client may take to send the head of a request, and to send its body.
const READ_TIMEOUT: Duration = Duration::from_secs(15);
/// Time until the next attempt to accept a connection, after the process ran out of file descriptors.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum size of a login.
const MAX_LOGIN_BYTES: usize = 4_096;
/// How long pending requests may take to complete at shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum buffered part of a response per connection, and maximum size of the head of a request.
const CONNECTION_BUFFER_BYTES: usize = 64 * 1024;
/// Send buffer of the kernel per connection. The default grows to several megabytes.
const SEND_BUFFER_BYTES: usize = 128 * 1024;

/// A socket that the server accepts connections on.
pub enum Listener {
    /// A TCP port.
    Tcp(TcpListener),
    /// A Unix socket. Only processes of the same user may connect, and they have the rights of the owner.
    Unix(UnixListener),
    /// A Unix socket for the processes of a job. Only processes of the same user may connect, and they need a token.
    Job(UnixListener),
}

/// Looks a token up. An error means that the token cannot be checked now; an unknown token is `None`.
pub type Lookup = Box<dyn Fn(&str) -> Result<Option<Grant>> + Send + Sync>;

/// Returns the proof that the server knows the token that a challenge is about. `None` if it does not know it.
pub type Prove = Box<dyn Fn(&Challenge) -> Result<Option<String>> + Send + Sync>;

/// The configuration of the server.
pub struct Config {
    /// The sockets to accept connections on.
    pub listeners: Vec<Listener>,
    /// Host names of the server, in addition to those of loopback.
    pub allowed_hosts: Vec<String>,
    /// Looks tokens up. Called on threads that must not block.
    pub lookup: Lookup,
    /// Looks up tokens that `lookup` does not know, in the store. May block.
    pub lookup_in_store: Lookup,
    /// Returns the proof that the server knows the token that a challenge is about. May block.
    pub answer: Prove,
    /// Returns the hash of the owner's token. Sessions of browsers end when it changes.
    pub owner_hash: Box<dyn Fn() -> Option<String> + Send + Sync>,
    /// The author of writes whose request names none: the owner of the server.
    pub actor: String,
    /// The user whose processes may use the socket.
    pub uid: u32,
    /// The single-use code that logs a browser in.
    pub code: Option<String>,
    /// Writes a log line, a JSON object.
    pub log: Box<dyn Fn(String) + Send + Sync>,
    /// The server stops when the other end of this pair is closed. None: on SIGTERM and SIGINT.
    pub stop: Option<UnixStream>,
}

/// The state that all requests share.
struct Shared {
    app: Arc<App>,
    ops: Vec<Op>,
    names: Names,
    lookup: Lookup,
    lookup_in_store: Lookup,
    answer: Prove,
    owner_hash: Box<dyn Fn() -> Option<String> + Send + Sync>,
    actor: String,
    log: Box<dyn Fn(String) + Send + Sync>,
    events: Events,
    /// The bytes queued for listeners.
    budget: Arc<Budget>,
    readiness: Readiness,
    connections: Arc<Connections>,
    /// Limits the log lines about requests without a token.
    anonymous_lines: LineSampler,
    /// When the tokens of listeners were last found valid.
    checked_tokens: Mutex<HashMap<String, Instant>>,
    /// The free slots for listeners of logs.
    log_listeners: Arc<Semaphore>,
    metrics: Metrics,
    stop: watch::Sender<bool>,
    /// The number of pending requests of each token.
    busy: Mutex<HashMap<String, usize>>,
    /// When requests with an invalid token arrived.
    invalid_tokens: Mutex<Vec<Instant>>,
    sessions: Sessions,
    in_flight: AtomicUsize,
    /// The OpenAPI document, built on the first request.
    document: OnceLock<String>,
}

impl Shared {
    /// Logs an object with texts and numbers, which can always be encoded.
    fn log(&self, line: &impl Serialize) {
        if let Ok(line) = serde_json::to_string(line) {
            (self.log)(line);
        }
    }
}

/// Serves until it has to stop, then completes pending requests.
pub fn serve(app: Arc<App>, config: Config) -> Result<()> {
    let cannot = |error| Error::unavailable("cannot start the server").because(error);
    // The runtime panics if it cannot start a thread. Beside its workers it needs one for blocking calls.
    check_threads(WORKER_THREADS + 1).map_err(cannot)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKER_THREADS)
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .thread_keep_alive(Duration::from_secs(5))
        .enable_all()
        .build()
        .map_err(cannot)?;
    let served = runtime.block_on(run(app, config));
    // No client waits for calls that still block on a disk.
    runtime.shutdown_timeout(Duration::from_secs(1));
    served
}

/// Returns the OpenAPI document.
pub fn openapi() -> Value {
    openapi::document(&ops())
}

fn ops() -> Vec<Op> {
    app::operations().map(Op::new).collect()
}

async fn run(app: Arc<App>, config: Config) -> Result<()> {
    let cannot = |error: std::io::Error| Error::unavailable("cannot listen").because(error);
    let port = config.listeners.iter().find_map(|listener| match listener {
        Listener::Tcp(listener) => listener.local_addr().ok().map(|address| address.port()),
        Listener::Unix(_) | Listener::Job(_) => None,
    });
    let shared = Arc::new(Shared {
        ops: ops(),
        app,
        names: Names::new(port, &config.allowed_hosts),
        lookup: config.lookup,
        lookup_in_store: config.lookup_in_store,
        answer: config.answer,
        owner_hash: config.owner_hash,
        actor: config.actor,
        log: config.log,
        events: Events::new(),
        budget: Arc::default(),
        readiness: Readiness::default(),
        connections: Arc::new(Connections::new()),
        anonymous_lines: LineSampler::default(),
        checked_tokens: Mutex::default(),
        log_listeners: Arc::new(Semaphore::new(logs::MAX_LISTENERS)),
        metrics: Metrics::default(),
        stop: watch::channel(false).0,
        busy: Mutex::default(),
        invalid_tokens: Mutex::default(),
        sessions: Sessions::new(config.code.as_deref(), Instant::now()),
        in_flight: AtomicUsize::new(0),
        document: OnceLock::new(),
    });
    let router = router(&shared);
    tokio::spawn(events::follow(Arc::clone(&shared)));
    for listener in config.listeners {
        let (router, shared) = (router.clone(), Arc::clone(&shared));
        match listener {
            Listener::Tcp(listener) => {
                listener.set_nonblocking(true).map_err(cannot)?;
                // Connections inherit it. If the kernel refuses, connections only cost more memory.
                let _ = rustix::net::sockopt::set_socket_send_buffer_size(&listener, SEND_BUFFER_BYTES);
                let listener = tokio::net::TcpListener::from_std(listener).map_err(cannot)?;
                tokio::spawn(accept_tcp(listener, router, shared));
            }
            Listener::Unix(listener) => {
                let listener = unix_listener(listener).map_err(cannot)?;
                tokio::spawn(accept_unix(listener, Transport::Socket, config.uid, router, shared));
            }
            Listener::Job(listener) => {
                let listener = unix_listener(listener).map_err(cannot)?;
                tokio::spawn(accept_unix(listener, Transport::JobSocket, config.uid, router, shared));
            }
        }
    }
    match config.stop {
        Some(stop) => closed(stop).await,
        None => shutdown_requested().await,
    }
    .map_err(cannot)?;
    shared.log(&json!({ "level": "info", "event": "draining", "in_flight": shared.in_flight.load(Ordering::Relaxed) }));
    shared.stop.send_replace(true);
    let drained = tokio::time::timeout(DRAIN_TIMEOUT, shared.connections.drained()).await;
    shared.log(&json!({ "level": "info", "event": "ended", "drained": drained.is_ok() }));
    Ok(())
}

fn unix_listener(listener: UnixListener) -> std::io::Result<tokio::net::UnixListener> {
    listener.set_nonblocking(true)?;
    tokio::net::UnixListener::from_std(listener)
}

/// Waits until the other end of a pair is closed.
async fn closed(stop: UnixStream) -> std::io::Result<()> {
    stop.set_nonblocking(true)?;
    tokio::net::UnixStream::from_std(stop)?.readable().await
}

/// Waits for SIGTERM or SIGINT.
async fn shutdown_requested() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
    Ok(())
}

async fn accept_tcp(listener: tokio::net::TcpListener, router: Router, shared: Arc<Shared>) {
    let mut stop = shared.stop.subscribe();
    loop {
        let accepted =
            tokio::select! { accepted = listener.accept() => accepted, _ = stop.wait_for(|stop| *stop) => return };
        match accepted {
            Ok((stream, peer)) => {
                let Some(connection) = shared.connections.admit(peer.ip().to_canonical()) else { continue };
                let Ok(own) = stream.local_addr() else { continue };
                let _ = stream.set_nodelay(true);
                let from = (Transport::Network, Some(connection), Ends::new(peer, own));
                tokio::spawn(serve_connection(stream, from, router.clone(), Arc::clone(&shared)));
            }
            // Out of file descriptors: retry after open connections have ended.
            Err(_) => tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await,
        }
    }
}

async fn accept_unix(
    listener: tokio::net::UnixListener,
    transport: Transport,
    uid: u32,
    router: Router,
    shared: Arc<Shared>,
) {
    let mut stop = shared.stop.subscribe();
    let permits = shared.connections.socket();
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let accepted =
            tokio::select! { accepted = listener.accept() => accepted, _ = stop.wait_for(|stop| *stop) => return };
        match accepted {
            Ok((stream, _)) => {
                // The socket is private already; this also holds if its permissions were changed.
                if !stream.peer_cred().is_ok_and(|peer| peer.uid() == uid) {
                    shared.log(&json!({ "level": "warn", "event": "foreign_user" }));
                    continue;
                }
                let peer = stream.peer_cred().ok().and_then(|peer| u32::try_from(peer.pid()?).ok());
                let is_of_job = peer.is_some_and(waypost::work::jobs::is_of_job);
                let from = (if is_of_job { Transport::JobSocket } else { transport }, None, Ends::of_socket());
                let served = serve_connection(stream, from, router.clone(), Arc::clone(&shared));
                tokio::spawn(async move {
                    served.await;
                    drop(permit);
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await,
        }
    }
}

/// Serves one connection, until the client disconnects or the server shuts down. Connections of the Unix socket are not
/// counted among those over TCP.
async fn serve_connection<S>(
    stream: S,
    (transport, tcp, ends): (Transport, Option<Connection>, Ends),
    router: Router,
    shared: Arc<Shared>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut stop = shared.stop.subscribe();
    let hangup = Hangup::default();
    let (request_hangup, request_tcp) = (hangup.clone(), tcp.clone());
    let service = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let mut router = router.clone();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(transport);
        request.extensions_mut().insert(request_hangup.clone());
        request.extensions_mut().insert(ends);
        if let Some(connection) = &request_tcp {
            request.extensions_mut().insert(connection.clone());
        }
        async move { tower_service::Service::call(&mut router, request).await }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(READ_TIMEOUT)
        .max_headers(64)
        .max_buf_size(CONNECTION_BUFFER_BYTES)
        // A client may close its sending side after the request; it still reads the response.
        .half_close(true)
        .serve_connection(TokioIo::new(TimedWrites::new(stream, tcp.clone())), service);
    let mut connection = pin!(connection);
    let evicted = async {
        match &tcp {
            Some(tcp) => tcp.evicted().await,
            None => std::future::pending().await,
        }
    };
    let mut evicted = pin!(evicted);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = hangup.requested() => return shared.log(&json!({ "level": "warn", "event": "listener_cut_off" })),
        () = evicted.as_mut() => return,
        _ = stop.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! { _ = connection => {}, () = hangup.requested() => {}, () = evicted => {} }
}

/// Builds the routes. An unknown path answers 404, after authentication.
fn router(shared: &Arc<Shared>) -> Router {
    let mut router = Router::new()
        .route("/", get(page::index))
        .route(&format!("{}{{*path}}", page::ASSETS), get(page::asset))
        .route("/healthz", get(|| async { answer::text("text/plain", "ok\n") }))
        .route("/readyz", get(ready))
        .route("/whoami", get(whoami))
        .route("/metrics", get(metrics_page))
        .route("/openapi.json", get(openapi_document))
        .route("/login", post(login))
        .route("/logout", post(logout))
        .route(PROOF_PATH, get(prove))
        .route(&format!("{ROOT}/events/stream"), get(stream_events))
        .route(&format!("{ROOT}/jobs/{{job}}/log/stream"), get(logs::stream))
        .route(&format!("{ROOT}/wait"), get(wait));
    for (number, op) in shared.ops.iter().enumerate() {
        let by_name = move |State(shared): State<Arc<Shared>>, request: Request| async move {
            handle(&shared, number, Address::Name, Vec::new(), request).await
        };
        router = router.route(&format!("{ROOT}/op/{}", op.about.name), post(by_name));
        if !op.is_public() {
            continue;
        }
        let by_path = move |address| {
            move |State(shared): State<Arc<Shared>>, keys: RawPathParams, request: Request| async move {
                let keys = keys.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
                handle(&shared, number, address, keys, request).await
            }
        };
        for path in std::iter::once(&op.rest.path).chain(&op.rest.named_path) {
            router = router.route(path, on(filter(&op.rest.method), by_path(Address::Rest)));
        }
        if let Some((method, paths)) = &op.rest.former {
            for path in paths {
                router = router.route(path, on(filter(method), by_path(Address::Former)));
            }
        }
    }
    for (former, current) in FORMER_NAMES {
        let number = shared.ops.iter().position(|op| op.about.name == *current);
        let by_name = move |State(shared): State<Arc<Shared>>, request: Request| async move {
            match number {
                Some(number) => handle(&shared, number, Address::FormerName, Vec::new(), request).await,
                None => answer::error(&app::unknown_operation(current)),
            }
        };
        router = router.route(&format!("{ROOT}/op/{former}"), post(by_name));
    }
    router
        .route(&format!("{ROOT}/op/{{operation}}"), any(unknown_operation))
        .merge(mcp_router(shared))
        .fallback(|| async { answer::refusal(404, Kind::NotFound, "no such path", &["/openapi.json lists all paths"]) })
        .method_not_allowed_fallback(|| async { answer::refusal(405, Kind::Invalid, "method not allowed", &[]) })
        .layer(from_fn_with_state(Arc::clone(shared), authenticate))
        .with_state(Arc::clone(shared))
}

/// Returns the filter for a method of [`route`].
fn filter(method: &Method) -> MethodFilter {
    match *method {
        Method::GET => MethodFilter::GET,
        Method::PATCH => MethodFilter::PATCH,
        Method::DELETE => MethodFilter::DELETE,
        _ => MethodFilter::POST,
    }
}

/// Answers 404 with the nearest name of an operation.
async fn unknown_operation(Path(operation): Path<String>) -> Response<Body> {
    answer::error(&app::unknown_operation(&operation))
}

/// Builds the MCP endpoint. Every call of a tool is authorized as a request of its own.
fn mcp_router(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    let service = mcp::http_service(Arc::clone(&shared.app), shared.names.allowed());
    let identified = from_fn_with_state(Arc::clone(shared), identify_mcp_caller);
    Router::new().route_service("/mcp", service).layer(identified)
}

/// Attaches the caller and its permissions to a request for the MCP endpoint.
async fn identify_mcp_caller(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response<Body> {
    let Some(grant) = request.extensions().get::<Grant>().cloned() else {
        return answer::error(&Error::internal("the request has no grant"));
    };
    let who = match caller::identify(&shared, &grant, request.headers()) {
        Ok(who) => who,
        Err(error) => return answer::error(&error),
    };
    let is_fixed = grant.role != Role::Admin || grant.agent.is_some();
    request.extensions_mut().insert(mcp::McpCaller { who, is_fixed, grant });
    // The SDK waits for a body without a timeout.
    let (parts, body) = request.into_parts();
    match operation::read_bytes(body, operation::MAX_BODY_BYTES, READ_TIMEOUT).await {
        Ok(bytes) => match mcp::refusal(&bytes).filter(|_| parts.method == Method::POST) {
            None => next.run(Request::from_parts(parts, Body::from(bytes))).await,
            Some(refusal) => {
                let mut response = answer::text("application/json", refusal.to_string());
                // A client finds the answer to its request by the id.
                if refusal["id"].is_null() {
                    *response.status_mut() = StatusCode::BAD_REQUEST;
                }
                response
            }
        },
        Err(failure) => failure.into_response(),
    }
}

/// Logs a browser in.
async fn login(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let token = bearer(request.headers()).map(str::to_owned);
    match operation::read_bytes(request.into_body(), MAX_LOGIN_BYTES, READ_TIMEOUT).await {
        Ok(body) => begin_session(&shared, token, &body),
        Err(failure) => failure.into_response(),
    }
}

async fn ready(State(shared): State<Arc<Shared>>) -> Response<Body> {
    let found = if *shared.stop.borrow() {
        Err("the server is shutting down".to_owned())
    } else {
        shared.readiness.check(&shared.app).await
    };
    let Err(reason) = found else { return answer::text("text/plain", "ready\n") };
    let mut response = answer::text("text/plain", format!("not ready: {reason}\n"));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
}

async fn metrics_page(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    if let Err(error) = require_observer(&request) {
        return answer::error(&error);
    }
    let app = Arc::clone(&shared.app);
    let mut measures = blocking(move || Ok(app.measures())).await.unwrap_or_default();
    let is_ready = shared.readiness.check(&shared.app).await.is_ok();
    let gauge =
        |name, help, value: f64| Measure { name, help, is_counter: false, values: vec![(String::new(), value)] };
    let lag = events::lag(&shared).await.unwrap_or_default();
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    measures.extend([
        shared.events.by_kind(),
        // While it is 0, measures that come from the store are missing.
        gauge("store_ready", "Whether the store can be read and written: 1 or 0.", f64::from(u8::from(is_ready))),
        gauge("events_last", "Sequence of the newest published event.", shared.events.last() as f64),
        gauge("events_lag", "Events that are not published yet.", lag as f64),
        gauge("event_listeners", "Clients that listen to events.", shared.events.listeners() as f64),
        gauge(
            "log_listeners",
            "Clients that follow the log of a job.",
            (logs::MAX_LISTENERS - shared.log_listeners.available_permits()) as f64,
        ),
        Measure {
            name: "connections_evicted_total",
            help: "Connections without a token that were closed because there were too many.",
            is_counter: true,
            values: vec![(String::new(), shared.connections.evicted() as f64)],
        },
        gauge("requests_in_flight", "Pending requests.", shared.in_flight.load(Ordering::Relaxed) as f64),
    ]);
    answer::text("text/plain; version=0.0.4", shared.metrics.render(&measures))
}

/// Tells a client what its token is for, so that a page offers no actions that the server would refuse.
async fn whoami(request: Request) -> Response<Body> {
    match request.extensions().get::<Grant>() {
        Some(grant) => answer::value(json!({ "role": grant.role.as_str(), "agent": grant.agent })),
        None => answer::error(&Error::internal("the request has no grant")),
    }
}

async fn openapi_document(State(shared): State<Arc<Shared>>) -> Response<Body> {
    let document = shared.document.get_or_init(|| openapi::document(&shared.ops).to_string());
    answer::text("application/json", document.clone())
}

/// Refuses tokens of jobs, which may not observe the whole store.
fn require_observer(request: &Request) -> Result<Grant> {
    match request.extensions().get::<Grant>() {
        Some(grant) if grant.role != Role::Job => Ok(grant.clone()),
        Some(_) => Err(Error::refused("not allowed with the token of a job")),
        None => Err(Error::internal("the request has no grant")),
    }
}

async fn stream_events(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let parsed = event_request(&shared, &request);
    start_event_stream(&shared, parsed).await
}

fn event_request(shared: &Arc<Shared>, request: &Request) -> Result<EventRequest> {
    if shared.events.listeners() >= MAX_LISTENERS {
        return Err(Error::unavailable("too many listeners"));
    }
    let client = sse::client(request)?;
    let is_owner = request.extensions().get::<Grant>().is_some_and(|grant| grant.role == Role::Admin);
    let mut parsed =
        EventRequest { client, is_owner, since: None, kinds: Vec::new(), subject: None, worktree_id: None };
    for (name, value) in pairs(request.uri().query().unwrap_or_default()) {
        match name.as_str() {
            "since" => parsed.since = Some(number(&name, &value)?),
            "kind" => parsed.kinds.extend(value.split(',').map(str::to_owned)),
            "subject" => parsed.subject = Some(value),
            "worktree_id" => parsed.worktree_id = Some(value),
            _ => return Err(Error::invalid(format!("unknown parameter {name:?}"))),
        }
    }
    parsed.since = sse::last_id(request)?.or(parsed.since);
    Ok(parsed)
}

async fn start_event_stream(shared: &Arc<Shared>, parsed: Result<EventRequest>) -> Response<Body> {
    match parsed {
        Ok(parsed) => events::stream(shared, parsed).await,
        Err(error) => answer::error(&error),
    }
}

async fn wait(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let parse = move || -> Result<(u64, u64)> {
        let (mut since, mut millis) = (0, 10_000);
        for (name, value) in pairs(request.uri().query().unwrap_or_default()) {
            match name.as_str() {
                "since" => since = number(&name, &value)?,
                "ms" => millis = number(&name, &value)?.min(60_000),
                _ => return Err(Error::invalid(format!("unknown parameter {name:?}"))),
            }
        }
        Ok((since, millis))
    };
    match parse() {
        Ok((since, millis)) => {
            let mut stop = shared.stop.subscribe();
            tokio::select! {
                () = shared.events.wait(since, Duration::from_millis(millis)) => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
            answer::value(json!({ "last": shared.events.last() }))
        }
        Err(error) => answer::error(&error),
    }
}

fn number(name: &str, text: &str) -> Result<u64> {
    text.parse()
        .ok()
        .filter(|number| i64::try_from(*number).is_ok())
        .ok_or_else(|| Error::invalid(format!("{name} must be a whole number, not {text:?}")))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
