//! Plans made of issues: the open parts of an epic, and what they wait for.

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

/// How many dependencies the tasks of a plan may have together.
const MAX_DEPENDENCIES: usize = 200_000;

/// How many names are listed in a warning.
const MAX_LISTED: usize = 20;

/// A plan made of issues.
#[derive(Clone, Debug)]
pub struct FromIssue {
    /// The issue it was made of.
    pub issue: Issue,
    /// The plan. Its tasks are called as their issues are.
    pub plan: Plan,
    /// What somebody should know who starts it.
    pub warnings: Vec<String>,
}

/// Makes a plan of an issue: of an epic a task for each of its open parts, of any other issue one task more.
///
/// What may be worked on is what would be ready in the ledger. So an epic is no task itself, and whoever waits for it
/// waits for its parts; and a part waits for what the issues above it wait for.
pub fn plan(index: &Index, terms: &Terms, wanted: &str, now: Timestamp) -> Result<FromIssue> {
    let root = index.get_by_prefix(wanted)?.issue;
    if terms.statuses.category(&root.status).is_over() {
        return Err(Error::conflict(format!("issue {} is {}", root.id, root.status))
            .hint(format!("open it again: way reopen {}", root.id)));
    }
    let mut family =
        Family { index, terms, now, members: Vec::new(), known: BTreeSet::new(), set_aside: Vec::new(), tasks: 0 };
    family.add(root.clone())?;
    let members = family.members;
    let tasks: Vec<&str> =
        members.iter().filter(|member| !member.is_epic).map(|member| member.issue.id.as_str()).collect();
    if tasks.is_empty() {
        return Err(Error::conflict(format!("no part of epic {} is open", root.id))
            .hint(format!("add one: way add TITLE --parent {}", root.id)));
    }
    check_size(tasks.len())?;
    let mut warnings = Vec::new();
    if !family.set_aside.is_empty() {
        warnings.push(format!("set aside, and left out: {}", listed(&family.set_aside)));
    }
    let chosen = members.iter().filter(|member| !member.is_epic && member.issue.has_label(NO_AUTO_CLAIM));
    let chosen: Vec<_> = chosen.map(|member| member.issue.id.as_str()).collect();
    if !chosen.is_empty() {
        warnings.push(format!("labelled {NO_AUTO_CLAIM}, but any agent may claim the task: {}", listed(&chosen)));
    }
    let by_id: BTreeMap<&str, &Member> = members.iter().map(|member| (member.issue.id.as_str(), member)).collect();
    let mut outside: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    // What the parts of each issue wait for: its own blockers, and those of everything above it.
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
        warnings.push(format!("{} waits for {blocker}, which is open and no part of this", listed(&waiting)));
    }
    let plan = Plan { summary: Some(root.title.clone()), max_parallel: None, tasks: planned };
    Ok(FromIssue { issue: root, plan, warnings })
}

/// Refuses a plan whose tasks wait for so many others that writing it down would take minutes.
struct Budget<'a> {
    root: &'a Issue,
    left: usize,
}

impl Budget<'_> {
    fn spend(&mut self, dependencies: usize) -> Result<()> {
        self.left = self.left.checked_sub(dependencies).ok_or_else(|| {
            let root = &self.root.id;
            Error::conflict(format!("the tasks of {root} would have more than {MAX_DEPENDENCIES} dependencies"))
                .hint("make a workflow of each of its parts: way workflow from-issue PART")
        })?;
        Ok(())
    }
}

/// Joins names, but not more than fit on a few lines.
fn listed(names: &[impl AsRef<str>]) -> String {
    let (first, rest) = names.split_at(names.len().min(MAX_LISTED));
    let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
    if rest.is_empty() { first.join(", ") } else { format!("{} and {} more", first.join(", "), rest.len()) }
}

struct Member {
    issue: Issue,
    parent: Option<String>,
    is_epic: bool,
    /// The tasks that it stands for, by place: itself, or of an epic all that is below it.
    tasks: Range<usize>,
}

struct Family<'a> {
    index: &'a Index,
    terms: &'a Terms,
    now: Timestamp,
    members: Vec<Member>,
    known: BTreeSet<String>,
    set_aside: Vec<String>,
    /// How many of the members are tasks.
    tasks: usize,
}

/// What is to be done next while a family is looked through.
enum Step {
    Enter(Box<Issue>, Option<String>),
    /// All parts of the member at this place are known.
    Leave(usize),
}

impl Family<'_> {
    /// Adds an issue and its open parts, the most urgent first. The parts of each follow it.
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
            // The stack turns them round.
            parts.sort_by(|one, other| (other.priority, &other.id).cmp(&(one.priority, &one.id)));
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

    /// Returns the parts of an issue that can be worked on.
    fn open_parts(&mut self, issue: &Issue) -> Result<Vec<Issue>> {
        let mut parts = Vec::new();
        for id in self.index.parts(&issue.id)? {
            let Some(part) = self.index.get(&id)?.map(|entry| entry.issue) else { continue };
            if let Some(until) = part.defer_until.filter(|until| *until > self.now) {
                self.set_aside.push(format!("{} (until {until})", part.id));
                continue;
            }
            match self.terms.statuses.category(&part.status) {
                Category::Done | Category::Deleted => {}
                Category::Active | Category::Wip => parts.push(part),
                // That it waits is what the plan says.
                Category::Frozen if part.status == "blocked" => parts.push(part),
                Category::Frozen => self.set_aside.push(format!("{} ({})", part.id, part.status)),
            }
        }
        Ok(parts)
    }
}

fn is_open(index: &Index, terms: &Terms, id: &str) -> Result<bool> {
    Ok(match index.summary(id)? {
        Some(other) => !terms.statuses.category(&other.status).is_over(),
        None => !terms.ignore_unresolved,
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
