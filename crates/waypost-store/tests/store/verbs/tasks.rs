//! Facts about tasks, and of rows by their tasks and workflows.

use std::collections::BTreeSet;

use waypost_core::Result;
use waypost_core::id::{RepositoryId, TaskId, WorkflowId, WorktreeId};
use waypost_core::model::{
    Agent, CandidateQuery, Candidates, Checkpoint, Dependency, DependencyKind, Job, JobQuery, Lease, Message, Notice,
    Reach, Repository, Task, TaskPlace, TaskStatus, Workflow, WorkflowStatus, Workspace, WorkspaceQuery, Worktree,
};
use waypost_core::store::{Store, Tx};
use waypost_core::time::Timestamp;

use super::failure;
use crate::rows::{Dice, World};
use crate::{read, write};

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
