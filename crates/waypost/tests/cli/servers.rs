//! A store on a PostgreSQL server: the same commands, from several machines.

use std::ffi::OsStr;
use std::path::Path;

use serde_json::Value;
use waypost_testkit::{Run, Sandbox, postgres_url};

use crate::sandbox;

/// A machine: a home of its own, and a repository in it.
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
fn two_machines_share_a_server() {
    let url = postgres_url();
    let (here, there) = (machine(&url), machine(&url));
    let _ = here(&["status"]).ok();
    let _ = there(&["db", "probe", "--writes", "3"]).ok();
    let ids = |way: &dyn Fn(&[&str]) -> Run| -> Vec<Value> {
        worktrees(way).into_iter().map(|one| one["id"].clone()).collect()
    };
    assert_eq!(ids(&here).len(), 2);
    assert_eq!(ids(&here), ids(&there));
    let events = |way: &dyn Fn(&[&str]) -> Run| way(&["status", "--json"]).data()["store"]["events"].as_u64();
    assert_eq!(events(&here), events(&there));
    assert_eq!(events(&here), Some(7), "two repositories, two worktrees and three probes");
}

#[test]
fn db_info_says_what_the_server_is() {
    let url = postgres_url();
    let way = machine(&url);
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
    let ends = |run: Run| run.data()["lease"]["expires_at"].as_i64().unwrap();
    let first = ends(claim(&early, "one", "ada"));
    // To a clock ten years ahead it has not ended, and to one ten years behind another has not begun.
    assert!(claim(&late, "one", "bob").fails(4).stderr.contains("held by ada"));
    let second = ends(claim(&late, "two", "bob"));
    assert!((0..60_000).contains(&(second - first)), "{first} and {second}");
    let _ = claim(&early, "two", "ada").fails(4);
    let _ = early(&["task", "checkpoint", "one", "--agent", "ada", "--type", "progress", "--summary", "s"]).ok();
}
