//! Identifying processes. A process id alone may belong to another process later.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_threads_can_be_started() {
        check_threads(3).unwrap();
    }

    #[test]
    fn a_process_has_a_stable_start_and_a_missing_process_has_none() {
        let own = process_start(std::process::id());
        assert!(own.is_some());
        assert_eq!(process_start(std::process::id()), own);
        assert_eq!(process_start(u32::MAX), None);
    }
}
