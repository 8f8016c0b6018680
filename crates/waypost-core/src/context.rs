//! The context of an operation: the caller, and everything the operation may touch while it runs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Result;
use crate::id::Entropy;
use crate::model::{NewEvent, Repository, Worktree};
use crate::redact::Secrets;
use crate::seeded::seeded_bug;
use crate::store::Tx;
use crate::time::Timestamp;

/// The caller of an operation, and the place it calls from.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The author of everything the operation writes.
    pub actor: String,
    /// The agent that claims work and sends messages. Without an agent, the actor is a person.
    pub agent: Option<String>,
    /// The caller's repository, as it is now.
    pub repository: Arc<Repository>,
    /// The caller's worktree, as it is now.
    pub worktree: Arc<Worktree>,
    /// Where in the repository the caller is.
    pub standing: Standing,
    /// Whether several repositories share the store, so that a workflow may span them.
    pub is_shared: bool,
    /// How long claims last that name no duration.
    pub lease_times: LeaseTimes,
    /// The rights of the caller.
    pub authority: Authority,
    /// Values that no record may contain.
    pub secrets: Secrets,
}

/// The rights of a caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authority {
    /// All: the process of the user, or the token of an admin.
    #[default]
    User,
    /// Those of an agent, as the access of each operation says: the token of an agent or a job.
    Agent,
}

/// How long claims last that name no duration, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseTimes {
    /// Claims of agents [default: 30 minutes for issues, 10 for tasks].
    pub agent_ms: Option<u64>,
    /// Claims of people [default: until they are released].
    pub person_ms: Option<u64>,
    /// How long an agent may renew one claim; 0 for no limit [default: 7 days].
    pub max_ms: Option<u64>,
}

/// Where in a repository a caller is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// In the main worktree. Work that is planned there is open to all worktrees.
    #[default]
    MainWorktree,
    /// In a worktree that was made from another one. Work that is planned there belongs to it.
    LinkedWorktree,
    /// In no repository. The repository and the worktree of the caller stand for the user.
    Outside,
}

impl Caller {
    /// Returns the name that claims, messages and events carry: the agent's, or the actor's without an agent.
    pub fn name(&self) -> &str {
        self.agent.as_ref().unwrap_or(&self.actor)
    }

    /// Returns whether work that the caller does not name is limited to its repository.
    pub fn is_limited_to_repository(&self) -> bool {
        self.is_shared && self.standing != Standing::Outside
    }

    /// Returns whether a repository is the caller's. Clones of one remote repository count as the same.
    pub fn is_of(&self, repository: &Repository) -> bool {
        let own = &self.repository;
        repository.id == own.id || (own.remote_url.is_some() && repository.remote_url == own.remote_url)
    }
}

/// Everything an operation may touch while it runs.
pub struct OpContext<'a> {
    /// The transaction.
    pub tx: &'a mut dyn Tx,
    /// The caller.
    pub caller: &'a Caller,
    /// The source of new ids.
    pub entropy: &'a mut dyn Entropy,
    /// The moment of the whole transaction, by the store's clock.
    pub now: Timestamp,
}

impl OpContext<'_> {
    /// Appends an event in the caller's name and returns its sequence number.
    pub fn event(&mut self, kind: &'static str, subject: &str, data: Value) -> Result<u64> {
        let event = NewEvent {
            time: self.now,
            actor: self.caller.name().to_owned(),
            worktree_id: self.caller.worktree.id.clone(),
            kind,
            subject: subject.to_owned(),
            data,
        };
        if seeded_bug("event_twice") {
            self.tx.event_append(&event)?;
        }
        self.tx.event_append(&event)
    }
}
