//! Many issues at once: lists, batches, trees, editing, pruning.
#![expect(clippy::needless_raw_string_hashes, reason = "that is how expect-test writes them")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use expect_test::expect;
use waypost_testkit::{Run, Sandbox};

use crate::ledger::{LEDGER, add, ids, lines};
use crate::sandbox;

/// Runs a command with something on its standard input.
fn fed(sandbox: &Sandbox, repo: &Path, args: &[&str], input: &str) -> Run {
    let mut command = sandbox.way_command(repo);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    Run::of(&child.wait_with_output().unwrap())
}

const MANY: &str = r#"{"id":"r-1","title":"Fix the API","status":"open","priority":0,"issue_type":"bug","labels":["api"],"created_at":"2025-12-01T00:00:00Z","updated_at":"2025-12-30T00:00:00Z","due_at":"2026-01-05T00:00:00Z"}
{"id":"r-2","title":"Draw the web","status":"open","priority":1,"issue_type":"feature","labels":["web","later"],"assignee":"ann","created_at":"2025-12-02T00:00:00Z","updated_at":"2025-12-02T00:00:00Z","parent_id":"r-5"}
{"id":"r-3","title":"api docs","status":"in_progress","priority":2,"labels":["api","web"],"assignee":"bob","created_at":"2025-12-03T00:00:00Z","updated_at":"2025-12-31T00:00:00Z","description":"Straße und ÄPFEL"}
{"id":"r-4","title":"Old thing","status":"closed","priority":3,"created_at":"2025-11-01T00:00:00Z","updated_at":"2025-12-20T00:00:00Z","closed_at":"2025-12-20T00:00:00Z"}
{"id":"r-5","title":"Everything","status":"open","priority":4,"issue_type":"epic","created_at":"2025-10-01T00:00:00Z"}
{"id":"r-6","title":"Gone","status":"tombstone","created_at":"2025-10-01T00:00:00Z"}
"#;

fn many(sandbox: &Sandbox) -> PathBuf {
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    sandbox.write(repo.join(LEDGER), MANY);
    repo
}

#[test]
fn lists_are_filtered_sorted_and_limited() {
    let sandbox = sandbox();
    let repo = many(&sandbox);
    // The sandbox's clock is fixed at the beginning of 2026.
    for (args, expected) in [
        ("", "r-1 r-2 r-3 r-5"),
        ("--all", "r-1 r-2 r-3 r-4 r-5"),
        ("--status tombstone", "r-6"),
        ("--status open --status closed", "r-1 r-2 r-4 r-5"),
        ("--type bug --type epic", "r-1 r-5"),
        ("--label api", "r-1 r-3"),
        ("--label api --label web", "r-3"),
        ("--any-label api --any-label web", "r-1 r-2 r-3"),
        ("--any-label api --any-label web --no-label later", "r-1 r-3"),
        ("--priority 0-1", "r-1 r-2"),
        ("--priority 0..1 --priority P4", "r-1 r-2 r-5"),
        ("--assignee ann", "r-2"),
        ("--assignee=", "r-1 r-5"),
        ("--parent r-5", "r-2"),
        ("--parent= --label api", "r-1 r-3"),
        ("--text api", "r-1 r-3"),
        ("--text äpfel", "r-3"),
        ("--created-after 2025-12-02", "r-2 r-3"),
        ("--created-before 2025-12-02", "r-1 r-5"),
        ("--updated-after 3d", "r-1 r-3"),
        ("--updated-before 14d", "r-2"),
        ("--closed-after 2w", "r-4"),
        ("--closed-before 2w", ""),
        ("--due-before +1w", "r-1"),
        ("--due-before +1d", ""),
        ("--sort created", "r-5 r-1 r-2 r-3"),
        ("--sort updated", "r-3 r-1 r-2 r-5"),
        ("--sort title", "r-3 r-2 r-5 r-1"),
        ("--sort id --reverse", "r-5 r-3 r-2 r-1"),
        ("--sort due --limit 1", "r-1"),
        ("--limit 2", "r-1 r-2"),
        ("--limit 0", "r-1 r-2 r-3 r-5"),
    ] {
        let args: Vec<&str> = ["list"].into_iter().chain(args.split_whitespace()).collect();
        assert_eq!(ids(&sandbox, &repo, &args).join(" "), expected, "{args:?}");
    }
    for bad in ["--sort size", "--priority 0-7", "--created-after soon", "--columns id,size"] {
        let args = ["list"].into_iter().chain(bad.split_whitespace());
        let _ = sandbox.way(&repo, args).fails(2);
    }
    expect![[r#"
        r-1  api        2026-01-05T00:00:00.000Z  Fix the API
        r-2  web,later  -                         Draw the web
        --- stderr
        note: there are more than 2: --limit 0 lists all
    "#]]
    .assert_eq(&sandbox.way(&repo, ["list", "--columns", "id,labels,due,title", "--limit", "2"]).whole());
    let run = sandbox.way(&repo, ["list", "--limit", "2", "--json"]).ok();
    assert!(run.stdout.contains("there are more than 2"), "JSON output reports it too: {}", run.stdout);
}

#[test]
fn ids_and_texts_can_be_piped_in() {
    let sandbox = sandbox();
    let repo = many(&sandbox);
    let list = sandbox.way(&repo, ["list", "--label", "api"]).ok().stdout;
    let _ = fed(&sandbox, &repo, &["update", "-", "-p", "4"], &list).ok();
    assert_eq!(ids(&sandbox, &repo, &["list", "-p", "4"]), ["r-5", "r-1", "r-3"]);
    let _ = fed(&sandbox, &repo, &["close", "-"], &list).ok();
    assert_eq!(ids(&sandbox, &repo, &["list"]), ["r-2", "r-5"]);
    let _ = fed(&sandbox, &repo, &["close", "-"], "\n \n").fails(2);
    let text = fed(&sandbox, &repo, &["add", "x", "--description-file", "-", "--json"], "from\nstdin\n").data();
    assert_eq!(text["description"], "from\nstdin");
    sandbox.write(repo.join("text"), "from a file\n");
    let text = sandbox.way(&repo, ["add", "y", "--description-file", "text", "--json"]).data();
    assert_eq!(text["description"], "from a file");
}

#[test]
fn a_batch_is_one_write_of_words_or_json() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let plan = r#"
# A plan.
add "Lay the base" -p 1 --as base
add 'Build on it' --blocked-by $base --as next --label core
{"op":"add","title":"Paint it","type":"chore","parent":"$next","labels":["paint"],"as":"paint"}
comment $next "it's \"hard\""
dep add $paint $base --type related
claim
"#;
    let answer = fed(&sandbox, &repo, &["batch", "-", "--json", "--actor", "ann"], plan).data();
    let changes = answer["changes"].as_array().unwrap();
    let verbs: Vec<&str> = changes.iter().map(|change| change["op"].as_str().unwrap()).collect();
    assert_eq!(verbs, ["add", "add", "add", "comment", "depend", "claim"]);
    let id = |number: usize| changes[number]["id"].as_str().unwrap();
    assert_eq!(id(5), id(0), "the claim took what was added before");
    let next = sandbox.way(&repo, ["show", id(1), "--json"]).data();
    assert_eq!(next["comments"][0]["text"], "it's \"hard\"");
    assert_eq!(next["dependencies"][0]["depends_on_id"], id(0));
    assert_eq!(sandbox.way(&repo, ["show", id(2), "--json"]).data()["parent_id"], id(1));

    let list = serde_json::json!([
        { "op": "close", "id": id(0), "reason": "done" },
        { "op": "update", "id": id(1), "priority": "P0", "add_labels": ["hot"] },
    ]);
    let answer = fed(&sandbox, &repo, &["batch", "-"], &list.to_string()).ok();
    assert_eq!(answer.stdout.lines().count(), 2);
    assert_eq!(ids(&sandbox, &repo, &["ready"])[0], id(1));
}

#[test]
fn a_batch_with_one_wrong_line_writes_nothing_and_names_the_line() {
    let sandbox = sandbox();
    let repo = many(&sandbox);
    for (plan, expected) in [
        ("close r-1\nclose nothing\n", "line 2: there is no issue \"nothing\""),
        ("add x\nad y\n", "line 2: \"ad\" is not a command that changes issues"),
        ("add x\n\nadd 'y\n", "line 3: a quote is not closed"),
        ("add x --prio 1\n", "line 1: unexpected argument '--prio' found"),
        ("add x --blocked-by $y\n", "line 1: no earlier change added an issue as \"y\""),
        ("add x --as a\nadd y --as a\n", "line 2: two changes add an issue as \"a\""),
        ("{\"op\":\"close\"}\n", "line 1: the field \"id\" is missing"),
        (
            r#"[{"op":"close","id":"r-1"},{"op":"claim","id":"r-4"}]"#,
            "change 2: issue r-4 is closed and cannot be claimed",
        ),
        ("[{\"op\":\"close\"", "the file is not a valid JSON list of changes"),
        ("dep add r-1 r-2\ndep add r-2 r-1\n", "line 2: they would wait for each other: r-2 → r-1 → r-2"),
        ("label list\n", "line 1: the command changes nothing"),
        ("close --help\n", "line 1: unexpected argument '--help' found"),
    ] {
        let run = fed(&sandbox, &repo, &["batch", "-"], plan);
        assert!(run.code != 0 && run.stderr.contains(expected), "{plan}: {run:?}");
        assert_eq!(std::fs::read_to_string(repo.join(LEDGER)).unwrap(), MANY, "{plan}");
    }
    let run = fed(&sandbox, &repo, &["batch", "-", "--dry-run"], "close r-1\nadd new\n");
    assert!(run.code == 0 && run.stderr.contains("nothing was written"), "{run:?}");
    assert_eq!(std::fs::read_to_string(repo.join(LEDGER)).unwrap(), MANY);
    assert_eq!(ids(&sandbox, &repo, &["list"]), ["r-1", "r-2", "r-3", "r-5"]);
    let _ = fed(&sandbox, &repo, &["batch", "-"], "# nothing\n").fails(6);
}

#[test]
fn trees_show_dependencies() {
    let sandbox = sandbox();
    let repo = many(&sandbox);
    for (issue, on) in [("r-1", "r-3"), ("r-2", "r-3"), ("r-5", "r-1")] {
        let _ = sandbox.way(&repo, ["dep", "add", issue, on]).ok();
    }
    let tree = |args: &[&str]| sandbox.way(&repo, [&["dep", "tree"], args].concat()).ok().stdout;
    expect![[r#"
        r-5  P4 open  Everything
        ├─ waits for r-1  P0 open  Fix the API
        │  └─ waits for r-3  P2 in_progress  api docs
        └─ consists of r-2  P1 open  Draw the web
           └─ waits for r-3  P2 in_progress  api docs
    "#]]
    .assert_eq(&tree(&["r-5"]));
    assert_eq!(tree(&[]), tree(&["r-5"]), "the only issue that blocks no other");
    expect![[r#"
        r-3  P2 in_progress  api docs
        ├─ blocks r-1  P0 open  Fix the API
        │  └─ blocks r-5  P4 open  Everything
        └─ blocks r-2  P1 open  Draw the web
           └─ part of r-5  P4 open  Everything
    "#]]
    .assert_eq(&tree(&["r-3", "--dependents"]));
    expect![[r#"
        graph TD
          n0["r-1 Fix the API (open)"]
          n1["r-3 api docs (in_progress)"]
          n0 -->|waits for| n1
    "#]]
    .assert_eq(&tree(&["r-1", "--format", "mermaid"]));
    expect![[r#"
        digraph issues {
          "r-1" [label="r-1 Fix the API (open)"];
          "r-3" [label="r-3 api docs (in_progress)"];
          "r-1" -> "r-3" [label="waits for"];
        }
    "#]]
    .assert_eq(&tree(&["r-1", "--format", "dot"]));
    let data = sandbox.way(&repo, ["dep", "tree", "r-1", "--json"]).data();
    assert_eq!((data["nodes"].as_array().unwrap().len(), data["edges"][0]["to"].as_str()), (2, Some("r-3")));
    // A cycle in the file, and a missing issue, are drawn and not followed for ever.
    let circle = r#"{"id":"a","title":"A \"q\"","dependencies":[{"depends_on_id":"b"}]}
{"id":"b","title":"B","dependencies":[{"depends_on_id":"a"},{"depends_on_id":"x"}]}
"#;
    sandbox.write(repo.join(LEDGER), circle);
    expect![[r#"
        a  P2 open  A "q"
        └─ waits for b  P2 open  B
           ├─ waits for a  P2 open  A "q"  (see above)
           └─ waits for x  in no ledger
    "#]]
    .assert_eq(&tree(&[]));
    assert!(tree(&["--format", "mermaid"]).contains("A #quot;q#quot;"));
    assert!(tree(&["--format", "dot"]).contains(r#"A \"q\""#));
}

#[test]
fn a_chain_of_thousands_of_issues_is_drawn_and_evaluated() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    let line = |number: usize| {
        let parent = number.checked_sub(1).map(|parent| format!(",\"parent_id\":\"c-{parent:05}\""));
        format!("{{\"id\":\"c-{number:05}\",\"title\":\"t\"{}}}\n", parent.unwrap_or_default())
    };
    let chain: Vec<String> = (0..1_000).map(line).collect();
    sandbox.write(repo.join(LEDGER), chain.concat());
    assert_eq!(sandbox.way(&repo, ["stats", "--json"]).data()["ready"], 1_000);
    let _ = sandbox.way(&repo, ["update", "c-00000", "--status", "deferred"]).ok();
    assert_eq!(sandbox.way(&repo, ["stats", "--json"]).data()["ready"], 0);
    let whole = sandbox.way(&repo, ["dep", "tree", "c-00000", "--depth", "0", "--limit", "0"]).ok();
    assert_eq!(whole.stdout.lines().count(), 1_000);
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

    let run = edit("sed -i 's/^priority: .*/priority: high/' \"$1\"").fails(2);
    assert!(run.stderr.contains("line 3") && run.stderr.contains("your text is saved in"), "{}", run.stderr);
    let kept = run.stderr.split("your text is saved in ").nth(1).unwrap().lines().next().unwrap();
    assert!(std::fs::read_to_string(kept).unwrap().contains("priority: high"));
    let run = edit("exit 3").fails(2);
    assert!(run.stderr.contains("the editor"), "{}", run.stderr);
    assert_eq!(sandbox.way(&repo, ["show", &id, "--json"]).data()["priority"], 2);
}

#[test]
fn closed_issues_are_pruned_once_they_are_committed() {
    let sandbox = sandbox();
    let repo = many(&sandbox);
    // Uncommitted issues are never pruned.
    let _ = sandbox.way(&repo, ["prune", "--closed-before", "1d"]).fails(6);
    sandbox.git(&repo, ["add", "."]);
    sandbox.git(&repo, ["commit", "-q", "-m", "ledger"]);
    let _ = sandbox.way(&repo, ["close", "r-1", "r-3"]).ok();
    let now = [("WAYPOST_TEST_CLOCK", "2026-02-01T00:00:00Z".as_ref())];
    let prune = |args: &[&str]| sandbox.way_with(&repo, &now, [&["prune"], args].concat());

    let run = prune(&["--dry-run"]);
    assert_eq!((run.code, run.stdout.lines().count()), (0, 1), "{run:?}");
    assert!(run.stdout.starts_with("r-4  ") && run.stderr.contains("kept 2 more issues"), "{run:?}");
    assert_eq!(lines(&repo.join(LEDGER)).len(), 6, "a dry run writes nothing");
    sandbox.git(&repo, ["commit", "-q", "-a", "-m", "closed"]);
    let _ = prune(&["--keep", "3"]).fails(6);
    // An issue that an open one depends on stays.
    let _ = sandbox.way(&repo, ["dep", "add", "r-5", "r-3", "--type", "related"]).ok();
    let run = prune(&[]);
    assert_eq!(run.code, 0, "{run:?}");
    let left = lines(&repo.join(LEDGER));
    assert_eq!(left[0], r#"{"_type":"waypost","pruned_before":"2026-01-01T00:00:00.001Z"}"#);
    assert_eq!(left.len(), 5);
    assert_eq!(ids(&sandbox, &repo, &["list", "--all"]), ["r-2", "r-3", "r-5"]);
    let shown = sandbox.way(&repo, ["show", "r-4"]);
    assert!(shown.code == 0 && shown.stdout.contains("Old thing"), "{shown:?}");
    assert!(shown.stderr.contains("not in the ledger any more"), "{shown:?}");
    assert!(sandbox.way(&repo, ["doctor"]).stdout.contains("ok  ledger"));
    let bare = sandbox.dir("bare");
    sandbox.dir("bare/.waypost");
    sandbox.write(bare.join(LEDGER), MANY);
    let _ = sandbox.way(&bare, ["prune"]).fails(7);
}

#[test]
fn a_reopened_issue_does_not_wait_for_a_pruned_one() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    let edge = |from: &str, on: &str| format!(r#"{{"issue_id":"{from}","depends_on_id":"{on}","type":"blocks"}}"#);
    let closed = r#""status":"closed","closed_at":"2025-01-01T00:00:00Z""#;
    let next = |number: u32| {
        let id = format!("b-{number}");
        let edges = [edge(&id, "b-0"), edge(&id, "x-9")].join(",");
        format!("{{\"id\":\"{id}\",\"title\":\"Next\",{closed},\"dependencies\":[{edges}]}}\n")
    };
    let mut text = format!("{{\"id\":\"b-0\",\"title\":\"Base\",{closed}}}\n");
    text.extend((1..4).map(next));
    // An open issue was removed from the ledger by hand.
    text += "{\"id\":\"x-9\",\"title\":\"Open\"}\n";
    sandbox.write(repo.join(LEDGER), &text);
    sandbox.git(&repo, ["add", "."]);
    sandbox.git(&repo, ["commit", "-q", "-m", "ledger"]);
    let left: Vec<String> = lines(&repo.join(LEDGER)).into_iter().filter(|line| !line.contains("Base")).collect();
    let mark = r#"{"_type":"waypost","pruned_before":"2025-01-01T00:00:00.001Z"}"#;
    let left: Vec<&str> = left.iter().map(String::as_str).filter(|line| !line.contains("Open")).collect();
    sandbox.write(repo.join(LEDGER), format!("{mark}\n{}\n", left.join("\n")));
    sandbox.git(&repo, ["commit", "-q", "-a", "-m", "pruned"]);

    let _ = sandbox.way(&repo, ["reopen", "b-1"]).ok();
    let _ = sandbox.way(&repo, ["update", "b-2", "--status", "open"]).ok();
    for id in ["b-1", "b-2"] {
        let shown = sandbox.way(&repo, ["ready", "--explain", id]);
        assert!(!shown.stdout.contains("b-0") && shown.stdout.contains("x-9"), "{shown:?}");
        let _ = sandbox.way(&repo, ["dep", "rm", id, "x-9"]).ok();
    }
    assert_eq!(ids(&sandbox, &repo, &["ready"]), ["b-1", "b-2"]);
    // Another clone reopens the issue without knowing that its blocker was pruned.
    let opened = std::fs::read_to_string(repo.join(LEDGER)).unwrap();
    let opened: Vec<String> = opened
        .lines()
        .map(|line| if line.contains("b-3") { line.replace(closed, "\"status\":\"open\"") } else { line.to_owned() })
        .map(|line| line.replace(&format!(",{}", edge("b-3", "x-9")), ""))
        .collect();
    sandbox.write(repo.join(LEDGER), format!("{}\n", opened.join("\n")));
    assert_eq!(ids(&sandbox, &repo, &["ready"]), ["b-1", "b-2"]);
    let _ = sandbox.way(&repo, ["claim", "b-3"]).ok();
    assert!(!std::fs::read_to_string(repo.join(LEDGER)).unwrap().contains("b-0"));
}

#[test]
fn a_large_ledger_is_pruned_automatically_if_configured() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    let closed = |number: usize| {
        let (title, day) = ("t".repeat(400), number % 28 + 1);
        format!(
            "{{\"id\":\"r-{number:03}\",\"title\":\"{title}\",\"status\":\"closed\",\"closed_at\":\"2025-12-{day:02}T00:00:00Z\"}}\n"
        )
    };
    let text: Vec<String> = (0..100).map(closed).chain(["{\"id\":\"s-1\",\"title\":\"open\"}\n".to_owned()]).collect();
    sandbox.write(repo.join(LEDGER), text.concat());
    let run = sandbox.way(&repo, ["doctor"]);
    assert!(run.stdout.contains("way prune removes closed issues"), "{}", run.stdout);
    sandbox.git(&repo, ["add", "."]);
    sandbox.git(&repo, ["commit", "-q", "-m", "ledger"]);
    let _ = sandbox.way(&repo, ["config", "set", "prune.auto", "on"]).ok();
    let run = sandbox.way(&repo, ["close", "s-1"]);
    assert!(run.code == 0 && run.stderr.contains("pruned"), "{run:?}");
    let size = std::fs::metadata(repo.join(LEDGER)).unwrap().len();
    assert!((24_000..=25 * 1024 + 100).contains(&size), "{size}");
    let left = sandbox.way(&repo, ["list", "--all", "--limit", "0", "--json"]).data();
    let dates: Vec<&str> = left.as_array().unwrap().iter().filter_map(|issue| issue["closed_at"].as_str()).collect();
    assert!(dates.iter().all(|date| *date >= "2025-12-12"), "the oldest went first: {dates:?}");
}

#[test]
fn all_versions_of_a_pruned_issue_are_removed() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    let text = r#"{"id":"d-1","title":"x","status":"open","updated_at":"2025-01-01T00:00:00Z"}
{"id":"d-1","title":"x","status":"closed","updated_at":"2025-01-02T00:00:00Z","closed_at":"2025-01-02T00:00:00Z"}
"#;
    sandbox.write(repo.join(LEDGER), text);
    sandbox.git(&repo, ["add", "."]);
    sandbox.git(&repo, ["commit", "-q", "-m", "ledger"]);
    assert_eq!(sandbox.way(&repo, ["prune"]).code, 0);
    let _ = sandbox.way(&repo, ["ready"]).fails(6);
    assert_eq!(lines(&repo.join(LEDGER)).len(), 1, "only the marker is left");
}

#[test]
fn a_wrong_query_is_refused_and_does_not_damage_the_index() {
    let sandbox = sandbox();
    let repo = many(&sandbox);
    assert_eq!(ids(&sandbox, &repo, &["list"]).len(), 4);
    let index = std::fs::read_link(repo.join(".git/waypost/index.db")).unwrap();
    let labels: Vec<String> = (0..1_001).flat_map(|number| ["-l".to_owned(), format!("l{number}")]).collect();
    let many: Vec<&str> = ["list"].into_iter().chain(labels.iter().map(String::as_str)).collect();
    let asked: &[&[&str]] =
        &[&["search", ""], &["search", " "], &many, &["list", "-p", "3-1"], &["add", "x", "-l", "a\nb"]];
    for args in asked {
        let _ = sandbox.way(&repo, args.iter()).fails(2);
    }
    let _ = sandbox.way(&repo, ["prune", "--keep", "18446744073709551615"]).fails(6);
    assert_eq!(std::fs::read_link(repo.join(".git/waypost/index.db")).unwrap(), index);
}

#[test]
fn an_issue_cannot_wait_for_its_own_parts() {
    let sandbox = sandbox();
    let repo = many(&sandbox);
    let run = sandbox.way(&repo, ["dep", "add", "r-5", "r-2"]).fails(4);
    assert!(run.stderr.contains("r-2 is a part of r-5"), "{}", run.stderr);
    let _ = sandbox.way(&repo, ["dep", "add", "r-3", "r-1"]).ok();
    let run = sandbox.way(&repo, ["update", "r-1", "--parent", "r-3"]).fails(4);
    assert!(run.stderr.contains("r-3 waits for r-1"), "{}", run.stderr);
}

#[test]
fn a_link_out_of_the_repository_is_not_written_through() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let outside = sandbox.dir("outside");
    std::os::unix::fs::symlink(&outside, repo.join(".waypost")).unwrap();
    let _ = sandbox.way(&repo, ["add", "secret"]).fails(7);
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn custom_statuses_follow_the_configuration() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let base = add(&sandbox, &repo, &["Base"]);
    let next = add(&sandbox, &repo, &["Next", "--blocked-by", &base]);
    let run = sandbox.way(&repo, ["update", &base, "--status", "shipped"]).fails(2);
    assert!(run.stderr.contains("there is no status \"shipped\""), "{}", run.stderr);
    let _ = sandbox.way(&repo, ["config", "set", "statuses.done", "shipped,dropped"]).ok();
    let _ = sandbox.way(&repo, ["config", "set", "statuses.active", "triage"]).ok();
    let _ = sandbox.way(&repo, ["update", &base, "--status", "shipped"]).ok();
    assert_eq!(ids(&sandbox, &repo, &["ready"]), std::slice::from_ref(&next), "a finished blocker does not block");
    let _ = sandbox.way(&repo, ["update", &next, "--status", "triage"]).ok();
    assert_eq!(ids(&sandbox, &repo, &["ready"]), std::slice::from_ref(&next));
    let _ = sandbox.way(&repo, ["config", "unset", "statuses.active"]).ok();
    let _ = sandbox.way(&repo, ["ready"]).fails(6);
}

#[test]
fn a_missing_blocker_blocks_unless_configured_otherwise() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    let line = r#"{"id":"a","title":"A","dependencies":[{"depends_on_id":"x"}]}"#;
    sandbox.write(repo.join(LEDGER), format!("{line}\n"));
    let _ = sandbox.way(&repo, ["ready"]).fails(6);
    let _ = sandbox.way(&repo, ["config", "set", "ready.unresolved", "ignore"]).ok();
    assert_eq!(ids(&sandbox, &repo, &["ready"]), ["a"]);
}

#[test]
fn words_are_found_in_every_text_and_script() {
    let sandbox = sandbox();
    let repo = many(&sandbox);
    let _ = sandbox.way(&repo, ["comment", "r-2", "漢字の説明 here"]).ok();
    for (words, expected) in [
        ("api", "r-1 r-3"),
        ("AP", "r-1 r-3"),
        ("apfel", "r-3"),
        ("strasse", ""),
        ("説明", "r-2"),
        ("r-4", "r-4"),
        ("thing old", "r-4"),
        ("gone", ""),
        ("\"", ""),
        ("api AND docs", ""),
        ("api* OR", ""),
        ("title:api", ""),
    ] {
        let found = ids(&sandbox, &repo, &["search", words]);
        assert_eq!(found.join(" "), expected, "{words}");
    }
    // A changed issue is found by its new text, and no longer by its old one.
    let _ = sandbox.way(&repo, ["update", "r-1", "--title", "Mend the gateway"]).ok();
    assert_eq!(ids(&sandbox, &repo, &["search", "gateway"]), ["r-1"]);
    assert_eq!(ids(&sandbox, &repo, &["search", "api"]), ["r-3"]);
}

#[test]
fn closing_a_closed_issue_is_reported_and_changes_nothing() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let [one, two] = ["One", "Two"].map(|title| add(&sandbox, &repo, &[title]));
    let _ = sandbox.way(&repo, ["close", &one, "--reason", "done"]).ok();
    let before = std::fs::read(repo.join(LEDGER)).unwrap();
    let run = sandbox.way(&repo, ["close", &one, "--reason", "again"]).ok();
    assert_eq!(run.stdout, format!("Already closed {one}  One\n"));
    assert_eq!(std::fs::read(repo.join(LEDGER)).unwrap(), before);
    let run = sandbox.way(&repo, ["close", &one, &two]).ok();
    assert_eq!(run.stdout, format!("Already closed {one}  One\nClosed {two}  Two\n"));
}

#[test]
fn parts_of_an_issue_deferred_by_a_custom_status_are_not_ready() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["config", "set", "statuses.frozen", "on-ice"]).ok();
    let whole = add(&sandbox, &repo, &["Whole"]);
    let part = add(&sandbox, &repo, &["Part", "--parent", &whole]);
    let ready = || ids(&sandbox, &repo, &["ready"]).contains(&part);
    assert!(ready());
    let _ = sandbox.way(&repo, ["update", &whole, "--status", "on-ice"]).ok();
    assert!(!ready());
}
