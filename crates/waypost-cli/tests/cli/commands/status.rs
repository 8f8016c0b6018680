//! `way status`.

use serde_json::json;

use crate::support::worktrees::{id_of, three};
use crate::support::{sandbox, text};

#[test]
fn g4_filtering_by_worktree_gives_its_part_and_an_unknown_one_is_an_error() {
    let sandbox = sandbox();
    let (repo, ours, _) = three(&sandbox);
    let id = id_of(&sandbox, &ours);
    for wanted in [id.as_str(), &id[..8], "ours", "../ours", text(&ours)] {
        let status = sandbox.way(&repo, ["status", "--json", "--worktree", wanted]).data();
        assert_eq!(status["worktrees"].as_array().unwrap().len(), 1, "{wanted}");
        assert!(status["events"].as_array().unwrap().iter().all(|event| event["worktree_id"] == *id));
        let _ = sandbox.way(&repo, ["worktree", "list", "--worktree", wanted]).ok();
    }
    for unknown in ["wt_000000000000", "unknown", "wt_", ""] {
        let run = sandbox.way(&repo, ["status", "--json", "--worktree", unknown]).fails(3);
        assert_eq!(run.error()["code"], "not_found");
    }
    let run = sandbox.way(&repo, ["db", "info", "--worktree", "ours"]).fails(2);
    assert!(run.stderr.contains("--worktree does not apply"), "{}", run.stderr);
}

#[test]
fn the_status_leads_with_what_needs_a_person_and_fits_on_one_line() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    assert_eq!(sandbox.way(&repo, ["status", "--line"]).ok().stdout, "idle\n");
    sandbox.write(
        "repo/plan.json",
        r#"{"tasks":[{"name":"build","description":"Build it","max_attempts":1},
            {"name":"ship","description":"Ship it","depends_on":["build"]},
            {"name":"name it","description":"Choose a name"},
            {"name":"draw","description":"Draw it"}]}"#,
    );
    let _ = sandbox.way(&repo, ["workflow", "create", "w", "--plan", "plan.json", "--start"]).ok();
    assert_eq!(sandbox.way(&repo, ["status", "--line"]).ok().stdout, "3 queued\n");
    let _ = sandbox.way(&repo, ["task", "claim", "build", "--agent", "ann"]).ok();
    let _ = sandbox.way(&repo, ["task", "fail", "build", "--agent", "ann", "--error", "the disk is full"]).ok();
    let _ = sandbox.way(&repo, ["task", "claim", "name it", "--agent", "bob"]).ok();
    let _ = sandbox.way(&repo, ["task", "ask", "name it", "--agent", "bob", "--question", "Which name?"]).ok();
    let _ = sandbox.way(&repo, ["task", "claim", "draw", "--agent", "cid"]).ok();
    let line = sandbox.way(&repo, ["status", "--line"]).ok().stdout;
    assert_eq!(line, "2 need you, 1 stuck, 1 working\n");
    let shown = sandbox.way(&repo, ["status"]).ok().stdout;
    assert!(shown.starts_with("Needs you\n"), "{shown}");
    let at = |text: &str| shown.find(text).unwrap_or_else(|| panic!("{text} in {shown}"));
    assert!(at("the disk is full") < at("Which name?"), "those that wait longest come first: {shown}");
    assert!(at("Which name?") < at("it waits for build, which is dead"), "{shown}");
    assert!(at("it waits for build, which is dead") < at("\nWorking\n"), "{shown}");
    let groups = sandbox.way(&repo, ["status", "--json"]).data()["groups"].clone();
    let chips: Vec<_> = groups.as_array().unwrap().iter().flat_map(|group| group["rows"].as_array().unwrap()).collect();
    let chips: Vec<_> = chips.iter().map(|row| row["chip"].as_str().unwrap()).collect();
    assert_eq!(chips, ["dead", "asks", "blocked", "working"]);
}

#[test]
fn the_status_of_one_repository_has_all_its_rows_however_many_others_have() {
    let sandbox = sandbox();
    let (one, two) = (sandbox.git_repo("one"), sandbox.git_repo("two"));
    let tasks: Vec<_> = (0..1_100).map(|number| json!({ "name": format!("t{number}") })).collect();
    sandbox.write("two/plan.json", json!({ "tasks": tasks }).to_string());
    sandbox.write("one/plan.json", r#"{"tasks":[{"name":"alone"}]}"#);
    for (repo, name) in [(&two, "many"), (&one, "few")] {
        let _ = sandbox.way(repo, ["--global", "workflow", "create", name, "--plan", "plan.json", "--start"]).ok();
    }
    let queued = |args: &[&str]| {
        let args = [&["--global", "status", "--json"], args].concat();
        let mut status = sandbox.way(&one, args).data();
        let group = status["groups"].as_array().unwrap().iter().position(|group| group["group"] == "queued").unwrap();
        status["groups"][group].take()
    };
    let all = queued(&[]);
    assert_eq!((&all["total"], &all["has_more"]), (&json!(1_000), &json!(true)), "{all}");
    assert_eq!(sandbox.way(&one, ["--global", "status", "--line"]).ok().stdout, "1000+ queued\n");
    let few = queued(&["--repo", "one"]);
    assert_eq!((&few["total"], few.get("has_more")), (&json!(1), None), "{few}");
    assert_eq!(few["rows"][0]["name"], "few/alone");
    let status = sandbox.way(&one, ["--global", "status", "--json", "--repo", "one"]).data();
    for part in ["worktrees", "workflows"] {
        assert_eq!(status[part].as_array().unwrap().len(), 1, "{part}: {}", status[part]);
    }
    assert_eq!(status["totals"]["ready"], 1);
    let worktree = &status["worktrees"][0]["id"];
    assert!(status["events"].as_array().unwrap().iter().all(|event| event["worktree_id"] == *worktree), "{status}");
    let many = queued(&["--repo", "two", "--limit", "3"]);
    assert_eq!((many["rows"].as_array().unwrap().len(), &many["has_more"]), (3, &json!(true)));
    let run = sandbox.way(&one, ["--global", "status", "--repo", "three"]).fails(3);
    assert!(run.stderr.contains("no repository \"three\""), "{}", run.stderr);
}
