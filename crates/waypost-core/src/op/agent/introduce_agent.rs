//! Builds the introduction for a new agent: its work, its messages and how to work with Waypost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::op::{Access, Audience, Effect, JobAccess, Operation, StoreOperation};
use crate::work::agents;
use crate::work::context::{self, Context};

/// Builds the introduction for a new agent: its work, its messages and how to work with Waypost.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct IntroduceAgent {
    /// The token budget.
    #[serde(default)]
    pub budget: Option<u32>,
    /// Whether the agent calls MCP tools instead of commands.
    #[serde(default)]
    pub tools: bool,
    /// The ready issues in order, one line each. The caller passes them because the store does not have them.
    #[serde(default)]
    pub ready: Vec<String>,
}

impl Operation for IntroduceAgent {
    const NAME: &'static str = "introduce_agent";
    const SUMMARY: &'static str = "Build the introduction for a new agent from the store";
    const EFFECT: Effect = Effect::Read;
    const ACCESS: Access = Access::AGENTS.with_jobs(JobAccess::All);
    const AUDIENCE: Audience = Audience::Client;
    type Answer = Context;
}

impl StoreOperation for IntroduceAgent {
    fn run(self, cx: &mut OpContext<'_>) -> Result<Context> {
        let agent = agents::known_caller(cx)?;
        let name = cx.caller.agent.clone().unwrap_or_else(|| cx.caller.actor.clone());
        context::prime(cx, agent.as_ref(), &name, &self.ready, self.budget.unwrap_or(DEFAULT_BUDGET), self.tools)
    }
}

/// The default budget, in tokens.
const DEFAULT_BUDGET: u32 = 800;
