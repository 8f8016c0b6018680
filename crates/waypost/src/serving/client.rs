//! The client of a running server. It is synchronous, because all its callers are.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};
use waypost_core::{Error, Result, url_text};
use waypost_fs::check_threads;

use crate::app::origin;
use crate::serving::challenge::{Challenge, Ends};
use crate::serving::sockets::short_path;
use crate::serving::wire;

pub(crate) use crate::serving::wire::{Caller, ServerReply};

/// Maximum time for an answer after the server has received the request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Slowest upload that does not time out.
const MIN_BYTES_PER_SECOND: usize = 1024 * 1024;
const MAX_ANSWER_BYTES: usize = 256 * 1024 * 1024;
/// Where a server proves that it knows a token.
pub const PROOF_PATH: &str = "/prove";
/// Maximum size of the answer with the proof.
const MAX_PROOF_BYTES: usize = 64 * 1024;
/// Maximum number of attempts for a request whose answer was lost.
const MAX_ATTEMPTS: u32 = 3;

/// The address that `localhost` means.
const LOCALHOST: &str = "127.0.0.1";
/// Names of this machine.
const LOCAL_HOSTS: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Address {
    Socket(PathBuf),
    Port { host: String, port: u16, is_secure: bool, base: String },
}

impl Address {
    /// Returns the `Host` header, and the path that the paths of the server are below.
    fn host_and_base(&self) -> (String, &str) {
        match self {
            Address::Socket(_) => ("localhost".to_owned(), ""),
            Address::Port { host, port, is_secure, base } => {
                let is_default = *port == if *is_secure { 443 } else { 80 };
                (if is_default { host.clone() } else { format!("{host}:{port}") }, base.as_str())
            }
        }
    }
}

/// A connection to a server.
pub(crate) struct Client {
    address: Address,
    token: Option<String>,
    runtime: BlockingRuntime,
    sender: Option<SendRequest<Full<Bytes>>>,
    shown: String,
}

/// Returns whether requests to a URL stay on this machine or are encrypted, so that others cannot read them.
pub(crate) fn is_private(url: &str) -> bool {
    match parse(url) {
        Ok(Address::Port { host, is_secure, .. }) => is_secure || LOCAL_HOSTS.contains(&host.as_str()),
        Ok(Address::Socket(_)) | Err(_) => true,
    }
}

/// A runtime that may be dropped in asynchronous code, where dropping a plain `Runtime` panics.
struct BlockingRuntime(Option<Runtime>);

impl BlockingRuntime {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.as_ref().expect("only drop takes the runtime").block_on(future)
    }
}

impl Drop for BlockingRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Client {
    /// Creates a client for a URL. `socket` is the path, if the URL names a Unix socket.
    pub(crate) fn new(url: &str, socket: Option<PathBuf>, token: Option<String>) -> Result<Client> {
        let address = match socket {
            Some(path) => Address::Socket(path),
            None => parse(url)?,
        };
        let cannot = |error| Error::unavailable("cannot reach the server").because(error);
        if matches!(&address, Address::Port { host, .. } if host.parse::<IpAddr>().is_err()) {
            // The runtime resolves host names in a thread, and panics if it cannot start one.
            check_threads(1).map_err(cannot)?;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot)?;
        let runtime = BlockingRuntime(Some(runtime));
        Ok(Client { address, token, runtime, sender: None, shown: url_text::without_password(url) })
    }

    /// Connects to the server, if it is not connected.
    pub(crate) fn connect(&mut self) -> Result<()> {
        let Client { address, token, runtime, sender, shown } = self;
        if sender.as_ref().is_none_or(SendRequest::is_closed) {
            *sender = Some(runtime.block_on(connect(address, token.as_deref(), shown))?);
        }
        Ok(())
    }

    /// Runs an operation. With a key it can be retried, and the server runs it once.
    pub(crate) fn call(
        &mut self,
        operation: &str,
        arguments: &Value,
        caller: &Caller,
        key: Option<&str>,
    ) -> Result<ServerReply> {
        let path = format!("/api/v1/op/{operation}");
        let body = Bytes::from(arguments.to_string());
        let timeout = ANSWER_TIMEOUT + Duration::from_secs((body.len() / MIN_BYTES_PER_SECOND) as u64);
        // An attempt that may have changed something, although its answer was lost.
        let mut uncertain = None;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let request = self.request(Method::POST, &path, body.clone(), caller, key)?;
            let error = match self.connect() {
                // Why there is no server now says nothing about what an earlier one did.
                Err(error) => uncertain.take().unwrap_or(error),
                Ok(()) => match self.send(request, timeout) {
                    Err(error) => error,
                    answered => return answered,
                },
            };
            if !(error.is_retriable() && attempts < MAX_ATTEMPTS && (key.is_some() || error.is_transient())) {
                return Err(error);
            }
            uncertain = Some(error).filter(Error::is_outcome_unknown).or(uncertain);
        }
    }

    /// Waits for an event after this sequence number, at most this long.
    pub(crate) fn wait(&mut self, since: u64, timeout: Duration) -> Result<()> {
        let path = format!("/api/v1/wait?since={since}&ms={}", timeout.as_millis().min(30_000));
        let request = self.request(Method::GET, &path, Bytes::new(), &Caller::default(), None)?;
        self.send(request, ANSWER_TIMEOUT).map(drop)
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        caller: &Caller,
        key: Option<&str>,
    ) -> Result<Request<Full<Bytes>>> {
        let (host, base) = self.address.host_and_base();
        let mut request = Request::builder().method(method).uri(format!("{base}{path}")).header(header::HOST, host);
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let texts = [("waypost-actor", &caller.actor), ("waypost-agent", &caller.agent)];
        for (name, value) in texts.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
            request = request.header(name, encode(value));
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", encode(key));
        }
        if let Some(origin) = &caller.origin {
            request = request.header(origin::HEADER, origin.to_header()?);
        }
        request.body(Full::new(body)).map_err(|error| Error::invalid("cannot send this request").because(error))
    }

    /// Sends a request and reads the answer.
    fn send(&mut self, request: Request<Full<Bytes>>, timeout: Duration) -> Result<ServerReply> {
        let Client { address, token, runtime, sender, shown } = self;
        let lost = |why: &dyn std::fmt::Display| {
            Error::unavailable(format!("the server {shown} did not answer")).because(why).outcome_unknown()
        };
        let (status, bytes) = runtime.block_on(async {
            let mut open = match sender.take().filter(|sender| !sender.is_closed()) {
                Some(open) => open,
                None => connect(address, token.as_deref(), shown).await?,
            };
            let exchange = async {
                let response = open.send_request(request).await.map_err(|error| lost(&error))?;
                let (parts, body) = response.into_parts();
                let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await.map_err(|error| lost(&error))?;
                Ok::<_, Error>((parts.status, body.to_bytes()))
            };
            let answered = tokio::time::timeout(timeout, exchange).await.map_err(|_| lost(&"timeout"))??;
            *sender = Some(open);
            Ok::<_, Error>(answered)
        })?;
        let not_waypost = || {
            Error::unavailable(format!("{shown} answers, but it is not a Waypost server"))
                .because(status)
                .hint("way serve prints the address that it listens on")
        };
        let mut answer: Value = serde_json::from_slice(&bytes).map_err(|_| not_waypost())?;
        if status == StatusCode::OK {
            let warnings = answer.get("warnings").and_then(Value::as_array).into_iter().flatten();
            let warnings = warnings.filter_map(Value::as_str).map(str::to_owned).collect();
            let answer = answer.get_mut("data").map(Value::take).ok_or_else(not_waypost)?;
            return Ok(ServerReply { answer, warnings });
        }
        let error = wire::read_error(&answer).ok_or_else(not_waypost)?;
        Err(match status {
            StatusCode::UNAUTHORIZED if self.token.is_none() => {
                error.hint("put a token into WAYPOST_TOKEN, or into the file ~/.waypost/token")
            }
            _ => error,
        })
    }
}

/// Connects to a server. On a port or a socket of this machine the server has to prove that it knows the token, before it
/// gets the token.
async fn connect(address: &Address, token: Option<&str>, shown: &str) -> Result<SendRequest<Full<Bytes>>> {
    let (mut sender, ends) = open(address, shown).await?;
    // The name that was given does not matter: many names lead to this machine.
    let local = ends.filter(Ends::are_on_this_machine);
    if let Some((token, ends)) = token.zip(local) {
        let proved = tokio::time::timeout(CONNECT_TIMEOUT, prove(&mut sender, address, (token, ends), shown)).await;
        proved.map_err(|_| unreachable_error(shown, &"timeout"))??;
    }
    Ok(sender)
}

/// Lets the server prove that it knows a token, on the connection on which the token is then sent.
async fn prove(
    sender: &mut SendRequest<Full<Bytes>>,
    address: &Address,
    (token, ends): (&str, Ends),
    shown: &str,
) -> Result<()> {
    let (host, base) = address.host_and_base();
    let challenge = Challenge::draw(token, ends);
    let request = Request::get(format!("{base}{PROOF_PATH}?{}", challenge.query())).header(header::HOST, host);
    let request = request.body(Full::default()).map_err(|error| unproved_error(shown, &error))?;
    // A server that ends meanwhile proves nothing, but is not another program.
    let response = sender.send_request(request).await.map_err(|error| {
        if error.is_parse() { unproved_error(shown, &error) } else { unreachable_error(shown, &error) }
    })?;
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, MAX_PROOF_BYTES).collect().await.map_err(|error| unproved_error(shown, &error))?;
    let answer: Value = serde_json::from_slice(&body.to_bytes()).map_err(|error| unproved_error(shown, &error))?;
    if matches!(parts.status, StatusCode::UNAUTHORIZED | StatusCode::TOO_MANY_REQUESTS) {
        // The server does not know the token.
        return Err(wire::read_error(&answer).unwrap_or_else(|| unproved_error(shown, &parts.status)));
    }
    let proof = answer.pointer("/data/proof").and_then(Value::as_str).unwrap_or_default();
    if challenge.is_proved_by(token, proof) { Ok(()) } else { Err(unproved_error(shown, &parts.status)) }
}

fn unproved_error(shown: &str, why: &dyn std::fmt::Display) -> Error {
    Error::refused(format!("the program at {shown} did not prove that it is your Waypost server; it got no token"))
        .because(why)
        .hint("way serve prints its address and the path of its socket")
        .hint("a server cannot prove itself through a forwarded port: forward its socket, with its token, or use https://")
}

fn unreachable_error(shown: &str, why: &dyn std::fmt::Display) -> Error {
    Error::unavailable(format!("cannot reach the server {shown}")).because(why).hint("start it: way serve")
}

/// Opens a connection. Returns its ends too, if any program could be at the other one: without encryption.
async fn open(address: &Address, shown: &str) -> Result<(SendRequest<Full<Bytes>>, Option<Ends>)> {
    let cannot = |why: &dyn std::fmt::Display| unreachable_error(shown, why);
    let connected = async {
        match address {
            Address::Socket(path) => {
                let (short, _dir) = short_path(path).map_err(|error| cannot(&error))?;
                let stream = UnixStream::connect(short).await.map_err(|error| cannot(&error))?;
                // The path may lead to a socket that another user created.
                let is_trusted = stream.peer_cred().is_ok_and(|peer| {
                    let user = rustix::process::geteuid().as_raw();
                    peer.uid() == user || peer.uid() == 0
                });
                if !is_trusted {
                    return Err(Error::refused(format!("another user owns the socket {}", path.display())));
                }
                let ends = Some(Ends::of_socket());
                begin(stream).await.map(|sender| (sender, ends)).map_err(|error| cannot(&error))
            }
            Address::Port { host, port, is_secure, .. } => {
                let host = host.trim_start_matches('[').trim_end_matches(']');
                // A resolver may lead this name to an address on which the server does not listen.
                let reached = if host.eq_ignore_ascii_case("localhost") { LOCALHOST } else { host };
                let stream = TcpStream::connect((reached, *port)).await.map_err(|error| cannot(&error))?;
                let _ = stream.set_nodelay(true);
                if !is_secure {
                    let ends = stream.local_addr().and_then(|own| Ok(Ends::new(own, stream.peer_addr()?)));
                    let ends = ends.map_err(|error| cannot(&error))?;
                    return begin(stream).await.map(|sender| (sender, Some(ends))).map_err(|error| cannot(&error));
                }
                let name = ServerName::try_from(host.to_owned()).map_err(|error| cannot(&error))?;
                let stream = tls()?.connect(name, stream).await.map_err(|error| cannot(&error))?;
                begin(stream).await.map(|sender| (sender, None)).map_err(|error| cannot(&error))
            }
        }
    };
    tokio::time::timeout(CONNECT_TIMEOUT, connected).await.map_err(|_| cannot(&"timeout"))?
}

async fn begin<S>(stream: S) -> hyper::Result<SendRequest<Full<Bytes>>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        // The pending request gets the error.
        let _ = connection.await;
    });
    Ok(sender)
}

fn tls() -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::internal("cannot set up TLS").because(error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn parse(url: &str) -> Result<Address> {
    let wrong = |why: &str| {
        let shown = url_text::without_password(url);
        Error::invalid(format!("{shown} is not the address of a server"))
            .because(why)
            .hint("for example http://127.0.0.1:7777")
    };
    let (is_secure, rest) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
        (Some(rest), _) => (false, rest),
        (None, Some(rest)) => (true, rest),
        (None, None) => return Err(wrong("it must start with http:// or https://")),
    };
    let (authority, base) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if authority.contains('@') {
        return Err(wrong("an address must not contain a token").hint("put it into WAYPOST_TOKEN"));
    }
    if base.contains(['?', '#']) {
        return Err(wrong("a query or a fragment is not allowed"));
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => {
            (host, port.parse().map_err(|_| wrong("the port is not a number"))?)
        }
        _ => (authority, if is_secure { 443 } else { 80 }),
    };
    if host.is_empty() {
        return Err(wrong("it names no host"));
    }
    Ok(Address::Port { host: host.to_owned(), port, is_secure, base: base.trim_end_matches('/').to_owned() })
}

/// Every byte of a header value that is not visible ASCII, and the percent sign.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'%');

/// Percent-encodes the value of a header.
fn encode(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_values_are_visible_ascii() {
        assert_eq!(encode("plain-1_~!\""), "plain-1_~!\"");
        assert_eq!(encode("é 50%\n\u{7f}"), "%C3%A9%2050%25%0A%7F");
    }

    #[test]
    fn addresses_are_parsed() {
        let port = |url: &str| match parse(url).unwrap() {
            Address::Port { host, port, is_secure, base } => (host, port, is_secure, base),
            Address::Socket(_) => panic!("{url} is not a socket"),
        };
        assert_eq!(port("http://127.0.0.1:7777"), ("127.0.0.1".to_owned(), 7777, false, String::new()));
        assert_eq!(port("http://[::1]:7777/"), ("[::1]".to_owned(), 7777, false, String::new()));
        assert_eq!(
            port("https://way.example.org/team/"),
            ("way.example.org".to_owned(), 443, true, "/team".to_owned())
        );
        for wrong in ["ftp://x", "http://", "http://x:y", "http://user:secret@x", "http://x/?a"] {
            let error = parse(wrong).unwrap_err();
            assert!(!error.full_message().contains("secret"), "{error}");
        }
    }
}
