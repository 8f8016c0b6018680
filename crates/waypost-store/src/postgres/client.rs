//! The driver, asked one thing after the other, and never waited for without end.
//!
//! What is only to be done is not waited for at all: it goes to the server together with the next question, and whoever
//! waits for that answer hears of it, too, if something went wrong before. Several questions can go together.
//!
//! A server may take the connection and then say nothing: it was stopped, its disk hangs, or something else listens
//! there. Neither the system nor the driver notices that. A statement may also take long on a server that works. So at the
//! request's deadline a second connection finds out whether the server still answers, and then again every second.

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

/// A statement in line, or on its way to an answer.
pub(super) type Started = Pin<Box<dyn Future<Output = Result<Vec<Row>, tokio_postgres::Error>> + Send>>;

/// How long a server may take to hear that we leave.
const FAREWELL: Duration = Duration::from_millis(500);

/// Asks the server something on a new connection. Returns whether it answers, also if it refuses.
type Probe = Box<dyn Fn() -> Pin<Box<dyn Future<Output = bool> + Send>> + Send>;

/// How long after the deadline the first probe starts: the server's own lock timeout ends at the deadline, and its answer
/// takes some time to arrive.
const PROBE_DELAY: Duration = Duration::from_millis(250);
/// How long a server may take to answer a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long to wait for the answer of a living server before probing again.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failed {
    /// The driver says why.
    Driver(tokio_postgres::Error),
    /// Nothing came for so long.
    Silence(Duration),
    /// This machine lacks what a connection takes: descriptors or threads.
    System(std::io::Error),
}

impl Failed {
    /// Returns what the driver says, if it says anything.
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
            Failed::Silence(limit) => write!(f, "the server said nothing for {limit:?}"),
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
    /// What we ask. None once we leave.
    asked: Option<Arc<tokio_postgres::Client>>,
    /// What was started since the last answer and nobody waits for, in order.
    left: Vec<Started>,
    /// Reads and writes what the client wants, while somebody waits for an answer.
    connection: JoinHandle<()>,
    notifications: UnboundedReceiver<()>,
    probe: Probe,
    /// When the server has to prove that it lives, if an answer is missing. None if that is too far away to be told.
    pub(super) deadline: Option<Instant>,
    /// How long an answer may take although the server lives.
    pub(super) limit: Duration,
    /// Whether an answer was waited for in vain.
    pub(super) is_silent: bool,
}

impl Client {
    /// Connects, within a time.
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
                    // Whoever is not there any more needs none.
                    let _ = sender.send(());
                }
            }
        });
        let asked = Some(Arc::new(client));
        Ok(Client {
            runtime,
            asked,
            left: Vec::new(),
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

    /// Puts a statement in line for the server. It leaves with whatever is waited for next.
    pub(super) fn start(&self, statement: Statement, parameters: Vec<Cell>) -> Result<Started, Failed> {
        let client = self.client();
        self.in_line(async move {
            let parameters: Vec<_> = parameters.iter().map(|cell| cell as _).collect();
            client.query(&statement, &parameters).await
        })
    }

    /// The same with a statement that the server does not know.
    pub(super) fn start_typed(&self, sql: String, parameters: Vec<(Cell, Type)>) -> Result<Started, Failed> {
        let client = self.client();
        self.in_line(async move {
            let parameters: Vec<_> = parameters.iter().map(|(cell, kind)| (cell as _, kind.clone())).collect();
            client.query_typed(&sql, &parameters).await
        })
    }

    fn in_line(
        &self,
        asked: impl Future<Output = Result<Vec<Row>, tokio_postgres::Error>> + Send + 'static,
    ) -> Result<Started, Failed> {
        let mut started: Started = Box::pin(asked);
        let _within = self.runtime.enter();
        match started.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => Ok(started),
            Poll::Ready(Ok(rows)) => Ok(Box::pin(ready(Ok(rows)))),
            // It never left: the server does not know of it, and would let a commit pass.
            Poll::Ready(Err(error)) => Err(Failed::Driver(error)),
        }
    }

    /// Waits for the answers.
    pub(super) fn finish(&mut self, all: Vec<Started>) -> Result<Vec<Vec<Row>>, Failed> {
        self.wait_for(async {
            let mut answers = Vec::with_capacity(all.len());
            for started in all {
                answers.push(started.await?);
            }
            Ok(answers)
        })
    }

    /// Does not wait for the answer. If it is an error, whoever waits next for another is told.
    pub(super) fn leave(&mut self, started: Started) {
        self.left.push(started);
    }

    /// Forgets what was left, and whether it failed.
    pub(super) fn forget_left(&mut self) {
        self.left.clear();
    }

    /// Waits for an answer, and for those to all that was left before. The first error is the cause of the others.
    fn wait_for<T>(&mut self, answer: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, Failed> {
        let left = std::mem::take(&mut self.left);
        let before = async {
            for started in left {
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
            // A server that has been waited for in vain is not waited for again to roll back.
            self.limit = Duration::ZERO;
            self.is_silent = true;
        }
        answer
    }

    /// Waits for an answer: until the deadline in any case, and after that as long as the server answers others.
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

    /// Waits for a notification, at most so long. Returns false if the connection is gone. Several are as good as one.
    pub(super) fn hear(&mut self, at_most: Duration) -> bool {
        let heard = self.runtime.block_on(async { timeout(at_most, self.notifications.recv()).await });
        while self.notifications.try_recv().is_ok() {}
        !matches!(heard, Ok(None)) && !self.connection.is_finished()
    }

    fn client(&self) -> Arc<tokio_postgres::Client> {
        Arc::clone(self.asked.as_ref().expect("it is there until we leave"))
    }
}

impl Drop for Client {
    /// Says farewell, so that the server need not find out.
    fn drop(&mut self) {
        self.left.clear();
        self.asked = None;
        // The driver says it after the last answer, and a silent server sends none.
        if !self.is_silent {
            let connection = &mut self.connection;
            let _ = self.runtime.block_on(async { timeout(FAREWELL, connection).await });
        }
    }
}

/// Refuses to look up a host name if no thread can be started: the runtime does that in one, and panics without.
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
                // This machine lacks something, and that says nothing about the server.
                return true;
            }
            // A pooler accepts connections for a server that does not answer, so connecting is not enough.
            let asked = async {
                let (client, connection) = config.connect(tls).await?;
                tokio::select! {
                    answer = client.simple_query("SELECT 1") => answer.map(drop),
                    closed = connection => closed,
                }
            };
            match timeout(PROBE_TIMEOUT, asked).await {
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
    fn a_server_that_falls_silent_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut config = Config::new();
        config.user("me").host("127.0.0.1").port(listener.local_addr().unwrap().port());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 1024];
            assert!(stream.read(&mut asked).unwrap() > 0);
            // That no password is needed, and that it is ready; and then no more.
            stream.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").unwrap();
            while stream.read(&mut asked).unwrap_or(0) > 0 {}
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
