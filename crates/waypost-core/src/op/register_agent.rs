//! Makes an agent known, or says what is new about it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Effect, Operation};
use crate::engine::Cx;
use crate::error::Result;
use crate::model::{Agent, ProcessIdentity, Role, kind};
use crate::work::{agents, changes, described};

/// Makes an agent known, or says what is new about it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RegisterAgent {
    /// What others call it; the caller if nobody says.
    #[serde(default)]
    pub name: Option<String>,
    /// What it runs on.
    #[serde(default)]
    pub runtime: Option<String>,
    /// What it is there for.
    #[serde(default)]
    pub role: Option<Role>,
    /// What it can do.
    #[serde(default)]
    pub capabilities: Option<Vec<String>>,
    /// Whatever else is worth knowing.
    #[serde(default)]
    pub metadata: Value,
    /// Which process it is.
    #[serde(default)]
    pub process: Option<ProcessIdentity>,
    /// How long it may be silent, in milliseconds.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// How many leases it may hold at once.
    #[serde(default)]
    pub max_claims: Option<u32>,
}

impl Operation for RegisterAgent {
    const NAME: &'static str = "register_agent";
    const SUMMARY: &'static str = "Make an agent known";
    const EFFECT: Effect = Effect::Write;
    type Answer = Agent;

    fn run(self, cx: &mut Cx<'_>) -> Result<Agent> {
        let caller = cx.caller.agent.clone();
        let name = self.name.or(caller).unwrap_or_else(|| cx.caller.actor.clone());
        let known = cx.tx.agent_named(&name)?;
        let mut agent = match &known {
            Some(agent) => agent.clone(),
            None => agents::new(cx, &name, self.role.unwrap_or(Role::Worker))?,
        };
        let before = agent.clone();
        agent.runtime = self.runtime.or(agent.runtime);
        agent.role = self.role.unwrap_or(agent.role);
        agent.capabilities = self.capabilities.unwrap_or(agent.capabilities);
        agent.capabilities.sort();
        agent.capabilities.dedup();
        if !self.metadata.is_null() {
            agent.metadata = self.metadata;
        }
        agent.process = self.process.or(agent.process);
        agent.timeout_ms = self.timeout_ms.unwrap_or(agent.timeout_ms).max(1_000);
        agent.max_claims = self.max_claims.or(agent.max_claims);
        agent.retired_at = None;
        agents::touch(cx, &mut agent)?;
        if known.is_some() || agent != before {
            let data = described(changes(&before, &agent), json!({}));
            cx.event(kind::AGENT_REGISTERED, agent.id.as_str(), data)?;
        }
        Ok(agent)
    }
}
