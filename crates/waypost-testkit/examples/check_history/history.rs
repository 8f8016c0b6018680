//! A recorded history as data.

use std::collections::BTreeMap;

use serde_json::Value;

/// An operation: one run of a command.
pub(crate) struct Operation {
    /// Its number in the history.
    pub(crate) number: u64,
    /// Microseconds since the run began.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// None if the process was killed: its effect is unknown.
    pub(crate) code: Option<i64>,
    /// Its kind and its arguments: `{"kind": "comment", "issue": …, "text": …}`.
    pub(crate) does: Value,
    /// The `data` of a JSON answer, or its error.
    pub(crate) answer: Value,
}

impl Operation {
    /// Returns an argument as text; empty if there is none.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.does[name].as_str().unwrap_or_default()
    }

    pub(crate) fn kind(&self) -> &str {
        self.text("kind")
    }

    pub(crate) fn is_acknowledged(&self) -> bool {
        self.code == Some(0)
    }

    /// Returns the task and the epoch of the lease under which this writes, if it needs one.
    pub(crate) fn held(&self) -> Option<(&str, u64)> {
        Some((self.does["task"].as_str()?, self.does["epoch"].as_u64()?))
    }

    /// Returns the task and the epoch that a successful claim got.
    pub(crate) fn granted(&self) -> Option<(&str, u64)> {
        let is_claim = self.kind() == "claim" && self.is_acknowledged();
        is_claim.then_some(())?;
        Some((self.answer["task"]["id"].as_str()?, self.answer["lease"]["epoch"].as_u64()?))
    }
}

/// A whole run.
pub(crate) struct History {
    /// In the order of their start.
    pub(crate) operations: Vec<Operation>,
    /// Exit codes that the run allows, other than 0 and refusals.
    pub(crate) allowed: Vec<i64>,
    /// The duration of a lease, in microseconds. None if leases may end early.
    pub(crate) lease: Option<u64>,
    /// The final state, as the commands report it.
    pub(crate) state: Value,
}

impl History {
    pub(crate) fn parse(text: &str) -> Result<History, String> {
        let mut history = History { operations: Vec::new(), allowed: Vec::new(), lease: None, state: Value::Null };
        let mut open: BTreeMap<u64, Operation> = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            let mut line: Value = serde_json::from_str(line).map_err(|error| format!("line {}: {error}", index + 1))?;
            let number = line["op"].as_u64().unwrap_or_default();
            match line["line"].as_str().unwrap_or_default() {
                "head" => {
                    history.allowed =
                        line["allowed"].as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
                    history.lease = line["lease_us"].as_u64();
                }
                "start" => {
                    let start = line["time"].as_u64().unwrap_or_default();
                    let does = line["does"].take();
                    let operation = Operation { number, start, end: u64::MAX, code: None, does, answer: Value::Null };
                    open.insert(number, operation);
                }
                "end" => {
                    let operation =
                        open.get_mut(&number).ok_or(format!("line {}: the operation has no start", index + 1))?;
                    operation.end = line["time"].as_u64().unwrap_or_default();
                    operation.code = line["code"].as_i64();
                    operation.answer = line["answer"].take();
                }
                "state" => history.state = line,
                other => return Err(format!("line {}: unknown kind {other:?}", index + 1)),
            }
        }
        if history.state.is_null() {
            return Err("the final state is missing".to_owned());
        }
        add_epochs(&mut history.state);
        history.operations = open.into_values().collect();
        history.operations.sort_by_key(|operation| operation.start);
        Ok(history)
    }

    /// Returns a list of the final state.
    pub(crate) fn list(&self, name: &str) -> &[Value] {
        self.state[name].as_array().map_or(&[], Vec::as_slice)
    }

    /// Returns the operations of one kind.
    pub(crate) fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Operation> {
        self.operations.iter().filter(move |operation| operation.kind() == kind)
    }
}

/// Adds the epoch of the holder to events of tasks that do not name it.
fn add_epochs(state: &mut Value) {
    let mut epochs: BTreeMap<String, Value> = BTreeMap::new();
    for event in state["events"].as_array_mut().into_iter().flatten() {
        let subject = event["subject"].to_string();
        if event["kind"] == "task.claimed" {
            epochs.insert(subject, event["data"]["epoch"].clone());
        } else if let Some(epoch) = epochs.get(&subject)
            && event["data"]["epoch"].is_null()
        {
            event["data"]["epoch"] = epoch.clone();
        }
    }
}
