//! Identifying processes. A process id alone may belong to another process later.

use std::iter::successors;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, test_kill_process};

/// Returns the start of a process, in clock ticks after the machine's start. None if there is no such process.
///
/// On systems that do not report it, it is 0 for every existing process.
pub fn process_start(pid: u32) -> Option<u64> {
    #[cfg(target_os = "linux")]
    if let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The second field is the program's name in parentheses, which may itself contain spaces and parentheses.
        return stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok();
    }
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    match test_kill_process(pid) {
        Ok(()) | Err(rustix::io::Errno::PERM) => Some(0),
        Err(_) => None,
    }
}

/// Returns an error if this process cannot start that many threads now.
///
/// Call it before a library that panics when it cannot start a thread.
pub fn check_threads(count: usize) -> std::io::Result<()> {
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
    let start = |_| {
        let wait = std::sync::Arc::clone(&wait);
        // Each thread runs until all have started; dropping the sender ends them.
        std::thread::Builder::new().spawn(move || wait.lock().map(|wait| wait.recv().is_ok()).is_ok())
    };
    let threads: std::io::Result<Vec<_>> = (0..count).map(start).collect();
    drop(done);
    for thread in threads? {
        let _ = thread.join();
    }
    Ok(())
}

/// Returns whether a process of the file's owner has it open. None where that is unknown.
///
/// Processes in other containers are not visible. The scan takes some milliseconds.
pub fn is_open(path: &Path) -> Option<bool> {
    let (path, owner) = (std::fs::canonicalize(path).ok()?, std::fs::metadata(path).ok()?.uid());
    let mut is_complete = true;
    for process in std::fs::read_dir("/proc").ok()?.flatten() {
        let is_owners = || process.metadata().is_ok_and(|metadata| metadata.uid() == owner);
        if !process.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit) || !is_owners() {
            continue;
        }
        match std::fs::read_dir(process.path().join("fd")) {
            Ok(files) => {
                if files.flatten().any(|file| std::fs::read_link(file.path()).is_ok_and(|open| open == path)) {
                    return Some(true);
                }
            }
            // The process may have ended during the scan.
            Err(_) => is_complete &= !process.path().exists(),
        }
    }
    is_complete.then_some(false)
}

/// Returns whether one of the programs runs in a directory and started less than `max_age` ago.
///
/// Ancestors of this process do not count, nor do processes in other containers. The scan takes some milliseconds.
pub fn runs_in(dir: &Path, programs: &[&str], max_age: Duration) -> bool {
    let is_one = |process: &Path| {
        let name = std::fs::read_to_string(process.join("comm"));
        name.is_ok_and(|name| programs.contains(&name.trim_end()))
            && std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(dir))
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let found: Vec<u32> = processes
        // Writes soon after git was active wait for this, and half of the entries are no processes.
        .filter_map(|process| Some((process.file_name().to_str()?.parse().ok()?, process)))
        .filter(|(_, process)| is_one(&process.path()))
        .map(|(pid, _)| pid)
        .filter(|pid| run_time(*pid).is_some_and(|time| time < max_age))
        .collect();
    let ancestors: Vec<u32> = if found.is_empty() {
        Vec::new()
    } else {
        successors(Some(std::process::id()), |pid| parent_of(*pid)).collect()
    };
    found.iter().any(|pid| !ancestors.contains(pid))
}

/// Returns how long a process has been running, where the system reports it.
fn run_time(pid: u32) -> Option<Duration> {
    #[cfg(not(target_os = "linux"))]
    return process_start(pid).and(None);
    #[cfg(target_os = "linux")]
    run_time_on_linux(pid)
}

#[cfg(target_os = "linux")]
fn run_time_on_linux(pid: u32) -> Option<Duration> {
    // Linux reports this in hundredths of a second, independent of the kernel's tick.
    let started = Duration::from_millis(process_start(pid)? * 10);
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let now = Duration::new(now.tv_sec.try_into().ok()?, now.tv_nsec.try_into().ok()?);
    Some(now.saturating_sub(started))
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_threads_can_be_started() {
        check_threads(3).unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn an_open_file_is_found_and_a_closed_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = std::fs::File::create(&path).unwrap();
        assert_eq!(is_open(&path), Some(true));
        drop(file);
        assert_ne!(is_open(&path), Some(true));
        assert_eq!(is_open(&dir.path().join("none")), None);
    }

    #[test]
    fn a_process_has_a_stable_start_and_a_missing_process_has_none() {
        let own = process_start(std::process::id());
        assert!(own.is_some());
        assert_eq!(process_start(std::process::id()), own);
        assert_eq!(process_start(u32::MAX), None);
    }
}
