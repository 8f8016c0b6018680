//! The operations of a transaction, one fact each.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;
use waypost_core::clock::{Anchor, Doubt, Remembered};
use waypost_core::id::{AgentId, Entropy, JobId, MessageId, RepositoryId, TaskId, WorkflowId, WorktreeId};
use waypost_core::model::{
    Agent, AgentStatus, CandidateQuery, Candidates, Checkpoint, DeferredChanges, Dependency, DependencyKind,
    EventQuery, Job, JobQuery, Lease, LogPiece, Message, MessageKind, MessageState, NewEvent, Notice, Reach,
    Repository, Role, SavedAnswer, Source, Summary, Task, TaskPlace, TaskStatus, Template, Urgency, Vcs, Workflow,
    WorkflowStatus, Workspace, WorkspaceQuery, Worktree,
};
use waypost_core::store::{Store, Tx};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};

use crate::rows::{Dice, World};
use crate::{read, write};

struct Numbers(u8);

impl Entropy for Numbers {
    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.fill(self.0);
    }
}

fn repository(number: u8) -> Repository {
    Repository {
        id: RepositoryId::generate(&mut Numbers(number)),
        name: format!("repository {number}"),
        path: PathBuf::from("/r"),
        vcs: Vcs::Git,
        remote_url: Some("ssh://example.org/r".to_owned()),
        default_branch: None,
    }
}

fn worktree(number: u8, of: &Repository) -> Worktree {
    Worktree {
        id: WorktreeId::generate(&mut Numbers(number)),
        repository_id: of.id.clone(),
        name: format!("worktree {number}"),
        path: PathBuf::from("/w"),
        branch: Some("topic".to_owned()),
        first_seen: Timestamp::from_millis(10),
        last_seen: Timestamp::from_millis(20),
        removed_at: None,
    }
}

fn event(of: &Worktree, subject: &str) -> NewEvent {
    NewEvent {
        time: Timestamp::from_millis(1_000),
        actor: "tester".to_owned(),
        worktree_id: of.id.clone(),
        kind: "store.probed",
        subject: subject.to_owned(),
        data: json!({ "z": 1, "a": [null, "ü"] }),
    }
}

fn all() -> EventQuery {
    EventQuery { limit: 100, ..EventQuery::default() }
}

pub(crate) fn rows_are_read_back_as_they_were_put(store: &mut dyn Store) {
    let repository = repository(1);
    let worktree = Worktree { removed_at: Some(Timestamp::from_millis(-5)), branch: None, ..worktree(2, &repository) };
    write(store, |tx| {
        tx.repository_put(&repository).unwrap();
        tx.worktree_put(&worktree).unwrap();
        assert_eq!(tx.event_append(&event(&worktree, "it")).unwrap(), 1);
    });
    read(store, |tx| {
        assert_eq!(tx.repository_get(&repository.id).unwrap(), Some(repository.clone()));
        assert_eq!(tx.worktree_get(&worktree.id).unwrap(), Some(worktree.clone()));
        let events = tx.event_list(&all()).unwrap();
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].data, json!({ "z": 1, "a": [null, "ü"] }));
        assert_eq!(
            (events[0].sequence, events[0].kind.as_str(), events[0].subject.as_str()),
            (1, "store.probed", "it")
        );
        assert_eq!(tx.repository_get(&RepositoryId::generate(&mut Numbers(9))).unwrap(), None);
    });
}

pub(crate) fn putting_again_replaces_and_keeps_references(store: &mut dyn Store) {
    let repository = repository(1);
    let worktree = worktree(2, &repository);
    let moved = Repository { path: PathBuf::from("/elsewhere"), ..repository.clone() };
    write(store, |tx| {
        tx.repository_put(&repository).unwrap();
        tx.worktree_put(&worktree).unwrap();
        tx.event_append(&event(&worktree, "it")).unwrap();
    });
    write(store, |tx| {
        tx.repository_put(&moved).unwrap();
        tx.worktree_put(&Worktree { name: "new name".to_owned(), ..worktree.clone() }).unwrap();
        tx.worktree_touch(&worktree.id, Timestamp::from_millis(99)).unwrap();
    });
    read(store, |tx| {
        assert_eq!(tx.repository_list().unwrap(), std::slice::from_ref(&moved));
        let now = tx.worktree_get(&worktree.id).unwrap().unwrap();
        assert_eq!((now.name.as_str(), now.last_seen.as_millis()), ("new name", 99));
        assert_eq!(tx.event_list(&all()).unwrap().len(), 1);
    });
}

pub(crate) fn p6_every_field_of_jobs_and_workspaces_is_read_back_also_after_all_are_replaced(store: &mut dyn Store) {
    let dice = &mut Dice::new(6);
    let mut world = World::small(dice);
    write(store, |tx| world.put(tx));
    for _ in 0..40 {
        let job = world.job(dice);
        let other = Job { id: job.id.clone(), ..world.job(dice) };
        for row in [&job, &other] {
            write(store, |tx| tx.job_put(row).unwrap());
            assert_eq!(read(store, |tx| tx.job_get(&row.id).unwrap()).as_ref(), Some(row));
        }
        world.jobs.push(other);
        let workspace = world.workspace(dice);
        let other = Workspace { id: workspace.id.clone(), ..world.workspace(dice) };
        for row in [&workspace, &other] {
            write(store, |tx| tx.workspace_put(row).unwrap());
            assert_eq!(read(store, |tx| tx.workspace_get(&row.id).unwrap()).as_ref(), Some(row));
        }
    }
}

pub(crate) fn a_dropped_transaction_has_no_effect(store: &mut dyn Store) {
    let mut tx = store.begin_write().unwrap();
    tx.repository_put(&repository(1)).unwrap();
    drop(tx);
    assert_eq!(read(store, |tx| tx.repository_list().unwrap()), []);
}

pub(crate) fn lists_are_ordered(store: &mut dyn Store) {
    let repositories = [repository(3), repository(1), repository(2)];
    let worktrees = [
        worktree(5, &repositories[0]),
        worktree(4, &repositories[0]),
        Worktree { first_seen: Timestamp::from_millis(1), ..worktree(6, &repositories[1]) },
    ];
    write(store, |tx| {
        for repository in &repositories {
            tx.repository_put(repository).unwrap();
        }
        for worktree in &worktrees {
            tx.worktree_put(worktree).unwrap();
        }
    });
    read(store, |tx| {
        let names: Vec<_> = tx.repository_list().unwrap().into_iter().map(|repository| repository.name).collect();
        assert_eq!(names, ["repository 1", "repository 2", "repository 3"]);
        let names: Vec<_> = tx.worktree_list().unwrap().into_iter().map(|worktree| worktree.name).collect();
        assert_eq!(names, ["worktree 6", "worktree 4", "worktree 5"]);
    });
}

pub(crate) fn sequences_have_no_gaps_after_a_rollback(store: &mut dyn Store) {
    let repository = repository(1);
    let worktree = worktree(2, &repository);
    write(store, |tx| {
        tx.repository_put(&repository).unwrap();
        tx.worktree_put(&worktree).unwrap();
        assert_eq!(tx.event_last().unwrap(), 0);
        assert_eq!(tx.event_append(&event(&worktree, "one")).unwrap(), 1);
    });
    let mut tx = store.begin_write().unwrap();
    assert_eq!(tx.event_append(&event(&worktree, "lost")).unwrap(), 2);
    drop(tx);
    assert_eq!(write(store, |tx| tx.event_append(&event(&worktree, "two")).unwrap()), 2);
    assert_eq!(read(store, |tx| tx.event_last().unwrap()), 2);
}

pub(crate) fn undo_reverts_only_the_writes_since_the_mark(store: &mut dyn Store) {
    let repository = repository(1);
    let worktree = worktree(2, &repository);
    let append = |tx: &mut dyn Tx, subject: &str, time: i64| {
        let time = Timestamp::from_millis(time);
        tx.event_append(&NewEvent { time, ..event(&worktree, subject) }).unwrap()
    };
    write(store, |tx| {
        assert!(tx.undo().is_err(), "there is no mark");
        tx.repository_put(&repository).unwrap();
        tx.worktree_put(&worktree).unwrap();
        tx.mark().unwrap();
        assert_eq!(append(tx, "first", 1_000), 1);
        tx.mark().unwrap();
        assert_eq!(append(tx, "undone", 9_000_000_000_000), 2);
        tx.worktree_touch(&worktree.id, Timestamp::from_millis(99)).unwrap();
        assert_eq!(tx.worktree_get(&worktree.id).unwrap().unwrap().last_seen.as_millis(), 99);
        tx.undo().unwrap();
        assert_eq!(tx.worktree_get(&worktree.id).unwrap().unwrap(), worktree);
        assert_eq!(tx.event_last().unwrap(), 1);
        assert!(
            tx.now().unwrap() < Timestamp::from_millis(9_000_000_000_000),
            "the time of what was undone is forgotten"
        );
        assert_eq!(append(tx, "undone too", 1_000), 2);
        tx.undo().unwrap();
        assert_eq!(append(tx, "second", 1_000), 2);
    });
    let events = read(store, |tx| tx.event_list(&all()).unwrap());
    assert_eq!(events.iter().map(|event| event.subject.as_str()).collect::<Vec<_>>(), ["second", "first"]);
    write(store, |tx| {
        tx.mark().unwrap();
        append(tx, "third", 1_000);
        tx.undo().unwrap();
    });
    assert_eq!(read(store, |tx| tx.event_last().unwrap()), 2);
}

pub(crate) fn a_transaction_can_continue_after_a_failure_is_undone(store: &mut dyn Store) {
    let repository = repository(1);
    write(store, |tx| {
        tx.repository_put(&repository).unwrap();
        tx.mark().unwrap();
        let elsewhere = event(&worktree(3, &repository), "its worktree is not there");
        assert!(failure(tx, |tx| tx.event_append(&elsewhere).map(drop)).is_some());
        tx.undo().unwrap();
        // The backend may report the failure later: the undo covers that, too.
        let _ = tx.event_append(&elsewhere);
        tx.undo().unwrap();
        tx.worktree_put(&worktree(2, &repository)).unwrap();
    });
    assert_eq!(read(store, |tx| tx.worktree_list().unwrap().len()), 1);
}

pub(crate) fn a_prefetched_read_returns_the_same_as_a_plain_one(store: &mut dyn Store) {
    let repository = repository(1);
    let worktree = worktree(2, &repository);
    let prefetch = |tx: &mut dyn Tx| {
        tx.prefetch(&mut |tx| {
            tx.now()?;
            tx.event_last()?;
            tx.repository_list()?;
            tx.event_list(&all())?;
            tx.worktree_get(&worktree.id).map(drop)
        })
        .unwrap();
    };
    write(store, |tx| {
        prefetch(tx);
        assert_eq!(tx.worktree_get(&worktree.id).unwrap(), None);
        tx.repository_put(&repository).unwrap();
        tx.worktree_put(&worktree).unwrap();
        assert_eq!(tx.event_append(&event(&worktree, "one")).unwrap(), 1);
        assert_eq!(
            tx.worktree_get(&worktree.id).unwrap().as_ref(),
            Some(&worktree),
            "it was stored after the prefetch"
        );
        prefetch(tx);
        assert_eq!(tx.event_append(&event(&worktree, "two")).unwrap(), 2, "a prefetch changes nothing");
        assert_eq!(tx.event_list(&all()).unwrap().len(), 2);
        assert_eq!(tx.repository_list().unwrap(), std::slice::from_ref(&repository));
    });
}

pub(crate) fn events_are_listed_by_every_filter(store: &mut dyn Store) {
    let repository = repository(1);
    let (here, there) = (worktree(2, &repository), worktree(3, &repository));
    write(store, |tx| {
        tx.repository_put(&repository).unwrap();
        for (worktree, subject, kind) in [
            (&here, "a", "task.claimed"),
            (&there, "b", "task.completed"),
            (&here, "b", "workflow.created"),
            (&there, "b", "task_like"),
        ] {
            tx.worktree_put(worktree).unwrap();
            tx.event_append(&NewEvent { kind, ..event(worktree, subject) }).unwrap();
        }
    });
    let mut check = |query: EventQuery, expected: &[u64]| {
        let found: Vec<_> =
            read(store, |tx| tx.event_list(&query).unwrap()).into_iter().map(|event| event.sequence).collect();
        assert_eq!(found, expected, "{query:?}");
    };
    let (all, b, tasks) = (all(), Some("b".to_owned()), Some("task.".to_owned()));
    check(all.clone(), &[4, 3, 2, 1]);
    check(EventQuery { limit: 2, ..all.clone() }, &[4, 3]);
    check(EventQuery { limit: 0, ..all.clone() }, &[]);
    check(EventQuery { since: Some(0), limit: 2, ..all.clone() }, &[1, 2]);
    check(EventQuery { since: Some(4), ..all.clone() }, &[]);
    check(EventQuery { worktree_id: Some(here.id.clone()), ..all.clone() }, &[3, 1]);
    check(EventQuery { since: Some(1), worktree_id: Some(here.id.clone()), ..all.clone() }, &[3]);
    check(EventQuery { subject: b.clone(), ..all.clone() }, &[4, 3, 2]);
    check(EventQuery { since: Some(2), subject: b.clone(), ..all.clone() }, &[3, 4]);
    check(EventQuery { kind: tasks.clone(), ..all.clone() }, &[2, 1]);
    check(EventQuery { kind: tasks, subject: b.clone(), ..all.clone() }, &[2]);
    // The limit counts matching events, not scanned ones.
    check(EventQuery { subject: b, worktree_id: Some(here.id.clone()), limit: 1, ..all }, &[3]);
}

pub(crate) fn time_never_goes_backwards(store: &mut dyn Store) {
    let repository = repository(1);
    let worktree = worktree(2, &repository);
    let ahead = write(store, |tx| {
        let ahead = tx.now().unwrap().plus(3_600_000);
        tx.repository_put(&repository).unwrap();
        tx.worktree_put(&worktree).unwrap();
        tx.event_append(&NewEvent { time: ahead, ..event(&worktree, "ahead") }).unwrap();
        assert_eq!(tx.now().unwrap(), ahead, "within the transaction");
        ahead
    });
    assert_eq!(read(store, |tx| tx.now().unwrap()), ahead, "the clock went back, the store's time did not");
    assert_eq!(write(store, |tx| tx.now().unwrap()), ahead);
}

pub(crate) fn paths_of_any_bytes_are_read_back(store: &mut dyn Store) {
    use std::os::unix::ffi::OsStringExt as _;
    let path = PathBuf::from(std::ffi::OsString::from_vec(b"/tmp/\xff \n%41".to_vec()));
    let repository = Repository { path, ..repository(1) };
    write(store, |tx| tx.repository_put(&repository).unwrap());
    assert_eq!(read(store, |tx| tx.repository_get(&repository.id).unwrap()), Some(repository));
}

pub(crate) fn committed_rows_are_stored_and_others_are_not(store: &mut dyn Store) {
    let world = World::small(&mut Dice::new(1));
    write(store, |tx| world.put(tx));
    let mut tx = store.begin_write().unwrap();
    let other = Task { description: "other".to_owned(), ..world.tasks[0].clone() };
    tx.task_put(&other).unwrap();
    tx.task_remove(&world.tasks[1].id).unwrap();
    assert_eq!(tx.task_get(&other.id).unwrap().as_ref(), Some(&other), "a transaction sees its own writes");
    drop(tx);
    read(store, |tx| {
        for task in &world.tasks {
            assert_eq!(tx.task_get(&task.id).unwrap().as_ref(), Some(task));
        }
    });
    write(store, |tx| tx.task_remove(&world.tasks[1].id).unwrap());
    assert_eq!(read(store, |tx| tx.task_get(&world.tasks[1].id).unwrap()), None);
}

/// A write of one row.
type Put = Box<dyn Fn(&mut dyn Tx) -> Result<()>>;

#[track_caller]
fn all_fail(store: &mut dyn Store, puts: Vec<(&str, Put)>) {
    for (name, put) in puts {
        let mut tx = store.begin_write().unwrap();
        assert!(failure(&mut *tx, put).is_some(), "{name} was accepted");
    }
}

/// Returns the error of a write: the write itself or the next read reports it.
pub(crate) fn failure(tx: &mut dyn Tx, write: impl FnOnce(&mut dyn Tx) -> Result<()>) -> Option<Error> {
    write(tx).and_then(|()| tx.notice_list()).err()
}

/// Makes a named write of one row.
macro_rules! put {
    ($name:literal, $verb:ident, $row:expr) => {{
        let row = $row;
        ($name, Box::new(move |tx: &mut dyn Tx| tx.$verb(&row)) as Put)
    }};
}

pub(crate) fn g3_a_row_with_a_missing_reference_is_refused(store: &mut dyn Store) {
    let dice = &mut Dice::new(2);
    let (mut world, unknown) = (World::small(dice), World::small(dice));
    world.messages.push(world.message(dice));
    write(store, |tx| {
        world.put(tx);
        tx.message_put(&world.messages[0]).unwrap();
    });
    let nowhere = unknown.worktrees[0].id.clone();
    let (task, agent) = (unknown.tasks[0].id.clone(), unknown.agents[0].id.clone());
    let (workflow, repository) = (unknown.workflows[0].id.clone(), unknown.repositories[0].id.clone());
    let (known, linked) = (world.tasks[0].id.clone(), world.workflows[0].id.clone());
    let (lone, elsewhere) = (workflow.clone(), repository.clone());
    let event = NewEvent { worktree_id: nowhere.clone(), ..world.event(dice) };
    all_fail(
        store,
        vec![
            put!("worktree", worktree_put, Worktree { repository_id: repository.clone(), ..world.worktree(dice) }),
            ("event", Box::new(move |tx| tx.event_append(&event).map(drop))),
            put!("workflow", workflow_put, Workflow { worktree_id: nowhere.clone(), ..world.workflow(dice) }),
            ("a workflow's repository", Box::new(move |tx| tx.workflow_repository_put(&linked, &repository))),
            ("a repository's workflow", {
                let known = world.repositories[0].id.clone();
                Box::new(move |tx| tx.workflow_repository_put(&lone, &known))
            }),
            put!("agent", agent_put, Agent { worktree_id: nowhere.clone(), ..world.agent(dice) }),
            put!("task", task_put, Task { worktree_id: nowhere.clone(), ..world.task(dice) }),
            put!("task of workflow", task_put, Task { workflow_id: workflow.clone(), ..world.task(dice) }),
            put!(
                "task in repository",
                task_put,
                Task { repository_id: Some(unknown.repositories[0].id.clone()), ..world.task(dice) }
            ),
            put!("task for agent", task_put, Task { assignee: Some(agent.clone()), ..world.task(dice) }),
            put!(
                "dependency of",
                dependency_put,
                Dependency { task_id: task.clone(), depends_on: known.clone(), kind: DependencyKind::Blocks }
            ),
            put!(
                "dependency on",
                dependency_put,
                Dependency { task_id: known, depends_on: task.clone(), kind: DependencyKind::Informs }
            ),
            put!("checkpoint of task", checkpoint_put, Checkpoint { task_id: task.clone(), ..world.checkpoint(dice) }),
            put!(
                "checkpoint by agent",
                checkpoint_put,
                Checkpoint { agent_id: agent.clone(), ..world.checkpoint(dice) }
            ),
            put!("checkpoint", checkpoint_put, Checkpoint { worktree_id: nowhere.clone(), ..world.checkpoint(dice) }),
            put!("lease", lease_put, Lease { worktree_id: nowhere.clone(), ..world.lease(dice) }),
            put!("lease of agent", lease_put, Lease { holder: Some(agent.clone()), ..world.lease(dice) }),
            put!("message", message_put, Message { worktree_id: nowhere.clone(), ..world.message(dice) }),
            put!("message from", message_put, Message { sender: agent.clone(), ..world.message(dice) }),
            put!("message to", message_put, Message { recipient: agent.clone(), ..world.message(dice) }),
            put!("message on workflow", message_put, Message { workflow_id: Some(workflow), ..world.message(dice) }),
            put!("message on task", message_put, Message { task_id: Some(task.clone()), ..world.message(dice) }),
            put!(
                "answering message",
                message_put,
                Message { reply_to: Some(MessageId::generate(dice)), ..world.message(dice) }
            ),
            put!("template", template_put, Template { worktree_id: nowhere.clone(), ..world.template(dice) }),
            put!("answer", answer_put, SavedAnswer { worktree_id: nowhere.clone(), ..world.answer(dice) }),
            put!("job", job_put, Job { worktree_id: nowhere.clone(), ..world.job(dice) }),
            put!("job in repository", job_put, Job { repository_id: elsewhere.clone(), ..world.job(dice) }),
            put!("job of agent", job_put, Job { agent_id: Some(agent), ..world.job(dice) }),
            put!("piece of a log", log_put, LogPiece { job_id: world.job(dice).id, first_byte: 0, text: dice.text() }),
            put!("workspace", workspace_put, Workspace { worktree_id: nowhere.clone(), ..world.workspace(dice) }),
            put!(
                "workspace in repository",
                workspace_put,
                Workspace { repository_id: elsewhere, ..world.workspace(dice) }
            ),
            put!("deferred", deferred_put, DeferredChanges { worktree_id: nowhere.clone(), ..world.deferred(dice) }),
            put!("notice", notice_put, Notice { worktree_id: nowhere, ..world.notice(dice) }),
            put!("notice of task", notice_put, Notice { task_id: Some(task), ..world.notice(dice) }),
        ],
    );
}

pub(crate) fn duplicates_of_unique_fields_are_refused(store: &mut dyn Store) {
    let dice = &mut Dice::new(3);
    let world = World::small(dice);
    let (checkpoint, message) = (world.checkpoint(dice), world.message(dice));
    let (template, answer) = (world.template(dice), world.answer(dice));
    write(store, |tx| {
        world.put(tx);
        tx.checkpoint_put(&checkpoint).unwrap();
        tx.message_put(&message).unwrap();
        tx.template_put(&template).unwrap();
        tx.answer_put(&answer).unwrap();
    });
    let (task, agent) = (&world.tasks[0], &world.agents[0]);
    all_fail(
        store,
        vec![
            put!(
                "a task's name in a workflow",
                task_put,
                Task { name: task.name.clone(), workflow_id: task.workflow_id.clone(), ..world.task(dice) }
            ),
            put!("an agent's name", agent_put, Agent { name: agent.name.clone(), ..world.agent(dice) }),
            put!(
                "a checkpoint's sequence",
                checkpoint_put,
                Checkpoint {
                    sequence: checkpoint.sequence,
                    task_id: checkpoint.task_id.clone(),
                    ..world.checkpoint(dice)
                }
            ),
            put!("a checkpoint", checkpoint_put, Checkpoint { sequence: 9, ..checkpoint }),
            put!("a message's number", message_put, Message { number: message.number, ..world.message(dice) }),
            put!(
                "a template's version",
                template_put,
                Template { name: template.name.clone(), version: template.version, ..world.template(dice) }
            ),
            put!("a template", template_put, Template { version: 9, ..template }),
            put!("an answer's key", answer_put, answer),
        ],
    );
}

pub(crate) fn a_task_that_something_refers_to_is_not_removed(store: &mut dyn Store) {
    let dice = &mut Dice::new(4);
    let world = World::small(dice);
    write(store, |tx| world.put(tx));
    let [one, other] = [&world.tasks[0].id, &world.tasks[1].id];
    let mut check = |put: &dyn Fn(&mut dyn Tx) -> Result<()>, removed: &TaskId| {
        let mut tx = store.begin_write().unwrap();
        put(&mut *tx).unwrap();
        assert!(failure(&mut *tx, |tx| tx.task_remove(removed)).is_some());
    };
    let dependency = Dependency { task_id: one.clone(), depends_on: other.clone(), kind: DependencyKind::Informs };
    check(&|tx| tx.dependency_put(&dependency), one);
    check(&|tx| tx.dependency_put(&dependency), other);
    let checkpoint = Checkpoint { task_id: one.clone(), ..world.checkpoint(dice) };
    check(&|tx| tx.checkpoint_put(&checkpoint), one);
    let message = Message { task_id: Some(one.clone()), ..world.message(dice) };
    check(&|tx| tx.message_put(&message), one);
    let notice = Notice { task_id: Some(one.clone()), ..world.notice(dice) };
    check(&|tx| tx.notice_put(&notice), one);
    write(store, |tx| {
        tx.dependency_put(&dependency).unwrap();
        tx.dependency_remove(one, other).unwrap();
        tx.message_put(&message).unwrap();
        tx.message_detach(one).unwrap();
        tx.task_remove(one).unwrap();
        assert_eq!(tx.message_get(&message.id).unwrap().unwrap().task_id, None);
    });
    assert_eq!(read(store, |tx| tx.task_list(&world.workflows[0].id).unwrap()).len(), 1);
}

pub(crate) fn claimable_tasks_have_no_open_blockers(store: &mut dyn Store) {
    let dice = &mut Dice::new(5);
    let world = World::small(dice);
    let (mut first, mut second) = (world.tasks[0].clone(), world.tasks[1].clone());
    (first.priority, second.priority) = (3, 0);
    write(store, |tx| {
        world.put(tx);
        tx.task_put(&first).unwrap();
        tx.task_put(&second).unwrap();
    });
    let mut claimable = |dependency: Option<DependencyKind>, blocker: TaskStatus, workflow_id: Option<WorkflowId>| {
        let mut tx = store.begin_write().unwrap();
        let text = Some(String::new());
        let (outcome, evidence, error) = (text.clone(), text.clone(), text);
        tx.task_put(&Task { status: blocker, outcome, evidence, error, ..first.clone() }).unwrap();
        if let Some(kind) = dependency {
            let (task_id, depends_on) = (second.id.clone(), first.id.clone());
            tx.dependency_put(&Dependency { task_id, depends_on, kind }).unwrap();
        }
        let of = workflow_id.map_or(Candidates::All, Candidates::OfWorkflow);
        let query = CandidateQuery { of, repositories: Vec::new(), skip: 0, limit: 9 };
        tx.task_list_claimable(&query).unwrap().into_iter().map(|task| task.id).collect::<Vec<_>>()
    };
    let ids = (first.id.clone(), second.id.clone());
    assert_eq!(
        claimable(None, TaskStatus::Pending, None),
        [ids.1.clone(), ids.0.clone()],
        "the task with the higher priority comes first"
    );
    assert_eq!(claimable(Some(DependencyKind::Informs), TaskStatus::InProgress, None), std::slice::from_ref(&ids.1));
    for &status in TaskStatus::ALL {
        let expected: &[TaskId] = match status {
            TaskStatus::Pending => std::slice::from_ref(&ids.0),
            TaskStatus::Completed | TaskStatus::Skipped => std::slice::from_ref(&ids.1),
            _ => &[],
        };
        for workflow_id in [None, Some(world.workflows[0].id.clone())] {
            assert_eq!(claimable(Some(DependencyKind::Blocks), status, workflow_id), expected, "{status}");
        }
    }
}

pub(crate) fn claimable_tasks_and_jobs_are_limited_to_worktrees_and_repositories(store: &mut dyn Store) {
    let dice = &mut Dice::new(8);
    let world = World::small(dice);
    let here = world.worktrees[0].clone();
    let elsewhere = Repository { id: RepositoryId::generate(dice), ..world.repositories[0].clone() };
    let there = Worktree { id: WorktreeId::generate(dice), repository_id: elsewhere.id.clone(), ..here.clone() };
    let (mut workflows, mut tasks) = (Vec::new(), Vec::new());
    for worktree_id in [&here.id, &there.id] {
        for &reach in Reach::ALL {
            let status = WorkflowStatus::InProgress;
            let workflow = Workflow { worktree_id: worktree_id.clone(), reach, status, ..world.workflow(dice) };
            let task = Task {
                workflow_id: workflow.id.clone(),
                worktree_id: worktree_id.clone(),
                repository_id: None,
                status: TaskStatus::Pending,
                ..world.task(dice)
            };
            workflows.push(workflow);
            tasks.push(task);
        }
    }
    // A task of this worktree that works in the other repository.
    tasks[0].repository_id = Some(elsewhere.id.clone());
    let job = Job {
        worktree_id: here.id.clone(),
        task_id: Some(tasks[2].id.clone()),
        repository_id: elsewhere.id.clone(),
        ..world.job(dice)
    };
    let workspace = Workspace {
        worktree_id: here.id.clone(),
        job_id: Some(job.id.clone()),
        repository_id: elsewhere.id.clone(),
        ..world.workspace(dice)
    };
    write(store, |tx| {
        world.put(tx);
        // The world has tasks of its own.
        for task in &world.tasks {
            tx.task_put(&Task { status: TaskStatus::Cancelled, ..task.clone() }).unwrap();
        }
        tx.repository_put(&elsewhere).unwrap();
        tx.worktree_put(&there).unwrap();
        for (workflow, task) in workflows.iter().zip(&tasks) {
            tx.workflow_put(workflow).unwrap();
            tx.task_put(task).unwrap();
        }
        tx.job_put(&job).unwrap();
        tx.workspace_put(&workspace).unwrap();
    });
    let ids = |numbers: &[usize]| -> BTreeSet<TaskId> { numbers.iter().map(|&at| tasks[at].id.clone()).collect() };
    read(store, |tx| {
        let mut pending = |worktree_id: Option<&WorktreeId>, repositories: &[&RepositoryId]| -> BTreeSet<TaskId> {
            let repositories = repositories.iter().map(|id| (*id).clone()).collect();
            let place = TaskPlace { worktree_id: worktree_id.cloned(), repositories };
            let found = tx.task_list_in(TaskStatus::Pending, &place, 9).unwrap();
            found.into_iter().map(|task| task.id).collect()
        };
        assert_eq!(pending(None, &[]), ids(&[0, 1, 2, 3]));
        assert_eq!(pending(Some(&here.id), &[]), ids(&[0, 1]));
        assert_eq!(pending(None, &[&here.repository_id]), ids(&[1]));
        assert_eq!(pending(None, &[&elsewhere.id]), ids(&[0, 2, 3]));
        assert_eq!(pending(Some(&here.id), &[&elsewhere.id]), ids(&[0]));
        let mut claimable = |of: Candidates, repositories: &[&RepositoryId]| -> BTreeSet<TaskId> {
            let repositories = repositories.iter().map(|id| (*id).clone()).collect();
            let query = CandidateQuery { of, repositories, skip: 0, limit: 9 };
            tx.task_list_claimable(&query).unwrap().into_iter().map(|task| task.id).collect()
        };
        // Of each worktree, the first task belongs to it and the second is shared.
        assert_eq!(claimable(Candidates::All, &[]), ids(&[0, 1, 2, 3]));
        assert_eq!(claimable(Candidates::OfWorktree(here.id.clone()), &[]), ids(&[0, 1]));
        assert_eq!(claimable(Candidates::SharedWith(here.id.clone()), &[]), ids(&[3]));
        assert_eq!(claimable(Candidates::SharedWith(there.id.clone()), &[]), ids(&[1]));
        assert_eq!(claimable(Candidates::All, &[&here.repository_id]), ids(&[1]));
        assert_eq!(claimable(Candidates::All, &[&elsewhere.id]), ids(&[0, 2, 3]));
        assert_eq!(claimable(Candidates::All, &[&elsewhere.id, &here.repository_id]), ids(&[0, 1, 2, 3]));
        assert_eq!(claimable(Candidates::OfWorktree(here.id.clone()), &[&elsewhere.id]), ids(&[0]));
        assert_eq!(claimable(Candidates::OfWorkflow(workflows[2].id.clone()), &[&here.repository_id]), ids(&[]));
        let mut found = |worktree: &WorktreeId, repository: &RepositoryId| {
            let (worktree_id, repositories) = (Some(worktree.clone()), vec![repository.clone()]);
            let query = JobQuery {
                worktree_id: worktree_id.clone(),
                repositories: repositories.clone(),
                limit: 9,
                ..JobQuery::default()
            };
            let jobs = tx.job_list(&query).unwrap().len();
            let query = WorkspaceQuery { worktree_id, repositories, all: true, limit: 9, ..WorkspaceQuery::default() };
            (jobs, tx.workspace_list(&query).unwrap().len())
        };
        assert_eq!(found(&here.id, &elsewhere.id), (1, 1), "requested here");
        assert_eq!(found(&there.id, &elsewhere.id), (1, 1), "works for the other worktree");
        assert_eq!(found(&here.id, &here.repository_id), (0, 0));
    });
}

pub(crate) fn an_inbox_contains_messages_that_are_neither_acted_on_nor_expired(store: &mut dyn Store) {
    let dice = &mut Dice::new(6);
    let mut world = World::small(dice);
    let moment = Timestamp::from_millis;
    for (state, expires_at) in [
        (MessageState::Queued, None),
        (MessageState::Read, Some(moment(11))),
        (MessageState::Presented, Some(moment(10))),
        (MessageState::Acted, None),
    ] {
        world.messages.push(Message { state, expires_at, ..world.message(dice) });
    }
    let recipient = &world.agents[0].id;
    write(store, |tx| {
        world.put(tx);
        world.messages.iter().for_each(|message| tx.message_put(message).unwrap());
    });
    read(store, |tx| {
        let numbers: Vec<_> =
            tx.message_list(recipient, moment(10), 0, 9).unwrap().iter().map(|message| message.number).collect();
        assert_eq!(numbers, [1, 2]);
        assert_eq!(tx.message_list(recipient, moment(10), 0, 1).unwrap().len(), 1);
        assert_eq!(tx.message_count(recipient, moment(10)).unwrap(), 2);
        assert_eq!(tx.message_count(recipient, moment(9)).unwrap(), 3);
        assert_eq!(tx.message_count_by_recipient(moment(10)).unwrap(), [(recipient.clone(), 2)]);
        assert_eq!(tx.message_count_by_recipient(moment(9)).unwrap(), [(recipient.clone(), 3)]);
        assert_eq!(tx.message_last().unwrap(), 4);
    });
}

pub(crate) fn the_latest_version_of_a_template_is_listed(store: &mut dyn Store) {
    let dice = &mut Dice::new(7);
    let world = World::small(dice);
    let mut template = |name: &str, version| Template { name: name.to_owned(), version, ..world.template(dice) };
    let templates = [template("b", 1), template("b", 10), template("b", 9), template("B", 2)];
    write(store, |tx| {
        world.put(tx);
        for template in &templates {
            tx.template_put(template).unwrap();
        }
    });
    read(store, |tx| {
        assert_eq!(tx.template_list(None).unwrap(), [templates[3].clone(), templates[1].clone()]);
        assert_eq!(tx.template_list(Some("b")).unwrap(), [templates[1].clone()]);
        assert_eq!(tx.template_list(Some("c")).unwrap(), []);
    });
}

pub(crate) fn answers_are_forgotten_by_their_age(store: &mut dyn Store) {
    let dice = &mut Dice::new(8);
    let world = World::small(dice);
    let mut answer = |key: &str, millis| SavedAnswer {
        key: key.to_owned(),
        created_at: Timestamp::from_millis(millis),
        ..world.answer(dice)
    };
    let (old, new) = (answer("old", 9), answer("new", 10));
    write(store, |tx| {
        world.put(tx);
        tx.answer_put(&old).unwrap();
        tx.answer_put(&new).unwrap();
    });
    write(store, |tx| tx.answer_forget(Timestamp::from_millis(10)).unwrap());
    read(store, |tx| {
        assert_eq!(tx.answer_get("old").unwrap(), None);
        assert_eq!(tx.answer_get("new").unwrap(), Some(new));
    });
}

/// The moment before which records are removed, in the cases of removal.
const BEFORE: Timestamp = Timestamp::from_millis(100);

/// A finished workflow with a task, a dependency, a checkpoint, a lease, a job with its workspace, and a message about it.
struct Finished {
    workflow: Workflow,
    tasks: [Task; 2],
    dependency: Dependency,
    checkpoint: Checkpoint,
    lease: Lease,
    job: Job,
    workspace: Workspace,
    message: Message,
}

impl Finished {
    fn new(world: &mut World, dice: &mut Dice) -> Finished {
        let end = Some(Timestamp::from_millis(99));
        let workflow = Workflow { status: WorkflowStatus::Completed, finished_at: end, ..world.workflow(dice) };
        let mut task = || Task { workflow_id: workflow.id.clone(), ..world.task(dice) };
        let mut tasks = [task(), task()];
        tasks[1].name = format!("{} again", tasks[0].name);
        let (task_id, depends_on) = (tasks[1].id.clone(), tasks[0].id.clone());
        let dependency = Dependency { task_id: task_id.clone(), depends_on, kind: DependencyKind::Blocks };
        let checkpoint = Checkpoint { task_id: task_id.clone(), ..world.checkpoint(dice) };
        let lease = Lease { subject: task_id.to_string(), holder: None, ..world.lease(dice) };
        let status = waypost_core::model::JobStatus::Completed;
        let job = Job { status, finished_at: end, task_id: Some(task_id.clone()), retry_of: None, ..world.job(dice) };
        let workspace = Workspace {
            job_id: Some(job.id.clone()),
            status: waypost_core::model::WorkspaceStatus::Removed,
            removed_at: end,
            ..world.workspace(dice)
        };
        let state = MessageState::Read;
        let (workflow_id, task_id, reply_to) = (Some(workflow.id.clone()), Some(task_id), None);
        let id = MessageId::generate(dice);
        let thread = id.clone();
        let message = Message { id, thread, reply_to, state, workflow_id, task_id, ..world.message(dice) };
        world.messages.push(message.clone());
        Finished { workflow, tasks, dependency, checkpoint, lease, job, workspace, message }
    }

    fn put(&self, tx: &mut dyn Tx) {
        tx.workflow_put(&self.workflow).unwrap();
        tx.workflow_repository_put(&self.workflow.id, &self.job.repository_id).unwrap();
        self.tasks.iter().for_each(|task| tx.task_put(task).unwrap());
        tx.dependency_put(&self.dependency).unwrap();
        tx.checkpoint_put(&self.checkpoint).unwrap();
        tx.lease_put(&self.lease).unwrap();
        tx.job_put(&self.job).unwrap();
        tx.workspace_put(&self.workspace).unwrap();
        tx.message_put(&self.message).unwrap();
    }
}

pub(crate) fn old_records_that_nothing_live_refers_to_are_removed_completely(store: &mut dyn Store) {
    let dice = &mut Dice::new(21);
    let mut world = World::small(dice);
    let old: Vec<Finished> = (0..9).map(|_| Finished::new(&mut world, dice)).collect();
    let notice = Notice { task_id: Some(old[1].tasks[0].id.clone()), ..world.notice(dice) };
    let held = Lease { holder: Some(world.agents[0].id.clone()), ..old[2].lease.clone() };
    let queued = Message { state: MessageState::Queued, expires_at: None, ..old[3].message.clone() };
    let kept =
        Workspace { status: waypost_core::model::WorkspaceStatus::Kept, removed_at: None, ..old[4].workspace.clone() };
    let recent = Workflow { finished_at: Some(BEFORE), ..old[5].workflow.clone() };
    let late = Workspace { removed_at: Some(BEFORE), ..old[6].workspace.clone() };
    let retry = Job {
        id: JobId::generate(dice),
        status: waypost_core::model::JobStatus::Running,
        finished_at: None,
        task_id: None,
        retry_of: Some(old[7].job.id.clone()),
        ..world.job(dice)
    };
    let depends = Dependency {
        task_id: world.tasks[0].id.clone(),
        depends_on: old[8].tasks[0].id.clone(),
        kind: DependencyKind::Blocks,
    };
    let alone = Job {
        status: waypost_core::model::JobStatus::Completed,
        finished_at: Some(Timestamp::from_millis(98)),
        task_id: None,
        retry_of: None,
        ..world.job(dice)
    };
    write(store, |tx| {
        world.put(tx);
        for one in &old {
            one.put(tx);
        }
        tx.notice_put(&notice).unwrap();
        tx.lease_put(&held).unwrap();
        tx.message_put(&queued).unwrap();
        tx.workspace_put(&kept).unwrap();
        tx.workflow_put(&recent).unwrap();
        tx.workspace_put(&late).unwrap();
        tx.job_put(&retry).unwrap();
        tx.dependency_put(&depends).unwrap();
        tx.job_put(&alone).unwrap();
    });
    let first = &old[0];
    let ids = std::slice::from_ref(&first.workflow.id);
    read(store, |tx| {
        assert_eq!(tx.workflow_list_removable(BEFORE, 9).unwrap(), std::slice::from_ref(&first.workflow));
        assert_eq!(tx.workflow_list_removable(BEFORE, 0).unwrap(), []);
        assert_eq!(tx.workflow_list_removable(Timestamp::from_millis(99), 9).unwrap(), []);
        assert_eq!(tx.job_list_in_workflows(ids).unwrap(), std::slice::from_ref(&first.job));
        assert_eq!(tx.job_list_removable(BEFORE, 9).unwrap(), std::slice::from_ref(&alone));
        let of_first = std::slice::from_ref(&first.job.id);
        assert_eq!(tx.workspace_list_by_job(of_first).unwrap(), std::slice::from_ref(&first.workspace.id));
        assert_eq!(tx.workspace_list_removable(BEFORE, 9).unwrap(), []);
    });
    write(store, |tx| {
        tx.job_remove(&[first.job.id.clone(), alone.id.clone()]).unwrap();
        assert_eq!(tx.workspace_list_removable(BEFORE, 9).unwrap(), std::slice::from_ref(&first.workspace.id));
        tx.workspace_remove(std::slice::from_ref(&first.workspace.id)).unwrap();
        tx.workflow_remove(ids).unwrap();
    });
    read(store, |tx| {
        assert_eq!(tx.workflow_get(&first.workflow.id).unwrap(), None);
        assert_eq!(tx.workflow_repository_list(&first.workflow.id).unwrap(), []);
        assert_eq!(tx.task_list(&first.workflow.id).unwrap(), []);
        assert_eq!(tx.task_get(&first.tasks[0].id).unwrap(), None);
        assert_eq!(tx.dependency_list_of(&first.tasks[1].id).unwrap(), []);
        assert_eq!(tx.checkpoint_list(&first.tasks[1].id, None, 9).unwrap(), []);
        assert_eq!(tx.lease_get(&first.lease.subject).unwrap(), None);
        assert_eq!((tx.job_get(&first.job.id).unwrap(), tx.job_get(&alone.id).unwrap()), (None, None));
        assert_eq!(tx.workspace_get(&first.workspace.id).unwrap(), None);
        // A message that is not handled stays, without its reference.
        let detached = Message { workflow_id: None, task_id: None, ..first.message.clone() };
        assert_eq!(tx.message_get(&first.message.id).unwrap(), Some(detached));
        for one in &old[1..] {
            assert_eq!(tx.task_list(&one.workflow.id).unwrap().len(), 2, "{:?}", one.workflow);
            assert_eq!(tx.checkpoint_list(&one.tasks[1].id, None, 9).unwrap().len(), 1);
            assert!(tx.lease_get(&one.lease.subject).unwrap().is_some());
            assert!(tx.job_get(&one.job.id).unwrap().is_some());
            assert!(tx.workspace_get(&one.workspace.id).unwrap().is_some());
            assert_eq!(tx.message_get(&one.message.id).unwrap().unwrap().workflow_id, Some(one.workflow.id.clone()));
        }
        assert_eq!(tx.workflow_list_removable(BEFORE, 9).unwrap(), []);
        assert_eq!(tx.job_list_removable(BEFORE, 9).unwrap(), []);
    });
}

pub(crate) fn handled_messages_are_removed_by_thread(store: &mut dyn Store) {
    let dice = &mut Dice::new(22);
    let mut world = World::small(dice);
    let moment = Timestamp::from_millis;
    // Each thread has a question and an answer.
    let states = [
        [(MessageState::Acted, None, 99), (MessageState::Acted, Some(200), 98)],
        [(MessageState::Acted, None, 99), (MessageState::Read, None, 98)],
        [(MessageState::Acted, None, 99), (MessageState::Queued, Some(99), 98)],
        [(MessageState::Acted, None, 99), (MessageState::Queued, Some(100), 98)],
        [(MessageState::Acted, None, 100), (MessageState::Acted, None, 99)],
    ];
    for thread in &states {
        let mut first: Option<Message> = None;
        for (state, expires_at, updated_at) in thread {
            let (updated_at, expires_at) = (moment(*updated_at), expires_at.map(moment));
            let drawn = world.message(dice);
            let thread = first.as_ref().map_or_else(|| drawn.id.clone(), |first| first.id.clone());
            let reply_to = first.as_ref().map(|first| first.id.clone());
            let message = Message { thread, reply_to, state: *state, expires_at, updated_at, ..drawn };
            first.get_or_insert_with(|| message.clone());
            world.messages.push(message);
        }
    }
    let all = &world.messages;
    write(store, |tx| {
        world.put(tx);
        for message in all {
            tx.message_put(message).unwrap();
        }
    });
    let handled = read(store, |tx| tx.message_list_handled(BEFORE, 9).unwrap());
    let ids: Vec<MessageId> = handled.iter().map(|(id, _)| id.clone()).collect();
    let expected: BTreeSet<_> = [0, 1, 4, 5].map(|at| (all[at].id.clone(), all[at].created_at)).into();
    assert_eq!(handled.into_iter().collect::<BTreeSet<_>>(), expected);
    assert_eq!(read(store, |tx| tx.message_list_handled(BEFORE, 1).unwrap()).len(), 2, "one thread, not one message");
    // A message that another one answers is not removed alone.
    let mut tx = store.begin_write().unwrap();
    assert!(tx.message_remove(&[all[0].id.clone()]).and_then(|()| tx.message_last().map(drop)).is_err());
    drop(tx);
    write(store, |tx| tx.message_remove(&ids).unwrap());
    read(store, |tx| {
        assert_eq!(tx.message_list_handled(BEFORE, 9).unwrap(), []);
        for (at, message) in all.iter().enumerate() {
            assert_eq!(tx.message_get(&message.id).unwrap().is_some(), ![0, 1, 4, 5].contains(&at));
        }
    });
}

pub(crate) fn only_events_about_nothing_that_is_kept_are_removed(store: &mut dyn Store) {
    let dice = &mut Dice::new(23);
    let mut world = World::small(dice);
    world.jobs.push(world.job(dice));
    world.workspaces.push(world.workspace(dice));
    world.messages.push(Message { reply_to: None, ..world.message(dice) });
    let holder = Some(world.agents[0].id.clone());
    let lease = |subject: &str, holder| Lease { subject: subject.to_owned(), holder, ..world.lease(&mut Dice::new(1)) };
    let (held, ended) = (lease("held", holder), lease("ended", None));
    let subjects = [
        world.workflows[0].id.to_string(),
        world.tasks[0].id.to_string(),
        world.jobs[0].id.to_string(),
        world.workspaces[0].id.to_string(),
        world.messages[0].id.to_string(),
        "held".to_owned(),
        "ended".to_owned(),
        "store".to_owned(),
        WorkflowId::generate(dice).to_string(),
    ];
    write(store, |tx| {
        world.put(tx);
        tx.job_put(&world.jobs[0]).unwrap();
        tx.workspace_put(&world.workspaces[0]).unwrap();
        tx.message_put(&world.messages[0]).unwrap();
        tx.lease_put(&held).unwrap();
        tx.lease_put(&ended).unwrap();
        for time in [99, 100] {
            for subject in &subjects {
                let time = Timestamp::from_millis(time);
                tx.event_append(&NewEvent { time, ..event(&world.worktrees[0], subject) }).unwrap();
            }
        }
    });
    let sequences = |tx: &mut dyn Tx, before, limit| -> Vec<u64> {
        tx.event_list_removable(before, limit).unwrap().into_iter().map(|(sequence, ..)| sequence).collect()
    };
    read(store, |tx| {
        assert_eq!(sequences(tx, BEFORE, 100), [7, 8, 9]);
        assert_eq!(sequences(tx, BEFORE, 2), [7, 8]);
        assert_eq!(sequences(tx, Timestamp::from_millis(99), 100), [0; 0]);
        let (_, time, kind) = tx.event_list_removable(BEFORE, 1).unwrap().remove(0);
        assert_eq!((time.as_millis(), kind.as_str()), (99, "store.probed"));
        assert_eq!(tx.event_count_removable(BEFORE, &[]).unwrap(), 3);
        // Without the workflow, its task is gone too.
        assert_eq!(tx.event_count_removable(BEFORE, &subjects[..1]).unwrap(), 5);
        assert_eq!(tx.event_count_removable(BEFORE, &subjects[..5]).unwrap(), 8);
    });
    write(store, |tx| tx.event_remove(BEFORE, &[7, 9]).unwrap());
    let left = |store: &mut dyn Store| -> Vec<u64> {
        let query = EventQuery { since: Some(0), ..all() };
        read(store, |tx| tx.event_list(&query).unwrap().into_iter().map(|event| event.sequence).collect())
    };
    assert_eq!(left(store), [1, 2, 3, 4, 5, 6, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18]);
    // Later events, and the newest one, are never removed.
    let mut tx = store.begin_write().unwrap();
    assert!(tx.event_remove(BEFORE, &[8, 10]).and_then(|()| tx.message_last().map(drop)).is_err());
    drop(tx);
    write(store, |tx| tx.event_remove(Timestamp::from_millis(101), &[17, 18]).unwrap());
    assert_eq!(left(store), [1, 2, 3, 4, 5, 6, 8, 10, 11, 12, 13, 14, 15, 16, 18]);
    assert_eq!(write(store, |tx| tx.event_append(&event(&world.worktrees[0], "next")).unwrap()), 19);
}

pub(crate) fn summaries_are_listed_and_replaced(store: &mut dyn Store) {
    let dice = &mut Dice::new(24);
    let world = World::small(dice);
    let mut summary = |subject: &str, removed_at| Summary {
        subject: subject.to_owned(),
        removed_at: Timestamp::from_millis(removed_at),
        ..world.summary(dice)
    };
    let (one, two, three) = (summary("one", 5), summary("two", 5), summary("three", 4));
    let replaced = summary("three", 6);
    write(store, |tx| {
        world.put(tx);
        for row in [&one, &two, &three] {
            tx.summary_put(row).unwrap();
            assert_eq!(tx.summary_get(&row.subject).unwrap().as_ref(), Some(row));
        }
    });
    read(store, |tx| {
        assert_eq!(tx.summary_list(9).unwrap(), [two.clone(), one.clone(), three.clone()]);
        assert_eq!(tx.summary_list(1).unwrap(), std::slice::from_ref(&two));
        let named = ["two", "one", "four"].map(str::to_owned);
        assert_eq!(tx.summary_list_by_subject(&named).unwrap(), [one.clone(), two.clone()]);
        assert_eq!(tx.summary_get("four").unwrap(), None);
    });
    write(store, |tx| tx.summary_put(&replaced).unwrap());
    assert_eq!(read(store, |tx| tx.summary_list(1).unwrap()), [replaced]);
}

pub(crate) fn the_state_of_the_store_is_read_back(store: &mut dyn Store) {
    let world = World::small(&mut Dice::new(14));
    assert_eq!(read(store, |tx| tx.clock_get().unwrap()), Remembered::default());
    assert_eq!(read(store, |tx| (tx.epoch_floor().unwrap(), tx.lease_max_epoch().unwrap())), (0, 0));
    let doubt = Some(Doubt { wall: Timestamp::from_millis(7), since_ms: Some(8) });
    let anchor = Anchor { boot: "a boot".to_owned(), offset_ms: -5, is_firm: false, doubt };
    let later = Timestamp::from_millis(9_000);
    write(store, |tx| {
        world.put(tx);
        tx.anchor_put(&anchor).unwrap();
        tx.epoch_floor_put(1_000_000).unwrap();
        tx.lease_put(&Lease { epoch: 41, ..world.lease(&mut Dice::new(14)) }).unwrap();
        tx.event_append(&NewEvent { time: later, ..event(&world.worktrees[0], "x") }).unwrap();
        assert_eq!(tx.clock_get().unwrap(), Remembered { anchor: anchor.clone(), last: Some(later) });
    });
    let read_back =
        read(store, |tx| (tx.clock_get().unwrap(), tx.epoch_floor().unwrap(), tx.lease_max_epoch().unwrap()));
    assert_eq!(read_back, (Remembered { anchor, last: Some(later) }, 1_000_000, 41));
    // An event may be earlier than the one before it. The last event counts.
    write(store, |tx| {
        tx.anchor_put(&Anchor::default()).unwrap();
        tx.event_append(&event(&world.worktrees[0], "x")).unwrap();
    });
    let last = Some(Timestamp::from_millis(1_000));
    assert_eq!(read(store, |tx| tx.clock_get().unwrap()), Remembered { anchor: Anchor::default(), last });
}

pub(crate) fn deadlines_move_together(store: &mut dyn Store) {
    let dice = &mut Dice::new(15);
    let world = World::small(dice);
    let at = Timestamp::from_millis;
    let never = at(i64::MAX);
    let agent = Agent { silent_at: Some(at(20)), ..world.agents[0].clone() };
    let held = Lease {
        subject: "held".to_owned(),
        holder: Some(agent.id.clone()),
        expires_at: at(30),
        run_until: Some(never),
        stall_at: None,
        ..world.lease(dice)
    };
    let free = Lease { subject: "free".to_owned(), holder: None, ..held.clone() };
    let pending =
        Task { status: TaskStatus::Pending, due_at: Some(at(40)), queued_at: at(10), ..world.tasks[0].clone() };
    let answer = SavedAnswer { key: "k".to_owned(), created_at: at(10), ..world.answer(dice) };
    write(store, |tx| {
        world.put(tx);
        tx.agent_put(&agent).unwrap();
        tx.lease_put(&held).unwrap();
        tx.lease_put(&free).unwrap();
        tx.task_put(&pending).unwrap();
        tx.answer_put(&answer).unwrap();
    });
    let mut check = |by: i64, now: i64, moved: i64, redated: i64| {
        write(store, |tx| tx.deadlines_shift(by, at(now)).unwrap());
        read(store, |tx| {
            assert_eq!(tx.agent_get(&agent.id).unwrap().unwrap().silent_at, Some(at(20 + moved)));
            assert_eq!(tx.lease_get("held").unwrap(), Some(Lease { expires_at: at(30 + moved), ..held.clone() }));
            assert_eq!(tx.lease_get("free").unwrap().as_ref(), Some(&free));
            assert_eq!(tx.lease_list_due(at(30 + moved), 9).unwrap().len(), 1, "its deadline moved, too");
            let task = tx.task_get(&pending.id).unwrap().unwrap();
            assert_eq!((task.due_at, task.queued_at), (Some(at(40 + moved)), at(redated)));
            assert_eq!(tx.answer_get("k").unwrap().unwrap().created_at, at(redated));
        });
    };
    check(1_000, 5_000, 1_000, 1_010);
    check(-700, 300, 300, 300);
}

pub(crate) fn a_wait_returns_at_once_if_there_is_a_newer_event(store: &mut dyn Store) {
    let world = World::small(&mut Dice::new(9));
    write(store, |tx| {
        world.put(tx);
        tx.event_append(&world.event(&mut Dice::new(9))).unwrap();
    });
    let start = Instant::now();
    store.wait(0, Duration::from_mins(1)).unwrap();
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    store.wait(1, Duration::ZERO).unwrap();
}

pub(crate) fn rows_that_break_a_constraint_are_refused(store: &mut dyn Store) {
    let dice = &mut Dice::new(10);
    let world = World::small(dice);
    write(store, |tx| world.put(tx));
    let known = world.tasks[0].id.clone();
    all_fail(
        store,
        vec![
            put!("a priority", task_put, Task { priority: 5, ..world.task(dice) }),
            put!("attempts", task_put, Task { attempts: 3, max_attempts: 2, ..world.task(dice) }),
            put!("completion", task_put, Task { status: TaskStatus::Completed, outcome: None, ..world.task(dice) }),
            put!(
                "unproved completion",
                task_put,
                Task {
                    status: TaskStatus::Completed,
                    outcome: Some(String::new()),
                    needs_evidence: true,
                    evidence: None,
                    ..world.task(dice)
                }
            ),
            put!("failure", task_put, Task { status: TaskStatus::Failed, error: None, ..world.task(dice) }),
            put!("death", task_put, Task { status: TaskStatus::Dead, error: None, ..world.task(dice) }),
            put!("no parallel tasks", workflow_put, Workflow { max_parallel: Some(0), ..world.workflow(dice) }),
            put!("epoch", lease_put, Lease { epoch: 0, ..world.lease(dice) }),
            put!(
                "dependency on itself",
                dependency_put,
                Dependency { task_id: known.clone(), depends_on: known, kind: DependencyKind::Blocks }
            ),
        ],
    );
}

pub(crate) fn progress_that_breaks_a_constraint_is_refused(store: &mut dyn Store) {
    let world = World::small(&mut Dice::new(12));
    write(store, |tx| world.put(tx));
    let task = &world.tasks[0];
    let mut refuses = |what: &str, after: Task| {
        let mut tx = store.begin_write().unwrap();
        assert!(failure(&mut *tx, |tx| tx.task_advance(&task.id, &after.progress())).is_some(), "{what} was accepted");
    };
    refuses("completion", Task { status: TaskStatus::Completed, outcome: None, ..task.clone() });
    refuses("failure", Task { status: TaskStatus::Failed, error: None, ..task.clone() });
    refuses("attempts", Task { attempts: task.max_attempts + 1, ..task.clone() });
}

pub(crate) fn progress_heartbeats_and_renewals_change_no_other_columns(store: &mut dyn Store) {
    let dice = &mut Dice::new(13);
    let world = World::small(dice);
    write(store, |tx| world.put(tx));
    let (task, agent) = (&world.tasks[0], &world.agents[0]);
    for _ in 0..20 {
        let drawn = Task { id: task.id.clone(), ..world.task(dice) };
        let max_attempts = task.max_attempts;
        let drawn = Task { attempts: drawn.attempts.min(max_attempts), evidence: Some("shown".to_owned()), ..drawn };
        let touched = Agent { id: agent.id.clone(), ..world.agent(dice) };
        let held = Lease { subject: task.id.to_string(), holder: Some(agent.id.clone()), ..world.lease(dice) };
        let renewed = Lease { subject: held.subject.clone(), ..world.lease(dice) };
        write(store, |tx| {
            tx.task_advance(&task.id, &drawn.progress()).unwrap();
            tx.agent_touch(&touched).unwrap();
            tx.lease_put(&held).unwrap();
            tx.lease_renew(&renewed).unwrap();
        });
        read(store, |tx| {
            let after = tx.task_get(&task.id).unwrap().unwrap();
            assert!(after.has_plan_of(task), "{after:?}");
            assert_eq!(after.progress(), drawn.progress());
            let Agent { last_heartbeat, silent_at, .. } = touched;
            let expected = Agent { last_heartbeat, silent_at, ..agent.clone() };
            assert_eq!(tx.agent_get(&agent.id).unwrap(), Some(expected));
            let Lease { expires_at, ttl_ms, run_until, stall_at, .. } = renewed;
            let expected = Lease { expires_at, ttl_ms, run_until, stall_at, ..held };
            assert_eq!(tx.lease_get(&expected.subject).unwrap().as_ref(), Some(&expected));
            // Indexes are updated: the task is found by its new status, and the lease by its new deadline.
            let found = tx.task_list_in(drawn.status, &TaskPlace::default(), 9).unwrap();
            assert_eq!(found.iter().filter(|found| found.id == task.id).count(), 1);
            let due = tx.lease_list_due(expected.deadline(), u32::MAX).unwrap();
            assert_eq!(due.iter().filter(|due| **due == expected).count(), 1);
            if let Some(before) = expected.deadline().as_millis().checked_sub(1).map(Timestamp::from_millis) {
                assert!(!tx.lease_list_due(before, u32::MAX).unwrap().contains(&expected));
            }
        });
    }
}

pub(crate) fn a_transaction_with_a_failed_write_cannot_be_committed(store: &mut dyn Store) {
    let world = World::small(&mut Dice::new(11));
    let mut tx = store.begin_write().unwrap();
    tx.repository_put(&world.repositories[0]).unwrap();
    assert!(failure(&mut *tx, |tx| tx.agent_put(&world.agents[0])).is_some());
    tx.commit().unwrap_err();
    assert_eq!(read(store, |tx| tx.repository_list().unwrap()), []);

    let mut tx = store.begin_write().unwrap();
    tx.repository_put(&world.repositories[0]).unwrap();
    // The commit fails even if the caller ignores the error of the write.
    let _ = tx.agent_put(&world.agents[0]);
    tx.commit().unwrap_err();
    assert_eq!(read(store, |tx| tx.repository_list().unwrap()), []);
}

pub(crate) fn texts_that_cannot_be_stored_are_refused(store: &mut dyn Store) {
    let mut tx = store.begin_write().unwrap();
    let error = tx.repository_put(&Repository { name: "a\0b".to_owned(), ..repository(1) }).unwrap_err();
    assert_eq!(error.kind(), waypost_core::Kind::Invalid);
}

pub(crate) fn a_repository_is_removed_only_if_nothing_refers_to_it(store: &mut dyn Store) {
    let (used, unused) = (repository(1), repository(2));
    write(store, |tx| {
        tx.repository_put(&used).unwrap();
        tx.repository_put(&unused).unwrap();
        tx.worktree_put(&worktree(1, &used)).unwrap();
    });
    write(store, |tx| tx.repository_remove(&unused.id).unwrap());
    {
        let mut tx = store.begin_write().unwrap();
        let refused = tx.repository_remove(&used.id).is_err() || tx.commit().is_err();
        assert!(refused);
    }
    assert_eq!(read(store, |tx| tx.repository_list().unwrap()), [used]);
}

pub(crate) fn events_of_a_subject_are_filtered_before_they_are_counted(store: &mut dyn Store) {
    let repository = repository(1);
    let (one, other) = (worktree(1, &repository), worktree(2, &repository));
    write(store, |tx| {
        tx.repository_put(&repository).unwrap();
        tx.worktree_put(&one).unwrap();
        tx.worktree_put(&other).unwrap();
        for worktree in [&one, &one, &one, &other, &other, &other] {
            tx.event_append(&event(worktree, "thing")).unwrap();
        }
    });
    let listed = |since, worktree_id: &WorktreeId| EventQuery {
        since,
        worktree_id: Some(worktree_id.clone()),
        subject: Some("thing".to_owned()),
        limit: 2,
        ..EventQuery::default()
    };
    let sequences = |store: &mut dyn Store, query: &EventQuery| -> Vec<u64> {
        read(store, |tx| tx.event_list(query).unwrap().into_iter().map(|event| event.sequence).collect())
    };
    assert_eq!(sequences(store, &listed(None, &one.id)), [3, 2]);
    assert_eq!(sequences(store, &listed(Some(0), &other.id)), [4, 5]);
    assert_eq!(sequences(store, &listed(Some(5), &other.id)), [6]);
}

pub(crate) fn messages_about_a_workflow_are_found_in_order(store: &mut dyn Store) {
    let repository = repository(1);
    let worktree = worktree(1, &repository);
    let now = Timestamp::from_millis(1_000);
    let workflow = |number| Workflow {
        id: WorkflowId::generate(&mut Numbers(number)),
        name: "release".to_owned(),
        source: Source::Prompt,
        source_ref: None,
        source_content: None,
        status: WorkflowStatus::Planning,
        summary: None,
        max_parallel: None,
        base: None,
        config: json!({}),
        reason: None,
        worktree_id: worktree.id.clone(),
        reach: Reach::Repository,
        created_at: now,
        updated_at: now,
        started_at: None,
        finished_at: None,
    };
    let agent = Agent {
        id: AgentId::generate(&mut Numbers(1)),
        name: "ada".to_owned(),
        runtime: None,
        role: Role::Worker,
        status: AgentStatus::Online,
        capabilities: Vec::new(),
        workspace_id: None,
        metadata: json!({}),
        process: None,
        timeout_ms: 1_000,
        max_claims: None,
        worktree_id: worktree.id.clone(),
        registered_at: now,
        last_heartbeat: now,
        silent_at: None,
        retired_at: None,
    };
    let message = |number: u8, about: Option<u8>| Message {
        id: MessageId::generate(&mut Numbers(number)),
        number: u64::from(100 - number),
        sender: agent.id.clone(),
        recipient: agent.id.clone(),
        thread: MessageId::generate(&mut Numbers(number)),
        reply_to: None,
        kind: MessageKind::Query,
        priority: Urgency::Normal,
        subject: String::new(),
        body: String::new(),
        workflow_id: about.map(|number| workflow(number).id),
        task_id: None,
        expires_at: None,
        state: MessageState::Acted,
        worktree_id: worktree.id.clone(),
        created_at: now,
        updated_at: now,
    };
    write(store, |tx| {
        tx.repository_put(&repository).unwrap();
        tx.worktree_put(&worktree).unwrap();
        tx.agent_put(&agent).unwrap();
        tx.workflow_put(&workflow(1)).unwrap();
        tx.workflow_put(&workflow(2)).unwrap();
        for (number, about) in [(1, Some(1)), (2, None), (3, Some(2)), (4, Some(1))] {
            tx.message_put(&message(number, about)).unwrap();
        }
    });
    let found = read(store, |tx| tx.message_list_about(&workflow(1).id).unwrap());
    assert_eq!(found, [message(4, Some(1)), message(1, Some(1))]);
}

pub(crate) fn rows_of_several_workflows_equal_the_rows_of_each(store: &mut dyn Store) {
    let dice = &mut Dice::new(7);
    let mut world = World::small(dice);
    let second = world.workflow(dice);
    world.workflows.push(second.clone());
    for number in 0..3 {
        let task = Task { name: format!("{number}"), workflow_id: second.id.clone(), ..world.task(dice) };
        world.tasks.push(task);
    }
    write(store, |tx| {
        world.put(tx);
        let (task_id, depends_on) = (world.tasks[3].id.clone(), world.tasks[2].id.clone());
        tx.dependency_put(&Dependency { task_id, depends_on, kind: DependencyKind::Blocks }).unwrap();
        tx.workflow_repository_put(&second.id, &world.repositories[0].id).unwrap();
        for task in &world.tasks[1..4] {
            tx.lease_put(&Lease { subject: task.id.to_string(), ..world.lease(dice) }).unwrap();
        }
    });
    let mut ids: Vec<_> = world.workflows.iter().map(|workflow| workflow.id.clone()).collect();
    ids.sort();
    read(store, |tx| {
        let (mut tasks, mut counts, mut dependencies, mut repositories, mut leases) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for id in &ids {
            tasks.extend(tx.task_list(id).unwrap());
            counts.extend(tx.task_count(id).unwrap().into_iter().map(|(status, count)| (id.clone(), status, count)));
            dependencies.extend(tx.dependency_list(id).unwrap());
            repositories.extend(tx.workflow_repository_list(id).unwrap().into_iter().map(|other| (id.clone(), other)));
        }
        for task in &tasks {
            leases.extend(tx.lease_get(task.id.as_str()).unwrap());
        }
        leases.sort_by(|a, b| a.subject.cmp(&b.subject));
        dependencies.sort_by(|a, b| (&a.task_id, &a.depends_on).cmp(&(&b.task_id, &b.depends_on)));
        assert!(!tasks.is_empty() && !dependencies.is_empty() && !leases.is_empty() && !repositories.is_empty());
        assert_eq!(tx.task_list_in_workflows(&ids).unwrap(), tasks);
        assert_eq!(tx.task_count_in_workflows(&ids).unwrap(), counts);
        assert_eq!(tx.dependency_list_in_workflows(&ids).unwrap(), dependencies);
        assert_eq!(tx.workflow_repository_list_in(&ids).unwrap(), repositories);
        assert_eq!(tx.lease_list_in_workflows(&ids).unwrap(), leases);
        // Lists of one id and of none work, too.
        assert_eq!(tx.task_list_in_workflows(&ids[..1]).unwrap(), tx.task_list(&ids[0]).unwrap());
        assert_eq!(tx.task_list_in_workflows(&[]).unwrap(), []);
        assert_eq!(tx.lease_list_in_workflows(&[]).unwrap(), []);
    });
}

pub(crate) fn rows_of_several_ids_equal_the_row_of_each(store: &mut dyn Store) {
    let dice = &mut Dice::new(8);
    let mut world = World::small(dice);
    for number in 0..4 {
        let task = Task { name: format!("{number}"), workflow_id: world.workflows[0].id.clone(), ..world.task(dice) };
        world.tasks.push(task);
    }
    let second = world.workflow(dice);
    world.workflows.push(second);
    let mut tasks: Vec<_> = world.tasks.iter().map(|task| task.id.clone()).collect();
    tasks.sort();
    write(store, |tx| {
        world.put(tx);
        for pair in tasks.windows(2) {
            let (task_id, depends_on) = (pair[1].clone(), pair[0].clone());
            tx.dependency_put(&Dependency { task_id, depends_on, kind: DependencyKind::Blocks }).unwrap();
        }
        for task in &tasks {
            tx.lease_put(&Lease { subject: task.to_string(), ..world.lease(dice) }).unwrap();
        }
    });
    // All but the last, one of them twice, and a missing one.
    let mut expected = tasks[..tasks.len() - 1].to_vec();
    let missing = world.task(dice).id;
    let requested = [&expected[..], &expected[..1], std::slice::from_ref(&missing)].concat();
    expected.sort();
    read(store, |tx| {
        let each: Vec<_> = expected.iter().filter_map(|id| tx.task_get(id).unwrap()).collect();
        assert_eq!(tx.task_list_by_id(&requested).unwrap(), each);
        let each: Vec<_> = expected.iter().flat_map(|id| tx.dependency_list_of(id).unwrap()).collect();
        assert_eq!(tx.dependency_list_by_task(&requested).unwrap(), each);
        let each: Vec<_> = expected.iter().filter_map(|id| tx.lease_get(id.as_str()).unwrap()).collect();
        assert_eq!(tx.lease_list_by_task(&requested).unwrap(), each);
        let mut workflows: Vec<_> = world.workflows.iter().map(|workflow| workflow.id.clone()).collect();
        workflows.sort();
        let each: Vec<_> = workflows.iter().filter_map(|id| tx.workflow_get(id).unwrap()).collect();
        assert_eq!(tx.workflow_list_by_id(&workflows).unwrap(), each);
        assert_eq!(tx.workflow_list_by_id(&workflows[..1]).unwrap(), each[..1]);
        assert_eq!(tx.task_list_by_id(&[]).unwrap(), []);
        assert_eq!(tx.lease_list_by_task(&[]).unwrap(), []);
    });
}
