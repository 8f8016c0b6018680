//! Receives the signals that ask this process to stop.

use std::cell::Cell;
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use waypost_core::{Error, Result};

/// Counts the signals that ask this process to stop. Its file descriptor becomes readable when one arrives.
pub struct ShutdownSignal {
    reader: UnixStream,
    count: Cell<usize>,
}

impl ShutdownSignal {
    /// Starts listening for SIGTERM, SIGINT and SIGHUP.
    pub fn listen() -> Result<ShutdownSignal> {
        let cannot = |error| Error::unavailable("cannot listen for signals").because(error);
        let (reader, writer) = UnixStream::pair().map_err(cannot)?;
        reader.set_nonblocking(true).map_err(cannot)?;
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            signal_hook::low_level::pipe::register(signal, writer.try_clone().map_err(cannot)?).map_err(cannot)?;
        }
        Ok(ShutdownSignal { reader, count: Cell::new(0) })
    }

    /// Starts listening, also for the end of standard input, which counts as a signal.
    pub(crate) fn listen_with_input() -> Result<ShutdownSignal> {
        let signal = ShutdownSignal::listen()?;
        let cannot = |error| Error::unavailable("cannot watch standard input").because(error);
        let mut stdin = waypost_workspace::surroundings::stdin();
        let read = move || {
            let _ = std::io::copy(&mut stdin, &mut std::io::sink());
            // The same path as any other signal, so that every wait ends.
            let _ = signal_hook::low_level::raise(SIGTERM);
        };
        std::thread::Builder::new().name("input".to_owned()).spawn(read).map_err(cannot)?;
        Ok(signal)
    }

    /// Returns the number of signals so far.
    pub fn count(&self) -> usize {
        if let Ok(new) = (&self.reader).read(&mut [0; 16]) {
            self.count.set(self.count.get() + new);
        }
        self.count.get()
    }

    /// Waits for a signal, at most this long.
    pub fn wait(&self, timeout: Duration) {
        let seconds = i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX);
        let span = Timespec { tv_sec: seconds, tv_nsec: timeout.subsec_nanos().into() };
        let _ = poll(&mut [PollFd::new(&self.reader, PollFlags::IN)], Some(&span));
    }
}

impl AsFd for ShutdownSignal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}
