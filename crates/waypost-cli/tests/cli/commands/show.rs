//! `way show`.
#![expect(clippy::needless_raw_string_hashes, reason = "that is how expect-test writes them")]

use expect_test::expect;

use crate::support::history::{commit, ledger};
use crate::support::ledger::LEDGER;
use crate::support::sandbox;

#[test]
fn issues_as_text() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    let issues = concat!(
        "{\"id\":\"way-1\",\"title\":\"Lay the base\",\"description\":\"First\\nsecond\",\"status\":\"in_progress\",\"priority\":1,\"issue_type\":\"feature\",\"assignee\":\"ann\",\"created_at\":\"2025-12-01T00:00:00Z\",\"comments\":[{\"id\":1,\"author\":\"bob\",\"text\":\"Nice\",\"created_at\":\"2025-12-02T00:00:00Z\"}]}\n",
        "{\"id\":\"way-2\",\"title\":\"Build \\u001b[31mon it\",\"status\":\"open\",\"priority\":2,\"issue_type\":\"task\",\"labels\":[\"x\"],\"dependencies\":[{\"issue_id\":\"way-2\",\"depends_on_id\":\"way-1\",\"type\":\"blocks\"}]}\n",
        "{\"id\":\"way-3\",\"title\":\"Paint it\",\"status\":\"open\",\"priority\":3,\"issue_type\":\"chore\"}\n",
    );
    sandbox.write(repo.join(LEDGER), issues);
    let whole = |args: &[&str]| sandbox.normalized(&sandbox.way(&repo, args).whole());
    expect![[r#"
        ID     PRIO  TYPE     STATUS       ASSIGNEE  TITLE
        way-1  P1    feature  in_progress  ann       Lay the base
        way-2  P2    task     open         -         Build \u{1b}[31mon it
        way-3  P3    chore    open         -         Paint it
    "#]]
    .assert_eq(&whole(&["list"]));
    expect![[r#"
        ID     PRIO  TYPE   STATUS  ASSIGNEE  TITLE
        way-3  P3    chore  open    -         Paint it
    "#]]
    .assert_eq(&whole(&["ready"]));
    expect![[r#"
        ID     TITLE                  STATE
        way-1  Lay the base           its status is in_progress
        way-2  Build \u{1b}[31mon it  it is blocked by way-1
        way-3  Paint it               ready
    "#]]
    .assert_eq(&whole(&["ready", "--explain"]));
    expect![[r#"
        way-1  Lay the base
        status    in_progress
        priority  P1
        type      feature
        assignee  ann
        created   2025-12-01T00:00:00.000Z

        Description
        First
        second

        Waiting for it
        ID     STATUS  TITLE
        way-2  open    Build \u{1b}[31mon it

        Comments
        bob  2025-12-02T00:00:00.000Z
        Nice
    "#]]
    .assert_eq(&whole(&["show", "way-1"]));
    expect![[r#"
        way-2  Build \u{1b}[31mon it
        status    open
        priority  P2
        type      task
        labels    x

        Depends on
        KIND    ID     STATUS       TITLE
        blocks  way-1  in_progress  Lay the base
    "#]]
    .assert_eq(&whole(&["show", "way-2"]));
    expect![[r#"
        Closed way-1  Lay the base
    "#]]
    .assert_eq(&whole(&["close", "way-1", "-r", "done"]));
    expect![[r#"
        --- stderr
        note: no matching open issues; to include closed ones: --all
    "#]]
    .assert_eq(&whole(&["list", "--text", "nothing like it"]));
}

#[test]
fn an_issue_whose_line_was_deleted_is_shown_with_a_warning() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    ledger(&sandbox, &repo, &[r#"{"id":"a-1","title":"Last words"}"#, r#"{"id":"a-2","title":"Second"}"#]);
    commit(&sandbox, &repo, "both");
    ledger(&sandbox, &repo, &[r#"{"id":"a-2","title":"Second"}"#]);
    commit(&sandbox, &repo, "prune");
    let last = sandbox.git(&repo, ["rev-parse", "--short=12", "HEAD~1"]);
    let run = sandbox.way(&repo, ["show", "a-1", "a-2"]);
    assert_eq!(run.stderr, format!("warning: a-1 is not in the ledger any more; last in commit {last}"));
    assert!(run.stdout.starts_with("a-1  Last words\n"), "{}", run.stdout);
    assert_eq!(run.stdout.matches("It is ready.").count(), 1, "a removed issue is not ready");
    for command in ["show", "log"] {
        assert_eq!(sandbox.way(&repo, [command, "a-"]).code, 0);
        let _ = sandbox.way(&repo, [command, "a-3"]).fails(3);
    }
}
