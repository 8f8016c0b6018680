//! The server: HTTP on loopback and a Unix socket, or where it is told to.
//!
//! A request passes the guard, which looks where it comes from, then shows its token, and then is an operation of the
//! table like any other. What waits for a disk does so on a thread of its own.

mod admit;
mod answer;
mod ask;
mod events;
mod guard;
mod logs;
mod metrics;
mod openapi;
mod readiness;
mod route;
mod sse;
mod text;

use std::collections::HashMap;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawPathParams, Request, State};
use axum::http::{Response, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::routing::{MethodFilter, any, get, on, post};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, watch};
use waypost_core::nearest::nearest;
use waypost_core::op::TABLE;
use waypost_core::{Error, Result};
use waypost_fs::check_threads;

use crate::mcp;
use admit::{login, pass};
use ask::{Address, operate};
use events::{EventRequest, Events, LISTENERS};
use guard::{Names, Transport};
use metrics::Metrics;
use readiness::Readiness;
use route::{Op, ROOT};
use sse::{Budget, Hangup};
use text::{hash, pairs};
use waypost::access::{Grant, Role};
use waypost::host::{Host, Measure};

/// How many connections there may be at once.
const CONNECTIONS: u32 = 1_024;
/// How many threads answer requests that wait for nothing.
const WORKERS: usize = 2;
/// How many requests wait for a disk at once; others wait for those. Enough for a transaction of many and those who read.
const BUSY: usize = 96;
/// How long a client may take to say what it wants, and to say it all.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long the code of a browser lasts.
const CODE: Duration = Duration::from_mins(5);
/// How long requests may take to end once the server was told to.
const DRAIN: Duration = Duration::from_secs(10);

/// How much of an answer waits in the memory of a connection, and how long the head of a request may be.
const CONNECTION_BUFFER_BYTES: usize = 64 * 1024;
/// How much of an answer waits in the kernel for each connection. Left alone, the kernel takes several megabytes for each.
const SEND_BUFFER_BYTES: usize = 128 * 1024;

/// Where requests come in.
pub enum Listener {
    /// A port.
    Tcp(TcpListener),
    /// A socket in the file system. Whoever connects must be the same user.
    Unix(UnixListener),
}

/// Looks a token up. An error says that it cannot be checked now, which is something else than a wrong token.
pub type Lookup = Box<dyn Fn(&str) -> Result<Option<Grant>> + Send + Sync>;

/// How to serve.
pub struct Config {
    /// Where requests come in.
    pub listeners: Vec<Listener>,
    /// Names under which the server is reached, beside those of this machine.
    pub allowed_hosts: Vec<String>,
    /// Who bears which token. It is called by threads that must not wait.
    pub lookup: Lookup,
    /// The same for tokens that the first one does not know and the store may. It may wait for the store.
    pub lookup_in_store: Lookup,
    /// Who owns the server.
    pub actor: String,
    /// The user whose processes may use the socket.
    pub uid: u32,
    /// Lets one browser in, once.
    pub code: Option<String>,
    /// Writes a line about what happens.
    pub log: Box<dyn Fn(&Value) + Send + Sync>,
}

/// What all requests share.
struct Shared {
    host: Arc<dyn Host>,
    ops: Vec<Op>,
    names: Names,
    port: Option<u16>,
    lookup: Lookup,
    lookup_in_store: Lookup,
    actor: String,
    log: Box<dyn Fn(&Value) + Send + Sync>,
    events: Events,
    /// What waits in memory for listeners.
    budget: Arc<Budget>,
    readiness: Readiness,
    /// When the tokens of listeners were last found to be good.
    checked_tokens: Mutex<HashMap<String, Instant>>,
    /// Those who may still follow a log.
    log_listeners: Arc<Semaphore>,
    metrics: Metrics,
    stop: watch::Sender<bool>,
    /// How many requests of each token are worked on.
    busy: Mutex<HashMap<String, usize>>,
    /// When wrong tokens were shown.
    wrong: Mutex<Vec<Instant>>,
    /// The codes and the sessions of browsers, as hashes, with when they end.
    codes: Mutex<HashMap<[u8; 32], Instant>>,
    sessions: Mutex<HashMap<[u8; 32], Instant>>,
    in_flight: AtomicUsize,
    /// The description of the interface, once somebody asked for it.
    document: OnceLock<String>,
}

impl Shared {
    fn log(&self, line: &Value) {
        (self.log)(line);
    }
}

/// Serves until the process is told to end, and what was begun is done.
pub fn serve(host: Arc<dyn Host>, config: Config) -> Result<()> {
    let cannot = |error| Error::unavailable("cannot start the server").because(error);
    // The runtime panics if it cannot start a thread. Besides its workers it needs one for blocking calls.
    check_threads(WORKERS + 1).map_err(cannot)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .max_blocking_threads(BUSY)
        .thread_keep_alive(Duration::from_secs(5))
        .enable_all()
        .build()
        .map_err(cannot)?;
    let served = runtime.block_on(run(host, config));
    // Whatever still waits for a disk has nobody left to tell.
    runtime.shutdown_timeout(Duration::from_secs(1));
    served
}

/// Returns the description of the interface that a host has.
pub fn openapi(host: &dyn Host) -> Value {
    openapi::document(&ops(host))
}

fn ops(host: &dyn Host) -> Vec<Op> {
    let beside = host.app_operations().iter().copied();
    TABLE.iter().map(Into::into).chain(beside).map(Op::new).collect()
}

async fn run(host: Arc<dyn Host>, config: Config) -> Result<()> {
    let cannot = |error: std::io::Error| Error::unavailable("cannot listen").because(error);
    let port = config.listeners.iter().find_map(|listener| match listener {
        Listener::Tcp(listener) => listener.local_addr().ok().map(|address| address.port()),
        Listener::Unix(_) => None,
    });
    let codes = config.code.iter().map(|code| (hash(code), Instant::now() + CODE)).collect();
    let shared = Arc::new(Shared {
        ops: ops(&*host),
        host,
        names: Names::new(port, &config.allowed_hosts),
        port,
        lookup: config.lookup,
        lookup_in_store: config.lookup_in_store,
        actor: config.actor,
        log: config.log,
        events: Events::new(),
        budget: Arc::default(),
        readiness: Readiness::default(),
        checked_tokens: Mutex::default(),
        log_listeners: Arc::new(Semaphore::new(logs::LISTENERS)),
        metrics: Metrics::default(),
        stop: watch::channel(false).0,
        busy: Mutex::default(),
        wrong: Mutex::default(),
        codes: Mutex::new(codes),
        sessions: Mutex::default(),
        in_flight: AtomicUsize::new(0),
        document: OnceLock::new(),
    });
    let router = router(&shared);
    let connections = Arc::new(Semaphore::new(CONNECTIONS as usize));
    tokio::spawn(events::follow(Arc::clone(&shared)));
    for listener in config.listeners {
        let (router, shared, connections) = (router.clone(), Arc::clone(&shared), Arc::clone(&connections));
        match listener {
            Listener::Tcp(listener) => {
                listener.set_nonblocking(true).map_err(cannot)?;
                // Connections inherit it. If it is refused, they cost more memory, and nothing else.
                let _ = rustix::net::sockopt::set_socket_send_buffer_size(&listener, SEND_BUFFER_BYTES);
                let listener = tokio::net::TcpListener::from_std(listener).map_err(cannot)?;
                tokio::spawn(accept_tcp(listener, router, shared, connections));
            }
            Listener::Unix(listener) => {
                listener.set_nonblocking(true).map_err(cannot)?;
                let listener = tokio::net::UnixListener::from_std(listener).map_err(cannot)?;
                tokio::spawn(accept_unix(listener, config.uid, router, shared, connections));
            }
        }
    }
    told_to_end().await.map_err(cannot)?;
    shared.log(&json!({ "level": "info", "event": "draining", "in_flight": shared.in_flight.load(Ordering::Relaxed) }));
    shared.stop.send_replace(true);
    let drained = tokio::time::timeout(DRAIN, connections.acquire_many(CONNECTIONS)).await;
    shared.log(&json!({ "level": "info", "event": "ended", "drained": drained.is_ok() }));
    Ok(())
}

async fn told_to_end() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
    Ok(())
}

async fn accept_tcp(
    listener: tokio::net::TcpListener,
    router: Router,
    shared: Arc<Shared>,
    connections: Arc<Semaphore>,
) {
    let mut stop = shared.stop.subscribe();
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return };
        let accepted =
            tokio::select! { accepted = listener.accept() => accepted, _ = stop.wait_for(|stop| *stop) => return };
        match accepted {
            Ok((stream, _)) => {
                let _ = stream.set_nodelay(true);
                let talk = talk(stream, Transport::Network, router.clone(), Arc::clone(&shared));
                tokio::spawn(async move {
                    talk.await;
                    drop(permit);
                });
            }
            // Out of descriptors: those that are open end at some time.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn accept_unix(
    listener: tokio::net::UnixListener,
    uid: u32,
    router: Router,
    shared: Arc<Shared>,
    connections: Arc<Semaphore>,
) {
    let mut stop = shared.stop.subscribe();
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return };
        let accepted =
            tokio::select! { accepted = listener.accept() => accepted, _ = stop.wait_for(|stop| *stop) => return };
        match accepted {
            Ok((stream, _)) => {
                // The socket is private already; this holds also where somebody gave it away.
                if !stream.peer_cred().is_ok_and(|peer| peer.uid() == uid) {
                    shared.log(&json!({ "level": "warn", "event": "foreign_user" }));
                    continue;
                }
                let talk = talk(stream, Transport::Socket, router.clone(), Arc::clone(&shared));
                tokio::spawn(async move {
                    talk.await;
                    drop(permit);
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Talks with one client, until it goes or the server ends.
async fn talk<S>(stream: S, way: Transport, router: Router, shared: Arc<Shared>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut stop = shared.stop.subscribe();
    let hangup = Hangup::default();
    let of_requests = hangup.clone();
    let service = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let mut router = router.clone();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(way);
        request.extensions_mut().insert(of_requests.clone());
        async move { tower_service::Service::call(&mut router, request).await }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_headers(64)
        .max_buf_size(CONNECTION_BUFFER_BYTES)
        // A client may close its sending side once it has asked; it still reads the answer.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = hangup.requested() => return shared.log(&json!({ "level": "warn", "event": "listener_cut_off" })),
        _ = stop.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    tokio::select! { _ = connection => {}, () = hangup.requested() => {} }
}

/// Everything that is answered. What has no place here is answered with 404, by those who may ask.
fn router(shared: &Arc<Shared>) -> Router {
    let mut router = Router::new()
        .route("/healthz", get(|| async { answer::text("text/plain", "ok\n") }))
        .route("/readyz", get(ready))
        .route("/metrics", get(measure))
        .route("/openapi.json", get(describe))
        .route("/login", get(login))
        .route(&format!("{ROOT}/events/stream"), get(stream))
        .route(&format!("{ROOT}/jobs/{{job}}/log/stream"), get(logs::stream))
        .route(&format!("{ROOT}/wait"), get(wait));
    for (number, op) in shared.ops.iter().enumerate() {
        let by_name = move |State(shared): State<Arc<Shared>>, request: Request| async move {
            operate(&shared, number, Address::Name, None, request).await
        };
        router = router.route(&format!("{ROOT}/op/{}", op.described.name), post(by_name));
        if !op.is_public() {
            continue;
        }
        let expected = move |State(shared): State<Arc<Shared>>, key: RawPathParams, request: Request| async move {
            let key = key.iter().next().map(|(_, value)| value.to_owned());
            operate(&shared, number, Address::Expected, key, request).await
        };
        let filter = if op.rest.is_get { MethodFilter::GET } else { MethodFilter::POST };
        for path in std::iter::once(&op.rest.path).chain(&op.rest.named_path) {
            router = router.route(path, on(filter, expected));
        }
    }
    router
        .route(&format!("{ROOT}/op/{{operation}}"), any(unknown))
        .merge(mcp_router(shared))
        .fallback(|| async {
            answer::refusal(404, "not_found", "there is nothing here", &["/openapi.json says what is where"])
        })
        .method_not_allowed_fallback(|| async { answer::refusal(405, "invalid", "this is asked in another way", &[]) })
        .layer(from_fn_with_state(Arc::clone(shared), pass))
        .with_state(Arc::clone(shared))
}

/// Answers that there is no such operation, and which one may be meant.
async fn unknown(State(shared): State<Arc<Shared>>, Path(operation): Path<String>) -> Response<Body> {
    let names = shared.ops.iter().filter(|op| op.is_public()).map(|op| op.described.name);
    let error = Error::not_found(format!("there is no operation {operation:?}"));
    answer::error(&match nearest(&operation, names) {
        Some(near) => error.hint(format!("did you mean {near}?")),
        None => error.hint("/openapi.json says what is where"),
    })
}

/// The tools of agents. Every one of their calls is looked at as a request of its own.
fn mcp_router(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    let service = mcp::http_service(Arc::clone(&shared.host), shared.names.allowed());
    let introduced = from_fn_with_state(Arc::clone(shared), introduce);
    Router::new().route_service("/mcp", service).layer(introduced)
}

/// Says to the tools who asks, and what it may ask.
async fn introduce(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response<Body> {
    let Some(grant) = request.extensions().get::<Grant>().cloned() else {
        return answer::error(&Error::internal("a request came in without a grant"));
    };
    let who = match ask::who(&shared, &grant, request.headers()) {
        Ok(who) => who,
        Err(error) => return answer::error(&error),
    };
    let is_fixed = grant.role != Role::Admin || grant.agent.is_some();
    let may = move |operation: &str, arguments: &Value| {
        let op = shared.ops.iter().find(|op| op.described.name == operation);
        let op = op.ok_or_else(|| Error::not_found(format!("there is no operation {operation:?}")))?;
        grant.allow(operation, op.described.effect, arguments)
    };
    request.extensions_mut().insert(mcp::Asker { who, is_fixed, may: Arc::new(may) });
    next.run(request).await
}

async fn ready(State(shared): State<Arc<Shared>>) -> Response<Body> {
    let found = if *shared.stop.borrow() {
        Err("the server is ending".to_owned())
    } else {
        shared.readiness.check(&*shared.host).await
    };
    let Err(why) = found else { return answer::text("text/plain", "ready\n") };
    let mut response = answer::text("text/plain", format!("not ready: {why}\n"));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
}

async fn measure(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    if let Err(error) = watch_only(&request) {
        return answer::error(&error);
    }
    let host = Arc::clone(&shared.host);
    let mut measures = blocking(move || Ok(host.measures())).await.unwrap_or_default();
    let gauge =
        |name, help, value: f64| Measure { name, help, is_counter: false, values: vec![(String::new(), value)] };
    let lag = events::lag(&shared).await.unwrap_or_default();
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    measures.extend([
        shared.events.by_kind(),
        gauge("events_last", "The sequence of the newest event that was told.", shared.events.last() as f64),
        gauge("events_lag", "How many events were not told yet.", lag as f64),
        gauge("event_listeners", "How many listen to events.", shared.events.listeners() as f64),
        gauge(
            "log_listeners",
            "How many follow what a job prints.",
            (logs::LISTENERS - shared.log_listeners.available_permits()) as f64,
        ),
        gauge(
            "requests_in_flight",
            "How many requests are worked on.",
            shared.in_flight.load(Ordering::Relaxed) as f64,
        ),
    ]);
    answer::text("text/plain; version=0.0.4", shared.metrics.page(&measures))
}

async fn describe(State(shared): State<Arc<Shared>>) -> Response<Body> {
    let document = shared.document.get_or_init(|| openapi::document(&shared.ops).to_string());
    answer::text("application/json", document.clone())
}

/// Refuses those who may not even look at everything.
fn watch_only(request: &Request) -> Result<Grant> {
    match request.extensions().get::<Grant>() {
        Some(grant) if grant.role != Role::Job => Ok(grant.clone()),
        Some(_) => Err(Error::refused("this is not for jobs")),
        None => Err(Error::internal("a request came in without a grant")),
    }
}

async fn stream(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    tell(&shared, &request)
}

fn tell(shared: &Arc<Shared>, request: &Request) -> Response<Body> {
    let wanted = || -> Result<EventRequest> {
        watch_only(request)?;
        if shared.events.listeners() >= LISTENERS {
            return Err(Error::unavailable("too many listen"));
        }
        let client = sse::client(request)?;
        let mut wanted = EventRequest { client, since: None, kinds: Vec::new(), subject: None, worktree_id: None };
        for (name, value) in pairs(request.uri().query().unwrap_or_default()) {
            match name.as_str() {
                "since" => wanted.since = Some(number(&name, &value)?),
                "kind" => wanted.kinds.extend(value.split(',').map(str::to_owned)),
                "subject" => wanted.subject = Some(value),
                "worktree_id" => wanted.worktree_id = Some(value),
                _ => return Err(Error::invalid(format!("there is no {name:?} to ask for"))),
            }
        }
        wanted.since = sse::last_id(request)?.or(wanted.since);
        Ok(wanted)
    };
    match wanted() {
        Ok(wanted) => events::tell(shared, wanted),
        Err(error) => answer::error(&error),
    }
}

async fn wait(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let asked = move || -> Result<(u64, u64)> {
        watch_only(&request)?;
        let (mut since, mut millis) = (0, 10_000);
        for (name, value) in pairs(request.uri().query().unwrap_or_default()) {
            match name.as_str() {
                "since" => since = number(&name, &value)?,
                "ms" => millis = number(&name, &value)?.min(60_000),
                _ => return Err(Error::invalid(format!("there is no {name:?} to ask for"))),
            }
        }
        Ok((since, millis))
    };
    match asked() {
        Ok((since, millis)) => {
            let mut stop = shared.stop.subscribe();
            tokio::select! {
                () = shared.events.wait(since, Duration::from_millis(millis)) => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
            answer::data(&json!({ "last": shared.events.last() }), &[])
        }
        Err(error) => answer::error(&error),
    }
}

fn number(name: &str, text: &str) -> Result<u64> {
    text.parse().ok().filter(|number| i64::try_from(*number).is_ok()).ok_or_else(|| {
        Error::invalid(format!("{name} is the sequence of an event, or another whole number, and not {text:?}"))
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does what waits for a disk on a thread of its own.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(ended()),
    }
}

fn ended() -> Error {
    Error::internal("an operation ended without an answer")
}
