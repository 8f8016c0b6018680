//! Random work by several agents on all backends: same answers, same rows, and every invariant holds after each step.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{TestCaseResult, TestRunner};
use serde_json::{Map, Value, json};
use waypost_core::Result;
use waypost_core::clock::Clock;
use waypost_core::context::{Authority, Caller, LeaseTimes, Standing};
use waypost_core::engine;
use waypost_core::id::{Entropy, RepositoryId, TaskId, WorktreeId};
use waypost_core::model::{
    CheckpointKind, DependencyKind, Event, EventQuery, MessageState, Repository, Role, TaskStatus, Vcs, WorkflowQuery,
    WorkflowStatus, Worktree,
};
use waypost_core::op::{
    AckMessage, AddCheckpoint, AddTask, AddWorkflow, AnswerQuestion, AskQuestion, AssignTask, CancelWorkflow,
    ClaimTask, EndIssueLease, ExpireDue, FailTask, FinishTask, Heartbeat, IntoAnyOperation, LeaseIssue, ListInbox,
    PauseTask, PauseWorkflow, RegisterAgent, ReleaseTask, RemoveTask, ReopenTask, ReplanWorkflow, ResumeWorkflow,
    RetireAgent, SendMessage, SkipTask, StartWorkflow,
};
use waypost_core::redact::Secrets;
use waypost_core::store::Store;
use waypost_core::time::Timestamp;
use waypost_core::work::plan::{Plan, PlannedTask};
use waypost_store::postgres::{self, PostgresStore};
use waypost_store::sqlite::{Options, SqliteStore};
use waypost_testkit::Postgres;
use waypost_testkit::memory::MemoryStore;

#[derive(Clone)]
struct SetClock(Arc<AtomicI64>);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// Entropy that gives every store the same ids: a counter, spread over all bytes.
#[derive(Clone)]
struct Counter(u64);

impl Entropy for Counter {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = self.0.to_be_bytes()[0];
        }
    }
}

const AGENTS: [&str; 4] = ["ada", "bob", "cyd", "person"];

/// One step. Numbers select an existing item.
#[derive(Clone, Debug)]
enum Step {
    Create { tasks: Vec<Shape>, most: Option<u32> },
    Start(usize),
    Pause(usize),
    Resume(usize),
    Cancel(usize),
    Replan { workflow: usize, tasks: Vec<Shape> },
    Add { workflow: usize, needs: Option<usize> },
    Remove(usize),
    ClaimNext,
    Claim(usize),
    Checkpoint { task: usize, lag: u64 },
    Done { task: usize, lag: u64, evidence: bool },
    Fail { task: usize, lag: u64, hopeless: bool },
    Release { task: usize, lag: u64, force: bool },
    SetAside { task: usize },
    Skip(usize),
    Reopen(usize),
    Ask(usize),
    Answer(usize),
    Assign { task: usize, agent: Option<usize> },
    Beat,
    Register { capability: bool, claims: Option<u32> },
    Retire,
    Send { to: usize },
    Inbox,
    Ack(usize),
    LeaseIssue(usize),
    EndIssueLease(usize),
    Pass(u64),
}

/// A task of a random plan.
#[derive(Clone, Debug)]
struct Shape {
    needs: Vec<usize>,
    priority: u32,
    attempts: u32,
    backoff: u64,
    is_wild: bool,
    is_special: bool,
    needs_evidence: bool,
    run: Option<u64>,
    stall: Option<u64>,
    queue: Option<u64>,
}

fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    let timeout = || prop::option::weighted(0.15, 60_000_u64..3_600_000);
    let shape = (
        prop::collection::vec(0_usize..6, 0..3),
        0_u32..5,
        1_u32..4,
        prop_oneof![Just(0_u64), 1_000_u64..600_000],
        (prop::bool::weighted(0.03), prop::bool::weighted(0.2), prop::bool::weighted(0.2)),
        (timeout(), timeout(), timeout()),
    );
    let shape =
        shape.prop_map(|(needs, priority, attempts, backoff, (is_wild, is_special, needs_evidence), times)| Shape {
            needs,
            priority,
            attempts,
            backoff,
            is_wild,
            is_special,
            needs_evidence,
            run: times.0,
            stall: times.1,
            queue: times.2,
        });
    prop::collection::vec(shape, 1..6)
}

fn step() -> impl Strategy<Value = Step> {
    let task = || 0_usize..12;
    let lag = || prop_oneof![4 => Just(0_u64), 1 => Just(1_u64)];
    prop_oneof![
        3 => (shapes(), prop::option::weighted(0.3, 1_u32..3)).prop_map(|(tasks, most)| Step::Create { tasks, most }),
        3 => (0_usize..3).prop_map(Step::Start),
        1 => (0_usize..3).prop_map(Step::Pause),
        1 => (0_usize..3).prop_map(Step::Resume),
        1 => (0_usize..3).prop_map(Step::Cancel),
        1 => (0_usize..3, shapes()).prop_map(|(workflow, tasks)| Step::Replan { workflow, tasks }),
        1 => (0_usize..3, prop::option::of(0_usize..6)).prop_map(|(workflow, needs)| Step::Add { workflow, needs }),
        1 => task().prop_map(Step::Remove),
        8 => Just(Step::ClaimNext),
        3 => task().prop_map(Step::Claim),
        4 => (task(), lag()).prop_map(|(task, lag)| Step::Checkpoint { task, lag }),
        6 => (task(), lag(), any::<bool>()).prop_map(|(task, lag, evidence)| Step::Done { task, lag, evidence }),
        3 => (task(), lag(), prop::bool::weighted(0.1))
            .prop_map(|(task, lag, hopeless)| Step::Fail { task, lag, hopeless }),
        2 => (task(), lag(), prop::bool::weighted(0.2)).prop_map(|(task, lag, force)| Step::Release { task, lag, force }),
        1 => task().prop_map(|task| Step::SetAside { task }),
        1 => task().prop_map(Step::Skip),
        1 => task().prop_map(Step::Reopen),
        2 => task().prop_map(Step::Ask),
        2 => task().prop_map(Step::Answer),
        1 => (task(), prop::option::of(0_usize..4)).prop_map(|(task, agent)| Step::Assign { task, agent }),
        2 => Just(Step::Beat),
        1 => (any::<bool>(), prop::option::of(1_u32..3))
            .prop_map(|(capability, claims)| Step::Register { capability, claims }),
        1 => Just(Step::Retire),
        2 => (0_usize..4).prop_map(|to| Step::Send { to }),
        1 => Just(Step::Inbox),
        1 => (0_usize..4).prop_map(Step::Ack),
        1 => (0_usize..2).prop_map(Step::LeaseIssue),
        1 => (0_usize..2).prop_map(Step::EndIssueLease),
        4 => prop_oneof![0_u64..5_000, 60_000_u64..1_200_000].prop_map(Step::Pass),
    ]
}

fn plan(tasks: &[Shape]) -> Plan {
    let planned = tasks.iter().enumerate().map(|(number, shape)| PlannedTask {
        name: format!("t{number}"),
        // Mostly on earlier tasks; sometimes on itself, on a missing task, or in a cycle, which is refused.
        depends_on: {
            let need = |need: &usize| if shape.is_wild { Some(*need) } else { need.checked_rem(number) };
            let needs: BTreeSet<_> = shape.needs.iter().filter_map(need).collect();
            needs.into_iter().map(|need| format!("t{need}")).collect()
        },
        priority: Some(shape.priority),
        max_attempts: Some(shape.attempts),
        backoff: Some(shape.backoff),
        capabilities: if shape.is_special { vec!["special".to_owned()] } else { Vec::new() },
        needs_evidence: shape.needs_evidence,
        issue: (number == 0).then(|| "app-1".to_owned()),
        timeout: shape.run,
        stall_timeout: shape.stall,
        queue_timeout: shape.queue,
        ..PlannedTask::default()
    });
    Plan { tasks: planned.collect(), ..Plan::default() }
}

fn caller(agent: usize) -> Caller {
    let repository = Repository {
        id: "rp_000000000000".parse::<RepositoryId>().unwrap(),
        name: "repository".to_owned(),
        path: PathBuf::from("/r"),
        vcs: Vcs::Git,
        remote_url: None,
        default_branch: None,
    };
    let worktree = Worktree {
        id: "wt_000000000000".parse::<WorktreeId>().unwrap(),
        repository_id: repository.id.clone(),
        name: "worktree".to_owned(),
        path: PathBuf::from("/r"),
        branch: None,
        first_seen: Timestamp::from_millis(0),
        last_seen: Timestamp::from_millis(0),
        removed_at: None,
    };
    let name = AGENTS[agent].to_owned();
    let agent = (name != "person").then(|| name.clone());
    Caller {
        actor: name,
        agent,
        repository: Arc::new(repository),
        worktree: Arc::new(worktree),
        standing: Standing::MainWorktree,
        is_shared: false,
        lease_times: LeaseTimes::default(),
        authority: Authority::User,
        secrets: Secrets::default(),
    }
}

/// Returns all rows of a store as JSON, with the events after a sequence.
fn dump(store: &mut dyn Store, since: u64) -> Value {
    let mut tx = store.begin_read().unwrap();
    let workflows = tx.workflow_list(&WorkflowQuery { limit: 1_000, ..WorkflowQuery::default() }).unwrap();
    let mut tasks = Vec::new();
    let mut dependencies = Vec::new();
    let mut checkpoints = Vec::new();
    let mut leases = Vec::new();
    for workflow in &workflows {
        for task in tx.task_list(&workflow.id).unwrap() {
            checkpoints.extend(tx.checkpoint_list(&task.id, None, 1_000).unwrap());
            leases.extend(tx.lease_get(task.id.as_str()).unwrap());
            tasks.push(task);
        }
        dependencies.extend(tx.dependency_list(&workflow.id).unwrap());
    }
    for issue in ISSUES {
        leases.extend(tx.lease_get(issue).unwrap());
    }
    let agents = tx.agent_list().unwrap();
    let mut inboxes = Vec::new();
    for agent in &agents {
        inboxes.push(tx.message_list(&agent.id, Timestamp::from_millis(0), 0, 1_000).unwrap());
    }
    let events = tx.event_list(&EventQuery { since: Some(since), limit: 100_000, ..EventQuery::default() }).unwrap();
    json!({
        "workflows": workflows, "tasks": tasks, "dependencies": dependencies, "checkpoints": checkpoints,
        "leases": leases, "agents": agents, "inboxes": inboxes, "notices": tx.notice_list().unwrap(), "events": events,
    })
}

const ISSUES: [&str; 2] = ["app-7", "app-8"];

/// A store with the caller and idempotency key of a step.
struct World<'a> {
    store: &'a mut dyn Store,
    entropy: Counter,
    caller: Caller,
    key: String,
}

impl World<'_> {
    fn call<O: IntoAnyOperation>(&mut self, operation: O) -> Result<Value> {
        let answer = engine::write(self.store, &self.caller, &mut self.entropy, Some(&self.key), operation)?;
        Ok(serde_json::to_value(answer).unwrap())
    }
}

/// The existing items of the first store, so that all stores get the same requests.
struct Choice {
    workflows: Vec<String>,
    tasks: Vec<HeldTask>,
    messages: Vec<waypost_core::id::MessageId>,
}

/// A task, the epoch of its lease, and the agent that holds it.
struct HeldTask {
    id: TaskId,
    epoch: Option<u64>,
    holder: Option<usize>,
}

fn choice(store: &mut dyn Store) -> Choice {
    let mut tx = store.begin_read().unwrap();
    let workflows = tx.workflow_list(&WorkflowQuery { limit: 3, ..WorkflowQuery::default() }).unwrap();
    let mut tasks = Vec::new();
    for workflow in &workflows {
        for task in tx.task_list(&workflow.id).unwrap() {
            let lease = tx.lease_get(task.id.as_str()).unwrap();
            let holder = lease.as_ref().and_then(|lease| lease.holder.clone());
            let holder = holder.map(|holder| tx.agent_get(&holder).unwrap().unwrap().name);
            let holder = holder.map(|holder| AGENTS.iter().position(|name| *name == holder).unwrap());
            tasks.push(HeldTask { id: task.id, epoch: lease.map(|lease| lease.epoch), holder });
        }
    }
    let mut messages = Vec::new();
    for agent in tx.agent_list().unwrap() {
        messages.extend(
            tx.message_list(&agent.id, Timestamp::from_millis(0), 0, 10).unwrap().into_iter().map(|one| one.id),
        );
    }
    Choice { workflows: workflows.into_iter().map(|one| one.id.to_string()).collect(), tasks, messages }
}

#[expect(clippy::too_many_lines, reason = "one arm a step")]
fn run(world: &mut World<'_>, step: &Step, choice: &Choice, number: usize) -> Option<Result<Value>> {
    let workflow = |index: usize| choice.workflows.get(index).cloned();
    let task = |index: usize| choice.tasks.get(index).map(|task| task.id.to_string());
    let epoch = |index: usize, lag: u64| {
        choice.tasks.get(index).and_then(|task| task.epoch).map(|epoch| epoch.saturating_sub(lag))
    };
    Some(match step.clone() {
        Step::Create { tasks, most } => world.call(AddWorkflow {
            name: format!("w{number}"),
            max_parallel: most,
            plan: Some(plan(&tasks)),
            start: !number.is_multiple_of(4),
            ..AddWorkflow::default()
        }),
        Step::Start(index) => world.call(StartWorkflow { workflow: workflow(index)? }),
        Step::Pause(index) => world.call(PauseWorkflow { workflow: workflow(index)? }),
        Step::Resume(index) => world.call(ResumeWorkflow { workflow: workflow(index)? }),
        Step::Cancel(index) => world.call(CancelWorkflow { workflow: workflow(index)?, reason: None }),
        Step::Replan { workflow: index, tasks } => {
            world.call(ReplanWorkflow { workflow: workflow(index)?, plan: plan(&tasks), reason: "better".to_owned() })
        }
        Step::Add { workflow: index, needs } => world.call(AddTask {
            workflow: workflow(index)?,
            task: PlannedTask {
                name: format!("added{number}"),
                depends_on: needs.map(|need| format!("t{need}")).into_iter().collect(),
                ..PlannedTask::default()
            },
            before: Vec::new(),
        }),
        Step::Remove(index) => world.call(RemoveTask { task: task(index)?, workflow: None }),
        Step::ClaimNext => world.call(ClaimTask { budget: Some(200), ..ClaimTask::default() }),
        Step::Claim(index) => world.call(ClaimTask {
            task: Some(task(index)?),
            ttl_ms: Some(300_000),
            budget: Some(200),
            ..ClaimTask::default()
        }),
        Step::Checkpoint { task: index, lag } => world.call(AddCheckpoint {
            task: task(index)?,
            workflow: None,
            epoch: epoch(index, lag),
            kind: CheckpointKind::Progress,
            summary: "further".to_owned(),
            detail: Value::Null,
            files: Vec::new(),
            tokens: Some(7),
            cost: Some(0.25),
        }),
        Step::Done { task: index, lag, evidence } => world.call(FinishTask {
            task: task(index)?,
            workflow: None,
            epoch: epoch(index, lag),
            outcome: "done".to_owned(),
            evidence: evidence.then(|| "seen".to_owned()),
        }),
        Step::Fail { task: index, lag, hopeless } => world.call(FailTask {
            task: task(index)?,
            workflow: None,
            epoch: epoch(index, lag),
            error: if hopeless { "hopeless" } else { "broken" }.to_owned(),
            hopeless,
        }),
        Step::Release { task: index, lag, force } => {
            world.call(ReleaseTask { task: task(index)?, epoch: epoch(index, lag), force, ..ReleaseTask::default() })
        }
        Step::SetAside { task: index } => {
            world.call(PauseTask { task: task(index)?, epoch: epoch(index, 0), ..PauseTask::default() })
        }
        Step::Skip(index) => world.call(SkipTask { task: task(index)?, ..SkipTask::default() }),
        Step::Reopen(index) => world.call(ReopenTask { task: task(index)?, ..ReopenTask::default() }),
        Step::Ask(index) => world.call(AskQuestion {
            task: task(index)?,
            workflow: None,
            epoch: epoch(index, 0),
            question: "which?".to_owned(),
        }),
        Step::Answer(index) => {
            world.call(AnswerQuestion { task: task(index)?, workflow: None, answer: "this".to_owned() })
        }
        Step::Assign { task: index, agent } => world.call(AssignTask {
            task: task(index)?,
            workflow: None,
            agent: agent.map(|agent| AGENTS[agent].to_owned()),
        }),
        Step::Beat => world.call(Heartbeat::default()),
        Step::Register { capability, claims } => world.call(RegisterAgent {
            role: (world.caller.agent.is_none()).then_some(Role::Human),
            capabilities: Some(if capability { vec!["special".to_owned()] } else { Vec::new() }),
            max_claims: claims,
            ..RegisterAgent::default()
        }),
        Step::Retire => world.call(RetireAgent { agent: None }),
        Step::Send { to } => world.call(SendMessage {
            to: Some(AGENTS[to].to_owned()),
            subject: Some(number.to_string()),
            body: "hello".to_owned(),
            ..SendMessage::default()
        }),
        Step::Inbox => world.call(ListInbox { limit: 5, peek: false, after: None }),
        Step::Ack(index) => world.call(AckMessage { messages: vec![choice.messages.get(index)?.clone()] }),
        Step::LeaseIssue(index) => world.call(LeaseIssue { issue: ISSUES[index].to_owned(), ttl_ms: None }),
        Step::EndIssueLease(index) => {
            world.call(EndIssueLease { issue: ISSUES[index].to_owned(), ..EndIssueLease::default() })
        }
        Step::Pass(_) => world.call(ExpireDue {}),
    })
}

/// The state before a step, to compare with the state after it.
#[derive(Default)]
struct Past {
    epochs: BTreeMap<String, u64>,
    /// The epoch and the agent of the last grant of each subject.
    granted: BTreeMap<String, (u64, Value)>,
    acted: BTreeSet<String>,
    /// Tasks that were reopened: a task that depends on them may be in progress although they are not completed.
    reopened: BTreeSet<String>,
    /// The number of failed attempts at each task since it was reopened.
    attempts: BTreeMap<String, u32>,
    /// Tasks that an agent reported as hopeless, or that no agent claimed in time.
    hopeless: BTreeSet<String>,
    /// Whether the claim limit of an agent was changed, maybe below the number of its leases.
    recapped: bool,
    /// The sequence of the last event that was checked.
    seen: u64,
}

impl Past {
    fn learn(&mut self, event: &Event) -> TestCaseResult {
        self.seen = event.sequence;
        match event.kind.as_str() {
            // 2: no two grants of a subject have the same epoch.
            "task.claimed" | "issue.claimed" => {
                let grant = (event.data["epoch"].as_u64().unwrap(), event.data["agent"].clone());
                let before = self.granted.insert(event.subject.clone(), grant.clone());
                let is_renewed =
                    before.as_ref() == Some(&grant) && (event.data["renewed"] == true || event.kind == "issue.claimed");
                let is_new = before.as_ref().is_none_or(|before| grant.0 > before.0);
                prop_assert!(is_new || is_renewed, "{:?} after {:?} of {}", grant, before, &event.subject);
            }
            "task.reopened" => {
                self.reopened.insert(event.subject.clone());
                self.attempts.remove(&event.subject);
            }
            "task.failed" | "task.expired" => {
                *self.attempts.entry(event.subject.clone()).or_default() += 1;
                let error = event.data["error"].as_str().unwrap();
                if error == "hopeless" || error.starts_with("no agent claimed it") {
                    self.hopeless.insert(event.subject.clone());
                }
            }
            _ => {}
        }
        self.recapped |= event.kind == "agent.registered" && event.data["changed"]["max_claims"].is_array();
        if event.kind == "message.acted" {
            self.acted.insert(event.subject.clone());
        }
        Ok(())
    }
}

fn check(store: &mut dyn Store, now: i64, past: &mut Past) -> TestCaseResult {
    let mut tx = store.begin_read().unwrap();
    let since = EventQuery { since: Some(past.seen), limit: 100_000, ..EventQuery::default() };
    for event in tx.event_list(&since).unwrap() {
        past.learn(&event)?;
    }
    let workflows = tx.workflow_list(&WorkflowQuery { limit: 1_000, ..WorkflowQuery::default() }).unwrap();
    for workflow in &workflows {
        let tasks = tx.task_list(&workflow.id).unwrap();
        let status: BTreeMap<_, _> = tasks.iter().map(|task| (task.id.clone(), task.status)).collect();
        let dependencies = tx.dependency_list(&workflow.id).unwrap();
        for task in &tasks {
            let lease = tx.lease_get(task.id.as_str()).unwrap();
            let is_held = lease.as_ref().is_some_and(|lease| lease.holder.is_some());
            // 1 and 4: one row per task, and it is held exactly while it is in progress.
            prop_assert_eq!(is_held, task.status == TaskStatus::InProgress, "{} {}", &task.name, task.status);
            if let Some(lease) = lease {
                // 2: epochs never decrease.
                let known = past.epochs.entry(lease.subject.clone()).or_default();
                prop_assert!(lease.epoch >= *known, "the epoch of {} decreased", task.name);
                *known = lease.epoch;
                if lease.holder.is_some() {
                    prop_assert!(lease.deadline().as_millis() > now, "{} is held past its deadline", task.name);
                    // No step requests a longer lease.
                    let is_short = lease.expires_at.as_millis() <= now + 600_000;
                    prop_assert!(is_short || lease.is_unlimited(), "{} is held too long", task.name);
                }
            }
            // 7: a task in progress has no open blockers.
            if task.status == TaskStatus::InProgress {
                let unmet = dependencies.iter().any(|on| {
                    let is_blocker = on.task_id == task.id && on.kind == DependencyKind::Blocks;
                    // A blocker can be reopened afterwards.
                    is_blocker && !status[&on.depends_on].satisfies() && !past.reopened.contains(on.depends_on.as_str())
                });
                prop_assert!(!unmet, "{} is in progress with an open blocker", task.name);
            }
            // 8: every failed attempt is counted, and there are no more than allowed.
            let attempts = past.attempts.get(task.id.as_str()).copied().unwrap_or_default();
            prop_assert_eq!(task.attempts, attempts, "attempts at {}", &task.name);
            prop_assert!(task.attempts <= task.max_attempts);
            let is_used_up = task.attempts == task.max_attempts;
            match task.status {
                TaskStatus::Dead => prop_assert!(is_used_up || past.hopeless.contains(task.id.as_str())),
                TaskStatus::Pending | TaskStatus::InProgress | TaskStatus::Failed => {
                    prop_assert!(!is_used_up, "{} has used all attempts", &task.name);
                }
                _ => {}
            }
            if task.status == TaskStatus::Completed {
                prop_assert!(task.outcome.is_some() && (!task.needs_evidence || task.evidence.is_some()));
            }
        }
        // 7: the graph has no cycles.
        prop_assert!(is_acyclic(&dependencies.iter().map(|on| (&on.task_id, &on.depends_on)).collect::<Vec<_>>()));
        // 10: no more tasks in progress than allowed.
        let running = tasks.iter().filter(|task| task.status == TaskStatus::InProgress).count();
        prop_assert!(workflow.max_parallel.is_none_or(|most| running <= most as usize));
        match workflow.status {
            WorkflowStatus::Completed => prop_assert!(tasks.iter().all(|task| task.status.satisfies())),
            // A workflow may be empty, because all its tasks can be removed.
            WorkflowStatus::InProgress => {
                prop_assert!(tasks.is_empty() || !tasks.iter().all(|task| task.status.satisfies()));
            }
            _ => {}
        }
    }
    for agent in tx.agent_list().unwrap() {
        let held = tx.lease_list(Some(&agent.id)).unwrap();
        // 10: no agent holds more leases than allowed, and a retired agent holds none.
        prop_assert!(agent.max_claims.is_none_or(|most| held.len() <= most as usize) || past.recapped);
        prop_assert!(agent.retired_at.is_none() || held.is_empty());
        // 25 and 27: messages are in order, and their count equals the length of the list.
        let inbox = tx.message_list(&agent.id, Timestamp::from_millis(now), 0, 1_000).unwrap();
        let count = tx.message_count(&agent.id, Timestamp::from_millis(now)).unwrap();
        prop_assert_eq!(inbox.len() as u64, count);
        prop_assert!(inbox.is_sorted_by_key(|message| message.number));
        for message in inbox {
            // 24: a message never returns after it was acted on.
            prop_assert!(message.state != MessageState::Acted && !past.acted.contains(message.id.as_str()));
        }
    }
    Ok(())
}

/// 6 and 16: the history has no gaps and only legal transitions, and replaying it gives the stored rows.
fn check_history(store: &mut dyn Store) -> TestCaseResult {
    let mut tx = store.begin_read().unwrap();
    let events = tx.event_list(&EventQuery { since: Some(0), limit: 100_000, ..EventQuery::default() }).unwrap();
    prop_assert!(events.iter().zip(1..).all(|(event, sequence)| event.sequence == sequence), "there is a gap");
    prop_assert!(events.is_sorted_by_key(|event| event.time));
    let mut folded: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for event in &events {
        let is_row = event.kind.starts_with("task.") || event.kind.starts_with("workflow.");
        if is_row
            && (event.kind.ends_with("added") || event.kind.ends_with("created"))
            && event.data["after"]["status"].is_string()
        {
            folded.insert(event.subject.clone(), event.data["after"].as_object().unwrap().clone());
        }
        if event.kind == "task.removed" {
            folded.remove(&event.subject);
        }
        let Some(row) = folded.get_mut(&event.subject).filter(|_| is_row) else { continue };
        let Some(changed) = event.data["changed"].as_object() else { continue };
        for (field, change) in changed {
            prop_assert_eq!(&row[field], &change[0], "{} does not match the value before", event.kind);
            if field == "status" && event.kind.starts_with("task.") {
                let from: TaskStatus = change[0].as_str().unwrap().parse().unwrap();
                let to: TaskStatus = change[1].as_str().unwrap().parse().unwrap();
                prop_assert!(from.next().contains(&to), "{from} to {to}");
            }
            row.insert(field.clone(), change[1].clone());
        }
    }
    for (id, row) in folded {
        let stored = if let Ok(id) = id.parse::<TaskId>() {
            serde_json::to_value(tx.task_get(&id).unwrap().unwrap()).unwrap()
        } else {
            serde_json::to_value(tx.workflow_get(&id.parse().unwrap()).unwrap().unwrap()).unwrap()
        };
        prop_assert_eq!(stored, Value::Object(row), "replaying the history of {} does not give the stored row", id);
    }
    Ok(())
}

fn is_acyclic(edges: &[(&TaskId, &TaskId)]) -> bool {
    let mut left: Vec<_> = edges.to_vec();
    loop {
        let before = left.len();
        let waiting: BTreeSet<_> = left.iter().map(|(task, _)| *task).collect();
        left.retain(|(_, on)| waiting.contains(on));
        if left.len() == before {
            return left.is_empty();
        }
    }
}

fn all_agree(steps: &[(usize, Step)], postgres: Option<PostgresStore>) -> TestCaseResult {
    let clock = Arc::new(AtomicI64::new(1_000_000));
    // In memory where possible: a thousand steps would each wait for the disk.
    let memory = std::path::Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let dir = tempfile::tempdir_in(base).unwrap();
    let sqlite = SqliteStore::open(&dir.path().join("state.db"), Options::default(), Box::new(SetClock(clock.clone())));
    let mut stores: Vec<Box<dyn Store>> =
        vec![Box::new(MemoryStore::new(Box::new(SetClock(clock.clone())))), Box::new(sqlite.unwrap())];
    if let Some(postgres) = postgres {
        stores.push(Box::new(postgres.at_time_of(Box::new(SetClock(clock.clone())))));
    }
    let mut past = Past::default();
    let mut entropy = Counter(1);
    for (number, (agent, step)) in steps.iter().enumerate() {
        if let Step::Pass(millis) = step {
            clock.fetch_add(i64::try_from(*millis).unwrap(), Ordering::Relaxed);
        }
        let mut choice = choice(&mut *stores[0]);
        // In most steps the agent that holds a task writes to it.
        let mut agent = *agent;
        let mut step = step.clone();
        if agent >= AGENTS.len() {
            agent %= AGENTS.len();
            choice.tasks.sort_by_key(|task| task.holder.is_none());
            if let Step::Checkpoint { task, .. }
            | Step::Done { task, .. }
            | Step::Fail { task, .. }
            | Step::Release { task, .. }
            | Step::SetAside { task }
            | Step::Ask(task) = &mut step
            {
                *task %= 3;
                agent = choice.tasks.get(*task).and_then(|task| task.holder).unwrap_or(agent);
            }
        }
        let step = &step;
        let before = past.epochs.clone();
        let mut answers = Vec::new();
        let mut used = entropy.clone();
        for store in &mut stores {
            let mut world = World {
                store: &mut **store,
                entropy: entropy.clone(),
                caller: caller(agent),
                key: format!("step {number}"),
            };
            let answer = run(&mut world, step, &choice, number);
            used = world.entropy;
            answers.push(answer.map(|answer| answer.map_err(|error| (error.kind(), error.full_message()))));
        }
        entropy = used;
        for other in &answers[1..] {
            prop_assert_eq!(&answers[0], other, "step {}: {:?}", number, step);
        }
        // 3: a write with the epoch of a former holder is refused.
        let lag = match step {
            Step::Checkpoint { task, lag } | Step::Done { task, lag, .. } | Step::Fail { task, lag, .. } => {
                (*task, *lag)
            }
            Step::Release { task, lag, force: false } => (*task, *lag),
            _ => (0, 0),
        };
        let had_epoch = choice.tasks.get(lag.0).is_some_and(|task| task.epoch.is_some());
        if let (1, true, Some(Ok(answer))) = (lag.1, had_epoch, &answers[0]) {
            prop_assert!(false, "{:?} was accepted: {}", step, answer);
        }
        // 3: a write of an agent that does not hold the task is refused.
        if let (
            Step::Checkpoint { task, .. }
            | Step::Done { task, .. }
            | Step::Fail { task, .. }
            | Step::Release { task, force: false, .. }
            | Step::Ask(task),
            Some(Ok(answer)),
        ) = (step, &answers[0])
        {
            // The agent that finished a task may repeat the request.
            let is_again = matches!(step, Step::Done { .. }) && choice.tasks[*task].holder.is_none();
            let is_holder = choice.tasks[*task].holder == Some(agent);
            prop_assert!(is_holder || is_again, "{:?} was accepted: {}", step, answer);
        }
        // 4: a claim or checkpoint renews the lease for its whole duration.
        if let (Step::Claim(task) | Step::Checkpoint { task, .. }, Some(Ok(_))) = (step, &answers[0]) {
            let mut tx = stores[1].begin_read().unwrap();
            let lease = tx.lease_get(choice.tasks[*task].id.as_str()).unwrap().unwrap();
            let until = clock.load(Ordering::Relaxed) + i64::try_from(lease.ttl_ms).unwrap();
            prop_assert!(lease.expires_at.as_millis() >= until, "{:?} did not renew", step);
        }
        for store in &mut stores {
            engine::write(&mut **store, &caller(3), &mut Counter(7), Some(&format!("expire {number}")), ExpireDue {})
                .unwrap();
        }
        let states: Vec<_> = stores.iter_mut().map(|store| dump(&mut **store, past.seen)).collect();
        for other in &states[1..] {
            prop_assert_eq!(&states[0], other, "after step {}: {:?}", number, step);
        }
        check(&mut *stores[1], clock.load(Ordering::Relaxed), &mut past)?;
        for (subject, epoch) in &before {
            prop_assert!(past.epochs.get(subject).is_none_or(|now| now >= epoch));
        }
    }
    check_history(&mut *stores[1])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_work_is_the_same_on_every_backend_and_keeps_every_invariant(
        steps in prop::collection::vec((0_usize..12, step()), 1..90)
    ) {
        all_agree(&steps, None)?;
    }
}

/// Fewer and shorter cases, because every step takes several round trips to a server.
#[test]
fn random_work_is_the_same_on_postgres() {
    let server = Postgres::start(&[]);
    let config =
        ProptestConfig { cases: 12, max_shrink_iters: 60, failure_persistence: None, ..ProptestConfig::default() };
    let steps = prop::collection::vec((0_usize..12, step()), 20..60);
    TestRunner::new(config)
        .run(&steps, |steps| {
            all_agree(&steps, Some(PostgresStore::open(&server.url(), postgres::Options::default()).unwrap()))
        })
        .unwrap_or_else(|error| panic!("{error}"));
}
