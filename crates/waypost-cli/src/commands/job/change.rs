//! Cancels a job, and takes notes from within one.

use std::process::ExitCode;

use waypost_core::op::{CancelJob, UpdateJob};
use waypost_core::{Error, Result};

use crate::CommandContext;
use crate::work::wait_for;
use waypost::app::session::Session;
use waypost::machine::WAYPOST_JOB;
use waypost::work::{jobs, workspaces};

/// Cancel a job: kill its processes and pause its task
#[derive(clap::Args)]
pub(super) struct CancelArgs {
    /// Id of the job, or a unique prefix
    job: String,
    /// Reason
    #[arg(long)]
    reason: Option<String>,
}

/// Report the progress of a job, from within the job
#[derive(clap::Args)]
pub(super) struct NoteArgs {
    /// Id of the job [default: WAYPOST_JOB]
    #[arg(long)]
    job: Option<String>,
    /// Current phase
    #[arg(long)]
    phase: Option<String>,
    /// Details of the phase
    #[arg(long)]
    detail: Option<String>,
    /// Output of the job
    #[arg(long)]
    output: Option<String>,
    /// Tokens used so far
    #[arg(long)]
    tokens: Option<u64>,
    /// Cost so far
    #[arg(long)]
    cost: Option<f64>,
}

pub(super) fn cancel(cx: &mut CommandContext, session: &mut Session, args: &CancelArgs) -> Result<ExitCode> {
    let cancelled = session.call(CancelJob { job: args.job.clone(), reason: args.reason.clone() })?;
    let id = cancelled.job.id.to_string();
    // A local job has ended when this command returns; the supervisor on another machine ends the job later.
    let machine = workspaces::machine(session)?;
    let is_here = cancelled.job.machine.as_ref() == Some(&machine);
    let ended = if is_here {
        wait_for(session, Some(60_000), |session| {
            Ok(Some(jobs::show(session, &id)?).filter(|now| now.job.status.is_final()))
        })?
    } else {
        None
    };
    let now = ended.unwrap_or(cancelled);
    cx.ui.answer(&now, |text| {
        let is_final = now.job.status.is_final();
        text.line(if is_final {
            format!("Job {id} is {}", now.job.status)
        } else {
            format!("Requested cancellation of job {id}")
        });
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn note(cx: &mut CommandContext, session: &mut Session, args: &NoteArgs) -> Result<ExitCode> {
    let job = args.job.clone().or_else(|| cx.variables.text(WAYPOST_JOB));
    let job = job.ok_or_else(|| Error::invalid("no job given").hint("use --job JOB, or set WAYPOST_JOB"))?;
    let NoteArgs { phase, detail, output, tokens, cost, .. } = args;
    let operation = UpdateJob {
        job,
        phase: phase.clone(),
        detail: detail.clone(),
        output: output.clone(),
        warning: None,
        tokens: *tokens,
        cost: *cost,
    };
    let noted = session.call(operation)?;
    cx.ui.answer(&noted, |text| text.line(format!("Updated job {}", noted.job.id)))?;
    Ok(ExitCode::SUCCESS)
}
