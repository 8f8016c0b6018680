//! One connection, and the texts that begin and end transactions on it in one round trip each.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{NoTls, SimpleQueryMessage, SimpleQueryRow, Statement};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};

use super::address::{Address, Security};
use super::begun::{Begun, Effect};
use super::client::{Client, Failed, Started};
use super::{error, tls};
use crate::cell::Cell;
use crate::sql::{self, Query};

/// PostgreSQL 13.
const OLDEST_SERVER: u32 = 130_000;
/// PostgreSQL 14 looks whether a client is still there while it works for it.
const CAN_CHECK_CLIENT: u32 = 140_000;
/// Every statement is written to go along an index, and takes a few rows from it. A table that grew since the server last
/// looked at it seems small to the planner, which would then read and sort all of it. What is turned off costs so much in
/// its eyes that it would compile the statement first, or plan it anew each time, which takes longer than running it.
const ALONG_INDEXES: &str = "SET LOCAL enable_seqscan TO off; SET LOCAL enable_bitmapscan TO off;
    SET LOCAL enable_sort TO off; SET LOCAL enable_hashjoin TO off; SET LOCAL enable_mergejoin TO off;
    SET LOCAL enable_material TO off;
    SET LOCAL jit TO off; SET LOCAL plan_cache_mode TO force_generic_plan;";
const CHECK_CLIENT: &str = "SET LOCAL client_connection_check_interval TO '1s';";
/// How long a transaction may do nothing before the server ends it. Ours never wait for anything but the server, so this
/// is how long a stopped process can keep the others waiting.
const IDLE: Duration = Duration::from_secs(10);
/// How much longer a statement may take than waiting for a lock.
const WORK: Duration = Duration::from_secs(15);

/// How long connecting may take at least: a server that is far away answers that late.
const MIN_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// How much longer than the server allows itself an answer may take to come.
const GRACE: Duration = Duration::from_secs(5);

/// Names the server: its system identifier, which a new cluster does not share, and its timeline, which is another after
/// every promotion and every restore to a point in time. The name of the log's file has the timeline at once, and the
/// control file only after the next checkpoint.
const SERVER_NAME: &str = "(SELECT system_identifier FROM pg_catalog.pg_control_system()) || '/' ||
    CASE WHEN pg_catalog.pg_is_in_recovery() THEN '' ELSE
        pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8) END";
/// The name of a server whose identifier cannot be read.
const NO_NAME: &str = "NULL";

/// The first column of [`sql::STATE_GET`] in the answer to the begin of a transaction. Its columns are the last ones.
const STATE_COLUMN: usize = 6;
/// The only text among the columns of [`sql::STATE_GET`].
const TEXT_COLUMN: &str = "boot";

/// Why there is no connection.
pub(super) enum Failure {
    /// The driver says why.
    Driver(Failed),
    /// We say why.
    Ours(Error),
}

impl Failure {
    pub(super) fn into_error(self, address: &Address) -> Error {
        match self {
            Failure::Driver(error) => error::at(address, "cannot reach", &error),
            Failure::Ours(error) => error,
        }
    }
}

pub(super) struct Connection {
    pub(super) client: Client,
    pub(super) server: Server,
    statements: HashMap<&'static str, Prepared>,
    /// The server's process behind this connection in the last transaction.
    process: Option<String>,
    /// In how many transactions it was that one.
    met: u32,
    /// Whether the transaction under way is done again if it fails.
    is_repeated: bool,
    /// Whether that process changes, so that nothing can be left with it.
    is_pooled: bool,
}

/// What was found out about a server.
pub(super) struct Server {
    pub(super) version: u32,
    acknowledges_early: bool,
    /// The expression that names it.
    name: &'static str,
}

/// A statement with its parameters written as PostgreSQL wants them.
#[derive(Clone)]
enum Prepared {
    /// Sent as text. One round trip, where preparing it would take two: most commands send a statement once.
    Text(String),
    /// Known to the server by name.
    Named(Statement),
}

impl Connection {
    /// Connects within a time, but a second at least, and looks at who is there.
    pub(super) fn open(address: &Address, at_most: Duration) -> Result<Connection, Failure> {
        let mut client = client(address, at_most.max(MIN_CONNECT_TIMEOUT))?;
        client.limit = answer_limit(at_most);
        let question = |name: &str| {
            format!(
                "SELECT current_setting('server_version_num'), current_setting('synchronous_commit'),
                    current_setting('server_encoding'), pg_catalog.pg_is_in_recovery(), {name}"
            )
        };
        let (rows, name) = match client.simple_query(&question(SERVER_NAME)) {
            // Some managed services do not permit these functions.
            Err(failed) if is_unsupported(&failed) => (client.simple_query(&question(NO_NAME)), NO_NAME),
            asked => (asked, SERVER_NAME),
        };
        let rows = rows.map_err(Failure::Driver)?;
        let server = last_row(&rows)
            .ok_or_else(|| Error::internal("the server does not say what it is"))
            .and_then(|row| Server::examine(row, name, address))
            .map_err(Failure::Ours)?;
        Ok(Connection {
            client,
            server,
            statements: HashMap::new(),
            process: None,
            met: 0,
            is_repeated: false,
            is_pooled: false,
        })
    }

    /// Begins a transaction: its settings, its turn and its time, in one round trip. The deadline is that of the request.
    pub(super) fn begin(
        &mut self,
        address: &Address,
        effect: Effect,
        patience: Duration,
        deadline: Option<Instant>,
    ) -> Result<Begun, Failed> {
        self.is_repeated = effect == Effect::Write;
        self.client.limit = answer_limit(patience);
        self.client.deadline = deadline;
        let rows = self.client.simple_query(&self.beginning(address, effect, patience))?;
        let row = last_row(&rows);
        let text = |column: usize| row.and_then(|row| row.get(column));
        let number = |column: usize| text(column).and_then(|text| text.parse::<i64>().ok());
        // The clock is read after our turn has come.
        let now = Timestamp::from_millis(number(0).unwrap_or_default());
        let known_server = text(3).map(str::to_owned);
        let server = text(4).map(str::to_owned);
        let (version, is_here) = (number(2).unwrap_or_default(), text(5) == Some("t"));
        let columns = row.map(SimpleQueryRow::columns).unwrap_or_default();
        let cell = |column: usize| match number(column) {
            Some(number) if columns[column].name() != TEXT_COLUMN => Cell::Int(number),
            _ => Cell::from(text(column)),
        };
        let state = (STATE_COLUMN..columns.len()).map(cell).collect();
        let process = text(1).map(str::to_owned);
        self.meet(process.as_deref());
        Ok(Begun { now, version, is_here, known_server, server, state })
    }

    fn beginning(&self, address: &Address, effect: Effect, patience: Duration) -> String {
        let mode = match effect {
            Effect::Read => "REPEATABLE READ READ ONLY",
            // Each statement sees what was committed before it, so all of them see what those before us did.
            Effect::Write => "READ COMMITTED READ WRITE",
        };
        let lock = match effect {
            Effect::Read => String::new(),
            Effect::Write => format!("SELECT pg_catalog.pg_advisory_xact_lock({});", address.lock()),
        };
        let (state, server) = (sql::STATE_GET, self.server.name);
        format!(
            "BEGIN ISOLATION LEVEL {mode}; {}{lock}
            SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, pg_backend_pid(), about.version, about.server,
                {server}, inet_server_addr() IS NULL, state.*
            FROM about LEFT JOIN ({state}) AS state ON true",
            self.settings(address, patience)
        )
    }

    /// Returns the settings that hold until the transaction ends. The session may be somebody else's after that.
    pub(super) fn settings(&self, address: &Address, patience: Duration) -> String {
        let millis = |duration: Duration| duration.as_millis().clamp(1, i32::MAX.cast_unsigned().into());
        let mut settings = format!(
            "SET LOCAL search_path TO pg_catalog, \"{}\", pg_temp; SET LOCAL lock_timeout TO {};
            SET LOCAL statement_timeout TO {}; SET LOCAL idle_in_transaction_session_timeout TO {};{ALONG_INDEXES}",
            address.schema,
            millis(patience),
            millis(patience.saturating_add(WORK)),
            millis(IDLE)
        );
        if self.server.version >= CAN_CHECK_CLIENT {
            settings += CHECK_CLIENT;
        }
        if self.server.acknowledges_early {
            settings += "SET LOCAL synchronous_commit TO on;";
        }
        settings
    }

    /// Notes which process of the server works for us. If it is another one, prepared statements are not there.
    fn meet(&mut self, process: Option<&str>) {
        let is_another = self.process.as_deref().is_some_and(|known| Some(known) != process);
        if is_another {
            self.is_pooled = true;
            self.statements.clear();
            self.met = 0;
        }
        self.met = self.met.saturating_add(1);
        self.process = process.map(str::to_owned);
    }

    /// Asks several things at once, and returns the rows of each answer.
    pub(super) fn query(&mut self, questions: &[Query]) -> Result<Vec<Vec<tokio_postgres::Row>>, Failed> {
        let all = questions.iter().map(|(sql, parameters)| self.start(sql, parameters)).collect::<Result<_, _>>()?;
        let answers = self.client.finish(all);
        self.learn(answers)
    }

    /// Runs a statement that returns no rows. If it fails, whatever is waited for next does.
    pub(super) fn run(&mut self, sql: &'static str, parameters: &[Cell]) -> Result<(), Failed> {
        let started = self.start(sql, parameters)?;
        self.client.leave(started);
        Ok(())
    }

    /// Forgets what was run and has not been waited for: it is about to be undone.
    pub(super) fn forget_left(&mut self) {
        self.client.forget_left();
    }

    fn start(&mut self, sql: &'static str, parameters: &[Cell]) -> Result<Started, Failed> {
        match self.prepare(sql, parameters)? {
            Prepared::Text(text) => {
                self.client.start_typed(text, parameters.iter().map(|cell| (cell.clone(), type_of(cell))).collect())
            }
            Prepared::Named(statement) => self.client.start(statement, parameters.to_vec()),
        }
    }

    /// Returns a statement in the form in which it is best sent now.
    fn prepare(&mut self, sql: &'static str, parameters: &[Cell]) -> Result<Prepared, Failed> {
        // A name stays with the server's process, and if that is lent to others, they have the same names.
        let may_name = !self.is_pooled && self.met >= 2 && self.is_repeated;
        let prepared = match self.statements.get(sql) {
            None => Prepared::Text(with_dollars(sql)),
            Some(Prepared::Text(text)) if may_name => {
                let types: Vec<_> = parameters.iter().map(type_of).collect();
                let named = self.client.prepare_typed(text, &types);
                Prepared::Named(self.learn(named)?)
            }
            Some(known) => return Ok(known.clone()),
        };
        self.statements.insert(sql, prepared.clone());
        Ok(prepared)
    }

    /// Learns from an error that the connection is lent to several: they left names with the process, or it has not ours.
    fn learn<T>(&mut self, answer: Result<T, Failed>) -> Result<T, Failed> {
        if answer.as_ref().is_err_and(error::is_about_names) {
            self.is_pooled = true;
            self.statements.clear();
        }
        answer
    }

    /// Makes everything last, and tells those who wait if there was a write.
    pub(super) fn commit(&mut self, notify: Option<&str>) -> Result<(), Failed> {
        let committed = match notify {
            // If something that was sent before has failed, the first fails, and the second is not looked at.
            Some(channel) => self.client.batch_execute(&format!("NOTIFY {channel}; COMMIT")),
            None => self.client.batch_execute("COMMIT"),
        };
        self.learn(committed)
    }

    pub(super) fn roll_back(&mut self) -> Result<(), Failed> {
        self.forget_left();
        self.client.batch_execute("ROLLBACK")
    }

    /// Returns who has the turn that did not come to us, if the server tells.
    pub(super) fn holder(&mut self, address: &Address) -> Option<String> {
        self.roll_back().ok()?;
        let lock = address.lock();
        let (high, low) = (lock.cast_unsigned() >> 32, lock.cast_unsigned() & 0xffff_ffff);
        let rows = self
            .client
            .simple_query(&format!(
                "SELECT a.application_name, coalesce(a.client_addr::text, 'this machine'),
                    round(extract(epoch FROM clock_timestamp() - a.xact_start))
                FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
                WHERE l.locktype = 'advisory' AND l.granted AND l.classid = {high} AND l.objid = {low}
                    AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())"
            ))
            .ok()?;
        let row = last_row(&rows)?;
        Some(format!("{} on {} has it since {} s", row.get(0)?, row.get(1)?, row.get(2)?))
    }
}

impl Server {
    fn examine(row: &SimpleQueryRow, name: &'static str, address: &Address) -> Result<Server> {
        let refused = |why: &str| Error::unavailable(format!("the store {} cannot be used: {why}", address.shown()));
        let version = row.get(0).and_then(|text| text.parse().ok()).unwrap_or(0);
        if version < OLDEST_SERVER {
            return Err(refused(&format!("it is PostgreSQL {}, and 13 or newer is needed", version / 10_000)));
        }
        if row.get(2) != Some("UTF8") {
            return Err(refused(&format!("its encoding is {}", row.get(2).unwrap_or_default()))
                .hint("make a database with: createdb --encoding UTF8 --template template0 NAME"));
        }
        if row.get(3) == Some("t") {
            // It may be behind, and a lease that is seen too late is held twice.
            return Err(refused("it is a standby").hint("name the primary server"));
        }
        Ok(Server { version, acknowledges_early: row.get(1) == Some("off"), name })
    }
}

/// Returns how long an answer may take if the server lives, which itself gives up before that.
fn answer_limit(patience: Duration) -> Duration {
    patience.saturating_add(WORK).saturating_add(GRACE)
}

fn client(address: &Address, at_most: Duration) -> Result<Client, Failure> {
    let limit = address.config.get_connect_timeout().copied().unwrap_or(WORK).min(at_most);
    match &address.security {
        Security::Plain => Client::connect(&address.config, NoTls, limit).map_err(Failure::Driver),
        Security::Verified { authorities } => {
            let connector = tls::connector(authorities.as_deref()).map_err(Failure::Ours)?;
            Client::connect(&address.config, connector, limit).map_err(Failure::Driver)
        }
    }
}

/// Returns whether the server does not have a function, or does not permit the role to call it.
fn is_unsupported(failed: &Failed) -> bool {
    failed.code().is_some_and(|code| {
        [SqlState::INSUFFICIENT_PRIVILEGE, SqlState::UNDEFINED_FUNCTION, SqlState::FEATURE_NOT_SUPPORTED].contains(code)
    })
}

/// Returns the type of a parameter; nothing has the type that the statement wants there.
fn type_of(cell: &Cell) -> Type {
    match cell {
        Cell::Null => Type::UNKNOWN,
        Cell::Int(_) => Type::INT8,
        Cell::Real(_) => Type::FLOAT8,
        Cell::Text(_) => Type::TEXT,
    }
}

/// Writes `?1` as `$1`, and the list `json_each(?1)` with PostgreSQL's function for it.
fn with_dollars(sql: &str) -> String {
    sql.replace('?', "$").replace("json_each($1)", "jsonb_array_elements_text($1::jsonb) AS listed(value)")
}

pub(super) fn last_row(messages: &[SimpleQueryMessage]) -> Option<&SimpleQueryRow> {
    messages.iter().rev().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    })
}
