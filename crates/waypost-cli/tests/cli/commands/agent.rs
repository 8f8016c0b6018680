//! Agents: registration, heartbeats, timeouts, roles.

use waypost_testkit::Run;

use crate::support::agents::{START, at, claim, finish, session, workflow};
use crate::support::work::Team;
use crate::support::{moment_ms, sandbox};

fn names(run: Run) -> Vec<String> {
    run.data().as_array().unwrap().iter().map(|agent| agent["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn c2_agents_register_and_are_found_by_role_capability_and_status() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    // The same in both scopes: this is part of C6.
    for scope in ["repo", "global"] {
        let way = |args: &[&str]| sandbox.way(&repo, [&["--scope", scope][..], args].concat());
        let builder = way(&[
            "agent",
            "register",
            "builder",
            "--runtime",
            "codex",
            "--capability",
            "sql,rust",
            "--capability",
            "rust",
            "--max-claims",
            "2",
            "--metadata",
            r#"{"model": "x"}"#,
            "--json",
        ])
        .data();
        let id = builder["id"].as_str().unwrap();
        assert!(id.starts_with("ag_") && id.len() == 15, "{id}");
        assert_eq!(builder["capabilities"], serde_json::json!(["rust", "sql"]));
        assert_eq!((&builder["role"], &builder["metadata"]["model"]), (&"worker".into(), &"x".into()));
        let _ = way(&["agent", "register", "lead", "--role", "coordinator"]).ok();
        let again = way(&["agent", "register", "builder", "--runtime", "claude-code", "--json"]).data();
        assert_eq!(again["id"], id, "the same one");
        assert_eq!(again["capabilities"], builder["capabilities"], "fields that are not given stay");
        assert_eq!(names(way(&["agent", "list", "--json"])), ["builder", "lead"]);
        assert_eq!(names(way(&["agent", "list", "--role", "coordinator", "--json"])), ["lead"]);
        assert_eq!(names(way(&["agent", "list", "--capability", "rust", "--json"])), ["builder"]);
        assert_eq!(names(way(&["agent", "list", "--status", "online", "--json"])), ["builder", "lead"]);
        assert!(names(way(&["agent", "list", "--status", "busy", "--json"])).is_empty());
        let text = way(&["agent", "list"]).ok().stdout;
        assert!(text.contains("builder  worker       online"), "{text}");
        let page = way(&["agent", "show", id, "--json"]).data();
        assert_eq!((&page["name"], &page["unread"]), (&"builder".into(), &0.into()));
    }
}

#[test]
fn registering_without_a_name_registers_a_person_and_a_first_write_registers_an_agent() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let me = sandbox.way(&repo, ["agent", "register", "--json"]).data();
    assert_eq!((&me["name"], &me["role"]), (&"tester".into(), &"human".into()));
    let _ = sandbox.way(&repo, ["--agent", "builder", "agent", "heartbeat"]).ok();
    let builder = sandbox.way(&repo, ["agent", "show", "builder", "--json"]).data();
    assert_eq!(builder["role"], "worker");
}

#[test]
fn c2_roles_change_what_is_allowed() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["agent", "register", "lead", "--role", "coordinator"]).ok();
    let _ = sandbox.way(&repo, ["agent", "register", "one"]).ok();
    let _ = sandbox.way(&repo, ["agent", "register", "two"]).ok();
    let run = sandbox.way(&repo, ["--agent", "one", "agent", "retire", "two"]).fails(7);
    assert!(
        run.stderr.contains("one is a worker, and retiring other agents is for coordinators and people"),
        "{}",
        run.stderr
    );
    let _ = sandbox.way(&repo, ["--agent", "lead", "agent", "retire", "two"]).ok();
    let _ = sandbox.way(&repo, ["agent", "retire", "one"]).ok();
    assert_eq!(names(sandbox.way(&repo, ["agent", "list", "--json"])), ["lead", "tester"]);
    assert_eq!(names(sandbox.way(&repo, ["agent", "list", "--all", "--json"])), ["lead", "one", "tester", "two"]);
    let run = sandbox.way(&repo, ["--agent", "two", "agent", "heartbeat"]).fails(4);
    assert!(run.stderr.contains("has retired"), "{}", run.stderr);
    let _ = sandbox.way(&repo, ["agent", "register", "two"]).ok();
    let _ = sandbox.way(&repo, ["--agent", "two", "agent", "heartbeat"]).ok();
}

#[test]
fn c3_an_agent_is_offline_exactly_after_its_timeout_and_its_leases_expire() {
    let sandbox = sandbox();
    for (scope, is_global) in [("repo", false), ("global", true)] {
        let repo = sandbox.git_repo(scope);
        let way = |clock: &str, args: &[&str]| at(&sandbox, &repo, clock, &[&["--scope", scope][..], args].concat());
        let _ = way(START, &["agent", "register", "builder", "--timeout", "60s"]).ok();
        let mut builder = session(&sandbox, &repo, "builder", START, is_global);
        builder.call(workflow("release", "build: all of it")).unwrap();
        let epoch = builder.call(claim("build")).unwrap().lease.epoch;
        let seen = |clock: &str| way(clock, &["agent", "show", "builder", "--json"]).data();
        let before = seen("2026-01-01T00:00:59.999Z");
        assert_eq!((&before["status"], &before["holds"][0]["name"]), (&"busy".into(), &"build".into()));
        let after = seen("2026-01-01T00:01:00Z");
        assert_eq!((&after["status"], &after["holds"]), (&"offline".into(), &serde_json::json!([])));
        let events = way("2026-01-01T00:01:00Z", &["events", "--since", "0", "--json"]).data();
        let kinds: Vec<_> = events.as_array().unwrap().iter().map(|event| event["kind"].as_str().unwrap()).collect();
        assert!(kinds.ends_with(&["task.expired", "task.requeued", "agent.offline"]), "{kinds:?}");
        // Another agent continues under a higher epoch, and the first one cannot write any more.
        let mut other = session(&sandbox, &repo, "other", "2026-01-01T00:01:01Z", is_global);
        assert!(other.call(claim("build")).unwrap().lease.epoch > epoch);
        let mut late = session(&sandbox, &repo, "builder", "2026-01-01T00:01:02Z", is_global);
        assert_eq!(late.call(finish("build")).unwrap_err().kind().exit_code(), 5);
        assert_eq!(seen("2026-01-01T00:01:02Z")["status"], "offline", "a refused write is not a heartbeat");
        let _ = way("2026-01-01T00:01:03Z", &["--agent", "builder", "agent", "heartbeat"]).ok();
        assert_eq!(seen("2026-01-01T00:01:03Z")["status"], "online", "it is back");
    }
}

#[test]
fn c3_heartbeats_renew_the_leases_of_an_agent() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["agent", "register", "builder", "--timeout", "60s"]).ok();
    let mut builder = session(&sandbox, &repo, "builder", START, false);
    builder.call(workflow("release", "build: all of it")).unwrap();
    builder.call(claim("build")).unwrap();
    // Longer in total than any lease, with less than the timeout between two heartbeats.
    for seconds in (0..1_500).step_by(50) {
        let clock = format!("2026-01-01T00:{:02}:{:02}Z", seconds / 60, seconds % 60);
        let alive = at(&sandbox, &repo, &clock, &["--agent", "builder", "agent", "heartbeat", "--json"]).data();
        assert_eq!(alive["leases"].as_array().unwrap().len(), 1, "{clock}");
        assert_eq!((&alive["next_ms"], &alive["is_cancelled"]), (&20_000.into(), &false.into()));
    }
}

#[test]
fn heartbeats_hold_a_task_no_longer_than_the_configured_maximum() {
    let team = Team::with("build: all of it\n");
    let _ = team.way("config set lease.max 1h").ok();
    // Minutes until the lease ends, after each 9 minutes.
    let minutes = |end: &serde_json::Value| end.is_string().then(|| (moment_ms(end) / 1000 - 1_767_225_600) / 60);
    assert_eq!(minutes(&team.data("task claim build --agent builder")["lease"]["expires_at"]), Some(10));
    let heartbeat = |_| {
        team.pass(9 * 60);
        minutes(&team.data("agent heartbeat --agent builder")["leases"][0]["expires_at"])
    };
    let ends: Vec<_> = (1..=7).map(heartbeat).collect();
    assert_eq!(ends, [Some(19), Some(28), Some(37), Some(46), Some(55), Some(60), None], "the lease ended");
    let _ = team.data("task claim build --agent other");
}

#[test]
fn a_process_is_identified_by_more_than_its_pid() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let pid = std::process::id().to_string();
    let agent = sandbox.way(&repo, ["agent", "register", "builder", "--pid", &pid, "--json"]).data();
    assert_eq!(agent["process"]["pid"], std::process::id());
    assert!(agent["process"]["start_time"].as_u64().is_some() && agent["process"]["boot_id"].is_string(), "{agent}");
    let text = sandbox.way(&repo, ["agent", "show", "builder"]).ok().stdout;
    assert!(text.contains(&format!("{pid}, running")), "{text}");
    let run = sandbox.way(&repo, ["agent", "register", "ghost", "--pid", "4194304999"]);
    assert!(run.code == 2 || run.code == 3, "{run:?}");
    let _ = sandbox.way(&repo, ["agent", "register", "ghost", "--pid", "999999999"]).fails(3);
    let _ = sandbox.way(&repo, ["agent", "show", "ghost"]).fails(3);
}

#[test]
fn an_invalid_agent_is_refused() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    for bad in [
        &["register", ""][..],
        &["register", " x"],
        &["register", "a\nb"],
        &["register", "x", "--timeout", "0s"],
        &["register", "x", "--timeout", "soon"],
        &["register", "x", "--max-claims", "0"],
        &["register", "x", "--metadata", "[1]"],
        &["register", "x", "--role", "maintainer"],
        &["list", "--status", "asleep"],
    ] {
        let _ = sandbox.way(&repo, [&["agent"], bad].concat()).fails(2);
    }
    let run = sandbox.way(&repo, ["agent", "show", "unknown"]).fails(3);
    assert!(run.stderr.contains("no agent \"unknown\""), "{}", run.stderr);
}
