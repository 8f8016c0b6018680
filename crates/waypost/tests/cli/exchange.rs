//! Issues come in from other trackers, and go out to other programs.

use std::path::PathBuf;

use expect_test::expect;
use serde_json::{Value, json};
use waypost_testkit::Sandbox;

use crate::ledger::LEDGER;
use crate::sandbox;

fn repo_with(sandbox: &Sandbox, name: &str, ledger: &str) -> PathBuf {
    let repo = sandbox.git_repo(name);
    sandbox.dir(format!("{name}/.waypost"));
    sandbox.write(repo.join(LEDGER), ledger);
    repo
}

const LEDGERS: &str = r##"{"id":"r-1","title":"Fix, \"quote\" and\nbreak","status":"open","priority":1,"issue_type":"bug","assignee":"@ann","labels":["a","b"],"description":"=HYPERLINK(\"x\")\r\nline two","created_at":"2025-12-01T00:00:00Z"}
{"id":"r-2","title":"# <script>*x*","status":"in_progress","big":123456789012345678901234567890,"dependencies":[{"depends_on_id":"r-1","type":"blocks"},{"depends_on_id":"r-3","type":"child-of"}],"description":"```\n## not a heading\n```"}
{"id":"r-3","title":"Done","status":"closed","priority":0,"closed_at":"2025-12-20T00:00:00Z"}
{"id":"r-4","title":"Gone","status":"tombstone"}
{"_type":"memory","key":"k"}
"##;

/// Reads a table as RFC 4180 has it.
fn table(text: &str) -> Vec<Vec<String>> {
    let mut rows = vec![vec![String::new()]];
    let mut chars = text.chars().peekable();
    let mut is_quoted = false;
    while let Some(char) = chars.next() {
        let row = rows.last_mut().unwrap();
        match char {
            '"' if is_quoted && chars.next_if_eq(&'"').is_some() => row.last_mut().unwrap().push('"'),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => row.push(String::new()),
            '\r' if !is_quoted => assert_eq!(chars.peek(), Some(&'\n')),
            '\n' if !is_quoted => rows.push(vec![String::new()]),
            other => row.last_mut().unwrap().push(other),
        }
    }
    assert!(!is_quoted);
    assert_eq!(rows.pop().unwrap(), [""], "the last line is ended");
    rows
}

#[test]
fn a_table_can_be_read_back_and_runs_nothing() {
    let sandbox = sandbox();
    let repo = repo_with(&sandbox, "repo", LEDGERS);
    let columns = "id,title,assignee,labels,description,type,blocked_by,parent";
    let run = sandbox.way(&repo, ["export", "--format", "csv", "--all", "--columns", columns]).ok();
    let rows = table(&run.stdout);
    assert_eq!(rows[0], ["id", "title", "assignee", "labels", "description", "issue_type", "blocked_by", "parent_id"]);
    assert_eq!(
        rows[1],
        ["r-1", "Fix, \"quote\" and\nbreak", "'@ann", "a,b", "'=HYPERLINK(\"x\")\r\nline two", "bug", "", ""]
    );
    assert_eq!(rows[2][6..], ["r-1", "r-3"]);
    assert_eq!(rows.len(), 5, "with --all closed and deleted ones too");
    let rows = table(&sandbox.way(&repo, ["export", "--format", "csv"]).ok().stdout);
    assert_eq!((rows.len(), rows[0].len()), (3, 23));
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    let _ = sandbox.way(&repo, ["export", "--columns", "id"]).fails(2);
    let _ = sandbox.way(&repo, ["export", "--format", "csv", "--columns", "size"]).fails(2);
}

#[test]
fn a_page_is_grouped_and_its_markup_is_ours() {
    let sandbox = sandbox();
    let repo = repo_with(&sandbox, "repo", LEDGERS);
    expect![[r#"
        # Issues

        ## In progress (1)

        - [ ] **r-2** \# \<script\>\*x\*
          - P2 task
          - part of r-3
          - waits for r-1

          ````text
          ```
          ## not a heading
          ```
          ````

        ## Open (1)

        - [ ] **r-1** Fix, "quote" and break
          - P1 bug; assignee @ann; labels a, b

          ```text
          =HYPERLINK("x")
          line two
          ```

        ## Closed (1)

        - [x] **r-3** Done
          - P0 task; closed 2025-12-20T00:00:00.000Z
    "#]]
    .assert_eq(
        &sandbox
            .way(&repo, ["export", "--format", "markdown", "-s", "open", "-s", "in_progress", "-s", "closed"])
            .ok()
            .stdout,
    );
}

#[test]
fn records_go_out_as_they_are_and_a_file_is_not_overwritten() {
    let sandbox = sandbox();
    let repo = repo_with(&sandbox, "repo", LEDGERS);
    let all: Vec<&str> = LEDGERS.lines().collect();
    let export = |args: &[&str]| sandbox.way(&repo, [&["export"], args].concat());
    assert_eq!(export(&[]).ok().stdout, format!("{}\n{}\n", all[0], all[1]));
    assert_eq!(export(&["--all"]).ok().stdout, LEDGERS, "a copy of everything");
    assert_eq!(export(&["--all", "--priority", "0"]).ok().stdout, format!("{}\n", all[2]));
    assert_eq!(export(&["--label", "a", "--text", "fix"]).ok().stdout, format!("{}\n", all[0]));
    let list: Value = serde_json::from_str(&export(&["--format", "json"]).ok().stdout).unwrap();
    let shown = sandbox.way(&repo, ["list", "--sort", "id", "--json"]).data();
    assert_eq!(list, shown);
    assert_eq!(export(&["--json"]).data(), shown);
    assert!(export(&["--format", "json"]).ok().stdout.contains("123456789012345678901234567890"));
    assert_eq!(
        export(&["--format", "jsonl", "--json", "--all"]).data(),
        json!({ "format": "jsonl", "content": LEDGERS })
    );
    assert_eq!(export(&["--format", "json", "--label", "none"]).ok().stdout, "[]\n");

    let file = sandbox.path("out.jsonl");
    let output = ["--output", file.to_str().unwrap()];
    let run = export(&[&["--all"], &output[..]].concat()).ok();
    assert_eq!(run.stdout, format!("Wrote 4 issues to {}\n", file.display()));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), LEDGERS);
    let run = export(&output).fails(7);
    assert!(run.stderr.contains("exists already") && run.stderr.contains("--force"), "{}", run.stderr);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), LEDGERS);
    let data = export(&[&["--force", "--json"], &output[..]].concat()).data();
    assert_eq!((&data["issues"], &data["format"]), (&json!(2), &json!("json")));
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("[\n"));
    let _ = export(&["--output", "no/such/dir"]).fails(8);
    let _ = export(&["--force"]).fails(2);
    assert_eq!(std::fs::read_dir(sandbox.path("")).unwrap().count(), 4, "nothing is left lying around");
}

#[test]
fn bytes_nobody_can_read_are_part_of_a_copy() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    let bytes = b"{\"id\":\"a\"}\n\xff\xfe\n<<<<<<< HEAD\n{\"id\":\"b\"}";
    sandbox.write(repo.join(LEDGER), bytes);
    let output = sandbox.way_command(&repo).args(["export", "--all"]).output().unwrap();
    assert_eq!(output.stdout, bytes);
    assert!(String::from_utf8_lossy(&output.stderr).contains("2 lines of the ledger cannot be read"));
}
