//! A change to issues as data, from a command, a line of a batch or a request.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use waypost_core::ledger::issue::Issue;
use waypost_core::ledger::vocabulary::DependencyKind;
use waypost_core::model::{News, Notice};
use waypost_core::redact::Secrets;
use waypost_core::{Error, Result, limits, tree};

use super::Edit;

/// A change. It refers to an issue by its id, by a unique prefix of it, or by `$name` if the same transaction added the
/// issue under that name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Add an issue.
    Add(New),
    /// Set fields.
    Update(String, Edit),
    /// Close the issue, with an optional reason.
    Close(String, Option<String>),
    /// Reopen the issue.
    Reopen(String),
    /// Replace the issue by a tombstone, with an optional reason.
    Delete(String, Option<String>),
    /// Claim the issue, or the most urgent ready one.
    Claim(Option<String>),
    /// Release the issue; the flag also releases another agent's issue.
    Release(String, bool),
    /// Add a comment.
    Comment(String, String),
    /// Add a dependency on another issue.
    Depend(String, String, DependencyKind),
    /// Remove the dependency of one kind, or of every kind, on another issue.
    Undepend(String, String, Option<DependencyKind>),
    /// Make a change even if another agent holds the issue.
    Forced(Box<Change>),
}

/// An issue to be added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct New {
    /// Its fields.
    pub edit: Edit,
    /// The issues it waits for.
    pub blocked_by: Vec<String>,
    /// The issue during which it was discovered.
    pub discovered_from: Option<String>,
    /// Its name in the rest of the transaction, used as `$name`.
    pub name: Option<String>,
}

impl From<Edit> for New {
    fn from(edit: Edit) -> New {
        New { edit, ..New::default() }
    }
}

impl Change {
    /// Returns the change without secrets. Refuses one that exceeds the limits of requests: all changes that a caller makes
    /// come here, on every surface.
    pub(crate) fn redacted(&self, secrets: &Secrets) -> Result<Cow<'_, Change>> {
        let cannot = |error| Error::internal("a change is not JSON").because(error);
        let mut json = serde_json::to_value(self).map_err(cannot)?;
        limits::check(&json)?;
        if !secrets.redact_json(&mut json, &[]) {
            return Ok(Cow::Borrowed(self));
        }
        tree::decode(&json).map(Cow::Owned).map_err(cannot)
    }

    /// Returns the change that a notice makes to its issue; None if the issue has another assignee by now.
    pub(crate) fn of_notice(notice: &Notice, issue: &Issue) -> Option<Change> {
        match notice.news {
            News::Finished => Some(Change::Close(issue.id.clone(), Some(notice.reason.clone()))),
            News::Abandoned => {
                let is_assignee = issue.assignee.as_deref() == Some(notice.actor.as_str());
                is_assignee.then(|| Change::Release(issue.id.clone(), true))
            }
        }
    }

    /// Returns the verb of the change.
    pub fn verb(&self) -> &'static str {
        match self {
            Change::Add(_) => "add",
            Change::Update(..) => "update",
            Change::Close(..) => "close",
            Change::Reopen(_) => "reopen",
            Change::Delete(..) => "delete",
            Change::Claim(_) => "claim",
            Change::Release(..) => "release",
            Change::Comment(..) => "comment",
            Change::Depend(..) => "depend",
            Change::Undepend(..) => "undepend",
            Change::Forced(change) => change.verb(),
        }
    }

    /// Wraps the change in [`Change::Forced`] if `force` is set.
    #[must_use]
    pub fn forced(self, force: bool) -> Change {
        if force { Change::Forced(Box::new(self)) } else { self }
    }

    /// Returns the change without [`Change::Forced`].
    pub fn plain(&self) -> &Change {
        match self {
            Change::Forced(change) => change.plain(),
            change => change,
        }
    }

    /// Names the issue by its full id, so that the change means the same later, when a prefix may be ambiguous.
    pub(super) fn with_id(&mut self, full: &str) {
        match self {
            Change::Claim(id) => *id = Some(full.to_owned()),
            Change::Update(id, _)
            | Change::Close(id, _)
            | Change::Reopen(id)
            | Change::Delete(id, _)
            | Change::Release(id, _)
            | Change::Comment(id, _)
            | Change::Depend(id, ..)
            | Change::Undepend(id, ..) => full.clone_into(id),
            Change::Add(_) => {}
            Change::Forced(change) => change.with_id(full),
        }
    }

    /// Returns whether the change is made even if another agent holds the issue.
    pub fn is_forced(&self) -> bool {
        matches!(self, Change::Forced(_) | Change::Release(_, true))
    }

    /// Returns the issue of a change that only the agent may make that holds the issue, while there is one: whether and how
    /// work on it continues, and for other agents also what it says. People may change that, and every agent may comment.
    pub fn of_holder(&self, by_agent: bool) -> Option<&str> {
        match self {
            Change::Update(id, _) | Change::Depend(id, ..) | Change::Undepend(id, ..) if by_agent => Some(id),
            Change::Close(id, _) | Change::Reopen(id) | Change::Delete(id, _) | Change::Release(id, false) => Some(id),
            Change::Update(id, edit) if edit.status.is_some() => Some(id),
            _ => None,
        }
    }
}
