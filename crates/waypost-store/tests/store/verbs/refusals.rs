//! Facts about rows that a database must refuse.

use waypost_core::Result;
use waypost_core::id::MessageId;
use waypost_core::model::{
    Agent, Checkpoint, DeferredChanges, Dependency, DependencyKind, Job, Lease, LogPiece, Message, NewEvent, Notice,
    Repository, SavedAnswer, Task, TaskStatus, Template, Workflow, Workspace, Worktree,
};
use waypost_core::store::{Store, Tx};

use super::{failure, repository};
use crate::rows::{Dice, World};
use crate::write;

/// A write of one row.
type Put = Box<dyn Fn(&mut dyn Tx) -> Result<()>>;

#[track_caller]
fn all_fail(store: &mut dyn Store, puts: Vec<(&str, Put)>) {
    for (name, put) in puts {
        let mut tx = store.begin_write().unwrap();
        assert!(failure(&mut *tx, put).is_some(), "{name} was accepted");
    }
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

pub(crate) fn texts_that_cannot_be_stored_are_refused(store: &mut dyn Store) {
    let mut tx = store.begin_write().unwrap();
    let error = tx.repository_put(&Repository { name: "a\0b".to_owned(), ..repository(1) }).unwrap_err();
    assert_eq!(error.kind(), waypost_core::Kind::Invalid);
}
