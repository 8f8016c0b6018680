//! Who may do what. A token says who its bearer is; nothing that a request says of itself does.
//!
//! What is not allowed here by name is not allowed, except to an admin.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use waypost_core::op::Effect;
use waypost_core::{Error, Result};

/// What the bearer of a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The user whose server it is.
    Admin,
    /// A worker or coordinator.
    Agent,
    /// One job, for as long as it runs.
    Job,
    /// Somebody who watches.
    ReadOnly,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 4] = [Role::Admin, Role::Agent, Role::Job, Role::ReadOnly];

    /// Returns the word for it.
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
            Error::invalid(format!("{text:?} is not a role")).hint("one of: admin, agent, job, read-only")
        })
    }
}

/// What a token allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What the token is called, which is no secret.
    pub token: String,
    /// What its bearer is.
    pub role: Role,
    /// The agent that it is the token of. Who has none says for whom it asks.
    pub agent: Option<String>,
    /// The only task that it is for.
    pub task: Option<String>,
}

/// What agents may write. The rest is for people: to answer, to approve, to remove, to move between stores.
const AGENTS_WRITE: &[&str] = &[
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

/// What agents may do with what is theirs, and by force with nothing.
const AGENTS_FORCE_NOT: &[&str] = &["close_issue", "end_issue_lease", "release_issue", "reopen_issue", "update_issue"];

/// What a job may ask about its own task.
const OF_ONE_TASK: &[&str] = &[
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

/// What a job may ask about itself.
const OF_ONE_JOB: &[&str] = &["note_job", "show_job"];

/// What a job may ask besides.
const OF_JOBS: &[&str] =
    &["ack_message", "list_inbox", "prime", "read_message", "register", "send_message", "show_thread"];

impl Grant {
    /// The grant of whoever owns the server.
    pub fn owner(token: impl Into<String>) -> Grant {
        Grant { token: token.into(), role: Role::Admin, agent: None, task: None }
    }

    /// Refuses an operation that its bearer may not ask for.
    pub fn allow(&self, operation: &str, effect: Effect, arguments: &Value) -> Result<()> {
        let refused = |why: String| Err(Error::refused(why).hint("way token create --role ROLE makes another token"));
        match self.role {
            Role::Admin => Ok(()),
            Role::ReadOnly if effect == Effect::Read => Ok(()),
            Role::ReadOnly => refused(format!("this token may only read, and {operation} writes")),
            Role::Agent if effect == Effect::Write && !AGENTS_WRITE.contains(&operation) => {
                refused(format!("{operation} is not for agents"))
            }
            Role::Agent
                if AGENTS_FORCE_NOT.contains(&operation) && arguments.get("force") == Some(&Value::Bool(true)) =>
            {
                refused("no agent takes away what another one works on".to_owned())
            }
            Role::Agent => self.allow_own_name(operation, arguments),
            Role::Job if OF_ONE_TASK.contains(&operation) => {
                let asked = arguments.get("task").and_then(Value::as_str);
                if asked.is_some() && asked == self.task.as_deref() {
                    Ok(())
                } else {
                    refused("this token is for one task only, named by its id".to_owned())
                }
            }
            Role::Job if OF_JOBS.contains(&operation) => Ok(()),
            // The token of a job is called as the job.
            Role::Job if OF_ONE_JOB.contains(&operation) => {
                let asked = arguments.get("job").and_then(Value::as_str);
                if asked == Some(&self.token) { Ok(()) } else { refused("this token is for one job only".to_owned()) }
            }
            Role::Job => refused(format!("{operation} is not for jobs")),
        }
    }

    /// An agent may say something of itself, and nothing of others.
    fn allow_own_name(&self, operation: &str, arguments: &Value) -> Result<()> {
        let field = match operation {
            "register_agent" => "name",
            "retire_agent" => "agent",
            _ => return Ok(()),
        };
        let said = |field: &str| arguments.get(field).and_then(Value::as_str);
        match said(field) {
            Some(named) if Some(named) != self.agent.as_deref() => {
                Err(Error::refused(format!("this token is not that of {named}")))
            }
            _ if said("role").is_some_and(|role| role != "worker") => {
                Err(Error::refused("no agent makes itself more than a worker")
                    .hint("whoever owns the server does: way agent register --role coordinator"))
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
    fn t13_every_role_may_do_what_is_written_here_and_nothing_else() {
        let listed = |names: &[&str], name: &str| names.contains(&name);
        for entry in TABLE {
            let is_read = entry.effect == Effect::Read;
            let may = |role: Role, arguments: Value| grant(role).allow(entry.name, entry.effect, &arguments).is_ok();
            assert!(may(Role::Admin, json!({})), "{}", entry.name);
            assert_eq!(may(Role::ReadOnly, json!({})), is_read, "{}", entry.name);
            assert_eq!(may(Role::Agent, json!({})), is_read || listed(AGENTS_WRITE, entry.name), "{}", entry.name);
            let (own, besides) = (listed(OF_ONE_TASK, entry.name), listed(OF_JOBS, entry.name));
            assert_eq!(may(Role::Job, json!({ "task": "tk_1" })), own || besides, "{}", entry.name);
            assert_eq!(may(Role::Job, json!({ "task": "tk_2" })), besides, "{}", entry.name);
            assert_eq!(may(Role::Job, json!({})), besides, "{}", entry.name);
            assert_eq!(
                may(Role::Job, json!({ "job": "x" })),
                besides || listed(OF_ONE_JOB, entry.name),
                "{}",
                entry.name
            );
        }
    }

    #[test]
    fn t35_only_people_answer_and_clean_up() {
        for name in ["answer_question", "remove_worktree", "remove_repository", "take_workflow", "record_maintenance"] {
            let entry = TABLE.iter().find(|entry| entry.name == name).expect("it is an operation");
            assert!(grant(Role::Agent).allow(name, entry.effect, &json!({})).is_err(), "{name}");
        }
    }

    #[test]
    fn t12_an_agent_takes_no_issue_away_from_others() {
        for operation in AGENTS_FORCE_NOT {
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
    fn t12_an_agent_says_nothing_of_others() {
        let agent = grant(Role::Agent);
        for (operation, field) in [("register_agent", "name"), ("retire_agent", "agent")] {
            assert!(agent.allow(operation, Effect::Write, &json!({ field: "b" })).is_err());
            assert!(agent.allow(operation, Effect::Write, &json!({ field: "a" })).is_ok());
        }
        assert!(agent.allow("register_agent", Effect::Write, &json!({ "role": "human" })).is_err());
    }
}
