//! Workflows, tasks, claims and contexts.

use serde_json::{Value, json};
use waypost_core::context::{Caller, LeaseTimes};
use waypost_core::escape::EXPLANATION;
use waypost_core::id::CheckpointId;
use waypost_core::model::{Lease, News, ProcessIdentity, TaskStatus, WorkflowStatus};
use waypost_core::op::{
    AddCheckpoint, AddJobRecord, AddTask, AddWorkflow, AnswerQuestion, AskQuestion, AssignTask, ClaimTask, Claimed,
    ExpireDue, FailTask, FinishJob, Heartbeat, IntroduceAgent, LeaseIssue, ListLeases, ListNotices, PauseWorkflow,
    RecordJobStarted, RecordMerge, RegisterAgent, RegisterSupervisor, RemoveTask, ReopenTask, ReplanWorkflow,
    ResumeWorkflow, RetireAgent, ShowContext, ShowTask, ShowWorkflow, ShowWorkflowSummary, SkipTask, StartWorkflow,
};
use waypost_core::store::Store as _;
use waypost_core::time::Timestamp;
use waypost_core::work::plan::{Plan, PlannedTask};
use waypost_core::work::timeline::SpanKind;
use waypost_core::work::view::TaskView;
use waypost_core::{Kind, Result};

use crate::harness::{PERSON, SeededEntropy, TestStore, checkpoint, claim, finish, person_in, registration, workflow};

/// A store with a workflow `w`.
struct Bench(TestStore);

impl Bench {
    fn new() -> Bench {
        Bench(TestStore::new())
    }

    /// Creates and starts the workflow.
    fn start(&mut self, plan: &Value) {
        self.create(plan, json!({}), true);
    }

    fn create(&mut self, plan: &Value, config: Value, start: bool) {
        let plan = Plan::from_value(plan.clone()).unwrap();
        self.0.write(PERSON, AddWorkflow { config, start, ..workflow("w", plan) }).unwrap();
    }

    fn claim(&mut self, agent: &str, task: &str) -> Result<Claimed> {
        self.0.write(agent, claim(Some(task)))
    }

    /// Claims and finishes a task.
    fn finish(&mut self, agent: &str, task: &str) -> TaskView {
        self.claim(agent, task).unwrap();
        self.0.write(agent, finish(task)).unwrap().task
    }

    /// Claims a task and fails it for good.
    fn kill(&mut self, task: &str) {
        self.claim("agent3", task).unwrap();
        let operation =
            FailTask { task: task.to_owned(), error: "no way".to_owned(), hopeless: true, ..FailTask::default() };
        self.0.write("agent3", operation).unwrap();
    }

    fn skip(&mut self, task: &str) {
        self.0.write(PERSON, SkipTask { task: task.to_owned(), ..SkipTask::default() }).unwrap();
    }

    fn task(&mut self, task: &str) -> TaskView {
        self.0.read(PERSON, ShowTask { task: task.to_owned(), ..ShowTask::default() }).unwrap().task
    }

    fn status(&mut self) -> WorkflowStatus {
        self.0.read(PERSON, ShowWorkflow { workflow: "w".to_owned() }).unwrap().workflow.workflow.status
    }
}

fn planned(name: &str) -> PlannedTask {
    PlannedTask { name: name.to_owned(), ..PlannedTask::default() }
}

#[test]
fn a_summary_has_the_longest_chain_of_unfinished_tasks() {
    let mut bench = Bench::new();
    bench.start(&json!({ "tasks": [
        { "name": "a" },
        { "name": "b", "depends_on": ["a"] },
        { "name": "c", "depends_on": ["b"] },
        { "name": "d" },
        { "name": "e", "depends_on": ["c", "d"] },
        { "name": "f", "informed_by": ["e"] },
    ] }));
    let summarize = || ShowWorkflowSummary { workflow: "w".to_owned() };
    let summary = bench.0.read(PERSON, summarize()).unwrap();
    assert_eq!(summary.critical_path, ["a", "b", "c", "e"]);
    assert_eq!((summary.percent, summary.claimable, summary.blocked), (0, 3, 3));
    bench.finish("agent1", "a");
    bench.claim("agent1", "d").unwrap();
    bench.0.set_now(5_000);
    bench.claim("agent2", "b").unwrap();
    let summary = bench.0.read(PERSON, summarize()).unwrap();
    assert_eq!(summary.critical_path, ["b", "c", "e"]);
    assert_eq!((summary.percent, summary.claimable, summary.blocked), (16, 1, 2));
    assert_eq!(summary.oldest.unwrap().task.name, "d");
    bench.kill("f");
    let failed = bench.0.read(PERSON, summarize()).unwrap().failed;
    assert_eq!(failed[0].task.error.as_deref(), Some("no way"));
}

#[test]
fn a_timeline_has_the_recorded_times_in_the_queue_at_work_and_waiting_for_a_person() {
    let mut bench = Bench::new();
    bench.start(&json!([{ "name": "a" }, { "name": "b", "depends_on": ["a"] }]));
    let spans = |bench: &mut Bench, task: usize| -> Vec<(SpanKind, u64, Option<u64>)> {
        let summary = bench.0.read(PERSON, ShowWorkflowSummary { workflow: "w".to_owned() }).unwrap();
        let start = Timestamp::from_millis(0);
        let spans = summary.timeline[task].spans.iter();
        spans.map(|span| (span.kind, span.from.since(start), span.until.map(|until| until.since(start)))).collect()
    };
    assert_eq!(spans(&mut bench, 0), [(SpanKind::Queued, 1_000, None)]);
    assert_eq!(spans(&mut bench, 1), [], "it waits for another task");
    bench.0.set_now(2_000);
    bench.claim("agent1", "a").unwrap();
    bench.0.set_now(3_000);
    let ask = AskQuestion { task: "a".to_owned(), question: "Which?".to_owned(), ..AskQuestion::default() };
    bench.0.write("agent1", ask).unwrap();
    bench.0.set_now(5_000);
    let answer = AnswerQuestion { task: "a".to_owned(), workflow: None, answer: "That".to_owned() };
    bench.0.write(PERSON, answer).unwrap();
    bench.0.set_now(6_000);
    bench.claim("agent2", "a").unwrap();
    bench.0.set_now(9_000);
    bench.0.write("agent2", finish("a")).unwrap();
    bench.0.set_now(10_000);
    bench.0.write(PERSON, PauseWorkflow { workflow: "w".to_owned() }).unwrap();
    bench.0.set_now(12_000);
    bench.0.write(PERSON, ResumeWorkflow { workflow: "w".to_owned() }).unwrap();
    bench.0.set_now(13_000);
    bench.claim("agent2", "b").unwrap();
    assert_eq!(
        spans(&mut bench, 0),
        [
            (SpanKind::Queued, 1_000, Some(2_000)),
            (SpanKind::Running, 2_000, Some(3_000)),
            (SpanKind::Waiting, 3_000, Some(5_000)),
            (SpanKind::Queued, 5_000, Some(6_000)),
            (SpanKind::Running, 6_000, Some(9_000)),
        ]
    );
    assert_eq!(
        spans(&mut bench, 1),
        [
            (SpanKind::Queued, 9_000, Some(10_000)),
            (SpanKind::Queued, 12_000, Some(13_000)),
            (SpanKind::Running, 13_000, None),
        ]
    );
}

#[test]
fn a_workflow_whose_tasks_are_all_skipped_completes_when_it_starts() {
    let mut bench = Bench::new();
    bench.create(&json!([{ "name": "a" }]), json!({}), false);
    bench.skip("a");
    assert_eq!(bench.status(), WorkflowStatus::Ready);
    let started = bench.0.write(PERSON, StartWorkflow { workflow: "w".to_owned() }).unwrap();
    assert_eq!(started.workflow.status, WorkflowStatus::Completed);
}

#[test]
fn skipping_the_dead_task_resumes_a_failed_workflow() {
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
fn a_workflow_that_awaits_its_merge_completes_when_it_is_merged() {
    let mut bench = Bench::new();
    bench.create(&json!([{ "name": "a" }]), json!({ "awaits_merge": true }), true);
    let merged = || RecordMerge { workflow: "w".to_owned(), merged: true };
    assert_eq!(bench.0.write(PERSON, merged()).unwrap_err().kind(), Kind::Conflict);
    bench.finish("agent1", "a");
    assert_eq!(bench.status(), WorkflowStatus::AwaitingMerge);
    // A task can be reopened before the merge, for findings of the review.
    let reopen = ReopenTask { task: "a".to_owned(), ..ReopenTask::default() };
    bench.0.write(PERSON, reopen).unwrap();
    assert_eq!(bench.status(), WorkflowStatus::InProgress);
    bench.finish("agent1", "a");
    bench.0.write(PERSON, merged()).unwrap();
    assert_eq!(bench.status(), WorkflowStatus::Completed);
}

#[test]
fn removing_a_task_passes_its_blockers_on_to_the_tasks_it_blocked() {
    let mut bench = Bench::new();
    bench.start(&json!([
        { "name": "a" },
        { "name": "b", "depends_on": ["a"] },
        { "name": "waits", "depends_on": ["b"] },
        { "name": "knows", "informed_by": ["b"] },
        { "name": "both", "depends_on": ["b"], "informed_by": ["a"] },
    ]));
    bench.0.write(PERSON, RemoveTask { task: "b".to_owned(), workflow: None }).unwrap();
    assert_eq!(bench.task("waits").blocked_by, ["a"]);
    assert_eq!(bench.task("knows").blocked_by, Vec::<String>::new());
    assert_eq!(bench.task("both").blocked_by, ["a"]);
}

#[test]
fn a_started_workflow_keeps_at_least_one_task() {
    let mut bench = Bench::new();
    bench.start(&json!([{ "name": "a" }, { "name": "b" }]));
    let remove = |task: &str| RemoveTask { task: task.to_owned(), workflow: None };
    bench.0.write(PERSON, remove("b")).unwrap();
    assert_eq!(bench.0.write(PERSON, remove("a")).unwrap_err().kind(), Kind::Conflict);
    let anew = ReplanWorkflow { workflow: "w".to_owned(), plan: Plan::default(), reason: "it was wrong".to_owned() };
    assert_eq!(bench.0.write(PERSON, anew).unwrap_err().kind(), Kind::Invalid);
    bench.skip("a");
    assert_eq!(bench.status(), WorkflowStatus::Completed);
}

#[test]
fn informing_dependencies_form_no_cycle() {
    let mut bench = Bench::new();
    let plan = json!([{ "name": "a", "informed_by": ["b"] }, { "name": "b", "depends_on": ["a"] }]);
    bench.start(&plan);
    let add = AddTask { workflow: "w".to_owned(), task: planned("c"), before: vec!["b".to_owned()] };
    bench.0.write(PERSON, add).unwrap();
    bench.finish("agent1", "a");
    let operation = ReplanWorkflow {
        workflow: "w".to_owned(),
        plan: Plan::from_value(plan).unwrap(),
        reason: "c is not needed".to_owned(),
    };
    assert_eq!(bench.0.write(PERSON, operation).unwrap().kept, ["a", "b", "c"]);
    // Blocking dependencies do.
    let circle = AddTask {
        workflow: "w".to_owned(),
        task: PlannedTask { depends_on: vec!["b".to_owned()], ..planned("d") },
        before: vec!["b".to_owned()],
    };
    assert_eq!(bench.0.write(PERSON, circle).unwrap_err().hints(), ["b → d → b"]);
}

#[test]
fn claiming_again_renews_for_the_requested_duration() {
    let mut bench = Bench::new();
    bench.start(&json!([{ "name": "a" }]));
    bench.claim("agent1", "a").unwrap();
    let mut again = |ttl_ms| {
        let operation = ClaimTask { ttl_ms, ..claim(Some("a")) };
        bench.0.write("agent1", operation).map(|claimed| claimed.lease)
    };
    let lease = again(Some(3_600_000)).unwrap();
    assert_eq!((lease.epoch, lease.expires_at.as_millis()), (1, 3_601_000));
    assert_eq!(again(None).unwrap().ttl_ms, 3_600_000);
    assert_eq!(again(Some(1)).unwrap_err().kind(), Kind::Invalid);
}

#[test]
fn the_queue_timeout_starts_when_a_task_becomes_claimable() {
    let mut bench = Bench::new();
    bench.start(&json!([
        { "name": "a" },
        { "name": "b", "depends_on": ["a"], "queue_timeout": "10s", "max_attempts": 1 },
    ]));
    bench.0.set_now(50_000);
    bench.0.write(PERSON, ExpireDue {}).unwrap();
    assert_eq!(bench.task("b").task.status, TaskStatus::Pending, "it waits for another task, not for an agent");
    bench.0.set_now(55_000);
    bench.finish("agent1", "a");
    for (now, status) in [(64_999, TaskStatus::Pending), (65_000, TaskStatus::Dead)] {
        bench.0.set_now(now);
        bench.0.write(PERSON, ExpireDue {}).unwrap();
        assert_eq!(bench.task("b").task.status, status, "at {now}");
    }
}

#[test]
fn the_queue_timeout_starts_again_when_a_workflow_resumes() {
    let mut bench = Bench::new();
    bench.start(&json!([{ "name": "a", "queue_timeout": "10s", "max_attempts": 1 }, { "name": "b" }]));
    let workflow = || "w".to_owned();
    bench.0.write(PERSON, PauseWorkflow { workflow: workflow() }).unwrap();
    for now in [12_000, 21_000] {
        bench.0.set_now(now);
        bench.0.write(PERSON, ExpireDue {}).unwrap();
    }
    bench.0.write(PERSON, ResumeWorkflow { workflow: workflow() }).unwrap();
    for (now, status) in [(30_999, TaskStatus::Pending), (31_000, TaskStatus::Dead)] {
        bench.0.set_now(now);
        bench.0.write(PERSON, ExpireDue {}).unwrap();
        assert_eq!(bench.task("a").task.status, status, "at {now}");
    }
}

#[test]
fn a_workflow_goes_on_while_a_task_behind_a_skipped_one_can_run() {
    let plan = json!([{ "name": "a" }, { "name": "b", "depends_on": ["a"] }, { "name": "c", "depends_on": ["b"] }]);
    for is_skipped_first in [true, false] {
        let mut bench = Bench::new();
        bench.start(&plan);
        if is_skipped_first {
            bench.skip("b");
        }
        bench.kill("a");
        if !is_skipped_first {
            assert_eq!(bench.status(), WorkflowStatus::Failed);
            bench.skip("b");
        }
        assert_eq!(bench.status(), WorkflowStatus::InProgress, "{is_skipped_first}");
        bench.finish("agent1", "c");
        assert_eq!(bench.status(), WorkflowStatus::Failed, "a is dead");
    }
}

#[test]
fn a_finished_issue_is_not_abandoned_when_a_lease_on_it_ends_later() {
    let mut bench = Bench::new();
    bench.start(&json!([{ "name": "a", "issue": "i-1" }, { "name": "b" }]));
    let lease = || LeaseIssue { issue: "i-1".to_owned(), ttl_ms: Some(60_000) };
    bench.0.write("agent1", lease()).unwrap();
    bench.finish("agent1", "a");
    let news = |bench: &mut Bench| -> Vec<News> {
        bench.0.read(PERSON, ListNotices {}).unwrap().notices.iter().map(|notice| notice.news).collect()
    };
    assert_eq!(news(&mut bench), [News::Finished]);
    let leases = bench.0.read(PERSON, ListLeases {}).unwrap();
    assert!(!format!("{leases:?}").contains("i-1"), "the finisher holds the issue no more: {leases:?}");
    // The ledger does not know it yet, so another agent may try to claim it.
    let refused = bench.0.write("agent2", lease()).unwrap_err();
    assert!(refused.kind() == Kind::Conflict && refused.to_string().contains("agent1 finished"), "{refused}");
    bench.0.set_now(100_000);
    bench.0.write(PERSON, ExpireDue {}).unwrap();
    assert_eq!(news(&mut bench), [News::Finished]);
}

#[test]
fn an_agent_that_retires_gives_its_issues_back() {
    let mut bench = Bench::new();
    bench.0.write("agent1", LeaseIssue { issue: "i-1".to_owned(), ttl_ms: None }).unwrap();
    bench.0.write("agent1", RetireAgent { agent: None }).unwrap();
    let notices = bench.0.read(PERSON, ListNotices {}).unwrap().notices;
    let [notice] = notices.as_slice() else { panic!("{notices:?}") };
    assert_eq!((notice.issue.as_str(), notice.news, notice.actor.as_str()), ("i-1", News::Abandoned, "agent1"));
}

#[test]
fn two_agents_cannot_hold_two_tasks_of_one_issue() {
    let mut bench = Bench::new();
    bench.start(&json!([{ "name": "a", "issue": "i-1" }, { "name": "b", "issue": "i-1" }]));
    bench.claim("agent1", "a").unwrap();
    let refused = bench.claim("agent2", "b").unwrap_err();
    assert!(refused.kind() == Kind::Conflict && refused.to_string().contains("which agent1 holds"), "{refused}");
    bench.claim("agent1", "b").unwrap();
}

#[test]
fn an_agent_whose_lease_is_over_cannot_finish_even_if_others_expire_first() {
    let mut bench = Bench::new();
    bench.start(&json!([{ "name": "a" }]));
    bench.0.write("agent1", ClaimTask { ttl_ms: Some(60_000), ..claim(Some("a")) }).unwrap();
    // One call expires at most so many leases, the oldest first.
    for number in 0..1_000 {
        bench.0.write("agent1", LeaseIssue { issue: format!("i-{number}"), ttl_ms: Some(1_000) }).unwrap();
    }
    bench.0.set_now(61_000);
    assert_eq!(bench.0.write("agent1", finish("a")).unwrap_err().kind(), Kind::LeaseLost);
}

#[test]
fn a_task_added_to_a_running_workflow_has_a_queue_timeout_too() {
    let mut bench = Bench::new();
    bench.start(&json!([{ "name": "a" }]));
    let task = PlannedTask { queue_timeout: Some(10_000), ..planned("b") };
    bench.0.write(PERSON, AddTask { workflow: "w".to_owned(), task, before: Vec::new() }).unwrap();
    bench.0.set_now(11_000);
    bench.0.write(PERSON, ExpireDue {}).unwrap();
    assert_eq!(bench.task("b").task.status, TaskStatus::Dead);
}

#[test]
fn c10_the_last_checkpoint_fits_into_every_budget() {
    let mut bench = Bench::new();
    let long = "x".repeat(20_000);
    bench.start(&json!([{ "name": "a", "description": long, "plan": long, "context": long, "acceptance": [long] }]));
    bench.claim("agent1", "a").unwrap();
    for number in 1..=4 {
        let operation = checkpoint("a", &format!("step {number} is done"));
        bench.0.write("agent1", operation).unwrap();
    }
    for budget in [100, 500, 8_000] {
        let operation = ShowContext { task: "a".to_owned(), budget: Some(budget), ..ShowContext::default() };
        let context = bench.0.read(PERSON, operation).unwrap();
        assert!(context.text.contains("step 4 is done"), "{budget}: {}", context.text);
        let explained = format!("{EXPLANATION}\n\n");
        let text = context.text.strip_prefix(&explained).unwrap_or(&context.text);
        assert!(text.starts_with("## Task\na ("), "{}", context.text);
        assert!(context.tokens <= budget);
        assert!(context.left_out.iter().any(|part| part.contains("parts of the task")), "{:?}", context.left_out);
    }
}

#[test]
fn prime_names_the_commands_even_if_an_agent_holds_many_leases() {
    let mut bench = Bench::new();
    let tasks: Vec<_> = (0..40).map(|number| json!({ "name": format!("task number {number}") })).collect();
    bench.start(&json!(tasks));
    for _ in 0..30 {
        bench.0.write("agent1", claim(None)).unwrap();
    }
    let prime = bench.0.read("agent1", IntroduceAgent::default()).unwrap();
    assert!(prime.tokens <= 800, "{}", prime.tokens);
    assert!(prime.text.contains("way task done") && prime.text.contains("Exit code 5"), "{}", prime.text);
    assert_eq!(prime.left_out, ["25 leases"]);
    // A new agent sees the next tasks.
    let prime = bench.0.read("agent9", IntroduceAgent::default()).unwrap();
    assert!(prime.text.contains("task number 30"), "{}", prime.text);
}

#[test]
fn a_task_shows_the_name_of_its_assignee() {
    let mut bench = Bench::new();
    bench.start(&json!([{ "name": "a" }]));
    bench.0.write(PERSON, registration(Some("agent1"), None)).unwrap();
    let assign = AssignTask { task: "a".to_owned(), workflow: None, agent: Some("agent1".to_owned()) };
    assert_eq!(bench.0.write(PERSON, assign).unwrap().assigned_to.as_deref(), Some("agent1"));
}

#[test]
fn blockers_of_a_task_are_named_in_plan_order() {
    let mut bench = Bench::new();
    let first: Vec<String> = ["d", "a", "c", "b"].map(str::to_owned).into();
    let mut tasks: Vec<_> = first.iter().map(|name| json!({ "name": name })).collect();
    tasks.push(json!({ "name": "last", "depends_on": ["a", "b", "c", "d"] }));
    bench.start(&json!(tasks));
    assert_eq!(bench.task("last").blocked_by, first);
    let page = bench.0.read(PERSON, ShowWorkflow { workflow: "w".to_owned() }).unwrap();
    assert_eq!(page.tasks[4].depends_on, first);
    let error = bench.claim("agent1", "last").unwrap_err();
    assert_eq!(error.to_string(), "task last waits for d (pending), a (pending), c (pending), b (pending)");
}

#[test]
fn i9_the_most_urgent_of_the_ready_tasks_is_claimed() {
    let mut bench = Bench::new();
    bench.start(&json!([
        { "name": "low", "priority": 4 },
        { "name": "normal" },
        { "name": "blocked", "priority": 0, "depends_on": ["high"] },
        { "name": "high", "priority": 1 },
    ]));
    let mut order = Vec::new();
    for _ in 0..4 {
        let claimed = bench.0.write("agent1", claim(None)).unwrap().task.task.name;
        bench.0.write("agent1", finish(&claimed)).unwrap();
        order.push(claimed);
    }
    assert_eq!(order, ["high", "blocked", "normal", "low"]);
}

#[test]
fn the_lease_of_a_person_has_no_end_unless_the_configuration_limits_it() {
    let mut bench = Bench::new();
    bench.start(&json!([{ "name": "a" }, { "name": "b" }]));
    let lease = bench.claim(PERSON, "a").unwrap().lease;
    assert!(lease.is_unlimited() && lease.expires_at == Timestamp::NEVER, "{lease:?}");
    assert_eq!(serde_json::to_value(&lease).unwrap()["expires_at"], json!(null));
    assert_eq!(serde_json::from_value::<Lease>(serde_json::to_value(&lease).unwrap()).unwrap(), lease);
    bench.0.set_now(1_000 + 30 * 24 * 3_600_000);
    // The person is silent for longer than an agent may be.
    bench.0.write("agent1", ExpireDue {}).unwrap();
    assert_eq!(bench.task("a").task.status, TaskStatus::InProgress);
    let refused = bench.claim("agent1", "a").unwrap_err();
    assert!(refused.to_string().ends_with("is held by person until it is released"), "{refused}");
    bench.finish(PERSON, "a");

    let limited =
        Caller { lease_times: LeaseTimes { person_ms: Some(60_000), ..LeaseTimes::default() }, ..person_in(1) };
    let claimed = bench.0.write_as(&limited, None, claim(Some("b"))).unwrap();
    assert_eq!(claimed.lease.ttl_ms, 60_000);
}

#[test]
fn an_agent_cannot_renew_a_lease_for_ever_and_a_person_can() {
    const HOUR: i64 = 3_600_000;
    let mut bench = Bench::new();
    bench.start(&json!([{ "name": "a" }, { "name": "b" }, { "name": "c" }]));
    let long = |task: &str| ClaimTask { ttl_ms: Some(6 * 3_600_000), ..claim(Some(task)) };
    let granted = bench.0.write("agent1", long("a")).unwrap().lease.granted_at;
    bench.0.write(PERSON, long("b")).unwrap();
    let times = LeaseTimes { max_ms: Some(0), ..LeaseTimes::default() };
    let unlimited = Caller { agent: Some("agent2".to_owned()), lease_times: times, ..person_in(1) };
    bench.0.write_as(&unlimited, None, long("c")).unwrap();
    let heartbeat = Heartbeat::default();
    for hour in (3..=9 * 24).step_by(3) {
        bench.0.set_now(1_000 + hour * HOUR);
        bench.0.write("agent1", heartbeat.clone()).unwrap();
        bench.0.write(PERSON, heartbeat.clone()).unwrap();
        bench.0.write_as(&unlimited, None, heartbeat.clone()).unwrap();
        let limited = bench.task("a");
        if hour < 7 * 24 {
            assert_eq!(limited.holder.as_deref(), Some("agent1"), "after {hour} hours");
            assert!(limited.expires_at.unwrap() <= granted.plus(7 * 24 * 3_600_000), "{limited:?}");
        } else {
            assert_eq!(limited.holder, None, "another agent can take it after {hour} hours");
        }
        assert_eq!(bench.task("b").holder.as_deref(), Some(PERSON), "after {hour} hours");
        assert_eq!(bench.task("c").holder.as_deref(), Some("agent2"), "after {hour} hours");
    }
    bench.claim("agent3", "a").unwrap();
}

#[test]
fn a_write_with_the_epoch_of_an_earlier_claim_is_refused() {
    let mut bench = Bench::new();
    bench.start(&json!([{ "name": "a" }]));
    let first = bench.claim("agent1", "a").unwrap().lease.epoch;
    bench.0.set_now(3_600_000);
    let second = bench.claim("agent1", "a").unwrap().lease.epoch;
    assert!(second > first, "{second} after {first}");
    let with = |epoch: u64| AddCheckpoint { epoch: Some(epoch), ..checkpoint("a", "still here") };
    assert_eq!(bench.0.write("agent1", with(first)).unwrap_err().kind(), Kind::LeaseLost);
    bench.0.write("agent1", with(second)).unwrap();
}

#[test]
fn a_task_is_claimed_only_with_its_capabilities() {
    let mut bench = Bench::new();
    bench.start(&json!([{ "name": "a", "capabilities": ["rust"] }]));
    assert_eq!(bench.claim("agent1", "a").unwrap_err().kind(), Kind::Conflict);
    assert_eq!(bench.0.write("agent1", claim(None)).unwrap_err().kind(), Kind::NothingToDo);
    let able = RegisterAgent { capabilities: Some(vec!["rust".to_owned()]), ..registration(Some("agent1"), None) };
    bench.0.write(PERSON, able).unwrap();
    bench.claim("agent1", "a").unwrap();
}

#[test]
fn a_workflow_has_no_more_tasks_in_progress_than_it_allows() {
    let mut bench = Bench::new();
    let plan = Plan::from_value(json!([{ "name": "a" }, { "name": "b" }])).unwrap();
    bench.0.write(PERSON, AddWorkflow { max_parallel: Some(1), ..workflow("w", plan) }).unwrap();
    bench.claim("agent1", "a").unwrap();
    assert_eq!(bench.claim("agent2", "b").unwrap_err().kind(), Kind::Conflict);
    assert_eq!(bench.0.write("agent2", claim(None)).unwrap_err().kind(), Kind::NothingToDo);
    bench.0.write("agent1", finish("a")).unwrap();
    bench.claim("agent2", "b").unwrap();
}

#[test]
fn a_key_belongs_to_one_request_and_runs_it_once() {
    let mut bench = Bench::new();
    let create = |name: &str| workflow(name, Plan::from_text("build: all of it").unwrap());
    let first = bench.0.write_as(&person_in(1), Some("key"), create("w")).unwrap();
    let events = bench.0.events().len();
    let again = bench.0.write_as(&person_in(1), Some("key"), create("w")).unwrap();
    assert_eq!((again, bench.0.events().len()), (first, events));
    let other = bench.0.write_as(&person_in(1), Some("key"), create("other"));
    assert_eq!(other.unwrap_err().kind(), Kind::Conflict);
}

#[test]
fn checkpoints_of_a_task_are_limited_in_size_and_number() {
    let mut bench = Bench::new();
    bench.start(&json!([{ "name": "a" }]));
    bench.claim("agent1", "a").unwrap();
    let large = AddCheckpoint { detail: json!({ "log": "x".repeat(256 * 1024) }), ..checkpoint("a", "s") };
    let refused = bench.0.write("agent1", large).unwrap_err();
    assert!(refused.kind() == Kind::Invalid && refused.to_string().ends_with("bytes is too long"), "{refused}");
    assert!(refused.hints().join("\n").contains("name the file"), "{refused:?}");
    let allowed = AddCheckpoint { detail: json!({ "log": "x".repeat(200 * 1024) }), ..checkpoint("a", "s") };
    bench.0.write("agent1", allowed).unwrap();
    let mut last = bench.0.write("agent1", checkpoint("a", "s")).unwrap().checkpoint;
    last.sequence = 10_000;
    last.id = CheckpointId::generate(&mut SeededEntropy(99));
    let mut tx = bench.0.store.begin_write().unwrap();
    tx.checkpoint_put(&last).unwrap();
    tx.commit().unwrap();
    let refused = bench.0.write("agent1", checkpoint("a", "s")).unwrap_err();
    assert_eq!(refused.to_string(), "task a has 10000 checkpoints, and cannot have more");
    bench.0.write("agent1", finish("a")).unwrap();
}

#[test]
fn every_write_of_an_agent_renews_its_leases_on_issues_and_not_those_on_other_tasks() {
    let mut bench = Bench::new();
    bench.start(&json!([{ "name": "a" }]));
    let task = bench.claim("agent1", "a").unwrap().lease;
    let issue = bench.0.write("agent1", LeaseIssue { issue: "i-1".to_owned(), ttl_ms: Some(600_000) }).unwrap();
    let mut ends_after_write_at = |now: i64| {
        bench.0.set_now(now);
        bench.0.write("agent1", LeaseIssue { issue: "i-2".to_owned(), ttl_ms: None }).unwrap();
        let leases = bench.0.read("agent1", ListLeases {}).unwrap().leases;
        let end = |subject: &str| {
            leases.iter().find(|seen| seen.lease.subject == subject).unwrap().lease.expires_at.as_millis()
        };
        (end(&issue.subject), end(&task.subject))
    };
    let task_end = task.expires_at.as_millis();
    assert_eq!(ends_after_write_at(100_000), (issue.expires_at.as_millis(), task_end), "most of the time is left");
    assert_eq!(ends_after_write_at(500_000), (500_000 + 600_000, task_end));
}

fn job_on(task: &str) -> AddJobRecord {
    serde_json::from_value(json!({ "command": ["true"], "task": task, "work_dir": "/" })).unwrap()
}

fn process() -> ProcessIdentity {
    serde_json::from_value(json!({ "boot_id": "b", "pid": 1, "start_time": 1 })).unwrap()
}

fn ended(job: &str, stopped: bool, abandoned: bool) -> FinishJob {
    let error = (!abandoned).then(|| "it broke".to_owned());
    FinishJob { job: job.to_owned(), error, stopped, abandoned, ..FinishJob::default() }
}

#[test]
fn a_job_that_holds_a_task_refuses_a_second_one_of_its_agent() {
    let mut bench = Bench::new();
    bench.start(&json!([{ "name": "a" }]));
    // An agent may claim first and start its job then.
    bench.claim("agent1", "a").unwrap();
    let first = bench.0.write("agent1", job_on("a")).unwrap().job;
    let error = bench.0.write("agent1", job_on("a")).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict);
    assert!(error.full_message().contains(first.id.as_str()), "{error}");
    assert_eq!(bench.0.write("agent2", job_on("a")).unwrap_err().kind(), Kind::Conflict);
    // The first one still holds the lease, and its end makes room for another.
    assert_eq!(bench.task("a").epoch, first.epoch);
    bench.0.write("agent1", ended(first.id.as_str(), true, false)).unwrap();
    bench.0.write("agent1", job_on("a")).unwrap();
}

#[test]
fn a_job_whose_lease_expired_does_not_keep_its_task() {
    let mut bench = Bench::new();
    bench.start(&json!([{ "name": "a", "max_attempts": 3 }]));
    let first = bench.0.write("agent1", job_on("a")).unwrap().job;
    bench.0.set_now(100_000_000);
    let second = bench.0.write("agent1", job_on("a")).unwrap().job;
    assert!(second.epoch > first.epoch);
    // Its end is not an end of the attempt of the other job.
    bench.0.write("agent1", ended(first.id.as_str(), true, false)).unwrap();
    assert_eq!((bench.task("a").task.status, bench.task("a").epoch), (TaskStatus::InProgress, second.epoch));
}

#[test]
fn only_an_attempt_whose_command_started_is_counted() {
    for (starts, abandoned, attempts) in [(false, false, 0), (false, true, 0), (true, false, 1), (true, true, 1)] {
        let mut bench = Bench::new();
        bench.start(&json!([{ "name": "a", "max_attempts": 3 }]));
        let job = bench.0.write("agent1", job_on("a")).unwrap().job.id.to_string();
        let take =
            RegisterSupervisor { job: job.clone(), machine: "m".to_owned(), supervisor: process(), token_hash: None };
        bench.0.write("agent1", take).unwrap();
        if starts {
            let started = RecordJobStarted { job: job.clone(), process: process(), log: None };
            bench.0.write("agent1", started).unwrap();
        }
        bench.0.write("agent1", ended(&job, false, abandoned)).unwrap();
        let task = bench.task("a").task;
        assert_eq!(task.attempts, attempts, "{starts} {abandoned}");
        assert!(starts || task.status == TaskStatus::Pending, "{abandoned}: {}", task.status);
    }
}
