//! Tells an agent that knows nothing all that it has to know.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effect, Operation};
use crate::context::OpContext;
use crate::error::Result;
use crate::work::agents;
use crate::work::context::{self, Context};

/// Tells an agent that knows nothing all that it has to know.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Prime {
    /// How many tokens it may have.
    #[serde(default)]
    pub budget: Option<u32>,
    /// Whether the agent calls tools, and does not type commands.
    #[serde(default)]
    pub tools: bool,
    /// The issues that are ready, the first ones first, a line each: they are not in the store.
    #[serde(default)]
    pub ready: Vec<String>,
}

impl Operation for Prime {
    const NAME: &'static str = "prime";
    const SUMMARY: &'static str = "Tell an agent what it has to know";
    const EFFECT: Effect = Effect::Read;
    type Answer = Context;

    fn run(self, cx: &mut OpContext<'_>) -> Result<Context> {
        let agent = agents::known_caller(cx)?;
        let name = cx.caller.agent.clone().unwrap_or_else(|| cx.caller.actor.clone());
        context::prime(cx, agent.as_ref(), &name, &self.ready, self.budget.unwrap_or(BUDGET), self.tools)
    }
}

/// The budget if nobody says, in tokens.
const BUDGET: u32 = 800;
