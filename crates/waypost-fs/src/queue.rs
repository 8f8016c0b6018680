//! A queue before a lock.
//!
//! A lock that becomes free goes to whoever asks first, and a process that lets go and comes back at once is there
//! before a waiter is awake: among many, some would wait for seconds. So those who find the lock taken draw numbers,
//! and each waits for the one before. A number is a file that its owner keeps locked, so nobody waits for the dead; and
//! nobody waits long for one that was stopped. The queue makes an order and no more: that one alone is inside is up to
//! the lock, also where no order can be kept.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::lock::{lock_within, open};

/// How long one that does not move is waited for.
const COURTESY: Duration = Duration::from_secs(1);

/// Where in the file the number drawn last is, and that of the one who was let in last.
const DRAWN: u64 = 0;
const LET_IN: u64 = 8;

pub(crate) struct Queue {
    path: PathBuf,
}

impl Queue {
    /// The queue before a lock.
    pub(crate) fn before(lock: &Path) -> Queue {
        Queue { path: suffixed(lock, "-queue") }
    }

    /// Tells whether somebody stands in it, or died there last.
    pub(crate) fn has_waiters(&self) -> bool {
        File::open(&self.path).is_ok_and(|file| number_at(&file, DRAWN) != number_at(&file, LET_IN))
    }

    /// Draws a number, and waits until those who drew before are inside or gone.
    pub(crate) fn stand(self, at_most: Duration) -> io::Result<QueueTicket> {
        let courtesy = at_most.min(COURTESY);
        let numbers = lock_within(open(&self.path)?, courtesy)?;
        let number = number_at(&numbers, DRAWN).wrapping_add(1);
        let ticket = open(&self.ticket(number))?;
        ticket.try_lock()?;
        numbers.write_all_at(&number.to_le_bytes(), DRAWN)?;
        drop(numbers);
        let turn = QueueTicket { queue: self, number, _ticket: ticket };
        turn.wait_for(number.wrapping_sub(1), courtesy)?;
        Ok(turn)
    }

    fn ticket(&self, number: u64) -> PathBuf {
        suffixed(&self.path, &format!("-{number}"))
    }

    /// Removes the tickets of dead processes: those that no process keeps locked.
    ///
    /// Called with the numbers locked. A new ticket is made and locked under that lock, so none is mistaken for a dead one.
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

/// A place in the queue, which is left when this is dropped.
pub(crate) struct QueueTicket {
    queue: Queue,
    number: u64,
    _ticket: File,
}

impl QueueTicket {
    fn wait_for(&self, other: u64, courtesy: Duration) -> io::Result<()> {
        let path = self.queue.ticket(other);
        match File::open(&path) {
            Ok(ticket) => match lock_within(ticket, courtesy) {
                // Its owner has left, or died and left it behind.
                Ok(_) => remove(&path),
                Err(error) if error.kind() == ErrorKind::TimedOut => Ok(()),
                Err(error) => Err(error),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl QueueTicket {
    /// Lets the next one in. The last in the queue also removes what killed processes have left there: each process looks
    /// at the one before it alone, so of several that die together all but the last would stay.
    fn leave(&self) -> io::Result<()> {
        let numbers = open(&self.queue.path)?;
        numbers.write_all_at(&self.number.to_le_bytes(), LET_IN)?;
        let is_last = number_at(&numbers, DRAWN) == self.number;
        if is_last && numbers.try_lock().is_ok() { self.queue.sweep() } else { Ok(()) }
    }
}

impl Drop for QueueTicket {
    /// Whatever fails here, the next in the queue does.
    fn drop(&mut self) {
        let _ = self.leave();
        let _ = remove(&self.queue.ticket(self.number));
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Reads a number. One that was never written is 0.
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

    fn stand(lock: &Path) -> QueueTicket {
        Queue::before(lock).stand(Duration::from_secs(20)).unwrap()
    }

    fn files(dir: &Path) -> Vec<OsString> {
        let mut names: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn who_came_first_goes_first() {
        let dir = tempfile::tempdir().unwrap();
        let lock = dir.path().join("lock");
        let first = stand(&lock);
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            for name in 0..5 {
                let (lock, sender) = (&lock, sender.clone());
                let drawn = number_at(&File::open(dir.path().join("lock-queue")).unwrap(), DRAWN);
                scope.spawn(move || {
                    let turn = stand(lock);
                    sender.send(name).unwrap();
                    drop(turn);
                });
                while number_at(&File::open(dir.path().join("lock-queue")).unwrap(), DRAWN) == drawn {
                    std::thread::yield_now();
                }
            }
            assert!(Queue::before(&lock).has_waiters());
            assert!(receiver.try_recv().is_err(), "nobody goes before the first");
            drop(first);
            assert_eq!(receiver.iter().take(5).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        });
        assert!(!Queue::before(&lock).has_waiters());
        assert_eq!(files(dir.path()), ["lock-queue"]);
    }

    #[test]
    fn the_dead_are_not_waited_for_and_their_numbers_are_swept() {
        let dir = tempfile::tempdir().unwrap();
        let lock = dir.path().join("lock");
        drop(stand(&lock));
        // What a process leaves that is killed while it waits.
        let numbers = File::options().write(true).open(dir.path().join("lock-queue")).unwrap();
        numbers.write_all_at(&2_u64.to_le_bytes(), DRAWN).unwrap();
        File::create(dir.path().join("lock-queue-2")).unwrap();
        assert!(Queue::before(&lock).has_waiters());
        drop(stand(&lock));
        assert!(!Queue::before(&lock).has_waiters());
        assert_eq!(files(dir.path()), ["lock-queue"]);
    }

    #[test]
    fn tickets_of_processes_that_were_killed_together_are_all_swept() {
        let dir = tempfile::tempdir().unwrap();
        let lock = dir.path().join("lock");
        drop(stand(&lock));
        let numbers = File::options().write(true).open(dir.path().join("lock-queue")).unwrap();
        numbers.write_all_at(&5_u64.to_le_bytes(), DRAWN).unwrap();
        for number in 2..=5 {
            File::create(dir.path().join(format!("lock-queue-{number}"))).unwrap();
        }
        // Not ours, although the name begins alike.
        File::create(dir.path().join("lock-queue-2.bak")).unwrap();
        let alive = stand(&lock);
        let last = Queue::before(&lock).stand(Duration::from_millis(10)).unwrap();
        drop(last);
        assert_eq!(files(dir.path()), ["lock-queue", "lock-queue-2.bak", "lock-queue-6"]);
        drop(alive);
        assert_eq!(files(dir.path()), ["lock-queue", "lock-queue-2.bak"]);
    }

    #[test]
    fn one_that_was_stopped_holds_nobody_up_for_good() {
        let dir = tempfile::tempdir().unwrap();
        let lock = dir.path().join("lock");
        let stopped = stand(&lock);
        let next = Queue::before(&lock).stand(Duration::from_millis(10)).unwrap();
        drop(stopped);
        drop(next);
        assert_eq!(files(dir.path()), ["lock-queue"]);
    }
}
