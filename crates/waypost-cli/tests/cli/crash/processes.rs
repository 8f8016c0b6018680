//! Many processes at once, and processes that die.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use waypost_testkit::Sandbox;

use crate::support::sandbox;

fn probe(sandbox: &Sandbox, repo: &Path, writes: u32) -> Child {
    sandbox
        .way_command(repo)
        .args(["db", "probe", "--writes", &writes.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The event sequences that a probe acknowledged as written.
fn acknowledged(output: &str) -> Vec<u64> {
    output
        .lines()
        .filter_map(|line| line.strip_prefix("event ")?.strip_suffix(" ms")?.split(' ').next()?.parse().ok())
        .collect()
}

/// Returns whether a process holds a lock of the gate's kind.
#[cfg(target_os = "linux")]
fn holds_lock(pid: u32) -> bool {
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    locks.lines().any(|line| line.contains(": FLOCK ") && line.contains(&format!(" {pid} ")))
}

fn stored(repo: &Path) -> BTreeSet<u64> {
    let db = rusqlite::Connection::open(repo.join(".git/waypost/state.db")).unwrap();
    let mut rows = db.prepare("SELECT sequence FROM events").unwrap();
    rows.query_map([], |row| row.get::<_, i64>(0)).unwrap().map(|row| row.unwrap().cast_unsigned()).collect()
}

#[test]
fn fifty_processes_writing_forty_events_each_lose_none() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["status"]).ok();
    let children: Vec<Child> = (0..50).map(|_| probe(&sandbox, &repo, 40)).collect();
    let mut all = BTreeSet::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let sequences = acknowledged(&String::from_utf8(output.stdout).unwrap());
        assert_eq!(sequences.len(), 40);
        all.extend(sequences);
    }
    assert_eq!(all.len(), 2000, "every event has its own place");
    assert_eq!(stored(&repo), (1..=2002).collect());
    let _ = sandbox.way(&repo, ["db", "check"]).ok();
}

#[test]
fn killed_writers_lose_nothing_that_was_acknowledged() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["status"]).ok();
    let mut all = BTreeSet::new();
    for round in 0..40 {
        let mut writers: Vec<Child> = (0..3).map(|_| probe(&sandbox, &repo, 100_000)).collect();
        // The first writer is killed after a number of acknowledgements, the others wherever they are then.
        let mut lines = BufReader::new(writers[0].stdout.take().unwrap()).lines();
        let mut first = String::new();
        for _ in 0..=(round % 7) {
            first.push_str(&lines.next().unwrap().unwrap());
            first.push('\n');
        }
        for writer in &mut writers {
            writer.kill().unwrap();
        }
        for line in lines {
            // The last line may be torn: only a complete line is an acknowledgement.
            first.push_str(&line.unwrap_or_default());
            first.push('\n');
        }
        all.extend(acknowledged(&first));
        for writer in writers.into_iter().skip(1) {
            all.extend(acknowledged(&String::from_utf8_lossy(&writer.wait_with_output().unwrap().stdout)));
        }
    }
    let stored = stored(&repo);
    assert!(all.len() > 120, "the writers got to write: {}", all.len());
    let lost: Vec<_> = all.difference(&stored).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    assert_eq!(stored.len() as u64, *stored.last().unwrap(), "no gaps");
    let _ = sandbox.way(&repo, ["db", "check"]).ok();
}

#[test]
fn processes_killed_while_a_store_is_made_leave_a_whole_one_or_none() {
    let sandbox = sandbox();
    for round in 0..30 {
        let repo = sandbox.git_repo(format!("repo{round}"));
        let mut children: Vec<Child> = (0..4).map(|_| probe(&sandbox, &repo, 1)).collect();
        // Killed at any point; the first ones right at the start.
        for child in children.iter_mut().take(3) {
            child.kill().unwrap();
        }
        for child in children {
            let _ = child.wait_with_output().unwrap();
        }
        let _ = sandbox.way(&repo, ["db", "probe", "--writes", "1"]).ok();
        let _ = sandbox.way(&repo, ["db", "check"]).ok();
        let left = std::fs::read_dir(repo.join(".git/waypost")).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert!(!left.iter().any(|name| name.starts_with(".state.db")), "{left:?}");
    }
}

/// Twenty processes write and twenty read at once, for as many seconds as `WAYPOST_TEST_SECONDS` says.
#[test]
fn g11_twenty_readers_and_twenty_writers_never_fail_each_other() {
    const WRITES: u32 = 25;
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["status"]).ok();
    let seconds = std::env::var("WAYPOST_TEST_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let end = Instant::now() + Duration::from_secs(seconds);
    let writing = AtomicUsize::new(20);
    let (written, reads) = std::thread::scope(|scope| {
        let write = || {
            let mut written = 0;
            loop {
                let output = probe(&sandbox, &repo, WRITES).wait_with_output().unwrap();
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                written += WRITES as usize;
                if Instant::now() >= end {
                    writing.fetch_sub(1, Ordering::SeqCst);
                    return written;
                }
            }
        };
        let read = || {
            let (mut last, mut reads) = (0, 0);
            while writing.load(Ordering::SeqCst) > 0 || reads == 0 {
                let now = sandbox.way(&repo, ["status", "--json"]).data()["store"]["events"].as_u64().unwrap();
                assert!(now >= last, "history only grows");
                (last, reads) = (now, reads + 1);
            }
            reads
        };
        let writers: Vec<_> = (0..20).map(|_| scope.spawn(write)).collect();
        let readers: Vec<_> = (0..20).map(|_| scope.spawn(read)).collect();
        // A writer that failed would leave the readers without an end.
        let written: Vec<_> = writers.into_iter().map(ScopedJoinHandle::join).collect();
        writing.store(0, Ordering::SeqCst);
        let written: usize = written.into_iter().map(Result::unwrap).sum();
        (written, readers.into_iter().map(|reader| reader.join().unwrap()).sum::<usize>())
    });
    assert!(reads >= 20 && written >= 20 * WRITES as usize, "{reads} reads, {written} writes");
    assert_eq!(stored(&repo).len(), written + 2, "every acknowledged write is there");
}

#[test]
#[cfg(target_os = "linux")]
fn a_foreign_writer_that_ignores_the_gate_fails_no_command() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["status"]).ok();
    let stranger = rusqlite::Connection::open(repo.join(".git/waypost/state.db")).unwrap();
    for _ in 0..20 {
        stranger.execute_batch("BEGIN IMMEDIATE; UPDATE worktrees SET last_seen = last_seen + 1").unwrap();
        let mut writer = probe(&sandbox, &repo, 1);
        // A process that holds the gate is about to write, or waits to.
        while !holds_lock(writer.id()) && writer.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        stranger.execute_batch("COMMIT").unwrap();
        let output = writer.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(stored(&repo).len(), 22);
}
