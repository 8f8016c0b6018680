//! A store in memory with a clock that tests set, and callers and requests for it.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::{Value, json};
use waypost_core::Result;
use waypost_core::clock::{Clock, Reading};
use waypost_core::context::{Authority, Caller, LeaseTimes, Standing};
use waypost_core::engine;
use waypost_core::id::{CheckpointId, Entropy, RepositoryId, WorktreeId};
use waypost_core::model::{Checkpoint, CheckpointKind, Event, EventQuery, Repository, Vcs, Worktree};
use waypost_core::op::{
    AddCheckpoint, AddWorkflow, ClaimTask, FinishTask, IntoAnyOperation, RegisterAgent, SendMessage,
};
use waypost_core::redact::Secrets;
use waypost_core::store::Store;
use waypost_core::time::Timestamp;
use waypost_core::work::plan::Plan;
use waypost_testkit::memory::MemoryStore;

/// The name of the caller that is a person; all other names are agents.
pub(crate) const PERSON: &str = "person";

/// A linear congruential generator: the same bytes for the same seed.
pub(crate) struct SeededEntropy(pub(crate) u64);

impl Entropy for SeededEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = self.0.to_be_bytes()[0];
        }
    }
}

#[derive(Clone)]
struct ManualClock(Rc<RefCell<Reading>>);

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.0.borrow().wall()
    }

    fn reading(&self) -> Reading {
        self.0.borrow().clone()
    }
}

/// A store in memory. Its clock shows 1000 ms until a test sets it.
pub(crate) struct TestStore {
    pub(crate) store: MemoryStore,
    /// Whether several repositories share the store.
    pub(crate) is_shared: bool,
    clock: ManualClock,
    pub(crate) entropy: SeededEntropy,
}

impl TestStore {
    pub(crate) fn new() -> TestStore {
        TestStore::with_seed(7)
    }

    /// Makes a store whose generated ids depend on the seed.
    pub(crate) fn with_seed(seed: u64) -> TestStore {
        let clock = ManualClock(Rc::new(RefCell::new(Reading::Given(Timestamp::from_millis(1_000)))));
        let store = MemoryStore::new(Box::new(clock.clone()));
        TestStore { store, is_shared: false, clock, entropy: SeededEntropy(seed) }
    }

    pub(crate) fn set_now(&self, millis: i64) {
        self.set_reading(Reading::Given(Timestamp::from_millis(millis)));
    }

    pub(crate) fn set_reading(&self, reading: Reading) {
        self.clock.0.replace(reading);
    }

    pub(crate) fn write<O: IntoAnyOperation>(&mut self, name: &str, operation: O) -> Result<O::Answer> {
        let caller = Caller { is_shared: self.is_shared, ..caller(name) };
        self.write_as(&caller, None, operation)
    }

    pub(crate) fn write_as<O: IntoAnyOperation>(
        &mut self,
        caller: &Caller,
        key: Option<&str>,
        operation: O,
    ) -> Result<O::Answer> {
        engine::write(&mut self.store, caller, &mut self.entropy, key, operation)
    }

    pub(crate) fn read<O: IntoAnyOperation>(&mut self, name: &str, operation: O) -> Result<O::Answer> {
        let caller = Caller { is_shared: self.is_shared, ..caller(name) };
        self.read_as(&caller, operation)
    }

    pub(crate) fn read_as<O: IntoAnyOperation>(&mut self, caller: &Caller, operation: O) -> Result<O::Answer> {
        engine::read(&mut self.store, caller, &mut self.entropy, operation)
    }

    /// Adds checkpoints of an agent to a task that it holds: to write thousands one by one would take long.
    pub(crate) fn give_checkpoints(&mut self, agent: &str, task: &str, count: u32) {
        let noted = AddCheckpoint { detail: json!({ "at": 1 }), ..checkpoint(task, "number 1") };
        let first = self.write(agent, noted).unwrap().checkpoint;
        let mut tx = self.store.begin_write().unwrap();
        for sequence in 2..=count {
            let id = CheckpointId::generate(&mut SeededEntropy(u64::from(sequence)));
            let summary = format!("number {sequence} {}", "äöü".repeat(sequence as usize % 12));
            tx.checkpoint_put(&Checkpoint { id, sequence, summary, ..first.clone() }).unwrap();
        }
        tx.commit().unwrap();
    }

    /// Returns all events, oldest first.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        let query = EventQuery { since: Some(0), limit: 10_000, ..EventQuery::default() };
        self.store.begin_read().unwrap().event_list(&query).unwrap()
    }

    /// Returns the kinds of all events, oldest first.
    pub(crate) fn event_kinds(&mut self) -> Vec<String> {
        self.events().into_iter().map(|event| event.kind).collect()
    }
}

/// Returns the caller with a name, in worktree 1.
pub(crate) fn caller(name: &str) -> Caller {
    Caller { agent: Some(name.to_owned()).filter(|name| name != PERSON), actor: name.to_owned(), ..person_in(1) }
}

/// Returns a person as the caller, in the worktree with a number.
pub(crate) fn person_in(number: u64) -> Caller {
    let repository = repository(1);
    let worktree = Worktree {
        id: WorktreeId::generate(&mut SeededEntropy(number)),
        repository_id: repository.id.clone(),
        name: format!("tree {number}"),
        path: PathBuf::from(format!("/tree{number}")),
        branch: None,
        first_seen: Timestamp::from_millis(0),
        last_seen: Timestamp::from_millis(0),
        removed_at: None,
    };
    Caller {
        actor: PERSON.to_owned(),
        agent: None,
        repository: Arc::new(repository),
        worktree: Arc::new(worktree),
        standing: Standing::MainWorktree,
        is_shared: false,
        lease_times: LeaseTimes::default(),
        authority: Authority::User,
        secrets: Secrets::default(),
    }
}

pub(crate) fn repository(number: u64) -> Repository {
    Repository {
        id: RepositoryId::generate(&mut SeededEntropy(number)),
        name: format!("repository {number}"),
        path: PathBuf::from(format!("/repository{number}")),
        vcs: Vcs::Git,
        remote_url: None,
        default_branch: None,
    }
}

/// Creates and starts a workflow.
pub(crate) fn workflow(name: &str, plan: Plan) -> AddWorkflow {
    AddWorkflow { name: name.to_owned(), plan: Some(plan), start: true, ..AddWorkflow::default() }
}

pub(crate) fn registration(name: Option<&str>, timeout_ms: Option<u64>) -> RegisterAgent {
    RegisterAgent { name: name.map(str::to_owned), timeout_ms, ..RegisterAgent::default() }
}

/// Claims a task, or the next one without a name.
pub(crate) fn claim(task: Option<&str>) -> ClaimTask {
    ClaimTask { task: task.map(str::to_owned), ..ClaimTask::default() }
}

pub(crate) fn finish(task: &str) -> FinishTask {
    FinishTask { task: task.to_owned(), outcome: "done".to_owned(), ..FinishTask::default() }
}

pub(crate) fn checkpoint(task: &str, summary: &str) -> AddCheckpoint {
    AddCheckpoint {
        task: task.to_owned(),
        workflow: None,
        epoch: None,
        kind: CheckpointKind::Progress,
        summary: summary.to_owned(),
        detail: Value::Null,
        files: Vec::new(),
        tokens: None,
        cost: None,
    }
}

pub(crate) fn message(to: &str, body: &str) -> SendMessage {
    SendMessage { to: Some(to.to_owned()), body: body.to_owned(), ..SendMessage::default() }
}
