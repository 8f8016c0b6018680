//! Sends a message to every agent that matches the filter.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::{Message, MessageKind, Role, Urgency};
use crate::op::message::send_message;
use crate::op::{Access, Effect, Operation, StoreOperation};
use crate::work::{agents, find, inbox};

/// Sends a message to every agent that matches the filter.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BroadcastMessage {
    /// Only agents with this role.
    #[serde(default)]
    pub role: Option<Role>,
    /// Only agents with this runtime.
    #[serde(default)]
    pub runtime: Option<String>,
    /// Only agents that hold a task of this workflow.
    #[serde(default)]
    pub working_on: Option<String>,
    /// The kind of message.
    #[serde(default)]
    pub kind: Option<MessageKind>,
    /// The priority.
    #[serde(default)]
    pub priority: Option<Urgency>,
    /// The subject, one line [default: the beginning of the body].
    #[serde(default)]
    pub subject: Option<String>,
    /// The full text.
    pub body: String,
    /// The workflow that the message is about.
    #[serde(default)]
    pub workflow: Option<String>,
    /// The task that the message is about.
    #[serde(default)]
    pub task: Option<String>,
    /// The time after which the message expires, in milliseconds.
    #[serde(default)]
    pub ttl_ms: Option<u64>,
}

/// The answer to [`BroadcastMessage`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Broadcast {
    /// The sent messages, one for each recipient.
    pub messages: Vec<Message>,
}

impl Operation for BroadcastMessage {
    const NAME: &'static str = "broadcast_message";
    const SUMMARY: &'static str = "Send a message to several agents";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::AGENTS;
    type Answer = Broadcast;
}

impl StoreOperation for BroadcastMessage {
    fn run(self, cx: &mut OpContext<'_>) -> Result<Broadcast> {
        let sender = agents::caller(cx)?;
        let draft = send_message::draft(
            cx,
            self.kind.unwrap_or(MessageKind::Broadcast),
            self.priority,
            self.subject,
            self.body,
            self.workflow,
            self.task,
            self.ttl_ms,
            None,
        )?;
        let workers = match &self.working_on {
            None => None,
            Some(reference) => {
                let workflow = find::workflow(cx, reference)?;
                let mut workers = BTreeSet::new();
                for task in cx.tx.task_list(&workflow.id)? {
                    workers.extend(cx.tx.lease_get(task.id.as_str())?.and_then(|lease| lease.holder));
                }
                Some(workers)
            }
        };
        let mut messages = Vec::new();
        for agent in cx.tx.agent_list()? {
            let is_concerned = agent.id != sender.id
                && agent.retired_at.is_none()
                && self.role.is_none_or(|role| agent.role == role)
                && self.runtime.as_ref().is_none_or(|runtime| agent.runtime.as_ref() == Some(runtime))
                && workers.as_ref().is_none_or(|workers| workers.contains(&agent.id));
            // A full inbox does not keep the message from the others.
            if is_concerned && !inbox::is_full(cx, &sender, &agent.id)? {
                messages.push(inbox::send(cx, &sender, &agent.id, &draft)?);
            }
        }
        if messages.is_empty() {
            return Err(Error::not_found("no agent matches the broadcast filter").hint("way agent list"));
        }
        Ok(Broadcast { messages })
    }
}
