//! Plans made of issues: the open parts of an epic, and what they wait for.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use waypost_core::ledger::issue::Issue;
use waypost_core::ledger::ready::NO_AUTO_CLAIM;
use waypost_core::ledger::vocabulary::{Category, Terms};
use waypost_core::time::Timestamp;
use waypost_core::work::plan::{Plan, PlannedTask};
use waypost_core::{Error, Result};
use waypost_ledger::Index;

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
    let root = index.entry_of(wanted)?.issue;
    if terms.statuses.category(&root.status).is_over() {
        return Err(Error::conflict(format!("issue {} is {}", root.id, root.status))
            .hint(format!("open it again: way reopen {}", root.id)));
    }
    let mut family = Family { index, terms, now, members: Vec::new(), known: BTreeSet::new(), set_aside: Vec::new() };
    family.add(root.clone(), None)?;
    let members = family.members;
    let tasks: BTreeSet<&str> =
        members.iter().filter(|member| !member.is_epic).map(|member| member.issue.id.as_str()).collect();
    if tasks.is_empty() {
        return Err(Error::conflict(format!("no part of epic {} is open", root.id))
            .hint(format!("add one: way add TITLE --parent {}", root.id)));
    }
    let mut warnings = Vec::new();
    if !family.set_aside.is_empty() {
        warnings.push(format!("set aside, and left out: {}", family.set_aside.join(", ")));
    }
    let chosen = members.iter().filter(|member| !member.is_epic && member.issue.has_label(NO_AUTO_CLAIM));
    let chosen: Vec<_> = chosen.map(|member| member.issue.id.as_str()).collect();
    if !chosen.is_empty() {
        warnings.push(format!("labelled {NO_AUTO_CLAIM}, but any agent may claim the task: {}", chosen.join(", ")));
    }
    let by_id: BTreeMap<&str, &Member> = members.iter().map(|member| (member.issue.id.as_str(), member)).collect();
    let mut outside: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut planned = Vec::new();
    for member in members.iter().filter(|member| !member.is_epic) {
        let mut on = BTreeSet::new();
        let mut next = Some(member);
        while let Some(waiting) = next {
            for blocker in waiting.issue.blockers() {
                match by_id.get(blocker) {
                    Some(blocker) => on.extend(tasks_of(blocker, &members)),
                    None if is_open(index, terms, blocker)? => {
                        outside.entry(blocker.to_owned()).or_default().push(waiting.issue.id.clone());
                    }
                    None => {}
                }
            }
            next = waiting.parent.as_deref().and_then(|parent| by_id.get(parent)).copied();
        }
        on.remove(&member.issue.id);
        planned.push(task(&member.issue, on));
    }
    for (blocker, mut waiting) in outside {
        waiting.sort();
        waiting.dedup();
        warnings.push(format!("{} waits for {blocker}, which is open and no part of this", waiting.join(", ")));
    }
    let plan = Plan { summary: Some(root.title.clone()), max_parallel: None, tasks: planned };
    Ok(FromIssue { issue: root, plan, warnings })
}

struct Member {
    issue: Issue,
    parent: Option<String>,
    is_epic: bool,
}

struct Family<'a> {
    index: &'a Index,
    terms: &'a Terms,
    now: Timestamp,
    members: Vec<Member>,
    known: BTreeSet<String>,
    set_aside: Vec<String>,
}

impl Family<'_> {
    /// Adds an issue and its open parts, the most urgent first.
    fn add(&mut self, root: Issue, parent: Option<String>) -> Result<()> {
        let mut stack = vec![(root, parent)];
        while let Some((issue, parent)) = stack.pop() {
            if !self.known.insert(issue.id.clone()) {
                continue;
            }
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
            // The stack turns them round.
            parts.sort_by(|one, other| (other.priority, &other.id).cmp(&(one.priority, &one.id)));
            let is_epic = issue.issue_type == "epic" && (parent.is_none() || !parts.is_empty());
            stack.extend(parts.into_iter().map(|part| (part, Some(issue.id.clone()))));
            self.members.push(Member { issue, parent, is_epic });
        }
        Ok(())
    }
}

/// Returns the tasks that an issue stands for: itself, or of an epic all that is below it.
fn tasks_of(member: &Member, members: &[Member]) -> Vec<String> {
    if !member.is_epic {
        return vec![member.issue.id.clone()];
    }
    let mut tasks = Vec::new();
    let mut stack = vec![member];
    while let Some(member) = stack.pop() {
        stack.extend(members.iter().filter(|part| part.parent.as_deref() == Some(&member.issue.id)));
        if !member.is_epic {
            tasks.push(member.issue.id.clone());
        }
    }
    tasks
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
