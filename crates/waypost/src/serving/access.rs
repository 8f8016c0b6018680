//! Authorization by role. Only the token identifies its bearer, never the request itself.
//!
//! Each operation states its [`Access`](waypost_core::op::Access); a grant applies it to the arguments of a call.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use waypost_core::context::Authority;
use waypost_core::op::{AgentAccess, Audience, Description, Effect, JobAccess};
use waypost_core::seeded::seeded_bug;
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

impl Grant {
    /// The grant of the owner of the server.
    pub fn owner(token: impl Into<String>) -> Grant {
        Grant { token: token.into(), role: Role::Admin, agent: None, task: None }
    }

    /// Returns the rights of the caller for the engine.
    pub(crate) fn authority(&self) -> Authority {
        match self.role {
            Role::Admin => Authority::User,
            Role::Agent | Role::Job | Role::ReadOnly => Authority::Agent,
        }
    }

    /// Returns an error if the token does not allow the operation with these arguments.
    pub fn allow(&self, about: &Description, arguments: &Value) -> Result<()> {
        let refused =
            |reason: String| Error::refused(reason).hint("way token create --role ROLE creates another token");
        let named = |field: &str| arguments.get(field).and_then(Value::as_str);
        let operation = about.name;
        let reason = match self.role {
            Role::Admin => return Ok(()),
            _ if about.audience == Audience::Internal => format!("{operation} is a step of Waypost itself"),
            Role::ReadOnly if about.effect == Effect::Read || seeded_bug("ignore_role") => return Ok(()),
            Role::ReadOnly => format!("{operation} is not allowed: the token is read-only"),
            Role::Agent => match about.access.agents {
                // The engine checks whose work it is, and the role of the agent.
                AgentAccess::All | AgentAccess::OwnWork | AgentAccess::Coordinators => return Ok(()),
                AgentAccess::None => format!("agents may not run {operation}"),
                AgentAccess::WithoutForce if arguments.get("force") != Some(&Value::Bool(true)) => return Ok(()),
                AgentAccess::WithoutForce => "agents may not use force: another agent may hold the issue".to_owned(),
                AgentAccess::OwnName(field, limits) => {
                    let set = limits.iter().find(|limit| arguments.get(**limit).is_some_and(|value| !value.is_null()));
                    match set {
                        Some(limit) => format!("agents may not set {limit}: limits are set by people"),
                        None => return self.allow_own_name(named(field), named("role")),
                    }
                }
            },
            Role::Job => match about.access.jobs {
                JobAccess::All => return Ok(()),
                JobAccess::None => format!("jobs may not run {operation}"),
                // A heartbeat may name no task, if the job has none.
                JobAccess::OwnTask if named("task") == self.task.as_deref() => return Ok(()),
                JobAccess::OwnTask => "this token allows only its own task, named by id".to_owned(),
                // The name of a job's token is the id of the job.
                JobAccess::OwnJob if named("job") == Some(&self.token) => return Ok(()),
                JobAccess::OwnJob => "this token allows only its own job".to_owned(),
                JobAccess::WithoutForce if arguments.get("force") != Some(&Value::Bool(true)) => return Ok(()),
                JobAccess::WithoutForce => "jobs may not use force: another agent may hold the issue".to_owned(),
            },
        };
        Err(refused(reason))
    }

    /// Lets an agent name only itself, and only as a worker.
    fn allow_own_name(&self, name: Option<&str>, role: Option<&str>) -> Result<()> {
        match name {
            Some(name) if Some(name) != self.agent.as_deref() => {
                Err(Error::refused(format!("this token does not belong to {name}")))
            }
            _ if role.is_some_and(|role| role != "worker") => {
                Err(Error::refused("agents may register only as workers")
                    .hint("the owner of the server runs way agent register --role coordinator"))
            }
            _ => Ok(()),
        }
    }
}
