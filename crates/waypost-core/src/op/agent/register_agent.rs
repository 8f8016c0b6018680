//! Registers an agent, or updates its registration.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::{Agent, ProcessIdentity, Role, kind};
use crate::op::{Access, Effect, Operation, StoreOperation};
use crate::work::{agents, changes, described};

/// The minimum timeout of an agent.
const MIN_TIMEOUT_MS: u64 = 1_000;

/// Registers an agent, or updates its registration.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RegisterAgent {
    /// The name [default: the caller].
    #[serde(default)]
    pub name: Option<String>,
    /// The runtime.
    #[serde(default)]
    pub runtime: Option<String>,
    /// The role.
    #[serde(default)]
    pub role: Option<Role>,
    /// The capabilities.
    #[serde(default)]
    pub capabilities: Option<Vec<String>>,
    /// Further metadata.
    #[serde(default)]
    pub metadata: Value,
    /// The process of the agent.
    #[serde(default)]
    pub process: Option<ProcessIdentity>,
    /// The timeout after which a silent agent counts as offline, in milliseconds.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// The maximum number of leases at the same time.
    #[serde(default)]
    pub max_claims: Option<u32>,
}

impl Operation for RegisterAgent {
    const NAME: &'static str = "register_agent";
    const SUMMARY: &'static str = "Register an agent";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::own_name("name", &["max_claims", "timeout_ms"]);
    type Answer = Agent;
}

impl StoreOperation for RegisterAgent {
    fn run(self, cx: &mut OpContext<'_>) -> Result<Agent> {
        if self.timeout_ms.is_some_and(|timeout| timeout < MIN_TIMEOUT_MS) {
            return Err(Error::invalid("timeout must be at least 1s").hint("for example --timeout 15m"));
        }
        if self.max_claims == Some(0) {
            return Err(Error::invalid("max_claims must be at least 1"));
        }
        // A caller that registers without a name is a person.
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
