//! Changes to issues.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use waypost_core::ledger::issue;
use waypost_core::ledger::vocabulary::{self, DependencyKind};
use waypost_core::model::Lease;
use waypost_core::op::Effect;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};

use super::{IssueContext, IssueRecord, Question};
use crate::claims;
use crate::ledger::{Change, Edit, New};
use crate::merge_driver::ensure_driver;

/// What can be said of an issue.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct Fields {
    /// What it is about.
    description: Option<String>,
    /// How it is meant to be done.
    design: Option<String>,
    /// When it is done.
    acceptance_criteria: Option<String>,
    /// Whatever else is worth knowing.
    notes: Option<String>,
    /// open, in_progress, blocked, deferred, closed, or another.
    status: Option<String>,
    /// 0 is the most urgent, 4 the least.
    #[schemars(range(max = 4))]
    priority: Option<u8>,
    /// bug, feature, task, epic, chore, or another.
    issue_type: Option<String>,
    /// Who does it.
    assignee: Option<String>,
    /// The issue it is a part of.
    parent: Option<String>,
    /// When it should be done: a time or a day; an empty text for none.
    due_at: Option<String>,
    /// Not before then: a time or a day; an empty text for none.
    defer_until: Option<String>,
    /// Labels to put on.
    labels: Vec<String>,
}

impl Fields {
    fn edit(self, title: Option<String>, remove_labels: Vec<String>) -> Result<Edit> {
        let priority = self.priority.map(|priority| vocabulary::priority(&priority.to_string())).transpose()?;
        Ok(Edit {
            title,
            description: self.description,
            design: self.design,
            acceptance_criteria: self.acceptance_criteria,
            notes: self.notes,
            status: self.status,
            priority,
            issue_type: self.issue_type,
            assignee: self.assignee,
            parent_id: self.parent,
            due_at: moment(self.due_at)?,
            defer_until: moment(self.defer_until)?,
            add_labels: self.labels,
            remove_labels,
            ..Edit::default()
        })
    }
}

/// Reads a moment or a day; an empty text is none.
#[expect(clippy::option_option, reason = "set, taken out, or left alone")]
fn moment(text: Option<String>) -> Result<Option<Option<Timestamp>>> {
    let Some(text) = text else { return Ok(None) };
    match issue::parse_time(&text) {
        Some(moment) => Ok(Some(Some(moment))),
        None if text.is_empty() => Ok(Some(None)),
        None => Err(Error::invalid(format!("{text:?} is not a time")).hint("write 2026-12-01 or 2026-12-01T09:00:00Z")),
    }
}

/// Arguments that mean nothing. Those of an issue are read in two steps, which serde cannot refuse by itself.
type Unknown = Map<String, Value>;

fn refuse(operation: &str, unknown: &Unknown) -> Result<()> {
    match unknown.keys().next() {
        Some(key) => Err(Error::invalid(format!("{operation} takes no {key:?}"))),
        None => Ok(()),
    }
}

/// Writes down an issue.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct AddIssue {
    /// One line that says what should be done.
    title: String,
    /// Issues it waits for.
    #[serde(default)]
    blocked_by: Vec<String>,
    /// The issue during which it was found.
    #[serde(default)]
    discovered_from: Option<String>,
    #[serde(flatten)]
    fields: Fields,
    #[serde(flatten)]
    #[schemars(skip)]
    unknown: Unknown,
    /// Only the ledger of this repository: a path, or the name of one that is read.
    #[serde(default)]
    repo: Option<String>,
}

impl Question for AddIssue {
    const NAME: &'static str = "add_issue";
    const SUMMARY: &'static str = "Write down an issue";
    const EFFECT: Effect = Effect::Write;
    type Answer = IssueRecord;

    fn repo(&self) -> Option<&str> {
        self.repo.as_deref()
    }

    fn run(self, desk: &mut IssueContext<'_>) -> Result<IssueRecord> {
        refuse(Self::NAME, &self.unknown)?;
        let edit = self.fields.edit(Some(self.title), Vec::new())?;
        let (blocked_by, discovered_from) = (self.blocked_by, self.discovered_from);
        desk.change(Change::Add(New { edit, blocked_by, discovered_from, name: None }))
    }
}

/// Changes fields of an issue. An empty text takes a field out.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct UpdateIssue {
    /// Its id, or the beginning of it.
    issue: String,
    /// One line that says what should be done.
    #[serde(default)]
    title: Option<String>,
    /// Labels to take off.
    #[serde(default)]
    remove_labels: Vec<String>,
    /// Set the status although another agent holds the issue.
    #[serde(default)]
    force: bool,
    #[serde(flatten)]
    fields: Fields,
    #[serde(flatten)]
    #[schemars(skip)]
    unknown: Unknown,
    /// Only the ledger of this repository: a path, or the name of one that is read.
    #[serde(default)]
    repo: Option<String>,
}

impl Question for UpdateIssue {
    const NAME: &'static str = "update_issue";
    const SUMMARY: &'static str = "Change fields of an issue";
    const EFFECT: Effect = Effect::Write;
    type Answer = IssueRecord;

    fn repo(&self) -> Option<&str> {
        self.repo.as_deref()
    }

    fn run(self, desk: &mut IssueContext<'_>) -> Result<IssueRecord> {
        refuse(Self::NAME, &self.unknown)?;
        let edit = self.fields.edit(self.title, self.remove_labels)?;
        if edit == Edit::default() {
            return Err(Error::invalid("nothing to change was given"));
        }
        desk.change(Change::Update(self.issue, edit).forced(self.force))
    }
}

/// Makes an operation of a change to one issue: what it is told beside the issue, and the change that this is.
macro_rules! change {
    (
        $(#[$doc:meta])* $name:ident($operation:literal, $summary:literal) {
            $($(#[$about:meta])* $field:ident: $type:ty,)*
        } = |$told:ident| $change:expr
    ) => {
        $(#[$doc])*
        #[derive(Debug, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name {
            /// Its id, or the beginning of it.
            issue: String,
            $($(#[$about])* $field: $type,)*
            /// Only the ledger of this repository: a path, or the name of one that is read.
            repo: Option<String>,
        }

        impl Question for $name {
            const NAME: &'static str = $operation;
            const SUMMARY: &'static str = $summary;
            const EFFECT: Effect = Effect::Write;
            type Answer = IssueRecord;

            fn repo(&self) -> Option<&str> {
                self.repo.as_deref()
            }

            fn run(self, desk: &mut IssueContext<'_>) -> Result<IssueRecord> {
                let $told = self;
                desk.change($change)
            }
        }
    };
}

change! {
    /// Closes an issue.
    CloseIssue("close_issue", "Close an issue") {
        /// Why.
        reason: Option<String>,
        /// Close it although another agent holds it.
        #[serde(default)]
        force: bool,
    } = |told| Change::Close(told.issue, told.reason).forced(told.force)
}

change! {
    /// Opens an issue again.
    ReopenIssue("reopen_issue", "Open an issue again") {
        /// Open it although another agent holds it.
        #[serde(default)]
        force: bool,
    } = |told| Change::Reopen(told.issue).forced(told.force)
}

change! {
    /// Deletes an issue, leaving a tombstone.
    DeleteIssue("delete_issue", "Delete an issue, leaving a tombstone") {
        /// Why.
        reason: Option<String>,
        /// Delete it although another agent holds it.
        #[serde(default)]
        force: bool,
    } = |told| Change::Delete(told.issue, told.reason).forced(told.force)
}

change! {
    /// Says something about an issue.
    CommentIssue("comment_issue", "Say something about an issue") {
        /// What.
        text: String,
    } = |told| Change::Comment(told.issue, told.text)
}

change! {
    /// Releases an issue that an agent claimed.
    ReleaseIssue("release_issue", "Release an issue") {
        /// Take it from whoever has it.
        #[serde(default)]
        force: bool,
    } = |told| Change::Release(told.issue, told.force)
}

change! {
    /// Makes an issue depend on another.
    DependIssue("depend_issue", "Make an issue depend on another") {
        /// The one it depends on.
        on: String,
        /// How; blocks if nobody says.
        kind: Option<String>,
    } = |told| Change::Depend(told.issue, told.on, kind(told.kind.as_deref())?.unwrap_or(DependencyKind::Blocks))
}

change! {
    /// Ends that an issue depends on another.
    UndependIssue("undepend_issue", "End that an issue depends on another") {
        /// The one it depends on.
        on: String,
        /// In which way; in all if nobody says.
        kind: Option<String>,
    } = |told| Change::Undepend(told.issue, told.on, kind(told.kind.as_deref())?)
}

fn kind(word: Option<&str>) -> Result<Option<DependencyKind>> {
    word.map(DependencyKind::parse).transpose()
}

/// Claims an issue, in its ledger and with a lease: the one that is named, else the first that is ready.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimIssue {
    /// Its id, or the beginning of it.
    #[serde(default)]
    issue: Option<String>,
    /// How long the lease lasts after each sign of life, in milliseconds.
    #[serde(default)]
    ttl_ms: Option<u64>,
    /// Only the ledger of this repository: a path, or the name of one that is read.
    #[serde(default)]
    repo: Option<String>,
}

impl Question for ClaimIssue {
    const NAME: &'static str = "claim_issue";
    const SUMMARY: &'static str = "Claim an issue to work on";
    const EFFECT: Effect = Effect::Write;
    type Answer = ClaimedIssue;

    fn repo(&self) -> Option<&str> {
        self.repo.as_deref()
    }

    fn run(self, desk: &mut IssueContext<'_>) -> Result<ClaimedIssue> {
        let (id, lease) = claims::claim(desk.place, &desk.ledger, self.issue.as_deref(), self.ttl_ms)?;
        ensure_driver(desk.place);
        let entry = desk.with_index(|index| index.get_by_prefix(&id))?;
        Ok(ClaimedIssue { issue: desk.shown(&entry.record, entry.ledger)?, lease })
    }
}

/// An issue, and the right to work on it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct ClaimedIssue {
    /// The issue.
    issue: IssueRecord,
    /// For how long, and in which epoch.
    lease: Lease,
}
