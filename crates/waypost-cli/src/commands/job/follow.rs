//! Launches jobs, follows them and waits for their end.

use std::process::ExitCode;

use waypost_core::model::JobStatus;
use waypost_core::op::{CancelJob, JobView};
use waypost_core::{Error, Result};
use waypost_workspace::jobs as processes;

use super::logs::Log;
use crate::CommandContext;
use crate::spans::parse_duration;
use crate::work::wait_for;
use waypost::app::session::Session;
use waypost::machine::ShutdownSignal;
use waypost::work::jobs;

/// Wait until a job ends, and exit with its exit code
///
/// Prints the job on standard output once it has ended, and exits as way job start does. If nothing is printed there, the
/// exit code is that of way itself: 3 if there is no such job, 6 after --timeout.
#[derive(clap::Args)]
pub(super) struct WaitArgs {
    /// Id of the job, or a unique prefix
    job: String,
    /// Maximum time to wait, e.g. 10m; then exits with 6 [default: no limit]
    #[arg(long, value_name = "SPAN", value_parser = parse_duration)]
    timeout: Option<u64>,
}

/// Starts a job. Unless detached, streams its log, waits until it ends and exits as it did.
pub(super) fn launch(cx: &mut CommandContext, session: &mut Session, job: &JobView, detach: bool) -> Result<ExitCode> {
    let id = job.job.id.to_string();
    if detach {
        jobs::launch(session, job)?;
        let started = jobs::wait_until_started(session, &job.job.id)?;
        cx.ui.answer(&started, |text| {
            let dir = started.job.workspace_dir.as_ref().unwrap_or(&started.job.work_dir);
            text.line(format!("Started job {id} in {}", dir.display()));
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    cx.ui.note(&format!("job {id}"));
    match jobs::launch(session, job).and_then(|_| follow(cx, session, job)) {
        Ok(code) => Ok(ExitCode::from(code)),
        // The codes of errors are also codes of commands, so an error here has one of its own.
        Err(error) => {
            let hint = format!("the job may still run: way job show {id}");
            cx.ui.error(&error.hint(hint), None);
            Ok(ExitCode::from(jobs::NOT_THE_COMMANDS))
        }
    }
}

/// Streams the log of a job until it ends, and returns its exit code.
fn follow(cx: &mut CommandContext, session: &mut Session, job: &JobView) -> Result<u8> {
    let id = job.job.id.to_string();
    let shutdown = ShutdownSignal::listen()?;
    let log = Log::Local(jobs::log_path(session, &job.job.id)?);
    let mut at = 0;
    let mut is_cancelled = false;
    let mut busy = Some(cx.ui.busy("Preparing the workspace"));
    let ended = loop {
        let now = wait_for(session, Some(200), |session| {
            let now = jobs::show(session, &id)?;
            busy.take_if(|_| now.job.started_at.is_some());
            Ok(Some(now).filter(|now| now.job.status.is_final()))
        })?;
        if !cx.ui.json {
            at = log.print(session, &id, at)?;
        }
        if let Some(now) = now {
            break now;
        }
        if !is_cancelled && shutdown.count() > 0 {
            is_cancelled = true;
            cx.ui.note("cancelling the job");
            let reason = Some("interrupted from the terminal".to_owned());
            match session.call(CancelJob { job: id.clone(), reason }) {
                Err(error) if error.kind() != waypost_core::Kind::Conflict => return Err(error),
                _ => {}
            }
        }
    };
    if !cx.ui.json {
        log.print(session, &id, at)?;
    }
    wait_for_supervisor(session, &id)?;
    let ended = jobs::show(session, ended.job.id.as_str())?;
    for warning in &ended.job.warnings {
        cx.ui.warn(warning);
    }
    if cx.ui.json {
        cx.ui.answer(&ended, |_| {})?;
    } else if ended.job.status != JobStatus::Completed {
        cx.ui.warn(&describe_failure(&ended));
    }
    Ok(jobs::exit_code(&ended.job))
}

/// Waits until the supervisor of an ended job has cleaned up.
fn wait_for_supervisor(session: &mut Session, id: &str) -> Result<()> {
    let job = jobs::show(session, id)?;
    let Some(supervisor) = job.job.supervisor else { return Ok(()) };
    wait_for(session, Some(60_000), |_| Ok((!processes::is_running(&supervisor)).then_some(())))?;
    Ok(())
}

/// Describes how an unsuccessful job ended.
fn describe_failure(job: &JobView) -> String {
    let why = job.job.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
    format!("job {} is {}{why}", job.job.id, job.job.status)
}

pub(super) fn wait(cx: &mut CommandContext, session: &mut Session, args: &WaitArgs) -> Result<ExitCode> {
    let ended = wait_for(session, args.timeout, |session| {
        Ok(Some(jobs::show(session, &args.job)?).filter(|now| now.job.status.is_final()))
    })?;
    let Some(ended) = ended else {
        return Err(Error::new(waypost_core::Kind::NothingToDo, format!("job {} is still running", args.job)));
    };
    if ended.job.status != JobStatus::Completed {
        cx.ui.warn(&describe_failure(&ended));
    }
    cx.ui.answer(&ended, |text| text.line(format!("Job {} is {}", ended.job.id, ended.job.status)))?;
    Ok(ExitCode::from(jobs::exit_code(&ended.job)))
}
