//! The store as a schema of a PostgreSQL database.
//!
//! Writers are serialized: a write transaction first locks the table `about`, which the server grants in order and
//! releases when the transaction ends in any way. So two concurrent writes cannot break a rule together, and the history
//! has no gaps. Only a role that may write can take this lock; every role that can connect could take an advisory one. No
//! state is kept in the server's session, because with pooled connections the next transaction may run in another one.

mod address;
mod begun;
mod client;
mod connection;
mod error;
mod foreign;
mod migrate;
mod options;
mod owners;
mod row_cache;

mod tls;
mod tx;
mod upkeep;
mod wait;

use std::time::{Duration, Instant};

use rustix::event::{Timespec, poll};
use waypost_core::Result;
use waypost_core::clock::{Clock, Reading};
use waypost_core::store::{Store, Tx};
use waypost_core::time::Timestamp;
use waypost_fs::{boot_clock, kernel_time_ms};

use self::address::Address;
use self::begun::{Begun, Effect};
use self::client::Failed;
use self::connection::Connection;
use crate::tx::SqlTx;

pub use foreign::read_table;
pub use migrate::SCHEMA_VERSION;
pub use options::Options;
pub use upkeep::Info;

/// The pause before the first retry when a server is unavailable. It doubles with each retry.
const MIN_RETRY_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause between two retries.
const MAX_RETRY_PAUSE: Duration = Duration::from_millis(500);

/// How long a command that starts waits for a server at whose address nothing listens. A restart takes less; after it the
/// server listens, and says until when it cannot be used.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(2);

/// After waiting this long for a server, a warning is logged.
const WARNING_DELAY: Duration = Duration::from_secs(1);

/// The time after a timeout in which requests fail at once. Further requests of the same command, or others that wait in
/// the same server process, would otherwise each wait for the whole timeout.
const SILENCE_PAUSE: Duration = Duration::from_millis(500);

/// An open store.
pub struct PostgresStore {
    address: Address,
    timeout: Duration,
    /// The attempts at the current request, which share one timeout.
    request: Option<Attempts>,
    /// None after it was lost; the next transaction opens another.
    connection: Option<Connection>,
    /// The time of the last timeout.
    silent_at: Option<Instant>,
    /// The connection that receives notifications of writes, once a caller waits for them.
    listener: Option<wait::Listener>,
    /// Replaces the server's clock.
    clock: Option<Box<dyn Clock + Send>>,
    /// Whether the server may differ from the one that the store knows.
    accepts_any_server: bool,
}

impl PostgresStore {
    /// Opens the store at a URL, and creates its schema if it is missing.
    ///
    /// Waypost itself handles the URL parameters `schema`, `owner`, `sslmode` and `sslrootcert`.
    pub fn open(url: &str, options: Options) -> Result<PostgresStore> {
        let address = Address::parse(url, options.timeout)?;
        let timeout = options.timeout;
        let mut store = PostgresStore {
            address,
            timeout,
            request: None,
            connection: None,
            silent_at: None,
            listener: None,
            clock: None,
            accepts_any_server: false,
        };
        let mut attempts = Attempts::new(timeout);
        loop {
            let is_retriable = |error: &Failed, waited: Duration| {
                error::is_restarting(error) && !(error::is_refused(error) && waited > REFUSED_TIMEOUT)
            };
            let mut connection = store.connect(is_retriable, &mut attempts)?;
            match migrate::migrate(&mut connection, &store.address, attempts.left(), options) {
                Err(error) if error.is_transient() && attempts.pause() => {}
                done => {
                    store.connection = Some(connection);
                    return done.map(|()| store);
                }
            }
        }
    }

    /// Replaces the store's clock. All users of a store must share one clock, so this is only for simulations that use a
    /// store alone.
    #[must_use]
    pub fn at_time_of(self, clock: Box<dyn Clock + Send>) -> PostgresStore {
        PostgresStore { clock: Some(clock), ..self }
    }

    /// Permits a server that took over from the one that the store knows and may lack acknowledged writes. For the command
    /// with which a person accepts the failover.
    #[must_use]
    pub fn accepting_any_server(self) -> PostgresStore {
        PostgresStore { accepts_any_server: true, ..self }
    }

    /// Returns the URL without the password.
    pub fn url(&self) -> &str {
        self.address.shown()
    }

    /// Sets the maximum time to wait for other writers or the server, and returns the previous one.
    pub fn set_timeout(&mut self, timeout: Duration) -> Duration {
        std::mem::replace(&mut self.timeout, timeout)
    }

    /// Connects, and retries errors that `is_retriable` accepts after the time that was waited.
    fn connect(
        &mut self,
        is_retriable: impl Fn(&Failed, Duration) -> bool,
        attempts: &mut Attempts,
    ) -> Result<Connection> {
        loop {
            match Connection::open(&self.address, attempts.left()) {
                Err(connection::Failure::Driver(error))
                    if is_retriable(&error, attempts.started.elapsed()) && attempts.pause() =>
                {
                    if attempts.is_first_after(WARNING_DELAY) {
                        log::warn!("{}", error::at(&self.address, "waiting for", &error).full_message());
                    }
                }
                Err(failure) => {
                    if matches!(failure, connection::Failure::Driver(Failed::Silence(_))) {
                        self.silent_at = Some(Instant::now());
                    }
                    return Err(failure.into_error(&self.address));
                }
                Ok(connection) => return Ok(connection),
            }
        }
    }

    /// Begins a transaction, on a new connection if the old one was lost.
    fn begin(&mut self, effect: Effect) -> Result<Begun> {
        let begun = self.try_to_begin(effect);
        if begun.is_err() {
            self.roll_back();
        }
        begun
    }

    fn try_to_begin(&mut self, effect: Effect) -> Result<Begun> {
        let mut attempts = self.request.clone().unwrap_or_else(|| Attempts::new(self.timeout));
        if self.is_silent() {
            return Err(error::at(&self.address, "cannot reach", &Failed::Silence(self.timeout)));
        }
        loop {
            let connection = match self.connection.take() {
                Some(connection) => connection,
                None => self.connect(|error, _| error::is_loss(error), &mut attempts)?,
            };
            let connection = self.connection.insert(connection);
            let failed = match connection.begin(&self.address, effect, attempts.left(), attempts.deadline) {
                Ok(begun) => return self.check(&begun).map(|()| begun),
                Err(failed) => failed,
            };
            if !error::is_loss(&failed) {
                let holder = if error::is_lock_timeout(&failed) { connection.holder(&self.address) } else { None };
                return Err(error::begin(&self.address, &failed, effect, self.timeout, holder));
            }
            // The transaction has not begun, so it can be retried.
            self.drop_connection();
            if !attempts.pause() {
                return Err(error::at(&self.address, "cannot reach", &failed));
            }
        }
    }

    /// Refuses a schema that another program changed, and a server that took over. Each transaction checks, because a pool
    /// may give it another connection than the last one.
    fn check(&self, begun: &Begun) -> Result<()> {
        migrate::check(begun, &self.address)?;
        let is_known = begun.known_server.is_none() || begun.known_server == begun.server;
        if is_known || self.accepts_any_server { Ok(()) } else { Err(error::failover(&self.address, begun)) }
    }

    /// Rolls back a transaction. Drops the connection if that fails.
    fn roll_back(&mut self) {
        if self.connection.as_mut().is_some_and(|connection| connection.roll_back().is_err()) {
            self.drop_connection();
        }
    }

    fn drop_connection(&mut self) {
        if self.connection.take().is_some_and(|connection| connection.client.is_silent) {
            self.silent_at = Some(Instant::now());
        }
    }

    /// Returns whether a request timed out a moment ago.
    fn is_silent(&self) -> bool {
        self.silent_at.is_some_and(|silent_at| silent_at.elapsed() < SILENCE_PAUSE)
    }

    fn tx(&mut self, effect: Effect) -> Result<Box<dyn Tx + '_>> {
        let begun = self.begin(effect)?;
        let clock = match &self.clock {
            Some(clock) => clock.reading(),
            None => self.reading(&begun),
        };
        let mut tx = tx::PostgresTx::new(self, effect, clock, begun);
        tx.record_new_server()?;
        Ok(Box::new(SqlTx::new(tx)))
    }

    /// Returns the reading of the server's clock. On the same machine both share the boot clock; a server on another
    /// machine makes this machine's wall clock a second source.
    fn reading(&self, begun: &Begun) -> Reading {
        let is_here = begun.is_here && self.address.is_socket();
        let boot = if is_here { boot_clock() } else { None };
        let second = (!is_here).then(|| Timestamp::from_millis(kernel_time_ms()));
        Reading::Machine { wall: begun.now, boot, second }
    }
}

impl Store for PostgresStore {
    fn begin_read(&mut self) -> Result<Box<dyn Tx + '_>> {
        self.tx(Effect::Read)
    }

    fn begin_write(&mut self) -> Result<Box<dyn Tx + '_>> {
        self.tx(Effect::Write)
    }

    fn wait(&mut self, last: u64, at_most: Duration) -> Result<()> {
        wait::wait(self, last, at_most)
    }

    fn begin_request(&mut self) {
        self.request = Some(Attempts::new(self.timeout));
    }

    fn end_request(&mut self) {
        self.request = None;
    }

    fn may_retry(&mut self) -> bool {
        !self.is_silent() && self.request.as_mut().is_some_and(Attempts::pause)
    }

    fn is_remote(&self) -> bool {
        true
    }
}

/// Attempts at one request, with exponential pauses, until one shared deadline.
#[derive(Clone)]
struct Attempts {
    timeout: Duration,
    started: Instant,
    is_late: bool,
    /// None if it is too far away to be represented.
    deadline: Option<Instant>,
    next_pause: Duration,
    is_first: bool,
}

impl Attempts {
    fn new(timeout: Duration) -> Attempts {
        let started = Instant::now();
        let deadline = started.checked_add(timeout);
        Attempts { timeout, started, is_late: false, deadline, next_pause: MIN_RETRY_PAUSE, is_first: true }
    }

    /// Returns true once, when the attempts have taken longer than `delay`.
    fn is_first_after(&mut self, delay: Duration) -> bool {
        !std::mem::replace(&mut self.is_late, self.started.elapsed() > delay) && self.is_late
    }

    /// Returns the time for the next attempt. The first has the whole timeout.
    fn left(&self) -> Duration {
        match self.deadline {
            Some(deadline) if !self.is_first => deadline.saturating_duration_since(Instant::now()),
            _ => self.timeout,
        }
    }

    /// Pauses before the next attempt. Returns false at once if the time is up.
    fn pause(&mut self) -> bool {
        self.is_first = false;
        let left = self.left();
        if left.is_zero() {
            return false;
        }
        pause(self.next_pause.min(left));
        self.next_pause = (self.next_pause * 2).min(MAX_RETRY_PAUSE);
        true
    }
}

/// Waits for a time. There is no event to wait for: an unavailable server does not announce its return.
fn pause(duration: Duration) {
    let timeout = Timespec { tv_sec: duration.as_secs().cast_signed(), tv_nsec: i64::from(duration.subsec_nanos()) };
    // After an interruption the caller tries again earlier, which is harmless.
    let _ = poll(&mut [], Some(&timeout));
}
