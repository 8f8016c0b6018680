//! Names that a shell completes. Finding them writes nothing: it creates no store, no index and no id.

use serde_json::{Value, json};
use waypost_core::Result;
use waypost_core::op;

use crate::app::session::Session;
use crate::issues::ledger::Ledger;
use crate::machine::config::KEYS;
use crate::machine::place::Place;

/// Maximum number of candidates of one kind.
const MAX_CANDIDATES: usize = 300;

/// The kind of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noun {
    /// Any issue; open ones first.
    Issue,
    /// An open issue; ready ones first.
    OpenIssue,
    /// A closed issue.
    ClosedIssue,
    /// A status of issues.
    IssueStatus,
    /// A type of issues.
    IssueType,
    /// A label of an issue.
    Label,
    /// A task: its name if that is unique, or its id.
    Task,
    /// A workflow.
    Workflow,
    /// A job; newest first.
    Job,
    /// A workspace; newest first.
    Workspace,
    /// An agent.
    Agent,
    /// A worktree.
    Worktree,
    /// A repository.
    Repository,
    /// A template.
    Template,
    /// A machine that runs jobs.
    Machine,
    /// A key of the configuration.
    ConfigKey,
}

/// A name, and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The name.
    pub value: String,
    /// A short description; may be empty.
    pub about: String,
}

impl Candidate {
    /// Creates a candidate.
    pub fn new(value: impl Into<String>, about: impl Into<String>) -> Candidate {
        Candidate { value: value.into(), about: about.into() }
    }
}

/// Finds the names of a kind that begin with a text. Tasks are those of `workflow`, if it is given.
pub fn candidates(place: &Place, noun: Noun, prefix: &str, workflow: Option<&str>) -> Result<Vec<Candidate>> {
    let mut found = match noun {
        Noun::ConfigKey => KEYS.iter().map(|key| Candidate::new(key.name, key.help)).collect(),
        Noun::IssueType => issue_types(place)?,
        Noun::Issue | Noun::OpenIssue | Noun::ClosedIssue | Noun::IssueStatus | Noun::Label => {
            in_ledgers(place, noun, prefix)?
        }
        _ => in_store(place, noun, prefix, workflow)?,
    };
    found.retain(|candidate| candidate.value.starts_with(prefix));
    found.truncate(MAX_CANDIDATES);
    Ok(found)
}

fn in_ledgers(place: &Place, noun: Noun, prefix: &str) -> Result<Vec<Candidate>> {
    let ledger = Ledger::open_to_read(place)?;
    let now = ledger.now();
    ledger.with_index(|index| {
        let summaries = match noun {
            Noun::IssueStatus => {
                let statuses = index.counts(now)?.by_status;
                return Ok(statuses.into_iter().map(|(status, _)| Candidate::new(status, "")).collect());
            }
            Noun::Label => {
                let labels = index.labels()?;
                let about = |count: usize| if count == 1 { "1 issue".to_owned() } else { format!("{count} issues") };
                return Ok(labels.into_iter().map(|(label, count)| Candidate::new(label, about(count))).collect());
            }
            Noun::OpenIssue => {
                let mut ready = index.ready(now, Some(MAX_CANDIDATES))?;
                ready.retain(|issue| issue.id.starts_with(prefix));
                let mut others = index.with_prefix(prefix, Some(false), MAX_CANDIDATES)?;
                others.retain(|issue| ready.iter().all(|known| known.id != issue.id));
                ready.extend(others);
                ready
            }
            Noun::ClosedIssue => index.with_prefix(prefix, Some(true), MAX_CANDIDATES)?,
            _ => index.with_prefix(prefix, None, MAX_CANDIDATES)?,
        };
        Ok(summaries.into_iter().map(|issue| Candidate::new(issue.id, issue.title)).collect())
    })
}

fn issue_types(place: &Place) -> Result<Vec<Candidate>> {
    const COMMON_TYPES: [&str; 5] = ["bug", "feature", "task", "epic", "chore"];
    let mut types: Vec<String> = COMMON_TYPES.map(str::to_owned).to_vec();
    if let Ok(ledger) = Ledger::open_to_read(place) {
        let now = ledger.now();
        let used = ledger.with_index(|index| index.counts(now))?.open_by_type;
        for (used, _) in used {
            if !types.contains(&used) {
                types.push(used);
            }
        }
    }
    Ok(types.into_iter().map(|name| Candidate::new(name, "")).collect())
}

/// How the names of a kind are found: the operation, its arguments, the list in its answer, and the fields that describe a
/// record.
fn query(noun: Noun, workflow: Option<&str>) -> (&'static str, Value, &'static str, &'static [&'static str]) {
    let limit = MAX_CANDIDATES;
    match noun {
        Noun::Task => {
            let arguments = json!({ "limit": limit, "workflow": workflow });
            ("list_tasks", arguments, "tasks", &["status", "workflow", "description"])
        }
        Noun::Workflow => {
            let query = json!({ "statuses": [], "worktree_id": null, "repository_id": null, "name": null,
                                "after": null, "limit": limit });
            ("list_workflows", json!({ "query": query }), "workflows", &["status", "summary"])
        }
        Noun::Job => ("list_jobs", json!({ "limit": limit }), "jobs", &["status", "task", "command"]),
        Noun::Workspace => ("list_workspaces", json!({ "limit": limit }), "workspaces", &["status", "task", "path"]),
        Noun::Agent => ("list_agents", json!({ "limit": limit }), "agents", &["status", "runtime", "role"]),
        Noun::Worktree => ("list_worktrees", json!({ "limit": limit }), "worktrees", &["branch", "path"]),
        Noun::Template => ("list_templates", json!({ "limit": limit }), "templates", &["description"]),
        Noun::Machine => ("list_machines", json!({ "limit": limit }), "machines", &[]),
        _ => ("list_repositories", json!({ "limit": limit }), "repositories", &["path"]),
    }
}

fn in_store(place: &Place, noun: Noun, prefix: &str, workflow: Option<&str>) -> Result<Vec<Candidate>> {
    let mut session = Session::open_to_read(place.clone())?;
    if session.is_absent() {
        return Ok(Vec::new());
    }
    let (operation, arguments, list, about) = query(noun, workflow);
    let Some(entry) = op::named(operation) else { return Ok(Vec::new()) };
    let answer = session.run_any(None, &*(entry.decode)(&arguments)?)?.into_tree()?;
    let records = answer[list].as_array().map(Vec::as_slice).unwrap_or_default();
    let text = |record: &Value, field: &str| match &record[field] {
        Value::String(text) => text.clone(),
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        _ => String::new(),
    };
    let mut found: Vec<Candidate> = Vec::new();
    for record in records.iter().filter(|record| record["removed_at"].is_null()) {
        let (name, id) = (text(record, "name"), text(record, "id"));
        let is_unique = records.iter().filter(|other| text(other, "name") == name).count() == 1;
        // Several runs of a plan have the same name, and the newest one is meant.
        let is_named = !name.is_empty() && (is_unique || noun != Noun::Task);
        let value = if is_named && name.starts_with(prefix) { name } else { id };
        let about: Vec<String> =
            about.iter().map(|field| text(record, field)).filter(|text| !text.is_empty()).collect();
        if found.iter().all(|known| known.value != value) {
            found.push(Candidate { value, about: about.join(", ") });
        }
    }
    Ok(found)
}
