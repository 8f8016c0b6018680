//! The caller as an agent.

use serde_json::{Value, json};

use super::{check_name, lease};
use crate::context::OpContext;
use crate::error::{Error, Kind, Result};
use crate::id::AgentId;
use crate::model::{Agent, AgentStatus, Lease, Role, kind};

/// Default time without a heartbeat after which an agent is offline.
pub const DEFAULT_TIMEOUT_MS: u64 = 15 * 60 * 1000;

/// Returns the calling agent and records a heartbeat, as every write does.
pub(crate) fn caller(cx: &mut OpContext<'_>) -> Result<Agent> {
    let mut agent = find_or_register_caller(cx)?;
    touch(cx, &mut agent)?;
    Ok(agent)
}

/// Returns the calling agent and registers it on first use. The caller of this function calls [`touch`] at its end.
pub(crate) fn find_or_register_caller(cx: &mut OpContext<'_>) -> Result<Agent> {
    let name = cx.caller.agent.clone().unwrap_or_else(|| cx.caller.actor.clone());
    let role = if cx.caller.agent.is_some() { Role::Worker } else { Role::Human };
    let known = cx.tx.agent_named(&name)?;
    match known {
        Some(agent) if agent.retired_at.is_some() => Err(Error::conflict(format!("agent {name} has retired"))
            .hint("take another name, or bring it back with way agent register")),
        Some(agent) => Ok(agent),
        None => new(cx, &name, role),
    }
}

/// Returns the calling agent if it is registered. For reads, which register no agent.
pub(crate) fn known_caller(cx: &mut OpContext<'_>) -> Result<Option<Agent>> {
    cx.tx.agent_named(cx.caller.name())
}

/// Registers an agent.
pub(crate) fn new(cx: &mut OpContext<'_>, name: &str, role: Role) -> Result<Agent> {
    check_name("agent", name)?;
    if name.parse::<AgentId>().is_ok() {
        return Err(Error::not_found(format!("no agent {name}")));
    }
    let agent = fresh(cx, name, role);
    cx.tx.agent_put(&agent)?;
    cx.event(kind::AGENT_REGISTERED, agent.id.as_str(), json!({ "after": agent }))?;
    Ok(agent)
}

/// Returns the agent that the caller would become on registration. It is not stored.
pub(crate) fn unregistered(cx: &mut OpContext<'_>) -> Agent {
    let name = cx.caller.agent.clone().unwrap_or_else(|| cx.caller.actor.clone());
    fresh(cx, &name, Role::Worker)
}

fn fresh(cx: &mut OpContext<'_>, name: &str, role: Role) -> Agent {
    Agent {
        id: AgentId::generate(cx.entropy),
        name: name.to_owned(),
        runtime: None,
        role,
        status: AgentStatus::Online,
        capabilities: Vec::new(),
        workspace_id: None,
        metadata: Value::Object(serde_json::Map::new()),
        process: None,
        timeout_ms: DEFAULT_TIMEOUT_MS,
        max_claims: None,
        worktree_id: cx.caller.worktree.id.clone(),
        registered_at: cx.now,
        last_heartbeat: cx.now,
        silent_at: Some(cx.now.plus(DEFAULT_TIMEOUT_MS)),
        retired_at: None,
    }
}

/// Records a heartbeat and renews the agent's leases on issues.
pub(crate) fn touch(cx: &mut OpContext<'_>, agent: &mut Agent) -> Result<()> {
    let held = cx.tx.lease_list(Some(&agent.id))?;
    lease::renew_own(cx, &held, false)?;
    record_heartbeat(cx, agent, &held)
}

/// Records a heartbeat of an agent that holds these leases. An agent with a timeout of its own is offline exactly after it,
/// and loses its leases. The default timeout is extended to the longest lease.
pub(crate) fn record_heartbeat(cx: &mut OpContext<'_>, agent: &mut Agent, held: &[Lease]) -> Result<()> {
    let timeout = match agent.timeout_ms {
        DEFAULT_TIMEOUT_MS => held.iter().map(|lease| lease.ttl_ms).fold(DEFAULT_TIMEOUT_MS, u64::max),
        chosen => chosen,
    };
    let status = if held.is_empty() { AgentStatus::Online } else { AgentStatus::Busy };
    let has_other_status = std::mem::replace(&mut agent.status, status) != status;
    agent.last_heartbeat = cx.now;
    agent.silent_at = Some(cx.now.plus(timeout));
    if has_other_status { cx.tx.agent_put(agent) } else { cx.tx.agent_touch(agent) }
}

/// Refuses workers.
pub(crate) fn require_coordinator(agent: &Agent, what: &str) -> Result<()> {
    match agent.role {
        Role::Coordinator | Role::Human => Ok(()),
        Role::Worker => Err(Error::new(
            Kind::Refused,
            format!("{} is a worker, and {what} is for coordinators and people", agent.name),
        )
        .hint("a person leaves out --agent; a coordinator registers with --role coordinator")),
    }
}
