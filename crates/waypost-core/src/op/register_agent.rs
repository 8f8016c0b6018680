//! Makes an agent known, or says what is new about it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Effect, Operation};
use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::{Agent, ProcessIdentity, Role, kind};
use crate::work::{agents, changes, described};

/// The shortest silence that means something.
const SHORTEST_MS: u64 = 1_000;

/// Makes an agent known, or says what is new about it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
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

    fn run(self, cx: &mut OpContext<'_>) -> Result<Agent> {
        if self.timeout_ms.is_some_and(|timeout| timeout < SHORTEST_MS) {
            return Err(Error::invalid("an agent that may be silent for less than a second is never there")
                .hint("--timeout 15m is usual"));
        }
        if self.max_claims == Some(0) {
            return Err(Error::invalid("an agent that may hold nothing cannot work"));
        }
        // Whoever registers without any name is the person at the keyboard.
        let role = if self.name.is_none() && cx.caller.agent.is_none() { Role::Human } else { Role::Worker };
        let caller = cx.caller.agent.clone();
        let name = self.name.or(caller).unwrap_or_else(|| cx.caller.actor.clone());
        let known = cx.tx.agent_named(&name)?;
        let mut agent = match &known {
            Some(agent) => agent.clone(),
            None => agents::new(cx, &name, self.role.unwrap_or(role))?,
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
        agent.timeout_ms = self.timeout_ms.unwrap_or(agent.timeout_ms);
        agent.max_claims = self.max_claims.or(agent.max_claims);
        agent.retired_at = None;
        cx.tx.agent_put(&agent)?;
        agents::touch(cx, &mut agent)?;
        if known.is_some() || agent != before {
            let data = described(changes(&before, &agent), json!({}));
            cx.event(kind::AGENT_REGISTERED, agent.id.as_str(), data)?;
        }
        Ok(agent)
    }
}
