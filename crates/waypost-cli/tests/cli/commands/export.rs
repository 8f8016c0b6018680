//! `way export`: copies, tables and pages for other programs.

use std::collections::BTreeSet;

use expect_test::expect;
use serde_json::{Value, json};
use waypost_testkit::{Corpus, corpora};

use crate::support::exchange::repo_with;
use crate::support::ledger::{LEDGER, ids};
use crate::support::sandbox;

/// The lines of a file that are records, as a set.
fn records(bytes: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(bytes);
    text.lines().filter(|line| serde_json::from_str::<serde_json::Map<_, _>>(line).is_ok()).map(str::to_owned).collect()
}

#[test]
fn a_ledger_survives_export_and_import_unchanged() {
    let sandbox = sandbox();
    let of = |corpus: Corpus| corpus.ledgers().into_iter().map(move |name| corpus.path(&name));
    for (number, path) in corpora().into_iter().flat_map(of).enumerate() {
        let original = std::fs::read(&path).unwrap();
        let source = repo_with(&sandbox, &format!("source-{number}"), &String::from_utf8(original.clone()).unwrap());
        let copy = source.join("copy.jsonl");
        let run = sandbox.way(&source, ["export", "--all", "--output", copy.to_str().unwrap()]);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(std::fs::read(&copy).unwrap() == original, "{}: a copy is the file as it is", path.display());
        let target = sandbox.git_repo(format!("target-{number}"));
        let first = sandbox.way(&target, ["import", copy.to_str().unwrap(), "--json"]).data();
        assert_eq!(first["format"], "beads");
        assert!(records(&std::fs::read(target.join(LEDGER)).unwrap()) == records(&original), "{}", path.display());
        let again = sandbox.way(&target, ["import", "beads", copy.to_str().unwrap(), "--json"]).data();
        assert_eq!((&again["counts"]["added"], &again["counts"]["skipped"]), (&json!(0), &first["counts"]["added"]));
        assert!(records(&std::fs::read(target.join(LEDGER)).unwrap()) == records(&original), "{}", path.display());
        let whole = ["list", "--all", "--limit", "0"];
        assert_eq!(ids(&sandbox, &target, &whole), ids(&sandbox, &source, &whole), "{}", path.display());
    }
}

const LEDGERS: &str = r##"{"id":"r-1","title":"Fix, \"quote\" and\nbreak","status":"open","priority":1,"issue_type":"bug","assignee":"@ann","labels":["a","b"],"description":"=HYPERLINK(\"x\")\r\nline two","created_at":"2025-12-01T00:00:00Z"}
{"id":"r-2","title":"# <script>*x*","status":"in_progress","big":123456789012345678901234567890,"dependencies":[{"depends_on_id":"r-1","type":"blocks"},{"depends_on_id":"r-3","type":"child-of"}],"description":"```\n## not a heading\n```"}
{"id":"r-3","title":"Done","status":"closed","priority":0,"closed_at":"2025-12-20T00:00:00Z"}
{"id":"r-4","title":"Gone","status":"tombstone"}
{"_type":"memory","key":"k"}
"##;

/// Parses a table as RFC 4180 defines it.
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
    assert_eq!(rows.pop().unwrap(), [""], "the last line ends with a line break");
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
fn a_markdown_page_is_grouped_and_escapes_markup_in_titles() {
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
    assert_eq!(export(&["--format", "json", "--label", "none"]).stdout, "[]\n");

    let file = sandbox.path("out.jsonl");
    let output = ["--output", file.to_str().unwrap()];
    let run = export(&[&["--all"], &output[..]].concat()).ok();
    assert_eq!(run.stdout, format!("Wrote 4 issues to {}\n", file.display()));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), LEDGERS);
    let run = export(&output).fails(7);
    assert!(run.stderr.contains("already exists") && run.stderr.contains("--force"), "{}", run.stderr);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), LEDGERS);
    let data = export(&[&["--force", "--json"], &output[..]].concat()).data();
    assert_eq!((&data["issues"], &data["format"]), (&json!(2), &json!("json")));
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("[\n"));
    let _ = export(&["--output", "no/such/dir"]).fails(8);
    let _ = export(&["--force"]).fails(2);
    assert_eq!(std::fs::read_dir(sandbox.path("")).unwrap().count(), 4, "no temporary file is left");
}

#[test]
fn unreadable_bytes_are_part_of_a_copy() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    let bytes = b"{\"id\":\"a\"}\n\xff\xfe\n<<<<<<< HEAD\n{\"id\":\"b\"}";
    sandbox.write(repo.join(LEDGER), bytes);
    let output = sandbox.way_command(&repo).args(["export", "--all"]).output().unwrap();
    assert_eq!(output.stdout, bytes);
    assert!(String::from_utf8_lossy(&output.stderr).contains("2 lines of the ledger cannot be read"));
}
