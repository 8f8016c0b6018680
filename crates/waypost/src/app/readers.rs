//! The reader threads, each with a session of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use waypost_core::store::Store as _;
use waypost_core::{Error, Kind, Result};
use waypost_workspace::surroundings::inherited;

use super::followed::{Followed, Open};
use crate::app::session::Session;

/// Concurrent readers. SQLite's readers do not block each other; more threads than cores would not help.
pub(super) const READER_THREADS: usize = 4;
/// Threads for the steps around writes, beside the readers.
const STEP_THREADS: usize = 2;
/// Maximum queued jobs.
const MAX_QUEUED: usize = 1_024;

/// How long a caller waits for a reader: longer than `store.wait`, the time that a reader waits for a lock. Readers
/// hang only while the disk does.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(45);

/// A job for a reader; returns whether the session is still usable.
pub(super) type Job = Box<dyn FnOnce(Result<&mut Session>) -> bool + Send>;

/// A request to wait: the sequence of the last known event, the timeout, and where to send the result.
type Wait = (u64, Duration, Sender<Result<()>>);

pub(super) struct Readers {
    queue: SyncSender<Job>,
    /// The queue of steps around writes. They may wait for the lock of a ledger, and reads must not wait for them.
    steps: SyncSender<Job>,
    /// The queue of the thread that waits for writes of other processes.
    waiter: Mutex<Sender<Wait>>,
}

impl Readers {
    /// Starts the threads. One reader also runs the steps.
    pub(super) fn start(place: &Followed, count: usize) -> Result<Readers> {
        let queue = start_threads(place, "reader", count)?;
        let steps = if count > 1 { start_threads(place, "step", STEP_THREADS)? } else { queue.clone() };
        let (waiter, requests) = channel();
        let place = place.clone();
        spawn("waiter".to_owned(), move || wait(&place, &requests))?;
        Ok(Readers { queue, steps, waiter: Mutex::new(waiter) })
    }

    /// Runs a job on a reader thread, and waits for its answer.
    pub(super) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = channel();
        let job: Job = Box::new(move |session| {
            let answer = session.and_then(work);
            let is_session_usable = !matches!(&answer, Err(error) if error.kind() == Kind::Unavailable);
            // The caller may have given up.
            let _ = sender.send(answer);
            is_session_usable
        });
        self.submit(job);
        receive(&receiver, READ_TIMEOUT)
    }

    /// Queues a read. If the queue is full or the readers are gone, the job gets the error.
    pub(super) fn submit(&self, job: Job) {
        send(&self.queue, job);
    }

    /// Queues a step around a write, in the same way.
    pub(super) fn submit_step(&self, job: Job) {
        send(&self.steps, job);
    }

    pub(super) fn wait(&self, last: u64, timeout: Duration) -> Result<()> {
        let (sender, receiver) = channel();
        let waiter = self.waiter.lock().unwrap_or_else(PoisonError::into_inner);
        waiter.send((last, timeout, sender)).map_err(|_| no_answer_error())?;
        drop(waiter);
        receive(&receiver, timeout + READ_TIMEOUT)
    }
}

/// Starts threads for jobs. If there are several, each opens its session at once: later, when other programs use all
/// connections of a database, those of a server are open.
fn start_threads(place: &Followed, name: &str, count: usize) -> Result<SyncSender<Job>> {
    let (queue, jobs) = sync_channel::<Job>(MAX_QUEUED);
    let jobs = Arc::new(Mutex::new(jobs));
    for number in 0..count {
        let (place, jobs) = (place.clone(), Arc::clone(&jobs));
        spawn(format!("{name} {number}"), move || {
            let session = if count > 1 { open(&place) } else { None };
            run_jobs(&place, &jobs, session);
        })?;
    }
    Ok(queue)
}

fn send(queue: &SyncSender<Job>, job: Job) {
    match queue.try_send(job) {
        Ok(()) => {}
        Err(TrySendError::Full(job)) => drop(job(Err(overloaded_error()))),
        Err(TrySendError::Disconnected(job)) => drop(job(Err(no_answer_error()))),
    }
}

/// Waits for the answer of a thread, with a timeout.
pub(super) fn receive<T>(answers: &Receiver<Result<T>>, timeout: Duration) -> Result<T> {
    match answers.recv_timeout(timeout) {
        Ok(answer) => answer,
        Err(RecvTimeoutError::Timeout) => Err(Error::unavailable("the store did not answer in time")),
        Err(RecvTimeoutError::Disconnected) => Err(no_answer_error()),
    }
}

pub(super) fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let spawned = thread::Builder::new().name(name).spawn(inherited(work));
    spawned.map(drop).map_err(|error| Error::unavailable("cannot start a thread").because(error))
}

pub(super) fn overloaded_error() -> Error {
    Error::unavailable("too many pending requests").hint("try again in a moment").transient()
}

pub(super) fn no_answer_error() -> Error {
    Error::internal("the request ended without an answer").hint("the error output of the server says why")
}

/// Runs a part of a request. A panic becomes an error of this request, and the thread goes on. What `work` used must be
/// opened again: the panic may have left it half changed.
pub(super) fn catch_panic<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(no_answer_error()))
}

/// Opens a session before it is needed. A failure is reported when it is.
pub(super) fn open(place: &Followed) -> Option<Open> {
    let mut open = place.session(None).ok()?;
    open.session.store().ok()?;
    Some(open)
}

fn run_jobs(place: &Followed, jobs: &Mutex<Receiver<Job>>, mut session: Option<Open>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        let open = session.take();
        session = catch_panic(|| Ok(run_job(place, open, job))).unwrap_or_default();
    }
}

/// Runs a job. Returns the session if it is still usable.
fn run_job(place: &Followed, open: Option<Open>, job: Job) -> Option<Open> {
    match place.session(open) {
        Ok(mut open) => job(Ok(&mut open.session)).then_some(open),
        Err(error) => {
            job(Err(error));
            None
        }
    }
}

fn wait(place: &Followed, requests: &Receiver<Wait>) {
    let mut session: Option<Open> = None;
    for (last, timeout, sender) in requests {
        let open = session.take();
        let answer = catch_panic(|| {
            let mut open = place.session(open)?;
            open.session.store()?.wait(last, timeout)?;
            session = Some(open);
            Ok(())
        });
        let _ = sender.send(answer);
    }
}

#[cfg(test)]
mod tests {
    use waypost_testkit::Sandbox;

    use super::*;
    use crate::machine::place::{Place, Request};

    /// Returns the readers of a new store.
    fn readers(sandbox: &Sandbox) -> Readers {
        let cwd = sandbox.git_repo("repo");
        let variables = [("HOME", sandbox.path("home").into_os_string())].into_iter().collect();
        let place = Place::resolve(Request { cwd, variables, ..Request::default() }).unwrap();
        let mut session = Session::create(place.clone()).unwrap();
        Readers::start(&Followed::new(place, &mut session).unwrap(), READER_THREADS).unwrap()
    }

    #[test]
    fn requests_that_panic_get_an_error_and_leave_the_readers_running() {
        let sandbox = Sandbox::new("");
        let readers = readers(&sandbox);
        for _ in 0..2 * READER_THREADS {
            let answer: Result<()> = readers.run(|_| panic!("a defect"));
            assert_eq!(answer.unwrap_err().kind(), Kind::Internal);
        }
        assert!(readers.run(|session| session.store().map(drop)).is_ok());
    }

    #[test]
    fn reads_are_answered_while_steps_of_writes_wait() {
        let sandbox = Sandbox::new("");
        let readers = readers(&sandbox);
        let (started, starts) = channel();
        let (release, released) = channel::<()>();
        let released = Arc::new(Mutex::new(released));
        for _ in 0..READER_THREADS + STEP_THREADS {
            let (started, released) = (started.clone(), Arc::clone(&released));
            readers.submit_step(Box::new(move |_| {
                started.send(()).unwrap();
                // Until the test ends, as a step does that waits for the lock of a ledger.
                let _ = released.lock().unwrap().recv();
                true
            }));
        }
        starts.recv().unwrap();
        assert_eq!(readers.run(|_| Ok(1)).unwrap(), 1);
        drop(release);
    }
}
