//! `way status`.

use crate::support::sandbox;
use crate::support::worktrees::{id_of, three};

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
fn a_filter_by_worktree_names_one_that_is_known_and_is_refused_where_it_has_no_effect() {
    let sandbox = sandbox();
    let (repo, ours, _) = three(&sandbox);
    let id = id_of(&sandbox, &ours);
    for wanted in [&id[..8], "ours", "../ours"] {
        let status = sandbox.way(&repo, ["status", "--json", "--worktree", wanted]).data();
        assert_eq!(status["worktrees"].as_array().unwrap().len(), 1, "{wanted}");
        let _ = sandbox.way(&repo, ["worktree", "list", "--worktree", wanted]).ok();
    }
    for list in [&["status"][..], &["workflow", "list"], &["task", "list"], &["job", "list"]] {
        let run = sandbox.way(&repo, [list, &["--json", "--worktree", "unknown"]].concat()).fails(3);
        assert_eq!(run.error()["code"], "not_found", "{list:?}");
    }
    let _ = sandbox.way(&repo, ["workflow", "show", "w", "--worktree", "ours"]).fails(2);
    let run = sandbox.way(&repo, ["db", "info", "--worktree", "ours"]).fails(2);
    assert!(run.stderr.contains("--worktree does not apply"), "{}", run.stderr);
}

#[test]
fn the_words_of_another_tracker_mean_the_same_here() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = sandbox.way(&repo, ["add", "One", "--json"]).data()["id"].as_str().unwrap().to_owned();
    let status = || sandbox.way(&repo, ["show", &id, "--json"]).data()["status"].as_str().unwrap().to_owned();
    for (line, after) in [
        (&["status", &id, "in-progress"][..], "in_progress"),
        (&["update", &id, "--status", "open"], "open"),
        (&["work", &id], "in_progress"),
        (&["status", &id, "Deferred"], "deferred"),
        (&["update", &id, "--status", "in-progress"], "in_progress"),
    ] {
        let _ = sandbox.way(&repo, line).ok();
        assert_eq!(status(), after, "{line:?}");
    }
    for line in [&["show"][..], &["status", &id], &["list", "--status", "in-progress"]] {
        assert!(sandbox.way(&repo, line).ok().stdout.contains(&id), "{line:?}");
    }
    let _ = sandbox.way(&repo, ["status", &id, "wombat"]).fails(2);
}
