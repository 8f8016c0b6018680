//! Noticing that a version control tool is changing the work tree.
//!
//! Git checks under `index.lock` that a file is unchanged, and writes it later. A version that we put in place between the
//! two is lost. Git never asks again, so we have to: a write counts only once no tool can be in that state any more.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use waypost_fs::{Stamp, age, is_open, process_start, runs_in};

/// A lock that is older than this and that no process holds is abandoned.
const ABANDONED_AGE: Duration = Duration::from_secs(10);

/// Tools take several locks, one after the other, and remember between two of them which files are unchanged. This long
/// after it last changed its directory, a tool may be between two locks, whether or not we see its process.
const QUIET_PERIOD: Duration = Duration::from_millis(50);

/// This long after the last change of its directory, and after its start, a tool whose process we see may be between two
/// locks. A pager keeps git alive for longer.
const MAX_TOOL_AGE: Duration = Duration::from_secs(10);

/// The programs that change work trees.
const TOOLS: [&str; 4] = ["git", "jj", "hg", "sl"];

/// How long a writer waits in all for tools that may be between two locks. Other tools that started since have seen the
/// new version, but their traces look the same.
const MAX_QUIET_WAIT: Duration = Duration::from_secs(2);

/// How often a lock is looked at.
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

    /// Returns the locks that are held, as far as can be told without looking for their holders.
    pub(crate) fn held(&self) -> Vec<Stamp> {
        self.paths.iter().filter_map(|lock| held(lock)).map(|metadata| Stamp::of(&metadata)).collect()
    }

    /// Waits until no tool holds a lock. Returns those that are abandoned; else the one that is still held at the deadline.
    pub(crate) fn wait(&self, deadline: Instant) -> Result<Vec<Stamp>, &Path> {
        let mut abandoned = Vec::new();
        for lock in &self.paths {
            abandoned.extend(wait_for(lock, deadline)?);
        }
        Ok(abandoned)
    }

    /// Waits until no tool holds a lock or can be between two. Returns the lock that is still held at the deadline.
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

    /// Tells whether a tool changed its directory so recently that it may be about to take its next lock.
    fn is_between_locks(&self) -> bool {
        let youngest = self.paths.iter().filter_map(|lock| age(lock.parent()?)).min();
        youngest
            .is_some_and(|age| age < QUIET_PERIOD || age < MAX_TOOL_AGE && runs_in(&self.root, &TOOLS, MAX_TOOL_AGE))
    }
}

/// Waits until a lock is gone, or is known to be abandoned: then it is returned.
fn wait_for(lock: &Path, deadline: Instant) -> Result<Option<Stamp>, &Path> {
    let mut is_known_to_live = false;
    while let Some(metadata) = held(lock) {
        let is_late = Instant::now() >= deadline;
        if is_late || !is_known_to_live && age(lock).is_some_and(|age| age >= ABANDONED_AGE) {
            is_known_to_live = has_holder(lock, &metadata);
            if !is_known_to_live {
                return Ok(Some(Stamp::of(&metadata)));
            }
        }
        if is_late {
            // Mercurial keeps its lock, a link, while an editor is open.
            return if metadata.is_file() { Err(lock) } else { Ok(Some(Stamp::of(&metadata))) };
        }
        std::thread::park_timeout(POLL_INTERVAL);
    }
    Ok(None)
}

/// Returns the metadata of a lock under which a tool may be writing the tree.
fn held(lock: &Path) -> Option<Metadata> {
    // Git writes its new index into the lock when it is done with the tree. `git commit -a` then waits for an editor.
    lock.symlink_metadata().ok().filter(|metadata| !metadata.is_file() || metadata.len() == 0)
}

/// Tells whether the process lives that took a lock, as far as that can be known.
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

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(20);

    fn after(time: Duration) -> Instant {
        Instant::now() + time
    }

    #[test]
    fn a_lock_is_waited_for_and_named_if_it_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index.lock");
        let locks = ToolLocks::new(vec![path.clone()], dir.path().to_owned());
        assert_eq!(locks.wait(after(SHORT)), Ok(vec![]));
        let held = File::create(&path).unwrap();
        assert_eq!(locks.wait(after(SHORT)), Err(path.as_path()), "this process holds it");
        // However old it is.
        held.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(locks.wait(after(SHORT)), Err(path.as_path()));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| locks.wait(after(LONG)));
            std::fs::remove_file(&path).unwrap();
            assert_eq!(waiter.join().unwrap(), Ok(vec![]));
        });
    }

    #[test]
    fn an_old_lock_that_no_process_holds_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index.lock");
        let locks = ToolLocks::new(vec![path.clone()], dir.path().to_owned());
        File::create(&path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let begin = Instant::now();
        assert_eq!(locks.wait(after(LONG)).map(|abandoned| abandoned == locks.held()), Ok(true));
        assert!(begin.elapsed() < LONG);
    }

    #[test]
    fn git_is_done_with_the_tree_when_it_writes_into_its_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index.lock");
        waypost_fs::replace(&path, b"DIRC", 0o600).unwrap();
        assert_eq!(ToolLocks::new(vec![path], dir.path().to_owned()).wait(after(SHORT)), Ok(vec![]));
    }

    #[test]
    fn a_lock_of_mercurial_is_abandoned_if_its_process_is_dead() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("wlock");
        let locks = ToolLocks::new(vec![path.clone()], dir.path().to_owned());
        for process in [std::process::id(), u32::MAX] {
            std::os::unix::fs::symlink(format!("host:{process}"), &path).unwrap();
            assert_eq!(has_holder(&path, &path.symlink_metadata().unwrap()), process != u32::MAX);
            // An editor may keep it for long, so a change is made in the end.
            assert_eq!(locks.wait(after(SHORT)).map(|held| held.len()), Ok(1));
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_tool_may_take_its_next_lock_shortly_after_the_last_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index.lock");
        let locks = ToolLocks::new(vec![path.clone()], dir.path().to_owned());
        File::create(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let begin = Instant::now();
        assert_eq!(locks.wait_until_quiet(after(LONG)), Ok(()));
        assert!(!locks.is_between_locks() && begin.elapsed() < LONG);
    }
}
