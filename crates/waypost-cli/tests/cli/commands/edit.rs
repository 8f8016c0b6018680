//! `way edit`: issues in an editor.
#![expect(clippy::needless_raw_string_hashes, reason = "that is how expect-test writes them")]

use expect_test::expect;

use crate::support::claims::at;
use crate::support::ledger::{LEDGER, add, lines};
use crate::support::sandbox;

#[test]
fn only_the_holder_sets_the_status_of_an_issue_in_an_editor() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["Fix it"]);
    let _ = at(&sandbox, &repo, 0, "bob", &["claim", &id]).ok();
    let edit = |agent: &str, script: &str, args: &[&str]| {
        sandbox.write(sandbox.path("editor"), format!("#!/bin/sh\nsed -i '{script}' \"$1\"\n"));
        let clock = "2026-01-01T00:01:00Z".as_ref();
        let variables = [("VISUAL", "sh ../editor".as_ref()), ("WAYPOST_TEST_CLOCK", clock)];
        let variables = [&variables[..], &[("WAYPOST_AGENT", agent.as_ref())]].concat();
        sandbox.way_with(&repo, &variables, [&["edit", &id], args].concat())
    };
    let status = "s/^status: .*/status: blocked/";
    let before = std::fs::read(repo.join(LEDGER)).unwrap();
    let refused = edit("ada", status, &[]).fails(4);
    assert!(refused.stderr.contains("is held by bob until") && refused.stderr.contains("--force"), "{refused:?}");
    assert!(refused.stderr.contains("your text is saved in"), "{refused:?}");
    assert_eq!(std::fs::read(repo.join(LEDGER)).unwrap(), before, "nothing was written");
    let _ = edit("ada", "s/^title: .*/title: Fix it soon/", &[]).ok();
    let _ = edit("bob", status, &[]).ok();
    let _ = edit("ada", "s/^status: .*/status: open/", &["--force"]).ok();
}

#[test]
fn an_editor_changes_only_the_edited_fields() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["Title", "-d", "first\n\n# heading\nsecond", "-l", "old"]);
    let edit = |script: &str| {
        sandbox.write(sandbox.path("editor"), format!("#!/bin/sh\n{script}\n"));
        let variables = [("VISUAL", "sh ../editor".as_ref())];
        sandbox.way_with(&repo, &variables, ["edit", &id])
    };
    let before = lines(&repo.join(LEDGER));
    let _ = edit("cp \"$1\" ../page").fails(6);
    assert_eq!(lines(&repo.join(LEDGER)), before);
    expect![[r#"
        title: Title
        status: open
        priority: 2
        type: task
        assignee:
        labels: old
        parent:
        === description ===
        first

        # heading
        second
        === design ===

        === acceptance_criteria ===

        === notes ===

    "#]]
    .assert_eq(&std::fs::read_to_string(sandbox.path("page")).unwrap());
    // While the editor is open, another agent claims the issue.
    let meanwhile = format!("'{}' claim {id} --actor bob >/dev/null", env!("CARGO_BIN_EXE_way"));
    let changes = "-e 's/^title: .*/title: New title/' -e 's/^labels: .*/labels: new, old/' -e 's/second/third/'";
    let _ = edit(&format!("{meanwhile}; sed -i {changes} \"$1\"; echo noted >> \"$1\"")).ok();
    let issue = sandbox.way(&repo, ["show", &id, "--json"]).data();
    let text = |key: &str| issue[key].as_str().unwrap().to_owned();
    assert_eq!((text("title"), text("notes")), ("New title".to_owned(), "noted".to_owned()));
    assert_eq!((text("status"), text("assignee")), ("in_progress".to_owned(), "bob".to_owned()));
    assert_eq!(text("description"), "first\n\n# heading\nthird");
    assert_eq!(issue["labels"], serde_json::json!(["old", "new"]));

    let run = edit("sed -i 's/^priority: .*/priority: wombat/' \"$1\"").fails(2);
    assert!(run.stderr.contains("line 3") && run.stderr.contains("your text is saved in"), "{}", run.stderr);
    let kept = run.stderr.split("your text is saved in ").nth(1).unwrap().lines().next().unwrap();
    assert!(std::fs::read_to_string(kept).unwrap().contains("priority: wombat"));
    let run = edit("exit 3").fails(2);
    assert!(run.stderr.contains("the editor"), "{}", run.stderr);
    assert_eq!(sandbox.way(&repo, ["show", &id, "--json"]).data()["priority"], 2);
}
