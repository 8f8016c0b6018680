//! Reading SQLite databases of other programs. They are never written.
//!
//! A file from elsewhere may be damaged or hostile: its schema is not trusted, only real tables are read, and the size of
//! files, values and tables is limited. If the database has a log, a copy is read, because SQLite would change the log.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use waypost_core::tables::{Datum, Row, Tables};
use waypost_core::{Error, Result};

/// The bytes of a path that are escaped in a URI.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_');
/// The first bytes of every SQLite database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Larger files are refused, because all rows are read into memory.
const MAX_FILE_BYTES: u64 = 2 * 1024 * 1024 * 1024;
/// Larger values are read as NULL.
const MAX_VALUE_BYTES: i64 = 64 * 1024 * 1024;
/// Tables with more rows are refused.
const MAX_ROWS: usize = 5_000_000;

/// Reads tables of a database, each with its required columns. A missing table has no rows, but the first table must
/// exist.
///
/// A copy, if one is needed, is made in `scratch` and removed afterwards.
pub fn read(path: &Path, scratch: &Path, required: &[(&str, &[&str])]) -> Result<Tables> {
    check(path)?;
    let copy = Copy::of(path, scratch)?;
    let connection = match &copy {
        Some(copy) => Connection::open_with_flags(copy.path(), OpenFlags::SQLITE_OPEN_READ_WRITE),
        None => Connection::open_with_flags(
            uri(path),
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        ),
    };
    let damaged = |error: rusqlite::Error| {
        Error::damaged(format!("{} cannot be read as a database", path.display())).because(error)
    };
    let connection = connection.map_err(damaged)?;
    connection
        .execute_batch(
            "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0; PRAGMA query_only = ON;",
        )
        .map_err(damaged)?;
    let mut tables = Tables::new();
    for (number, (table, needed)) in required.iter().enumerate() {
        let columns = columns(&connection, table).map_err(damaged)?;
        if columns.is_empty() && number > 0 {
            continue;
        }
        let missing: Vec<_> = needed.iter().copied().filter(|column| !columns.contains(*column)).collect();
        if !missing.is_empty() {
            return Err(if columns.is_empty() {
                Error::invalid(format!("{} has no table {table}", path.display()))
            } else {
                Error::invalid(format!("the table {table} of {} has no {}", path.display(), missing.join(", ")))
            });
        }
        tables.insert((*table).to_owned(), rows(&connection, table, &columns).map_err(damaged)??);
    }
    Ok(tables)
}

/// The name of DuckDB in the answer of [`program`].
pub const DUCKDB: &str = "duckdb";
/// The bytes of every DuckDB database after its checksum.
const DUCKDB_MAGIC: &[u8; 4] = b"DUCK";

/// Tables by which databases of other programs are recognised.
const PROGRAMS: &[(&str, &[&str])] = &[
    ("langgraph", &["checkpoints", "writes"]),
    ("caw", &["workflows", "tasks", "task_dependencies"]),
    ("pedrocli", &["jobs", "job_artifacts"]),
];

/// Returns the program whose database a file is: the name of an importer, or [`DUCKDB`]; none if it is not known.
pub fn program(path: &Path) -> Option<&'static str> {
    let head = head(path)?;
    if head[8..12] == *DUCKDB_MAGIC {
        return Some(DUCKDB);
    }
    if head != *MAGIC {
        return None;
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    program_of(&Connection::open_with_flags(uri(path), flags).ok()?)
}

/// Returns the program whose database this is.
pub(crate) fn program_of(connection: &Connection) -> Option<&'static str> {
    let has = |table: &str| columns(connection, table).is_ok_and(|columns| !columns.is_empty());
    PROGRAMS.iter().find(|(_, tables)| tables.iter().all(|table| has(table))).map(|(name, _)| *name)
}

/// Tells whether a file begins like an SQLite database.
pub fn is_sqlite(path: &Path) -> bool {
    head(path).is_some_and(|head| head == *MAGIC)
}

fn head(path: &Path) -> Option<[u8; 16]> {
    let mut head = [0; MAGIC.len()];
    let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    is_file.then(|| std::fs::File::open(path).ok()?.read_exact(&mut head).ok())??;
    Some(head)
}

/// Refuses a file that is not a database, before SQLite opens it.
fn check(path: &Path) -> Result<()> {
    let cannot = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::not_found(format!("there is no file {}", path.display())),
        _ => Error::invalid(format!("cannot read {}", path.display())).because(error),
    };
    let metadata = std::fs::metadata(path).map_err(cannot)?;
    if !metadata.is_file() {
        return Err(Error::invalid(format!("{} is not a file", path.display())));
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(Error::invalid(format!("{} is larger than {MAX_FILE_BYTES} bytes", path.display())));
    }
    std::fs::File::open(path).map_err(cannot)?;
    if !is_sqlite(path) {
        return Err(Error::invalid(format!("{} is not an SQLite database", path.display())));
    }
    Ok(())
}

/// Returns a URI with which SQLite locks nothing and creates no files beside the database.
fn uri(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let escaped = percent_encode(path.as_os_str().as_bytes(), ESCAPED);
    format!("file:{escaped}?immutable=1")
}

/// Returns the columns of a real table. None if it is a view, a virtual table, or missing.
fn columns(connection: &Connection, table: &str) -> rusqlite::Result<BTreeSet<String>> {
    let is_real: i64 = connection.query_row(
        "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1 AND rootpage > 0",
        [table],
        |row| row.get(0),
    )?;
    if is_real != 1 {
        return Ok(BTreeSet::new());
    }
    // Hidden and generated columns are left out: SQLite would have to compute them.
    let mut statement = connection.prepare("SELECT name FROM pragma_table_xinfo(?1) WHERE hidden = 0")?;
    statement.query_map([table], |row| row.get(0))?.collect()
}

fn rows(connection: &Connection, table: &str, columns: &BTreeSet<String>) -> rusqlite::Result<Result<Vec<Row>>> {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let columns: Vec<&String> = columns.iter().collect();
    let selected: Vec<_> = columns
        .iter()
        .map(|name| {
            let name = quoted(name);
            format!("CASE WHEN length(CAST({name} AS BLOB)) <= {MAX_VALUE_BYTES} THEN {name} END")
        })
        .collect();
    let mut statement = connection.prepare(&format!("SELECT {} FROM {}", selected.join(", "), quoted(table)))?;
    let mut cursor = statement.query([])?;
    let mut rows = Vec::new();
    while let Some(row) = cursor.next()? {
        if rows.len() >= MAX_ROWS {
            return Ok(Err(Error::invalid(format!("the table {table} has more than {MAX_ROWS} rows"))));
        }
        let mut read = Row::new();
        for (number, name) in columns.iter().enumerate() {
            let datum = match row.get_ref(number)? {
                ValueRef::Null => Datum::Null,
                ValueRef::Integer(number) => Datum::Int(number),
                ValueRef::Real(number) => Datum::Real(number),
                ValueRef::Text(text) => Datum::Text(String::from_utf8_lossy(text).into_owned()),
                ValueRef::Blob(bytes) => Datum::Blob(bytes.to_vec()),
            };
            read.insert((*name).clone(), datum);
        }
        rows.push(read);
    }
    Ok(Ok(rows))
}

/// A copy of a database with its log, removed when dropped.
struct Copy {
    dir: PathBuf,
}

impl Copy {
    /// Copies the database if it has a log.
    fn of(path: &Path, scratch: &Path) -> Result<Option<Copy>> {
        let beside = |end: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(end);
            PathBuf::from(name)
        };
        let logs = ["-wal", "-journal"];
        let has_log = |end: &&str| std::fs::metadata(beside(end)).is_ok_and(|log| log.len() > 0);
        if !logs.iter().any(has_log) {
            return Ok(None);
        }
        let dir = scratch.join(format!("import-{}", std::process::id()));
        waypost_fs::create_private_dir(&dir)
            .map_err(|error| Error::unavailable(format!("cannot create {}", dir.display())).because(error))?;
        let copy = Copy { dir };
        for (from, end) in std::iter::once((path.to_owned(), "")).chain(logs.map(|end| (beside(end), end))) {
            if from.exists() {
                std::fs::copy(&from, copy.dir.join(format!("copy.db{end}")))
                    .map_err(|error| Error::unavailable(format!("cannot copy {}", from.display())).because(error))?;
            }
        }
        Ok(Some(copy))
    }

    fn path(&self) -> PathBuf {
        self.dir.join("copy.db")
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        for end in ["", "-wal", "-journal", "-shm"] {
            let _ = std::fs::remove_file(self.dir.join(format!("copy.db{end}")));
        }
        let _ = std::fs::remove_dir(&self.dir);
    }
}
