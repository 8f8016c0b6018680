//! `way edit`: issues in an editor.
#![expect(clippy::needless_raw_string_hashes, reason = "that is how expect-test writes them")]

use expect_test::expect;

use crate::support::claims::at;
use crate::support::ledger::{LEDGER, add, lines};
use crate::support::sandbox;

#[test]
fn of_agents_only_the_holder_changes_an_issue_in_an_editor() {
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
    let _ = edit("ada", "s/^title: .*/title: Fix it soon/", &[]).fails(4);
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

#[test]
fn a_planted_file_is_not_written_and_a_link_from_the_editor_is_not_read() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["$(touch canary)`touch canary`;\u{1b}[2J", "-d", "../../../x"]);
    let victim = sandbox.path("victim");
    sandbox.write(&victim, "title: Stolen\n");
    for number in 1..4 {
        std::os::unix::fs::symlink(&victim, repo.join(format!(".git/waypost/edit-{number}.md"))).unwrap();
    }
    let edit = |script: &str| {
        sandbox.write(sandbox.path("editor"), format!("#!/bin/sh\n{script}\n"));
        sandbox.way_with(&repo, &[("VISUAL", "sh ../editor".as_ref())], ["edit", &id])
    };
    let _ = edit("stat -c %a \"$1\" > ../mode; echo note >> \"$1\"").ok();
    assert_eq!(std::fs::read_to_string(sandbox.path("mode")).unwrap(), "600\n");
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "title: Stolen\n");
    for (script, expected) in [
        ("ln -sf ../../../victim \"$1\"", "is a link"),
        ("ln -sf /dev/zero \"$1\"", "is a link"),
        ("rm \"$1\"; mkfifo \"$1\"", "is not a regular file"),
        ("truncate -s 5G \"$1\"", "larger than 1 MiB"),
        ("rm \"$1\"", "the editor deleted it"),
    ] {
        let run = edit(script).fails(if script.starts_with("rm \"$1\"") && !script.contains(';') { 2 } else { 7 });
        assert!(run.stderr.contains(expected), "{script}: {}", run.stderr);
    }
    assert!(!repo.join("canary").exists());
    let issue = sandbox.way(&repo, ["show", &id, "--json"]).data();
    assert_eq!((&issue["notes"], issue["title"] != "Stolen"), (&"note".into(), true), "{issue}");
}
