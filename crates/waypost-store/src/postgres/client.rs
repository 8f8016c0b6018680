//! A blocking client around the asynchronous driver, with pipelining and timeouts.
//!
//! Writes are pipelined: they go to the server together with the next query, and an error surfaces on the next call that
//! waits. Several queries can share a round trip.
//!
//! A server may accept the connection and never answer: it is suspended, its disk hangs, or another program listens on the
//! port. Neither the system nor the driver detects that, and a slow statement looks the same. So at the request's deadline
//! a second connection probes whether the server still answers, and then again every second.

use std::fmt;
use std::future::{Future, poll_fn, ready};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::Host;
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Config, Row, SimpleQueryMessage, Socket, Statement};

use waypost_fs::check_threads;

use crate::cell::Cell;

/// A statement that is queued or sent, and will return its rows.
pub(super) type Started = Pin<Box<dyn Future<Output = Result<Vec<Row>, tokio_postgres::Error>> + Send>>;

/// The maximum time to close a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Probes the server on a new connection. Returns whether it answers, even with an error.
type Probe = Box<dyn Fn() -> Pin<Box<dyn Future<Output = bool> + Send>> + Send>;

/// The delay of the first probe after the deadline: the server's own lock timeout ends at the deadline, and its answer
/// takes some time to arrive.
const PROBE_DELAY: Duration = Duration::from_millis(250);
/// The maximum time for the answer to a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// The time between two probes of a server that answers them.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// The reason why a request failed.
#[derive(Debug)]
pub(super) enum Failed {
    /// An error of the driver or the server.
    Driver(tokio_postgres::Error),
    /// The server did not answer for this time.
    Silence(Duration),
    /// This machine has no free descriptor or thread for a connection.
    System(std::io::Error),
}

impl Failed {
    /// Returns the error of the driver, if there is one.
    pub(super) fn driver(&self) -> Option<&tokio_postgres::Error> {
        match self {
            Failed::Driver(error) => Some(error),
            Failed::Silence(_) | Failed::System(_) => None,
        }
    }

    pub(super) fn code(&self) -> Option<&SqlState> {
        self.driver()?.code()
    }

    pub(super) fn as_db_error(&self) -> Option<&DbError> {
        self.driver()?.as_db_error()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.driver().is_some_and(tokio_postgres::Error::is_closed)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Driver(error) => error.fmt(f),
            Failed::Silence(limit) => write!(f, "the server did not answer for {limit:?}"),
            Failed::System(error) => error.fmt(f),
        }
    }
}

impl From<tokio_postgres::Error> for Failed {
    fn from(error: tokio_postgres::Error) -> Failed {
        Failed::Driver(error)
    }
}

/// A connection.
pub(super) struct Client {
    runtime: Runtime,
    /// The driver's client. None while the connection is closed.
    driver: Option<Arc<tokio_postgres::Client>>,
    /// Statements whose results were not awaited yet, in order.
    pending: Vec<Started>,
    /// The task that reads and writes the socket. It runs while a call waits for an answer.
    connection: JoinHandle<()>,
    notifications: UnboundedReceiver<()>,
    probe: Probe,
    /// From then on a missing answer starts probes. None if it is too far away to be represented.
    pub(super) deadline: Option<Instant>,
    /// The maximum time for an answer, even if the server answers probes.
    pub(super) limit: Duration,
    /// Whether a request timed out.
    pub(super) is_silent: bool,
}

impl Client {
    /// Connects within a time limit.
    pub(super) fn connect<T>(config: &Config, tls: T, limit: Duration) -> Result<Client, Failed>
    where
        T: MakeTlsConnect<Socket> + Clone + Send + 'static,
        T::Stream: Send,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let deadline = Instant::now().checked_add(limit);
        check_lookup(config).map_err(Failed::System)?;
        let probe = probe(config.clone(), tls.clone());
        let runtime = Builder::new_current_thread().enable_all().build().map_err(Failed::System)?;
        let (client, mut connection) = block_on(&runtime, limit, config.connect(tls))?;
        let (sender, notifications) = unbounded_channel();
        let connection = runtime.spawn(async move {
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                if matches!(message, AsyncMessage::Notification(_)) {
                    // Without a receiver the notification is not needed.
                    let _ = sender.send(());
                }
            }
        });
        let driver = Some(Arc::new(client));
        Ok(Client {
            runtime,
            driver,
            pending: Vec::new(),
            connection,
            notifications,
            probe,
            deadline,
            limit,
            is_silent: false,
        })
    }

    pub(super) fn simple_query(&mut self, sql: &str) -> Result<Vec<SimpleQueryMessage>, Failed> {
        let client = self.client();
        self.wait_for(client.simple_query(sql))
    }

    pub(super) fn batch_execute(&mut self, sql: &str) -> Result<(), Failed> {
        let client = self.client();
        self.wait_for(client.batch_execute(sql))
    }

    pub(super) fn prepare_typed(&mut self, sql: &str, types: &[Type]) -> Result<Statement, Failed> {
        let client = self.client();
        self.wait_for(client.prepare_typed(sql, types))
    }

    /// Queues a prepared statement. The next call that waits sends it.
    pub(super) fn start(&self, statement: Statement, parameters: Vec<Cell>) -> Result<Started, Failed> {
        let client = self.client();
        self.queue(async move {
            let parameters: Vec<_> = parameters.iter().map(|cell| cell as _).collect();
            client.query(&statement, &parameters).await
        })
    }

    /// Queues a statement that is not prepared.
    pub(super) fn start_typed(&self, sql: String, parameters: Vec<(Cell, Type)>) -> Result<Started, Failed> {
        let client = self.client();
        self.queue(async move {
            let parameters: Vec<_> = parameters.iter().map(|(cell, kind)| (cell as _, kind.clone())).collect();
            client.query_typed(&sql, &parameters).await
        })
    }

    fn queue(
        &self,
        statement: impl Future<Output = Result<Vec<Row>, tokio_postgres::Error>> + Send + 'static,
    ) -> Result<Started, Failed> {
        let mut started: Started = Box::pin(statement);
        let _within = self.runtime.enter();
        match started.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => Ok(started),
            Poll::Ready(Ok(rows)) => Ok(Box::pin(ready(Ok(rows)))),
            // It was not queued: the server will never see it, and a commit would succeed without it.
            Poll::Ready(Err(error)) => Err(Failed::Driver(error)),
        }
    }

    /// Sends statements and waits for their rows.
    pub(super) fn finish(&mut self, all: Vec<Started>) -> Result<Vec<Vec<Row>>, Failed> {
        self.wait_for(async {
            let mut results = Vec::with_capacity(all.len());
            for started in all {
                results.push(started.await?);
            }
            Ok(results)
        })
    }

    /// Adds a statement whose result is not awaited now. The next call that waits reports its error.
    pub(super) fn add_pending(&mut self, started: Started) {
        self.pending.push(started);
    }

    /// Discards pending statements and their errors.
    pub(super) fn discard_pending(&mut self) {
        self.pending.clear();
    }

    /// Waits for an answer and for all pending statements. The first error is the cause of the others.
    fn wait_for<T>(&mut self, answer: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, Failed> {
        let pending = std::mem::take(&mut self.pending);
        let before = async {
            for started in pending {
                started.await?;
            }
            Ok(())
        };
        let both = async {
            let (before, answer) = tokio::join!(before, answer);
            before.and(answer)
        };
        let answer = self.runtime.block_on(self.while_alive(both));
        if matches!(answer, Err(Failed::Silence(_))) {
            // After a timeout the rollback must not wait for the server again.
            self.limit = Duration::ZERO;
            self.is_silent = true;
        }
        answer
    }

    /// Waits for an answer: until the deadline in any case, and after that as long as the server answers probes.
    async fn while_alive<T>(
        &self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Failed> {
        let mut answer = pin!(answer);
        let start = Instant::now();
        let until_deadline = self.deadline.map_or(self.limit, |deadline| deadline.saturating_duration_since(start));
        let mut pause = until_deadline.saturating_add(PROBE_DELAY);
        loop {
            let left = self.limit.saturating_sub(start.elapsed());
            if let Ok(answer) = timeout(pause.min(left), &mut answer).await {
                return answer.map_err(Failed::Driver);
            }
            let is_alive = start.elapsed() < self.limit
                && tokio::select! {
                    biased;
                    answer = &mut answer => return answer.map_err(Failed::Driver),
                    is_alive = (self.probe)() => is_alive,
                };
            if !is_alive {
                return Err(silence(start.elapsed()));
            }
            pause = PROBE_INTERVAL;
        }
    }

    /// Waits for a notification, and removes further ones. Returns false if the connection was lost.
    pub(super) fn wait_for_notification(&mut self, at_most: Duration) -> bool {
        let received = self.runtime.block_on(async { timeout(at_most, self.notifications.recv()).await });
        while self.notifications.try_recv().is_ok() {}
        !matches!(received, Ok(None)) && !self.connection.is_finished()
    }

    fn client(&self) -> Arc<tokio_postgres::Client> {
        Arc::clone(self.driver.as_ref().expect("it is there until the connection is closed"))
    }
}

impl Drop for Client {
    /// Closes the connection properly, so that the server ends its session at once.
    fn drop(&mut self) {
        self.pending.clear();
        self.driver = None;
        // The driver closes it after the last answer, which a silent server does not send.
        if !self.is_silent {
            let connection = &mut self.connection;
            let _ = self.runtime.block_on(async { timeout(CLOSE_TIMEOUT, connection).await });
        }
    }
}

/// Returns an error if a host name must be resolved and no thread can be started: the runtime would panic.
fn check_lookup(config: &Config) -> std::io::Result<()> {
    let has_name = |host: &Host| matches!(host, Host::Tcp(name) if name.parse::<IpAddr>().is_err());
    if config.get_hosts().iter().any(has_name) { check_threads(1) } else { Ok(()) }
}

fn probe<T>(config: Config, tls: T) -> Probe
where
    T: MakeTlsConnect<Socket> + Clone + Send + 'static,
    T::Stream: Send,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    Box::new(move || {
        let (config, tls) = (config.clone(), tls.clone());
        Box::pin(async move {
            if check_lookup(&config).is_err() {
                // This machine lacks a thread, which says nothing about the server.
                return true;
            }
            // A pooler accepts connections for a server that does not answer, so connecting is not enough.
            let probed = async {
                let (client, connection) = config.connect(tls).await?;
                tokio::select! {
                    answer = client.simple_query("SELECT 1") => answer.map(drop),
                    closed = connection => closed,
                }
            };
            match timeout(PROBE_TIMEOUT, probed).await {
                Ok(Ok(())) => true,
                Ok(Err(error)) => error.code().is_some(),
                Err(_) => false,
            }
        })
    })
}

fn silence(time: Duration) -> Failed {
    Failed::Silence(Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
}

fn block_on<T>(
    runtime: &Runtime,
    limit: Duration,
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, Failed> {
    match runtime.block_on(async { timeout(limit, answer).await }) {
        Ok(answer) => answer.map_err(Failed::Driver),
        Err(_) => Err(Failed::Silence(limit)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::time::Instant;

    use tokio_postgres::NoTls;

    use super::*;

    #[test]
    fn a_request_to_a_server_that_stops_answering_times_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut config = Config::new();
        config.user("me").host("127.0.0.1").port(listener.local_addr().unwrap().port());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            assert!(stream.read(&mut request).unwrap() > 0);
            // No password is required, and the server is ready; after that it sends nothing.
            stream.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").unwrap();
            while stream.read(&mut request).unwrap_or(0) > 0 {}
        });
        let mut client = Client::connect(&config, NoTls, Duration::from_mins(1)).unwrap();
        client.limit = Duration::from_millis(50);
        let since = Instant::now();
        let failed = client.simple_query("SELECT 1").unwrap_err();
        assert!(matches!(failed, Failed::Silence(_)), "{failed}");
        drop(client);
        assert!(since.elapsed() < Duration::from_secs(30));
        server.join().unwrap();
    }
}
