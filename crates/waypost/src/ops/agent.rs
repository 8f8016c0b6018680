//! The introduction of an agent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use waypost_core::Result;
use waypost_core::escape::{quoted, word};
use waypost_core::op::{Access, Effect, IntroduceAgent, JobAccess, Operation};
use waypost_core::work::context::Context;
use waypost_ledger::{Index, Summary};

use super::issue::read_index;
use crate::app::operation::{AppContext, AppEntry, AppOperation};
use crate::issues::claims;
use crate::issues::ledger::Ledger;

/// All operations on agents outside the store.
pub(crate) static TABLE: &[AppEntry] = &[AppEntry::of::<Prime>()];

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
    /// Repository whose ready issues to include: the id or name of a configured one, or a path except
    /// over HTTP.
    #[serde(default)]
    pub repo: Option<String>,
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
        let Prime { budget, tools, repo } = self;
        let ready = match ready_issues(cx, repo.as_deref()) {
            Ok(ready) => ready,
            // The agent needs the rest of its introduction in any case.
            Err(error) => {
                cx.warnings.push(format!("ready issues are left out: {}", error.full_message()));
                Vec::new()
            }
        };
        cx.session()?.read(IntroduceAgent { budget, tools, ready })
    }
}

/// Returns descriptions of the first ready issues; one more than shown, so that the introduction can mention others.
fn ready_issues(cx: &mut AppContext<'_>, repo: Option<&str>) -> Result<Vec<String>> {
    let place = cx.place;
    if place.checkout.is_none() || (repo.is_none() && !place.may_have_ledger()) {
        return Ok(Vec::new());
    }
    let (ledger, unreachable) = Ledger::narrowed(place, repo, &[])?;
    cx.warnings.extend(unreachable);
    let held = claims::held_by_others(cx.session()?, &ledger)?;
    let read = |index: &Index| claims::ready(index, &ledger, &held, &[], Some(MAX_READY_ISSUES + 1).into());
    let (found, warnings) = read_index(&ledger, read)?;
    cx.warnings.extend(warnings);
    let line = |issue: &Summary| quoted(&format!("{}, priority {}", word(&issue.id), issue.priority), &issue.title);
    Ok(found.iter().map(line).collect())
}
