//! Finds and reads the files of another tracker.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use waypost_core::{Error, Result, path_text, url_text};
use waypost_import::issues::{Format, Source, vibe_kanban};
use waypost_store::foreign;
use waypost_workspace::{Checkout, detect, surroundings};

use crate::machine::environment::Variables;
use crate::machine::place::vcs_environment;

/// Paths of the tools' files below a project.
const TASKMASTER: &[&str] = &[".taskmaster/tasks/tasks.json", "tasks/tasks.json", "tasks.json"];
const BEADS: &[&str] =
    &[".beads/issues.jsonl", ".beads/beads.jsonl", "issues.jsonl", "beads.jsonl", ".waypost/issues.jsonl"];
/// The tables of a backup of beads that belong to its issues.
const BEADS_TABLES: &[&str] = &["dependencies.jsonl", "labels.jsonl", "comments.jsonl"];
const BACKLOG: &[&str] = &["backlog", ".backlog", ""];
/// Folders of Backlog.md with tasks.
const BACKLOG_TASKS: &[&str] = &["tasks", "completed", "archive/tasks", "drafts", "archive/drafts"];
/// Folders of Backlog.md with milestones.
const BACKLOG_MILESTONES: &[&str] = &["milestones", "archive/milestones"];
/// Folders of Backlog.md with other documents.
const BACKLOG_DOCUMENTS: &[&str] = &["docs", "decisions"];
/// Folders nested deeper are not read.
const MAX_DEPTH: usize = 8;

/// Names of folders that belong to a tool and not to the project.
const TOOL_FOLDERS: &[&str] = &["backlog", ".backlog", "tasks", "completed", "archive", "drafts", ".taskmaster"];

/// Reads a file, a folder, or standard input for `-`, and guesses the format if it is not given. Skips `ledger`, the ledger
/// that is written, in a folder. Copies a database that is in use to `scratch` before it reads it.
pub fn sources(
    path: &Path,
    format: Option<Format>,
    ledger: Option<&Path>,
    scratch: &Path,
) -> Result<(Vec<Source>, Format)> {
    if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        surroundings::stdin()
            .read_to_end(&mut bytes)
            .map_err(|error| Error::invalid("cannot read standard input").because(error))?;
        return with_format(vec![Source { name: "standard input".to_owned(), bytes }], format);
    }
    let (shown, path) = (path.to_string_lossy(), &surroundings::resolve(path));
    if let Some(file) = vibe_kanban_database(path, format) {
        let tables = foreign::read(&file, scratch, vibe_kanban::TABLES)?;
        let source = vibe_kanban::from_tables(file.to_string_lossy().into_owned(), &tables);
        return Ok((vec![source], Format::VibeKanban));
    }
    if !path.is_dir() {
        let (mut sources, format) = with_format(vec![source(path, &shown)?], format)?;
        match format {
            Format::Backlog => sources.extend(milestones_of(path.parent().unwrap_or(path))?),
            Format::Beads => sources.extend(tables_beside(path)?),
            _ => {}
        }
        return Ok((sources, format));
    }
    match format {
        Some(format @ (Format::Github | Format::Taskwarrior | Format::Csv)) => {
            Err(Error::invalid(format!("{shown} is a folder, but {format} is imported from a file")))
        }
        Some(format) => {
            let found = sources_in(path, format, ledger)?;
            if found.is_empty() {
                return Err(Error::invalid(format!("{shown} has no files of {format}")));
            }
            Ok((found, format))
        }
        None => {
            let mut found = Vec::new();
            for format in [Format::Backlog, Format::Taskmaster, Format::Beads] {
                let sources = sources_in(path, format, ledger)?;
                if !sources.is_empty() {
                    found.push((sources, format));
                }
            }
            match found.len() {
                1 => Ok(found.remove(0)),
                0 => Err(unknown_format(&shown)),
                _ => {
                    let names: Vec<&str> = found.iter().map(|(_, format)| format.name()).collect();
                    Err(Error::ambiguous(format!("{shown} has files of several tools: {}", names.join(", ")))
                        .hint("name the format: way import FORMAT DIR"))
                }
            }
        }
    }
}

/// Returns the name of the project that contains a file or folder; `None` if it is unknown or the project of the ledger
/// that is written.
///
/// Every clone with the same remote gives the same name.
pub fn project(path: &Path, into: &Checkout, variables: &Variables) -> Result<Option<String>> {
    if path.as_os_str() == "-" {
        return Ok(None);
    }
    let name = |checkout: &Checkout| {
        checkout.remote_url.as_deref().map_or_else(|| checkout.repository_name(), url_text::project)
    };
    let real = std::fs::canonicalize(surroundings::resolve(path))
        .map_err(|error| Error::invalid(format!("cannot find {}", path.display())).because(error))?;
    let folder = if real.is_dir() { real.as_path() } else { real.parent().unwrap_or(&real) };
    let Some(checkout) = detect(folder, &vcs_environment(&variables.without_git(), None))? else {
        let is_tool_folder =
            |dir: &&Path| dir.file_name().is_some_and(|name| TOOL_FOLDERS.iter().any(|folder| name == *folder));
        let project = folder.ancestors().find(|dir| !is_tool_folder(dir));
        return Ok(project.map(path_text::name_of).filter(|name| !name.is_empty()));
    };
    let is_own = checkout.shared_dir == into.shared_dir || (into.remote_url.is_some() && name(&checkout) == name(into));
    Ok((!is_own).then(|| name(&checkout)))
}

/// Returns the database of Vibe Kanban at a path, if it is meant: no other format of issues is a database.
fn vibe_kanban_database(path: &Path, format: Option<Format>) -> Option<PathBuf> {
    let is_meant = format.is_none_or(|format| format == Format::VibeKanban);
    let candidates = [path.to_owned(), path.join(vibe_kanban::DATABASE)];
    candidates.into_iter().find(|file| is_meant && foreign::is_sqlite(file))
}

fn with_format(sources: Vec<Source>, format: Option<Format>) -> Result<(Vec<Source>, Format)> {
    match format.or_else(|| Format::guess(&sources)) {
        Some(format) => Ok((sources, format)),
        None => Err(unknown_format(sources.first().map_or("the input", |source| &source.name))),
    }
}

fn unknown_format(name: &str) -> Error {
    Error::invalid(format!("the format of {name} is unknown"))
        .hint("name it: way import FORMAT FILE")
        .hint(Format::list_names())
}

fn source(path: &Path, name: &str) -> Result<Source> {
    let bytes = std::fs::read(path).map_err(|error| Error::invalid(format!("cannot read {name}")).because(error))?;
    Ok(Source { name: name.to_owned(), bytes })
}

fn sources_in(dir: &Path, format: Format, ledger: Option<&Path>) -> Result<Vec<Source>> {
    let own = ledger.and_then(|ledger| std::fs::canonicalize(ledger).ok());
    let is_own = |path: &Path| own.is_some() && std::fs::canonicalize(path).ok() == own;
    let files = match format {
        Format::Backlog => {
            let base = BACKLOG.iter().map(|name| dir.join(name)).find(|base| base.join("tasks").is_dir());
            if let Some(base) = base {
                return tasks(&base);
            }
            let mut found: Vec<Source> = pages(dir, &folder_name(dir), 0)?.into_iter().filter(is_task).collect();
            if !found.is_empty() {
                found.extend(milestones_of(dir)?);
            }
            return Ok(found);
        }
        Format::Taskmaster => TASKMASTER,
        Format::Beads => BEADS,
        Format::Github | Format::Taskwarrior | Format::VibeKanban | Format::Csv => &[],
    };
    let found = files.iter().map(|name| (dir.join(name), name)).find(|(path, _)| path.is_file() && !is_own(path));
    let Some((path, name)) = found else { return Ok(Vec::new()) };
    let mut sources = vec![source(&path, name)?];
    if format == Format::Beads {
        sources.extend(tables_beside(&path)?);
    }
    Ok(sources)
}

/// Reads what a backup of beads has beside its issues: a file for each table.
fn tables_beside(issues: &Path) -> Result<Vec<Source>> {
    let dir = issues.parent().unwrap_or(issues);
    if !BEADS_TABLES.iter().any(|table| dir.join(table).is_file()) {
        return Ok(Vec::new());
    }
    let cannot = |error| Error::invalid(format!("cannot read {}", dir.display())).because(error);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(cannot)? {
        paths.push(entry.map_err(cannot)?.path());
    }
    paths.retain(|path| path != issues && path.is_file() && path.extension().is_some_and(|kind| kind == "jsonl"));
    paths.sort();
    paths.iter().map(|path| source(path, &path_text::name_of(path))).collect()
}

/// Reads the tasks, milestones and documents in a folder of Backlog.md.
fn tasks(base: &Path) -> Result<Vec<Source>> {
    let mut found = pages_in(base, BACKLOG_TASKS, 0)?;
    found.extend(pages_in(base, BACKLOG_MILESTONES, 0)?);
    // Only real documents: the folders come with a readme.
    found.extend(pages_in(base, BACKLOG_DOCUMENTS, MAX_DEPTH)?.into_iter().filter(is_task));
    Ok(found)
}

/// Reads the milestones that the tasks in a folder of Backlog.md may name.
fn milestones_of(folder: &Path) -> Result<Vec<Source>> {
    let real = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let base = BACKLOG_TASKS.iter().find_map(|tasks| {
        let depth = tasks.split('/').count();
        real.ends_with(tasks).then(|| real.ancestors().nth(depth)).flatten()
    });
    base.map_or_else(|| Ok(Vec::new()), |base| pages_in(base, BACKLOG_MILESTONES, 0))
}

fn pages_in(base: &Path, folders: &[&str], depth: usize) -> Result<Vec<Source>> {
    let mut found = Vec::new();
    for folder in folders {
        if base.join(folder).is_dir() {
            found.extend(pages(&base.join(folder), folder, depth)?);
        }
    }
    Ok(found)
}

fn is_task(source: &Source) -> bool {
    Format::guess(std::slice::from_ref(source)) == Some(Format::Backlog)
}

fn folder_name(dir: &Path) -> String {
    // `.` has no file name.
    let real = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Reads the Markdown files of a folder, and of the folders in it down to a depth.
fn pages(dir: &Path, shown: &str, depth: usize) -> Result<Vec<Source>> {
    let cannot = |error| Error::invalid(format!("cannot read {}", dir.display())).because(error);
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(cannot)? {
        paths.push(entry.map_err(cannot)?.path());
    }
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        let name = format!("{shown}/{}", path.file_name().unwrap_or_default().to_string_lossy());
        if path.is_dir() && depth > 0 {
            found.extend(pages(&path, &name, depth - 1)?);
        } else if path.extension().is_some_and(|extension| extension == "md") && path.is_file() {
            found.push(source(&path, &name)?);
        }
    }
    Ok(found)
}
