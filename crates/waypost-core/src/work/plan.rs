//! Plans: written by task name, checked as a whole, stored by task id.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use super::{base, check_name};
use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::{RepositoryId, TaskId};
use crate::ledger::cycle;
use crate::model::{Dependency, DependencyKind, Task, TaskStatus, Workflow, WorkflowStatus, kind};
use crate::nearest;
use crate::time::parse_duration_ms;
use crate::tree;

/// Maximum number of tasks in a plan.
pub const MAX_TASKS: usize = 10_000;

/// Maximum number of dependencies in a plan. Each is a row and an event of the store.
pub const MAX_DEPENDENCIES: usize = 20_000;

/// A plan: tasks by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// A short summary of the plan.
    pub summary: Option<String>,
    /// Maximum number of tasks in progress at once.
    pub max_parallel: Option<u32>,
    /// The base of the jobs of its tasks, unless a task has its own: `plan`, `head` or a revision; default `plan`.
    pub base: Option<String>,
    /// The tasks, in the intended order.
    pub tasks: Vec<PlannedTask>,
}

/// One task of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PlannedTask {
    /// Its name, unique in the plan.
    pub name: String,
    /// The work to do.
    pub description: String,
    /// The names of the tasks that must be done first.
    #[serde(deserialize_with = "one_or_many")]
    pub depends_on: Vec<String>,
    /// The names of tasks whose outcomes are useful, without waiting for them.
    #[serde(deserialize_with = "one_or_many")]
    pub informed_by: Vec<String>,
    /// The names of tasks whose outcomes belong in its context.
    #[serde(deserialize_with = "one_or_many")]
    pub context_from: Vec<String>,
    /// The name of a group of tasks that are meant to run at the same time.
    pub parallel_group: Option<String>,
    /// 0 is the most urgent, 4 the least; default 2.
    pub priority: Option<u32>,
    /// How to do it.
    pub plan: Value,
    /// Conditions under which it is done.
    #[serde(alias = "acceptance_criteria", deserialize_with = "one_or_many")]
    pub acceptance: Vec<String>,
    /// Background for the agent that works on it.
    pub context: Value,
    /// Capabilities that the agent must have registered.
    #[serde(deserialize_with = "one_or_many")]
    pub capabilities: Vec<String>,
    /// Files that the task probably changes.
    #[serde(deserialize_with = "one_or_many")]
    pub files: Vec<String>,
    /// The repository to work in: its id, name or path.
    pub repository: Option<String>,
    /// What its jobs start from: `plan` (the work of the tasks it depends on), `head` (of the workflow's worktree) or a
    /// revision; default: as the workflow says.
    pub base: Option<String>,
    /// The issue to close when it is done.
    pub issue: Option<String>,
    /// Maximum number of attempts; default 3.
    pub max_attempts: Option<u32>,
    /// The pause before the second attempt.
    #[serde(deserialize_with = "duration")]
    pub backoff: Option<u64>,
    /// Maximum duration of one attempt.
    #[serde(deserialize_with = "duration")]
    pub timeout: Option<u64>,
    /// Maximum time it may wait to be claimed.
    #[serde(deserialize_with = "duration")]
    pub queue_timeout: Option<u64>,
    /// Maximum time between two checkpoints of an attempt.
    #[serde(deserialize_with = "duration")]
    pub stall_timeout: Option<u64>,
    /// Whether completing it requires evidence.
    pub needs_evidence: bool,
}

/// How to write the short form of a plan.
const SHORT_FORM: &str = "write one task per line, `build: Compile everything`; and indented below it, or after `<-`, \
                          what it needs: `test <- build: Run the tests`";

/// Maximum length of a name that is made from a text.
const MAX_DERIVED_NAME_BYTES: usize = 48;

/// The fields of a task.
const FIELDS: &[&str] = &[
    "name",
    "description",
    "depends_on",
    "informed_by",
    "context_from",
    "parallel_group",
    "priority",
    "plan",
    "acceptance",
    "acceptance_criteria",
    "context",
    "capabilities",
    "files",
    "repository",
    "base",
    "issue",
    "max_attempts",
    "backoff",
    "timeout",
    "queue_timeout",
    "stall_timeout",
    "needs_evidence",
];

/// Default maximum number of attempts.
const DEFAULT_MAX_ATTEMPTS: u32 = 3;

/// Reads `"a"` as `["a"]`.
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Option::<OneOrMany>::deserialize(deserializer)? {
        None => Vec::new(),
        Some(OneOrMany::One(one)) => vec![one],
        Some(OneOrMany::Many(many)) => many,
    })
}

/// Reads `"10m"`, or a number of milliseconds.
fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Duration {
        Millis(u64),
        Text(String),
    }
    match Option::<Duration>::deserialize(deserializer)? {
        None => Ok(None),
        Some(Duration::Millis(millis)) => Ok(Some(millis)),
        Some(Duration::Text(text)) => parse_duration_ms(&text).map(Some).map_err(serde::de::Error::custom),
    }
}

impl Plan {
    /// Reads a plan from a JSON value.
    pub fn from_value(value: Value) -> Result<Plan> {
        /// A plan whose tasks are not decoded yet.
        #[derive(Default, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        struct Outline {
            summary: Option<String>,
            max_parallel: Option<u32>,
            base: Option<String>,
            tasks: Vec<Value>,
        }
        let value = match value {
            Value::Array(tasks) => json!({ "tasks": tasks }),
            other => other,
        };
        let example = r#"for example {"summary": "...", "tasks": [{"name": "build"}, {"name": "test", "depends_on": ["build"]}]}"#;
        let outline: Outline =
            tree::decode(&value).map_err(|error| Error::invalid("this is not a plan").because(error).hint(example))?;
        let mut tasks = Vec::new();
        for (number, task) in (1..).zip(outline.tasks) {
            // The error names the task, because a plan can have many.
            let name = task.get("name").and_then(Value::as_str).map(|name| format!(" ({name})")).unwrap_or_default();
            let unknown = task.as_object().and_then(|fields| fields.keys().find(|key| !FIELDS.contains(&key.as_str())));
            if let Some(unknown) = unknown {
                let error = Error::invalid(format!("task {number}{name} of the plan has an unknown field {unknown:?}"));
                return Err(match nearest::nearest(unknown, FIELDS.iter().copied()) {
                    Some(near) => error.hint(format!("did you mean {near}?")),
                    None => error.hint(format!("the fields of a task are {}", FIELDS.join(", "))),
                });
            }
            let task = tree::decode(&task).map_err(|error| {
                Error::invalid(format!("task {number}{name} of the plan cannot be read")).because(error).hint(example)
            })?;
            tasks.push(task);
        }
        Ok(Plan { summary: outline.summary, max_parallel: outline.max_parallel, base: outline.base, tasks })
    }

    /// Refuses a base that cannot name a revision.
    pub(crate) fn check_base(&self) -> Result<()> {
        self.base.as_deref().map_or(Ok(()), base::check_word)
    }

    /// Reads the short form: one task per line, `name: description`, with further fields indented below it. Also reads a
    /// Markdown checklist.
    ///
    /// ```text
    /// # Summary of the plan
    /// build: Compile everything
    /// test <- build: Run the tests
    /// release: Publish it
    ///     needs: build, test
    ///     files: src/lib.rs, src/main.rs
    /// ```
    pub fn from_text(text: &str) -> Result<Plan> {
        let mut summary: Vec<&str> = Vec::new();
        let mut tasks: Vec<Map<String, Value>> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let content = line.trim();
            if content.is_empty() {
                continue;
            }
            if let Some(comment) = content.strip_prefix('#') {
                if tasks.is_empty() {
                    summary.push(comment.trim());
                }
                continue;
            }
            if !line.starts_with(char::is_whitespace) {
                let within = |error: Error| error.within(format!("line {number} of the plan")).hint(SHORT_FORM);
                tasks.extend(task_line(content).map_err(within)?);
                continue;
            }
            if checklist_item(content.trim_start_matches(['-', '*', '+', ' '])).is_some() {
                return Err(Error::invalid(format!("line {number} of the plan is an item below another one"))
                    .because("a checklist does not say which of the two comes first")
                    .hint(SHORT_FORM));
            }
            let Some(task) = tasks.last_mut() else {
                return Err(Error::invalid(format!("line {number} of the plan is indented, but no task precedes it")));
            };
            let Some((key, value)) = content.split_once(':') else {
                return Err(Error::invalid(format!("line {number} of the plan is not `key: value`"))
                    .hint("a task begins at the start of its line"));
            };
            let (key, value) = field(key.trim(), value.trim())
                .map_err(|error| Error::invalid(format!("line {number} of the plan: {error}")))?;
            task.insert(key, value);
        }
        let mut plan = Map::new();
        if !summary.is_empty() {
            plan.insert("summary".to_owned(), json!(summary.join(" ")));
        }
        plan.insert("tasks".to_owned(), json!(tasks));
        Plan::from_value(Value::Object(plan))
    }
}

/// Parses a line of the short form that is not indented: `name: description`, `name <- other, tasks: description`, or an
/// item of a checklist, which is named after its text. A finished item is not a task.
fn task_line(line: &str) -> Result<Option<Map<String, Value>>> {
    let line = ["- ", "* ", "+ "].iter().find_map(|bullet| line.strip_prefix(bullet)).unwrap_or(line).trim_start();
    if let Some((is_done, text)) = checklist_item(line) {
        let name = name_of_text(text);
        let task = [("name".to_owned(), json!(name)), ("description".to_owned(), json!(text))];
        return if is_done { Ok(None) } else { Ok(Some(task.into_iter().collect())) };
    }
    let (head, description) = line.split_once(": ").unwrap_or((line.trim_end_matches(':'), ""));
    let (name, needs) = match head.split_once("<-") {
        Some((name, needs)) => (name, Some(needs)),
        None => (head, None),
    };
    let name = name.trim();
    check_name("task", name)?;
    let mut task = Map::new();
    task.insert("name".to_owned(), json!(name));
    task.insert("description".to_owned(), json!(description.trim()));
    if let Some(needs) = needs {
        let (key, value) = field("needs", needs)?;
        task.insert(key, value);
    }
    Ok(Some(task))
}

/// Returns whether an item of a Markdown checklist is done, and its text.
fn checklist_item(line: &str) -> Option<(bool, &str)> {
    let rest = line.strip_prefix('[')?;
    let (mark, text) = rest.split_once(']')?;
    let is_done = matches!(mark, "x" | "X");
    (is_done || mark.trim().is_empty()).then(|| (is_done, text.trim()))
}

/// Makes a task's name from the text of a checklist item.
fn name_of_text(text: &str) -> String {
    let words = text.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut name = String::new();
    for word in words.map(str::to_lowercase) {
        if !name.is_empty() && name.len() + word.len() >= MAX_DERIVED_NAME_BYTES {
            break;
        }
        if !name.is_empty() {
            name.push('-');
        }
        name.push_str(&word);
    }
    name
}

/// Parses an indented line of the short form.
fn field(key: &str, value: &str) -> Result<(String, Value)> {
    let key = match key {
        "needs" | "after" => "depends_on",
        "evidence" => "needs_evidence",
        other => other,
    };
    let list = || json!(value.split(',').map(str::trim).filter(|item| !item.is_empty()).collect::<Vec<_>>());
    let value = match key {
        "depends_on" | "informed_by" | "context_from" | "capabilities" | "files" => list(),
        "priority" | "max_attempts" => {
            json!(value.parse::<u32>().map_err(|_| Error::invalid(format!("{key} is a number, not {value:?}")))?)
        }
        "needs_evidence" => json!(matches!(value, "" | "yes" | "true" | "required")),
        _ => json!(value),
    };
    Ok((key.to_owned(), value))
}

/// Refuses a plan with too many tasks.
pub fn check_size(tasks: usize) -> Result<()> {
    if tasks > MAX_TASKS {
        return Err(Error::invalid(format!("a plan of {tasks} tasks is too large"))
            .hint(format!("at most {MAX_TASKS}; split it into workflows")));
    }
    Ok(())
}

/// Refuses a plan with too many dependencies.
pub fn check_dependencies(dependencies: usize) -> Result<()> {
    if dependencies > MAX_DEPENDENCIES {
        return Err(Error::invalid(format!("a plan with {dependencies} dependencies is too large"))
            .hint(format!("at most {MAX_DEPENDENCIES}: leave out dependencies that follow from others")));
    }
    Ok(())
}

/// The dependencies of a plan by task name. Every name is unique, and no task depends on itself.
pub(crate) struct Graph {
    edges: BTreeMap<String, Vec<String>>,
}

impl Graph {
    /// Checks the names and dependencies of a plan. Tasks may also depend on the `existing` ones.
    pub(crate) fn check(tasks: &[PlannedTask], existing: &BTreeSet<String>) -> Result<Graph> {
        check_size(tasks.len())?;
        let dependencies =
            |task: &PlannedTask| task.depends_on.len() + task.informed_by.len() + task.context_from.len();
        check_dependencies(tasks.iter().map(dependencies).sum())?;
        let mut names = BTreeSet::new();
        for task in tasks {
            check_name("task", &task.name)?;
            if !names.insert(task.name.as_str()) {
                return Err(Error::invalid(format!("two tasks of the plan are called {:?}", task.name)));
            }
            if task.priority.is_some_and(|priority| priority > 4) {
                return Err(Error::invalid(format!("task {}: a priority is a number from 0 to 4", task.name)));
            }
            if let Some(base) = &task.base {
                base::check_word(base).map_err(|error| error.within(format!("task {}", task.name)))?;
            }
            if task.max_attempts == Some(0) {
                return Err(Error::invalid(format!("task {}: it needs at least one attempt", task.name)));
            }
        }
        let mut edges = BTreeMap::new();
        for task in tasks {
            for other in task.depends_on.iter().chain(&task.informed_by).chain(&task.context_from) {
                if *other == task.name {
                    return Err(Error::invalid(format!("task {} depends on itself", task.name)));
                }
                if !names.contains(other.as_str()) && !existing.contains(other) {
                    let error = Error::invalid(format!("task {} names {other:?}, which is not in the plan", task.name));
                    return Err(match nearest::nearest(other, names.iter().copied()) {
                        Some(near) => error.hint(format!("did you mean {near}?")),
                        None => error,
                    });
                }
            }
            let mut on = task.depends_on.clone();
            on.sort();
            if let Some([twice, _]) = on.array_windows().find(|[one, next]| one == next) {
                return Err(Error::invalid(format!("task {} depends on {} twice", task.name, twice)));
            }
            edges.insert(task.name.clone(), on);
        }
        Ok(Graph { edges })
    }

    /// Adds an existing task.
    pub(crate) fn add(&mut self, name: String, depends_on: Vec<String>) {
        self.edges.insert(name, depends_on);
    }

    /// Refuses a dependency cycle; the hint shows it.
    pub(crate) fn check_cycles(&self) -> Result<()> {
        let mut waiting: BTreeMap<&str, usize> =
            self.edges.iter().map(|(name, on)| (name.as_str(), on.len())).collect();
        let mut dependents: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, on) in &self.edges {
            for blocker in on {
                dependents.entry(blocker).or_default().push(name);
                waiting.entry(blocker).or_insert(0);
            }
        }
        let mut free: Vec<&str> = waiting.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect();
        while let Some(name) = free.pop() {
            waiting.remove(name);
            for dependent in dependents.get(name).into_iter().flatten() {
                if let Some(count) = waiting.get_mut(dependent) {
                    *count -= 1;
                    if *count == 0 {
                        free.push(dependent);
                    }
                }
            }
        }
        // Each remaining task waits for a remaining task, so following the edges ends in a cycle.
        let Some(mut name) = waiting.keys().next().copied() else { return Ok(()) };
        let mut path: Vec<&str> = Vec::new();
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        while !places.contains_key(name) {
            places.insert(name, path.len());
            path.push(name);
            let next = self.edges[name].iter().find(|blocker| waiting.contains_key(blocker.as_str()));
            name = next.map_or(name, String::as_str);
        }
        let mut nodes = path[places[name]..].to_vec();
        nodes.push(name);
        Err(Error::invalid("the plan has a dependency cycle").hint(cycle::describe(&nodes)))
    }
}

/// Returns the task to store for a planned one.
pub(crate) fn task(cx: &mut OpContext<'_>, workflow: &Workflow, planned: &PlannedTask, sequence: u32) -> Result<Task> {
    let repository_id = repository(cx, workflow, planned)?;
    let p = planned.clone();
    let queue_timeout = p.queue_timeout;
    let object = |value: Value| if value.is_null() { json!({}) } else { value };
    Ok(Task {
        id: TaskId::generate(cx.entropy),
        workflow_id: workflow.id.clone(),
        name: p.name,
        description: p.description,
        status: TaskStatus::Pending,
        sequence,
        parallel_group: p.parallel_group,
        priority: p.priority.unwrap_or(2),
        plan: object(p.plan),
        acceptance: p.acceptance,
        context: object(p.context),
        context_from: p.context_from,
        capabilities: p.capabilities,
        files: p.files,
        repository_id,
        base: p.base,
        workspace_id: None,
        issue: p.issue,
        assignee: None,
        attempts: 0,
        max_attempts: p.max_attempts.unwrap_or(DEFAULT_MAX_ATTEMPTS),
        backoff_ms: p.backoff.unwrap_or(0),
        queue_timeout_ms: p.queue_timeout,
        run_timeout_ms: p.timeout,
        stall_timeout_ms: p.stall_timeout,
        needs_evidence: p.needs_evidence,
        outcome: None,
        evidence: None,
        error: None,
        question: None,
        answer: None,
        worktree_id: workflow.worktree_id.clone(),
        created_at: cx.now,
        updated_at: cx.now,
        queued_at: cx.now,
        started_at: None,
        finished_at: None,
        due_at: queue_timeout.filter(|_| workflow.status == WorkflowStatus::InProgress).map(|wait| cx.now.plus(wait)),
    })
}

/// Returns the repository of a planned task. It inherits the workflow's only repository, but none of several.
fn repository(cx: &mut OpContext<'_>, workflow: &Workflow, planned: &PlannedTask) -> Result<Option<RepositoryId>> {
    let concerned = cx.tx.workflow_repository_list(&workflow.id)?;
    let Some(named) = &planned.repository else {
        return match concerned.as_slice() {
            [only] => Ok(Some(only.clone())),
            [] => Ok(None),
            several => Err(Error::invalid(format!(
                "task {} names no repository, and the workflow has {}",
                planned.name,
                several.len()
            ))
            .hint("\"repository\" names one by id, name or path")),
        };
    };
    let known = cx.tx.repository_list()?;
    let fits = |repository: &&crate::model::Repository| {
        repository.id.as_str() == named
            || repository.name == *named
            || crate::path_text::to_text(&repository.path) == *named
    };
    let fitting: Vec<_> = known.iter().filter(fits).filter(|repository| concerned.contains(&repository.id)).collect();
    match fitting.as_slice() {
        [one] => Ok(Some(one.id.clone())),
        [] => Err(Error::invalid(format!("task {}: the workflow has no repository {named:?}", planned.name))
            .hint("add it first: way workflow repos WORKFLOW --add REPOSITORY")),
        _ => Err(Error::ambiguous(format!("task {}: several repositories are called {named:?}", planned.name))
            .hint("name it by its id")),
    }
}

/// Stores new tasks of a workflow and their dependencies. The caller has checked the names.
pub(crate) fn store(
    cx: &mut OpContext<'_>,
    workflow: &Workflow,
    planned: &[PlannedTask],
    first: u32,
) -> Result<Vec<Task>> {
    let mut ids: BTreeMap<String, TaskId> =
        cx.tx.task_list(&workflow.id)?.into_iter().map(|task| (task.name, task.id)).collect();
    let mut stored = Vec::new();
    for (sequence, planned) in (first..).zip(planned) {
        let task = task(cx, workflow, planned, sequence)?;
        cx.tx.task_put(&task)?;
        cx.event(kind::TASK_ADDED, task.id.as_str(), json!({ "after": task }))?;
        ids.insert(task.name.clone(), task.id.clone());
        stored.push(task);
    }
    for (task, planned) in stored.iter().zip(planned) {
        store_dependencies(cx, task, planned, &ids)?;
    }
    Ok(stored)
}

/// Stores the dependencies of a task.
pub(crate) fn store_dependencies(
    cx: &mut OpContext<'_>,
    task: &Task,
    planned: &PlannedTask,
    ids: &BTreeMap<String, TaskId>,
) -> Result<()> {
    // Blocking dependencies come last: they replace an informing one between the same tasks.
    let all = planned
        .informed_by
        .iter()
        .map(|name| (name, DependencyKind::Informs))
        .chain(planned.depends_on.iter().map(|name| (name, DependencyKind::Blocks)));
    for (name, how) in all {
        let Some(on) = ids.get(name) else {
            return Err(Error::invalid(format!("task {} names {name:?}, which is not in the plan", task.name)));
        };
        let dependency = Dependency { task_id: task.id.clone(), depends_on: on.clone(), kind: how };
        cx.tx.dependency_put(&dependency)?;
        cx.event(kind::TASK_DEPENDENCY_ADDED, task.id.as_str(), json!({ "after": dependency }))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_fields_has_every_field_of_a_planned_task() {
        let Ok(Value::Object(fields)) = serde_json::to_value(PlannedTask::default()) else { panic!("an object") };
        let named: BTreeSet<&str> = fields.keys().map(String::as_str).chain(["acceptance_criteria"]).collect();
        assert_eq!(named, FIELDS.iter().copied().collect());
    }

    #[test]
    fn the_short_form_takes_arrows_and_checklists() {
        let plan =
            Plan::from_text("# Ship\nbuild: Compile\ntest <- build: Run the tests\n- docs <- build, test\n").unwrap();
        let needs: Vec<(&str, Vec<&str>)> = plan
            .tasks
            .iter()
            .map(|task| (task.name.as_str(), task.depends_on.iter().map(String::as_str).collect()))
            .collect();
        assert_eq!(needs, [("build", vec![]), ("test", vec!["build"]), ("docs", vec!["build", "test"])]);
        assert_eq!(plan.tasks[1].description, "Run the tests");

        let list = "# Todo\n- [ ] Write the parser (fast!)\n* [x] Choose a name\n- [ ] Document it\n  needs: write-the-parser-fast\n";
        let plan = Plan::from_text(list).unwrap();
        let names: Vec<&str> = plan.tasks.iter().map(|task| task.name.as_str()).collect();
        assert_eq!(names, ["write-the-parser-fast", "document-it"], "what is done is no task");
        assert_eq!(plan.tasks[0].description, "Write the parser (fast!)");
        assert_eq!(plan.tasks[1].depends_on, ["write-the-parser-fast"]);
    }

    #[test]
    fn a_line_of_a_plan_that_is_no_task_is_named() {
        let error = |text: &str| Plan::from_text(text).unwrap_err();
        assert_eq!(
            error("a: one\nbuild -> test\n").to_string(),
            "line 2 of the plan: the name of a task cannot contain ->"
        );
        assert!(error("build => test\n").hints().iter().any(|hint| hint.contains("`test <- build: Run the tests`")));
        assert_eq!(
            error("- [ ] One\n  - [ ] Part of one\n").to_string(),
            "line 2 of the plan is an item below another one"
        );
    }

    #[test]
    fn an_error_in_a_plan_names_its_task() {
        let error = |plan: Value| Plan::from_value(plan).unwrap_err();
        let plan = json!([{ "name": "a" }, { "name": "b", "depend_on": ["a"] }]);
        assert_eq!(error(plan.clone()).to_string(), "task 2 (b) of the plan has an unknown field \"depend_on\"");
        assert_eq!(error(plan).hints(), ["did you mean depends_on?"]);
        let plan = json!({ "tasks": [{ "name": 5 }] });
        assert_eq!(error(plan).to_string(), "task 1 of the plan cannot be read");
        assert_eq!(error(json!({ "task": [] })).to_string(), "this is not a plan");
        assert_eq!(error(json!([7])).to_string(), "task 1 of the plan cannot be read");
    }
}
