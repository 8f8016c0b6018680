//! Workflows from one store to another: nobody can work on one thing in two.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;

use serde_json::{Value, json};
use waypost_core::clock::FixedClock;
use waypost_core::context::Caller;
use waypost_core::engine;
use waypost_core::id::{Entropy, RepositoryId, WorkflowId, WorktreeId};
use waypost_core::memory::MemoryStore;
use waypost_core::model::{CheckpointKind, EventQuery, Repository, TaskStatus, Vcs, WorkflowStatus, Worktree};
use waypost_core::op::{
    CheckpointTask, ClaimTask, CreateWorkflow, DumpWorkflow, FailTask, FinishTask, FreezeWorkflow, ListEvents,
    ListInbox, Operation, ResumeWorkflow, RetireWorkflow, SendMessage, ShowWorkflow, SkipTask, TakeWorkflow,
    WorkflowPage,
};
use waypost_core::time::Timestamp;
use waypost_core::work::plan::Plan;
use waypost_core::{Kind, Result};

struct Counter(u64);

impl Entropy for Counter {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = self.0.to_be_bytes()[0];
        }
    }
}

/// A store with a name of its own.
struct Place {
    store: MemoryStore,
    name: &'static str,
    entropy: Counter,
}

fn place(name: &'static str, seed: u64) -> Place {
    let store = MemoryStore::new(Box::new(FixedClock(Timestamp::from_millis(1_000))));
    Place { store, name, entropy: Counter(seed) }
}

impl Place {
    fn write<O: Operation>(&mut self, agent: &str, operation: O) -> Result<O::Answer> {
        engine::write(&mut self.store, &caller(agent), &mut self.entropy, None, operation)
    }

    fn read<O: Operation>(&mut self, operation: O) -> O::Answer {
        engine::read(&mut self.store, &caller("ada"), &mut self.entropy, operation).unwrap()
    }

    fn show(&mut self, id: &WorkflowId) -> WorkflowPage {
        self.read(ShowWorkflow { workflow: id.to_string() })
    }

    /// What happened to something here, as kinds.
    fn kinds(&mut self, subject: &str) -> Vec<String> {
        let query =
            EventQuery { since: Some(0), subject: Some(subject.to_owned()), limit: 1_000, ..EventQuery::default() };
        self.read(ListEvents { query }).events.into_iter().map(|event| event.kind).collect()
    }
}

fn caller(agent: &str) -> Caller {
    let repository = Repository {
        id: RepositoryId::generate(&mut Counter(1)),
        name: "repository".to_owned(),
        path: PathBuf::from("/repository"),
        vcs: Vcs::Git,
        remote_url: None,
        default_branch: None,
    };
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
    Caller { actor: agent.to_owned(), agent: Some(agent.to_owned()), repository, worktree, is_shared: true }
}

fn begun(place: &mut Place) -> WorkflowId {
    let workflow = CreateWorkflow {
        name: "release".to_owned(),
        source: None,
        source_ref: None,
        source_content: None,
        summary: None,
        max_parallel: None,
        config: json!({ "of": "its own" }),
        plan: Some(Plan::from_text("build: first\ntest: second\n    needs: build\n    backoff: 10m\n").unwrap()),
        start: true,
        repositories: Vec::new(),
    };
    let id = place.write("ada", workflow).unwrap().workflow.id;
    place.write("ada", claim("build")).unwrap();
    let note = CheckpointTask {
        task: "build".to_owned(),
        workflow: None,
        epoch: None,
        kind: CheckpointKind::Progress,
        summary: "half of it".to_owned(),
        detail: Value::Null,
        files: Vec::new(),
        tokens: None,
        cost: None,
    };
    place.write("ada", note).unwrap();
    let letter = SendMessage {
        to: Some("ada".to_owned()),
        reply_to: None,
        kind: None,
        priority: None,
        subject: None,
        body: "how far?".to_owned(),
        workflow: Some("release".to_owned()),
        task: None,
        ttl_ms: None,
    };
    place.write("bob", letter).unwrap();
    id
}

fn claim(task: &str) -> ClaimTask {
    ClaimTask { task: Some(task.to_owned()), workflow: None, ttl_ms: None, budget: None }
}

fn finish(task: &str) -> FinishTask {
    FinishTask { task: task.to_owned(), workflow: None, epoch: None, outcome: "done".to_owned(), evidence: None }
}

/// Moves a workflow; tells whether it was new there.
fn moved(source: &mut Place, destination: &mut Place, id: &WorkflowId, force: bool) -> Result<bool> {
    let dump = source.write("ada", FreezeWorkflow { workflow: id.clone(), to: destination.name.to_owned(), force })?;
    let (from, into) = (source.name.to_owned(), destination.name.to_owned());
    Ok(destination.write("ada", TakeWorkflow { dump, from, into, rehearse: false })?.is_new)
}

#[test]
fn a11_what_somebody_works_on_is_not_moved_unless_it_is_taken_away() {
    let (mut here, mut there) = (place("here", 3), place("there", 4));
    let id = begun(&mut here);
    let error = moved(&mut here, &mut there, &id, false).unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (Kind::Refused, "ada works on release/build"));
    here.write("ada", claim("build")).unwrap();
    assert!(moved(&mut here, &mut there, &id, true).unwrap());
    // Whoever had it is told, and the next holder there is known by a higher epoch.
    assert_eq!(here.write("ada", finish("build")).unwrap_err().kind(), Kind::LeaseLost);
    assert_eq!(there.write("cyd", claim("build")).unwrap().lease.epoch, 2);
}

#[test]
fn a11_after_a_move_nothing_can_be_done_in_the_source_and_everything_in_the_destination() {
    let (mut here, mut there) = (place("here", 3), place("there", 4));
    let id = begun(&mut here);
    let before = here.show(&id);
    assert!(moved(&mut here, &mut there, &id, true).unwrap());
    for error in [
        here.write("ada", claim("build")).map(drop),
        here.write("ada", ResumeWorkflow { workflow: "release".to_owned() }).map(drop),
        here.write("ada", SkipTask { task: "test".to_owned(), workflow: None, reason: None }).map(drop),
    ] {
        let error = error.unwrap_err();
        assert_eq!(error.to_string(), "workflow release was moved to there");
    }
    assert_eq!(
        here.write("ada", ClaimTask { task: None, workflow: None, ttl_ms: None, budget: None }).unwrap_err().kind(),
        Kind::NothingToDo
    );
    let after = there.show(&id);
    assert_eq!(after.workflow.workflow.config, json!({ "of": "its own" }));
    assert_eq!(after.workflow.workflow.status, WorkflowStatus::InProgress);
    let ids = |page: &WorkflowPage| page.tasks.iter().map(|seen| seen.task.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&after), ids(&before));
    assert_eq!(after.tasks[1].blocked_by, ["build"]);
    // The history came along, and so did the letter.
    let task = before.tasks[0].task.id.to_string();
    assert_eq!(there.kinds(&task), ["task.added", "task.claimed", "task.checkpointed", "task.released"]);
    assert_eq!(there.write("ada", ListInbox { limit: 10, peek: true }).unwrap().messages.len(), 1);
    // A second time moves nothing, and ends nothing.
    assert!(!moved(&mut here, &mut there, &id, true).unwrap());
    there.write("cyd", claim("build")).unwrap();
    there.write("cyd", finish("build")).unwrap();
    assert!(!moved(&mut here, &mut there, &id, true).unwrap());
    assert_eq!(there.show(&id).tasks[0].task.status, TaskStatus::Completed, "the old copy does not come over it");
}

#[test]
fn a_crash_between_the_two_stores_is_made_good_by_moving_again() {
    let (mut here, mut there) = (place("here", 3), place("there", 4));
    let id = begun(&mut here);
    here.write("ada", finish("build")).unwrap();
    here.write("ada", claim("test")).unwrap();
    let fail = FailTask {
        task: "test".to_owned(),
        workflow: None,
        epoch: None,
        error: "it broke".to_owned(),
        hopeless: false,
    };
    here.write("ada", fail).unwrap();
    let due = here.show(&id).tasks[1].task.due_at;
    assert!(due.is_some());
    let freeze = FreezeWorkflow { workflow: id.clone(), to: "there".to_owned(), force: false };
    let first = here.write("ada", freeze.clone()).unwrap();
    assert_eq!(here.show(&id).tasks[1].task.due_at, None, "nothing happens to it here by itself");
    let other = FreezeWorkflow { to: "elsewhere".to_owned(), ..freeze };
    assert_eq!(here.write("ada", other).unwrap_err().kind(), Kind::Conflict);
    assert!(moved(&mut here, &mut there, &id, false).unwrap());
    let page = there.show(&id);
    assert_eq!((page.tasks[1].task.due_at, &page.tasks[1].task.status), (due, &TaskStatus::Failed));
    assert_eq!(page.workflow.workflow, first.workflow);
}

#[test]
fn a_workflow_comes_back_with_what_happened_elsewhere_and_an_old_copy_never_does() {
    let (mut one, mut two, mut three) = (place("one", 3), place("two", 4), place("three", 5));
    let id = begun(&mut one);
    let old = one.read(DumpWorkflow { workflow: id.clone() });
    assert!(moved(&mut one, &mut two, &id, true).unwrap());
    two.write("cyd", claim("build")).unwrap();
    two.write("cyd", finish("build")).unwrap();
    assert!(moved(&mut two, &mut one, &id, false).unwrap());
    let task = one.show(&id).tasks[0].task.clone();
    assert_eq!(task.status, TaskStatus::Completed);
    let kinds = one.kinds(task.id.as_str());
    assert_eq!(
        kinds,
        ["task.added", "task.claimed", "task.checkpointed", "task.released", "task.claimed", "task.completed"],
        "nothing is told twice"
    );
    assert!(moved(&mut one, &mut three, &id, false).unwrap());
    let again = TakeWorkflow { dump: old, from: "zero".to_owned(), into: "one".to_owned(), rehearse: false };
    assert!(!one.write("ada", again).unwrap().is_new);
    assert!(!moved(&mut two, &mut one, &id, false).unwrap(), "two has an older copy than one had");
    three.write("ada", claim("test")).unwrap();
    one.write("ada", claim("test")).unwrap_err();
    two.write("ada", claim("test")).unwrap_err();
}

#[test]
fn what_was_moved_can_be_ended_in_the_source() {
    let (mut here, mut there) = (place("here", 3), place("there", 4));
    let id = begun(&mut here);
    here.write("ada", RetireWorkflow { workflow: id.clone() }).unwrap_err();
    moved(&mut here, &mut there, &id, true).unwrap();
    let ended = here.write("ada", RetireWorkflow { workflow: id.clone() }).unwrap().workflow;
    assert_eq!((ended.status, ended.reason.as_deref()), (WorkflowStatus::Cancelled, Some("moved to there")));
    assert!(here.write("ada", ListInbox { limit: 10, peek: true }).unwrap().messages.is_empty());
    assert_eq!(there.show(&id).workflow.workflow.status, WorkflowStatus::InProgress);
}
