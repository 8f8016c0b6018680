//! Finds and reads the databases and files of other programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use waypost_core::tables::Tables;
use waypost_core::{Error, Result, path_text, url_text, yaml};
use waypost_import::Note;
use waypost_import::workflows::{agentdb, caw, langgraph, pedrocli, read_rows, to_json};
use waypost_store::{foreign, postgres};

use crate::app::session::Session;
use crate::machine::place::expand;

/// Larger files are refused, because all rows are read into memory.
const MAX_FILE_BYTES: u64 = 512 * 1024 * 1024;
/// The settings file of PedroCLI.
const PEDROCLI_SETTINGS: &str = ".pedrocli.json";
/// How to export an AgentDB.
const EXPORT_HINT: &str =
    "export it as JSON: duckdb FILE \"EXPORT DATABASE 'DIR' (FORMAT json)\"; then way import agentdb DIR";
/// How long to wait for a PostgreSQL server if the configuration does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The program that wrote a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// AgentDB, exported by DuckDB as JSON.
    Agentdb,
    /// caw.
    Caw,
    /// LangGraph, with its `SqliteSaver`.
    Langgraph,
    /// PedroCLI.
    Pedrocli,
}

impl Program {
    /// All programs.
    pub const ALL: [Program; 4] = [Program::Agentdb, Program::Caw, Program::Langgraph, Program::Pedrocli];

    /// Parses its name.
    pub fn parse(name: &str) -> Option<Program> {
        Program::ALL.into_iter().find(|program| program.name() == name)
    }

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Program::Agentdb => "agentdb",
            Program::Caw => "caw",
            Program::Langgraph => "langgraph",
            Program::Pedrocli => "pedrocli",
        }
    }
}

/// The content of a source.
pub(super) enum Source {
    Caw(Tables),
    CawTemplate {
        name: String,
        definition: Value,
    },
    Langgraph(Tables),
    PedrocliJobs(Vec<Value>),
    PedrocliSettings {
        value: Value,
        dir: PathBuf,
    },
    Agentdb(BTreeMap<String, Vec<Value>>),
    /// A file that could not be read.
    Note(Note),
}

/// Returns the program that wrote a file, if its content tells; none for other files.
pub fn detect(path: &Path) -> Option<Program> {
    match foreign::program(path)? {
        foreign::DUCKDB => Some(Program::Agentdb),
        name => Program::parse(name),
    }
}

/// Returns a source's name for messages, without a password.
pub(super) fn shown(source: &Path) -> String {
    url_text::without_password(&path_text::to_text(source))
}

/// Reads everything that a program has at a path.
pub(super) fn read(session: &Session, program: Program, source: &Path) -> Result<Vec<Source>> {
    let place = &session.place;
    let scratch = place.scratch_dir();
    if program == Program::Pedrocli
        && let Some(url) = source.to_str().filter(|text| is_postgres(text))
    {
        let timeout = place.config.duration("store.wait").unwrap_or(DEFAULT_TIMEOUT);
        let rows = postgres::read_table(url, "jobs", timeout)?;
        return Ok(vec![Source::PedrocliJobs(rows)]);
    }
    let path = expand(source, &place.cwd, &place.variables)?;
    match program {
        Program::Caw => {
            let file = database_in(&path, &[".caw/workflows.db", "workflows.db"]);
            let mut sources = templates(file.parent().unwrap_or(&path))?;
            sources.push(Source::Caw(foreign::read(&file, &scratch, caw::TABLES)?));
            Ok(sources)
        }
        Program::Langgraph => Ok(vec![Source::Langgraph(foreign::read(&path, &scratch, langgraph::TABLES)?)]),
        Program::Pedrocli if path.is_dir() => pedrocli_directory(&path),
        Program::Pedrocli => pedrocli_file(&path, &scratch).map(|source| vec![source]),
        Program::Agentdb => agentdb_tables(&path).map(|tables| vec![Source::Agentdb(tables)]),
    }
}

fn is_postgres(text: &str) -> bool {
    text.starts_with("postgres://") || text.starts_with("postgresql://")
}

/// Returns the database in a directory, or the path itself if it is a file.
fn database_in(path: &Path, names: &[&str]) -> PathBuf {
    let in_directory = names.iter().map(|name| path.join(name)).find(|file| file.is_file());
    in_directory.unwrap_or_else(|| path.to_owned())
}

fn read_file(path: &Path) -> Result<Vec<u8>> {
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
    std::fs::read(path).map_err(cannot)
}

/// Returns the files of a directory, sorted by name.
fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let cannot = |error| Error::invalid(format!("cannot read {}", dir.display())).because(error);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(cannot)? {
        files.push(entry.map_err(cannot)?.path());
    }
    files.retain(|path| path.is_file());
    files.sort();
    Ok(files)
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension().is_some_and(|own| extensions.iter().any(|extension| own == *extension))
}

/// Reads the templates that caw keeps in files beside its database. They come before those in the database.
fn templates(dir: &Path) -> Result<Vec<Source>> {
    let dir = dir.join("templates");
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for path in files(&dir)?.into_iter().filter(|path| has_extension(path, &["json", "yaml", "yml"])) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = read_file(&path)
            .and_then(|bytes| String::from_utf8(bytes).map_err(|error| Error::invalid("not UTF-8").because(error)));
        found.push(match text.and_then(|text| yaml::read(&text)) {
            Ok(definition) => Source::CawTemplate { name, definition },
            Err(error) => Source::Note(Note::new(path.display().to_string(), error.full_message())),
        });
    }
    Ok(found)
}

fn pedrocli_file(path: &Path, scratch: &Path) -> Result<Source> {
    if foreign::is_sqlite(path) {
        let tables = foreign::read(path, scratch, pedrocli::TABLES)?;
        return Ok(Source::PedrocliJobs(tables.values().flatten().map(to_json).collect()));
    }
    let rows = read_rows(&read_file(path)?).map_err(|error| error.within(path.display()))?;
    if let [settings] = rows.as_slice()
        && pedrocli::is_settings(settings)
    {
        let dir = path.parent().unwrap_or(path).to_owned();
        return Ok(Source::PedrocliSettings { value: settings.clone(), dir });
    }
    if !rows.is_empty() && !rows.iter().any(pedrocli::is_job) {
        return Err(Error::invalid(format!("{} has no jobs and no settings of PedroCLI", path.display())).hint(
            "export its jobs: psql -Atc 'SELECT json_agg(jobs) FROM jobs' > jobs.json; or name its database: way import pedrocli postgres://...",
        ));
    }
    Ok(Source::PedrocliJobs(rows))
}

/// Reads the settings in a directory, and the jobs that older versions kept in files.
fn pedrocli_directory(dir: &Path) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    let mut jobs = Vec::new();
    let settings = dir.join(PEDROCLI_SETTINGS);
    if settings.is_file() {
        sources.push(pedrocli_file(&settings, dir)?);
    }
    let is_job = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("job-") && has_extension(path, &["json"])
    };
    for path in files(dir)?.into_iter().filter(is_job) {
        match read_file(&path).and_then(|bytes| read_rows(&bytes)) {
            Ok(rows) => jobs.extend(rows),
            Err(error) => sources.push(Source::Note(Note::new(path.display().to_string(), error.full_message()))),
        }
    }
    if !jobs.is_empty() {
        sources.push(Source::PedrocliJobs(jobs));
    }
    if sources.is_empty() {
        return Err(Error::invalid(format!("{} has no files of PedroCLI", dir.display()))
            .hint(format!("they are {PEDROCLI_SETTINGS} and job-*.json")));
    }
    Ok(sources)
}

fn agentdb_tables(path: &Path) -> Result<BTreeMap<String, Vec<Value>>> {
    let not_exported = |what: &str| Err(Error::invalid(format!("{}{what}", path.display())).hint(EXPORT_HINT));
    let exported = if path.is_dir() { files(path)? } else { vec![path.to_owned()] };
    if !path.is_dir() && foreign::program(path) == Some(foreign::DUCKDB) {
        return not_exported(" is a database of DuckDB, which way cannot read");
    }
    let mut tables = BTreeMap::new();
    for file in exported.iter().filter(|file| has_extension(file, &["json"])) {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if agentdb::TABLES.contains(&name.as_str()) {
            let rows = read_rows(&read_file(file)?).map_err(|error| error.within(file.display()))?;
            tables.insert(name, rows);
        }
    }
    if tables.is_empty() && !path.exists() {
        return Err(Error::not_found(format!("there is no file {}", path.display())));
    }
    if tables.is_empty() {
        return not_exported(" has no tables of an AgentDB as JSON");
    }
    Ok(tables)
}
