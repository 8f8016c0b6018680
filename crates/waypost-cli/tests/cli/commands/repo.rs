//! `way repo`: several repositories, one combined view, each write in its own ledger.

use crate::support::ledger::{LEDGER, add, ids, lines};
use crate::support::repos::{text, with_issue};
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
fn b4_b5_b27_three_repositories_are_one_list_and_each_write_goes_to_its_own_ledger() {
    let sandbox = sandbox();
    let one = with_issue(&sandbox, "one", r#"{"id":"a-1","title":"One"}"#);
    let two = with_issue(&sandbox, "two", r#"{"id":"b-1","title":"Two"}"#);
    let three = with_issue(&sandbox, "three", r#"{"id":"c-1","title":"Three"}"#);
    let _ = sandbox.way(&one, ["config", "--add-repo", "../two"]).ok();
    let _ = sandbox.way(&one, ["config", "--add-repo", "../three"]).ok();
    let list = sandbox.way(&one, ["list", "--sort", "id", "--json"]).data();
    let sources: Vec<&str> =
        list.as_array().unwrap().iter().map(|issue| issue["source_repo"].as_str().unwrap()).collect();
    assert_eq!(sources, [text(&one), text(&two), text(&three)]);

    let before = [&one, &three].map(|repo| std::fs::read(repo.join(LEDGER)).unwrap());
    let _ = sandbox.way(&one, ["close", "b-1"]).ok();
    assert_eq!([&one, &three].map(|repo| std::fs::read(repo.join(LEDGER)).unwrap()), before);
    assert!(lines(&two.join(LEDGER))[0].contains("\"status\":\"closed\""));
    assert!(!lines(&two.join(LEDGER))[0].contains("source_repo"), "the ledger file itself implies it");
    // Several issues at once: each is written to its own file.
    let _ = sandbox.way(&one, ["update", "a-1", "c-1", "-p", "0"]).ok();
    assert!([&one, &three].iter().all(|repo| lines(&repo.join(LEDGER))[0].contains("\"priority\":0")));
    // One failing change stops all of them, in every file.
    let before = [&one, &two, &three].map(|repo| std::fs::read(repo.join(LEDGER)).unwrap());
    let _ = sandbox.way(&one, ["claim", "b-1"]).fails(4);
    let _ = sandbox.way(&one, ["update", "a-1", "c-1", "nothing", "-p", "1"]).fails(3);
    assert_eq!([&one, &two, &three].map(|repo| std::fs::read(repo.join(LEDGER)).unwrap()), before);

    // Filtered to one repository, by path or name.
    assert_eq!(ids(&sandbox, &one, &["list", "--repo", "../three"]), ["c-1"]);
    assert_eq!(ids(&sandbox, &one, &["ready", "--repo", "three"]), ["c-1"]);
    assert_eq!(ids(&sandbox, &one, &["search", "three", "--repo", "one"]), Vec::<String>::new());
    assert_eq!(sandbox.way(&one, ["stats", "--repo", "three", "--json"]).data()["ready"], 1);
    let _ = sandbox.way(&one, ["show", "c-1", "--repo", "one"]).fails(3);
    let _ = sandbox.way(&one, ["list", "--repo", "nowhere"]).fails(3);
    let new = add(&sandbox, &one, &["New", "--repo", "three"]);
    assert!(new.starts_with("c-"), "its ledger decides the prefix: {new}");
    assert_eq!(lines(&three.join(LEDGER)).len(), 2);
}

#[test]
fn b13_b17_an_issue_blocked_by_another_repository_follows_its_state() {
    let sandbox = sandbox();
    let one = with_issue(
        &sandbox,
        "one",
        r#"{"id":"a-1","title":"Waits","dependencies":[{"depends_on_id":"b-1","type":"blocks"}]}"#,
    );
    let two =
        with_issue(&sandbox, "two", r#"{"id":"b-1","title":"Blocks","priority":4,"labels":["discovered:blocker"]}"#);
    let run = sandbox.way(&one, ["ready", "--explain", "a-1"]).ok();
    assert!(run.stdout.contains("in no ledger"), "{}", run.stdout);
    let _ = sandbox.way(&one, ["config", "--add-repo", "../two"]).ok();
    assert_eq!(ids(&sandbox, &one, &["ready"]), ["b-1"]);
    let _ = sandbox.way(&two, ["close", "b-1"]).ok();
    assert_eq!(ids(&sandbox, &one, &["ready"]), ["a-1"]);
    let _ = sandbox.way(&two, ["reopen", "b-1"]).ok();
    let _ = sandbox.way(&one, ["dep", "rm", "a-1", "b-1"]).ok();
    assert_eq!(ids(&sandbox, &one, &["ready"]), ["b-1", "a-1"], "labels count from any ledger");
    let _ = sandbox.way(&one, ["label", "add", "b-1", "no-auto-claim"]).ok();
    assert_eq!(sandbox.way(&one, ["claim", "--json"]).data()["id"], "a-1");
}

#[test]
fn a_repository_that_cannot_be_read_is_a_warning_on_every_answer() {
    let sandbox = sandbox();
    let one = with_issue(&sandbox, "one", r#"{"id":"a-1","title":"One"}"#);
    let two = with_issue(&sandbox, "two", r#"{"id":"b-1","title":"Two"}"#);
    let _ = sandbox.way(&one, ["config", "--add-repo", "../two"]).ok();
    std::fs::rename(&two, sandbox.path("moved")).unwrap();
    for args in [&["list"][..], &["ready"], &["show", "a-1"], &["add", "x"]] {
        let run = sandbox.way(&one, args.iter());
        assert!(run.code == 0 && run.stderr.contains("two are missing"), "{args:?}: {run:?}");
    }
    let run = sandbox.way(&one, ["list", "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert!(answer["warnings"][0].as_str().unwrap().contains("two are missing"), "{answer}");
    assert!(sandbox.way(&one, ["doctor"]).stdout.contains("two are missing"));
    std::fs::rename(sandbox.path("moved"), &two).unwrap();
    assert_eq!(sandbox.way(&one, ["list"]).ok().stdout.lines().count(), 4);
}

#[test]
fn b24_use_case_2_phases_have_their_own_ledgers_and_wait_for_each_other() {
    let sandbox = sandbox();
    for phase in ["architecture", "implementation", "testing"] {
        let repo = sandbox.git_repo(format!("phases/{phase}"));
        let _ = sandbox.way(&repo, ["init"]).ok();
    }
    let project = sandbox.git_repo("project");
    for phase in ["architecture", "implementation", "testing"] {
        let _ = sandbox.way(&project, ["config", "--add-repo", &format!("../phases/{phase}")]).ok();
    }
    let design = add(&sandbox, &project, &["Design authentication", "--repo", "../phases/architecture"]);
    let build = add(&sandbox, &project, &["Build it", "--repo", "implementation", "--blocked-by", &design]);
    let test = add(&sandbox, &project, &["Test it", "--repo", "testing", "--blocked-by", &build]);
    assert_eq!(ids(&sandbox, &project, &["ready"]), std::slice::from_ref(&design));
    assert_eq!(ids(&sandbox, &project, &["list", "--repo", "../phases/architecture"]), std::slice::from_ref(&design));
    let _ = sandbox.way(&project, ["close", &design]).ok();
    assert_eq!(ids(&sandbox, &project, &["ready"]), std::slice::from_ref(&build));
    let _ = sandbox.way(&project, ["close", &build]).ok();
    assert_eq!(ids(&sandbox, &project, &["ready"]), std::slice::from_ref(&test));
    assert!(!project.join(LEDGER).exists(), "the project itself has no ledger");
}

#[test]
fn b24_use_case_3_a_maintainer_and_a_contributor_work_on_one_project() {
    let sandbox = sandbox();
    let origin = sandbox.git_repo("origin");
    sandbox.git(&origin, ["commit", "-q", "--allow-empty", "-m", "first"]);
    sandbox.git(&sandbox.path("."), ["clone", "-q", "origin", "alice"]);
    sandbox.git(&sandbox.path("."), ["clone", "-q", "origin", "bob"]);
    let (alice, bob) = (sandbox.path("alice"), sandbox.path("bob"));
    let bug = add(&sandbox, &alice, &["Fix bug in parser", "--actor", "alice"]);
    sandbox.git(&alice, ["add", "."]);
    sandbox.git(&alice, ["commit", "-q", "-m", "issue"]);
    sandbox.git(&origin, ["pull", "-q", "--no-rebase", "../alice"]);
    let _ = sandbox.way(&bob, ["init", "--contributor", "--planning", "../bobs-plans"]).ok();
    sandbox.git(&bob, ["pull", "-q"]);
    let idea = add(&sandbox, &bob, &["Explore performance", "--actor", "bob"]);
    let mut seen = ids(&sandbox, &bob, &["list"]);
    seen.sort();
    let mut expected = vec![bug.clone(), idea];
    expected.sort();
    assert_eq!(seen, expected, "bob sees both");
    assert_eq!(ids(&sandbox, &alice, &["list"]), [bug], "alice sees the project's");
    assert_eq!(sandbox.git(&bob, ["status", "--porcelain"]), "");
}

#[test]
fn b8_every_pair_of_status_and_visibility_is_kept() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    let statuses = ["open", "in_progress", "hooked", "blocked", "deferred", "pinned", "closed"];
    let pairs = statuses.map(|status| {
        ["local", "proposed", "canonical"].map(|visibility| {
            let pair = serde_json::json!({ "id": format!("{status}-{visibility}"), "title": "x", "status": status, "visibility": visibility });
            format!("{pair}\n")
        })
    });
    let text = pairs.concat().concat();
    sandbox.write(repo.join(LEDGER), &text);
    let list = sandbox.way(&repo, ["list", "--all", "--json"]).data();
    for issue in list.as_array().unwrap() {
        let pair = format!("{}-{}", issue["status"].as_str().unwrap(), issue["visibility"].as_str().unwrap());
        assert_eq!(issue["id"], pair);
    }
    assert_eq!(list.as_array().unwrap().len(), 21);
    // A deleted issue keeps its visibility too.
    for visibility in ["local", "proposed", "canonical"] {
        let id = format!("open-{visibility}");
        let _ = sandbox.way(&repo, ["delete", &id]).ok();
        let ledger = std::fs::read_to_string(repo.join(LEDGER)).unwrap();
        let line = ledger.lines().find(|line| line.contains(&format!("\"id\":\"{id}\""))).unwrap();
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!((&record["status"], &record["visibility"]), (&"tombstone".into(), &visibility.into()), "{line}");
    }
    assert_eq!(sandbox.way(&repo, ["list", "--all", "--json"]).data().as_array().unwrap().len(), 18);
}
