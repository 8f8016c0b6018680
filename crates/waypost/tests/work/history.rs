//! The history: pages, filters, and that nothing rewrites it.

use serde_json::{Value, json};
use waypost::Kind;
use waypost::op::{Maintenance, RecordMaintenance};

use crate::harness::{Office, PERSON, list};

#[test]
fn pages_join_without_gaps_and_filters_hold() {
    let office = Office::new();
    let mut session = office.session("writer");
    for _ in 0..23 {
        session.call(RecordMaintenance { what: Maintenance::Probed, detail: json!({}) }).unwrap();
    }
    let _ = office.data(PERSON, "register_agent", json!({ "name": "builder" }));
    let events = |query: Value| office.data(PERSON, "list_events", json!({ "query": query }));
    let (mut seen, mut since) = (Vec::new(), 0);
    loop {
        let page = events(json!({ "since": since, "limit": 5 }));
        let found = list(&page["events"]);
        seen.extend(found.iter().map(|event| event["sequence"].as_u64().unwrap()));
        since = page["position"].as_u64().unwrap();
        if found.len() < 5 {
            break;
        }
    }
    assert_eq!(seen, (1..=since).collect::<Vec<_>>());
    let newest = list(&events(json!({ "limit": 2 }))["events"]);
    assert_eq!(newest[0]["sequence"], since, "newest first");
    let agent = &newest[0]["subject"];
    let worktree = session.worktree().id.to_string();
    let of_agent =
        list(&events(json!({ "subject": agent, "since": 0, "worktree_id": worktree, "limit": 9 }))["events"]);
    assert!(!of_agent.is_empty() && of_agent.iter().all(|event| event["subject"] == *agent), "{of_agent:?}");
    let kinds = list(&events(json!({ "kind": "store.", "since": 0, "limit": 100 }))["events"]);
    assert_eq!(kinds.len(), 23);
    let first = list(&events(json!({ "kind": "repository.", "since": 0, "limit": 9 }))["events"]);
    assert_eq!(
        (first.len(), &first[0]["sequence"], &first[0]["time"]),
        (1, &json!(1), &json!("2026-01-01T00:00:00.000Z"))
    );
    let nowhere = json!({ "query": { "worktree_id": "wt_000000000000", "limit": 9 } });
    let _ = office.refused(Kind::NotFound, PERSON, "list_events", nowhere);
}
