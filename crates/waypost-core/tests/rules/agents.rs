//! Agents, their timeouts and their messages.

use waypost_core::Kind;
use waypost_core::id::MessageId;
use waypost_core::model::{AgentStatus, EventQuery, Message, Role};
use waypost_core::op::{
    AckMessage, AddRepository, BroadcastMessage, ClaimTask, ExpireDue, ListEvents, ListInbox, RemoveRepository,
    SendMessage, ShowAgent, ShowWorkStatus,
};
use waypost_core::store::Store as _;
use waypost_core::work::plan::Plan;

use crate::harness::{PERSON, SeededEntropy, TestStore, claim, message, registration, repository, workflow};

/// Returns whether an agent is offline at a moment.
fn is_offline_at(store: &mut TestStore, agent: &str, millis: i64) -> bool {
    store.set_now(millis);
    store.write(PERSON, ExpireDue {}).unwrap();
    store.read(PERSON, ShowAgent { agent: agent.to_owned() }).unwrap().agent.status == AgentStatus::Offline
}

/// Starts a workflow and claims its task for the agent.
fn start_and_claim(store: &mut TestStore, agent: &str, ttl_ms: Option<u64>) {
    let plan = Plan::from_text("build: all of it").unwrap();
    store.write(PERSON, workflow("release", plan)).unwrap();
    store.write(agent, ClaimTask { ttl_ms, ..claim(None) }).unwrap();
}

#[test]
fn c3_a_timeout_of_the_agent_ends_its_lease() {
    let mut store = TestStore::new();
    store.write(PERSON, registration(Some("ada"), Some(60_000))).unwrap();
    start_and_claim(&mut store, "ada", None);
    assert!(!is_offline_at(&mut store, "ada", 60_999));
    assert!(is_offline_at(&mut store, "ada", 61_000));
    assert!(store.read(PERSON, ShowAgent { agent: "ada".to_owned() }).unwrap().holds.is_empty());
}

#[test]
fn the_default_timeout_extends_to_a_longer_lease() {
    let mut store = TestStore::new();
    let hour = 60 * 60 * 1_000;
    start_and_claim(&mut store, "ada", Some(hour));
    assert!(!is_offline_at(&mut store, "ada", 1_000 + 59 * 60 * 1_000));
    assert!(is_offline_at(&mut store, "ada", 1_000 + 60 * 60 * 1_000));
}

#[test]
fn a_caller_without_an_agent_registers_as_a_person() {
    let mut store = TestStore::new();
    assert_eq!(store.write(PERSON, registration(None, None)).unwrap().role, Role::Human);
    assert_eq!(store.write("ada", registration(None, None)).unwrap().role, Role::Worker);
    assert_eq!(store.write(PERSON, registration(Some("bob"), None)).unwrap().role, Role::Worker);
    store.write(PERSON, registration(Some("cyd"), Some(10))).unwrap_err();
}

#[test]
fn a_number_beyond_the_range_of_sql_is_refused() {
    let mut store = TestStore::new();
    let max = i64::MAX.cast_unsigned();
    assert_eq!(store.write(PERSON, registration(Some("ada"), Some(max))).unwrap().timeout_ms, max);
    store.write(PERSON, registration(Some("ada"), Some(max + 1))).unwrap_err();
}

#[test]
fn paging_events_from_next_misses_and_repeats_none() {
    let mut store = TestStore::new();
    for number in 0..7 {
        store.write(PERSON, registration(Some(&format!("agent {number}")), None)).unwrap();
    }
    for kind in [None, Some("agent.".to_owned()), Some("message.".to_owned())] {
        let (mut seen, mut since) = (Vec::new(), 0);
        loop {
            let query = EventQuery { since: Some(since), kind: kind.clone(), limit: 2, ..EventQuery::default() };
            let page = store.read(PERSON, ListEvents { query }).unwrap();
            assert!(page.position >= since && page.position <= page.last);
            since = page.position;
            let is_last = page.events.len() < 2;
            seen.extend(page.events.into_iter().map(|event| event.sequence));
            if is_last {
                assert_eq!(since, page.last, "the last page reaches the last event");
                break;
            }
        }
        let query = EventQuery { since: Some(0), kind, limit: 100, ..EventQuery::default() };
        let all: Vec<_> =
            store.read(PERSON, ListEvents { query }).unwrap().events.iter().map(|event| event.sequence).collect();
        assert_eq!(seen, all);
    }
}

#[test]
fn the_status_shows_silent_agents_and_messages_for_the_caller() {
    let mut store = TestStore::new();
    start_and_claim(&mut store, "ada", Some(30_000));
    let status =
        |store: &mut TestStore| store.read("bob", ShowWorkStatus { limit: 5, ..ShowWorkStatus::default() }).unwrap();
    store.set_now(20_999);
    assert_eq!((status(&mut store).working.len(), status(&mut store).stuck.len()), (1, 0));
    store.set_now(21_001);
    assert_eq!((status(&mut store).working.len(), status(&mut store).stuck.len()), (0, 1));
    store.write(PERSON, registration(Some("bob"), None)).unwrap();
    store.write("ada", message("bob", "hello")).unwrap();
    let status = status(&mut store);
    assert_eq!((status.messages[0].from.as_str(), status.totals.messages), ("ada", 1));
}

#[test]
fn c7_only_a_shared_store_adds_repositories_and_removes_unreferenced_ones() {
    let mut store = TestStore::new();
    let error = store.write(PERSON, AddRepository { repository: repository(5) }).unwrap_err();
    assert_eq!(error.kind().exit_code(), 7);
    store.is_shared = true;
    store.write(PERSON, AddRepository { repository: repository(5) }).unwrap();
    store.write(PERSON, RemoveRepository { repository: "repository 5".to_owned() }).unwrap();
    store.write(PERSON, RemoveRepository { repository: "repository 5".to_owned() }).unwrap_err();
    let error = store.write(PERSON, RemoveRepository { repository: "repository 1".to_owned() }).unwrap_err();
    assert_eq!(error.kind().exit_code(), 7, "the history refers to its worktree");
}

#[test]
fn an_inbox_shows_a_message_until_it_is_acknowledged() {
    let mut store = TestStore::new();
    for name in ["ada", "bob"] {
        store.write(PERSON, registration(Some(name), None)).unwrap();
    }
    let sent = store.write("ada", message("bob", "hello")).unwrap().id;
    let inbox = |store: &mut TestStore| -> Vec<MessageId> {
        let shown = store.write("bob", ListInbox { after: None, limit: 10, peek: false }).unwrap();
        shown.messages.into_iter().map(|view| view.message.id).collect()
    };
    for _ in 0..2 {
        assert_eq!(inbox(&mut store), std::slice::from_ref(&sent));
    }
    store.write("bob", AckMessage { messages: vec![sent] }).unwrap();
    assert_eq!(inbox(&mut store), []);
}

#[test]
fn an_inbox_is_limited_and_people_can_still_write() {
    let mut store = TestStore::new();
    for name in ["agent1", "agent2", "agent3"] {
        store.write(name, registration(Some(name), None)).unwrap();
    }
    let long = SendMessage { subject: Some("s".repeat(256 * 1024)), ..message("agent2", "body") };
    assert_eq!(store.write("agent1", long).unwrap_err().kind(), Kind::Invalid);
    let first = store.write("agent1", message("agent2", "first")).unwrap();
    let mut tx = store.store.begin_write().unwrap();
    for number in 2..=10_000 {
        let id = MessageId::generate(&mut SeededEntropy(number));
        tx.message_put(&Message { id, number, ..first.clone() }).unwrap();
    }
    tx.commit().unwrap();
    let refused = store.write("agent1", message("agent2", "one more")).unwrap_err();
    assert_eq!(refused.to_string(), "the inbox of agent2 is full: it has 10000 unacknowledged messages");
    store.write("agent1", message("agent3", "another inbox")).unwrap();
    store.write(PERSON, message("agent2", "from a person")).unwrap();
    let all: BroadcastMessage = serde_json::from_value(serde_json::json!({ "body": "to all" })).unwrap();
    let reached = store.write("agent1", all).unwrap().messages;
    assert!(!reached.is_empty() && reached.iter().all(|sent| sent.recipient != first.recipient), "{reached:?}");
}
