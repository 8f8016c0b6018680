//! Who agents are: registration, roles, and what a role permits.

use serde_json::json;
use waypost_core::Kind;

use crate::harness::PERSON;
use crate::team::{Team, names};

fn agents(team: &mut Team, filter: serde_json::Value) -> Vec<String> {
    names(&team.data(PERSON, "list_agents", filter)["agents"])
}

#[test]
fn c2_agents_register_and_are_found_by_role_capability_and_status() {
    // The same in both scopes: this is part of C6.
    for is_shared in [false, true] {
        let mut team = Team::new();
        team.store.is_shared = is_shared;
        let builder = json!({ "name": "builder", "runtime": "codex", "capabilities": ["sql", "rust", "rust"],
            "max_claims": 2, "metadata": { "model": "x" } });
        let builder = team.data(PERSON, "register_agent", builder);
        let id = builder["id"].as_str().unwrap();
        assert!(id.starts_with("ag_") && id.len() == 15, "{id}");
        assert_eq!(builder["capabilities"], json!(["rust", "sql"]));
        assert_eq!((&builder["role"], &builder["metadata"]["model"]), (&json!("worker"), &json!("x")));
        let _ = team.data(PERSON, "register_agent", json!({ "name": "lead", "role": "coordinator" }));
        let again = team.data(PERSON, "register_agent", json!({ "name": "builder", "runtime": "claude-code" }));
        assert_eq!(again["id"], id, "the same one");
        assert_eq!(again["capabilities"], builder["capabilities"], "fields that are not given stay");
        assert_eq!(agents(&mut team, json!({})), ["builder", "lead"]);
        assert_eq!(agents(&mut team, json!({ "role": "coordinator" })), ["lead"]);
        assert_eq!(agents(&mut team, json!({ "capability": "rust" })), ["builder"]);
        assert_eq!(agents(&mut team, json!({ "status": "online" })), ["builder", "lead"]);
        assert!(agents(&mut team, json!({ "status": "busy" })).is_empty());
        let page = team.data(PERSON, "show_agent", json!({ "agent": id }));
        assert_eq!((&page["name"], &page["unread"]), (&json!("builder"), &json!(0)));
    }
}

#[test]
fn the_first_write_of_an_agent_registers_it_as_a_worker() {
    let mut team = Team::new();
    let _ = team.data("builder", "heartbeat", json!({}));
    assert_eq!(team.data(PERSON, "show_agent", json!({ "agent": "builder" }))["role"], "worker");
}

#[test]
fn c2_roles_change_what_is_allowed() {
    let mut team = Team::new();
    for (name, role) in [("lead", "coordinator"), ("one", "worker"), ("two", "worker")] {
        let _ = team.data(PERSON, "register_agent", json!({ "name": name, "role": role }));
    }
    let _ = team.data(PERSON, "register_agent", json!({}));
    let retire = |name: &str| json!({ "agent": name });
    let reason = "one is a worker, and retiring other agents is for coordinators and people";
    team.says(Kind::Refused, "one", "retire_agent", retire("two"), reason);
    let _ = team.data("lead", "retire_agent", retire("two"));
    let _ = team.data(PERSON, "retire_agent", retire("one"));
    assert_eq!(agents(&mut team, json!({})), ["lead", PERSON]);
    assert_eq!(agents(&mut team, json!({ "retired": true })), ["lead", "one", PERSON, "two"]);
    team.says(Kind::Conflict, "two", "heartbeat", json!({}), "has retired");
    let _ = team.data(PERSON, "register_agent", json!({ "name": "two" }));
    let _ = team.data("two", "heartbeat", json!({}));
}

#[test]
fn an_invalid_agent_is_refused() {
    let mut team = Team::new();
    for bad in [
        json!({ "name": "" }),
        json!({ "name": " x" }),
        json!({ "name": "a\nb" }),
        json!({ "name": "x", "timeout_ms": 0 }),
        json!({ "name": "x", "max_claims": 0 }),
        json!({ "name": "x", "role": "maintainer" }),
    ] {
        let _ = team.refused(Kind::Invalid, PERSON, "register_agent", bad);
    }
    let _ = team.refused(Kind::Invalid, PERSON, "list_agents", json!({ "status": "asleep" }));
    team.says(Kind::NotFound, PERSON, "show_agent", json!({ "agent": "unknown" }), "no agent \"unknown\"");
}
