//! Checks that an agent changes only its own work.

use serde_json::Value;

use super::{AgentAccess, AnyOperation};
use crate::context::{Authority, OpContext};
use crate::error::{Error, Result};
use crate::id::WorkflowId;
use crate::model::{EventQuery, Role, Task, kind};
use crate::work::find;

/// Refuses an operation that the rights of the caller do not cover. Only the store knows the role of an agent and to whom
/// work belongs, so the check is part of the transaction.
pub(crate) fn check(cx: &mut OpContext<'_>, operation: &dyn AnyOperation) -> Result<()> {
    let access = operation.entry().about.access;
    let is_limited = matches!(access.agents, AgentAccess::OwnWork | AgentAccess::Coordinators);
    if cx.caller.authority == Authority::User || !is_limited || is_coordinator(cx)? {
        return Ok(());
    }
    if access.agents == AgentAccess::OwnWork && is_own(cx, &operation.arguments()?)? {
        return Ok(());
    }
    let (name, operation) = (cx.caller.name(), operation.entry().about.name);
    let reason = match access.agents {
        AgentAccess::OwnWork => {
            format!("{name} is a worker, and may run {operation} only on work that it planned or holds")
        }
        _ => format!("{name} is a worker, and {operation} is for coordinators and people"),
    };
    Err(Error::refused(reason).hint("ask a coordinator or a person: way msg send NAME TEXT"))
}

fn is_coordinator(cx: &mut OpContext<'_>) -> Result<bool> {
    let agent = cx.tx.agent_named(cx.caller.name())?.filter(|agent| agent.retired_at.is_none());
    Ok(agent.is_some_and(|agent| matches!(agent.role, Role::Coordinator | Role::Human)))
}

/// Returns whether the caller planned the work that the arguments name, or holds the task.
fn is_own(cx: &mut OpContext<'_>, arguments: &Value) -> Result<bool> {
    let named = |field: &str| arguments.get(field).and_then(Value::as_str);
    let workflow = match (named("task"), named("workflow")) {
        (Some(task), workflow) => {
            let task = find::task(cx, task, workflow)?;
            if let Some(is_holder) = is_holder(cx, &task)? {
                return Ok(is_holder);
            }
            task.workflow_id
        }
        (None, Some(workflow)) => find::workflow(cx, workflow)?.id,
        (None, None) => return Ok(false),
    };
    planned(cx, &workflow)
}

/// Returns whether the caller holds a task; none if no agent holds it.
fn is_holder(cx: &mut OpContext<'_>, task: &Task) -> Result<Option<bool>> {
    let Some(holder) = cx.tx.lease_get(task.id.as_str())?.and_then(|lease| lease.holder) else { return Ok(None) };
    Ok(Some(cx.tx.agent_named(cx.caller.name())?.is_some_and(|agent| agent.id == holder)))
}

/// Returns whether the caller created a workflow. The history tells: it is append-only, and its actor comes from the token.
fn planned(cx: &mut OpContext<'_>, workflow: &WorkflowId) -> Result<bool> {
    let query = EventQuery {
        since: Some(0),
        kind: Some(kind::WORKFLOW_CREATED.to_owned()),
        subject: Some(workflow.to_string()),
        limit: 1,
        ..EventQuery::default()
    };
    Ok(cx.tx.event_list(&query)?.first().is_some_and(|event| event.actor == cx.caller.name()))
}
