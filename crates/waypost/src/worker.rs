//! A worker: takes tasks as they become ready, and runs each as a job.
//!
//! Every job has a supervisor of its own, so a worker that is ended, in whatever way, ends nothing. Started again it counts
//! what still runs, and goes on.

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

/// How often a worker looks although nothing was written.
const TICK: Duration = Duration::from_millis(500);

/// What a worker is to do.
pub struct Worker {
    /// How many jobs run at once.
    pub concurrency: usize,
    /// The command of every job.
    pub command: Vec<String>,
    /// What kind of work it is.
    pub kind: String,
    /// Only tasks of this workflow.
    pub workflow: Option<String>,
    /// Only tasks of these repositories.
    pub repositories: Vec<RepositoryId>,
    /// What it can do.
    pub capabilities: Vec<String>,
    /// How its jobs are run.
    pub settings: Settings,
    /// Whether it ends when nothing is left to do.
    pub until_empty: bool,
    /// How long running jobs may take to end once it is told to stop.
    pub patience: Duration,
}

/// Something that a worker tells of.
pub enum News<'a> {
    /// A job was started.
    Started(&'a JobView),
    /// A job ended.
    Ended(&'a JobView),
    /// It was told to stop, and waits for so many jobs.
    Draining(usize),
}

/// How many jobs a worker ran, and how they ended.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Tally {
    /// How many it started.
    pub started: usize,
    /// How many ended well.
    pub completed: usize,
    /// How many did not.
    pub failed: usize,
    /// How many were interrupted or called off.
    pub interrupted: usize,
}

impl Worker {
    /// Works until it is told to stop, or until nothing is left to do.
    pub fn run(&self, session: &mut Session, say: &mut dyn FnMut(News<'_>) -> Result<()>) -> Result<Tally> {
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
            // Asked for before the look: whatever is written during it ends the wait at once.
            let last = session.read(ListEvents { query: EventQuery { limit: 1, ..EventQuery::default() } })?.last;
            jobs::reap_orphaned_jobs(session)?;
            Self::collect_ended_jobs(session, &mut running, &mut tally, say)?;
            if shutdown.count() > 0 {
                return self.drain(session, running, tally, &shutdown, say);
            }
            while running.len() < self.concurrency
                && let Some(job) = self.take(session, &machine)?
            {
                tally.started += 1;
                running.push(job.job.id.clone());
                say(News::Started(&job))?;
            }
            if running.is_empty() && self.until_empty && !Self::is_anything_due(session)? {
                return Ok(tally);
            }
            if shutdown.count() == 0 {
                session.wait(last, TICK)?;
            }
        }
    }

    /// Returns the jobs that a worker of the same name left on this machine.
    fn still_running(session: &mut Session, machine: &str) -> Result<Vec<JobId>> {
        jobs::reap_orphaned_jobs(session)?;
        let name = session.place.agent().unwrap_or_else(|| session.place.actor());
        let live = session.read(ListJobs { status: None, live: true, task: None, limit: Some(u32::MAX) })?.jobs;
        let is_ours = |view: &JobView| {
            view.agent.as_ref() == Some(&name)
                && view.job.machine.as_deref() == Some(machine)
                && view.job.supervisor.is_some()
        };
        Ok(live.into_iter().filter(is_ours).map(|view| view.job.id).collect())
    }

    /// Takes the next thing to do: a job that waits for this machine, else the most urgent task.
    fn take(&self, session: &mut Session, machine: &str) -> Result<Option<JobView>> {
        let waiting = ListJobs { status: Some(JobStatus::Pending), live: true, task: None, limit: Some(u32::MAX) };
        let mut waiting = session.read(waiting)?.jobs;
        waiting.reverse();
        for view in waiting {
            let is_for_us = view.job.supervisor.is_none()
                && view.job.machine.as_deref().is_none_or(|wanted| wanted == machine)
                && jobs::settings(&view.job)?.launcher.is_none();
            if is_for_us {
                jobs::launch(session, &view)?;
                // Of several workers that took it one gets it; the others see that it runs.
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
                jobs::launch(session, &job)?;
                Ok(Some(job))
            }
            Err(error) if error.kind() == Kind::NothingToDo => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Counts the jobs that have ended.
    fn collect_ended_jobs(
        session: &mut Session,
        running: &mut Vec<JobId>,
        tally: &mut Tally,
        say: &mut dyn FnMut(News<'_>) -> Result<()>,
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
            say(News::Ended(&job))?;
        }
        *running = left;
        Ok(())
    }

    /// Tells whether something becomes ready by itself: an attempt that pauses, or what others work on.
    fn is_anything_due(session: &mut Session) -> Result<bool> {
        let statuses = vec![TaskStatus::InProgress, TaskStatus::Failed];
        let moving = ListTasks { workflow: None, statuses, claimable: false, worktree_id: None, limit: 1 };
        Ok(!session.read(moving)?.tasks.is_empty())
    }

    /// Lets running jobs end; those that take too long are stopped, which costs their tasks no attempt.
    fn drain(
        &self,
        session: &mut Session,
        mut running: Vec<JobId>,
        mut tally: Tally,
        shutdown: &ShutdownSignal,
        say: &mut dyn FnMut(News<'_>) -> Result<()>,
    ) -> Result<Tally> {
        say(News::Draining(running.len()))?;
        let until = Instant::now() + self.patience;
        let mut is_stopped = false;
        while !running.is_empty() {
            if !is_stopped && (Instant::now() >= until || shutdown.count() > 1) {
                is_stopped = true;
                for id in &running {
                    if let Some(supervisor) = jobs::show(session, id.as_str())?.job.supervisor {
                        processes::ask_to_end(&supervisor);
                    }
                }
            }
            shutdown.wait(TICK);
            jobs::reap_orphaned_jobs(session)?;
            Self::collect_ended_jobs(session, &mut running, &mut tally, say)?;
        }
        Ok(tally)
    }
}
