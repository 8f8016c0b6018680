//! Hearing that this process is to stop.

use std::cell::Cell;
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use waypost_core::{Error, Result};

/// Counts how often this process was asked to stop. It has something to read when it is asked.
pub struct ShutdownSignal {
    reader: UnixStream,
    times: Cell<usize>,
}

impl ShutdownSignal {
    /// Listens from now on: for the terminal's interruption, and for whoever ends processes.
    pub fn listen() -> Result<ShutdownSignal> {
        let cannot = |error| Error::unavailable("cannot listen for signals").because(error);
        let (reader, writer) = UnixStream::pair().map_err(cannot)?;
        reader.set_nonblocking(true).map_err(cannot)?;
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            signal_hook::low_level::pipe::register(signal, writer.try_clone().map_err(cannot)?).map_err(cannot)?;
        }
        Ok(ShutdownSignal { reader, times: Cell::new(0) })
    }

    /// Returns how often it was asked so far.
    pub fn times(&self) -> usize {
        if let Ok(count) = (&self.reader).read(&mut [0; 16]) {
            self.times.set(self.times.get() + count);
        }
        self.times.get()
    }

    /// Waits until it is asked, or until time is up.
    pub(crate) fn wait(&self, at_most: Duration) {
        let seconds = i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX);
        let span = Timespec { tv_sec: seconds, tv_nsec: at_most.subsec_nanos().into() };
        let _ = poll(&mut [PollFd::new(&self.reader, PollFlags::IN)], Some(&span));
    }
}

impl AsFd for ShutdownSignal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}
