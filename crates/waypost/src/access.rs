//! Authorization by role. Only the token identifies its bearer, never the request itself.
//!
//! Roles other than admin may only write what is listed here by name.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use waypost_core::op::Effect;
use waypost_core::{Error, Result};

/// The role of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The owner of the server.
    Admin,
    /// A worker or coordinator.
    Agent,
    /// One job, for as long as it runs.
    Job,
    /// An observer.
    ReadOnly,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 4] = [Role::Admin, Role::Agent, Role::Job, Role::ReadOnly];

    /// Returns the name of the role.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Admin => "admin",
            Role::Agent => "agent",
            Role::Job => "job",
            Role::ReadOnly => "read-only",
        }
    }
}

impl std::str::FromStr for Role {
    type Err = Error;

    fn from_str(text: &str) -> Result<Role> {
        Role::ALL.into_iter().find(|role| role.as_str() == text).ok_or_else(|| {
            Error::invalid(format!("unknown role {text:?}")).hint("expected one of: admin, agent, job, read-only")
        })
    }
}

/// The permissions of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The name of the token, which is not secret.
    pub token: String,
    /// Its role.
    pub role: Role,
    /// The agent that owns it. Requests with a token without an agent name the agent themselves.
    pub agent: Option<String>,
    /// The only task that it allows.
    pub task: Option<String>,
}

/// Writes that agents may make. Others are for people: to answer, approve, remove, and move between stores.
const AGENT_WRITES: &[&str] = &[
    "ack_message",
    "add_issue",
    "add_repository",
    "add_task",
    "add_workflow_repository",
    "apply_template",
    "ask_question",
    "assign_task",
    "broadcast_message",
    "cancel_workflow",
    "checkpoint_task",
    "claim_issue",
    "claim_task",
    "close_issue",
    "comment_issue",
    "complete_merge",
    "confirm_notice",
    "create_workflow",
    "depend_issue",
    "end_issue_lease",
    "fail_task",
    "finish_task",
    "heartbeat",
    "lease_issue",
    "list_inbox",
    "pause_task",
    "pause_workflow",
    "plan_workflow",
    "read_message",
    "register",
    "register_agent",
    "release_issue",
    "release_task",
    "remove_task",
    "reopen_issue",
    "reopen_task",
    "replan_workflow",
    "resume_workflow",
    "retire_agent",
    "save_template",
    "send_message",
    "expire_due",
    "skip_task",
    "start_workflow",
    "undepend_issue",
    "update_issue",
];

/// Operations that agents may not run with `force`.
const AGENT_WRITES_WITHOUT_FORCE: &[&str] =
    &["close_issue", "end_issue_lease", "release_issue", "reopen_issue", "update_issue"];

/// Operations that a job may run on its own task.
const JOB_TASK_OPERATIONS: &[&str] = &[
    "ask_question",
    "checkpoint_task",
    "fail_task",
    "finish_task",
    "get_context",
    "heartbeat",
    "list_checkpoints",
    "pause_task",
    "release_task",
    "show_task",
];

/// Operations that a job may run on itself.
const JOB_SELF_OPERATIONS: &[&str] = &["note_job", "show_job"];

/// Other operations that a job may run.
const JOB_OPERATIONS: &[&str] =
    &["ack_message", "list_inbox", "prime", "read_message", "register", "send_message", "show_thread"];

impl Grant {
    /// The grant of the owner of the server.
    pub fn owner(token: impl Into<String>) -> Grant {
        Grant { token: token.into(), role: Role::Admin, agent: None, task: None }
    }

    /// Returns an error if the token does not allow the operation.
    pub fn allow(&self, operation: &str, effect: Effect, arguments: &Value) -> Result<()> {
        let refused =
            |reason: String| Err(Error::refused(reason).hint("way token create --role ROLE creates another token"));
        match self.role {
            Role::Admin => Ok(()),
            Role::ReadOnly if effect == Effect::Read => Ok(()),
            Role::ReadOnly => refused(format!("{operation} is not allowed: the token is read-only")),
            Role::Agent if effect == Effect::Write && !AGENT_WRITES.contains(&operation) => {
                refused(format!("agents may not run {operation}"))
            }
            Role::Agent
                if AGENT_WRITES_WITHOUT_FORCE.contains(&operation)
                    && arguments.get("force") == Some(&Value::Bool(true)) =>
            {
                refused("agents may not use force: another agent may hold the issue".to_owned())
            }
            Role::Agent => self.allow_own_name(operation, arguments),
            Role::Job if JOB_TASK_OPERATIONS.contains(&operation) => {
                let named = arguments.get("task").and_then(Value::as_str);
                if named.is_some() && named == self.task.as_deref() {
                    Ok(())
                } else {
                    refused("this token allows only its own task, named by id".to_owned())
                }
            }
            Role::Job if JOB_OPERATIONS.contains(&operation) => Ok(()),
            // The name of a job's token is the id of the job.
            Role::Job if JOB_SELF_OPERATIONS.contains(&operation) => {
                let named = arguments.get("job").and_then(Value::as_str);
                if named == Some(&self.token) {
                    Ok(())
                } else {
                    refused("this token allows only its own job".to_owned())
                }
            }
            Role::Job => refused(format!("jobs may not run {operation}")),
        }
    }

    /// Lets an agent register or retire only itself, and only as a worker.
    fn allow_own_name(&self, operation: &str, arguments: &Value) -> Result<()> {
        let field = match operation {
            "register_agent" => "name",
            "retire_agent" => "agent",
            _ => return Ok(()),
        };
        let text = |field: &str| arguments.get(field).and_then(Value::as_str);
        match text(field) {
            Some(named) if Some(named) != self.agent.as_deref() => {
                Err(Error::refused(format!("this token does not belong to {named}")))
            }
            _ if text("role").is_some_and(|role| role != "worker") => {
                Err(Error::refused("agents may register only as workers")
                    .hint("the owner of the server runs way agent register --role coordinator"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use waypost_core::op::TABLE;

    use super::*;

    fn grant(role: Role) -> Grant {
        Grant { token: "x".to_owned(), role, agent: Some("a".to_owned()), task: Some("tk_1".to_owned()) }
    }

    #[test]
    fn t13_every_role_may_run_only_the_listed_operations() {
        let listed = |names: &[&str], name: &str| names.contains(&name);
        for entry in TABLE {
            let is_read = entry.effect == Effect::Read;
            let may = |role: Role, arguments: Value| grant(role).allow(entry.name, entry.effect, &arguments).is_ok();
            assert!(may(Role::Admin, json!({})), "{}", entry.name);
            assert_eq!(may(Role::ReadOnly, json!({})), is_read, "{}", entry.name);
            assert_eq!(may(Role::Agent, json!({})), is_read || listed(AGENT_WRITES, entry.name), "{}", entry.name);
            let (own, besides) = (listed(JOB_TASK_OPERATIONS, entry.name), listed(JOB_OPERATIONS, entry.name));
            assert_eq!(may(Role::Job, json!({ "task": "tk_1" })), own || besides, "{}", entry.name);
            assert_eq!(may(Role::Job, json!({ "task": "tk_2" })), besides, "{}", entry.name);
            assert_eq!(may(Role::Job, json!({})), besides, "{}", entry.name);
            assert_eq!(
                may(Role::Job, json!({ "job": "x" })),
                besides || listed(JOB_SELF_OPERATIONS, entry.name),
                "{}",
                entry.name
            );
        }
    }

    #[test]
    fn t35_agents_may_not_answer_questions_or_remove_worktrees() {
        for name in ["answer_question", "remove_worktree", "remove_repository", "take_workflow", "record_maintenance"] {
            let entry = TABLE.iter().find(|entry| entry.name == name).expect("the operation exists");
            assert!(grant(Role::Agent).allow(name, entry.effect, &json!({})).is_err(), "{name}");
        }
    }

    #[test]
    fn t12_an_agent_may_not_force_changes_to_issues_of_others() {
        for operation in AGENT_WRITES_WITHOUT_FORCE {
            let may = |role: Role, force: bool| {
                grant(role).allow(operation, Effect::Write, &json!({ "issue": "i", "force": force })).is_ok()
            };
            let table = Role::ALL.map(|role| (role.as_str(), may(role, false), may(role, true)));
            let expected =
                [("admin", true, true), ("agent", true, false), ("job", false, false), ("read-only", false, false)];
            assert_eq!(table, expected, "{operation}");
        }
    }

    #[test]
    fn t12_an_agent_may_not_register_or_retire_others() {
        let agent = grant(Role::Agent);
        for (operation, field) in [("register_agent", "name"), ("retire_agent", "agent")] {
            assert!(agent.allow(operation, Effect::Write, &json!({ field: "b" })).is_err());
            assert!(agent.allow(operation, Effect::Write, &json!({ field: "a" })).is_ok());
        }
        assert!(agent.allow("register_agent", Effect::Write, &json!({ "role": "human" })).is_err());
    }
}
