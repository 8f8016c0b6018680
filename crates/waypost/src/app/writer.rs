//! The writer thread: it commits all queued writes in one transaction.
//!
//! A refused request rolls back only its own step. Most refused requests have written nothing, so the first attempt
//! sets no savepoints; if a step must be rolled back, the writer repeats the batch with savepoints. Any other error
//! rolls back the whole transaction, and the writer then runs each request in a transaction of its own: no request
//! fails because of another. A panic counts as such an error.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use waypost_core::context::Caller;
use waypost_core::engine::{self, WriteTransaction};
use waypost_core::op::{AnyAnswer, AnyOperation};
use waypost_core::store::Store;
use waypost_core::{Error, Kind, Result};

use super::followed::{Followed, Open};
use super::metrics::Measure;
use super::readers::{catch_panic, no_answer_error, open, overloaded_error, spawn};
use crate::machine::system::SystemEntropy;

/// Maximum queued requests.
const MAX_QUEUED: usize = 1_024;
/// Maximum requests per transaction: other processes must be able to write too.
const MAX_BATCH: usize = 128;

#[derive(Clone)]
pub(super) struct Writer {
    queue: SyncSender<Work>,
    counts: Arc<Counts>,
}

/// Work for the writer thread, in order of arrival.
enum Work {
    Write(Box<Request>),
    Probe(Probe),
}

/// Receives whether a write would succeed.
pub(super) type Probe = Box<dyn FnOnce(Result<()>) + Send>;

impl Work {
    fn fail(self, error: Error) {
        match self {
            Work::Write(request) => (request.reply)(Err(error)),
            Work::Probe(probe) => probe(Err(error)),
        }
    }
}

/// Receives the answer of a write.
pub(super) type OnWritten = Box<dyn FnOnce(Result<AnyAnswer>) + Send>;

/// A queued write.
struct Request {
    operation: Box<dyn AnyOperation>,
    caller: Caller,
    key: Option<String>,
    reply: OnWritten,
}

#[derive(Default)]
struct Counts {
    waiting: AtomicU64,
    requests: AtomicU64,
    transactions: AtomicU64,
    micros: AtomicU64,
}

impl Writer {
    /// Starts the writer. An early one opens its session at once, as readers do.
    pub(super) fn start(place: &Followed, is_early: bool) -> Result<Writer> {
        let (queue, requests) = sync_channel(MAX_QUEUED);
        let counts = Arc::new(Counts::default());
        let (place, counted) = (place.clone(), Arc::clone(&counts));
        spawn("writer".to_owned(), move || {
            let session = if is_early { open(&place) } else { None };
            run(&place, &requests, &counted, session);
        })?;
        Ok(Writer { queue, counts })
    }

    /// Queues a write.
    pub(super) fn write(
        &self,
        operation: Box<dyn AnyOperation>,
        caller: Caller,
        key: Option<String>,
        reply: OnWritten,
    ) {
        let counts = Arc::clone(&self.counts);
        counts.waiting.fetch_add(1, Ordering::Relaxed);
        let reply: OnWritten = Box::new(move |answer| {
            counts.waiting.fetch_sub(1, Ordering::Relaxed);
            reply(answer);
        });
        self.send(Work::Write(Box::new(Request { operation, caller, key, reply })));
    }

    /// Checks whether a write would succeed now: it queues like a write, and changes nothing.
    pub(super) fn probe(&self, probe: Probe) {
        self.send(Work::Probe(probe));
    }

    fn send(&self, work: Work) {
        match self.queue.try_send(work) {
            Ok(()) => {}
            Err(TrySendError::Full(work)) => work.fail(overloaded_error()),
            Err(TrySendError::Disconnected(work)) => work.fail(no_answer_error()),
        }
    }

    pub(super) fn measures(&self) -> Vec<Measure> {
        #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
        let value = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
        let one =
            |name, help, is_counter, value| Measure { name, help, is_counter, values: vec![(String::new(), value)] };
        let Counts { waiting, requests, transactions, micros } = &*self.counts;
        vec![
            one("writer_waiting", "Writes that wait for their transaction or for the disk.", false, value(waiting)),
            one("writer_requests_total", "Requested writes.", true, value(requests)),
            one("writer_transactions_total", "Committed or attempted transactions.", true, value(transactions)),
            one("writer_seconds_total", "Total duration of transactions.", true, value(micros) / 1e6),
        ]
    }
}

fn run(place: &Followed, work: &Receiver<Work>, counts: &Counts, mut session: Option<Open>) {
    while let Ok(first) = work.recv() {
        let batch: Vec<Work> = std::iter::once(first).chain(work.try_iter().take(MAX_BATCH - 1)).collect();
        match place.session(session.take()) {
            Ok(mut open) => match open.session.store() {
                Ok(store) => {
                    if process_batch(store, batch, counts) {
                        session = Some(open);
                    }
                }
                Err(error) => fail_all(batch, &error),
            },
            Err(error) => fail_all(batch, &error),
        }
    }
}

/// Runs the writes, then answers the probes with the state after them. Returns whether the store is still usable.
fn process_batch(store: &mut dyn Store, batch: Vec<Work>, counts: &Counts) -> bool {
    let (mut requests, mut probes) = (Vec::new(), Vec::new());
    for work in batch {
        match work {
            Work::Write(request) => requests.push(*request),
            Work::Probe(probe) => probes.push(probe),
        }
    }
    let mut is_usable = true;
    if !requests.is_empty() {
        counts.requests.fetch_add(requests.len() as u64, Ordering::Relaxed);
        let began = Instant::now();
        let written = write(store, requests);
        is_usable = !written.has_defect;
        counts.transactions.fetch_add(written.transactions, Ordering::Relaxed);
        counts.micros.fetch_add(micros(began.elapsed()), Ordering::Relaxed);
    }
    if !probes.is_empty() {
        // It writes the gate's file, which shows that the file system is writable, and takes the database's write lock.
        let found = store.begin_write().map(drop);
        for probe in probes {
            probe(found.clone());
        }
    }
    is_usable
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn fail_all(batch: Vec<Work>, error: &Error) {
    for work in batch {
        work.fail(error.clone());
    }
}

/// What a batch of writes took.
struct Written {
    transactions: u64,
    /// Whether an internal error occurred, such as a panic: the store must be opened again.
    has_defect: bool,
}

/// Runs the writes and answers each request.
fn write(store: &mut dyn Store, mut batch: Vec<Request>) -> Written {
    let mut has_defect = false;
    if store.is_remote() {
        // A retry after a lost connection needs a key, so that it is not applied twice.
        for request in batch.iter_mut().filter(|request| request.key.is_none()) {
            request.key = Some(engine::own_key(&mut SystemEntropy));
        }
    }
    if batch.len() > 1 {
        let answers = match run_in_one_transaction(store, &batch, Undo::Never) {
            Ok(None) => run_in_one_transaction(store, &batch, Undo::Steps),
            answers => answers,
        };
        has_defect = is_defect(&answers);
        match answers {
            Ok(Some(answers)) => {
                for (request, answer) in batch.into_iter().zip(answers) {
                    (request.reply)(answer);
                }
                return Written { transactions: 1, has_defect };
            }
            // The commit may have succeeded: only requests with a key can be retried.
            Err(error) if error.is_outcome_unknown() => {
                let (keyed, others): (Vec<_>, Vec<_>) = batch.into_iter().partition(|request| request.key.is_some());
                for request in others {
                    (request.reply)(Err(error.clone()));
                }
                batch = keyed;
            }
            _ => {}
        }
    }
    let transactions = batch.len() as u64;
    for Request { operation, caller, key, reply } in batch {
        let answer = catch_panic(|| engine::write_any(store, &caller, &mut SystemEntropy, key.as_deref(), &*operation));
        has_defect |= is_defect(&answer);
        reply(answer);
    }
    Written { transactions, has_defect }
}

fn is_defect<T>(result: &Result<T>) -> bool {
    matches!(result, Err(error) if error.kind() == Kind::Internal)
}

/// Whether single steps of a transaction can be rolled back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Undo {
    Never,
    /// With a savepoint before each step, which has a cost.
    Steps,
}

/// Runs all requests in one transaction and commits it. Returns `None` if a step must be rolled back and there are no
/// savepoints; then, and on an error, nothing was written.
fn run_in_one_transaction(
    store: &mut dyn Store,
    batch: &[Request],
    undo: Undo,
) -> Result<Option<Vec<Result<AnyAnswer>>>> {
    let mut transaction = WriteTransaction::begin(store)?;
    let mut answers = Vec::with_capacity(batch.len());
    for Request { operation, caller, key, .. } in batch {
        if undo == Undo::Steps {
            transaction.mark()?;
        }
        let before = transaction.writes();
        let answer = catch_panic(|| transaction.step_any(caller, &mut SystemEntropy, key.as_deref(), &**operation));
        match &answer {
            Err(error) if !is_refusal(error.kind()) => return Err(error.clone()),
            Err(_) if transaction.writes() == before => {}
            Err(_) if undo == Undo::Never => return Ok(None),
            Err(_) => transaction.undo()?,
            Ok(_) => {}
        }
        answers.push(answer);
    }
    transaction.commit()?;
    Ok(Some(answers))
}

/// Returns whether an error refuses one request and leaves the transaction usable.
fn is_refusal(kind: Kind) -> bool {
    match kind {
        Kind::Invalid
        | Kind::NotFound
        | Kind::Ambiguous
        | Kind::Conflict
        | Kind::LeaseLost
        | Kind::NothingToDo
        | Kind::Refused => true,
        Kind::Internal | Kind::Unavailable | Kind::Damaged => false,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::mpsc::channel;

    use serde_json::{Value, json};
    use waypost_core::clock::FixedClock;
    use waypost_core::context::{OpContext, Standing};
    use waypost_core::id::{RepositoryId, WorktreeId};
    use waypost_core::model::{Repository, Vcs, WorkflowQuery, Worktree};
    use waypost_core::op::{self, AddWorkflow, Effect, Operation, StoreOperation};
    use waypost_core::time::Timestamp;
    use waypost_store::sqlite::{self, SqliteStore};
    use waypost_testkit::memory::MemoryStore;

    use super::*;

    fn caller() -> Caller {
        let (repository, worktree) =
            ("rp_000000000000".parse::<RepositoryId>(), "wt_000000000000".parse::<WorktreeId>());
        let (repository, now) = (repository.unwrap(), Timestamp::from_millis(1_000));
        Caller {
            actor: "a".to_owned(),
            agent: Some("a".to_owned()),
            standing: Standing::MainWorktree,
            is_shared: false,
            lease_times: waypost_core::context::LeaseTimes::default(),
            authority: waypost_core::context::Authority::User,
            secrets: waypost_core::redact::Secrets::default(),
            worktree: Arc::new(Worktree {
                id: worktree.unwrap(),
                repository_id: repository.clone(),
                name: "w".to_owned(),
                path: PathBuf::from("/w"),
                branch: None,
                first_seen: now,
                last_seen: now,
                removed_at: None,
            }),
            repository: Arc::new(Repository {
                id: repository,
                name: "r".to_owned(),
                path: PathBuf::from("/r"),
                vcs: Vcs::Git,
                remote_url: None,
                default_branch: None,
            }),
        }
    }

    fn request(name: &str, arguments: &Value, key: Option<&str>) -> (Request, Receiver<Result<Value>>) {
        let (sender, receiver) = channel();
        let operation = (op::named(name).unwrap().decode)(arguments).unwrap();
        let reply: OnWritten = Box::new(move |answer| sender.send(answer.and_then(AnyAnswer::into_tree)).unwrap());
        (Request { operation, caller: caller(), key: key.map(str::to_owned), reply }, receiver)
    }

    #[test]
    fn a_refused_request_does_not_roll_back_others_of_its_batch() {
        let clock = || Box::new(FixedClock(Timestamp::from_millis(1_000)));
        check_refusals(&mut MemoryStore::new(clock()));
        let sandbox = waypost_testkit::Sandbox::new("");
        let options = sqlite::Options::default();
        check_refusals(&mut SqliteStore::open(&sandbox.path("state.db"), options, clock()).unwrap());
    }

    fn check_refusals(store: &mut dyn Store) {
        let (requests, answers): (Vec<_>, Vec<_>) = [
            ("add_workflow", json!({ "name": "one" }), None),
            ("start_workflow", json!({ "workflow": "none such" }), None),
            ("add_workflow", json!({ "name": "two" }), Some("k")),
            ("add_workflow", json!({ "name": "two" }), Some("k")),
            ("add_workflow", json!({ "name": "two\n" }), None),
            // Refused after it has written the workflow.
            (
                "add_workflow",
                json!({ "name": "bad", "plan": { "tasks": [{ "name": "a", "depends_on": ["a"] }] } }),
                None,
            ),
        ]
        .into_iter()
        .map(|(name, arguments, key)| request(name, &arguments, key))
        .unzip();
        assert_eq!(write(store, requests).transactions, 1);
        let answers: Vec<_> = answers.iter().map(|answer| answer.recv().unwrap()).collect();
        let kinds: Vec<_> = answers.iter().map(|answer| answer.as_ref().err().map(Error::kind)).collect();
        assert_eq!(kinds, [None, Some(Kind::NotFound), None, None, Some(Kind::Invalid), Some(Kind::Invalid)]);
        assert_eq!(answers[2].as_ref().unwrap(), answers[3].as_ref().unwrap(), "the same key gives the same answer");
        assert_eq!(workflows(store), ["one", "two"]);
    }

    fn workflows(store: &mut dyn Store) -> Vec<String> {
        let query = WorkflowQuery { limit: 9, ..WorkflowQuery::default() };
        let workflows = store.begin_read().unwrap().workflow_list(&query).unwrap();
        let mut names: Vec<_> = workflows.into_iter().map(|workflow| workflow.name).collect();
        names.sort();
        names
    }

    /// An operation with a defect: it panics after it has written.
    #[derive(Clone, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    struct WriteAndPanic {
        write: AddWorkflow,
    }

    impl Operation for WriteAndPanic {
        const NAME: &'static str = "write_and_panic";
        const SUMMARY: &'static str = "Writes and panics";
        const EFFECT: Effect = Effect::Write;
        type Answer = ();
    }

    impl StoreOperation for WriteAndPanic {
        fn run(self, cx: &mut OpContext<'_>) -> Result<()> {
            self.write.run(cx)?;
            panic!("a defect")
        }
    }

    #[test]
    fn a_request_that_panics_writes_nothing_and_fails_no_other_of_its_batch() {
        let sandbox = waypost_testkit::Sandbox::new("");
        let clock = Box::new(FixedClock(Timestamp::from_millis(1_000)));
        let mut store = SqliteStore::open(&sandbox.path("state.db"), sqlite::Options::default(), clock).unwrap();
        let (one, first) = request("add_workflow", &json!({ "name": "one" }), None);
        let (mut panics, failed) = request("add_workflow", &json!({ "name": "replaced" }), None);
        panics.operation = Box::new(WriteAndPanic { write: op::decode(&json!({ "name": "lost" })).unwrap() });
        let (two, second) = request("add_workflow", &json!({ "name": "two" }), None);
        let written = write(&mut store, vec![one, panics, two]);
        assert!(written.has_defect, "the store is opened again");
        assert_eq!(failed.recv().unwrap().unwrap_err().kind(), Kind::Internal);
        assert!(first.recv().unwrap().is_ok() && second.recv().unwrap().is_ok());
        assert_eq!(workflows(&mut store), ["one", "two"]);
    }
}
