//! Operations that change issues.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use waypost_core::ledger::issue;
use waypost_core::ledger::vocabulary::{self, DependencyKind};
use waypost_core::model::Lease;
use waypost_core::op::{Access, Effect, Operation};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};

use super::{IssueChange, IssueContext, IssueOperation, IssueRecord};
use crate::issues::ledger::{Change, Edit, New};

/// Fields of an issue.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct Fields {
    /// Description.
    description: Option<String>,
    /// Intended design.
    design: Option<String>,
    /// Acceptance criteria.
    acceptance_criteria: Option<String>,
    /// Additional notes.
    notes: Option<String>,
    /// Status: open, in_progress, blocked, deferred, closed, or a custom one.
    status: Option<String>,
    /// Priority from 0 (highest) to 4 (lowest).
    #[schemars(range(max = 4))]
    priority: Option<u8>,
    /// Type: bug, feature, task, epic, chore, or a custom one.
    issue_type: Option<String>,
    /// Assignee.
    assignee: Option<String>,
    /// Parent issue.
    parent: Option<String>,
    /// Due time or date; an empty string removes it.
    due_at: Option<String>,
    /// Time or date before which the issue is not ready; an empty string removes it.
    defer_until: Option<String>,
    /// Labels to add.
    labels: Vec<String>,
    /// Owner.
    owner: Option<String>,
    /// Reference to the issue in another tracker.
    external_ref: Option<String>,
    /// Estimated minutes; 0 removes them.
    estimated_minutes: Option<u32>,
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
            owner: self.owner,
            parent_id: self.parent,
            external_ref: self.external_ref,
            due_at: parse_time(self.due_at)?,
            defer_until: parse_time(self.defer_until)?,
            estimated_minutes: self.estimated_minutes,
            add_labels: self.labels,
            remove_labels,
        })
    }
}

/// Parses a time or a date; an empty string removes it.
#[expect(clippy::option_option, reason = "set, removed, or unchanged")]
fn parse_time(text: Option<String>) -> Result<Option<Option<Timestamp>>> {
    let Some(text) = text else { return Ok(None) };
    match issue::parse_time(&text) {
        Some(time) => Ok(Some(Some(time))),
        None if text.is_empty() => Ok(Some(None)),
        None => {
            Err(Error::invalid(format!("{text:?} is not a time"))
                .hint("expected e.g. 2026-12-01 or 2026-12-01T09:00:00Z"))
        }
    }
}

/// Unknown arguments. Serde cannot reject them itself in a struct with flattened fields.
type Unknown = Map<String, Value>;

fn reject_unknown(operation: &str, unknown: &Unknown) -> Result<()> {
    match unknown.keys().next() {
        Some(key) => Err(Error::invalid(format!("unknown field {key:?} for {operation}"))),
        None => Ok(()),
    }
}

/// Adds an issue.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct AddIssue {
    /// Title, one line.
    title: String,
    /// Issues that block it.
    #[serde(default)]
    blocked_by: Vec<String>,
    /// Issue during which it was discovered.
    #[serde(default)]
    discovered_from: Option<String>,
    /// Labels to remove: a new issue has none, but batches accept them.
    #[serde(default)]
    #[schemars(skip)]
    remove_labels: Vec<String>,
    /// Its name in the rest of a batch, used as `$name`.
    #[serde(default, rename = "as")]
    #[schemars(skip)]
    name: Option<String>,
    #[serde(flatten)]
    fields: Fields,
    #[serde(flatten)]
    #[schemars(skip)]
    unknown: Unknown,
    /// Repository whose ledger to use: the id or name of a configured one, or a path except
    /// over HTTP.
    #[serde(default)]
    repo: Option<String>,
}

impl Operation for AddIssue {
    const NAME: &'static str = "add_issue";
    const SUMMARY: &'static str = "Add an issue";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::AGENTS;
    type Answer = IssueRecord;
}

impl IssueOperation for AddIssue {
    fn repo(&self) -> Option<&str> {
        self.repo.as_deref()
    }

    fn run(self, context: &IssueContext) -> Result<IssueRecord> {
        context.change(&self.change()?)
    }
}

impl IssueChange for AddIssue {
    const BATCH_FIELDS: &'static [&'static str] = &["as", "remove_labels"];

    fn change(self) -> Result<Change> {
        reject_unknown(Self::NAME, &self.unknown)?;
        let edit = self.fields.edit(Some(self.title), self.remove_labels)?;
        let (blocked_by, discovered_from) = (self.blocked_by, self.discovered_from);
        Ok(Change::Add(New { edit, blocked_by, discovered_from, name: self.name }))
    }
}

/// Changes fields of an issue. An empty string removes a field.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct UpdateIssue {
    /// Id of the issue, or a unique prefix.
    issue: String,
    /// Title, one line.
    #[serde(default)]
    title: Option<String>,
    /// Labels to remove.
    #[serde(default)]
    remove_labels: Vec<String>,
    /// Set the status even if another agent holds the issue.
    #[serde(default)]
    force: bool,
    #[serde(flatten)]
    fields: Fields,
    #[serde(flatten)]
    #[schemars(skip)]
    unknown: Unknown,
    /// Repository whose ledger to use: the id or name of a configured one, or a path except
    /// over HTTP.
    #[serde(default)]
    repo: Option<String>,
}

impl Operation for UpdateIssue {
    const NAME: &'static str = "update_issue";
    const SUMMARY: &'static str = "Change fields of an issue";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::AGENTS_WITHOUT_FORCE;
    type Answer = IssueRecord;
}

impl IssueOperation for UpdateIssue {
    fn repo(&self) -> Option<&str> {
        self.repo.as_deref()
    }

    fn run(self, context: &IssueContext) -> Result<IssueRecord> {
        let change = self.change()?;
        match change.plain() {
            Change::Update(_, edit) if *edit == Edit::default() => Err(Error::invalid("no fields to change")),
            _ => context.change(&change),
        }
    }
}

impl IssueChange for UpdateIssue {
    fn change(self) -> Result<Change> {
        reject_unknown(Self::NAME, &self.unknown)?;
        let edit = self.fields.edit(self.title, self.remove_labels)?;
        Ok(Change::Update(self.issue, edit).forced(self.force))
    }
}

/// Defines an operation that changes one issue: its access, its arguments beside the issue, and the change it makes.
macro_rules! change {
    (
        $(#[$doc:meta])* $name:ident($operation:literal, $summary:literal, $access:expr) {
            $($(#[$about:meta])* $field:ident: $type:ty,)*
        } = |$request:ident| $change:expr
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name {
            /// Id of the issue, or a unique prefix.
            issue: String,
            $($(#[$about])* $field: $type,)*
            /// Repository whose ledger to use: the id or name of a configured one, or a path except
            /// over HTTP.
            repo: Option<String>,
        }

        impl Operation for $name {
            const NAME: &'static str = $operation;
            const SUMMARY: &'static str = $summary;
            const EFFECT: Effect = Effect::Write;
            const ACCESS: Access = $access;
            type Answer = IssueRecord;
        }

        impl IssueOperation for $name {
            fn repo(&self) -> Option<&str> {
                self.repo.as_deref()
            }

            fn run(self, context: &IssueContext) -> Result<IssueRecord> {
                context.change(&self.change()?)
            }
        }

        impl IssueChange for $name {
            fn change(self) -> Result<Change> {
                let $request = self;
                Ok($change)
            }
        }
    };
}

change! {
    /// Closes an issue.
    CloseIssue("close_issue", "Close an issue", Access::AGENTS_WITHOUT_FORCE) {
        /// Reason.
        reason: Option<String>,
        /// Close it even if another agent holds it.
        #[serde(default)]
        force: bool,
    } = |request| Change::Close(request.issue, request.reason).forced(request.force)
}

change! {
    /// Reopens an issue.
    ReopenIssue("reopen_issue", "Reopen an issue", Access::AGENTS_WITHOUT_FORCE) {
        /// Reopen it even if another agent holds it.
        #[serde(default)]
        force: bool,
    } = |request| Change::Reopen(request.issue).forced(request.force)
}

change! {
    /// Deletes an issue, leaving a tombstone.
    RemoveIssue("remove_issue", "Delete an issue, leaving a tombstone", Access::ADMINS) {
        /// Reason.
        reason: Option<String>,
        /// Delete it even if another agent holds it.
        #[serde(default)]
        force: bool,
    } = |request| Change::Delete(request.issue, request.reason).forced(request.force)
}

change! {
    /// Comments on an issue.
    AddComment("add_comment", "Comment on an issue", Access::AGENTS) {
        /// Text of the comment.
        text: String,
    } = |request| Change::Comment(request.issue, request.text)
}

change! {
    /// Releases a claimed issue.
    ReleaseIssue("release_issue", "Release an issue", Access::AGENTS_WITHOUT_FORCE) {
        /// Release it even if another agent holds it.
        #[serde(default)]
        force: bool,
    } = |request| Change::Release(request.issue, request.force)
}

change! {
    /// Adds a dependency.
    AddDependency("add_dependency", "Add a dependency", Access::AGENTS) {
        /// Issue it depends on.
        on: String,
        /// Kind of the dependency [default: blocks].
        kind: Option<String>,
    } = |request| {
        let kind = parse_kind(request.kind.as_deref())?;
        Change::Depend(request.issue, request.on, kind.unwrap_or(DependencyKind::Blocks))
    }
}

change! {
    /// Removes a dependency.
    RemoveDependency("remove_dependency", "Remove a dependency", Access::AGENTS) {
        /// Issue it depends on.
        on: String,
        /// Kind of the dependency [default: all kinds].
        kind: Option<String>,
    } = |request| Change::Undepend(request.issue, request.on, parse_kind(request.kind.as_deref())?)
}

fn parse_kind(text: Option<&str>) -> Result<Option<DependencyKind>> {
    text.map(DependencyKind::parse).transpose()
}

/// Claims an issue, in its ledger and with a lease: the named one, else the first ready one.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimIssue {
    /// Id of the issue, or a unique prefix.
    #[serde(default)]
    issue: Option<String>,
    /// Duration of the lease, in milliseconds; heartbeats renew it.
    #[serde(default)]
    ttl_ms: Option<u64>,
    /// Repository whose ledger to use: the id or name of a configured one, or a path except
    /// over HTTP.
    #[serde(default)]
    repo: Option<String>,
}

impl Operation for ClaimIssue {
    const NAME: &'static str = "claim_issue";
    const SUMMARY: &'static str = "Claim an issue to work on";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::AGENTS;
    type Answer = ClaimedIssue;
}

impl IssueOperation for ClaimIssue {
    fn repo(&self) -> Option<&str> {
        self.repo.as_deref()
    }

    fn run(self, context: &IssueContext) -> Result<ClaimedIssue> {
        let ((record, ledger), lease) = context.claim(self.issue.as_deref(), self.ttl_ms)?;
        Ok(ClaimedIssue { issue: context.shown(&record, ledger)?, lease })
    }
}

impl IssueChange for ClaimIssue {
    fn change(self) -> Result<Change> {
        Ok(Change::Claim(self.issue))
    }
}

/// A claimed issue and its lease.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct ClaimedIssue {
    /// The issue.
    issue: IssueRecord,
    /// The lease.
    lease: Lease,
}
