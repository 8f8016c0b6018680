//! Agents that work on one workflow, with operations by name: their arguments and answers are JSON, as surfaces have them.

use serde_json::{Value, json};
use waypost_core::context::Caller;
use waypost_core::engine;
use waypost_core::op::{self, Effect};
use waypost_core::work::plan::Plan;
use waypost_core::{Error, Kind, Result};

use crate::harness::{PERSON, TestStore, caller};

/// 2026-01-01T00:00:00Z.
const START: i64 = 1_767_225_600_000;

/// A store, and a clock that begins with the year 2026.
pub(crate) struct Team {
    pub(crate) store: TestStore,
    millis: i64,
}

impl Team {
    pub(crate) fn new() -> Team {
        let store = TestStore::new();
        store.set_now(START);
        Team { store, millis: START }
    }

    /// A team whose workflow `w` has started. The plan is in the short form.
    pub(crate) fn with(plan: &str) -> Team {
        let mut team = Team::new();
        team.plan("w", plan);
        team
    }

    /// Creates and starts a workflow.
    #[track_caller]
    pub(crate) fn plan(&mut self, name: &str, plan: &str) {
        let plan = serde_json::to_value(Plan::from_text(plan).unwrap()).unwrap();
        let _ = self.data(PERSON, "add_workflow", json!({ "name": name, "plan": plan, "start": true }));
    }

    /// Advances the clock.
    pub(crate) fn pass(&mut self, seconds: i64) {
        self.pass_millis(seconds * 1_000);
    }

    pub(crate) fn pass_millis(&mut self, millis: i64) {
        self.millis += millis;
        self.store.set_now(self.millis);
    }

    /// Runs an operation for the caller with a name, at most once per key.
    pub(crate) fn call(&mut self, who: &str, key: Option<&str>, operation: &str, arguments: Value) -> Result<Value> {
        let caller = Caller { is_shared: self.store.is_shared, ..caller(who) };
        self.call_as(&caller, key, operation, arguments)
    }

    #[expect(clippy::needless_pass_by_value, reason = "tests pass the arguments as they make them")]
    pub(crate) fn call_as(
        &mut self,
        caller: &Caller,
        key: Option<&str>,
        operation: &str,
        arguments: Value,
    ) -> Result<Value> {
        let entry = op::named(operation).unwrap_or_else(|| panic!("no operation {operation}"));
        let operation = (entry.decode)(&arguments)?;
        let TestStore { store, entropy, .. } = &mut self.store;
        let answer = match entry.about.effect {
            Effect::Read => engine::read_any(store, caller, entropy, &*operation),
            Effect::Write => engine::write_any(store, caller, entropy, key, &*operation),
        };
        answer?.into_tree()
    }

    /// Runs an operation that must succeed.
    #[track_caller]
    pub(crate) fn data(&mut self, who: &str, operation: &str, arguments: Value) -> Value {
        let shown = arguments.to_string();
        self.call(who, None, operation, arguments).unwrap_or_else(|error| panic!("{operation} {shown}: {error:?}"))
    }

    /// Runs an operation that must be refused for a reason of this kind.
    #[track_caller]
    pub(crate) fn refused(&mut self, kind: Kind, who: &str, operation: &str, arguments: Value) -> Error {
        let shown = arguments.to_string();
        let error = self.call(who, None, operation, arguments).expect_err(&format!("{operation} {shown} is refused"));
        assert_eq!(error.kind(), kind, "{operation} {shown}: {error:?}");
        error
    }

    /// The same; the error contains a text.
    #[track_caller]
    pub(crate) fn says(&mut self, kind: Kind, who: &str, operation: &str, arguments: Value, wanted: &str) {
        let error = self.refused(kind, who, operation, arguments);
        assert!(error.to_string().contains(wanted), "{operation}: {error}");
    }

    /// Claims a task, or the next one.
    #[track_caller]
    pub(crate) fn claim(&mut self, agent: &str, task: impl Into<Option<&'static str>>) -> Value {
        self.data(agent, "claim_task", json!({ "task": task.into() }))
    }

    /// Finishes a task that the agent holds.
    #[track_caller]
    pub(crate) fn finish(&mut self, agent: &str, task: &str) -> Value {
        self.data(agent, "finish_task", json!({ "task": task, "outcome": format!("result of {task}") }))
    }

    #[track_caller]
    pub(crate) fn task(&mut self, task: &str) -> Value {
        self.data(PERSON, "show_task", json!({ "task": task }))
    }

    /// Applies what is due, as every command does, and returns the status of a task.
    #[track_caller]
    pub(crate) fn status(&mut self, task: &str) -> String {
        let _ = self.data(PERSON, "expire_due", json!({}));
        self.task(task)["status"].as_str().unwrap().to_owned()
    }

    /// Returns the events of a kind, oldest first.
    pub(crate) fn events(&mut self, kind: &str) -> Vec<Value> {
        let query = json!({ "query": { "since": 0, "kind": kind, "limit": 1_000 } });
        list(&self.data(PERSON, "list_events", query)["events"])
    }
}

/// Returns the elements of an array.
#[track_caller]
pub(crate) fn list(value: &Value) -> Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list")).clone()
}

/// Returns the names of the records in a list.
#[track_caller]
pub(crate) fn names(value: &Value) -> Vec<String> {
    list(value).iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}
