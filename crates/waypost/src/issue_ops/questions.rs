//! Questions about issues.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use waypost_core::ledger::ready::Reason;
use waypost_core::op::Effect;
use waypost_core::{Error, Result};
use waypost_ledger::{Filter, Sort, Summary};

use super::{IssueContext, IssueList, IssueRecord, Question};
use crate::claims;

/// Lists issues.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListIssues {
    /// Only these statuses.
    #[serde(default)]
    statuses: Vec<String>,
    /// Only these types.
    #[serde(default)]
    types: Vec<String>,
    /// Only those that have all these labels.
    #[serde(default)]
    labels: Vec<String>,
    /// Only what this one does; an empty text for what nobody does.
    #[serde(default)]
    assignee: Option<String>,
    /// Only the parts of this issue; an empty text for those that are part of none.
    #[serde(default)]
    parent: Option<String>,
    /// Only those with this text in title or description.
    #[serde(default)]
    text: Option<String>,
    /// Closed ones too.
    #[serde(default)]
    closed: bool,
    /// At most this many; 0 for all.
    #[serde(default)]
    limit: Option<usize>,
    /// Only the ledger of this repository: a path, or the name of one that is read.
    #[serde(default)]
    repo: Option<String>,
}

impl Question for ListIssues {
    const NAME: &'static str = "list_issues";
    const SUMMARY: &'static str = "List issues";
    const EFFECT: Effect = Effect::Read;
    type Answer = IssueList;

    fn repo(&self) -> Option<&str> {
        self.repo.as_deref()
    }

    fn run(self, desk: &mut IssueContext<'_>) -> Result<IssueList> {
        let filter = Filter {
            statuses: self.statuses,
            types: self.types,
            labels: self.labels,
            assignee: self.assignee,
            text: self.text,
            closed: self.closed,
            ..Filter::default()
        };
        desk.list(self.limit.unwrap_or(50), |index, limit| {
            let parent = match self.parent.as_deref() {
                Some(parent) if !parent.is_empty() => Some(index.find(parent)?),
                other => other.map(str::to_owned),
            };
            index.list(&Filter { parent, ..filter.clone() }, Sort::Priority, false, limit)
        })
    }
}

/// Lists what can be worked on now, the first one first.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadyIssues {
    /// At most this many; 0 for all.
    #[serde(default)]
    limit: Option<usize>,
    /// Only the ledger of this repository: a path, or the name of one that is read.
    #[serde(default)]
    repo: Option<String>,
}

impl Question for ReadyIssues {
    const NAME: &'static str = "ready_issues";
    const SUMMARY: &'static str = "List issues that can be worked on now";
    const EFFECT: Effect = Effect::Read;
    type Answer = IssueList;

    fn repo(&self) -> Option<&str> {
        self.repo.as_deref()
    }

    fn run(self, desk: &mut IssueContext<'_>) -> Result<IssueList> {
        let (held, now) = (claims::held_by_others(desk.place)?, desk.ledger.now());
        desk.list(self.limit.unwrap_or(20), |index, limit| {
            let mut ready = index.ready(now, limit.map(|limit| limit.saturating_add(held.len())))?;
            ready.retain(|issue| !held.contains_key(&issue.id));
            ready.truncate(limit.unwrap_or(usize::MAX));
            Ok(ready)
        })
    }
}

/// Lists issues that wait for others, and what for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BlockedIssues {
    /// Only the ledger of this repository: a path, or the name of one that is read.
    #[serde(default)]
    repo: Option<String>,
}

impl Question for BlockedIssues {
    const NAME: &'static str = "blocked_issues";
    const SUMMARY: &'static str = "List issues that wait for others";
    const EFFECT: Effect = Effect::Read;
    type Answer = BlockedList;

    fn repo(&self) -> Option<&str> {
        self.repo.as_deref()
    }

    fn run(self, desk: &mut IssueContext<'_>) -> Result<BlockedList> {
        let now = desk.ledger.now();
        let found = desk.with_index(|index| {
            let blocked = index.blocked(now)?;
            let obstacles = index.all_obstacles(blocked.iter().map(|summary| summary.id.as_str()), now)?;
            let page = |(summary, reasons): (&Summary, Vec<Reason>)| {
                Ok((index.record(summary)?, reasons.iter().map(ToString::to_string).collect()))
            };
            blocked.iter().zip(obstacles).map(page).collect::<Result<Vec<_>>>()
        })?;
        let shown = |((record, number), reasons)| Ok(BlockedIssue { issue: desk.shown(&record, number)?, reasons });
        Ok(BlockedList { issues: found.into_iter().map(shown).collect::<Result<_>>()? })
    }
}

/// Finds issues in which all words stand, closed ones too.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchIssues {
    /// The words.
    text: String,
    /// At most this many; 0 for all.
    #[serde(default)]
    limit: Option<usize>,
    /// Only the ledger of this repository: a path, or the name of one that is read.
    #[serde(default)]
    repo: Option<String>,
}

impl Question for SearchIssues {
    const NAME: &'static str = "search_issues";
    const SUMMARY: &'static str = "Find issues by their words";
    const EFFECT: Effect = Effect::Read;
    type Answer = IssueList;

    fn repo(&self) -> Option<&str> {
        self.repo.as_deref()
    }

    fn run(self, desk: &mut IssueContext<'_>) -> Result<IssueList> {
        let words: Vec<String> = self.text.split_whitespace().map(str::to_owned).collect();
        if words.is_empty() {
            return Err(Error::invalid("a search needs words"));
        }
        desk.ledger.make_searchable(|| {})?;
        desk.list(self.limit.unwrap_or(50), |index, limit| index.search(&words, limit))
    }
}

/// Shows an issue.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ShowIssue {
    /// Its id, or the beginning of it.
    issue: String,
    /// Only the ledger of this repository: a path, or the name of one that is read.
    #[serde(default)]
    repo: Option<String>,
}

impl Question for ShowIssue {
    const NAME: &'static str = "show_issue";
    const SUMMARY: &'static str = "Show an issue";
    const EFFECT: Effect = Effect::Read;
    type Answer = IssueRecord;

    fn repo(&self) -> Option<&str> {
        self.repo.as_deref()
    }

    fn run(self, desk: &mut IssueContext<'_>) -> Result<IssueRecord> {
        match desk.with_index(|index| index.get_by_prefix(&self.issue)) {
            Ok(entry) => desk.shown(&entry.record, entry.ledger),
            Err(error) => desk.gone(error, &self.issue),
        }
    }
}

/// Shows an issue with what waits for it, what it consists of, and why it is or is not ready.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplainIssue {
    /// Its id, or the beginning of it.
    issue: String,
    /// Only the ledger of this repository: a path, or the name of one that is read.
    #[serde(default)]
    repo: Option<String>,
}

impl Question for ExplainIssue {
    const NAME: &'static str = "explain_issue";
    const SUMMARY: &'static str = "Show an issue, and why it is or is not ready";
    const EFFECT: Effect = Effect::Read;
    type Answer = IssuePage;

    fn repo(&self) -> Option<&str> {
        self.repo.as_deref()
    }

    fn run(self, desk: &mut IssueContext<'_>) -> Result<IssuePage> {
        let (held, now) = (claims::held_by_others(desk.place)?, desk.ledger.now());
        let found = desk.with_index(|index| {
            let entry = index.get_by_prefix(&self.issue)?;
            let id = &entry.issue.id;
            let mut reasons: Vec<_> = index.obstacles(id, now)?.iter().map(ToString::to_string).collect();
            reasons.extend(held.get(id).map(|(holder, until)| format!("leased to {holder} until {until}")));
            let waiting = index.dependents(id)?.into_iter().filter(|(_, kind)| kind == "blocks").map(|(id, _)| id);
            let (waiting, parts) = (waiting.collect::<Vec<_>>(), index.parts(id)?);
            Ok((entry, reasons, waiting, parts))
        });
        match found {
            Ok((entry, reasons, waiting, parts)) => {
                let issue = desk.shown(&entry.record, entry.ledger)?;
                Ok(IssuePage { issue, ready: reasons.is_empty(), reasons, waiting, parts })
            }
            Err(error) => {
                let issue = desk.gone(error, &self.issue)?;
                Ok(IssuePage { issue, ready: false, reasons: Vec::new(), waiting: Vec::new(), parts: Vec::new() })
            }
        }
    }
}

/// An issue that waits for others.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct BlockedIssue {
    /// The issue.
    issue: IssueRecord,
    /// What it waits for, in words.
    reasons: Vec<String>,
}

/// Issues that wait for others.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct BlockedList {
    /// The issues.
    issues: Vec<BlockedIssue>,
}

/// An issue, and what is computed about it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct IssuePage {
    /// The issue.
    issue: IssueRecord,
    /// Whether it can be worked on now.
    ready: bool,
    /// Why not, in words.
    reasons: Vec<String>,
    /// The issues that wait for it.
    waiting: Vec<String>,
    /// The issues it consists of.
    parts: Vec<String>,
}
