//! Claims and leases: who may hold a task, for how long, and what a former holder may still do.

use serde_json::{Value, json};
use waypost_core::Kind;

use crate::harness::PERSON;
use crate::team::{Team, list};

#[test]
fn a_task_can_be_released_deferred_and_taken_from_another_agent() {
    let mut team = Team::with("a: one\nb: two\n");
    let _ = team.claim("ann", "a");
    let _ = team.data("ann", "release_task", json!({ "task": "a", "epoch": 1, "reason": "lunch" }));
    assert_eq!(team.task("a")["attempts"], 0, "a release is not an attempt");
    let _ = team.claim("ann", "a");
    let _ = team.data("ann", "pause_task", json!({ "task": "a" }));
    assert_eq!(team.claim("bob", None)["task"]["name"], "b", "a deferred task is not dispatched");
    assert_eq!(team.claim("bob", "a")["lease"]["epoch"], 3, "but can be claimed by name");
    let force = json!({ "task": "a", "force": true, "reason": "bob is away" });
    let _ = team.refused(Kind::Refused, "ann", "release_task", force.clone());
    let _ = team.data(PERSON, "release_task", force);
    let _ = team.refused(Kind::LeaseLost, "bob", "finish_task", json!({ "task": "a", "outcome": "x" }));
}

#[test]
fn c4_every_refusal_of_a_claim_says_why() {
    let mut team = Team::new();
    let plan = json!({ "tasks": [
        { "name": "a" }, { "name": "blocked", "depends_on": ["a"] }, { "name": "skilled", "capabilities": ["gpu"] },
        { "name": "mine" }, { "name": "done" }, { "name": "held" },
    ] });
    let _ = team.data(PERSON, "add_workflow", json!({ "name": "w", "plan": plan, "max_parallel": 3 }));
    let task = |name: &str| json!({ "task": name });
    let w = || json!({ "workflow": "w" });
    let any = || json!({});
    team.says(Kind::Conflict, "ann", "claim_task", task("a"), "its workflow w is ready");
    let _ = team.data(PERSON, "start_workflow", w());
    let _ = team.data("ann", "register_agent", json!({ "role": "worker", "capabilities": [] }));
    let capped = json!({ "name": "capped", "role": "worker", "capabilities": ["gpu"], "max_claims": 1 });
    let _ = team.data(PERSON, "register_agent", capped);
    let _ = team.data(PERSON, "assign_task", json!({ "task": "mine", "agent": "ann" }));
    let _ = team.claim("ann", "done");
    let _ = team.finish("ann", "done");
    let _ = team.claim("ann", "held");

    team.says(Kind::Conflict, "ann", "claim_task", task("blocked"), "waits for a (pending)");
    team.says(Kind::Conflict, "ann", "claim_task", task("skilled"), "needs gpu, which ann did not register");
    team.says(Kind::Conflict, "bob", "claim_task", task("mine"), "is assigned to ann");
    team.says(Kind::Conflict, "bob", "claim_task", task("done"), "is completed and cannot be claimed");
    team.says(Kind::Conflict, "bob", "claim_task", task("held"), "is held by ann until 2026-01-01T00:10:00.000Z");
    team.says(Kind::NotFound, "bob", "claim_task", task("nothing"), "no task \"nothing\"");
    let _ = team.claim("capped", "skilled");
    team.says(Kind::Conflict, "capped", "claim_task", task("a"), "capped already holds 1 lease, its maximum");
    team.says(Kind::Conflict, "capped", "claim_task", any(), "capped already holds 1 lease, its maximum");
    let _ = team.data(PERSON, "pause_workflow", w());
    team.says(Kind::Conflict, "bob", "claim_task", task("a"), "its workflow w is paused");
    team.says(Kind::NothingToDo, "bob", "claim_task", any(), "no task can be claimed now");
    let _ = team.data(PERSON, "resume_workflow", w());
    let _ = team.claim("bob", "a");
    team.says(Kind::Conflict, "ann", "claim_task", task("mine"), "would exceed the limit of 3 parallel tasks in w");
    team.says(Kind::NothingToDo, "ann", "claim_task", any(), "no task can be claimed now");
    let _ = team.data("bob", "release_task", task("a"));
    assert_eq!(team.claim("ann", None)["task"]["name"], "a");
}

/// Checks that every write to the task `a` is refused to ann, and stores nothing.
#[track_caller]
fn every_write_is_refused(team: &mut Team, epoch: Option<u64>) {
    let writes = [
        ("add_checkpoint", json!({ "kind": "progress", "summary": "x" })),
        ("finish_task", json!({ "outcome": "x" })),
        ("fail_task", json!({ "error": "x" })),
        ("release_task", json!({})),
        ("pause_task", json!({})),
        ("ask_question", json!({ "question": "x" })),
        ("heartbeat", json!({})),
    ];
    for (operation, mut arguments) in writes {
        arguments["task"] = json!("a");
        arguments["epoch"] = json!(epoch);
        let error = team.refused(Kind::LeaseLost, "ann", operation, arguments);
        assert_eq!(error.kind().exit_code(), 5, "{operation}");
    }
}

#[test]
fn c10_every_write_of_a_former_holder_is_refused_with_5() {
    let mut team = Team::with("a: one\n");
    every_write_is_refused(&mut team, None);
    assert_eq!(team.claim("ann", None)["lease"]["epoch"], 1);
    // The lease expired, and no agent holds the task.
    team.pass(600);
    every_write_is_refused(&mut team, Some(1));
    every_write_is_refused(&mut team, None);
    // Another agent holds it.
    assert_eq!(team.claim("bob", None)["lease"]["epoch"], 2);
    every_write_is_refused(&mut team, Some(1));
    every_write_is_refused(&mut team, None);
    // The first agent holds it again, under a new lease.
    let _ = team.data("bob", "release_task", json!({ "task": "a" }));
    assert_eq!(team.claim("ann", None)["lease"]["epoch"], 3);
    every_write_is_refused(&mut team, Some(1));
    let _ = team.data("ann", "finish_task", json!({ "task": "a", "epoch": 3, "outcome": "x" }));
    every_write_is_refused(&mut team, Some(1));
    let _ = team.data(PERSON, "reopen_task", json!({ "task": "a" }));
    every_write_is_refused(&mut team, Some(3));
    let kept = team.data(PERSON, "list_checkpoints", json!({ "task": "a" }));
    assert_eq!(kept["checkpoints"], json!([]), "no refused checkpoint was stored");
}

#[test]
fn c3_a_lease_expires_by_the_clock_and_any_write_of_its_holder_renews_it() {
    let mut team = Team::with("a: one\n");
    let note = || json!({ "task": "a", "kind": "progress", "summary": "x" });
    let _ = team.data("ann", "claim_task", json!({ "ttl_ms": 60_000 }));
    team.pass(59);
    let _ = team.data("ann", "heartbeat", json!({}));
    team.pass(59);
    let _ = team.data("ann", "add_checkpoint", note());
    team.pass(59);
    let _ = team.claim("ann", "a");
    team.pass(59);
    assert_eq!(team.status("a"), "in_progress");
    team.pass(1);
    assert_eq!(team.status("a"), "pending");
    let task = team.task("a");
    assert_eq!(task["attempts"], 1);
    assert_eq!(task["error"], "the lease of ann expired at 2026-01-01T00:03:57.000Z");
    let claimed = team.claim("bob", None);
    assert_eq!(claimed["lease"]["epoch"], 2);
    assert!(claimed["context"]["text"].as_str().unwrap().contains("1. [progress] | x"));
}

#[test]
fn c10_the_next_holder_sees_all_checkpoints_and_the_former_holder_cannot_write() {
    let mut team = Team::with("build: Compile\npublish: Out\n  needs: build\n");
    let first = team.data("first", "claim_task", json!({ "task": "build", "ttl_ms": 60_000 }));
    let note = json!({ "task": "build", "kind": "progress", "summary": "two of three files", "files": ["a.c"],
        "detail": { "left": ["c.c"] } });
    let _ = team.data("first", "add_checkpoint", note);
    team.pass(60);
    let second = team.claim("second", None);
    assert_eq!(second["task"]["name"], "build");
    assert_eq!(second["task"]["attempts"], 1);
    let epoch = |claimed: &Value| claimed["lease"]["epoch"].as_u64().unwrap();
    assert!(epoch(&second) > epoch(&first));
    let context = second["context"]["text"].as_str().unwrap();
    for wanted in ["two of three files", "files: a.c", r#"{"left":["c.c"]}"#, "attempt 2", "the lease of first expired"]
    {
        assert!(context.contains(wanted), "{wanted}: {context}");
    }
    let done = |epoch: u64| json!({ "task": "build", "epoch": epoch, "outcome": "x" });
    let _ = team.refused(Kind::LeaseLost, "first", "finish_task", done(1));
    let _ = team.data("second", "finish_task", done(2));
    assert_eq!(team.data(PERSON, "list_tasks", json!({ "claimable": true }))["tasks"][0]["name"], "publish");
}

#[test]
fn c3_an_agent_is_offline_exactly_after_its_timeout_and_its_leases_expire() {
    for is_shared in [false, true] {
        let mut team = Team::new();
        team.store.is_shared = is_shared;
        let _ = team.data(PERSON, "register_agent", json!({ "name": "builder", "timeout_ms": 60_000 }));
        team.plan("release", "build: all of it\n");
        let epoch = team.claim("builder", "build")["lease"]["epoch"].as_u64().unwrap();
        let seen = |team: &mut Team| {
            let _ = team.data(PERSON, "expire_due", json!({}));
            team.data(PERSON, "show_agent", json!({ "agent": "builder" }))
        };
        team.pass_millis(59_999);
        let before = seen(&mut team);
        assert_eq!((&before["status"], &before["holds"][0]["name"]), (&json!("busy"), &json!("build")));
        team.pass_millis(1);
        let after = seen(&mut team);
        assert_eq!((&after["status"], &after["holds"]), (&json!("offline"), &json!([])));
        let kinds = team.store.event_kinds();
        assert!(kinds.ends_with(&["task.expired", "task.requeued", "agent.offline"].map(str::to_owned)), "{kinds:?}");
        // Another agent continues under a higher epoch, and the first one cannot write any more.
        team.pass(1);
        assert!(team.claim("other", "build")["lease"]["epoch"].as_u64().unwrap() > epoch);
        team.pass(1);
        let late = team.refused(Kind::LeaseLost, "builder", "finish_task", json!({ "task": "build", "outcome": "x" }));
        assert_eq!(late.kind().exit_code(), 5);
        assert_eq!(seen(&mut team)["status"], "offline", "a refused write is not a heartbeat");
        team.pass(1);
        let _ = team.data("builder", "heartbeat", json!({}));
        assert_eq!(seen(&mut team)["status"], "online", "it is back");
    }
}

#[test]
fn c3_heartbeats_renew_the_leases_of_an_agent() {
    let mut team = Team::with("build: all of it\n");
    let _ = team.data(PERSON, "register_agent", json!({ "name": "builder", "timeout_ms": 60_000 }));
    let _ = team.claim("builder", "build");
    // Longer in total than any lease, with less than the timeout between two heartbeats.
    for seconds in (0..1_500).step_by(50) {
        let alive = team.data("builder", "heartbeat", json!({}));
        assert_eq!(list(&alive["leases"]).len(), 1, "after {seconds} seconds");
        assert_eq!((&alive["next_ms"], &alive["is_cancelled"]), (&json!(20_000), &json!(false)));
        team.pass(50);
    }
}

#[test]
fn the_same_key_gives_the_same_answer_and_one_effect() {
    let mut team = Team::new();
    let plan = json!({ "tasks": [{ "name": "a" }] });
    let create = |name: &str| json!({ "name": name, "plan": plan, "start": true });
    let mut once = |who: &str, key: &str, operation: &str, arguments: &Value| {
        let [first, second] = [(), ()].map(|()| team.call(who, Some(key), operation, arguments.clone()));
        (first.map_err(|error| error.kind()), second.map_err(|error| error.kind()))
    };
    let mut is_answered_twice = |who: &str, key: &str, operation: &str, arguments: &Value| {
        let (first, second) = once(who, key, operation, arguments);
        assert_eq!((&first, first.is_ok()), (&second, true), "{operation}");
    };
    is_answered_twice(PERSON, "k1", "add_workflow", &create("w"));
    is_answered_twice("ann", "k", "claim_task", &json!({}));
    let note = |summary: &str| json!({ "task": "a", "epoch": 1, "kind": "progress", "summary": summary });
    is_answered_twice("ann", "k2", "add_checkpoint", &note("x"));
    is_answered_twice("ann", "k3", "finish_task", &json!({ "task": "a", "epoch": 1, "outcome": "x" }));
    let conflict = (Err(Kind::Conflict), Err(Kind::Conflict));
    assert_eq!(once(PERSON, "k1", "add_workflow", &create("other")), conflict);
    assert_eq!(once("ann", "k2", "add_checkpoint", &note("y")), conflict);
    assert_eq!(once("ann", "k2", "finish_task", &json!({ "task": "a", "outcome": "x" })), conflict);
    assert_eq!(once(PERSON, "", "add_workflow", &create("z")), (Err(Kind::Invalid), Err(Kind::Invalid)));
    let other = team.call("ann", Some("k2"), "add_checkpoint", note("y")).unwrap_err();
    assert!(other.to_string().contains("was used for another request"), "{other}");
    let kept = team.data(PERSON, "list_checkpoints", json!({ "task": "a" }));
    assert_eq!(list(&kept["checkpoints"]).len(), 1);
}

#[test]
fn a_key_of_another_agent_does_not_reveal_its_answer() {
    let mut team = Team::new();
    let mut create = |agent: &str| team.call(agent, Some("k1"), "add_workflow", json!({ "name": "w" }));
    assert_eq!(create("ann").unwrap(), create("ann").unwrap());
    let error = create("bob").unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict);
    assert!(error.hints()[0].contains("of one caller"), "{error:?}");
}
