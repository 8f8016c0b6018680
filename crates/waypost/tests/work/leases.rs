//! Leases as the configuration of a repository limits them.

use serde_json::{Value, json};
use waypost::machine::place::{Place, Request};

use crate::harness::{Office, data};

#[test]
fn heartbeats_hold_a_task_no_longer_than_the_configured_maximum() {
    let office = Office::with("build: all of it\n");
    let place = || {
        let config = vec!["lease.max=1h".to_owned()];
        Place::resolve(Request { config, ..office.request(&office.repo) }).unwrap()
    };
    // Minutes until the lease ends, after each 9 minutes.
    let minutes = |end: &Value| {
        let end: Option<jiff::Timestamp> = end.as_str().map(|end| end.parse().unwrap());
        end.map(|end| (end.as_second() - 1_767_225_600) / 60)
    };
    let claimed = data(&place(), "builder", "claim_task", json!({ "task": "build" }));
    assert_eq!(minutes(&claimed["lease"]["expires_at"]), Some(10));
    let heartbeat = |_| {
        office.pass(9 * 60);
        minutes(&data(&place(), "builder", "heartbeat", json!({}))["leases"][0]["expires_at"])
    };
    let ends: Vec<_> = (1..=7).map(heartbeat).collect();
    assert_eq!(ends, [Some(19), Some(28), Some(37), Some(46), Some(55), Some(60), None], "the lease ended");
    let _ = data(&place(), "other", "claim_task", json!({ "task": "build" }));
}
