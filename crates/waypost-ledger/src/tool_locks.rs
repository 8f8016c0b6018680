//! Detects version control tools that are changing the work tree.
//!
//! Git checks under `index.lock` that a file is unchanged and writes it later. Git overwrites a version that we put in
//! place between the two. Git does not check again, so we do: a write counts only once no tool can be in that state.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use waypost_fs::{Stamp, age, is_open, process_start, runs_in};

/// A lock that no process holds is abandoned once it is this old.
const ABANDONED_AGE: Duration = Duration::from_secs(10);

/// Tools acquire several locks in turn and remember between two of them which files are unchanged. For this long after
/// it last changed its directory, a tool may be between two locks, whether or not we see its process.
const QUIET_PERIOD: Duration = Duration::from_millis(50);

/// For this long after the last change of its directory, and after its start, a tool whose process we see may be between
/// two locks. The limit exists because a pager keeps git alive for longer.
const MAX_TOOL_AGE: Duration = Duration::from_secs(10);

/// The programs that change work trees.
const TOOLS: [&str; 4] = ["git", "jj", "hg", "sl"];

/// Maximum total time a writer waits for tools that may be between two locks. Tools that started since have seen the new
/// version, but cannot be told apart from the others.
const MAX_QUIET_WAIT: Duration = Duration::from_secs(2);

/// Time between two checks of a lock.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The files that version control tools hold while they change a work tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolLocks {
    paths: Vec<PathBuf>,
    /// The work tree.
    root: PathBuf,
}

impl ToolLocks {
    pub(crate) fn new(paths: Vec<PathBuf>, root: PathBuf) -> ToolLocks {
        ToolLocks { paths, root }
    }

    /// Returns the locks that seem to be held, without searching for the processes that hold them.
    pub(crate) fn held(&self) -> Vec<Stamp> {
        self.paths.iter().filter_map(|lock| held(lock)).map(|metadata| Stamp::of(&metadata)).collect()
    }

    /// Waits until no tool holds a lock, and returns the abandoned locks. Fails with the lock that a tool still holds at the
    /// deadline.
    pub(crate) fn wait(&self, deadline: Instant) -> Result<Vec<Stamp>, &Path> {
        let mut abandoned = Vec::new();
        for lock in &self.paths {
            abandoned.extend(wait_for(lock, deadline)?);
        }
        Ok(abandoned)
    }

    /// Waits until no tool holds a lock or can be between two. Fails with the lock that a tool still holds at the deadline.
    pub(crate) fn wait_until_quiet(&self, deadline: Instant) -> Result<(), &Path> {
        let mut waited = Duration::ZERO;
        loop {
            self.wait(deadline)?;
            if !self.is_between_locks() || waited >= MAX_QUIET_WAIT {
                return Ok(());
            }
            std::thread::park_timeout(POLL_INTERVAL);
            waited += POLL_INTERVAL;
        }
    }

    /// Returns whether a tool changed its directory so recently that it may be about to acquire its next lock.
    fn is_between_locks(&self) -> bool {
        let youngest = self.paths.iter().filter_map(|lock| age(lock.parent()?)).min();
        youngest
            .is_some_and(|age| age < QUIET_PERIOD || age < MAX_TOOL_AGE && runs_in(&self.root, &TOOLS, MAX_TOOL_AGE))
    }
}

/// Waits until a lock is gone. Returns the lock if it is abandoned.
fn wait_for(lock: &Path, deadline: Instant) -> Result<Option<Stamp>, &Path> {
    let mut has_live_holder = false;
    while let Some(metadata) = held(lock) {
        let is_timed_out = Instant::now() >= deadline;
        if is_timed_out || !has_live_holder && age(lock).is_some_and(|age| age >= ABANDONED_AGE) {
            has_live_holder = has_holder(lock, &metadata);
            if !has_live_holder {
                // A lock that was released meanwhile has no holder either, but is not abandoned.
                let stamp = Stamp::of(&metadata);
                if held(lock).is_some_and(|still| Stamp::of(&still) == stamp) {
                    return Ok(Some(stamp));
                }
                continue;
            }
        }
        if is_timed_out {
            // Mercurial keeps its lock, a link, while an editor is open.
            return if metadata.is_file() { Err(lock) } else { Ok(Some(Stamp::of(&metadata))) };
        }
        std::thread::park_timeout(POLL_INTERVAL);
    }
    Ok(None)
}

/// Returns the metadata of a lock if a tool may be writing the tree under it.
fn held(lock: &Path) -> Option<Metadata> {
    // Git writes its new index into the lock after it wrote the tree. `git commit -a` then waits for an editor.
    lock.symlink_metadata().ok().filter(|metadata| !metadata.is_file() || metadata.len() == 0)
}

/// Returns whether the process that acquired a lock is alive, as far as the platform shows it.
fn has_holder(lock: &Path, metadata: &Metadata) -> bool {
    if metadata.is_file() {
        return is_open(lock).unwrap_or(false);
    }
    // Mercurial's lock is a link to "host:process".
    let holder = std::fs::read_link(lock).ok();
    let process = holder.as_ref().and_then(|holder| holder.to_str()?.rsplit_once(':')?.1.parse().ok());
    process.is_none_or(|process| process_start(process).is_some())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use super::*;

    const SHORT_TIMEOUT: Duration = Duration::from_millis(20);
    const LONG_TIMEOUT: Duration = Duration::from_secs(20);

    fn deadline_in(timeout: Duration) -> Instant {
        Instant::now() + timeout
    }

    #[test]
    fn wait_returns_the_lock_that_is_held_at_the_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index.lock");
        let locks = ToolLocks::new(vec![path.clone()], dir.path().to_owned());
        assert_eq!(locks.wait(deadline_in(SHORT_TIMEOUT)), Ok(vec![]));
        let held = File::create(&path).unwrap();
        assert_eq!(locks.wait(deadline_in(SHORT_TIMEOUT)), Err(path.as_path()), "this process holds the lock");
        // A lock with a holder is not abandoned, however old it is.
        held.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(locks.wait(deadline_in(SHORT_TIMEOUT)), Err(path.as_path()));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| locks.wait(deadline_in(LONG_TIMEOUT)));
            std::fs::remove_file(&path).unwrap();
            assert_eq!(waiter.join().unwrap(), Ok(vec![]));
        });
    }

    #[test]
    fn wait_skips_an_old_lock_that_no_process_holds() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index.lock");
        let locks = ToolLocks::new(vec![path.clone()], dir.path().to_owned());
        File::create(&path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let started = Instant::now();
        assert_eq!(locks.wait(deadline_in(LONG_TIMEOUT)).map(|abandoned| abandoned == locks.held()), Ok(true));
        assert!(started.elapsed() < LONG_TIMEOUT);
    }

    #[test]
    fn a_lock_that_git_wrote_its_index_into_is_not_held() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index.lock");
        waypost_fs::replace(&path, b"DIRC", 0o600).unwrap();
        assert_eq!(ToolLocks::new(vec![path], dir.path().to_owned()).wait(deadline_in(SHORT_TIMEOUT)), Ok(vec![]));
    }

    #[test]
    fn a_mercurial_lock_is_abandoned_if_its_process_is_dead() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("wlock");
        let locks = ToolLocks::new(vec![path.clone()], dir.path().to_owned());
        for process in [std::process::id(), u32::MAX] {
            std::os::unix::fs::symlink(format!("host:{process}"), &path).unwrap();
            assert_eq!(has_holder(&path, &path.symlink_metadata().unwrap()), process != u32::MAX);
            // An editor may keep the lock for long, so a writer goes on at the deadline.
            assert_eq!(locks.wait(deadline_in(SHORT_TIMEOUT)).map(|held| held.len()), Ok(1));
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn wait_until_quiet_outlasts_the_gap_between_two_locks() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index.lock");
        let locks = ToolLocks::new(vec![path.clone()], dir.path().to_owned());
        File::create(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let started = Instant::now();
        assert_eq!(locks.wait_until_quiet(deadline_in(LONG_TIMEOUT)), Ok(()));
        assert!(!locks.is_between_locks() && started.elapsed() < LONG_TIMEOUT);
    }
}
