//! Wrong clocks: in one process, and in a store that believed one.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use waypost_testkit::{Run, Sandbox};

use crate::support::{moment_ms, sandbox};

/// A lease lasts ten minutes; a loaded machine gets some more.
const LEASE_MS: i64 = 10 * 60 * 1000;

const SLOW_MS: i64 = 2 * 60 * 1000;

/// Spans in seconds.
const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// A repository whose commands use the real clock or a wrong one.
struct Fixture {
    sandbox: Sandbox,
    repo: PathBuf,
}

impl Fixture {
    /// A repository with a workflow of this many tasks, `t0`, `t1` and so on.
    fn with_tasks(count: usize) -> Fixture {
        let sandbox = sandbox();
        let repo = sandbox.git_repo("repo");
        let fixture = Fixture { sandbox, repo };
        let tasks: Vec<_> = (0..count).map(|number| serde_json::json!({ "name": format!("t{number}") })).collect();
        let plan = fixture.sandbox.path("plan.json");
        waypost_fs::replace(&plan, serde_json::json!({ "tasks": tasks }).to_string().as_bytes(), 0o600).unwrap();
        let plan = plan.to_str().unwrap();
        let _ = fixture.way("a", &["workflow", "create", "w", "--plan", plan, "--start"]).ok();
        fixture
    }

    /// Runs a command as an agent.
    fn way(&self, agent: &str, args: &[&str]) -> Run {
        run(self.sandbox.way_command(&self.repo), agent, args)
    }

    /// The same with a clock that is wrong by some seconds.
    fn wrong(&self, by: i64, agent: &str, args: &[&str]) -> Run {
        run(self.sandbox.way_command_shifted(&self.repo, by), agent, args)
    }

    /// The number of events.
    fn events(&self) -> u64 {
        self.way("a", &["status", "--json"]).data()["store"]["events"].as_u64().unwrap()
    }
}

fn run(mut command: Command, agent: &str, args: &[&str]) -> Run {
    command.env_remove("WAYPOST_TEST_CLOCK").env("WAYPOST_AGENT", agent).args(args);
    Run::of(&command.output().unwrap())
}

/// Checks that a lease expires on time, by the real clock.
#[track_caller]
fn check_expires_on_time(claimed: &Value) {
    let expires_at = moment_ms(&claimed["lease"]["expires_at"]);
    let left = expires_at - jiff::Timestamp::now().as_millisecond();
    assert!((LEASE_MS - SLOW_MS..=LEASE_MS + SLOW_MS).contains(&left), "{left} ms left");
}

#[test]
fn a_process_with_a_wrong_clock_ends_no_lease_and_grants_none_for_years() {
    let wrong = [5 * YEAR, -5 * YEAR, 8 * DAY, -8 * DAY, 3 * HOUR, -3 * HOUR, 40];
    let fixture = Fixture::with_tasks(3 * wrong.len());
    for (number, wrong) in wrong.into_iter().enumerate() {
        let [mine, theirs, later] = [0, 1, 2].map(|task| format!("t{}", 3 * number + task));
        check_expires_on_time(&fixture.way("a", &["task", "claim", &mine, "--json"]).data());
        check_expires_on_time(&fixture.wrong(wrong, "b", &["task", "claim", &theirs, "--json"]).data());
        let _ = fixture.wrong(wrong, "b", &["status"]).ok();
        let _ = fixture.way("a", &["task", "checkpoint", &mine, "--summary", "still here"]).ok();
        let _ = fixture.wrong(wrong, "b", &["task", "checkpoint", &theirs, "--summary", "here too"]).ok();
        check_expires_on_time(&fixture.way("c", &["task", "claim", &later, "--json"]).data());
    }
    let times: Vec<i64> = fixture
        .way("a", &["events", "--since", "0", "--limit", "1000", "--json"])
        .data()
        .as_array()
        .unwrap()
        .iter()
        .map(|event| moment_ms(&event["time"]))
        .collect();
    assert!(times.len() > 20 && times.is_sorted(), "{times:?}");
    let _ = fixture.way("a", &["doctor"]).ok();
}

#[test]
fn a_process_with_a_wrong_clock_does_not_delete_idempotency_records() {
    let fixture = Fixture::with_tasks(1);
    let create = |name: &'static str| ["workflow", "create", name, "--key", name, "--json"];
    let once = fixture.way("a", &create("once")).data();
    let before = fixture.events();
    let _ = fixture.way("a", &create("measured")).data();
    let each = fixture.events() - before;
    // Old idempotency records are deleted at every 64th event.
    let missing = (64 - (fixture.events() + each) % 64) % 64;
    if missing > 0 {
        let _ = fixture.way("a", &["db", "probe", "--writes", &missing.to_string()]).ok();
    }
    let _ = fixture.wrong(8 * DAY, "a", &create("wrong")).data();
    assert_eq!(fixture.events() % 64, 0, "this was the moment");
    assert_eq!(fixture.way("a", &create("once")).data(), once);
    assert_eq!(fixture.wrong(5 * YEAR, "a", &create("once")).data(), once);
}

#[test]
fn a_store_that_believed_a_wrong_clock_is_found_and_repaired() {
    let fixture = Fixture::with_tasks(3);
    // State as an older version left it after a wrong clock.
    let create = ["workflow", "create", "x", "--key", "k", "--quiet"];
    for args in [&["task", "claim", "t0"][..], &create] {
        let mut poison = fixture.sandbox.way_command(&fixture.repo);
        poison.env("WAYPOST_TEST_CLOCK", "2131-01-01T00:00:00Z").env("WAYPOST_AGENT", "a").args(args);
        let _ = Run::of(&poison.output().unwrap()).ok();
    }
    let history = || fixture.way("a", &["events", "--since", "0", "--limit", "1000", "--json"]).data();
    let before = history();

    let Run { code, stdout: found, .. } = fixture.way("a", &["doctor"]);
    assert_eq!(code, 9);
    assert!(found.contains("clock") && found.contains("2131-01-01") && found.contains("way doctor --fix"), "{found}");
    let not_yet = fixture.wrong(YEAR, "a", &["doctor", "--fix"]).ok().stdout;
    assert!(not_yet.contains("faked clock"), "a process with a wrong clock repairs nothing: {not_yet}");
    let fixed = fixture.way("a", &["doctor", "--fix"]).ok().stdout;
    assert!(fixed.contains("fixed"), "{fixed}");
    let _ = fixture.way("a", &["doctor"]).ok();

    let shown = fixture.way("a", &["task", "show", "t0", "--json"]).data();
    check_expires_on_time(&serde_json::json!({ "lease": shown }));
    let _ = fixture.way("a", &["task", "checkpoint", "t0", "--summary", "still here"]).ok();
    check_expires_on_time(&fixture.way("b", &["task", "claim", "t1", "--json"]).data());
    let events = fixture.events();
    let _ = fixture.way("a", &create).ok();
    assert_eq!(fixture.events(), events, "the answer under the key is still stored");
    let after = history();
    let (before, after) = (before.as_array().unwrap(), after.as_array().unwrap());
    assert_eq!(after[..before.len()], before[..], "history is not rewritten");
    assert_eq!(after.iter().filter(|event| event["kind"] == "store.clock_repaired").count(), 1);
}
