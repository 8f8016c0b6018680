//! Finds processes that use a directory: as working directory, or with an open file.
//!
//! Only Linux provides this. Elsewhere the list is empty, and the caller must keep track of its jobs.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use waypost_core::{Error, Result};

/// A process that uses a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its id.
    pub id: u32,
    /// The name of its program.
    pub name: String,
    /// The path that it uses.
    #[serde(with = "waypost_core::path_text::serde")]
    pub at: PathBuf,
}

/// Lists the processes that use a directory or anything below it. Processes of other users are not visible.
pub fn processes_in(dir: &Path) -> Result<Vec<Process>> {
    let Ok(dir) = std::fs::canonicalize(dir) else { return Ok(Vec::new()) };
    let processes = match std::fs::read_dir("/proc") {
        Ok(processes) => processes,
        Err(_) if !cfg!(target_os = "linux") => return Ok(Vec::new()),
        // A failure must not look like an unused directory.
        Err(error) => return Err(Error::unavailable("cannot list processes").because(error)),
    };
    let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    Ok(numbers.filter(|id| !only_runs_our_hook(*id)).filter_map(|id| find_use(id, &dir)).collect())
}

/// Returns whether a process is the shell in which a coding agent runs our hook that removes the directory. The agent starts
/// it there, and it does nothing else.
fn only_runs_our_hook(id: u32) -> bool {
    let parent = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get().unsigned_abs());
    parent == Some(id)
        && std::fs::read(format!("/proc/{id}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains("way hook worktree-remove"))
}

/// Refuses to touch a directory that a process uses.
pub(super) fn check_no_process_in(dir: &Path) -> Result<()> {
    match processes_in(dir)?.first() {
        None => Ok(()),
        Some(Process { id, name, .. }) => {
            Err(Error::refused(format!("process {id} ({name}) lives in {}", dir.display())).hint("stop it first"))
        }
    }
}

fn find_use(id: u32, dir: &Path) -> Option<Process> {
    let own = PathBuf::from(format!("/proc/{id}"));
    let is_inside = |link: PathBuf| std::fs::read_link(link).ok().filter(|target| target.starts_with(dir));
    let opened = || {
        let files = std::fs::read_dir(own.join("fd")).ok()?;
        files.flatten().find_map(|file| is_inside(file.path()))
    };
    let mapped = || {
        let files = std::fs::read_dir(own.join("map_files")).ok()?;
        files.flatten().find_map(|file| is_inside(file.path()))
    };
    let at =
        ["cwd", "root", "exe"].iter().find_map(|link| is_inside(own.join(link))).or_else(opened).or_else(mapped)?;
    let name = std::fs::read_to_string(own.join("comm")).unwrap_or_default().trim_end().to_owned();
    Some(Process { id, name, at })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_uses_a_directory_while_it_has_a_file_open() {
        let dir = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(dir.path().join("file")).unwrap();
        let living = processes_in(dir.path()).unwrap();
        assert!(living.iter().any(|process| process.id == std::process::id()), "{living:?}");
        drop(file);
        assert_eq!(processes_in(dir.path()).unwrap(), []);
    }
}
