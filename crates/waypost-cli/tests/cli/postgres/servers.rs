//! A store on a PostgreSQL server: the same commands, from several machines.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use waypost_testkit::{Run, Sandbox, postgres_url};

use crate::support::{moment_ms, sandbox};

/// A machine: its own home, and a repository in it.
fn machine(url: &str) -> impl Fn(&[&str]) -> Run + use<> {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let url = url.to_owned();
    move |args: &[&str]| way(&sandbox, &repo, &url, args)
}

fn way(sandbox: &Sandbox, dir: &Path, url: &str, args: &[&str]) -> Run {
    sandbox.way_with(dir, &[("WAYPOST_DB", OsStr::new(url))], args)
}

fn worktrees(way: &dyn Fn(&[&str]) -> Run) -> Vec<Value> {
    way(&["worktree", "list", "--json"]).data().as_array().unwrap().clone()
}

#[test]
fn an_address_at_which_nothing_listens_is_reported_within_three_seconds() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let way = machine(&format!("postgres://way@127.0.0.1:{port}/db"));
    let started = Instant::now();
    let run = way(&["status"]).fails(8);
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert!(run.stderr.contains("refused"), "{}", run.stderr);
}

#[test]
fn two_machines_share_a_server() {
    let url = postgres_url();
    let (here, there) = (machine(&url), machine(&url));
    let shown = here(&["status"]).ok();
    assert!(shown.stdout.contains("There is nothing yet"), "{}", shown.stdout);
    let _ = here(&["db", "probe", "--writes", "1"]).ok();
    let _ = there(&["db", "probe", "--writes", "3"]).ok();
    let ids = |way: &dyn Fn(&[&str]) -> Run| -> Vec<Value> {
        worktrees(way).into_iter().map(|one| one["id"].clone()).collect()
    };
    assert_eq!(ids(&here).len(), 2);
    assert_eq!(ids(&here), ids(&there));
    let events = |way: &dyn Fn(&[&str]) -> Run| way(&["status", "--json"]).data()["store"]["events"].as_u64();
    assert_eq!(events(&here), events(&there));
    assert_eq!(events(&here), Some(8), "two repositories, two worktrees and four probes");
    let states = || worktrees(&here).into_iter().map(|one| one["state"].clone()).collect::<Vec<_>>();
    assert_eq!(states(), ["here", "present"], "both run on one machine, so both paths exist");
    // A worktree on another machine is not reported as missing.
    drop(there);
    assert_eq!(states(), ["here", "elsewhere"]);
    assert!(here(&["status"]).ok().stdout.contains("elsewhere"));
    assert!(here(&["doctor"]).stdout.contains("1 on disk, 0 gone, 1 on other machines"));
}

#[test]
fn reading_a_database_without_a_store_creates_nothing_in_it() {
    let url = postgres_url();
    let way = machine(&url);
    let (server, schema) = url.split_once("?schema=").unwrap();
    let schemas = || {
        let query = format!("SELECT count(*) FROM pg_namespace WHERE nspname = '{schema}'");
        let mut psql = Command::new("psql");
        let output = psql.args(["--no-psqlrc", "--tuples-only", "--command", &query, server]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let readings = [
        "status",
        "status --line",
        "list",
        "ready",
        "workflow list",
        "job list",
        "ws list",
        "worktree list",
        "agent list",
        "events",
        "where",
        "prime",
        "task show tk_000000000000",
        "db info",
        "db gc --older-than 90d",
        "doctor",
    ];
    for reading in readings {
        let run = way(&reading.split(' ').collect::<Vec<_>>());
        // There is nothing, or nothing of this name.
        assert!([0, 3, 6].contains(&run.code), "{reading}: {}", run.whole());
        assert_eq!(schemas(), "0", "{reading}");
    }
    assert!(way(&["status"]).ok().stdout.contains("There is nothing yet"));
    let _ = way(&["agent", "register", "first"]).ok();
    assert_eq!(schemas(), "1");
    assert!(way(&["agent", "list"]).ok().stdout.contains("first"));
}

#[test]
fn a_process_that_follows_a_store_sees_it_created() {
    let url = postgres_url();
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let mut follower = sandbox.command(env!("CARGO_BIN_EXE_way"), &repo);
    follower.args(["events", "--follow", "--json", "--db", &url]).stdout(Stdio::piped());
    let mut follower = follower.spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let _ = way(&sandbox, &repo, &url, &["agent", "register", "ann"]).ok();
    assert!(lines.any(|line| line.unwrap().contains("ann")));
    follower.kill().unwrap();
    let _ = follower.wait().unwrap();
}

#[test]
fn a_command_on_a_terminal_says_that_it_waits_for_the_server() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    // The port of a listener that is gone refuses connections.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("postgres://x@127.0.0.1:{port}/x");
    let command = format!("{} --db {url} --config store.wait=3s status", env!("CARGO_BIN_EXE_way"));
    // `script` runs the command on a terminal, and prints its output.
    let on_terminal = |command: &str| {
        let output = sandbox.command("script", &repo).args(["-qec", command, "/dev/null"]).output().unwrap();
        Run::of(&output)
    };
    let run = on_terminal(&command);
    assert_eq!(run.code, 8, "{run:?}");
    assert_eq!(run.stdout.matches("way: waiting for the store postgres://x@127.0.0.1").count(), 1, "{run:?}");
    assert!(!on_terminal(&format!("{command} --quiet")).stdout.contains("waiting"));
    let run = way(&sandbox, &repo, &url, &["--config", "store.wait=2s", "status"]).fails(8);
    assert!(!run.stderr.contains("waiting"), "{}", run.stderr);
}

#[test]
fn db_info_describes_the_server() {
    let url = postgres_url();
    let way = machine(&url);
    let _ = way(&["db", "probe"]).ok();
    let info = way(&["db", "info", "--json"]).data();
    assert_eq!((info["kind"].as_str(), info["source"].as_str()), (Some("postgres"), Some("env")));
    assert_eq!(info["rows"]["worktrees"], 1);
    assert!(url.ends_with(info["schema"].as_str().unwrap()));
    assert!(way(&["db", "info"]).ok().stdout.contains("postgresql"));
    assert!(way(&["doctor"]).stdout.contains("answers"));
}

#[test]
fn files_are_not_looked_for_on_a_server() {
    let way = machine(&postgres_url());
    let _ = way(&["db", "probe"]).ok();
    for (command, instead) in [
        (&["db", "check"] as &[_], "pg_amcheck"),
        (&["db", "backup", "copy.db"], "pg_dump"),
        (&["db", "vacuum"], "autovacuum"),
    ] {
        let run = way(command).fails(7);
        assert!(run.stderr.contains(instead), "{}", run.stderr);
    }
}

#[test]
fn a_worktree_is_added_and_removed_without_a_file_to_link_to() {
    let way = machine(&postgres_url());
    let _ = way(&["worktree", "add", "topic"]).ok();
    let added = worktrees(&way).into_iter().find(|one| one["branch"] == "topic").unwrap();
    let link = Path::new(added["path"].as_str().unwrap()).join(".waypost/state.db");
    assert!(!link.is_symlink());
    let _ = way(&["worktree", "rm", "topic"]).ok();
}

#[test]
fn p29_where_shows_the_server_without_its_password() {
    let way = machine("postgres://me:secret@db.example.org/way?password=secret&schema=team");
    for args in [&["where"] as &[_], &["where", "--json"]] {
        let run = way(args).ok();
        assert!(run.stdout.contains("postgres://me@db.example.org/way?schema=team"), "{}", run.stdout);
        assert!(!run.stdout.contains("secret"), "{}", run.stdout);
    }
}

#[test]
fn leases_follow_the_clock_of_the_server_alone() {
    let url = postgres_url();
    let machine = |year: &'static str| {
        let sandbox = sandbox();
        let repo = sandbox.git_repo("repo");
        let (url, clock) = (url.clone(), format!("{year}-01-01T00:00:00Z"));
        sandbox.write(repo.join("plan.txt"), "one: First\ntwo: Second\n");
        move |args: &[&str]| {
            let variables = [("WAYPOST_DB", OsStr::new(&url)), ("WAYPOST_TEST_CLOCK", OsStr::new(&clock))];
            sandbox.way_with(&repo, &variables, args)
        }
    };
    let (early, late) = (machine("2020"), machine("2030"));
    let _ = early(&["workflow", "create", "w", "--plan", "plan.txt", "--start"]).ok();
    let claim = |way: &dyn Fn(&[&str]) -> Run, task: &str, agent: &str| {
        way(&["task", "claim", task, "--agent", agent, "--json"])
    };
    let ends = |run: Run| moment_ms(&run.data()["lease"]["expires_at"]);
    let first = ends(claim(&early, "one", "ada"));
    // Ada's lease is live for the machine ten years ahead, and bob's for the machine ten years behind.
    assert!(claim(&late, "one", "bob").fails(4).stderr.contains("held by ada"));
    let second = ends(claim(&late, "two", "bob"));
    assert!((0..60_000).contains(&(second - first)), "{first} and {second}");
    let _ = claim(&early, "two", "ada").fails(4);
    let _ = early(&["task", "checkpoint", "one", "--agent", "ada", "--type", "progress", "--summary", "s"]).ok();
}

#[test]
fn workflows_move_to_a_server_and_back() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let url = postgres_url();
    sandbox.write(repo.join("plan.txt"), "one: First\ntwo: Second\n  needs: one\n");
    let here = |args: &[&str]| sandbox.way(&repo, args);
    let there = |args: &[&str]| way(&sandbox, &repo, &url, args);
    let _ = here(&["workflow", "create", "w", "--plan", "plan.txt", "--start"]).ok();
    for args in
        [&["claim", "one"] as &[_], &["checkpoint", "one", "--summary", "half"], &["done", "one", "--outcome", "x"]]
    {
        let _ = here(&[&["task"], args, &["--agent", "ada"]].concat()).ok();
    }
    let moved = |run: Run| run.data()["moved"].as_array().unwrap().len();
    assert_eq!(moved(here(&["db", "move", "--to", &url, "--dry-run", "--json"])), 1);
    let there_is = there(&["workflow", "list", "--all", "--json"]).data();
    assert_eq!(there_is.as_array().unwrap().len(), 0, "a dry run moves nothing: {there_is}");
    assert_eq!(moved(here(&["db", "move", "--to", &url, "--json"])), 1);
    assert_eq!(moved(here(&["db", "move", "--to", &url, "--json"])), 0, "a second run moves none");
    assert_eq!(there(&["task", "list", "--workflow", "w", "--json"]).data()[0]["status"], "completed");
    assert_eq!(there(&["checkpoint", "list", "one", "--json"]).data()[0]["summary"], "half");

    // Work continues there, and the workflow returns with its new state.
    for args in [&["claim", "two"] as &[_], &["checkpoint", "two", "--summary", "more"], &["release", "two"]] {
        let _ = there(&[&["task"], args, &["--agent", "bob"]].concat()).ok();
    }
    let back = sandbox.path("back.db");
    let back = back.to_str().unwrap();
    assert_eq!(moved(there(&["db", "move", "--to", back, "--delete-source", "--json"])), 1);
    assert_eq!(moved(there(&["db", "move", "--to", back, "--json"])), 0);
    let local = |args: &[&str]| here(&[&["--db", back], args].concat());
    assert_eq!(local(&["checkpoint", "list", "two", "--json"]).data()[0]["summary"], "more");
    let _ = local(&["task", "claim", "two", "--agent", "bob"]).ok();
    let _ = local(&["task", "done", "two", "--outcome", "x", "--agent", "bob"]).ok();
    assert_eq!(local(&["workflow", "show", "w", "--json"]).data()["status"], "completed");
}

#[test]
fn events_and_messages_of_another_machine_arrive() {
    let url = postgres_url();
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let there = machine(&url);
    let _ = there(&["agent", "register", "builder"]).ok();
    let spawn = |args: &[&str]| {
        let mut command = sandbox.way_command(&repo);
        command.env("WAYPOST_DB", &url).args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let _ = way(&sandbox, &repo, &url, &["status"]).ok();
    let mut follower = spawn(&["events", "--follow", "--since", "0", "--json"]);
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut kinds = Vec::new();
    let mut until = |kind: &str| {
        while kinds.last().is_none_or(|last| last != kind) {
            let event: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            kinds.push(event["kind"].as_str().unwrap().to_owned());
            assert_eq!(event["sequence"], kinds.len(), "{kinds:?}");
        }
    };
    until("agent.registered");
    let waiting = spawn(&["--agent", "builder", "msg", "inbox", "--wait", "--timeout", "5m", "--json"]);
    let _ = there(&["--agent", "lead", "msg", "send", "builder", "go on"]).ok();
    assert_eq!(Run::of(&waiting.wait_with_output().unwrap()).data()[0]["body"], "go on");
    until("message.sent");
    let _ = there(&["db", "probe", "--writes", "1"]).ok();
    until("store.probed");
    follower.kill().unwrap();
    follower.wait().unwrap();
    let _ = way(&sandbox, &repo, &url, &["--agent", "builder", "msg", "inbox", "--wait", "--timeout", "100ms"]);
}

#[test]
fn a_server_that_accepts_the_connection_and_never_answers_times_out() {
    // The kernel accepts connections on behalf of a listening process.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let way = machine(&format!("postgres://me@{}/way", silent.local_addr().unwrap()));
    let since = Instant::now();
    let run = way(&["status", "--config", "store.wait=1s"]).fails(8);
    assert!(run.stderr.contains("the server did not answer for 1s"), "{}", run.stderr);
    assert!(since.elapsed() < Duration::from_secs(30), "{:?}", since.elapsed());
}
