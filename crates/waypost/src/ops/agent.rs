//! The introduction of an agent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use waypost_core::Result;
use waypost_core::op::{Access, Effect, IntroduceAgent, JobAccess, Operation};
use waypost_core::work::context::Context;
use waypost_ledger::Summary;

use crate::claims;
use crate::ledger::Ledger;
use crate::operation::{AppContext, AppEntry, AppOperation};
use crate::place::Place;

/// All operations on agents outside the store.
pub static TABLE: &[AppEntry] = &[AppEntry::of::<Prime>()];

/// Maximum number of ready issues in the introduction.
const MAX_READY_ISSUES: usize = 3;

/// Builds the introduction for a new agent: its work, its messages, ready issues and how to work with Waypost.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Prime {
    /// The token budget.
    #[serde(default)]
    pub budget: Option<u32>,
    /// Whether the agent calls MCP tools instead of commands.
    #[serde(default)]
    pub tools: bool,
}

impl Operation for Prime {
    const NAME: &'static str = "prime";
    const SUMMARY: &'static str = "Print the introduction for a new agent";
    const EFFECT: Effect = Effect::Read;
    const ACCESS: Access = Access::AGENTS.with_jobs(JobAccess::All);
    type Answer = Context;
}

impl AppOperation for Prime {
    const IS_SHORT: bool = true;

    fn run(self, cx: &mut AppContext<'_>) -> Result<Context> {
        let Prime { budget, tools } = self;
        let ready = ready_issues(cx.place)?;
        cx.session()?.read(IntroduceAgent { budget, tools, ready })
    }
}

/// Returns descriptions of the first ready issues; one more than shown, so that the introduction can mention others.
fn ready_issues(place: &Place) -> Result<Vec<String>> {
    if place.ledger().is_none_or(|(path, _)| !path.exists()) {
        return Ok(Vec::new());
    }
    let ledger = Ledger::of(place)?;
    let (held, now) = (claims::held_by_others(place)?, ledger.now());
    let found = ledger.with_index(|index| claims::ready(index, &held, now, Some(MAX_READY_ISSUES + 1)))?;
    let line = |issue: &Summary| format!("{} {}, priority {}", issue.id, issue.title, issue.priority);
    Ok(found.iter().map(line).collect())
}
