//! The same random writes to a store and to the reference; then every query returns the same result.

use waypost_core::id::{RepositoryId, WorkflowId};
use waypost_core::model::{
    CandidateQuery, Candidates, EventQuery, JobQuery, JobStatus, PlanPart, TaskPlace, TaskStatus, WorkflowQuery,
    WorkflowStatus, WorkspaceQuery, kind,
};
use waypost_core::page::Cursor;
use waypost_core::store::{Store, Tx};
use waypost_core::time::Timestamp;

use crate::rows::{Dice, World};
use crate::{read, reference, write};

const ROUNDS: u64 = 6;
/// The number of writes of a round, and the number of queries.
const STEPS: usize = 60;

pub(crate) fn every_query_returns_the_same_as_the_reference(store: &mut dyn Store) {
    let mut model = reference();
    let mut world = World::small(&mut Dice::new(7));
    for store in [&mut *store, &mut model] {
        write(store, |tx| world.put(tx));
    }
    for seed in 1..=ROUNDS {
        // The same seed twice, so that both stores get the same writes.
        let before = world.clone();
        for (store, world) in [(&mut *store, &mut before.clone()), (&mut model, &mut world)] {
            let mut dice = Dice::new(seed);
            write(store, |tx| (0..STEPS).for_each(|_| step(tx, world, &mut dice)));
        }
        for step in 0..STEPS {
            let number = seed * 1_000 + u64::try_from(step).unwrap();
            let found = read(store, |tx| query(tx, &world, &mut Dice::new(number)));
            let expected = read(&mut model, |tx| query(tx, &world, &mut Dice::new(number)));
            assert_eq!(found, expected, "seed {seed}, query {step}");
        }
    }
}

/// Puts, replaces or removes one row.
fn step(tx: &mut dyn Tx, world: &mut World, dice: &mut Dice) {
    match dice.roll(24) {
        0 => {
            world.repositories.push(World::repository(dice));
            tx.repository_put(world.repositories.last().unwrap()).unwrap();
        }
        1 => {
            world.worktrees.push(world.worktree(dice));
            tx.worktree_put(world.worktrees.last().unwrap()).unwrap();
        }
        2 => tx.worktree_touch(&dice.pick(&world.worktrees).id, dice.moment()).unwrap(),
        3 | 4 => {
            tx.event_append(&world.event(dice)).unwrap();
        }
        5 => {
            world.agents.push(world.agent(dice));
            tx.agent_put(world.agents.last().unwrap()).unwrap();
        }
        6 => {
            let at = dice.roll(world.agents.len());
            let (id, name) = (world.agents[at].id.clone(), world.agents[at].name.clone());
            world.agents[at] = waypost_core::model::Agent { id, name, ..world.agent(dice) };
            tx.agent_put(&world.agents[at]).unwrap();
        }
        7 => {
            world.workflows.push(world.workflow(dice));
            tx.workflow_put(world.workflows.last().unwrap()).unwrap();
        }
        8 => {
            let (workflow, repository) = (dice.pick(&world.workflows).id, dice.pick(&world.repositories).id);
            match dice.roll(3) {
                0 => tx.workflow_repository_remove(&workflow, &repository).unwrap(),
                _ => tx.workflow_repository_put(&workflow, &repository).unwrap(),
            }
        }
        9 | 10 => {
            world.tasks.push(world.task(dice));
            tx.task_put(world.tasks.last().unwrap()).unwrap();
        }
        11 => {
            let at = dice.roll(world.tasks.len());
            let (id, name) = (world.tasks[at].id.clone(), world.tasks[at].name.clone());
            let workflow_id = world.tasks[at].workflow_id.clone();
            world.tasks[at] = waypost_core::model::Task { id, name, workflow_id, ..world.task(dice) };
            tx.task_put(&world.tasks[at]).unwrap();
        }
        12 => {
            if let Some(dependency) = world.dependency(dice) {
                tx.dependency_put(&dependency).unwrap();
            }
        }
        13 => tx.dependency_remove(&dice.pick(&world.tasks).id, &dice.pick(&world.tasks).id).unwrap(),
        14 => {
            world.checkpoints.push(world.checkpoint(dice));
            tx.checkpoint_put(world.checkpoints.last().unwrap()).unwrap();
        }
        15 => {
            world.leases.push(world.lease(dice));
            tx.lease_put(world.leases.last().unwrap()).unwrap();
        }
        16 => {
            world.messages.push(world.message(dice));
            tx.message_put(world.messages.last().unwrap()).unwrap();
        }
        17 => {
            world.templates.push(world.template(dice));
            tx.template_put(world.templates.last().unwrap()).unwrap();
        }
        18 => {
            world.answers.push(world.answer(dice));
            tx.answer_put(world.answers.last().unwrap()).unwrap();
        }
        19 => {
            world.jobs.push(world.job(dice));
            tx.job_put(world.jobs.last().unwrap()).unwrap();
        }
        20 => {
            world.workspaces.push(world.workspace(dice));
            tx.workspace_put(world.workspaces.last().unwrap()).unwrap();
        }
        21 if !world.jobs.is_empty() => match dice.roll(4) {
            0 => tx.log_trim(&dice.pick(&world.jobs).id, u64::from(dice.small())).unwrap(),
            1 => tx.machine_put(&world.machine(dice)).unwrap(),
            _ => tx.log_put(&world.log_piece(dice)).unwrap(),
        },
        22 => tx.summary_put(&world.summary(dice)).unwrap(),
        _ if dice.roll(3) == 0 => tx.notice_remove(&dice.text()).unwrap(),
        _ if dice.roll(3) == 0 => tx.deferred_remove(&dice.text()).unwrap(),
        _ if dice.roll(2) == 0 => tx.deferred_put(&world.deferred(dice)).unwrap(),
        _ => tx.notice_put(&world.notice(dice)).unwrap(),
    }
}

fn some_candidates(world: &World, dice: &mut Dice, workflow: &WorkflowId, limit: u32) -> CandidateQuery {
    CandidateQuery {
        of: match dice.roll(4) {
            0 => Candidates::All,
            1 => Candidates::OfWorkflow(workflow.clone()),
            2 => Candidates::OfWorktree(dice.pick(&world.worktrees).id),
            _ => Candidates::SharedWith(dice.pick(&world.worktrees).id),
        },
        repositories: some_repositories(world, dice),
        skip: dice.pick(&[0, 0, 1, 5]),
        limit,
    }
}

fn some_place(world: &World, dice: &mut Dice) -> TaskPlace {
    TaskPlace {
        worktree_id: dice.maybe(|dice| dice.pick(&world.worktrees).id),
        repositories: some_repositories(world, dice),
    }
}

fn some_part(world: &World, dice: &mut Dice, limit: u32) -> PlanPart {
    let task = dice.pick(&world.tasks);
    PlanPart {
        workflow_id: task.workflow_id.clone(),
        statuses: dice.pick(&[vec![], vec![TaskStatus::Pending], vec![TaskStatus::Pending, TaskStatus::Failed]]),
        after: dice.maybe(|_| (task.sequence, task.id.clone())),
        limit,
    }
}

/// Runs a random query and returns the result as text.
fn query(tx: &mut dyn Tx, world: &World, dice: &mut Dice) -> String {
    let limit = dice.pick(&[0, 1, 3, 1_000, u32::MAX]);
    let moment = dice.moment();
    let (task, workflow) = (dice.pick(&world.tasks), dice.pick(&world.workflows));
    let agent = dice.pick(&world.agents).id;
    match dice.roll(29) {
        0 => format!("{:?}", tx.repository_get(&dice.pick(&world.repositories).id).unwrap()),
        1 => format!("{:?}", tx.repository_list().unwrap()),
        2 => format!("{:?}", tx.worktree_get(&dice.pick(&world.worktrees).id).unwrap()),
        3 => format!("{:?}", tx.worktree_list().unwrap()),
        4 | 5 => {
            let query = EventQuery {
                since: dice.maybe(|dice| u64::try_from(dice.roll(20)).unwrap()),
                worktree_id: dice.maybe(|dice| dice.pick(&world.worktrees).id),
                kind: dice.maybe(|dice| {
                    let kind = dice.pick(kind::ALL);
                    kind[..dice.roll(kind.len())].to_owned()
                }),
                subject: dice.maybe(Dice::text),
                after: dice.maybe(|dice| Cursor(u64::try_from(dice.roll(20)).unwrap())),
                limit,
            };
            format!("{:?} {}", tx.event_list(&query).unwrap(), tx.event_last().unwrap())
        }
        6 => format!("{:?}", tx.workflow_get(&workflow.id).unwrap()),
        7 => {
            let query = WorkflowQuery {
                statuses: (0..dice.roll(4)).map(|_| dice.pick(WorkflowStatus::ALL)).collect(),
                worktree_id: dice.maybe(|dice| dice.pick(&world.worktrees).id),
                repository_id: dice.maybe(|dice| dice.pick(&world.repositories).id),
                name: dice.maybe(|_| workflow.name.clone()).filter(|name| !name.is_empty()),
                after: dice.maybe(|dice| {
                    let last = dice.pick(&world.workflows);
                    Cursor((last.created_at, last.id))
                }),
                limit,
            };
            format!("{:?}", tx.workflow_list(&query).unwrap())
        }
        8 => format!("{:?}", tx.workflow_repository_list(&workflow.id).unwrap()),
        9 => format!("{:?}", tx.task_get(&task.id).unwrap()),
        10 => {
            let part = some_part(world, dice, limit);
            let (listed, counted) = (tx.task_list_part(&part).unwrap(), tx.task_count_part(&part).unwrap());
            let names = tx.task_list_names(&workflow.id, 3).unwrap();
            format!("{:?} {names:?} {listed:?} {counted}", tx.task_list(&workflow.id).unwrap())
        }
        11 => format!("{:?}", tx.task_list_named(&task.name, limit).unwrap()),
        12 => {
            let place = some_place(world, dice);
            format!("{:?}", tx.task_list_in(dice.pick(TaskStatus::ALL), &place, limit).unwrap())
        }
        13 | 14 => {
            let query = some_candidates(world, dice, &workflow.id, limit);
            format!("{:?}", tx.task_list_claimable(&query).unwrap())
        }
        15 => format!("{:?} {}", tx.task_list_due(moment, limit).unwrap(), tx.due_count(moment).unwrap()),
        16 => format!("{:?} {:?}", tx.task_count(&workflow.id).unwrap(), tx.task_list_statuses(&workflow.id).unwrap()),
        17 => format!("{:?} {:?}", tx.dependency_list(&workflow.id).unwrap(), tx.dependency_list_of(&task.id).unwrap()),
        18 => {
            let before = dice.maybe(|dice| dice.pick(&[0, 1, 5, u32::MAX]));
            let list = tx.checkpoint_list(&task.id, before, limit).unwrap();
            format!("{list:?} {}", tx.checkpoint_last(&task.id).unwrap())
        }
        19 => {
            let name = dice.pick(&world.agents).name;
            format!("{:?} {:?}", tx.agent_get(&agent).unwrap(), tx.agent_named(&name).unwrap())
        }
        20 => format!("{:?} {:?}", tx.agent_list().unwrap(), tx.agent_list_silent(moment, limit).unwrap()),
        21 => format!(
            "{:?} {:?} {:?}",
            tx.lease_get(task.id.as_str()).unwrap(),
            tx.lease_list(dice.maybe(|_| &agent)).unwrap(),
            tx.lease_list_due(moment, limit).unwrap()
        ),
        22 => {
            let message = world.messages.first();
            format!(
                "{:?} {} {:?} {:?} {:?}",
                message.map(|message| tx.message_get(&message.id).unwrap()),
                tx.message_last().unwrap(),
                tx.message_list(&agent, moment, dice.pick(&[0, 0, 1, 5]), limit).unwrap(),
                tx.message_count(&agent, moment).unwrap(),
                message.map(|message| tx.message_list_thread(&message.thread).unwrap()),
            )
        }
        23..=25 => query_jobs(tx, world, dice, limit),
        26 | 27 => query_removable(tx, world, moment, limit),
        _ => {
            let name = world.templates.first().map(|template| template.name.clone()).filter(|name| !name.is_empty());
            let answer = world.answers.last();
            format!(
                "{:?} {:?} {:?} {:?}",
                tx.template_list(dice.maybe(|_| name.as_deref()).flatten()).unwrap(),
                answer.map(|answer| tx.answer_get(&answer.key).unwrap()),
                tx.notice_list().unwrap(),
                tx.deferred_list().unwrap(),
            )
        }
    }
}

/// Returns up to two repositories.
fn some_repositories(world: &World, dice: &mut Dice) -> Vec<RepositoryId> {
    (0..dice.roll(3)).map(|_| dice.pick(&world.repositories).id).collect()
}

/// Queries records that may be removed, and summaries.
fn query_removable(tx: &mut dyn Tx, world: &World, before: Timestamp, limit: u32) -> String {
    let workflows: Vec<_> = world.workflows.iter().map(|workflow| workflow.id.clone()).collect();
    let jobs: Vec<_> = world.jobs.iter().map(|job| job.id.clone()).collect();
    let without: Vec<_> = workflows.iter().map(ToString::to_string).collect();
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        tx.message_list_handled(before, limit).unwrap(),
        tx.workflow_list_removable(before, limit).unwrap(),
        tx.job_list_in_workflows(&workflows).unwrap(),
        tx.job_list_removable(before, limit).unwrap(),
        tx.workspace_list_by_job(&jobs).unwrap(),
        tx.workspace_list_removable(before, limit).unwrap(),
        tx.event_list_removable(before, limit).unwrap(),
        tx.event_count_removable(before, &without).unwrap(),
        tx.summary_list(limit).unwrap(),
    )
}

/// Queries jobs and workspaces.
fn query_jobs(tx: &mut dyn Tx, world: &World, dice: &mut Dice, limit: u32) -> String {
    let query = JobQuery {
        task_id: dice.maybe(|dice| dice.pick(&world.tasks).id),
        status: dice.maybe(|dice| dice.pick(JobStatus::ALL)),
        is_live: dice.roll(2) == 0,
        worktree_id: dice.maybe(|dice| dice.pick(&world.worktrees).id),
        repositories: some_repositories(world, dice),
        after: dice.maybe(|_| world.jobs.first().map(|job| Cursor((job.created_at, job.id.clone())))).flatten(),
        limit,
    };
    let jobs = tx.job_list(&query).unwrap();
    let query = WorkspaceQuery {
        machine: dice.maybe(|dice| dice.pick(&["one", "other", "none"]).to_owned()),
        job_id: world.jobs.last().filter(|_| dice.roll(2) == 0).map(|job| job.id.clone()),
        worktree_id: dice.maybe(|dice| dice.pick(&world.worktrees).id),
        repositories: some_repositories(world, dice),
        all: dice.roll(2) == 0,
        after: dice.maybe(|_| world.workspaces.first().map(|one| Cursor((one.created_at, one.id.clone())))).flatten(),
        limit,
    };
    let workspaces = tx.workspace_list(&query).unwrap();
    let job = world.jobs.last().map(|job| tx.job_get(&job.id).unwrap());
    let workspace = world.workspaces.last().map(|row| tx.workspace_get(&row.id).unwrap());
    let logs = world.jobs.last().map(|job| {
        let (after, limit) = (dice.pick(&[0, 1, 8, 1 << 33]), limit.min(9));
        (tx.log_list(&job.id, after, limit).unwrap(), tx.log_last(&job.id).unwrap())
    });
    let name = dice.pick(&world.agents).name;
    let machines = (tx.machine_get(&name).unwrap(), tx.machine_list().unwrap());
    format!("{jobs:?} {workspaces:?} {job:?} {workspace:?} {logs:?} {machines:?}")
}
