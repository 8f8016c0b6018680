//! Plans made from issues: the open parts of an epic and their dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use serde_json::Value;
use waypost_core::ledger::issue::Issue;
use waypost_core::ledger::ready::NO_AUTO_CLAIM;
use waypost_core::ledger::vocabulary::{Category, Terms};
use waypost_core::time::Timestamp;
use waypost_core::work::plan::{Plan, PlannedTask, check_size};
use waypost_core::{Error, Result};
use waypost_ledger::Index;

/// Maximum total number of dependencies of a plan.
const MAX_DEPENDENCIES: usize = 200_000;

/// Maximum number of names in a warning.
const MAX_LISTED_NAMES: usize = 20;

/// A plan made from issues.
#[derive(Clone, Debug)]
pub struct FromIssue {
    /// The issue that the plan was made from.
    pub issue: Issue,
    /// The plan. The name of each task is the id of its issue.
    pub plan: Plan,
    /// Warnings for the user who starts it.
    pub warnings: Vec<String>,
}

/// Makes a plan from an issue: an epic gives a task for each of its open parts, any other issue also one for itself.
///
/// Tasks become claimable in the order in which the issues would become ready in the ledger. So an epic is not a task, an
/// issue that waits for an epic waits for its parts, and a part waits for the blockers of its ancestors.
pub fn plan_epic(index: &Index, terms: &Terms, id: &str, now: Timestamp) -> Result<FromIssue> {
    let root = index.get_by_prefix(id)?.issue;
    if terms.statuses.category(&root.status).is_over() {
        return Err(Error::conflict(format!("issue {} is {}", root.id, root.status))
            .hint(format!("reopen it: way reopen {}", root.id)));
    }
    let mut collector =
        Collector { index, terms, now, members: Vec::new(), known: BTreeSet::new(), left_out: Vec::new(), tasks: 0 };
    collector.add(root.clone())?;
    let members = collector.members;
    let tasks: Vec<&str> =
        members.iter().filter(|member| !member.is_epic).map(|member| member.issue.id.as_str()).collect();
    if tasks.is_empty() {
        return Err(Error::conflict(format!("no part of epic {} is open", root.id))
            .hint(format!("add one: way add TITLE --parent {}", root.id)));
    }
    check_size(tasks.len())?;
    let mut warnings = Vec::new();
    if !collector.left_out.is_empty() {
        warnings.push(format!("left out, because deferred or frozen: {}", listed(&collector.left_out)));
    }
    let chosen = members.iter().filter(|member| !member.is_epic && member.issue.has_label(NO_AUTO_CLAIM));
    let chosen: Vec<_> = chosen.map(|member| member.issue.id.as_str()).collect();
    if !chosen.is_empty() {
        warnings.push(format!("labelled {NO_AUTO_CLAIM}, but any agent may claim the task: {}", listed(&chosen)));
    }
    let by_id: BTreeMap<&str, &Member> = members.iter().map(|member| (member.issue.id.as_str(), member)).collect();
    let mut outside: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    // The tasks that the parts of each issue wait for: blockers of the issue and of its ancestors.
    let mut waits: BTreeMap<&str, Rc<BTreeSet<&str>>> = BTreeMap::new();
    let mut planned = Vec::new();
    let mut budget = Budget { root: &root, left: MAX_DEPENDENCIES };
    for member in &members {
        let mut on = member.parent.as_deref().and_then(|parent| waits.get(parent)).cloned().unwrap_or_default();
        for blocker in member.issue.blockers() {
            let new = match by_id.get(blocker) {
                Some(blocker) => &tasks[blocker.tasks.clone()],
                None if is_open(index, terms, blocker)? => {
                    outside.entry(blocker).or_default().insert(&member.issue.id);
                    &[]
                }
                None => &[],
            };
            budget.spend(new.len())?;
            if new.iter().any(|task| !on.contains(task)) {
                budget.spend(on.len())?;
                Rc::make_mut(&mut on).extend(new);
            }
        }
        if !member.is_epic {
            budget.spend(on.len())?;
            let others = on.iter().filter(|other| **other != member.issue.id);
            planned.push(task(&member.issue, others.map(|other| (*other).to_owned()).collect()));
        }
        waits.insert(&member.issue.id, on);
    }
    for (blocker, waiting) in &outside {
        let waiting: Vec<&str> = waiting.iter().copied().collect();
        warnings.push(format!("{} waits for {blocker}, which is open and not part of this workflow", listed(&waiting)));
    }
    let plan = Plan { summary: Some(root.title.clone()), max_parallel: None, base: None, tasks: planned };
    Ok(FromIssue { issue: root, plan, warnings })
}

/// Refuses a plan with so many dependencies that storing it would take minutes.
struct Budget<'a> {
    root: &'a Issue,
    left: usize,
}

impl Budget<'_> {
    fn spend(&mut self, dependencies: usize) -> Result<()> {
        self.left = self.left.checked_sub(dependencies).ok_or_else(|| {
            let root = &self.root.id;
            Error::conflict(format!("the tasks of {root} would have more than {MAX_DEPENDENCIES} dependencies"))
                .hint("make one workflow for each part: way workflow from-issue PART")
        })?;
        Ok(())
    }
}

/// Joins at most [`MAX_LISTED_NAMES`] names.
fn listed(names: &[impl AsRef<str>]) -> String {
    let (first, rest) = names.split_at(names.len().min(MAX_LISTED_NAMES));
    let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
    if rest.is_empty() { first.join(", ") } else { format!("{} and {} more", first.join(", "), rest.len()) }
}

struct Member {
    issue: Issue,
    parent: Option<String>,
    is_epic: bool,
    /// The range of tasks that it stands for: itself, or for an epic all of its parts.
    tasks: Range<usize>,
}

struct Collector<'a> {
    index: &'a Index,
    terms: &'a Terms,
    now: Timestamp,
    members: Vec<Member>,
    known: BTreeSet<String>,
    left_out: Vec<String>,
    /// Number of members that are tasks.
    tasks: usize,
}

/// A step of the depth-first walk over issues.
enum Step {
    Enter(Box<Issue>, Option<String>),
    /// All parts of the member at this position were added.
    Leave(usize),
}

impl Collector<'_> {
    /// Adds an issue and its open parts: the most urgent first, then the oldest. The parts of an issue follow it.
    fn add(&mut self, root: Issue) -> Result<()> {
        let mut stack = vec![Step::Enter(Box::new(root), None)];
        while let Some(step) = stack.pop() {
            let (issue, parent) = match step {
                Step::Enter(issue, parent) => (*issue, parent),
                Step::Leave(place) => {
                    self.members[place].tasks.end = self.tasks;
                    continue;
                }
            };
            if !self.known.insert(issue.id.clone()) {
                continue;
            }
            let mut parts = self.open_parts(&issue)?;
            // The stack reverses the order.
            let order = |issue: &Issue| (issue.priority, issue.created_at, issue.id.clone());
            parts.sort_by_key(|part| std::cmp::Reverse(order(part)));
            let is_epic = issue.issue_type == "epic" && (parent.is_none() || !parts.is_empty());
            let tasks = self.tasks..self.tasks + 1;
            if is_epic {
                stack.push(Step::Leave(self.members.len()));
            } else {
                self.tasks += 1;
            }
            stack.extend(parts.into_iter().map(|part| Step::Enter(Box::new(part), Some(issue.id.clone()))));
            self.members.push(Member { issue, parent, is_epic, tasks });
        }
        Ok(())
    }

    /// Returns the open parts of an issue that are neither deferred nor frozen.
    fn open_parts(&mut self, issue: &Issue) -> Result<Vec<Issue>> {
        let mut parts = Vec::new();
        for id in self.index.parts(&issue.id)? {
            let Some(part) = self.index.get(&id)?.map(|entry| entry.issue) else { continue };
            if let Some(until) = part.defer_until.filter(|until| *until > self.now) {
                self.left_out.push(format!("{} (until {until})", part.id));
                continue;
            }
            match self.terms.statuses.category(&part.status) {
                Category::Done | Category::Deleted => {}
                Category::Active | Category::Wip => parts.push(part),
                // The plan's dependencies express the wait.
                Category::Frozen if part.status == "blocked" => parts.push(part),
                Category::Frozen => self.left_out.push(format!("{} ({})", part.id, part.status)),
            }
        }
        Ok(parts)
    }
}

fn is_open(index: &Index, terms: &Terms, id: &str) -> Result<bool> {
    Ok(match index.summary(id)? {
        Some(other) => !terms.statuses.category(&other.status).is_over(),
        None => !terms.ignore_unresolved && terms.pruned.category(id).is_none(),
    })
}

fn task(issue: &Issue, depends_on: BTreeSet<String>) -> PlannedTask {
    let text = |text: &str| if text.trim().is_empty() { Value::Null } else { Value::String(text.to_owned()) };
    let description = [issue.title.trim(), issue.description.trim()];
    let criteria = issue.acceptance_criteria.lines().map(|line| line.trim().trim_start_matches(['-', '*']).trim());
    PlannedTask {
        name: issue.id.clone(),
        description: description.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n"),
        depends_on: depends_on.into_iter().collect(),
        priority: Some(u32::from(issue.priority)),
        plan: text(&issue.design),
        context: text(&issue.notes),
        acceptance: criteria.filter(|line| !line.is_empty()).map(str::to_owned).collect(),
        issue: Some(issue.id.clone()),
        ..PlannedTask::default()
    }
}
