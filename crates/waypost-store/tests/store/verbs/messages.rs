//! Facts about messages.

use serde_json::json;
use waypost_core::id::{AgentId, MessageId, WorkflowId};
use waypost_core::model::{
    Agent, AgentStatus, Message, MessageKind, MessageState, Reach, Role, Source, Urgency, Workflow, WorkflowStatus,
};
use waypost_core::store::Store;
use waypost_core::time::Timestamp;

use super::{Numbers, repository, worktree};
use crate::rows::{Dice, World};
use crate::{read, write};

pub(crate) fn an_inbox_contains_messages_that_are_neither_acted_on_nor_expired(store: &mut dyn Store) {
    let dice = &mut Dice::new(6);
    let mut world = World::small(dice);
    let moment = Timestamp::from_millis;
    for (state, expires_at) in [
        (MessageState::Queued, None),
        (MessageState::Read, Some(moment(11))),
        (MessageState::Presented, Some(moment(10))),
        (MessageState::Acted, None),
    ] {
        world.messages.push(Message { state, expires_at, ..world.message(dice) });
    }
    let recipient = &world.agents[0].id;
    write(store, |tx| {
        world.put(tx);
        world.messages.iter().for_each(|message| tx.message_put(message).unwrap());
    });
    read(store, |tx| {
        let numbers: Vec<_> =
            tx.message_list(recipient, moment(10), 0, 9).unwrap().iter().map(|message| message.number).collect();
        assert_eq!(numbers, [1, 2]);
        assert_eq!(tx.message_list(recipient, moment(10), 0, 1).unwrap().len(), 1);
        assert_eq!(tx.message_count(recipient, moment(10)).unwrap(), 2);
        assert_eq!(tx.message_count(recipient, moment(9)).unwrap(), 3);
        assert_eq!(tx.message_count_by_recipient(moment(10)).unwrap(), [(recipient.clone(), 2)]);
        assert_eq!(tx.message_count_by_recipient(moment(9)).unwrap(), [(recipient.clone(), 3)]);
        assert_eq!(tx.message_last().unwrap(), 4);
    });
}

pub(crate) fn messages_about_a_workflow_are_found_in_order(store: &mut dyn Store) {
    let repository = repository(1);
    let worktree = worktree(1, &repository);
    let now = Timestamp::from_millis(1_000);
    let workflow = |number| Workflow {
        id: WorkflowId::generate(&mut Numbers(number)),
        name: "release".to_owned(),
        source: Source::Prompt,
        source_ref: None,
        source_content: None,
        status: WorkflowStatus::Planning,
        summary: None,
        max_parallel: None,
        base: None,
        config: json!({}),
        reason: None,
        worktree_id: worktree.id.clone(),
        reach: Reach::Repository,
        created_at: now,
        updated_at: now,
        started_at: None,
        finished_at: None,
    };
    let agent = Agent {
        id: AgentId::generate(&mut Numbers(1)),
        name: "ada".to_owned(),
        runtime: None,
        role: Role::Worker,
        status: AgentStatus::Online,
        capabilities: Vec::new(),
        workspace_id: None,
        metadata: json!({}),
        process: None,
        timeout_ms: 1_000,
        max_claims: None,
        worktree_id: worktree.id.clone(),
        registered_at: now,
        last_heartbeat: now,
        silent_at: None,
        retired_at: None,
    };
    let message = |number: u8, about: Option<u8>| Message {
        id: MessageId::generate(&mut Numbers(number)),
        number: u64::from(100 - number),
        sender: agent.id.clone(),
        recipient: agent.id.clone(),
        thread: MessageId::generate(&mut Numbers(number)),
        reply_to: None,
        kind: MessageKind::Query,
        priority: Urgency::Normal,
        subject: String::new(),
        body: String::new(),
        workflow_id: about.map(|number| workflow(number).id),
        task_id: None,
        expires_at: None,
        state: MessageState::Acted,
        worktree_id: worktree.id.clone(),
        created_at: now,
        updated_at: now,
    };
    write(store, |tx| {
        tx.repository_put(&repository).unwrap();
        tx.worktree_put(&worktree).unwrap();
        tx.agent_put(&agent).unwrap();
        tx.workflow_put(&workflow(1)).unwrap();
        tx.workflow_put(&workflow(2)).unwrap();
        for (number, about) in [(1, Some(1)), (2, None), (3, Some(2)), (4, Some(1))] {
            tx.message_put(&message(number, about)).unwrap();
        }
    });
    let found = read(store, |tx| tx.message_list_about(&workflow(1).id).unwrap());
    assert_eq!(found, [message(4, Some(1)), message(1, Some(1))]);
}
