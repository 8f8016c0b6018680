//! The store as a schema of a PostgreSQL database.
//!
//! Writers take turns here too: the first thing a write does is to wait for a lock of the schema, which the server hands
//! out in order and takes back when the transaction ends, however it ends. So no rule can be broken by two writes that
//! did not see each other, and the history has no gaps. Nothing is kept in the server's session, which may be another one
//! in the next transaction where connections are pooled.

mod address;
mod begun;
mod client;
mod connection;
mod error;
mod migrate;
mod statement_cache;
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

pub use migrate::SCHEMA_VERSION;
pub use upkeep::Info;

/// How long to wait before asking again a server that is not there: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// After this time of waiting for a server, the user is told.
const NOTE_DELAY: Duration = Duration::from_secs(1);

/// How long a server that did not answer in time is not asked again. A command may have further requests, and a server many
/// that wait: they share one deadline.
const SILENCE_PAUSE: Duration = Duration::from_millis(500);

/// How to open a store.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long to wait for others before giving up.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options { patience: Duration::from_secs(30) }
    }
}

/// An open store.
pub struct PostgresStore {
    address: Address,
    patience: Duration,
    /// The attempts at the request under way, which share one timeout.
    request: Option<Attempts>,
    /// None after it was lost; the next transaction makes another.
    connection: Option<Connection>,
    /// When the server did not answer in time.
    silent_at: Option<Instant>,
    /// The one that hears of others' writes, once somebody waits for them.
    listener: Option<wait::Listener>,
    /// Says what time it is instead of the server.
    clock: Option<Box<dyn Clock + Send>>,
    /// Whether it may be another server than the one that the store knows.
    accepts_any_server: bool,
}

impl PostgresStore {
    /// Opens the store at a URL, making its schema first if there is none.
    ///
    /// Parameters of the URL that are ours: `schema`, `sslmode`, `sslrootcert`.
    pub fn open(url: &str, options: Options) -> Result<PostgresStore> {
        let address = Address::parse(url, options.patience)?;
        let patience = options.patience;
        let mut store = PostgresStore {
            address,
            patience,
            request: None,
            connection: None,
            silent_at: None,
            listener: None,
            clock: None,
            accepts_any_server: false,
        };
        let mut attempts = Attempts::new(patience);
        loop {
            let mut connection = store.connect(error::is_restarting, &mut attempts)?;
            match migrate::bring_up_to_date(&mut connection, &store.address, attempts.left()) {
                Err(error) if error.is_transient() && attempts.pause() => {}
                done => {
                    store.connection = Some(connection);
                    return done.map(|()| store);
                }
            }
        }
    }

    /// The same store at a time that is given. All who use a store must agree on it, so this is for those who use one
    /// alone: simulations.
    #[must_use]
    pub fn at_time_of(self, clock: Box<dyn Clock + Send>) -> PostgresStore {
        PostgresStore { clock: Some(clock), ..self }
    }

    /// The same store, also on a server that took over from the one it knows and may lack acknowledged writes. For the
    /// operation by which a person accepts that.
    #[must_use]
    pub fn accepting_any_server(self) -> PostgresStore {
        PostgresStore { accepts_any_server: true, ..self }
    }

    /// Returns the URL as it may be shown: without a password.
    pub fn url(&self) -> &str {
        self.address.shown()
    }

    /// Sets how long to wait for others, and returns how long it was.
    pub fn set_patience(&mut self, patience: Duration) -> Duration {
        std::mem::replace(&mut self.patience, patience)
    }

    /// Connects; while the server is away in a way that is worth waiting for, again and again.
    fn connect(&mut self, is_worth_waiting: fn(&Failed) -> bool, attempts: &mut Attempts) -> Result<Connection> {
        loop {
            match Connection::open(&self.address, attempts.left()) {
                Err(connection::Failure::Driver(error)) if is_worth_waiting(&error) && attempts.pause() => {
                    if attempts.is_first_after(NOTE_DELAY) {
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

    /// Begins a transaction, on a new connection if the old one was lost while nobody used it.
    fn begin(&mut self, effect: Effect) -> Result<Begun> {
        let begun = self.try_to_begin(effect);
        if begun.is_err() {
            self.roll_back();
        }
        begun
    }

    fn try_to_begin(&mut self, effect: Effect) -> Result<Begun> {
        let mut attempts = self.request.clone().unwrap_or_else(|| Attempts::new(self.patience));
        if self.is_silent() {
            return Err(error::at(&self.address, "cannot reach", &Failed::Silence(self.patience)));
        }
        loop {
            let connection = match self.connection.take() {
                Some(connection) => connection,
                None => self.connect(error::is_loss, &mut attempts)?,
            };
            let connection = self.connection.insert(connection);
            let failed = match connection.begin(&self.address, effect, attempts.left(), attempts.deadline) {
                Ok(begun) => return self.check(&begun).map(|()| begun),
                Err(failed) => failed,
            };
            if !error::is_loss(&failed) {
                let holder = if error::is_lock_timeout(&failed) { connection.holder(&self.address) } else { None };
                return Err(error::begin(&self.address, &failed, effect, self.patience, holder));
            }
            // Nothing has happened yet, so it can be done again.
            self.drop_connection();
            if !attempts.pause() {
                return Err(error::at(&self.address, "cannot reach", &failed));
            }
        }
    }

    /// Refuses what another program changed, and a server that took over. Each transaction looks, because a pool may have
    /// given it another connection than the last one.
    fn check(&self, begun: &Begun) -> Result<()> {
        migrate::check(begun, &self.address)?;
        let is_known = begun.known_server.is_none() || begun.known_server == begun.server;
        if is_known || self.accepts_any_server { Ok(()) } else { Err(error::failover(&self.address, begun)) }
    }

    /// Ends a transaction without effect. A connection on which that fails is of no use any more.
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

    /// Returns whether the server did not answer in time a moment ago.
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
        tx.learn_server()?;
        Ok(Box::new(SqlTx::new(tx)))
    }

    /// Returns what the server's clock shows. On the same machine the boot clock is the same for both; another machine's
    /// wall clock is a second one.
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
        self.request = Some(Attempts::new(self.patience));
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

/// Attempts at one thing, with a longer pause after each, until one deadline that all of them share.
#[derive(Clone)]
struct Attempts {
    timeout: Duration,
    started: Instant,
    is_late: bool,
    /// None if it is too far away to be told.
    deadline: Option<Instant>,
    next_pause: Duration,
    is_first: bool,
}

impl Attempts {
    fn new(timeout: Duration) -> Attempts {
        let started = Instant::now();
        let deadline = started.checked_add(timeout);
        Attempts { timeout, started, is_late: false, deadline, next_pause: PAUSE.0, is_first: true }
    }

    /// Tells once that the attempts have taken longer than this.
    fn is_first_after(&mut self, delay: Duration) -> bool {
        !std::mem::replace(&mut self.is_late, self.started.elapsed() > delay) && self.is_late
    }

    /// Returns how much time the next attempt has. The first has all of it.
    fn left(&self) -> Duration {
        match self.deadline {
            Some(deadline) if !self.is_first => deadline.saturating_duration_since(Instant::now()),
            _ => self.timeout,
        }
    }

    /// Waits a little before the next attempt. Returns false at once if the time is up.
    fn pause(&mut self) -> bool {
        self.is_first = false;
        let left = self.left();
        if left.is_zero() {
            return false;
        }
        pause(self.next_pause.min(left));
        self.next_pause = (self.next_pause * 2).min(PAUSE.1);
        true
    }
}

/// Waits. Nobody tells when a server is back, so there is nothing to wait for but time.
fn pause(at_most: Duration) {
    let timeout = Timespec { tv_sec: at_most.as_secs().cast_signed(), tv_nsec: i64::from(at_most.subsec_nanos()) };
    // Interrupted is as good as over: the caller looks again.
    let _ = poll(&mut [], Some(&timeout));
}
