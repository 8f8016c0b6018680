//! The rules of workflows and tasks, over the reference store.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

use serde_json::{Value, json};
use waypost_core::clock::Clock;
use waypost_core::context::Caller;
use waypost_core::engine;
use waypost_core::id::{Entropy, RepositoryId, WorktreeId};
use waypost_core::memory::MemoryStore;
use waypost_core::model::{CheckpointKind, Repository, Role, TaskStatus, Vcs, WorkflowStatus, Worktree};
use waypost_core::op::{
    AddTask, CheckpointTask, ClaimTask, Claimed, CompleteMerge, CreateWorkflow, ExpireDue, FailTask, FinishTask,
    GetContext, Operation, Prime, RegisterAgent, RemoveTask, ReopenTask, ReplanWorkflow, ShowTask, ShowWorkflow,
    SkipTask, StartWorkflow, SummarizeWorkflow,
};
use waypost_core::time::Timestamp;
use waypost_core::work::plan::{Plan, PlannedTask};
use waypost_core::work::view::TaskView;
use waypost_core::{Kind, Result};

/// A store with a clock that tests set.
struct Bench {
    store: MemoryStore,
    now: Rc<Cell<i64>>,
    entropy: Counter,
}

struct SetClock(Rc<Cell<i64>>);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.get())
    }
}

/// Never the same bytes twice.
struct Counter(u64);

impl Entropy for Counter {
    fn fill(&mut self, bytes: &mut [u8]) {
        self.0 += 1;
        for (place, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::try_from((self.0 >> (place % 4 * 5)) & 31).unwrap();
        }
    }
}

impl Bench {
    fn new() -> Self {
        let now = Rc::new(Cell::new(1_000));
        Bench { store: MemoryStore::new(Box::new(SetClock(Rc::clone(&now)))), now, entropy: Counter(0) }
    }

    fn write<O: Operation>(&mut self, who: &str, operation: O) -> Result<O::Answer> {
        engine::write(&mut self.store, &caller(who), &mut self.entropy, None, operation)
    }

    fn read<O: Operation>(&mut self, operation: O) -> Result<O::Answer> {
        engine::read(&mut self.store, &caller("reader"), &mut self.entropy, operation)
    }

    /// Makes a workflow `w` of a plan, and starts it.
    fn start(&mut self, plan: &Value) {
        self.create(plan, json!({}), true);
    }

    fn create(&mut self, plan: &Value, config: Value, start: bool) {
        let operation = CreateWorkflow {
            name: "w".to_owned(),
            source: None,
            source_ref: None,
            source_content: None,
            summary: None,
            max_parallel: None,
            config,
            plan: Some(Plan::from_value(plan.clone()).unwrap()),
            start,
            repositories: Vec::new(),
        };
        self.write("person", operation).unwrap();
    }

    fn claim(&mut self, who: &str, task: &str) -> Result<Claimed> {
        self.write(who, ClaimTask { task: Some(task.to_owned()), workflow: None, ttl_ms: None, budget: None })
    }

    fn finish(&mut self, who: &str, task: &str) -> TaskView {
        self.claim(who, task).unwrap();
        let operation = FinishTask {
            task: task.to_owned(),
            workflow: None,
            epoch: None,
            outcome: "done".to_owned(),
            evidence: None,
        };
        self.write(who, operation).unwrap()
    }

    /// Lets a task die.
    fn kill(&mut self, task: &str) {
        self.claim("victim", task).unwrap();
        let operation =
            FailTask { task: task.to_owned(), workflow: None, epoch: None, error: "no way".to_owned(), hopeless: true };
        self.write("victim", operation).unwrap();
    }

    fn skip(&mut self, task: &str) {
        self.write("person", SkipTask { task: task.to_owned(), workflow: None, reason: None }).unwrap();
    }

    fn task(&mut self, task: &str) -> TaskView {
        self.read(ShowTask { task: task.to_owned(), workflow: None }).unwrap().task
    }

    fn status(&mut self) -> WorkflowStatus {
        self.read(ShowWorkflow { workflow: "w".to_owned() }).unwrap().workflow.workflow.status
    }
}

/// People have a name without a digit at its end, agents one with it.
fn caller(who: &str) -> Caller {
    let repository = Repository {
        id: RepositoryId::generate(&mut Counter(0)),
        name: "repository".to_owned(),
        path: PathBuf::from("/repository"),
        vcs: Vcs::Git,
        remote_url: None,
        default_branch: None,
    };
    let worktree = Worktree {
        id: WorktreeId::generate(&mut Counter(0)),
        repository_id: repository.id.clone(),
        name: "tree".to_owned(),
        path: PathBuf::from("/tree"),
        branch: None,
        first_seen: Timestamp::from_millis(0),
        last_seen: Timestamp::from_millis(0),
        removed_at: None,
    };
    let agent = who.ends_with(|last: char| last.is_ascii_digit()).then(|| who.to_owned());
    Caller { actor: who.to_owned(), agent, repository, worktree, is_shared: false }
}

fn named(name: &str) -> PlannedTask {
    PlannedTask { name: name.to_owned(), ..PlannedTask::default() }
}

#[test]
fn a_summary_has_the_longest_chain_of_what_is_left() {
    let mut bench = Bench::new();
    bench.start(&json!({ "tasks": [
        { "name": "a" },
        { "name": "b", "depends_on": ["a"] },
        { "name": "c", "depends_on": ["b"] },
        { "name": "d" },
        { "name": "e", "depends_on": ["c", "d"] },
        { "name": "f", "informed_by": ["e"] },
    ] }));
    let ask = || SummarizeWorkflow { workflow: "w".to_owned() };
    let summary = bench.read(ask()).unwrap();
    assert_eq!(summary.critical_path, ["a", "b", "c", "e"]);
    assert_eq!((summary.percent, summary.claimable, summary.blocked), (0, 3, 3));
    bench.finish("agent1", "a");
    bench.claim("agent1", "d").unwrap();
    bench.now.set(5_000);
    bench.claim("agent2", "b").unwrap();
    let summary = bench.read(ask()).unwrap();
    assert_eq!(summary.critical_path, ["b", "c", "e"]);
    assert_eq!((summary.percent, summary.claimable, summary.blocked), (16, 1, 2));
    assert_eq!(summary.oldest.unwrap().task.name, "d");
    bench.kill("f");
    let failed = bench.read(ask()).unwrap().failed;
    assert_eq!(failed[0].task.error.as_deref(), Some("no way"));
}

#[test]
fn a_workflow_all_of_which_was_skipped_is_over_when_it_starts() {
    let mut bench = Bench::new();
    bench.create(&json!([{ "name": "a" }]), json!({}), false);
    bench.skip("a");
    assert_eq!(bench.status(), WorkflowStatus::Ready);
    let started = bench.write("person", StartWorkflow { workflow: "w".to_owned() }).unwrap();
    assert_eq!(started.workflow.status, WorkflowStatus::Completed);
}

#[test]
fn skipping_what_a_workflow_failed_of_lets_it_go_on() {
    let mut bench = Bench::new();
    bench.start(&json!([{ "name": "a" }, { "name": "b", "depends_on": ["a"] }, { "name": "c" }]));
    bench.finish("agent1", "c");
    bench.kill("a");
    assert_eq!(bench.status(), WorkflowStatus::Failed);
    bench.skip("a");
    assert_eq!(bench.status(), WorkflowStatus::InProgress);
    bench.finish("agent1", "b");
    assert_eq!(bench.status(), WorkflowStatus::Completed);
}

#[test]
fn skipping_one_of_two_dead_tasks_leaves_the_workflow_failed() {
    let mut bench = Bench::new();
    bench.start(&json!([{ "name": "a" }, { "name": "b" }]));
    bench.kill("a");
    bench.kill("b");
    bench.skip("a");
    assert_eq!(bench.status(), WorkflowStatus::Failed);
    bench.skip("b");
    assert_eq!(bench.status(), WorkflowStatus::Completed);
}

#[test]
fn a_workflow_that_awaits_its_merge_is_over_when_it_is_merged() {
    let mut bench = Bench::new();
    bench.create(&json!([{ "name": "a" }]), json!({ "awaits_merge": true }), true);
    let merged = || CompleteMerge { workflow: "w".to_owned(), merged: true };
    assert_eq!(bench.write("person", merged()).unwrap_err().kind(), Kind::Conflict);
    bench.finish("agent1", "a");
    assert_eq!(bench.status(), WorkflowStatus::AwaitingMerge);
    // What the review found is done before.
    let reopen = ReopenTask { task: "a".to_owned(), workflow: None, reason: None };
    bench.write("person", reopen).unwrap();
    assert_eq!(bench.status(), WorkflowStatus::InProgress);
    bench.finish("agent1", "a");
    bench.write("person", merged()).unwrap();
    assert_eq!(bench.status(), WorkflowStatus::Completed);
}

#[test]
fn removing_a_task_passes_on_what_it_waited_for_only_to_those_who_waited() {
    let mut bench = Bench::new();
    bench.start(&json!([
        { "name": "a" },
        { "name": "b", "depends_on": ["a"] },
        { "name": "waits", "depends_on": ["b"] },
        { "name": "knows", "informed_by": ["b"] },
        { "name": "both", "depends_on": ["b"], "informed_by": ["a"] },
    ]));
    bench.write("person", RemoveTask { task: "b".to_owned(), workflow: None }).unwrap();
    assert_eq!(bench.task("waits").blocked_by, ["a"]);
    assert_eq!(bench.task("knows").blocked_by, Vec::<String>::new());
    assert_eq!(bench.task("both").blocked_by, ["a"]);
}

#[test]
fn a_workflow_that_has_begun_keeps_a_task() {
    let mut bench = Bench::new();
    bench.start(&json!([{ "name": "a" }, { "name": "b" }]));
    let remove = |task: &str| RemoveTask { task: task.to_owned(), workflow: None };
    bench.write("person", remove("b")).unwrap();
    assert_eq!(bench.write("person", remove("a")).unwrap_err().kind(), Kind::Conflict);
    let anew = ReplanWorkflow { workflow: "w".to_owned(), plan: Plan::default(), reason: "it was wrong".to_owned() };
    assert_eq!(bench.write("person", anew).unwrap_err().kind(), Kind::Invalid);
    bench.skip("a");
    assert_eq!(bench.status(), WorkflowStatus::Completed);
}

#[test]
fn knowing_of_each_other_is_no_circle() {
    let mut bench = Bench::new();
    let plan = json!([{ "name": "a", "informed_by": ["b"] }, { "name": "b", "depends_on": ["a"] }]);
    bench.start(&plan);
    let add = AddTask { workflow: "w".to_owned(), task: named("c"), before: vec!["b".to_owned()] };
    bench.write("person", add).unwrap();
    bench.finish("agent1", "a");
    let operation = ReplanWorkflow {
        workflow: "w".to_owned(),
        plan: Plan::from_value(plan).unwrap(),
        reason: "c is not needed".to_owned(),
    };
    assert_eq!(bench.write("person", operation).unwrap().kept, ["a", "b", "c"]);
    // Waiting for each other is one.
    let circle = AddTask {
        workflow: "w".to_owned(),
        task: PlannedTask { depends_on: vec!["b".to_owned()], ..named("d") },
        before: vec!["b".to_owned()],
    };
    assert_eq!(bench.write("person", circle).unwrap_err().hints(), ["b → d → b"]);
}

#[test]
fn claiming_again_renews_for_as_long_as_was_asked() {
    let mut bench = Bench::new();
    bench.start(&json!([{ "name": "a" }]));
    bench.claim("agent1", "a").unwrap();
    let mut again = |ttl_ms| {
        let operation = ClaimTask { task: Some("a".to_owned()), workflow: None, ttl_ms, budget: None };
        bench.write("agent1", operation).map(|claimed| claimed.lease)
    };
    let lease = again(Some(3_600_000)).unwrap();
    assert_eq!((lease.epoch, lease.expires_at.as_millis()), (1, 3_601_000));
    assert_eq!(again(None).unwrap().ttl_ms, 3_600_000);
    assert_eq!(again(Some(1)).unwrap_err().kind(), Kind::Invalid);
}

#[test]
fn patience_counts_from_when_a_task_could_be_claimed() {
    let mut bench = Bench::new();
    bench.start(&json!([
        { "name": "a" },
        { "name": "b", "depends_on": ["a"], "queue_timeout": "10s", "max_attempts": 1 },
    ]));
    bench.now.set(50_000);
    bench.write("person", ExpireDue {}).unwrap();
    assert_eq!(bench.task("b").task.status, TaskStatus::Pending, "it waits for another, not for somebody");
    bench.now.set(55_000);
    bench.finish("agent1", "a");
    for (now, status) in [(64_999, TaskStatus::Pending), (65_000, TaskStatus::Dead)] {
        bench.now.set(now);
        bench.write("person", ExpireDue {}).unwrap();
        assert_eq!(bench.task("b").task.status, status, "at {now}");
    }
}

#[test]
fn a_task_added_to_a_running_workflow_has_patience_too() {
    let mut bench = Bench::new();
    bench.start(&json!([{ "name": "a" }]));
    let task = PlannedTask { queue_timeout: Some(10_000), ..named("b") };
    bench.write("person", AddTask { workflow: "w".to_owned(), task, before: Vec::new() }).unwrap();
    bench.now.set(11_000);
    bench.write("person", ExpireDue {}).unwrap();
    assert_eq!(bench.task("b").task.status, TaskStatus::Dead);
}

#[test]
fn c10_the_last_checkpoint_has_room_however_long_the_rest_is() {
    let mut bench = Bench::new();
    let long = "x".repeat(20_000);
    bench.start(&json!([{ "name": "a", "description": long, "plan": long, "context": long, "acceptance": [long] }]));
    bench.claim("agent1", "a").unwrap();
    for number in 1..=4 {
        let operation = CheckpointTask {
            task: "a".to_owned(),
            workflow: None,
            epoch: None,
            kind: CheckpointKind::Progress,
            summary: format!("step {number} is done"),
            detail: Value::Null,
            files: Vec::new(),
            tokens: None,
            cost: None,
        };
        bench.write("agent1", operation).unwrap();
    }
    for budget in [100, 500, 8_000] {
        let operation = GetContext { task: "a".to_owned(), workflow: None, budget: Some(budget) };
        let context = bench.read(operation).unwrap();
        assert!(context.text.contains("step 4 is done"), "{budget}: {}", context.text);
        assert!(context.text.starts_with("## Task\na ("), "{}", context.text);
        assert!(context.tokens <= budget);
        assert!(context.left_out.iter().any(|part| part.contains("parts of the task")), "{:?}", context.left_out);
    }
}

#[test]
fn prime_says_how_to_go_on_however_much_an_agent_holds() {
    let mut bench = Bench::new();
    let tasks: Vec<_> = (0..40).map(|number| json!({ "name": format!("task number {number}") })).collect();
    bench.start(&json!(tasks));
    for _ in 0..30 {
        let operation = ClaimTask { task: None, workflow: None, ttl_ms: None, budget: None };
        bench.write("agent1", operation).unwrap();
    }
    let prime = engine::read(&mut bench.store, &caller("agent1"), &mut bench.entropy, Prime::default()).unwrap();
    assert!(prime.tokens <= 800, "{}", prime.tokens);
    assert!(prime.text.contains("way task done") && prime.text.contains("Exit code 5"), "{}", prime.text);
    assert_eq!(prime.left_out, ["25 leases"]);
    // Whoever is new learns what there is to do.
    let prime = engine::read(&mut bench.store, &caller("agent9"), &mut bench.entropy, Prime::default()).unwrap();
    assert!(prime.text.contains("task number 30"), "{}", prime.text);
}

#[test]
fn an_assignment_is_shown_by_name() {
    let mut bench = Bench::new();
    bench.start(&json!([{ "name": "a" }]));
    let operation = RegisterAgent {
        name: Some("agent1".to_owned()),
        runtime: None,
        role: Some(Role::Worker),
        capabilities: None,
        metadata: Value::Null,
        process: None,
        timeout_ms: None,
        max_claims: None,
    };
    bench.write("person", operation).unwrap();
    let assign =
        waypost_core::op::AssignTask { task: "a".to_owned(), workflow: None, agent: Some("agent1".to_owned()) };
    assert_eq!(bench.write("person", assign).unwrap().assigned_to.as_deref(), Some("agent1"));
}

#[test]
fn what_a_task_waits_for_is_named_in_the_order_of_the_plan() {
    let mut bench = Bench::new();
    let first: Vec<String> = ["d", "a", "c", "b"].map(str::to_owned).into();
    let mut tasks: Vec<_> = first.iter().map(|name| json!({ "name": name })).collect();
    tasks.push(json!({ "name": "last", "depends_on": ["a", "b", "c", "d"] }));
    bench.start(&json!(tasks));
    assert_eq!(bench.task("last").blocked_by, first);
    let page = bench.read(ShowWorkflow { workflow: "w".to_owned() }).unwrap();
    assert_eq!(page.tasks[4].depends_on, first);
    let error = bench.claim("agent1", "last").unwrap_err();
    assert_eq!(error.to_string(), "task last waits for d (pending), a (pending), c (pending), b (pending)");
}
