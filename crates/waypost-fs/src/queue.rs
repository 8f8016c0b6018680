//! A queue before a lock.
//!
//! A released lock goes to the first process that asks, and a process that releases it and asks again at once is faster
//! than a waiting process can wake up: under contention, some would wait for seconds. So a process that finds the lock
//! held draws a ticket with a number, and waits for the process with the number before. A ticket is a file that its owner
//! keeps locked, so no process waits for a dead one, and the wait for a stopped one has a timeout. The queue only provides
//! the order; mutual exclusion comes from the lock, also where no order can be kept.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use waypost_core::seeded::seeded_bug;

use crate::flock::{lock_within, open};

/// The maximum wait for a process ahead that does not make progress.
const MAX_TICKET_WAIT: Duration = Duration::from_secs(1);

/// Offset in the queue file of the number that was drawn last.
const DRAWN_OFFSET: u64 = 0;
/// Offset in the queue file of the number that left the queue last.
const LEFT_OFFSET: u64 = 8;

pub(crate) struct Queue {
    path: PathBuf,
}

impl Queue {
    /// Returns the queue before a lock.
    pub(crate) fn before(lock: &Path) -> Queue {
        Queue { path: suffixed(lock, "-queue") }
    }

    /// Returns whether a process waits in the queue, or the last one died there.
    pub(crate) fn has_waiters(&self) -> bool {
        let Ok(file) = File::open(&self.path) else { return false };
        // Both numbers at once. A number that was never written is 0.
        let mut numbers = [0; 16];
        let _ = file.read_at(&mut numbers, DRAWN_OFFSET);
        let (drawn, left) = numbers.split_at(8);
        drawn != left
    }

    /// Draws a ticket, and waits until the process ahead has left the queue. The wait ends early if no process leaves it
    /// for a while, and not because the queue is long: the processes behind would all ask for the lock at once.
    pub(crate) fn wait(self, timeout: Duration) -> io::Result<QueueTicket> {
        // Some time is left for the lock itself.
        self.wait_patiently(timeout.saturating_sub(MAX_TICKET_WAIT).max(timeout / 2), MAX_TICKET_WAIT)
    }

    fn wait_patiently(self, timeout: Duration, patience: Duration) -> io::Result<QueueTicket> {
        let numbers = lock_within(open(&self.path)?, timeout.min(patience))?;
        let number = number_at(&numbers, DRAWN_OFFSET).wrapping_add(1);
        let file = open(&self.ticket_path(number))?;
        file.try_lock()?;
        numbers.write_all_at(&number.to_le_bytes(), DRAWN_OFFSET)?;
        drop(numbers);
        let ticket = QueueTicket { queue: self, number, _file: file };
        ticket.wait_for(number.wrapping_sub(1), timeout, patience)?;
        Ok(ticket)
    }

    /// Returns the number that left the queue last.
    fn left(&self) -> u64 {
        File::open(&self.path).map_or(0, |file| number_at(&file, LEFT_OFFSET))
    }

    fn ticket_path(&self, number: u64) -> PathBuf {
        suffixed(&self.path, &format!("-{number}"))
    }

    /// Removes the tickets of dead processes, which are not locked.
    ///
    /// The caller has locked the queue file. New tickets are created and locked under that lock, so a live ticket is never
    /// removed.
    fn sweep(&self) -> io::Result<()> {
        let (Some(dir), Some(name)) = (self.path.parent(), self.path.file_name()) else { return Ok(()) };
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            let file_name = entry.file_name();
            let number = file_name.as_bytes().strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"-"));
            if number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
                && File::open(entry.path()).is_ok_and(|ticket| ticket.try_lock().is_ok())
            {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }
}

/// A place in the queue. Dropping it leaves the queue.
pub(crate) struct QueueTicket {
    queue: Queue,
    number: u64,
    _file: File,
}

impl QueueTicket {
    fn wait_for(&self, other: u64, timeout: Duration, patience: Duration) -> io::Result<()> {
        let path = self.queue.ticket_path(other);
        let until = Instant::now() + timeout;
        loop {
            let left = self.queue.left();
            let ticket = match File::open(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                opened => opened?,
            };
            match lock_within(ticket, patience.min(until.saturating_duration_since(Instant::now()))) {
                // Its owner has left, or died without removing it.
                Ok(_) => return remove(&path),
                Err(error) if error.kind() != ErrorKind::TimedOut => return Err(error),
                Err(_) if self.queue.left() != left && Instant::now() < until && !seeded_bug("forget_order") => {}
                Err(_) => return Ok(()),
            }
        }
    }

    /// Lets the next process in. The last process in the queue also removes the tickets of killed processes: each process
    /// only checks the ticket before its own, so of several that die together all but the last would stay.
    fn leave(&self) -> io::Result<()> {
        let numbers = open(&self.queue.path)?;
        numbers.write_all_at(&self.number.to_le_bytes(), LEFT_OFFSET)?;
        let is_last = number_at(&numbers, DRAWN_OFFSET) == self.number;
        if is_last && numbers.try_lock().is_ok() { self.queue.sweep() } else { Ok(()) }
    }
}

impl Drop for QueueTicket {
    /// Ignores failures: the next process in the queue repeats these steps.
    fn drop(&mut self) {
        let _ = self.leave();
        let _ = remove(&self.queue.ticket_path(self.number));
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Reads a number. It is 0 if it was never written.
fn number_at(file: &File, offset: u64) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, offset).map_or(0, |()| u64::from_le_bytes(bytes))
}

fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn wait(lock: &Path) -> QueueTicket {
        Queue::before(lock).wait(Duration::from_secs(20)).unwrap()
    }

    fn files(dir: &Path) -> Vec<OsString> {
        let mut names: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn processes_proceed_in_the_order_of_their_arrival() {
        let dir = tempfile::tempdir().unwrap();
        let lock = dir.path().join("lock");
        let first = wait(&lock);
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            for name in 0..5 {
                let (lock, sender) = (&lock, sender.clone());
                let drawn = number_at(&File::open(dir.path().join("lock-queue")).unwrap(), DRAWN_OFFSET);
                scope.spawn(move || {
                    let ticket = wait(lock);
                    sender.send(name).unwrap();
                    drop(ticket);
                });
                while number_at(&File::open(dir.path().join("lock-queue")).unwrap(), DRAWN_OFFSET) == drawn {
                    std::thread::yield_now();
                }
            }
            assert!(Queue::before(&lock).has_waiters());
            assert!(receiver.try_recv().is_err(), "no other process goes before the first");
            drop(first);
            assert_eq!(receiver.iter().take(5).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        });
        assert!(!Queue::before(&lock).has_waiters());
        assert_eq!(files(dir.path()), ["lock-queue"]);
    }

    #[test]
    fn a_process_keeps_its_place_as_long_as_others_leave_the_queue() {
        const PATIENCE: Duration = Duration::from_millis(200);
        let dir = tempfile::tempdir().unwrap();
        let lock = dir.path().join("lock");
        let _first = wait(&lock);
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let ticket = Queue::before(&lock).wait_patiently(Duration::from_secs(20), PATIENCE).unwrap();
                sender.send(()).unwrap();
                drop(ticket);
            });
            let numbers = File::options().write(true).open(dir.path().join("lock-queue")).unwrap();
            let start = Instant::now();
            for number in 100_u64.. {
                numbers.write_all_at(&number.to_le_bytes(), LEFT_OFFSET).unwrap();
                let waited = receiver.recv_timeout(Duration::from_millis(1));
                assert!(waited.is_err(), "it went before the first after {:?}", start.elapsed());
                if start.elapsed() > 3 * PATIENCE {
                    break;
                }
            }
            // The first one makes no progress, as if it were stopped.
            receiver.recv_timeout(Duration::from_secs(20)).unwrap();
        });
    }

    #[test]
    fn a_dead_process_delays_no_other_and_its_ticket_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let lock = dir.path().join("lock");
        drop(wait(&lock));
        // The state that a process leaves if it is killed while it waits.
        let numbers = File::options().write(true).open(dir.path().join("lock-queue")).unwrap();
        numbers.write_all_at(&2_u64.to_le_bytes(), DRAWN_OFFSET).unwrap();
        File::create(dir.path().join("lock-queue-2")).unwrap();
        assert!(Queue::before(&lock).has_waiters());
        drop(wait(&lock));
        assert!(!Queue::before(&lock).has_waiters());
        assert_eq!(files(dir.path()), ["lock-queue"]);
    }

    #[test]
    fn all_tickets_of_processes_that_were_killed_together_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let lock = dir.path().join("lock");
        drop(wait(&lock));
        let numbers = File::options().write(true).open(dir.path().join("lock-queue")).unwrap();
        numbers.write_all_at(&5_u64.to_le_bytes(), DRAWN_OFFSET).unwrap();
        for number in 2..=5 {
            File::create(dir.path().join(format!("lock-queue-{number}"))).unwrap();
        }
        // Not a ticket, although its name starts like one.
        File::create(dir.path().join("lock-queue-2.bak")).unwrap();
        let alive = wait(&lock);
        let last = Queue::before(&lock).wait(Duration::from_millis(10)).unwrap();
        drop(last);
        assert_eq!(files(dir.path()), ["lock-queue", "lock-queue-2.bak", "lock-queue-6"]);
        drop(alive);
        assert_eq!(files(dir.path()), ["lock-queue", "lock-queue-2.bak"]);
    }

    #[test]
    fn a_stopped_process_delays_the_next_one_only_until_the_timeout() {
        let dir = tempfile::tempdir().unwrap();
        let lock = dir.path().join("lock");
        let stopped = wait(&lock);
        let next = Queue::before(&lock).wait(Duration::from_millis(10)).unwrap();
        drop(stopped);
        drop(next);
        assert_eq!(files(dir.path()), ["lock-queue"]);
    }
}
