//! Which processes live in a directory: work there, or have a file of it open.
//!
//! Only Linux tells. Elsewhere nobody is seen, and what keeps track of jobs must know by itself.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use waypost_core::{Error, Result};

/// A process, as it was when it was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub id: u32,
    /// What its program is called.
    pub name: String,
    /// Where it was seen.
    #[serde(with = "waypost_core::path_text::serde")]
    pub at: PathBuf,
}

/// Lists the processes that live in a directory or below. One that may not be looked at is another user's.
pub fn living_in(dir: &Path) -> Result<Vec<Process>> {
    let Ok(dir) = std::fs::canonicalize(dir) else { return Ok(Vec::new()) };
    let processes = match std::fs::read_dir("/proc") {
        Ok(processes) => processes,
        Err(_) if !cfg!(target_os = "linux") => return Ok(Vec::new()),
        // "Nobody is there" and "cannot look" are not the same.
        Err(error) => return Err(Error::unavailable("cannot see which processes there are").because(error)),
    };
    let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    Ok(numbers.filter_map(|id| look(id, &dir)).collect())
}

fn look(id: u32, dir: &Path) -> Option<Process> {
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
    fn an_open_file_is_seen_and_a_closed_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(dir.path().join("file")).unwrap();
        let living = living_in(dir.path()).unwrap();
        assert!(living.iter().any(|process| process.id == std::process::id()), "{living:?}");
        drop(file);
        assert_eq!(living_in(dir.path()).unwrap(), []);
    }
}
