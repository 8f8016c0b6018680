//! `way init`.

use std::process::Stdio;

use serde_json::json;

use crate::support::config::get;
use crate::support::vcs::place;
use crate::support::{sandbox, text};

#[test]
fn init_writes_the_prefix_and_the_scope_once() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("My Repo");
    let data = sandbox.way(&repo, ["init", "--json"]).data();
    assert_eq!(data["prefix"], "my-repo");
    let config = repo.join(".waypost/config.toml");
    assert_eq!(std::fs::read_to_string(&config).unwrap(), "prefix = \"my-repo\"\n");
    let again = sandbox.way(&repo, ["init", "--json"]).data();
    assert_eq!((&again["created"], &again["prefix"]), (&json!([]), &json!("my-repo")));
    let _ = sandbox.way(&repo, ["init", "--prefix", "mine"]).ok();
    assert_eq!(std::fs::read_to_string(&config).unwrap(), "prefix = \"mine\"\n");
    let _ = sandbox.way(&repo, ["init", "--prefix", "Not A Prefix"]).fails(2);
    let data = sandbox.way(&repo, ["init", "--scope", "global", "--json"]).data();
    assert_eq!(
        (&data["scope"], &data["store"]),
        (&json!("global"), &json!(sandbox.path("home/.waypost/state.db").to_str().unwrap()))
    );
    assert_eq!(get(&sandbox, &repo, "scope"), ("global".to_owned(), "private".to_owned()));
}

#[test]
fn b21_a_fork_is_detected_only_on_a_terminal() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.git(&repo, ["remote", "add", "origin", "git@example.org:me/p"]);
    sandbox.git(&repo, ["remote", "add", "upstream", "https://example.org/team/p"]);
    // Run on a terminal, with typed answers.
    let mut command = sandbox.command("script", &repo);
    command.args(["-qec", &format!("'{}' init", env!("CARGO_BIN_EXE_way")), "/dev/null"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"y\n../plans\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("looks like a fork") && shown.contains("Path of the planning repository?"), "{shown}");
    assert!(sandbox.path("plans/.waypost").is_dir(), "{shown}");
    assert!(!repo.join(".waypost").exists());
    let again = sandbox.git_repo("again");
    sandbox.git(&again, ["remote", "add", "upstream", "https://example.org/team/p"]);
    let _ = sandbox.way(&again, ["init"]).ok();
    assert!(again.join(".waypost/config.toml").exists(), "without a terminal there is no prompt");
}

#[test]
fn a_directory_without_version_control_becomes_a_repository_by_init() {
    let sandbox = sandbox();
    let dir = sandbox.dir("plain");
    let sub = sandbox.dir("plain/sub");
    let _ = sandbox.way(&dir, ["status"]).fails(2);
    let _ = sandbox.way(&dir, ["init"]).ok();
    for from in [&dir, &sub] {
        let data = place(&sandbox, from);
        assert_eq!(data["repository"]["vcs"], "none");
        assert_eq!(data["store"]["path"], text(&dir.join(".waypost/local/state.db")));
    }
    let _ = sandbox.way(&sub, ["db", "probe"]).ok();
    // Version control that is added later does not commit private files.
    sandbox.git(&dir, ["init", "-q"]);
    assert!(!sandbox.git(&dir, ["status", "--porcelain", "-uall"]).contains("local"));
}

/// Sandboxes of coding agents make an empty `.git` in directories that they may write to.
#[test]
fn a_private_directory_is_adopted_below_an_empty_git_directory() {
    let sandbox = sandbox();
    sandbox.dir("above/.git");
    let repo = sandbox.git_repo("above/repo");
    let _ = sandbox.way(&repo, ["workflow", "create", "w", "--json"]);
    // Another user's `way` did not create it.
    let other = sandbox.dir("other");
    let home = [("HOME", other.as_os_str())];
    assert_eq!(sandbox.way_with(&repo, &home, ["workflow", "list"]).code, 7);
    let adopted = sandbox.way_with(&repo, &home, ["init", "--adopt"]);
    assert_eq!(adopted.code, 0, "{adopted:#?}");
    assert_eq!(sandbox.way_with(&repo, &home, ["workflow", "list", "--json"]).data()[0]["name"], "w");
}

#[test]
fn a_person_who_works_in_a_fork_chooses_with_init_or_the_configuration() {
    let sandbox = sandbox();
    for (name, choice) in [
        ("maintainer", &["init", "--maintainer"][..]),
        ("team", &["init"]),
        ("config", &["config", "set", "role", "maintainer"]),
    ] {
        let repo = sandbox.git_repo(name);
        sandbox.git(&repo, ["remote", "add", "origin", "git@example.org:me/p"]);
        sandbox.git(&repo, ["remote", "add", "upstream", "https://example.org/team/p"]);
        let run = sandbox.way(&repo, ["add", "Mine"]);
        assert!(run.code == 0 && run.stderr.contains("way init --contributor"), "{}", run.stderr);
        let status = || sandbox.git(&repo, ["status", "--porcelain", "-uall"]);
        assert_eq!(status(), "", "{name}");
        let _ = sandbox.way(&repo, choice.iter()).ok();
        let _ = sandbox.way(&repo, ["list"]).ok();
        assert!(status().contains("?? .waypost/issues.jsonl\n"), "{name}: {}", status());
    }
}

#[test]
fn clones_in_directories_of_any_name_get_the_same_prefix() {
    let sandbox = sandbox();
    let seed = sandbox.git_repo("seed");
    sandbox.git(&seed, ["clone", "-q", "--bare", ".", "../project.git"]);
    for name in ["one", "two"] {
        sandbox.git(&sandbox.path("."), ["clone", "-q", "project.git", name]);
        let data = sandbox.way(&sandbox.path(name), ["init", "--json"]).data();
        assert_eq!(data["prefix"], "project", "{name}");
    }
}

#[test]
fn the_home_directory_does_not_become_a_repository() {
    let sandbox = sandbox();
    let home = sandbox.path("home");
    let _ = sandbox.way(&home, ["--global", "status"]).ok();
    let _ = sandbox.way(&home, ["init"]).fails(7);
    std::os::unix::fs::symlink(&home, sandbox.path("other-home")).unwrap();
    let other = sandbox.path("other-home");
    let _ = sandbox.way_with(&home, &[("HOME", other.as_os_str())], ["init"]).fails(7);
}
