//! Operations that read issues.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use waypost_core::ledger::issue::{EPHEMERAL, NOT_WORK, TEMPLATE, parse_time_ago};
use waypost_core::ledger::vocabulary;
use waypost_core::op::{Effect, Operation};
use waypost_core::page::{self, Cursor};
use waypost_core::{Error, Result};
use waypost_ledger::{Field, Filter, Index, MAX_SEARCH, Order, Position, Range, Sort, Summary, Window};

use super::budget::fit;
use super::{IssueContext, IssueList, IssueOperation, IssueQuery, IssueRecord, Selector};
use crate::issues::claims;

/// The values of the filter on visibility.
const VISIBILITIES: &[&str] = &["local", "proposed", "canonical"];

/// Lists issues. A time is a day, a time or an age: 2026-12-01, 2026-12-01T09:00:00Z, 14d, 36h, 2w; +3d is in the future.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ListIssues {
    /// Statuses; empty for all.
    pub statuses: Vec<String>,
    /// Types; empty for all.
    pub types: Vec<String>,
    /// Labels that an issue must all have.
    pub labels: Vec<String>,
    /// Labels of which an issue must have at least one.
    pub any_label: Vec<String>,
    /// Labels that an issue must not have.
    pub no_label: Vec<String>,
    /// Priorities from 0 (highest) to 4 (lowest); empty for all.
    pub priorities: Vec<u8>,
    /// Assignee; an empty string for unassigned issues.
    pub assignee: Option<String>,
    /// Parent issue; an empty string for issues without a parent.
    pub parent: Option<String>,
    /// Visibility: local, proposed or canonical.
    pub visibility: Option<String>,
    /// Author; an empty string for issues without one.
    pub author: Option<String>,
    /// Text in the title or the description.
    pub text: Option<String>,
    /// Created at or after this time.
    pub created_after: Option<String>,
    /// Created before this time.
    pub created_before: Option<String>,
    /// Last updated at or after this time.
    pub updated_after: Option<String>,
    /// Last updated before this time.
    pub updated_before: Option<String>,
    /// Closed at or after this time; includes closed issues.
    pub closed_after: Option<String>,
    /// Closed before this time; includes closed issues.
    pub closed_before: Option<String>,
    /// Due at or after this time.
    pub due_after: Option<String>,
    /// Due before this time.
    pub due_before: Option<String>,
    /// Include closed issues.
    pub closed: bool,
    /// Sort key: priority, created, updated, closed, due, id or title [default: priority].
    pub sort: Option<String>,
    /// Reverse the order.
    pub reverse: bool,
    /// The position after which the page begins: `next` of the page before.
    pub after: Option<Cursor<Position>>,
    /// Maximum number of results.
    #[schemars(range(min = 1))]
    pub limit: Option<usize>,
    /// Repository whose ledger to use: the id or name of a configured one, or a path except
    /// over HTTP.
    pub repo: Option<String>,
}

impl ListIssues {
    /// Returns the filter for the index. The parent's id is still a prefix.
    pub fn filter(&self, context: &IssueContext) -> Result<Filter> {
        let now = context.now;
        let range = |from: &Option<String>, until: &Option<String>| -> Result<Range> {
            let moment = |text: &Option<String>| text.as_deref().map(|text| parse_time_ago(text, now)).transpose();
            Ok(Range { from: moment(from)?, until: moment(until)? })
        };
        let closed_at = range(&self.closed_after, &self.closed_before)?;
        for priority in &self.priorities {
            vocabulary::priority(&priority.to_string())?;
        }
        if let Some(unknown) = self.visibility.as_deref().filter(|name| !VISIBILITIES.contains(name)) {
            return Err(
                Error::invalid(format!("unknown visibility {unknown:?}")).hint("use local, proposed or canonical")
            );
        }
        Ok(Filter {
            deleted: false,
            statuses: context.statuses(&self.statuses)?,
            closed: self.closed || closed_at != Range::default(),
            types: context.types(&self.types)?,
            labels: context.labels(&self.labels)?,
            any_label: context.labels(&self.any_label)?,
            without_labels: context.labels(&self.no_label)?,
            priorities: self.priorities.clone(),
            assignee: context.person(Field::Assignee, self.assignee.as_deref())?,
            parent: self.parent.clone(),
            visibility: self.visibility.clone(),
            author: context.person(Field::Author, self.author.as_deref())?,
            text: self.text.clone(),
            created: range(&self.created_after, &self.created_before)?,
            updated: range(&self.updated_after, &self.updated_before)?,
            closed_at,
            due: range(&self.due_after, &self.due_before)?,
        })
    }
}

/// The words of filters, as every surface resolves them. A word that no issue can have is an error with those that one
/// can have; a label or a person that no issue has may come later, and is only noted.
impl IssueContext {
    fn statuses(&self, given: &[String]) -> Result<Vec<String>> {
        let statuses = &self.ledger.terms().statuses;
        let words: Vec<String> = vocabulary::words(given).iter().map(|word| statuses.spelled(word)).collect();
        self.known(Field::Status, "status", words, &statuses.names().collect::<Vec<_>>())
    }

    fn types(&self, given: &[String]) -> Result<Vec<String>> {
        let known = [vocabulary::TYPES, NOT_WORK, &[EPHEMERAL, TEMPLATE]].concat();
        self.known(Field::Type, "type", vocabulary::words(given), &known)
    }

    /// Refuses words that are neither known nor in a ledger.
    fn known(&self, field: Field, what: &str, words: Vec<String>, known: &[&str]) -> Result<Vec<String>> {
        for word in words.iter().filter(|word| !known.contains(&word.as_str())) {
            if !self.with_index(|index| index.has_word(field, word))? {
                let mut used = self.with_index(|index| index.words_of(field))?;
                used.retain(|word| !known.contains(&word.as_str()));
                let all: Vec<&str> = known.iter().copied().chain(used.iter().map(String::as_str)).collect();
                return Err(Error::invalid(format!("no issue can have the {what} {word:?}"))
                    .hint(format!("use {}", all.join(", "))));
            }
        }
        Ok(words)
    }

    fn labels(&self, given: &[String]) -> Result<Vec<String>> {
        let mut labels = Vec::new();
        for text in given {
            // A label of another tool may have a comma.
            let is_label = text.contains(',') && self.with_index(|index| index.has_word(Field::Label, text))?;
            let words = if is_label { vec![text.clone()] } else { vocabulary::words(std::slice::from_ref(text)) };
            for label in words {
                self.note_unused(Field::Label, "label", &label)?;
                labels.push(label);
            }
        }
        Ok(labels)
    }

    fn person(&self, field: Field, given: Option<&str>) -> Result<Option<String>> {
        let Some(name) = given.map(|name| vocabulary::name(name, self.ledger.actor())) else { return Ok(None) };
        if !name.is_empty() {
            self.note_unused(field, if field == Field::Author { "author" } else { "assignee" }, name)?;
        }
        Ok(Some(name.to_owned()))
    }

    fn note_unused(&self, field: Field, what: &str, word: &str) -> Result<()> {
        if !self.with_index(|index| index.has_word(field, word))? {
            self.warn(format!("no issue has the {what} {word:?}"));
        }
        Ok(())
    }
}

impl ListIssues {
    fn sort(&self) -> Result<Sort> {
        Ok(self.sort.as_deref().map(Sort::parse).transpose()?.unwrap_or_default())
    }
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

    fn run(self, context: &IssueContext) -> Result<IssueList> {
        context.list(&self)
    }
}

impl IssueQuery for ListIssues {
    fn limit(&self) -> usize {
        self.limit.unwrap_or(50)
    }

    fn after(&self) -> Option<Position> {
        self.after.as_ref().map(|Cursor(position)| position.clone())
    }

    fn position(&self, index: &Index, issue: &Summary) -> Result<Option<Position>> {
        index.position(&self.sort()?.order(self.reverse), &issue.id).map(Some)
    }

    fn selector<'a>(&'a self, context: &'a IssueContext) -> Result<Selector<'a>> {
        let (filter, sort) = (self.filter(context)?, self.sort()?);
        if filter.uses_lists(sort) {
            context.ledger.index_lists()?;
        }
        Ok(Box::new(move |index, window| index.list(&filter.with_full_parent(index)?, sort, self.reverse, window)))
    }
}

/// Lists ready issues, by priority.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ListReadyIssues {
    /// The position after which the page begins: `next` of the page before.
    pub after: Option<Cursor<Position>>,
    /// Maximum number of results.
    #[schemars(range(min = 1))]
    pub limit: Option<usize>,
    /// Types, also of records that are not work, such as `agent` or `ephemeral`; empty for all issues that are work.
    pub types: Vec<String>,
    /// Repository whose ledger to use: the id or name of a configured one, or a path except
    /// over HTTP.
    pub repo: Option<String>,
}

impl Operation for ListReadyIssues {
    const NAME: &'static str = "list_ready_issues";
    const SUMMARY: &'static str = "List ready issues";
    const EFFECT: Effect = Effect::Read;
    type Answer = IssueList;
}

impl IssueOperation for ListReadyIssues {
    fn repo(&self) -> Option<&str> {
        self.repo.as_deref()
    }

    fn run(self, context: &IssueContext) -> Result<IssueList> {
        context.list(&self)
    }
}

impl IssueQuery for ListReadyIssues {
    fn limit(&self) -> usize {
        self.limit.unwrap_or(20)
    }

    fn after(&self) -> Option<Position> {
        self.after.as_ref().map(|Cursor(position)| position.clone())
    }

    fn position(&self, index: &Index, issue: &Summary) -> Result<Option<Position>> {
        index.position(&Order::of_ready(), &issue.id).map(Some)
    }

    fn selector<'a>(&'a self, context: &'a IssueContext) -> Result<Selector<'a>> {
        let (held, types) = (context.held()?, context.types(&self.types)?);
        Ok(Box::new(move |index, window| claims::ready(index, &context.ledger, held, &types, window)))
    }
}

/// Lists blocked issues with their blockers.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListBlockedIssues {
    /// The position after which the page begins: `next` of the page before.
    #[serde(default)]
    after: Option<Cursor<Position>>,
    /// Maximum number of results.
    #[serde(default = "page::default_limit")]
    #[schemars(range(min = 1))]
    limit: u32,
    /// Repository whose ledger to use: the id or name of a configured one, or a path except
    /// over HTTP.
    #[serde(default)]
    repo: Option<String>,
}

impl Operation for ListBlockedIssues {
    const NAME: &'static str = "list_blocked_issues";
    const SUMMARY: &'static str = "List blocked issues";
    const EFFECT: Effect = Effect::Read;
    type Answer = BlockedList;
}

impl IssueOperation for ListBlockedIssues {
    fn repo(&self) -> Option<&str> {
        self.repo.as_deref()
    }

    fn run(self, context: &IssueContext) -> Result<BlockedList> {
        let fetched = usize::try_from(page::fetched(self.limit)?).unwrap_or(usize::MAX);
        let window = Window { limit: Some(fetched), after: self.after.map(|Cursor(position)| position) };
        let (found, next) = context.with_index(|index| {
            let mut blocked = claims::blocked(index, context.now, window.clone())?;
            let last = page::cut(&mut blocked, self.limit, |(summary, _)| summary.id.clone());
            let next = last.map(|Cursor(id)| index.position(&Order::of_blocked(), &id)).transpose()?;
            let found = blocked.into_iter().map(|(summary, reasons)| Ok((index.record(&summary)?, reasons)));
            Ok((found.collect::<Result<Vec<_>>>()?, next.map(Cursor)))
        })?;
        let shown = |((record, ledger), reasons)| Ok(BlockedIssue { issue: context.shown(&record, ledger)?, reasons });
        Ok(BlockedList { issues: found.into_iter().map(shown).collect::<Result<_>>()?, next })
    }
}

/// Searches issues, including closed ones; every word must match.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchIssues {
    /// Words to search for.
    #[schemars(length(max = MAX_SEARCH))]
    pub text: String,
    /// The position after which the page begins: `next` of the page before.
    #[serde(default)]
    pub after: Option<Cursor<Position>>,
    /// Maximum number of results.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub limit: Option<usize>,
    /// Repository whose ledger to use: the id or name of a configured one, or a path except
    /// over HTTP.
    #[serde(default)]
    pub repo: Option<String>,
}

impl SearchIssues {
    fn words(&self) -> Vec<String> {
        self.text.split_whitespace().map(str::to_owned).collect()
    }
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

    fn run(self, context: &IssueContext) -> Result<IssueList> {
        context.list(&self)
    }
}

impl IssueQuery for SearchIssues {
    fn limit(&self) -> usize {
        self.limit.unwrap_or(50)
    }

    fn after(&self) -> Option<Position> {
        self.after.as_ref().map(|Cursor(position)| position.clone())
    }

    fn position(&self, index: &Index, issue: &Summary) -> Result<Option<Position>> {
        index.search_position(&self.words(), &issue.id, self.after().as_ref()).map(Some)
    }

    fn selector<'a>(&'a self, context: &'a IssueContext) -> Result<Selector<'a>> {
        let words = self.words();
        if words.is_empty() {
            return Err(Error::invalid("text must contain at least one word"));
        }
        context.ledger.make_searchable(|| {})?;
        Ok(Box::new(move |index, window| index.search(&words, window)))
    }
}

/// Shows an issue.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ShowIssue {
    /// Id of the issue, or a unique prefix.
    issue: String,
    /// Repository whose ledger to use: the id or name of a configured one, or a path except
    /// over HTTP.
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

    fn run(self, context: &IssueContext) -> Result<IssueRecord> {
        match context.with_index(|index| index.get_by_prefix(&self.issue)) {
            Ok(entry) => context.shown(&entry.record, entry.ledger),
            Err(error) => context.shown(&context.find_in_history(error, &self.issue)?, 0),
        }
    }
}

/// Shows an issue with its dependents, its parts, and the reasons why it is not ready.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplainIssue {
    /// Id of the issue, or a unique prefix.
    issue: String,
    /// Maximum size of the issue, in tokens [default: unlimited]. Long fields are shortened, and comments left out.
    #[serde(default)]
    #[schemars(range(min = 100))]
    budget: Option<u32>,
    /// The position after which the comments begin: `next` of the answer before. Long fields are left out then.
    #[serde(default)]
    after: Option<Cursor<usize>>,
    /// Repository whose ledger to use: the id or name of a configured one, or a path except
    /// over HTTP.
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

    fn run(self, context: &IssueContext) -> Result<IssuePage> {
        let mut found = context.details(&self.issue)?;
        let budget = self.budget.map_or(u32::MAX, |budget| budget.max(100));
        let (mut left_out, mut next) = (Vec::new(), None);
        if self.budget.is_some() || self.after.is_some() {
            let after = self.after.map_or(0, |Cursor(after)| after);
            (left_out, next) = fit(&mut found.record.0, budget, after)?;
        }
        let mut ids = |issues: Vec<Summary>, what: &str| -> Vec<String> {
            let max = usize::try_from(budget / 40).unwrap_or(usize::MAX);
            if issues.len() > max {
                left_out.push(format!("{} of {} {what}", issues.len() - max, issues.len()));
            }
            issues.into_iter().take(max).map(|issue| issue.id).collect()
        };
        Ok(IssuePage {
            waiting: ids(found.waiting, "issues that it blocks"),
            parts: ids(found.parts, "child issues"),
            issue: context.shown(&found.record.0, found.record.1)?,
            ready: found.is_ready,
            reasons: found.reasons,
            left_out,
            next: next.map(Cursor),
        })
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
    /// The position of the next page: `after` of the next call. Null on the last page.
    #[serde(default)]
    next: Option<Cursor<Position>>,
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
    /// What the budget left out.
    #[serde(default)]
    left_out: Vec<String>,
    /// The position of the next comments: `after` of the next call. Null if no comments are left out.
    #[serde(default)]
    next: Option<Cursor<usize>>,
    /// Its child issues.
    parts: Vec<String>,
}
