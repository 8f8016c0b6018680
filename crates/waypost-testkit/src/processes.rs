//! The processes of a test.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// A process that runs.
#[derive(Debug)]
pub struct Process {
    /// Its number.
    pub pid: Pid,
    /// Its command line.
    pub line: String,
}

/// Returns the other processes that work in a directory, or have it in their environment.
pub fn processes_in(dir: &Path) -> Vec<Process> {
    let text = dir.to_str().expect("a path that is text");
    let entries = std::fs::read_dir("/proc").expect("processes").flatten();
    let found = entries.filter_map(|entry| {
        let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
        let contains = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).contains(text);
        let cwd = std::fs::read_link(entry.path().join("cwd")).unwrap_or_default();
        let is_here = pid != rustix::process::getpid() && (cwd.starts_with(dir) || contains(read("environ")));
        is_here.then(|| Process { pid, line: String::from_utf8_lossy(&read("cmdline")).replace('\0', " ") })
    });
    found.collect()
}

/// Kills the other processes that work in a directory, or have it in their environment, and those that they start meanwhile.
pub(crate) fn kill_processes_in(dir: &Path) {
    const ROUNDS: usize = 100;
    for _ in 0..ROUNDS {
        let found = processes_in(dir);
        if found.is_empty() {
            break;
        }
        for process in found {
            let _ = kill_process(process.pid, Signal::KILL);
        }
        crate::pause();
    }
}
