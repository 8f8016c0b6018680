//! Operations that read issues.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use waypost_core::ledger::ready::Reason;
use waypost_core::op::{Effect, Operation};
use waypost_core::{Error, Result};
use waypost_ledger::{Filter, Sort, Summary};

use super::{IssueContext, IssueList, IssueOperation, IssueRecord};
use crate::claims;

/// Lists issues.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListIssues {
    /// Statuses; empty for all.
    #[serde(default)]
    statuses: Vec<String>,
    /// Types; empty for all.
    #[serde(default)]
    types: Vec<String>,
    /// Labels that an issue must all have.
    #[serde(default)]
    labels: Vec<String>,
    /// Assignee; an empty string for unassigned issues.
    #[serde(default)]
    assignee: Option<String>,
    /// Parent issue; an empty string for issues without a parent.
    #[serde(default)]
    parent: Option<String>,
    /// Text in the title or the description.
    #[serde(default)]
    text: Option<String>,
    /// Include closed issues.
    #[serde(default)]
    closed: bool,
    /// Maximum number of results; 0 for all.
    #[serde(default)]
    limit: Option<usize>,
    /// Repository whose ledger to use: a path, or the name of a configured one.
    #[serde(default)]
    repo: Option<String>,
}

impl Operation for ListIssues {
    const NAME: &'static str = "list_issues";
    const SUMMARY: &'static str = "List issues";
    const EFFECT: Effect = Effect::Read;
    type Answer = IssueList;
}

impl IssueOperation for ListIssues {
    fn repo(&self) -> Option<&str> {
        self.repo.as_deref()
    }

    fn run(self, context: &mut IssueContext<'_>) -> Result<IssueList> {
        let filter = Filter {
            statuses: self.statuses,
            types: self.types,
            labels: self.labels,
            assignee: self.assignee,
            text: self.text,
            closed: self.closed,
            ..Filter::default()
        };
        context.list(self.limit.unwrap_or(50), |index, limit| {
            let parent = match self.parent.as_deref() {
                Some(parent) if !parent.is_empty() => Some(index.find(parent)?),
                other => other.map(str::to_owned),
            };
            index.list(&Filter { parent, ..filter.clone() }, Sort::Priority, false, limit)
        })
    }
}

/// Lists ready issues, by priority.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadyIssues {
    /// Maximum number of results; 0 for all.
    #[serde(default)]
    limit: Option<usize>,
    /// Repository whose ledger to use: a path, or the name of a configured one.
    #[serde(default)]
    repo: Option<String>,
}

impl Operation for ReadyIssues {
    const NAME: &'static str = "ready_issues";
    const SUMMARY: &'static str = "List ready issues";
    const EFFECT: Effect = Effect::Read;
    type Answer = IssueList;
}

impl IssueOperation for ReadyIssues {
    fn repo(&self) -> Option<&str> {
        self.repo.as_deref()
    }

    fn run(self, context: &mut IssueContext<'_>) -> Result<IssueList> {
        let (held, now) = (claims::held_by_others(context.place)?, context.ledger.now());
        context.list(self.limit.unwrap_or(20), |index, limit| claims::ready(index, &held, now, limit))
    }
}

/// Lists blocked issues with their blockers.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BlockedIssues {
    /// Repository whose ledger to use: a path, or the name of a configured one.
    #[serde(default)]
    repo: Option<String>,
}

impl Operation for BlockedIssues {
    const NAME: &'static str = "blocked_issues";
    const SUMMARY: &'static str = "List blocked issues";
    const EFFECT: Effect = Effect::Read;
    type Answer = BlockedList;
}

impl IssueOperation for BlockedIssues {
    fn repo(&self) -> Option<&str> {
        self.repo.as_deref()
    }

    fn run(self, context: &mut IssueContext<'_>) -> Result<BlockedList> {
        let now = context.ledger.now();
        let found = context.with_index(|index| {
            let blocked = index.blocked(now)?;
            let obstacles = index.all_obstacles(blocked.iter().map(|summary| summary.id.as_str()), now)?;
            let page = |(summary, reasons): (&Summary, Vec<Reason>)| {
                Ok((index.record(summary)?, reasons.iter().map(ToString::to_string).collect()))
            };
            blocked.iter().zip(obstacles).map(page).collect::<Result<Vec<_>>>()
        })?;
        let shown = |((record, number), reasons)| Ok(BlockedIssue { issue: context.shown(&record, number)?, reasons });
        Ok(BlockedList { issues: found.into_iter().map(shown).collect::<Result<_>>()? })
    }
}

/// Searches issues, including closed ones; every word must match.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchIssues {
    /// Words to search for.
    text: String,
    /// Maximum number of results; 0 for all.
    #[serde(default)]
    limit: Option<usize>,
    /// Repository whose ledger to use: a path, or the name of a configured one.
    #[serde(default)]
    repo: Option<String>,
}

impl Operation for SearchIssues {
    const NAME: &'static str = "search_issues";
    const SUMMARY: &'static str = "Search issues, including closed ones; every word must match";
    const EFFECT: Effect = Effect::Read;
    type Answer = IssueList;
}

impl IssueOperation for SearchIssues {
    fn repo(&self) -> Option<&str> {
        self.repo.as_deref()
    }

    fn run(self, context: &mut IssueContext<'_>) -> Result<IssueList> {
        let words: Vec<String> = self.text.split_whitespace().map(str::to_owned).collect();
        if words.is_empty() {
            return Err(Error::invalid("text must contain at least one word"));
        }
        context.ledger.make_searchable(|| {})?;
        context.list(self.limit.unwrap_or(50), |index, limit| index.search(&words, limit))
    }
}

/// Shows an issue.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ShowIssue {
    /// Id of the issue, or a unique prefix.
    issue: String,
    /// Repository whose ledger to use: a path, or the name of a configured one.
    #[serde(default)]
    repo: Option<String>,
}

impl Operation for ShowIssue {
    const NAME: &'static str = "show_issue";
    const SUMMARY: &'static str = "Show an issue";
    const EFFECT: Effect = Effect::Read;
    type Answer = IssueRecord;
}

impl IssueOperation for ShowIssue {
    fn repo(&self) -> Option<&str> {
        self.repo.as_deref()
    }

    fn run(self, context: &mut IssueContext<'_>) -> Result<IssueRecord> {
        match context.with_index(|index| index.get_by_prefix(&self.issue)) {
            Ok(entry) => context.shown(&entry.record, entry.ledger),
            Err(error) => context.find_in_history(error, &self.issue),
        }
    }
}

/// Shows an issue with its dependents, its parts, and the reasons why it is not ready.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplainIssue {
    /// Id of the issue, or a unique prefix.
    issue: String,
    /// Repository whose ledger to use: a path, or the name of a configured one.
    #[serde(default)]
    repo: Option<String>,
}

impl Operation for ExplainIssue {
    const NAME: &'static str = "explain_issue";
    const SUMMARY: &'static str = "Show an issue, and why it is or is not ready";
    const EFFECT: Effect = Effect::Read;
    type Answer = IssuePage;
}

impl IssueOperation for ExplainIssue {
    fn repo(&self) -> Option<&str> {
        self.repo.as_deref()
    }

    fn run(self, context: &mut IssueContext<'_>) -> Result<IssuePage> {
        let (held, now) = (claims::held_by_others(context.place)?, context.ledger.now());
        let found = context.with_index(|index| {
            let entry = index.get_by_prefix(&self.issue)?;
            let id = &entry.issue.id;
            let reasons = claims::reasons(&held, id, &index.obstacles(id, now)?);
            let waiting = index.dependents(id)?.into_iter().filter(|(_, kind)| kind == "blocks").map(|(id, _)| id);
            let (waiting, parts) = (waiting.collect::<Vec<_>>(), index.parts(id)?);
            Ok((entry, reasons, waiting, parts))
        });
        match found {
            Ok((entry, reasons, waiting, parts)) => {
                let issue = context.shown(&entry.record, entry.ledger)?;
                Ok(IssuePage { issue, ready: reasons.is_empty(), reasons, waiting, parts })
            }
            Err(error) => {
                let issue = context.find_in_history(error, &self.issue)?;
                Ok(IssuePage { issue, ready: false, reasons: Vec::new(), waiting: Vec::new(), parts: Vec::new() })
            }
        }
    }
}

/// A blocked issue.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct BlockedIssue {
    /// The issue.
    issue: IssueRecord,
    /// Reasons why it is blocked.
    reasons: Vec<String>,
}

/// Blocked issues.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct BlockedList {
    /// The issues.
    issues: Vec<BlockedIssue>,
}

/// An issue with its computed state.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct IssuePage {
    /// The issue.
    issue: IssueRecord,
    /// Whether it is ready.
    ready: bool,
    /// Reasons why it is not ready.
    reasons: Vec<String>,
    /// Issues that it blocks.
    waiting: Vec<String>,
    /// Its child issues.
    parts: Vec<String>,
}
