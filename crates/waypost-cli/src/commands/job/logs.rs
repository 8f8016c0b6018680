//! Prints the logs of jobs, from a file, the store or the server.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};
use waypost_core::Result;
use waypost_core::op::Operation as _;
use waypost_workspace::job_log::{self, Part};

use crate::CommandContext;
use crate::commands::ws::parse_bytes;
use crate::ui;
use crate::work::wait_for;
use waypost::app::session::Session;
use waypost::ops::ShowLog;
use waypost::work::jobs::{self, LogPlace};

/// Show the log of a job
#[derive(clap::Args)]
pub(super) struct LogsArgs {
    /// Id of the job, or a unique prefix
    job: String,
    /// Follow the log until the job ends
    #[arg(long, short)]
    follow: bool,
    /// Only the end of the log, at most this many bytes
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, conflicts_with = "follow")]
    tail: Option<u64>,
}

pub(super) fn logs(cx: &mut CommandContext, session: &mut Session, args: &LogsArgs) -> Result<ExitCode> {
    let (id, log) = Log::of(session, &args.job)?;
    if cx.ui.json {
        let bytes = log.tail(session, &id, args.tail)?;
        let data = json!({ "job": id, "log": String::from_utf8_lossy(&bytes) });
        cx.ui.answer(&data, |_| {})?;
        return Ok(ExitCode::SUCCESS);
    }
    if !args.follow {
        ui::print_document(&log.tail(session, &id, args.tail)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut at = 0;
    loop {
        let now = wait_for(session, Some(200), |session| {
            Ok(Some(jobs::show(session, &id)?).filter(|now| now.job.status.is_final()))
        })?;
        at = log.print(session, &id, at)?;
        if now.is_some() || ui::is_closed() {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// The log of a job.
pub(crate) enum Log {
    /// A file of this machine.
    Local(PathBuf),
    /// The end of it, which the store has.
    Stored,
    /// A file that the server reads.
    Remote,
}

impl Log {
    /// Returns the id of a job, and where its log is.
    pub(crate) fn of(session: &mut Session, job: &str) -> Result<(String, Log)> {
        match jobs::job_and_log(session, job) {
            Ok((job, LogPlace::File(file))) => Ok((job.id.to_string(), Log::Local(file))),
            Ok((job, LogPlace::Store)) => Ok((job.id.to_string(), Log::Stored)),
            // The job may run on the server's machine.
            Err(error) if error.kind() == waypost_core::Kind::NotFound && session.is_served() => {
                Ok((jobs::show(session, job)?.job.id.to_string(), Log::Remote))
            }
            Err(error) => Err(error),
        }
    }

    /// Prints the log from an offset on, and returns the offset of its end.
    pub(super) fn print(&self, session: &mut Session, job: &str, mut at: u64) -> Result<u64> {
        loop {
            let (part, next) = self.read_from(session, job, at)?;
            if next == at {
                return Ok(at);
            }
            ui::print_document(&part)?;
            at = next;
        }
    }

    /// Returns the last `max` bytes of the log, or all of it.
    fn tail(&self, session: &mut Session, job: &str, max: Option<u64>) -> Result<Vec<u8>> {
        match (self, max) {
            (Log::Local(file), max) => Ok(jobs::tail(file, max.unwrap_or(u64::MAX))),
            (Log::Stored, Some(max)) => Ok(jobs::read_stored(session, job, None, max)?.text.into_bytes()),
            (Log::Remote, Some(max)) => fetch_log(session, &json!({ "job": job, "tail": max })).map(|(end, _)| end),
            (Log::Remote | Log::Stored, None) => {
                let (mut all, mut at) = (Vec::new(), 0);
                loop {
                    let (part, next) = self.read_from(session, job, at)?;
                    if next == at {
                        return Ok(all);
                    }
                    all.extend(part);
                    at = next;
                }
            }
        }
    }

    /// Reads a part of the log from an offset on, and returns the offset of the next part.
    pub(crate) fn read_from(&self, session: &mut Session, job: &str, at: u64) -> Result<(Vec<u8>, u64)> {
        match self {
            Log::Local(file) => {
                let part: Part = job_log::read_from(file, at, 1 << 20);
                let next = part.next();
                Ok((part.bytes, next))
            }
            Log::Stored => {
                let part = jobs::read_stored(session, job, Some(at), 1 << 20)?;
                let next = part.from + part.text.len() as u64;
                // Without new output, the position stays.
                Ok(if part.text.is_empty() { (Vec::new(), at) } else { (part.text.into_bytes(), next) })
            }
            Log::Remote => fetch_log(session, &json!({ "job": job, "from": at })),
        }
    }
}

/// Fetches a part of a job's log from the server, and the offset of the next part.
fn fetch_log(session: &mut Session, request: &Value) -> Result<(Vec<u8>, u64)> {
    let part = session.ask_server(ShowLog::NAME, request)?;
    let log = part["log"].as_str().unwrap_or_default().as_bytes().to_vec();
    Ok((log, part["next"].as_u64().unwrap_or_default()))
}
