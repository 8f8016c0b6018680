//! A worker: claims tasks as they become ready, and runs each as a job.
//!
//! Every job has its own supervisor, so jobs continue when the worker ends or crashes. A restarted worker counts the jobs
//! that are still running.

use std::time::{Duration, Instant};

use waypost_core::id::{JobId, RepositoryId};
use waypost_core::model::{EventQuery, JobStatus, TaskStatus};
use waypost_core::op::{JobView, ListEvents, ListJobs, ListTasks, RegisterAgent};
use waypost_core::{Kind, Result};
use waypost_workspace::jobs as processes;

use crate::jobs::{self, Request, Settings};
use crate::session::Session;
use crate::signals::ShutdownSignal;
use crate::workspaces;

/// Longest time between two checks for work and ended jobs.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

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
    /// Only tasks of these repositories.
    pub repositories: Vec<RepositoryId>,
    /// Its capabilities.
    pub capabilities: Vec<String>,
    /// The settings of its jobs.
    pub settings: Settings,
    /// Whether it ends when there is nothing left to do.
    pub until_empty: bool,
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
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Tally {
    /// Started jobs.
    pub started: usize,
    /// Completed jobs.
    pub completed: usize,
    /// Failed jobs.
    pub failed: usize,
    /// Interrupted or cancelled jobs.
    pub interrupted: usize,
}

impl Worker {
    /// Works until a shutdown signal, or until there is nothing left to do.
    pub fn run(&self, session: &mut Session, report: &mut dyn FnMut(WorkerEvent<'_>) -> Result<()>) -> Result<Tally> {
        let shutdown = ShutdownSignal::listen()?;
        let machine = workspaces::machine(session)?;
        session.write(RegisterAgent {
            name: None,
            runtime: None,
            role: None,
            capabilities: Some(self.capabilities.clone()),
            metadata: serde_json::Value::Null,
            process: Some(processes::own_identity()),
            timeout_ms: None,
            max_claims: None,
        })?;
        let mut tally = Tally::default();
        let mut running = Self::still_running(session, &machine)?;
        loop {
            // Read the sequence number before the checks, so that a write during them ends the wait at once.
            let last = session.read(ListEvents { query: EventQuery { limit: 1, ..EventQuery::default() } })?.last;
            Self::collect_ended_jobs(session, &mut running, &mut tally, report)?;
            if shutdown.count() > 0 {
                return self.drain(session, running, tally, &shutdown, report);
            }
            while running.len() < self.concurrency
                && let Some(job) = self.start_next(session, &machine)?
            {
                tally.started += 1;
                running.push(job.job.id.clone());
                report(WorkerEvent::Started(&job))?;
            }
            if running.is_empty() && self.until_empty && !Self::is_anything_due(session)? {
                return Ok(tally);
            }
            if shutdown.count() == 0 {
                session.wait(last, POLL_INTERVAL)?;
            }
        }
    }

    /// Returns the running jobs that an earlier worker of the same name started on this machine.
    fn still_running(session: &mut Session, machine: &str) -> Result<Vec<JobId>> {
        let name = session.place.agent().unwrap_or_else(|| session.place.actor());
        let live = session.call(ListJobs { status: None, live: true, task: None, limit: Some(u32::MAX) })?.jobs;
        let is_ours = |view: &JobView| {
            view.agent.as_ref() == Some(&name)
                && view.job.machine.as_deref() == Some(machine)
                && view.job.supervisor.is_some()
        };
        Ok(live.into_iter().filter(is_ours).map(|view| view.job.id).collect())
    }

    /// Starts a job that waits for this machine, else a job for the most urgent task.
    fn start_next(&self, session: &mut Session, machine: &str) -> Result<Option<JobView>> {
        let waiting = ListJobs { status: Some(JobStatus::Pending), live: true, task: None, limit: Some(u32::MAX) };
        let mut waiting = session.call(waiting)?.jobs;
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
            description: String::new(),
            input: serde_json::Value::Null,
            command: self.command.clone(),
            repository: None,
            task: None,
            workflow: self.workflow.clone(),
            epoch: None,
            next: true,
            repositories: self.repositories.clone(),
            machine: Some(machine.to_owned()),
            settings,
            retry_of: None,
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

    /// Counts and reports the jobs that have ended.
    fn collect_ended_jobs(
        session: &mut Session,
        running: &mut Vec<JobId>,
        tally: &mut Tally,
        report: &mut dyn FnMut(WorkerEvent<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut left = Vec::new();
        for id in running.drain(..) {
            let job = jobs::show(session, id.as_str())?;
            match job.job.status {
                JobStatus::Pending | JobStatus::Running => {
                    left.push(id);
                    continue;
                }
                JobStatus::Completed => tally.completed += 1,
                JobStatus::Failed => tally.failed += 1,
                JobStatus::Cancelled | JobStatus::Interrupted => tally.interrupted += 1,
            }
            report(WorkerEvent::Ended(&job))?;
        }
        *running = left;
        Ok(())
    }

    /// Returns whether a task may become ready later: a failed one that is retried, or one that depends on others.
    fn is_anything_due(session: &mut Session) -> Result<bool> {
        let statuses = vec![TaskStatus::InProgress, TaskStatus::Failed];
        let unfinished = ListTasks { workflow: None, statuses, claimable: false, worktree_id: None, limit: 1 };
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
        let mut is_stopped = false;
        while !running.is_empty() {
            if !is_stopped && (Instant::now() >= until || shutdown.count() > 1) {
                is_stopped = true;
                for id in &running {
                    if let Some(supervisor) = jobs::show(session, id.as_str())?.job.supervisor {
                        processes::terminate(&supervisor);
                    }
                }
            }
            shutdown.wait(POLL_INTERVAL);
            Self::collect_ended_jobs(session, &mut running, &mut tally, report)?;
        }
        Ok(tally)
    }
}
