//! `way repo`: several repositories, one combined view, each write in its own ledger.

use crate::support::ledger::ids;
use crate::support::repos::with_issue;
use crate::support::sandbox;

#[test]
fn b3_repositories_are_added_once_whatever_their_spelling() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let planning = sandbox.git_repo("home/planning");
    std::os::unix::fs::symlink(&planning, sandbox.path("link")).unwrap();
    let paths = || -> Vec<String> {
        let list = sandbox.way(&repo, ["config", "--list-repos", "--json"]).data();
        list.as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap().to_owned()).collect()
    };
    let main = repo.to_str().unwrap().to_owned();
    assert_eq!(paths(), std::slice::from_ref(&main));
    for spelling in ["~/planning", "../home/planning", "../link", planning.to_str().unwrap()] {
        let _ = sandbox.way(&repo, ["config", "--add-repo", spelling]).ok();
        assert_eq!(paths(), [main.clone(), planning.to_str().unwrap().to_owned()], "{spelling}");
    }
    let _ = sandbox.way(&repo, ["config", "--remove-repo", "../link"]).ok();
    assert_eq!(paths(), [main]);
    let _ = sandbox.way(&repo, ["config", "--remove-repo", "../link"]).fails(3);
    let _ = sandbox.way(&repo, ["config", "--add-repo", "~/planning", "--shared"]).ok();
    assert!(std::fs::read_to_string(repo.join(".waypost/config.toml")).unwrap().contains("additional"));
    // Paths in a file are relative to the repository, from any current directory.
    sandbox.write(repo.join(".waypost/config.toml"), "[repos]\nadditional = ['../home/planning']\n");
    let _ = sandbox.way(&repo, ["config", "accept", "--json"]).data();
    let list = sandbox.way(&sandbox.dir("repo/a/b"), ["config", "--list-repos", "--json"]).data();
    assert_eq!(list[1]["path"], planning.to_str().unwrap());
    let run = sandbox.way(&repo, ["config", "--add-repo", "missing"]);
    assert!(run.code == 0 && run.stderr.contains("does not exist yet"), "{run:?}");
}

#[test]
fn one_repository_is_chosen_by_its_path_or_name() {
    let sandbox = sandbox();
    let one = with_issue(&sandbox, "one", r#"{"id":"a-1","title":"One"}"#);
    with_issue(&sandbox, "two", r#"{"id":"b-1","title":"Two"}"#);
    let _ = sandbox.way(&one, ["config", "--add-repo", "../two"]).ok();
    assert_eq!(ids(&sandbox, &one, &["list", "--repo", "../two"]), ["b-1"]);
    assert_eq!(ids(&sandbox, &one, &["ready", "--repo", "two"]), ["b-1"]);
    assert_eq!(sandbox.way(&one, ["stats", "--repo", "two", "--json"]).data()["ready"], 1);
    let _ = sandbox.way(&one, ["list", "--repo", "nowhere"]).fails(3);
}

#[test]
fn a_repository_that_cannot_be_read_is_told_in_text_json_and_by_doctor() {
    let sandbox = sandbox();
    let one = with_issue(&sandbox, "one", r#"{"id":"a-1","title":"One"}"#);
    let two = with_issue(&sandbox, "two", r#"{"id":"b-1","title":"Two"}"#);
    let _ = sandbox.way(&one, ["config", "--add-repo", "../two"]).ok();
    std::fs::rename(&two, sandbox.path("moved")).unwrap();
    let run = sandbox.way(&one, ["list"]);
    assert!(run.code == 0 && run.stderr.contains("two are missing"), "{run:?}");
    let run = sandbox.way(&one, ["list", "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert!(answer["warnings"][0].as_str().unwrap().contains("two are missing"), "{answer}");
    assert!(sandbox.way(&one, ["doctor"]).stdout.contains("two are missing"));
}
