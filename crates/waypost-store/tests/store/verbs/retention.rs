//! Facts about the removal of old records.

use std::collections::BTreeSet;

use waypost_core::id::{JobId, MessageId, WorkflowId};
use waypost_core::model::{
    Checkpoint, Dependency, DependencyKind, EventQuery, Job, Lease, Message, MessageState, NewEvent, Notice, Summary,
    Task, Workflow, WorkflowStatus, Workspace,
};
use waypost_core::store::{Store, Tx};
use waypost_core::time::Timestamp;

use super::{all, event};
use crate::rows::{Dice, World};
use crate::{read, write};

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
