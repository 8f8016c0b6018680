//! Metrics of a store, for monitoring.

use std::collections::BTreeMap;

use waypost_core::model::WorkspaceStatus;
use waypost_core::op::{JobView, ListJobs, ListWorkspaces, ShowWorkStatus};
use waypost_core::{Error, Result};

use crate::app::session::Session;

/// How many of the latest jobs the metrics include.
const MAX_COUNTED_JOBS: u32 = 1000;

/// A metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// Its name without the prefix `waypost_`.
    pub name: &'static str,
    /// Its description.
    pub help: &'static str,
    /// Whether it is a counter; otherwise a gauge.
    pub is_counter: bool,
    /// The values, each with its labels as `name="value"`.
    pub values: Vec<(String, f64)>,
}

/// Returns a counter without labels.
#[expect(clippy::cast_precision_loss, reason = "counts are small")]
pub(super) fn counter(name: &'static str, help: &'static str, count: u64) -> Measure {
    Measure { name, help, is_counter: true, values: vec![(String::new(), count as f64)] }
}

/// Returns the number of entries in each section of the status.
pub(super) fn of_status(session: &mut Session) -> Result<Vec<Measure>> {
    let totals = session.read(ShowWorkStatus { limit: 0, ..ShowWorkStatus::default() })?.totals;
    let totals = serde_json::to_value(totals).map_err(|error| Error::internal("totals are not JSON").because(error))?;
    let of_part =
        |(name, count): (&String, &serde_json::Value)| (format!("part=\"{name}\""), count.as_f64().unwrap_or_default());
    let values = totals.as_object().into_iter().flatten().map(of_part).collect();
    Ok(vec![Measure {
        name: "things",
        help: "Number of entries in each section of way status.",
        is_counter: false,
        values,
    }])
}

/// Returns metrics of the latest jobs and of all workspaces.
#[expect(clippy::cast_precision_loss, reason = "counts are small, and bytes need not be exact")]
pub(super) fn of_jobs(session: &mut Session) -> Result<Vec<Measure>> {
    let jobs = ListJobs { limit: Some(MAX_COUNTED_JOBS), ..ListJobs::default() };
    let jobs = session.call(jobs)?.jobs;
    let workspaces = ListWorkspaces { limit: Some(u32::MAX), ..ListWorkspaces::default() };
    let workspaces = session.read(workspaces)?.workspaces;
    let by_status = |statuses: Vec<String>| {
        let mut counts: BTreeMap<String, f64> = BTreeMap::new();
        for status in statuses {
            *counts.entry(status).or_default() += 1.0;
        }
        counts.into_iter().map(|(status, count)| (format!("status=\"{status}\""), count)).collect::<Vec<_>>()
    };
    let setup_seconds = |view: &JobView| Some(view.job.started_at?.since(view.job.created_at) as f64 / 1000.0);
    let setups: Vec<f64> = jobs.iter().filter_map(setup_seconds).collect();
    let bytes: u64 = workspaces.iter().filter_map(|view| view.workspace.size).sum();
    let lost = workspaces.iter().filter(|view| view.workspace.status == WorkspaceStatus::Lost).count();
    let gauge = |name, help, values| Measure { name, help, is_counter: false, values };
    let one = |value: f64| vec![(String::new(), value)];
    Ok(vec![
        gauge(
            "jobs",
            "The latest jobs, by status.",
            by_status(jobs.iter().map(|view| view.job.status.to_string()).collect()),
        ),
        gauge(
            "job_setup_seconds",
            "Average time from the creation of a job to its start, over the latest jobs.",
            one(setups.iter().sum::<f64>() / (setups.len().max(1) as f64)),
        ),
        gauge(
            "workspaces",
            "Workspaces, by status.",
            by_status(workspaces.iter().map(|view| view.workspace.status.to_string()).collect()),
        ),
        gauge("workspaces_lost", "Workspaces whose directory is missing.", one(lost as f64)),
        gauge("workspace_bytes", "Disk usage of all workspaces, as last measured.", one(bytes as f64)),
    ])
}
