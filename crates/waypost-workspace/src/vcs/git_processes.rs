//! Finds git processes that may use a repository. A lock of git is a file, which a killed git leaves behind: only the
//! processes show whether it is abandoned.

use std::io;
use std::path::{Path, PathBuf};

/// Returns whether a git of this machine may be running in one of these directories, or for it.
pub(crate) fn is_git_running(places: &[PathBuf]) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return true };
    processes.flatten().map(|process| process.path()).any(|process| {
        let is_git = std::fs::read_to_string(process.join("comm")).is_ok_and(|name| name.starts_with("git"));
        is_git && concerns(&process, places)
    })
}

/// Returns whether a process runs in one of these directories or names it in its arguments. If this cannot be read, it
/// counts as true.
fn concerns(process: &Path, places: &[PathBuf]) -> bool {
    let is_here = match std::fs::read_link(process.join("cwd")) {
        Ok(cwd) => places.iter().any(|place| cwd.starts_with(place)),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    let names = |words: &[u8]| {
        let words = String::from_utf8_lossy(words);
        places.iter().filter_map(|place| place.to_str()).any(|place| words.contains(place))
    };
    is_here || std::fs::read(process.join("cmdline")).is_ok_and(|words| names(&words))
}
