//! Several repositories: one list, and each write in its own ledger.

use serde_json::json;
use waypost::Kind;

use crate::desk::{Desk, LEDGER, refusal};

#[test]
fn b4_b5_b27_three_repositories_are_one_list_and_each_write_goes_to_its_own_ledger() {
    let one = Desk::in_new_sandbox(|sandbox| sandbox.git_repo("one"));
    one.write_lines(&[r#"{"id":"a-1","title":"One"}"#]);
    let two = one.repository_with("two", r#"{"id":"b-1","title":"Two"}"#);
    let three = one.repository_with("three", r#"{"id":"c-1","title":"Three"}"#);
    one.add_repo("../two");
    one.add_repo("../three");
    let list = one.run("list_issues", json!({ "sort": "id" }));
    let sources = list["issues"].as_array().unwrap().iter().map(|issue| issue["source_repo"].as_str().unwrap());
    let sources: Vec<&str> = sources.collect();
    assert_eq!(sources, [&one, &two, &three].map(|desk| desk.dir.to_str().unwrap()));

    let before = [one.file(), three.file()];
    one.close("b-1");
    assert_eq!([one.file(), three.file()], before);
    assert!(two.lines()[0].contains("\"status\":\"closed\""));
    assert!(!two.lines()[0].contains("source_repo"), "the ledger file itself implies it");
    // Several issues at once: each is written to its own file.
    let update = |id: &str, priority: u8| json!({ "op": "update", "id": id, "priority": priority });
    one.batch(&[update("a-1", 0), update("c-1", 0)]).unwrap();
    assert!([&one, &three].iter().all(|desk| desk.lines()[0].contains("\"priority\":0")));
    // One failing change stops all of them, in every file.
    let before = [&one, &two, &three].map(Desk::file);
    one.refused(Kind::Conflict, "claim_issue", json!({ "issue": "b-1" }));
    refusal(Kind::NotFound, one.batch(&[update("a-1", 1), update("c-1", 1), update("nothing", 1)]));
    assert_eq!([&one, &two, &three].map(Desk::file), before);

    // Filtered to one repository, by path or name.
    assert_eq!(one.list(json!({ "repo": "../three" })), ["c-1"]);
    assert_eq!(one.ids("list_ready_issues", json!({ "repo": "three" })), ["c-1"]);
    assert!(one.ids("search_issues", json!({ "text": "three", "repo": "one" })).is_empty());
    one.refused(Kind::NotFound, "show_issue", json!({ "issue": "c-1", "repo": "one" }));
    one.refused(Kind::NotFound, "list_issues", json!({ "repo": "nowhere" }));
    let new = one.add_with("New", json!({ "repo": "three" }));
    assert!(new.starts_with("c-"), "its ledger decides the prefix: {new}");
    assert_eq!(three.lines().len(), 2);
}

#[test]
fn a_repository_that_cannot_be_read_is_a_warning_on_every_answer() {
    let one = Desk::in_new_sandbox(|sandbox| sandbox.git_repo("one"));
    one.write_lines(&[r#"{"id":"a-1","title":"One"}"#]);
    let two = one.repository_with("two", r#"{"id":"b-1","title":"Two"}"#);
    one.add_repo("../two");
    let elsewhere = one.sandbox.path("moved");
    std::fs::rename(&two.dir, &elsewhere).unwrap();
    for (operation, arguments) in [
        ("list_issues", json!({})),
        ("list_ready_issues", json!({})),
        ("show_issue", json!({ "issue": "a-1" })),
        ("add_issue", json!({ "title": "x" })),
    ] {
        let warnings = one.request(operation, arguments).unwrap().warnings;
        assert!(warnings.iter().any(|warning| warning.contains("two are missing")), "{operation}: {warnings:?}");
    }
    std::fs::rename(&elsewhere, &two.dir).unwrap();
    assert_eq!((one.list(json!({})).len(), one.warnings()), (3, Vec::new()));
}

#[test]
fn b24_use_case_2_phases_have_their_own_ledgers_and_wait_for_each_other() {
    let project = Desk::in_new_sandbox(|sandbox| sandbox.git_repo("project"));
    for phase in ["architecture", "implementation", "testing"] {
        project.repository(&format!("phases/{phase}"));
        project.add_repo(format!("../phases/{phase}"));
    }
    let design = project.add_with("Design authentication", json!({ "repo": "../phases/architecture" }));
    let build = project.add_with("Build it", json!({ "repo": "implementation", "blocked_by": [&design] }));
    let test = project.add_with("Test it", json!({ "repo": "testing", "blocked_by": [&build] }));
    assert_eq!(project.ready(), std::slice::from_ref(&design));
    assert_eq!(project.list(json!({ "repo": "../phases/architecture" })), std::slice::from_ref(&design));
    project.close(&design);
    assert_eq!(project.ready(), std::slice::from_ref(&build));
    project.close(&build);
    assert_eq!(project.ready(), std::slice::from_ref(&test));
    assert!(!project.path(LEDGER).exists(), "the project itself has no ledger");
}
