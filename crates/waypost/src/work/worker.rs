//! A worker: claims tasks as they become ready, and runs each as a job.
//!
//! Every job has its own supervisor, so jobs continue when the worker ends or crashes. A restarted worker counts the jobs
//! that are still running.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use waypost_core::id::{JobId, RepositoryId, WorktreeId};
use waypost_core::model::{EventQuery, JobStatus, TaskStatus};
use waypost_core::op::{JobView, ListEvents, ListJobs, ListRepositories, ListTasks, RecordMachine, RegisterAgent};
use waypost_core::{Error, Kind, Result};
use waypost_workspace::jobs as processes;

use crate::app::session::Session;
use crate::machine::signals::ShutdownSignal;
use crate::work::jobs::{self, Request, Settings};
use crate::work::workspaces;

/// Longest time between two checks for work and ended jobs.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// First pause after a job that could not be set up. It doubles with every further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause after jobs that could not be set up.
const MAX_PAUSE: Duration = Duration::from_mins(1);
/// Number of jobs in a row that could not be set up, after which a worker that works until nothing is left gives up.
const MAX_SETUP_FAILURES: u32 = 3;

/// Jobs in a row whose command never started. Their tasks are free again at once, and lost no attempt.
#[derive(Default)]
struct SetupFailures {
    number: u32,
    until: Option<Instant>,
    last: Option<String>,
}

impl SetupFailures {
    /// Counts an ended job.
    fn count(&mut self, job: &JobView) {
        if job.job.status == JobStatus::Failed && job.job.started_at.is_none() {
            let pause = FIRST_PAUSE.saturating_mul(1 << self.number.min(10)).min(MAX_PAUSE);
            self.number += 1;
            self.until = Some(Instant::now() + pause);
            self.last.clone_from(&job.job.error);
        } else if job.job.started_at.is_some() {
            *self = SetupFailures::default();
        }
    }

    fn is_paused(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() < until)
    }
}

/// The options of a worker.
pub struct Worker {
    /// Maximum number of jobs at once.
    pub concurrency: usize,
    /// The command of every job.
    pub command: Vec<String>,
    /// The kind of work.
    pub kind: String,
    /// Only tasks of this workflow.
    pub workflow: Option<String>,
    /// Only tasks planned in this worktree.
    pub worktree_id: Option<WorktreeId>,
    /// Only tasks of this repository; `all` for all [default: in a shared store, the worker's].
    pub repository: Option<String>,
    /// Its capabilities.
    pub capabilities: Vec<String>,
    /// The settings of its jobs.
    pub settings: Settings,
    /// Whether it ends when there is nothing left to do.
    pub until_empty: bool,
    /// Whether the end of standard input is a shutdown signal. A program that starts workers keeps the other end of a pipe
    /// open: however it ends, its workers end too.
    pub stop_with_input: bool,
    /// Maximum time to wait for running jobs after a shutdown signal.
    pub drain_timeout: Duration,
}

/// An event that a worker reports.
pub enum WorkerEvent<'a> {
    /// A job was started.
    Started(&'a JobView),
    /// A job ended.
    Ended(&'a JobView),
    /// The worker got a shutdown signal and waits for this many jobs.
    Draining(usize),
}

/// The number of jobs by result.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Tally {
    /// Started jobs.
    pub started: usize,
    /// Completed jobs.
    pub completed: usize,
    /// Failed jobs.
    pub failed: usize,
    /// Interrupted or cancelled jobs.
    pub interrupted: usize,
    /// Tasks, and jobs without a task, whose last job failed. A failed attempt counts until a later one completes.
    #[serde(skip)]
    pub unfinished: BTreeSet<String>,
}

/// Returns the id of the work of a job: its task, or the job itself.
fn work_of(view: &JobView) -> String {
    view.job.task_id.as_ref().map_or_else(|| view.job.id.to_string(), ToString::to_string)
}

impl Worker {
    /// Works until a shutdown signal, or until there is nothing left to do.
    pub fn run(&self, session: &mut Session, report: &mut dyn FnMut(WorkerEvent<'_>) -> Result<()>) -> Result<Tally> {
        let shutdown =
            if self.stop_with_input { ShutdownSignal::listen_with_input()? } else { ShutdownSignal::listen()? };
        let machine = workspaces::machine(session)?;
        self.check_base(session)?;
        session.write(RegisterAgent {
            capabilities: Some(self.capabilities.clone()),
            process: Some(processes::own_identity()),
            ..RegisterAgent::default()
        })?;
        let report_machine = RecordMachine { machine: machine.clone(), worker: true };
        session.write(report_machine.clone())?;
        let mut next_report = Instant::now() + jobs::MACHINE_INTERVAL;
        let repositories = self.repositories(session)?;
        let mut tally = Tally::default();
        let mut running = Self::still_running(session, &machine)?;
        let mut failures = SetupFailures::default();
        loop {
            // Read the sequence number before the checks, so that a write during them ends the wait at once.
            let last = session.read(ListEvents { query: EventQuery { limit: 1, ..EventQuery::default() } })?.last;
            for ended in Self::collect_ended_jobs(session, &mut running, &mut tally, report)? {
                self.check_program(&ended)?;
                failures.count(&ended);
            }
            if Instant::now() >= next_report {
                next_report = Instant::now() + jobs::MACHINE_INTERVAL;
                session.write(report_machine.clone())?;
            }
            if shutdown.count() > 0 {
                return self.drain(session, running, tally, &shutdown, report);
            }
            if self.until_empty && running.is_empty() && failures.number >= MAX_SETUP_FAILURES {
                let why = failures.last.unwrap_or_default();
                return Err(Error::unavailable("no job can be set up, so no task can be worked on").because(why));
            }
            while running.len() < self.concurrency
                && !failures.is_paused()
                && let Some(job) = self.start_next(session, &machine, &repositories)?
            {
                tally.started += 1;
                running.push(job.job.id.clone());
                report(WorkerEvent::Started(&job))?;
            }
            let is_empty = running.is_empty() && !failures.is_paused();
            if is_empty && self.until_empty && !self.is_anything_due(session)? {
                return Ok(tally);
            }
            if shutdown.count() == 0 {
                session.wait(last, POLL_INTERVAL)?;
            }
        }
    }

    /// Refuses a base that does not exist in this repository, before any task is claimed. Bases of other repositories are
    /// checked with each job.
    fn check_base(&self, session: &mut Session) -> Result<()> {
        if self.settings.base.is_none() || self.repository.is_some() || session.place.checkout.is_none() {
            return Ok(());
        }
        jobs::check_settings(session, &self.settings, None, true)
    }

    /// Fails if the program of this worker cannot be started: no further job could start it.
    fn check_program(&self, ended: &JobView) -> Result<()> {
        let job = &ended.job;
        let is_missing = matches!(job.exit_code, Some(jobs::NO_PROGRAM | jobs::NOT_EXECUTABLE));
        if job.started_at.is_some() || !is_missing || job.command != self.command {
            return Ok(());
        }
        let why = job.error.clone().unwrap_or_else(|| "its program cannot be started".to_owned());
        Err(Error::not_found(format!("job {} did not start", job.id)).because(why))
    }

    /// Returns the running jobs that an earlier worker of the same name started on this machine.
    fn still_running(session: &mut Session, machine: &str) -> Result<Vec<JobId>> {
        let name = session.place.agent().unwrap_or_else(|| session.place.actor());
        let live = session.call(ListJobs::live())?.jobs;
        let is_ours = |view: &JobView| {
            view.agent.as_ref() == Some(&name)
                && view.job.machine.as_deref() == Some(machine)
                && view.job.supervisor.is_some()
        };
        Ok(live.into_iter().filter(is_ours).map(|view| view.job.id).collect())
    }

    /// Returns the repositories whose queued jobs it runs; none for all.
    fn repositories(&self, session: &mut Session) -> Result<Vec<RepositoryId>> {
        if self.repository.is_some() || self.worktree_id.is_some() || !session.caller().is_limited_to_repository() {
            return Ok(Vec::new());
        }
        let known = session.read(ListRepositories::all())?.repositories.into_iter().map(|seen| seen.repository);
        Ok(known.filter(|other| session.caller().is_of(other)).map(|other| other.id).collect())
    }

    /// Starts a job that waits for this machine, else a job for the most urgent task.
    fn start_next(
        &self,
        session: &mut Session,
        machine: &str,
        repositories: &[RepositoryId],
    ) -> Result<Option<JobView>> {
        let waiting = ListJobs {
            status: Some(JobStatus::Pending),
            live: true,
            worktree_id: self.worktree_id.clone(),
            repository: self.repository.clone(),
            limit: Some(u32::MAX),
            ..ListJobs::default()
        };
        let mut waiting = session.call(waiting)?.jobs;
        waiting.retain(|view| repositories.is_empty() || repositories.contains(&view.job.repository_id));
        waiting.reverse();
        for view in waiting {
            let is_for_us = view.job.supervisor.is_none()
                && view.job.machine.as_deref().is_none_or(|required| required == machine)
                && jobs::settings(&view.job)?.launcher.is_none();
            if is_for_us {
                jobs::launch(session, &view)?;
                // If several workers launch it, one supervisor gets it and the others end.
                return Ok(Some(view));
            }
        }
        let mut settings = self.settings.clone();
        settings.launcher = Some(processes::own_identity());
        let request = Request {
            kind: self.kind.clone(),
            command: self.command.clone(),
            workflow: self.workflow.clone(),
            next: true,
            next_worktree: self.worktree_id.clone(),
            next_repository: self.repository.clone(),
            machine: Some(machine.to_owned()),
            new_machine: true,
            settings,
            ..Request::default()
        };
        match jobs::create(session, request) {
            Ok(job) => {
                // The worker prints no answer that could include them.
                for warning in session.warnings().take() {
                    log::warn!("job {}: {warning}", job.job.id);
                }
                jobs::launch(session, &job)?;
                Ok(Some(job))
            }
            Err(error) if error.kind() == Kind::NothingToDo => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Counts and reports the jobs that have ended, and returns them.
    fn collect_ended_jobs(
        session: &mut Session,
        running: &mut Vec<JobId>,
        tally: &mut Tally,
        report: &mut dyn FnMut(WorkerEvent<'_>) -> Result<()>,
    ) -> Result<Vec<JobView>> {
        let (mut left, mut ended) = (Vec::new(), Vec::new());
        for id in running.drain(..) {
            let job = jobs::show(session, id.as_str())?;
            match job.job.status {
                JobStatus::Pending | JobStatus::Running => {
                    left.push(id);
                    continue;
                }
                JobStatus::Completed => {
                    tally.completed += 1;
                    tally.unfinished.remove(&work_of(&job));
                }
                JobStatus::Failed => {
                    tally.failed += 1;
                    tally.unfinished.insert(work_of(&job));
                }
                JobStatus::Cancelled | JobStatus::Interrupted => tally.interrupted += 1,
            }
            report(WorkerEvent::Ended(&job))?;
            ended.push(job);
        }
        *running = left;
        Ok(ended)
    }

    /// Returns whether a task that this worker takes may become ready later: a failed one that is retried, or one that
    /// depends on others.
    fn is_anything_due(&self, session: &mut Session) -> Result<bool> {
        let unfinished = ListTasks {
            workflow: self.workflow.clone(),
            statuses: vec![TaskStatus::InProgress, TaskStatus::Failed],
            claimable: false,
            worktree_id: self.worktree_id.clone(),
            repository: self.repository.clone(),
            here: self.workflow.is_none(),
            limit: 1,
            after: None,
        };
        Ok(!session.read(unfinished)?.tasks.is_empty())
    }

    /// Waits for running jobs, and stops those that take too long. A stopped job does not cost its task an attempt.
    fn drain(
        &self,
        session: &mut Session,
        mut running: Vec<JobId>,
        mut tally: Tally,
        shutdown: &ShutdownSignal,
        report: &mut dyn FnMut(WorkerEvent<'_>) -> Result<()>,
    ) -> Result<Tally> {
        report(WorkerEvent::Draining(running.len()))?;
        let until = Instant::now() + self.drain_timeout;
        let mut stopped: Vec<JobId> = Vec::new();
        while !running.is_empty() {
            if Instant::now() >= until || shutdown.count() > 1 {
                for id in running.iter().filter(|id| !stopped.contains(id)).cloned().collect::<Vec<_>>() {
                    // A job that has just been started gets its supervisor a moment later.
                    if let Some(supervisor) = jobs::show(session, id.as_str())?.job.supervisor {
                        processes::terminate(&supervisor);
                        stopped.push(id);
                    }
                }
            }
            shutdown.wait(POLL_INTERVAL);
            Self::collect_ended_jobs(session, &mut running, &mut tally, report)?;
        }
        Ok(tally)
    }
}
