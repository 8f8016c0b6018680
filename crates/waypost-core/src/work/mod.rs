//! The rules that the operations on workflows, tasks, agents and leases share.
//!
//! Nothing here begins or ends a transaction. `lease.rs` decides which agent may write, `attempt.rs` ends attempts,
//! `progress.rs` completes or fails workflows, `expire_due.rs` applies transitions that are due by time.

pub(crate) mod agents;
pub(crate) mod attempt;
pub mod attention;
pub mod base;
pub(crate) mod claim;
pub mod context;
pub(crate) mod expire_due;
pub(crate) mod find;
pub(crate) mod inbox;
pub(crate) mod issue_rights;
pub(crate) mod jobs;
pub(crate) mod lease;
pub(crate) mod machines;
pub mod places;
pub mod plan;
pub(crate) mod progress;
pub mod retention;
pub mod template;
pub mod timeline;
pub mod transfer;
pub mod view;

pub use agents::DEFAULT_TIMEOUT_MS as DEFAULT_AGENT_TIMEOUT_MS;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::{Task, Workflow};

/// Returns each field that changed, with its value before and after.
pub(crate) fn changes(before: &impl Serialize, after: &impl Serialize) -> Value {
    let (Ok(Value::Object(before)), Ok(Value::Object(after))) =
        (serde_json::to_value(before), serde_json::to_value(after))
    else {
        return Value::Null;
    };
    let changed = after.into_iter().filter_map(|(field, now)| {
        let was = before.get(&field).cloned().unwrap_or(Value::Null);
        (was != now).then(|| (field, json!([was, now])))
    });
    Value::Object(changed.collect::<Map<_, _>>())
}

impl OpContext<'_> {
    /// Stores a changed task, with an event that lists the changes.
    pub(crate) fn change_task(&mut self, kind: &'static str, before: &Task, after: &Task, more: Value) -> Result<()> {
        let changed = if after.has_plan_of(before) {
            self.tx.task_advance(&after.id, &after.progress())?;
            changes(&before.progress(), &after.progress())
        } else {
            self.tx.task_put(after)?;
            changes(before, after)
        };
        let mut data = described(changed, more);
        data["name"] = json!(after.name);
        self.event(kind, after.id.as_str(), data)?;
        Ok(())
    }

    /// Stores a changed workflow, with an event that lists the changes.
    pub(crate) fn change_workflow(&mut self, kind: &'static str, before: &Workflow, after: &Workflow) -> Result<()> {
        self.tx.workflow_put(after)?;
        let data = described(changes(before, after), json!({ "name": after.name }));
        self.event(kind, after.id.as_str(), data)?;
        Ok(())
    }
}

/// Returns the data of an event: the changes and further fields.
pub(crate) fn described(changed: Value, more: Value) -> Value {
    let mut data = Map::new();
    data.insert("changed".to_owned(), changed);
    if let Value::Object(more) = more {
        data.extend(more);
    }
    Value::Object(data)
}

/// Maximum length of a name.
const MAX_NAME_BYTES: usize = 200;

/// Refuses a name that is empty or too long, has control characters or spaces at its ends, or that a program could take for
/// an option or a path that leads elsewhere. An arrow is a dependency that was meant to be read as one.
pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    if name.trim().is_empty() {
        return Err(Error::invalid(format!("a {what} needs a name")));
    }
    if let Some(arrow) = ["<-", "->", "=>", "<=", "→", "←"].into_iter().find(|arrow| name.contains(arrow)) {
        return Err(Error::invalid(format!("the name of a {what} cannot contain {arrow}"))
            .hint("a task names the tasks that it needs: way help plan"));
    }
    let is_path = name.split(['/', '\\']).any(|part| part == "." || part == "..");
    let is_wrong = name.len() > MAX_NAME_BYTES || name.trim() != name || name.chars().any(char::is_control);
    if is_wrong || is_path || name.starts_with('-') {
        // A name may be of any length here.
        let shown: String = name.chars().take(60).collect();
        return Err(Error::invalid(format!("{shown:?} cannot be the name of a {what}")).hint(
            "up to 200 bytes on one line, with no space at its ends, no leading hyphen, and no . or .. as a path",
        ));
    }
    Ok(())
}
