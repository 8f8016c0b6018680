//! One connection. Transactions on it begin and end with one round trip each.

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
use super::{error, owners, tls};
use crate::cell::Cell;
use crate::sql::{self, Query};

/// PostgreSQL 13.
const MIN_SERVER_VERSION: u32 = 130_000;
/// Since PostgreSQL 14, the server can check during a statement whether the client is still connected.
const CLIENT_CHECK_VERSION: u32 = 140_000;
/// Planner settings that force the use of indexes. Every statement reads a few rows along an index, but with outdated
/// statistics the planner considers a table small and would read and sort all of it. The disabled plan nodes get such high
/// costs that the server would compile statements just in time, or plan them again each time, which takes longer than
/// running them: so both are disabled, too.
const PLANNER_SETTINGS: &str = "SET LOCAL enable_seqscan TO off; SET LOCAL enable_bitmapscan TO off;
    SET LOCAL enable_sort TO off; SET LOCAL enable_hashjoin TO off; SET LOCAL enable_mergejoin TO off;
    SET LOCAL enable_material TO off;
    SET LOCAL jit TO off; SET LOCAL plan_cache_mode TO force_generic_plan;";
const CHECK_CLIENT: &str = "SET LOCAL client_connection_check_interval TO '1s';";
/// The server ends a transaction that is idle for longer. Waypost's transactions only wait for the server, so this is
/// how long a stopped process can block the others.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// The time that a statement may take in addition to waiting for a lock.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(15);

/// The least time for connecting: a distant server needs it.
const MIN_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The time that an answer may take in addition to the server's own timeouts.
const NETWORK_TIMEOUT: Duration = Duration::from_secs(5);

/// An expression that identifies the server: its system identifier, which differs in a new cluster, and its timeline,
/// which changes with every promotion and every point-in-time restore. The name of the log file contains the timeline at
/// once, the control file only after the next checkpoint.
const SERVER_NAME: &str = "(SELECT system_identifier FROM pg_catalog.pg_control_system()) || '/' ||
    CASE WHEN pg_catalog.pg_is_in_recovery() THEN '' ELSE
        pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8) END";
/// The expression for a server whose identifier cannot be read.
const NO_SERVER_NAME: &str = "NULL";

/// The first column of [`sql::STATE_GET`] in the answer to the begin of a transaction. Its columns are the last ones.
const STATE_COLUMN: usize = 6;
/// The only text among the columns of [`sql::STATE_GET`].
const TEXT_COLUMN: &str = "boot";

/// The reason why a connection could not be opened.
pub(super) enum Failure {
    /// An error of the driver.
    Driver(Failed),
    /// An error of this program, for example about an unsuitable server.
    Other(Error),
}

impl Failure {
    pub(super) fn into_error(self, address: &Address) -> Error {
        match self {
            Failure::Driver(error) => error::at(address, "cannot reach", &error),
            Failure::Other(error) => error,
        }
    }
}

pub(super) struct Connection {
    pub(super) client: Client,
    pub(super) server: Server,
    statements: HashMap<&'static str, Prepared>,
    /// The server process behind this connection in the last transaction.
    process: Option<String>,
    /// The number of transactions in a row with that process.
    transactions: u32,
    /// Whether the current transaction is retried if it fails.
    is_retried: bool,
    /// Whether the server process changes between transactions, so that prepared statements cannot be used.
    is_pooled: bool,
}

/// Facts about a server.
pub(super) struct Server {
    pub(super) version: u32,
    acknowledges_early: bool,
    /// The expression that identifies it.
    name: &'static str,
}

/// A statement in PostgreSQL's syntax.
#[derive(Clone)]
enum Prepared {
    /// Sent as text. That takes one round trip, while preparing takes two: most commands send a statement once.
    Text(String),
    /// Prepared on the server.
    Named(Statement),
}

impl Connection {
    /// Connects within the timeout, but at least [`MIN_CONNECT_TIMEOUT`], and checks that the server is suitable.
    pub(super) fn open(address: &Address, timeout: Duration) -> Result<Connection, Failure> {
        let mut client = client(address, timeout.max(MIN_CONNECT_TIMEOUT))?;
        client.limit = answer_timeout(timeout);
        let problem = owners::problem(address);
        let query = |name: &str| {
            format!(
                "SELECT current_setting('server_version_num'), current_setting('synchronous_commit'),
                    current_setting('server_encoding'), pg_catalog.pg_is_in_recovery(), {name}, {problem}"
            )
        };
        let (rows, name) = match client.simple_query(&query(SERVER_NAME)) {
            // Some managed services do not permit these functions.
            Err(failed) if is_unsupported(&failed) => (client.simple_query(&query(NO_SERVER_NAME)), NO_SERVER_NAME),
            result => (result, SERVER_NAME),
        };
        let rows = rows.map_err(Failure::Driver)?;
        let server = last_row(&rows)
            .ok_or_else(|| Error::internal("the server does not report its version"))
            .and_then(|row| Server::check(row, name, address))
            .map_err(Failure::Other)?;
        Ok(Connection {
            client,
            server,
            statements: HashMap::new(),
            process: None,
            transactions: 0,
            is_retried: false,
            is_pooled: false,
        })
    }

    /// Begins a transaction: sets its settings, acquires the lock and reads the time, in one round trip. The deadline is
    /// that of the request.
    pub(super) fn begin(
        &mut self,
        address: &Address,
        effect: Effect,
        timeout: Duration,
        deadline: Option<Instant>,
    ) -> Result<Begun, Failed> {
        self.is_retried = effect == Effect::Write;
        self.client.limit = answer_timeout(timeout);
        self.client.deadline = deadline;
        let rows = self.client.simple_query(&self.begin_statement(address, effect, timeout))?;
        let row = last_row(&rows);
        let text = |column: usize| row.and_then(|row| row.get(column));
        let number = |column: usize| text(column).and_then(|text| text.parse::<i64>().ok());
        // The server reads the clock after it has granted the lock.
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
        self.note_process(process.as_deref());
        Ok(Begun { now, version, is_here, known_server, server, state })
    }

    fn begin_statement(&self, address: &Address, effect: Effect, timeout: Duration) -> String {
        let mode = match effect {
            Effect::Read => "REPEATABLE READ READ ONLY",
            // Each statement sees all earlier commits, so it sees those of the writers that held the lock before.
            Effect::Write => "READ COMMITTED READ WRITE",
        };
        let lock = match effect {
            Effect::Read => String::new(),
            Effect::Write => format!("LOCK TABLE {} IN EXCLUSIVE MODE;", address.qualified("about")),
        };
        let (state, server) = (sql::STATE_GET, self.server.name);
        format!(
            "BEGIN ISOLATION LEVEL {mode}; {}{lock}
            SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, pg_backend_pid(), about.version, about.server,
                {server}, inet_server_addr() IS NULL, state.*
            FROM about LEFT JOIN ({state}) AS state ON true",
            self.settings(address, timeout)
        )
    }

    /// Returns the settings of a transaction. They end with it, because another client may use the session afterwards.
    pub(super) fn settings(&self, address: &Address, timeout: Duration) -> String {
        let millis = |duration: Duration| duration.as_millis().clamp(1, i32::MAX.cast_unsigned().into());
        let mut settings = format!(
            "SET LOCAL search_path TO pg_catalog, \"{}\", pg_temp; SET LOCAL lock_timeout TO {};
            SET LOCAL statement_timeout TO {}; SET LOCAL idle_in_transaction_session_timeout TO {};{PLANNER_SETTINGS}",
            address.schema,
            millis(timeout),
            millis(timeout.saturating_add(STATEMENT_TIMEOUT)),
            millis(IDLE_TIMEOUT)
        );
        if self.server.version >= CLIENT_CHECK_VERSION {
            settings += CHECK_CLIENT;
        }
        if self.server.acknowledges_early {
            settings += "SET LOCAL synchronous_commit TO on;";
        }
        settings
    }

    /// Notes which server process runs the transaction. Another process does not have the prepared statements.
    fn note_process(&mut self, process: Option<&str>) {
        let is_another = self.process.as_deref().is_some_and(|known| Some(known) != process);
        if is_another {
            self.is_pooled = true;
            self.statements.clear();
            self.transactions = 0;
        }
        self.transactions = self.transactions.saturating_add(1);
        self.process = process.map(str::to_owned);
    }

    /// Runs several queries in one round trip, and returns the rows of each.
    pub(super) fn query(&mut self, queries: &[Query]) -> Result<Vec<Vec<tokio_postgres::Row>>, Failed> {
        let started = queries.iter().map(|(sql, parameters)| self.start(sql, parameters)).collect::<Result<_, _>>()?;
        let results = self.client.finish(started);
        self.note_conflict(results)
    }

    /// Runs a statement that returns no rows, without waiting for it. If it fails, the next call that waits fails.
    pub(super) fn run(&mut self, sql: &'static str, parameters: &[Cell]) -> Result<(), Failed> {
        let started = self.start(sql, parameters)?;
        self.client.add_pending(started);
        Ok(())
    }

    /// Discards the results of pending statements, which are about to be rolled back.
    pub(super) fn discard_pending(&mut self) {
        self.client.discard_pending();
    }

    fn start(&mut self, sql: &'static str, parameters: &[Cell]) -> Result<Started, Failed> {
        match self.prepare(sql, parameters)? {
            Prepared::Text(text) => {
                self.client.start_typed(text, parameters.iter().map(|cell| (cell.clone(), type_of(cell))).collect())
            }
            Prepared::Named(statement) => self.client.start(statement, parameters.to_vec()),
        }
    }

    /// Returns a statement in the form that is cheapest to send now.
    fn prepare(&mut self, sql: &'static str, parameters: &[Cell]) -> Result<Prepared, Failed> {
        // A prepared statement stays with the server process. In a pool, other clients use the same names there.
        let may_prepare = !self.is_pooled && self.transactions >= 2 && self.is_retried;
        let prepared = match self.statements.get(sql) {
            None => Prepared::Text(with_dollars(sql)),
            Some(Prepared::Text(text)) if may_prepare => {
                let types: Vec<_> = parameters.iter().map(type_of).collect();
                let named = self.client.prepare_typed(text, &types);
                Prepared::Named(self.note_conflict(named)?)
            }
            Some(prepared) => return Ok(prepared.clone()),
        };
        self.statements.insert(sql, prepared.clone());
        Ok(prepared)
    }

    /// Notes that the connection is pooled if a prepared statement is missing or its name is already used.
    fn note_conflict<T>(&mut self, result: Result<T, Failed>) -> Result<T, Failed> {
        if result.as_ref().is_err_and(error::is_statement_conflict) {
            self.is_pooled = true;
            self.statements.clear();
        }
        result
    }

    /// Commits, and notifies listeners if the transaction wrote.
    pub(super) fn commit(&mut self, notify: Option<&str>) -> Result<(), Failed> {
        let committed = match notify {
            // If an earlier statement failed, NOTIFY fails, and the server does not run COMMIT.
            Some(channel) => self.client.batch_execute(&format!("NOTIFY {channel}; COMMIT")),
            None => self.client.batch_execute("COMMIT"),
        };
        self.note_conflict(committed)
    }

    pub(super) fn roll_back(&mut self) -> Result<(), Failed> {
        self.discard_pending();
        self.client.batch_execute("ROLLBACK")
    }

    /// Returns which client holds the lock of the store, if the server reports it.
    pub(super) fn holder(&mut self, address: &Address) -> Option<String> {
        self.roll_back().ok()?;
        let about = address.qualified("about");
        let rows = self
            .client
            .simple_query(&format!(
                "SELECT a.application_name, coalesce(a.client_addr::text, 'this machine'),
                    round(extract(epoch FROM clock_timestamp() - a.xact_start))
                FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
                WHERE l.locktype = 'relation' AND l.granted AND l.relation = '{about}'::pg_catalog.regclass
                    AND l.mode IN ('ExclusiveLock', 'AccessExclusiveLock') AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())"
            ))
            .ok()?;
        let row = last_row(&rows)?;
        Some(format!("{} on {} has held it for {} s", row.get(0)?, row.get(1)?, row.get(2)?))
    }
}

impl Server {
    fn check(row: &SimpleQueryRow, name: &'static str, address: &Address) -> Result<Server> {
        let refused = |why: &str| Error::unavailable(format!("the store {} cannot be used: {why}", address.shown()));
        let version = row.get(0).and_then(|text| text.parse().ok()).unwrap_or(0);
        if version < MIN_SERVER_VERSION {
            return Err(refused(&format!("it is PostgreSQL {}, and 13 or newer is required", version / 10_000)));
        }
        if row.get(2) != Some("UTF8") {
            return Err(refused(&format!("its encoding is {}", row.get(2).unwrap_or_default()))
                .hint("create a database with: createdb --encoding UTF8 --template template0 NAME"));
        }
        if row.get(3) == Some("t") {
            // A standby may be stale, and with a stale lease two agents would hold the same task.
            return Err(refused("it is a standby").hint("name the primary server"));
        }
        if let Some(problem) = row.get(5) {
            return Err(owners::refusal(address, problem));
        }
        Ok(Server { version, acknowledges_early: row.get(1) == Some("off"), name })
    }
}

/// Returns the maximum time for an answer. The server's own timeouts end before that.
fn answer_timeout(timeout: Duration) -> Duration {
    timeout.saturating_add(STATEMENT_TIMEOUT).saturating_add(NETWORK_TIMEOUT)
}

fn client(address: &Address, timeout: Duration) -> Result<Client, Failure> {
    let limit = address.config.get_connect_timeout().copied().unwrap_or(STATEMENT_TIMEOUT).min(timeout);
    match &address.security {
        Security::Plain => Client::connect(&address.config, NoTls, limit).map_err(Failure::Driver),
        Security::Verified { authorities } => {
            let connector = tls::connector(authorities.as_deref()).map_err(Failure::Other)?;
            Client::connect(&address.config, connector, limit).map_err(Failure::Driver)
        }
    }
}

/// Returns whether the server lacks a function, or does not permit the role to call it.
fn is_unsupported(failed: &Failed) -> bool {
    failed.code().is_some_and(|code| {
        [SqlState::INSUFFICIENT_PRIVILEGE, SqlState::UNDEFINED_FUNCTION, SqlState::FEATURE_NOT_SUPPORTED].contains(code)
    })
}

/// Returns the type of a parameter. For NULL the server infers it from the statement.
fn type_of(cell: &Cell) -> Type {
    match cell {
        Cell::Null => Type::UNKNOWN,
        Cell::Int(_) => Type::INT8,
        Cell::Real(_) => Type::FLOAT8,
        Cell::Text(_) => Type::TEXT,
    }
}

/// Translates `?1` to `$1`, and the list `json_each(?1)` to PostgreSQL's function for it.
///
/// A list of values to find becomes an array. PostgreSQL expects few elements of an array and looks each up in an index; of
/// a function it expects a hundred, and reads the whole table instead.
fn with_dollars(sql: &str) -> String {
    const LIST: &str = "IN (SELECT value FROM json_each($1))";
    const VALUES: &str = "SELECT jsonb_array_elements_text($1::jsonb)";
    let tasks = format!("(SELECT id FROM tasks WHERE workflow_id = ANY (ARRAY({VALUES})))");
    sql.replace('?', "$")
        .replace(&format!("NOT {LIST}"), &format!("NOT IN ({VALUES})"))
        .replace(LIST, &format!("= ANY (ARRAY({VALUES}))"))
        .replace(&format!("IN {tasks}"), &format!("= ANY (ARRAY{tasks})"))
        .replace("json_each($1)", "jsonb_array_elements_text($1::jsonb) AS listed(value)")
}

pub(super) fn last_row(messages: &[SimpleQueryMessage]) -> Option<&SimpleQueryRow> {
    messages.iter().rev().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use waypost_testkit::postgres_url;

    use super::*;
    use crate::postgres::{Options, PostgresStore};

    #[test]
    fn rows_of_a_few_workflows_are_looked_up_however_many_others_there_are() {
        let url = postgres_url();
        drop(PostgresStore::open(&url, Options::default()).unwrap());
        let (server, schema) = url.rsplit_once("?schema=").unwrap();
        let mut client = ::postgres::Client::connect(server, NoTls).unwrap();
        // The rows that these refer to are not needed for a plan.
        let rows = format!(
            "SET search_path TO {schema};
            SET session_replication_role = replica;
            INSERT INTO tasks (id, workflow_id, name, description, status, sequence, priority, plan, acceptance, context,
                context_from, capabilities, files, attempts, max_attempts, backoff_ms, needs_evidence, worktree_id, created_at,
                updated_at, queued_at)
            SELECT 'tk_' || n, 'wf_' || n / 100, 'task ' || n, repeat('Do it. ', 30), 'pending', n % 100, 2, '{{}}', '[]', '{{}}',
                '[]', '[]', '[]', 0, 3, 1000, 0, 'wt', n, n, n
            FROM generate_series(1, 50000) AS n;
            INSERT INTO leases (subject, epoch, granted_at, expires_at, ttl_ms, deadline, worktree_id)
            SELECT id, 1, 1, 1, 1, 1, 'wt' FROM tasks;
            INSERT INTO dependencies (task_id, depends_on, kind) SELECT id, 'tk_0', 'blocks' FROM tasks;
            ANALYZE;
            SET plan_cache_mode = force_generic_plan;"
        );
        client.batch_execute(&rows).unwrap();
        let statements = [
            ("tasks", sql::TASK_LIST_IN_WORKFLOWS),
            ("counts", sql::TASK_COUNT_IN_WORKFLOWS),
            ("leases", sql::LEASE_LIST_IN_WORKFLOWS),
            ("dependencies", sql::DEPENDENCY_LIST_IN_WORKFLOWS),
            ("removed_leases", sql::LEASE_REMOVE_OF_WORKFLOWS),
        ];
        for (name, statement) in statements {
            client.batch_execute(&format!("PREPARE {name}(text) AS {}", with_dollars(statement))).unwrap();
            let explained = client.query(&format!("EXPLAIN EXECUTE {name}('[\"wf_7\"]')"), &[]).unwrap();
            let plan: Vec<String> = explained.iter().map(|row| row.get(0)).collect();
            assert!(plan.iter().all(|line| !line.contains("Seq Scan")), "{name}:\n{}", plan.join("\n"));
        }
    }
}
