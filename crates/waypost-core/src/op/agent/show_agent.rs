//! Shows an agent and the leases it holds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::op::AgentView;
use crate::op::{Effect, Operation, StoreOperation};
use crate::work::find;

/// Shows an agent and the leases it holds.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ShowAgent {
    /// The agent: its id or name.
    pub agent: String,
}

impl Operation for ShowAgent {
    const NAME: &'static str = "show_agent";
    const SUMMARY: &'static str = "Show an agent";
    const EFFECT: Effect = Effect::Read;
    type Answer = AgentView;
}

impl StoreOperation for ShowAgent {
    fn run(self, cx: &mut OpContext<'_>) -> Result<AgentView> {
        let agent = find::agent(cx, &self.agent)?;
        AgentView::of(cx, agent)
    }
}
