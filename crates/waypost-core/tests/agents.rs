//! Agents and what they are told, over the reference store.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

use serde_json::Value;
use waypost_core::Result;
use waypost_core::clock::Clock;
use waypost_core::context::Caller;
use waypost_core::engine;
use waypost_core::id::{Entropy, RepositoryId, WorktreeId};
use waypost_core::memory::MemoryStore;
use waypost_core::model::{AgentStatus, EventQuery, Repository, Role, Vcs, Worktree};
use waypost_core::op::{
    AddRepository, ClaimTask, CreateWorkflow, ExpireDue, GetStatus, ListEvents, Operation, RegisterAgent,
    RemoveRepository, SendMessage, ShowAgent,
};
use waypost_core::time::Timestamp;
use waypost_core::work::plan::Plan;

struct SetClock(Rc<Cell<i64>>);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.get())
    }
}

/// Other bytes each time.
struct Counter(u64);

impl Entropy for Counter {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = self.0.to_be_bytes()[0];
        }
    }
}

struct Bench {
    store: MemoryStore,
    entropy: Counter,
    now: Rc<Cell<i64>>,
    is_shared: bool,
}

impl Bench {
    fn new() -> Bench {
        let now = Rc::new(Cell::new(1_000));
        let store = MemoryStore::new(Box::new(SetClock(Rc::clone(&now))));
        Bench { store, entropy: Counter(7), now, is_shared: false }
    }

    fn write<O: Operation>(&mut self, agent: Option<&str>, operation: O) -> Result<O::Answer> {
        let caller = self.caller(agent);
        engine::write(&mut self.store, &caller, &mut self.entropy, None, operation)
    }

    fn read<O: Operation>(&mut self, agent: Option<&str>, operation: O) -> O::Answer {
        let caller = self.caller(agent);
        engine::read(&mut self.store, &caller, &mut self.entropy, operation).unwrap()
    }

    fn caller(&self, agent: Option<&str>) -> Caller {
        let repository = repository(1);
        let worktree = Worktree {
            id: WorktreeId::generate(&mut Counter(2)),
            repository_id: repository.id.clone(),
            name: "tree".to_owned(),
            path: PathBuf::from("/tree"),
            branch: None,
            first_seen: Timestamp::from_millis(0),
            last_seen: Timestamp::from_millis(0),
            removed_at: None,
        };
        let agent = agent.map(str::to_owned);
        Caller { actor: "person".to_owned(), agent, repository, worktree, is_shared: self.is_shared }
    }

    /// Tells whether an agent is offline at a moment.
    fn is_offline_at(&mut self, agent: &str, millis: i64) -> bool {
        self.now.set(millis);
        self.write(None, ExpireDue {}).unwrap();
        self.read(None, ShowAgent { agent: agent.to_owned() }).agent.status == AgentStatus::Offline
    }
}

fn repository(number: u64) -> Repository {
    Repository {
        id: RepositoryId::generate(&mut Counter(number)),
        name: format!("repository {number}"),
        path: PathBuf::from(format!("/repository{number}")),
        vcs: Vcs::Git,
        remote_url: None,
        default_branch: None,
    }
}

fn registration(name: Option<&str>, timeout_ms: Option<u64>) -> RegisterAgent {
    RegisterAgent {
        name: name.map(str::to_owned),
        runtime: None,
        role: None,
        capabilities: None,
        metadata: Value::Null,
        process: None,
        timeout_ms,
        max_claims: None,
    }
}

fn claimed(bench: &mut Bench, agent: &str, ttl_ms: Option<u64>) {
    let workflow = CreateWorkflow {
        name: format!("of {agent}"),
        source: None,
        source_ref: None,
        source_content: None,
        summary: None,
        max_parallel: None,
        config: Value::Null,
        plan: Some(Plan::from_text("build: all of it").unwrap()),
        start: true,
        repositories: Vec::new(),
    };
    let workflow = bench.write(None, workflow).unwrap().workflow.name;
    bench.write(Some(agent), ClaimTask { task: None, workflow: Some(workflow), ttl_ms, budget: None }).unwrap();
}

#[test]
fn c3_a_timeout_that_was_said_counts_before_the_lease() {
    let mut bench = Bench::new();
    bench.write(None, registration(Some("ada"), Some(60_000))).unwrap();
    claimed(&mut bench, "ada", None);
    assert!(!bench.is_offline_at("ada", 60_999));
    assert!(bench.is_offline_at("ada", 61_000));
    assert!(bench.read(None, ShowAgent { agent: "ada".to_owned() }).holds.is_empty());
}

#[test]
fn the_usual_timeout_gives_way_to_a_longer_lease() {
    let mut bench = Bench::new();
    let hour = 60 * 60 * 1_000;
    claimed(&mut bench, "ada", Some(hour));
    assert!(!bench.is_offline_at("ada", 1_000 + 59 * 60 * 1_000));
    assert!(bench.is_offline_at("ada", 1_000 + 60 * 60 * 1_000));
}

#[test]
fn who_registers_without_a_name_is_a_person() {
    let mut bench = Bench::new();
    assert_eq!(bench.write(None, registration(None, None)).unwrap().role, Role::Human);
    assert_eq!(bench.write(Some("ada"), registration(None, None)).unwrap().role, Role::Worker);
    assert_eq!(bench.write(None, registration(Some("bob"), None)).unwrap().role, Role::Worker);
    bench.write(None, registration(Some("cyd"), Some(10))).unwrap_err();
}

#[test]
fn a_number_that_no_store_can_keep_is_refused() {
    let mut bench = Bench::new();
    let max = i64::MAX.cast_unsigned();
    assert_eq!(bench.write(None, registration(Some("ada"), Some(max))).unwrap().timeout_ms, max);
    bench.write(None, registration(Some("ada"), Some(max + 1))).unwrap_err();
}

#[test]
fn going_on_from_next_misses_and_repeats_no_event() {
    let mut bench = Bench::new();
    for number in 0..7 {
        bench.write(None, registration(Some(&format!("agent {number}")), None)).unwrap();
    }
    for kind in [None, Some("agent.".to_owned()), Some("message.".to_owned())] {
        let (mut seen, mut since) = (Vec::new(), 0);
        loop {
            let query = EventQuery { since: Some(since), kind: kind.clone(), limit: 2, ..EventQuery::default() };
            let page = bench.read(None, ListEvents { query });
            assert!(page.next >= since && page.next <= page.last);
            since = page.next;
            let is_last = page.events.len() < 2;
            seen.extend(page.events.into_iter().map(|event| event.sequence));
            if is_last {
                assert_eq!(since, page.last, "nothing is looked at twice");
                break;
            }
        }
        let query = EventQuery { since: Some(0), kind, limit: 100, ..EventQuery::default() };
        let all: Vec<_> = bench.read(None, ListEvents { query }).events.iter().map(|event| event.sequence).collect();
        assert_eq!(seen, all);
    }
}

#[test]
fn the_status_says_who_is_silent_and_what_waits_for_the_caller() {
    let mut bench = Bench::new();
    claimed(&mut bench, "ada", Some(30_000));
    let look = |bench: &mut Bench| bench.read(Some("bob"), GetStatus { worktree_id: None, limit: 5 });
    bench.now.set(20_999);
    assert_eq!((look(&mut bench).working.len(), look(&mut bench).stuck.len()), (1, 0));
    bench.now.set(21_001);
    assert_eq!((look(&mut bench).working.len(), look(&mut bench).stuck.len()), (0, 1));
    bench.write(None, registration(Some("bob"), None)).unwrap();
    let message = SendMessage {
        to: Some("bob".to_owned()),
        reply_to: None,
        kind: None,
        priority: None,
        subject: None,
        body: "hello".to_owned(),
        workflow: None,
        task: None,
        ttl_ms: None,
    };
    bench.write(Some("ada"), message).unwrap();
    let status = look(&mut bench);
    assert_eq!((status.messages[0].from.as_str(), status.totals.messages), ("ada", 1));
}

#[test]
fn c7_a_store_of_one_repository_knows_no_other_and_a_shared_one_forgets_only_what_nobody_uses() {
    let mut bench = Bench::new();
    let error = bench.write(None, AddRepository { repository: repository(5) }).unwrap_err();
    assert_eq!(error.kind().exit_code(), 7);
    bench.is_shared = true;
    bench.write(None, AddRepository { repository: repository(5) }).unwrap();
    bench.write(None, RemoveRepository { repository: "repository 5".to_owned() }).unwrap();
    bench.write(None, RemoveRepository { repository: "repository 5".to_owned() }).unwrap_err();
    let error = bench.write(None, RemoveRepository { repository: "repository 1".to_owned() }).unwrap_err();
    assert_eq!(error.kind().exit_code(), 7, "history names its worktree");
}
