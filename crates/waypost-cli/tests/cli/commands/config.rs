//! Configuration through the command line.

use std::ffi::OsStr;
use std::path::Path;

use serde_json::json;

use crate::support::config::get;
use crate::support::sandbox;

#[test]
fn an_overridden_value_is_reported() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["config", "set", "scope", "repo"]).ok();
    let run = sandbox.way(&repo, ["config", "set", "--user", "scope", "global"]);
    assert_eq!(run.code, 0);
    assert!(run.stderr.contains("scope is still repo"), "{}", run.stderr);
    let run = sandbox.way(&repo, ["config", "set", "--user", "scope", "global", "--json"]);
    assert!(run.stderr.is_empty() && run.stdout.contains("scope is still repo"), "{run:?}");
}

#[test]
fn a_path_means_the_same_from_any_current_directory() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let sub = sandbox.dir("repo/sub");
    let _ = sandbox.way(&sub, ["config", "set", "workspaces.path", "here"]).ok();
    let workspaces = |dir: &Path| sandbox.way(dir, ["where", "--json"]).data()["workspaces"]["path"].clone();
    assert_eq!(workspaces(&sub), sub.join("here").to_str().unwrap());
    assert_eq!(workspaces(&repo), workspaces(&sub));
    let _ = sandbox.way(&sub, ["config", "set", "workspaces.path", "~/there"]).ok();
    assert_eq!(workspaces(&repo), sandbox.path("home/there").to_str().unwrap());
}

#[test]
fn a_personal_prefix_is_not_written_for_the_team() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["config", "set", "prefix", "mine"]).ok();
    let _ = sandbox.way(&repo, ["init"]).ok();
    assert_eq!(std::fs::read_to_string(repo.join(".waypost/config.toml")).unwrap(), "prefix = \"repo\"\n");
}

#[test]
fn a_warning_is_printed_once() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    sandbox.write(repo.join(".waypost/config.toml"), "scoop = 1\n");
    let run = sandbox.way(&repo, ["config", "set", "scope", "repo"]);
    assert_eq!(run.stderr.matches("unknown key scoop").count(), 1, "{}", run.stderr);
}

#[test]
fn errors_about_unknown_keys_and_wrong_values_name_the_valid_ones() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let run = sandbox.way(&repo, ["config", "set", "scpoe", "repo"]).fails(2);
    assert!(run.stderr.contains("did you mean scope?"), "{}", run.stderr);
    let run = sandbox.way(&repo, ["config", "set", "scope", "everything"]).fails(2);
    assert!(run.stderr.contains("repo | worktree | global"), "{}", run.stderr);
    let _ = sandbox.way(&repo, ["config", "get", "prefix"]).fails(3);
    assert!(!repo.join(".git/waypost/config.toml").exists());

    sandbox.dir("repo/.waypost");
    sandbox.write(repo.join(".waypost/config.toml"), "scoop = 1\n");
    let run = sandbox.way(&repo, ["where"]);
    assert!(run.code == 0 && run.stderr.contains("unknown key scoop"), "{}", run.stderr);
    let answer = sandbox.way(&repo, ["where", "--json"]);
    assert!(answer.stderr.is_empty() && answer.stdout.contains("unknown key scoop"), "warnings are part of the JSON");
}

#[test]
fn a_personal_setting_is_not_written_into_the_tracked_file() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let run = sandbox.way(&repo, ["config", "set", "--shared", "workspaces.path", "/tmp"]).fails(7);
    assert!(run.stderr.contains("a personal setting"), "{}", run.stderr);
}

#[test]
fn commands_write_nothing_through_a_tracked_link() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let victim = sandbox.dir("victim");
    std::os::unix::fs::symlink(&victim, repo.join(".waypost")).unwrap();
    let _ = sandbox.way(&repo, ["init"]).fails(7);
    let _ = sandbox.way(&repo, ["config", "set", "--shared", "scope", "global"]).fails(7);
    assert_eq!(std::fs::read_dir(&victim).unwrap().count(), 0);
}

#[test]
fn routing_modes_are_written_where_they_belong() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let private = || std::fs::read_to_string(repo.join(".git/waypost/config.toml")).unwrap_or_default();
    let _ = sandbox.way(&repo, ["config", "--routing", "contributor"]).ok();
    assert_eq!(private(), "role = \"contributor\"\n\n[routing]\nmode = \"auto\"\n");
    let _ = sandbox.way(&repo, ["config", "--routing", "explicit"]).ok();
    assert!(private().contains("mode = \"explicit\""));
    let single = sandbox.way(&repo, ["config", "--routing", "single"]);
    assert!(single.code == 0 && single.stderr.contains("still contributor"), "{}", single.whole());
    assert!(!private().contains("mode"));
    let _ = sandbox.way(&repo, ["config", "--routing", "maintainer", "--shared"]).fails(7);
    let _ = sandbox.way(&repo, ["config", "--routing", "sideways"]).fails(2);
}

#[test]
fn the_users_file_needs_no_repository() {
    let sandbox = sandbox();
    let dir = sandbox.dir("nowhere");
    let _ = sandbox.way(&dir, ["config", "set", "--user", "scope", "global"]).ok();
    assert_eq!(get(&sandbox, &dir, "scope"), ("global".to_owned(), "user".to_owned()));
    let run = sandbox.way(&dir, ["config", "set", "scope", "repo"]).fails(2);
    assert!(run.stderr.contains("--user"), "{}", run.stderr);
}

#[test]
fn values_are_set_in_the_file_that_is_named_and_their_origin_is_told() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let at = |value: &str, layer: &str| assert_eq!(get(&sandbox, &repo, "scope"), (value.to_owned(), layer.to_owned()));
    at("repo", "default");
    let _ = sandbox.way(&repo, ["config", "set", "--user", "scope", "global"]).ok();
    at("global", "user");
    let _ = sandbox.way(&repo, ["config", "set", "--shared", "scope", "worktree"]).ok();
    at("worktree", "shared");
    let _ = sandbox.way(&repo, ["config", "set", "scope", "repo"]).ok();
    at("repo", "private");
    let with_variable = [("WAYPOST_SCOPE", OsStr::new("global"))];
    let args = ["config", "get", "scope", "--json", "--config", "scope=worktree"];
    let data = sandbox.way_with(&repo, &with_variable, &args[..4]).data();
    assert_eq!((&data["layer"], &data["origin"]), (&json!("environment"), &json!("WAYPOST_SCOPE")));
    assert_eq!(sandbox.way_with(&repo, &with_variable, args).data()["layer"], "flag");
    let list = sandbox.way(&repo, ["config", "list", "--show-origin", "--json"]).data();
    assert_eq!(list[0]["origin"], repo.join(".git/waypost/config.toml").to_str().unwrap());
    let _ = sandbox.way(&repo, ["config", "unset", "scope"]).ok();
    at("worktree", "shared");
    let _ = sandbox.way(&repo, ["config", "unset", "scope"]).fails(3);
    assert!(!sandbox.git(&repo, ["status", "--porcelain"]).contains("lock"));
}

#[test]
fn a_single_ledger_keeps_the_default_of_routing() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.git_repo("planning");
    let _ = sandbox.way(&repo, ["config", "set", "routing.default", "../planning"]).ok();
    for mode in ["explicit", "single"] {
        let _ = sandbox.way(&repo, ["config", "--routing", mode]).ok();
        let kept = sandbox.way(&repo, ["config", "get", "routing.default"]).ok().stdout;
        assert!(kept.trim().ends_with("../planning"), "{mode}: {kept}");
    }
}

#[test]
fn a_contributor_who_asks_for_a_single_ledger_learns_that_the_role_still_decides() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let planning = sandbox.git_repo("planning");
    let way = |args: &[&str]| sandbox.way(&repo, args);
    let _ = way(&["config", "--add-repo", planning.to_str().unwrap(), "--routing", "contributor"]).ok();
    let single = way(&["config", "--routing", "single"]);
    assert!(single.code == 0 && single.stderr.contains("way config unset role"), "{}", single.whole());
    let _ = way(&["add", "Private"]).ok();
    assert!(!repo.join(".waypost/issues.jsonl").exists(), "the project's ledger stays the project's");
    let _ = way(&["config", "unset", "role"]).ok();
    let _ = way(&["config", "--routing", "single"]).ok();
    let _ = way(&["add", "Public"]).ok();
    assert!(repo.join(".waypost/issues.jsonl").exists());
}
