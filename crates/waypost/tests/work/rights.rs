//! What agents, jobs and readers with a token cannot do to the work and the messages of others.

use serde_json::{Value, json};
use waypost::Kind;
use waypost::app::Call;
use waypost::app::origin::Origin;
use waypost::serving::Grant;

use crate::harness::{Desk, Office, PERSON, list, text, workflow};

/// A desk with an issue that bob holds, and the rights of those who ask.
struct Stage {
    desk: Desk,
    alice: Grant,
    bob: Grant,
    /// The rights of a job of alice.
    job: Grant,
    issue: String,
}

impl Stage {
    fn new() -> Stage {
        let desk = Desk::open(Office::new());
        let (alice, bob) = (desk.agent("alice"), desk.agent("bob"));
        let job = desk.token("job", Some("alice"), Some("tk_000000000000"));
        let issue = desk.issue("Bob's");
        let _ = desk.data(&bob, "claim_issue", json!({ "issue": issue }));
        Stage { desk, alice, bob, job, issue }
    }

    fn shown(&self) -> Value {
        self.desk.data(&self.desk.owner(), "show_issue", json!({ "issue": self.issue }))
    }
}

#[test]
fn agents_and_jobs_cannot_defer_a_change_that_they_may_not_make() {
    let Stage { desk, alice, job, issue, .. } = &Stage::new();
    let refused = [
        json!({ "forced": { "delete": [issue, null] } }),
        json!({ "forced": { "forced": { "close": [issue, null] } } }),
        json!({ "delete": [issue, null] }),
        json!({ "release": [issue, true] }),
        json!({ "close": [issue, null] }),
        json!({ "reopen": issue }),
        json!({ "update": [issue, { "title": "Alice's" }] }),
        json!({ "depend": [issue, issue, "blocks"] }),
        json!({ "undepend": [issue, issue, null] }),
        json!({ "prune": [issue] }),
        json!({ "comment": [issue, "x"], "forced": { "delete": [issue, null] } }),
    ];
    for change in &refused {
        for grant in [alice, job] {
            let arguments = json!({ "key": "k", "changes": [{ "comment": [issue, "hello"] }, change] });
            let error = desk.call(grant, "defer_changes", arguments).unwrap_err();
            let kinds = [Kind::Invalid, Kind::Refused, Kind::Conflict];
            assert!(kinds.contains(&error.kind()), "{:?}: {change}: {error:?}", grant.role);
        }
    }
    let waiting = desk.data(&desk.owner(), "list_notices", json!({}));
    assert_eq!(waiting["deferred"], json!([]), "nothing was stored");
    let allowed = json!([{ "comment": [issue, "hello"] }, { "add": { "edit": { "title": "New" } } }]);
    let _ = desk.data(alice, "defer_changes", json!({ "key": "k", "changes": allowed }));
}

#[test]
fn an_agent_sees_and_confirms_only_its_own_deferred_changes() {
    let Stage { desk, alice, bob, job, issue } = &Stage::new();
    let changes = json!({ "key": "k", "changes": [{ "comment": [issue, "hello"] }] });
    let _ = desk.data(bob, "defer_changes", changes.clone());
    let confirm = json!({ "key": "k", "result": "dropped" });
    for grant in [alice, job] {
        assert_eq!(desk.data(grant, "list_notices", json!({}))["deferred"], json!([]));
        let _ = desk.refused(Kind::Refused, grant, "confirm_changes", confirm.clone());
        // The key is bob's.
        let _ = desk.refused(Kind::Conflict, grant, "defer_changes", changes.clone());
    }
    assert_eq!(desk.data(bob, "confirm_changes", confirm)["was_open"], true);
}

#[test]
fn only_the_id_of_an_issue_can_be_leased_as_one() {
    let Stage { desk, alice, .. } = &Stage::new();
    desk.office.session("planner").call(workflow("w", "build: it\n")).unwrap();
    let made = desk.data(&desk.owner(), "show_workflow", json!({ "workflow": "w" }));
    let (workflow, task) = (text(&made["id"]), text(&made["tasks"][0]["id"]));
    let long = "x".repeat(1_000_000);
    for id in [&task, &workflow, "ag_0123456789ab", "", "a b", "a\nb", "x-\u{1b}[2J", &long[..201], &long] {
        for operation in ["lease_issue", "end_issue_lease"] {
            let error = desk.refused(Kind::Invalid, alice, operation, json!({ "issue": id }));
            assert!(error.full_message().len() < 2_000, "{operation} repeats its input");
        }
        let error = desk.call(alice, "claim_issue", json!({ "issue": id })).unwrap_err();
        assert!([Kind::Invalid, Kind::NotFound].contains(&error.kind()), "claim_issue: {error:?}");
    }
    let shown = desk.data(&desk.owner(), "show_task", json!({ "task": task }));
    assert!(shown["holder"].is_null(), "{shown}");
}

#[test]
fn an_agent_cannot_change_an_issue_that_another_one_holds() {
    let stage = Stage::new();
    let Stage { desk, alice, bob, issue, .. } = &stage;
    let other = desk.issue("Other");
    let before = stage.shown();
    let changes = [
        ("update_issue", json!({ "issue": issue, "title": "Alice's" })),
        ("update_issue", json!({ "issue": issue, "priority": 0 })),
        ("update_issue", json!({ "issue": issue, "assignee": "alice" })),
        ("update_issue", json!({ "issue": issue, "labels": ["x"] })),
        ("update_issue", json!({ "issue": issue, "remove_labels": ["x"] })),
        ("update_issue", json!({ "issue": issue, "parent": other })),
        ("update_issue", json!({ "issue": issue, "description": "" })),
        ("update_issue", json!({ "issue": issue, "status": "open" })),
        ("add_dependency", json!({ "issue": issue, "on": other })),
        ("add_dependency", json!({ "issue": issue, "on": other, "kind": "related" })),
        ("remove_dependency", json!({ "issue": issue, "on": other })),
        ("close_issue", json!({ "issue": issue })),
        ("release_issue", json!({ "issue": issue })),
    ];
    for (operation, arguments) in changes {
        let error = desk.refused(Kind::Conflict, alice, operation, arguments);
        assert!(error.full_message().contains("bob"), "{operation}: {error:?}");
    }
    assert_eq!(stage.shown(), before, "nothing has changed");
    let _ = desk.data(alice, "add_comment", json!({ "issue": issue, "text": "A hint" }));
    let _ = desk.data(bob, "update_issue", json!({ "issue": issue, "title": "Still Bob's" }));
    let _ = desk.data(&desk.owner(), "update_issue", json!({ "issue": issue, "priority": 0, "labels": ["urgent"] }));
    let shown = stage.shown();
    assert_eq!((&shown["title"], &shown["priority"]), (&json!("Still Bob's"), &json!(0)));
}

#[test]
fn t12_an_agent_releases_only_its_own_issues() {
    let desk = Desk::open(Office::new());
    let (a, b) = (desk.agent("a"), desk.agent("b"));
    let (one, two) = (desk.issue("one"), desk.issue("two"));
    for issue in [&one, &two] {
        let _ = desk.data(&a, "claim_issue", json!({ "issue": issue }));
    }
    for (force, kind) in [(false, Kind::Conflict), (true, Kind::Refused)] {
        for operation in ["release_issue", "close_issue", "end_issue_lease"] {
            let _ = desk.refused(kind, &b, operation, json!({ "issue": one, "force": force }));
        }
    }
    let held = desk.data(&desk.owner(), "show_issue", json!({ "issue": one }));
    assert_eq!((&held["assignee"], &held["status"]), (&json!("a"), &json!("in_progress")));
    assert_eq!(desk.data(&a, "release_issue", json!({ "issue": one }))["status"], "open");
    let forced = desk.data(&desk.owner(), "release_issue", json!({ "issue": two, "force": true }));
    assert_eq!(forced["status"], "open");
}

#[test]
fn t12_an_agent_takes_no_issue_whose_task_another_agent_holds() {
    let desk = Desk::open(Office::new());
    let (a, b) = (desk.agent("a"), desk.agent("b"));
    let part = desk.issue("Part");
    let plan = json!({ "tasks": [{ "name": "part", "issue": part }] });
    let _ = desk.data(&desk.owner(), "add_workflow", json!({ "name": "w", "plan": plan, "start": true }));
    assert_eq!(desk.data(&a, "claim_task", json!({}))["task"]["issue"], json!(part));
    for operation in ["claim_issue", "lease_issue", "close_issue"] {
        let error = desk.refused(Kind::Conflict, &b, operation, json!({ "issue": part }));
        assert!(error.full_message().contains("held by a until"), "{operation}: {error:?}");
    }
    assert_eq!(desk.data(&desk.owner(), "show_issue", json!({ "issue": part }))["status"], "open");
}

#[test]
fn an_agent_cannot_raise_its_limits_or_its_role() {
    let desk = Desk::open(Office::new());
    let dan = desk.agent("dan");
    let _ = desk.data(&dan, "register_agent", json!({ "capabilities": ["rust"] }));
    for limit in [json!({ "max_claims": 99 }), json!({ "timeout_ms": 999_999_999 }), json!({ "role": "coordinator" })] {
        let _ = desk.refused(Kind::Refused, &dan, "register_agent", limit);
    }
    let _ = desk.data(&desk.owner(), "register_agent", json!({ "name": "dan", "max_claims": 1 }));
    let _ = desk.data(&dan, "register_agent", json!({}));
    assert_eq!(desk.data(&desk.owner(), "show_agent", json!({ "agent": "dan" }))["max_claims"], 1);
}

#[test]
fn messages_of_others_are_hidden_from_agents_and_readers() {
    let Stage { desk, alice, bob, job, .. } = &Stage::new();
    let reader = desk.token("read-only", None, None);
    let _ = desk.data(&desk.owner(), "register_agent", json!({ "name": "carol" }));
    let letter = json!({ "to": "carol", "subject": "Private subject", "body": "Private body" });
    let sent = desk.data(bob, "send_message", letter);
    let query = || json!({ "query": { "kind": "message.sent", "limit": 9 } });
    for grant in [alice, &reader, job] {
        let listed = desk.data(grant, "list_events", query());
        assert!(!list(&listed["events"]).is_empty() && !listed.to_string().contains("Private"), "{listed}");
        let _ = desk.refused(Kind::Refused, grant, "show_thread", json!({ "message": sent["id"] }));
        let _ = desk.refused(Kind::Refused, grant, "dump_workflow", json!({ "workflow": "w" }));
    }
    assert!(desk.data(&desk.owner(), "list_events", query()).to_string().contains("Private subject"));
}

#[test]
fn the_same_key_gives_the_same_answer_and_changes_issues_once_even_after_a_restart() {
    let mut desk = Desk::open(Office::new());
    let once = |desk: &Desk, key: &str, operation: &str, arguments: &Value| {
        let call = desk.request(&desk.owner(), operation, arguments.clone());
        desk.app.call(Call { key: Some(key.to_owned()), ..call }).map(|reply| reply.answer)
    };
    let title = json!({ "title": "once" });
    let issue = once(&desk, "k1", "add_issue", &title).unwrap();
    let said = |words: &str| json!({ "issue": issue["id"], "text": words });
    let commented = once(&desk, "k2", "add_comment", &said("soon")).unwrap();
    let flow = |name: &str| json!({ "name": name });
    let made = once(&desk, "k3", "add_workflow", &flow("one")).unwrap();
    // Concurrent requests with one key have one effect.
    std::thread::scope(|scope| {
        let all = json!({ "title": "all" });
        for _ in 0..8 {
            let (desk, all) = (&desk, all.clone());
            scope.spawn(move || assert_eq!(once(desk, "k4", "add_issue", &all).unwrap()["title"], "all"));
        }
    });
    for is_restarted in [false, true] {
        if is_restarted {
            let Desk { office, .. } = desk;
            desk = Desk::open(office);
        }
        assert_eq!(once(&desk, "k1", "add_issue", &title).unwrap(), issue);
        assert_eq!(once(&desk, "k2", "add_comment", &said("soon")).unwrap(), commented);
        assert_eq!(once(&desk, "k3", "add_workflow", &flow("one")).unwrap(), made);
        for (key, operation, arguments, kind) in [
            ("k1", "add_issue", json!({ "title": "another" }), Kind::Conflict),
            ("k2", "add_comment", said("late"), Kind::Conflict),
            ("k3", "add_workflow", flow("two"), Kind::Conflict),
            ("k1", "add_workflow", flow("w"), Kind::Conflict),
            (&*"x".repeat(201), "add_issue", title.clone(), Kind::Invalid),
            (&*"x".repeat(201), "add_workflow", flow("w"), Kind::Invalid),
        ] {
            assert_eq!(once(&desk, key, operation, &arguments).unwrap_err().kind(), kind, "{operation} {arguments}");
        }
    }
    let owner = desk.owner();
    assert_eq!(list(&desk.data(&owner, "list_issues", json!({}))["issues"]).len(), 2);
    let all = desk.data(&owner, "list_workflows", json!({ "query": { "limit": 9 } }));
    assert_eq!(list(&all["workflows"]).len(), 1);
    let shown = desk.data(&owner, "show_issue", json!({ "issue": issue["id"] }));
    assert_eq!(list(&shown["comments"]).len(), 1);
}

/// Returns where a caller says that it is.
fn origin(repository: &str, worktree: &str) -> Origin {
    let (path, remote) = ("/evil", "https://evil.example/repo.git");
    let origin = json!({
        "repository": { "id": repository, "name": "evil", "path": path, "vcs": "git", "remote_url": remote,
            "default_branch": "evil" },
        "worktree": { "id": worktree, "repository_id": repository, "name": "evil", "path": path, "branch": "evil",
            "first_seen": 0, "last_seen": 0, "removed_at": null },
    });
    serde_json::from_value(origin).unwrap()
}

#[test]
fn a_worktree_id_of_another_repository_is_refused() {
    let desk = Desk::open(Office::new());
    let _ = desk.data(&desk.owner(), "add_workflow", json!({ "name": "far" }));
    let made = desk.data(&desk.owner(), "show_workflow", json!({ "workflow": "far" }));
    let register = |from: Origin| {
        let call = desk.request(&desk.owner(), "register", json!({}));
        desk.app.call(Call { from: Some(from), ..call })
    };
    let foreign = register(origin("rp_000000000000", &text(&made["worktree_id"])));
    assert_eq!(foreign.unwrap_err().kind(), Kind::Refused);
    register(origin("rp_000000000000", "wt_000000000000")).unwrap();
}

/// Returns what the store knows about repositories and worktrees, without counts and times.
fn known_places(desk: &Desk) -> [Vec<Value>; 2] {
    [("list_repositories", "repositories"), ("list_worktrees", "worktrees")].map(|(operation, field)| {
        let mut known = list(&desk.data(&desk.owner(), operation, json!({}))[field]);
        for place in &mut known {
            let fields = place.as_object_mut().unwrap();
            fields.retain(|field, _| !field.ends_with("_seen") && field != "live_workflows" && field != "worktrees");
        }
        known
    })
}

#[test]
fn only_admins_set_paths_and_remote_addresses() {
    let office = Office::new();
    office.sandbox.git(&office.repo, ["remote", "add", "origin", "https://good.example/repo.git"]);
    let _ = office.data(PERSON, "add_workflow", json!({ "name": "mine" }));
    let desk = Desk::open(office);
    let worktree = text(&desk.data(&desk.owner(), "show_workflow", json!({ "workflow": "mine" }))["worktree_id"]);
    let before = known_places(&desk);
    let repository = text(&before[0][0]["id"]);
    assert!(before[0][0].to_string().contains("good.example"), "{before:?}");
    let task = "tk_000000000000";
    let grants = [desk.agent("ann"), desk.token("job", Some("job"), Some(task)), desk.token("read-only", None, None)];
    let (same, other) = (origin(&repository, &worktree), origin(&repository, "wt_000000000000"));
    let foreign = origin("rp_000000000000", "wt_111111111111");
    let plan = json!({ "tasks": [{ "name": "build" }] });
    for (number, grant) in grants.iter().enumerate() {
        for from in [&same, &other, &foreign] {
            for (operation, arguments) in [
                ("register", json!({})),
                ("add_workflow", json!({ "name": format!("w{number}"), "plan": plan, "start": true })),
                ("heartbeat", json!({ "task": task, "epoch": 1 })),
                ("send_message", json!({ "to": "ann", "body": "x" })),
                ("list_tasks", json!({})),
            ] {
                let call = desk.request(grant, operation, arguments);
                if let Err(error) = desk.app.call(Call { from: Some(from.clone()), ..call }) {
                    assert_ne!(error.kind(), Kind::Internal, "{operation}: {error:?}");
                }
            }
        }
        let add = json!({ "repository": before[0][0] });
        let _ = desk.refused(Kind::Refused, grant, "add_repository", add);
    }
    let after = known_places(&desk);
    for (known, seen) in before.iter().zip(&after) {
        assert!(seen.contains(&known[0]), "{after:?}");
        for other in seen.iter().filter(|place| **place != known[0]) {
            // It has a name, but nothing can be taken from it.
            assert_eq!(text(&other["path"]), format!("/dev/null/{}", text(&other["id"])), "{after:?}");
            assert!(other["remote_url"].is_null() && other["branch"].is_null(), "{after:?}");
        }
    }
    // The workflow of the agent belongs to the worktree as the store knows it.
    let planned = desk.data(&desk.owner(), "show_workflow", json!({ "workflow": "w0" }));
    assert_eq!(planned["worktree_id"], worktree.as_str());
    // An admin may.
    let call = desk.request(&desk.owner(), "register", json!({}));
    desk.app.call(Call { from: Some(foreign), ..call }).unwrap();
    assert!(format!("{:?}", known_places(&desk)).contains("evil.example"));
}
