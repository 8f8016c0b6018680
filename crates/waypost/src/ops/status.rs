//! The status of everything that one store shares.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use waypost_core::id::WorktreeId;
use waypost_core::model::{Event, EventQuery};
use waypost_core::op::{Effect, JobView, ListEvents, ListJobs, Operation, ShowWorkStatus, WorkStatus};
use waypost_core::{Error, Result};

use crate::app::operation::{AppContext, AppEntry, AppOperation};
use crate::app::session::Session;
use crate::issues::claims;
use crate::issues::ledger::Ledger;
use crate::machine::place::StoreChoice;
use crate::work::references;
use crate::work::survey::{Surveyed, survey_worktrees};

/// All operations on the whole store.
pub(crate) static TABLE: &[AppEntry] = &[AppEntry::of::<ShowStatus>()];

/// Default number of entries of each part.
const DEFAULT_LIMIT: u32 = 8;
/// Number of latest events.
const MAX_RECENT_EVENTS: u32 = 5;
/// Number of events among which those of a repository are looked for.
const MAX_SCANNED_EVENTS: u32 = 200;

/// Shows the status of tasks, workflows, agents, jobs, issues and worktrees. The parts that need a person come first.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ShowStatus {
    /// Only records of this worktree.
    #[serde(default)]
    pub worktree_id: Option<WorktreeId>,
    /// Only records of this repository: its id, name or path.
    #[serde(default)]
    pub repository: Option<String>,
    /// The maximum number of entries of each part [default: 8].
    #[serde(default)]
    pub limit: Option<u32>,
}

/// The answer to [`ShowStatus`].
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// Tasks, workflows, agents and leases.
    #[serde(flatten)]
    pub work: WorkStatus,
    /// Jobs that have not ended.
    pub jobs: Vec<JobView>,
    /// The number of issues in the ledger; none without a ledger.
    pub issues: Option<IssueCounts>,
    /// Worktrees, as stored and as found on disk.
    pub worktrees: Vec<Surveyed>,
    /// The store.
    pub store: StoreStatus,
    /// The latest events, newest first.
    pub events: Vec<Event>,
}

/// The number of issues in a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IssueCounts {
    /// Issues that can be started now.
    pub ready: usize,
    /// Open issues.
    pub open: usize,
    /// Issues in progress.
    pub in_progress: usize,
    /// Closed issues.
    pub closed: usize,
}

/// The store, and why it was chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoreStatus {
    /// Its path or URL, without a password.
    pub path: String,
    /// Its kind.
    pub kind: String,
    /// The scope that it serves.
    pub scope: Option<String>,
    /// The origin of the choice: a flag, the environment, the configuration or the default.
    pub source: String,
    /// Why, in words.
    pub because: String,
    /// The sequence of its newest event.
    pub events: u64,
}

impl Operation for ShowStatus {
    const NAME: &'static str = "show_status";
    const SUMMARY: &'static str = "Show the status";
    const EFFECT: Effect = Effect::Read;
    type Answer = Status;
}

impl AppOperation for ShowStatus {
    const IS_SHORT: bool = true;

    fn run(self, cx: &mut AppContext<'_>) -> Result<Status> {
        let issues = match cx.session().and_then(count_issues) {
            Ok(issues) => issues,
            // The rest of the status does not depend on the ledger.
            Err(error) => {
                cx.warnings.push(format!("issues are not counted: {}", error.full_message()));
                None
            }
        };
        let session = cx.session()?;
        let limit = self.limit.unwrap_or(DEFAULT_LIMIT);
        // First, because it checks the filter.
        let work = session.read(ShowWorkStatus {
            worktree_id: self.worktree_id.clone(),
            repository: self.repository.clone(),
            limit,
        })?;
        let mut worktrees = survey_worktrees(session)?;
        worktrees.retain(|one| self.worktree_id.is_none() || one.id == self.worktree_id);
        if let Some(wanted) = references::repository_ids(session, self.repository.as_deref())? {
            worktrees.retain(|one| wanted.contains(&one.repository_id));
        }
        let live_jobs = ListJobs {
            live: true,
            worktree_id: self.worktree_id.clone(),
            repository: self.repository.clone(),
            limit: Some(limit),
            ..ListJobs::default()
        };
        let jobs = session.call(live_jobs)?.jobs;
        // The history has no filter by repository, so the latest events of its worktrees are looked for among more of them.
        let limit = if self.repository.is_some() { MAX_SCANNED_EVENTS } else { MAX_RECENT_EVENTS };
        let query = EventQuery { worktree_id: self.worktree_id, limit, ..EventQuery::default() };
        let mut history = session.read(ListEvents { query })?;
        if self.repository.is_some() {
            let is_here = |event: &Event| worktrees.iter().any(|one| one.id.as_ref() == Some(&event.worktree_id));
            history.events.retain(is_here);
            history.events.truncate(MAX_RECENT_EVENTS as usize);
        }
        let store = store_status(&session.choice, history.last)?;
        Ok(Status { work, jobs, issues, worktrees, store, events: history.events })
    }
}

fn store_status(choice: &StoreChoice, events: u64) -> Result<StoreStatus> {
    let text = |value: Result<serde_json::Value, serde_json::Error>| {
        let value = value.map_err(|error| Error::internal("the choice of the store is not JSON").because(error))?;
        Ok::<_, Error>(value.as_str().map(str::to_owned))
    };
    Ok(StoreStatus {
        path: choice.location.to_string(),
        kind: choice.location.kind().to_owned(),
        scope: text(serde_json::to_value(choice.scope))?,
        source: choice.source.source.to_string(),
        because: choice.source.because.clone(),
        events,
    })
}

/// Counts the issues by status, if there is a ledger.
fn count_issues(session: &mut Session) -> Result<Option<IssueCounts>> {
    let place = &session.place.clone();
    if !place.may_have_ledger() {
        return Ok(None);
    }
    let ledger = Ledger::of(place)?;
    claims::held_by_others(session, &ledger)?;
    let counts = ledger.with_index(|index| index.counts(ledger.now()))?;
    let of = |status: &str| counts.by_status.iter().find(|(known, _)| known == status).map_or(0, |(_, count)| *count);
    Ok(Some(IssueCounts {
        ready: counts.ready,
        open: of("open"),
        in_progress: of("in_progress"),
        closed: of("closed"),
    }))
}
