//! Ends jobs whose supervisor is gone.

use std::time::Duration;

use waypost_core::Result;
use waypost_core::model::Job;
use waypost_core::op::{ListJobs, ShowJob};
use waypost_workspace::jobs as processes;

use super::shared_log::SharedLog;
use super::{finish_operation, settings};
use crate::app::session::Session;
use crate::work::workspaces;

/// Time between asking the processes of an orphaned job to end and killing them.
const ORPHAN_GRACE: Duration = Duration::from_secs(10);

/// Kills the remaining processes of jobs on this machine whose supervisor is gone, and records the jobs as interrupted.
pub(crate) fn reap_orphaned_jobs(session: &mut Session) -> Result<()> {
    let live = session.read(ListJobs::live())?.jobs;
    if live.is_empty() {
        return Ok(());
    }
    let machine = workspaces::machine(session)?;
    for job in live.into_iter().map(|view| view.job).filter(|job| job.machine.as_ref() == Some(&machine)) {
        reap_if_orphaned(session, &job)?;
    }
    Ok(())
}

/// Reaps orphaned jobs, and recovers workspaces whose creation or removal was interrupted.
pub fn recover_interrupted_work(session: &mut Session) -> Result<()> {
    reap_orphaned_jobs(session)?;
    workspaces::recover_interrupted(session)
}

/// Reaps orphaned jobs, and marks workspaces whose directory is missing, if it can.
pub(crate) fn bring_up_to_date(session: &mut Session) -> Result<()> {
    reap_orphaned_jobs(session)?;
    // Without it an answer is as good as the records, and a store for reading only cannot be brought up to date.
    if let Err(error) = workspaces::recover_interrupted(session) {
        log::debug!("cannot check the workspaces of this machine: {}", error.full_message());
    }
    Ok(())
}

/// Reaps one live job of this machine, if its supervisor is gone.
fn reap_if_orphaned(session: &mut Session, job: &Job) -> Result<()> {
    let is_supervised = match (&job.supervisor, settings(job)?.launcher) {
        (Some(supervisor), _) => processes::is_running(supervisor),
        (None, Some(launcher)) => processes::is_running(&launcher),
        // It waits for a worker.
        (None, None) => true,
    };
    if is_supervised {
        return Ok(());
    }
    // The supervisor may be gone because the job finished, or because another one took over. Read the job again.
    let now = session.read(ShowJob { job: job.id.to_string() })?.job;
    if (now.status, &now.supervisor, &now.settings) != (job.status, &job.supervisor, &job.settings) {
        return Ok(());
    }
    let kill = |supervisor| processes::kill_remaining(job.id.as_str(), supervisor, ORPHAN_GRACE);
    let ended = job.supervisor.as_ref().map_or(0, kill);
    log::debug!("job {} lost its supervisor; ended {ended} of its processes", job.id);
    // Its supervisor may not have stored the end of its output.
    if let Some(Err(error)) = SharedLog::of(session, job)?.map(|mut log| log.finish(session)) {
        log::debug!("cannot store the output of job {}: {}", job.id, error.full_message());
    }
    let mut operation = finish_operation(&job.id);
    operation.abandoned = true;
    session.write(operation)?;
    // Its workspace may be incomplete, and a git process may still be creating it.
    workspaces::recover_interrupted(session)
}
