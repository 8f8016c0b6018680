//! The threads that read, each with a session of its own.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use waypost_core::store::Store as _;
use waypost_core::{Error, Kind, Result};

use crate::place::Place;
use crate::session::Session;

/// How many read at once. SQLite's readers do not wait for each other, and there are no more cores than this to use.
const THREADS: usize = 4;
/// How many may wait.
const QUEUE: usize = 1_024;

/// How long a caller waits for a thread that reads: longer than `store.wait`, the time that a thread waits for a lock.
/// Threads hang only while the disk does.
const READ_TIMEOUT: Duration = Duration::from_secs(45);

/// Something to read; tells whether the session is still good.
pub(super) type Job = Box<dyn FnOnce(Result<&mut Session>) -> bool + Send>;

/// After which event, how long at most, and whom to tell.
type Wait = (u64, Duration, Sender<Result<()>>);

pub(super) struct Readers {
    queue: SyncSender<Job>,
    /// Asks the one who waits for others' writes, and has a session for that.
    waiter: Mutex<Sender<Wait>>,
}

impl Readers {
    pub(super) fn start(place: &Place) -> Result<Readers> {
        let (queue, jobs) = sync_channel::<Job>(QUEUE);
        let jobs = Arc::new(Mutex::new(jobs));
        for number in 0..THREADS {
            let (place, jobs) = (place.clone(), Arc::clone(&jobs));
            spawn(format!("reader {number}"), move || read(&place, &jobs))?;
        }
        let (waiter, questions) = channel();
        let place = place.clone();
        spawn("waiter".to_owned(), move || wait(&place, &questions))?;
        Ok(Readers { queue, waiter: Mutex::new(waiter) })
    }

    /// Asks something of a session, and waits for the answer.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = channel();
        let job: Job = Box::new(move |session| {
            let answer = session.and_then(question);
            let is_good = !matches!(&answer, Err(error) if error.kind() == Kind::Unavailable);
            // Whoever asked may have gone.
            let _ = sender.send(answer);
            is_good
        });
        self.give(job);
        receive(&receiver, READ_TIMEOUT)
    }

    /// Gives a job to whoever has time. It is told if there is nobody.
    pub(super) fn give(&self, job: Job) {
        match self.queue.try_send(job) {
            Ok(()) => {}
            Err(TrySendError::Full(job)) => drop(job(Err(too_many()))),
            Err(TrySendError::Disconnected(job)) => drop(job(Err(gone()))),
        }
    }

    pub(super) fn wait(&self, last: u64, at_most: Duration) -> Result<()> {
        let (sender, receiver) = channel();
        let waiter = self.waiter.lock().unwrap_or_else(PoisonError::into_inner);
        waiter.send((last, at_most, sender)).map_err(|_| gone())?;
        drop(waiter);
        receive(&receiver, at_most + READ_TIMEOUT)
    }
}

/// Waits for the answer of a thread.
fn receive<T>(answers: &Receiver<Result<T>>, timeout: Duration) -> Result<T> {
    match answers.recv_timeout(timeout) {
        Ok(answer) => answer,
        Err(RecvTimeoutError::Timeout) => Err(Error::unavailable("the store did not answer in time")),
        Err(RecvTimeoutError::Disconnected) => Err(gone()),
    }
}

pub(super) fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let spawned = thread::Builder::new().name(name).spawn(work);
    spawned.map(drop).map_err(|error| Error::unavailable("cannot start a thread").because(error))
}

pub(super) fn too_many() -> Error {
    Error::unavailable("too many requests wait").hint("try again in a moment").transient()
}

pub(super) fn gone() -> Error {
    Error::internal("a thread of the server is gone")
}

fn read(place: &Place, jobs: &Mutex<Receiver<Job>>) {
    let mut session: Option<Session> = None;
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        let opened = match session.take() {
            Some(open) => Ok(open),
            None => Session::open(place.clone()),
        };
        match opened {
            Ok(mut open) => {
                if job(Ok(&mut open)) {
                    session = Some(open);
                }
            }
            Err(error) => drop(job(Err(error))),
        }
    }
}

fn wait(place: &Place, questions: &Receiver<Wait>) {
    let mut session: Option<Session> = None;
    for (last, at_most, sender) in questions {
        let opened = match session.take() {
            Some(open) => Ok(open),
            None => Session::open(place.clone()),
        };
        let answer = opened.and_then(|mut open| {
            open.store()?.wait(last, at_most)?;
            session = Some(open);
            Ok(())
        });
        let _ = sender.send(answer);
    }
}
