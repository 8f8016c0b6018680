//! The connections that the server keeps open.
//!
//! A connection over TCP is anonymous until one of its requests presents a valid token. Anonymous connections are few, and
//! a new one replaces the oldest: a client with a token is anonymous for a moment only, so a flood of clients without a
//! token does not keep it out. The Unix socket, which only the user can reach, has permits of its own.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Sleep;

use super::lock;

/// Maximum connections of the Unix socket.
const MAX_SOCKET: usize = 256;
/// Maximum connections that presented no valid token yet.
const MAX_ANONYMOUS: usize = 256;
/// Maximum connections that presented a token.
const MAX_KNOWN: usize = 1_024;
/// Maximum connections with one token.
const MAX_PER_TOKEN: usize = 512;
/// Maximum connections from one address of another machine.
const MAX_PER_PEER: usize = 256;
/// File descriptors for everything but connections, if the process has more than twice as many.
const RESERVED_FILES: usize = 256;
/// The limit of file descriptors that the server sets for itself, if it may.
const WANTED_FILES: u64 = 4_096;
/// How long an anonymous client may read nothing while the server waits to send.
const ANONYMOUS_WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client with a token may. Streams of events end earlier by themselves.
const WRITE_TIMEOUT: Duration = Duration::from_secs(90);

/// The limits, which depend on how many files the process may open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    socket: usize,
    anonymous: usize,
    known: usize,
}

impl Limits {
    fn for_files(files: usize) -> Limits {
        let free = (files - RESERVED_FILES.min(files / 2)).max(16);
        Limits {
            socket: MAX_SOCKET.min(free / 4),
            anonymous: MAX_ANONYMOUS.min(free / 4),
            known: MAX_KNOWN.min(free / 2),
        }
    }
}

/// All connections.
pub(super) struct Connections {
    limits: Limits,
    /// The permits of the Unix socket.
    socket: Arc<Semaphore>,
    open: Mutex<Open>,
    /// Notified when a TCP connection has ended.
    ended: Notify,
}

#[derive(Default)]
struct Open {
    last_id: u64,
    /// Anonymous connections, oldest first.
    anonymous: BTreeMap<u64, Arc<Notify>>,
    /// The number of connections of each token.
    by_token: HashMap<String, usize>,
    by_peer: HashMap<IpAddr, usize>,
    /// The number of connections with a token.
    known: usize,
    evicted: u64,
}

impl Connections {
    /// Raises the limit of open files, and derives how many connections there may be.
    pub(super) fn new() -> Connections {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let wanted = maximum.map_or(WANTED_FILES, |maximum| maximum.min(WANTED_FILES));
        let mut files = current.unwrap_or(WANTED_FILES);
        if files < wanted && setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }).is_ok() {
            files = wanted;
        }
        Connections::with(Limits::for_files(usize::try_from(files).unwrap_or(usize::MAX)))
    }

    fn with(limits: Limits) -> Connections {
        let socket = Arc::new(Semaphore::new(limits.socket));
        Connections { limits, socket, open: Mutex::default(), ended: Notify::new() }
    }

    /// Returns the permits of the Unix socket.
    pub(super) fn socket(&self) -> Arc<Semaphore> {
        Arc::clone(&self.socket)
    }

    /// Admits a TCP connection. If there are too many anonymous ones, the oldest is closed. Refuses a connection from
    /// another machine that has too many.
    pub(super) fn admit(self: &Arc<Connections>, peer: IpAddr) -> Option<Connection> {
        let mut open = lock(&self.open);
        let peer = (!peer.is_loopback()).then_some(peer);
        if let Some(peer) = peer {
            let count = open.by_peer.entry(peer).or_default();
            if *count >= MAX_PER_PEER {
                open.evicted += 1;
                return None;
            }
            *count += 1;
        }
        while open.anonymous.len() >= self.limits.anonymous {
            let Some((_, oldest)) = open.anonymous.pop_first() else { break };
            oldest.notify_one();
            open.evicted += 1;
        }
        open.last_id += 1;
        let (id, close) = (open.last_id, Arc::new(Notify::new()));
        open.anonymous.insert(id, Arc::clone(&close));
        Some(Connection(Arc::new(Inner { connections: Arc::clone(self), id, peer, close, token: Mutex::default() })))
    }

    /// Returns the number of connections that were closed or refused because there were too many.
    pub(super) fn evicted(&self) -> u64 {
        lock(&self.open).evicted
    }

    /// Waits until all connections have ended.
    pub(super) async fn drained(&self) {
        let _socket = self.socket.acquire_many(u32::try_from(self.limits.socket).unwrap_or(u32::MAX)).await;
        loop {
            let ended = self.ended.notified();
            {
                let open = lock(&self.open);
                if open.known == 0 && open.anonymous.is_empty() {
                    return;
                }
            }
            ended.await;
        }
    }
}

/// A TCP connection. It ends when the last clone is dropped.
#[derive(Clone)]
pub(super) struct Connection(Arc<Inner>);

struct Inner {
    connections: Arc<Connections>,
    id: u64,
    /// The address, if it is on another machine.
    peer: Option<IpAddr>,
    close: Arc<Notify>,
    /// The token of the latest request, by its name.
    token: Mutex<Option<String>>,
}

impl Connection {
    /// Waits until the connection has to make room for a newer one.
    pub(super) async fn evicted(&self) {
        self.0.close.notified().await;
    }

    /// Counts the connection for a token that was found valid. Returns false if that has too many: the request is refused.
    /// A part of the connections is left for admins.
    pub(super) fn present(&self, token: &str, is_admin: bool) -> bool {
        let mut own = lock(&self.0.token);
        if own.as_deref() == Some(token) {
            return true;
        }
        let limits = self.0.connections.limits;
        let max_known = if is_admin { limits.known } else { limits.known / 4 * 3 };
        let mut open = lock(&self.0.connections.open);
        let others = open.known - usize::from(own.is_some());
        let count = open.by_token.get(token).copied().unwrap_or_default();
        if others >= max_known || count >= MAX_PER_TOKEN.min(max_known) {
            return false;
        }
        open.anonymous.remove(&self.0.id);
        match own.take() {
            Some(former) => leave(&mut open.by_token, &former),
            None => open.known += 1,
        }
        *open.by_token.entry(token.to_owned()).or_default() += 1;
        *own = Some(token.to_owned());
        true
    }

    fn write_timeout(&self) -> Duration {
        if lock(&self.0.token).is_some() { WRITE_TIMEOUT } else { ANONYMOUS_WRITE_TIMEOUT }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut open = lock(&self.connections.open);
        open.anonymous.remove(&self.id);
        if let Some(token) = lock(&self.token).take() {
            leave(&mut open.by_token, &token);
            open.known -= 1;
        }
        if let Some(peer) = &self.peer {
            leave(&mut open.by_peer, peer);
        }
        drop(open);
        self.connections.ended.notify_waiters();
    }
}

/// Decrements a count, and forgets it at 0.
fn leave<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// A stream whose writes fail if the client reads nothing for too long.
pub(super) struct TimedWrites<S> {
    stream: S,
    /// None for the Unix socket: its clients are the user's.
    connection: Option<Connection>,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> TimedWrites<S> {
    pub(super) fn new(stream: S, connection: Option<Connection>) -> TimedWrites<S> {
        TimedWrites { stream, connection, stalled: None }
    }

    /// Fails if a write has been pending for too long.
    fn check<T>(&mut self, cx: &mut Context<'_>, written: Poll<std::io::Result<T>>) -> Poll<std::io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let timeout = self.connection.as_ref().map_or(WRITE_TIMEOUT, Connection::write_timeout);
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(std::io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedWrites<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedWrites<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.check(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.check(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.check(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.check(cx, closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(anonymous: usize, known: usize) -> Arc<Connections> {
        Arc::new(Connections::with(Limits { socket: 1, anonymous, known }))
    }

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn the_limits_leave_files_for_everything_else() {
        for files in [0, 256, 1_024, 4_096, 1_000_000] {
            let Limits { socket, anonymous, known } = Limits::for_files(files);
            assert!(socket >= 4 && anonymous >= 4 && known >= 8, "{files}");
            assert!(socket + anonymous + known <= (files - RESERVED_FILES.min(files / 2)).max(16), "{files}");
        }
        let full = Limits { socket: MAX_SOCKET, anonymous: MAX_ANONYMOUS, known: MAX_KNOWN };
        assert_eq!(Limits::for_files(4_096), full);
    }

    #[test]
    fn a_new_connection_replaces_the_oldest_one_without_a_token() {
        let all = connections(2, 8);
        let (first, second) = (all.admit(HERE).unwrap(), all.admit(HERE).unwrap());
        assert!(first.present("a", false));
        let third = all.admit(HERE).unwrap();
        assert_eq!(all.evicted(), 0, "the first has a token");
        let fourth = all.admit(HERE).unwrap();
        assert_eq!(all.evicted(), 1);
        assert_eq!(lock(&all.open).anonymous.keys().copied().collect::<Vec<_>>(), [third.0.id, fourth.0.id]);
        drop((first, second, third, fourth));
        let open = lock(&all.open);
        assert!(open.known == 0 && open.anonymous.is_empty() && open.by_token.is_empty() && open.by_peer.is_empty());
    }

    #[test]
    fn connections_with_a_token_are_limited_and_some_are_left_for_admins() {
        let all = connections(8, 4);
        let open: Vec<_> = (0..5).map(|_| all.admit(HERE).unwrap()).collect();
        let agents: Vec<_> = open[..4].iter().map(|one| one.present("agent", false)).collect();
        assert_eq!(agents, [true, true, true, false]);
        assert!(open[3].present("own", true) && !open[4].present("own", true));
        assert!(open[0].present("own", true), "a connection may change its token");
        assert_eq!(lock(&all.open).by_token, HashMap::from([("agent".to_owned(), 2), ("own".to_owned(), 2)]));
    }

    #[test]
    fn one_address_of_another_machine_does_not_take_all_connections() {
        let all = connections(1_000, 8);
        let far = IpAddr::from([192, 0, 2, 1]);
        let open: Vec<_> = (0..=MAX_PER_PEER).map_while(|_| all.admit(far)).collect();
        assert_eq!(open.len(), MAX_PER_PEER);
        assert!(all.admit(IpAddr::from([192, 0, 2, 2])).is_some() && all.admit(HERE).is_some());
    }
}
