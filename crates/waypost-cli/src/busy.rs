//! A line on the terminal for work that takes longer than a second.

use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use waypost_core::time::format_duration;
use waypost_workspace::surroundings;

use super::escape::escape;

/// Time before the line appears, and between two updates of it.
const INTERVAL: Duration = Duration::from_secs(1);

/// Whether the line is on the terminal. Locked while the line or any other output is written, so that they do not mix.
static IS_SHOWN: Mutex<bool> = Mutex::new(false);

/// Shows that a command is busy until it is dropped.
pub(crate) struct Busy(Option<(Sender<()>, JoinHandle<()>)>);

impl Busy {
    /// Shows nothing.
    pub(crate) const HIDDEN: Busy = Busy(None);

    /// Starts to show what the command does, on stderr, which is a terminal.
    pub(crate) fn show(what: &str) -> Busy {
        let (done, is_done) = mpsc::channel::<()>();
        let what = escape(what).into_owned();
        let start = Instant::now();
        let mut stderr = surroundings::stderr();
        let draw = move || {
            while is_done.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let millis = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
                let mut is_shown = IS_SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
                *is_shown = true;
                let _ = write!(stderr, "\r{what} ({})\x1b[K", format_duration(millis));
            }
        };
        // Without a thread there is no line: the work itself matters more.
        let thread = thread::Builder::new().name("busy".to_owned()).spawn(draw);
        Busy(thread.ok().map(|thread| (done, thread)))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let Some((done, thread)) = self.0.take() else { return };
        drop(done);
        let _ = thread.join();
        without_line(|| {});
    }
}

/// Removes the line, and keeps it away while `write` prints.
pub(crate) fn without_line<T>(write: impl FnOnce() -> T) -> T {
    let mut is_shown = IS_SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if std::mem::take(&mut *is_shown) {
        let _ = write!(surroundings::stderr(), "\r\x1b[K");
    }
    write()
}
