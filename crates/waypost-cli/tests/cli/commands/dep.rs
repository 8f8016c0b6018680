//! `way dep`: dependencies, cycles and trees.
#![expect(clippy::needless_raw_string_hashes, reason = "that is how expect-test writes them")]

use expect_test::expect;

use crate::support::graphs::{KB, Pulled, blocked_by};
use crate::support::issues::many;
use crate::support::ledger::{LEDGER, add};
use crate::support::sandbox;

#[test]
fn a_tree_is_drawn_up_to_a_depth_and_reports_what_it_left_out() {
    const LONG: usize = 3_000;
    let chain = Pulled::new(LONG, |number| blocked_by(number, (number + 1 < LONG).then_some(number + 1)));
    for command in ["dep tree way-000000", "dep tree", "dep tree way-002999 --dependents"] {
        let run = chain.run(command, 0, 8 * KB);
        assert_eq!(run.stdout.lines().count(), 51);
        assert!(run.stdout.ends_with("(1 below, not shown)\n"), "{}", run.stdout);
        assert_eq!(run.stderr, "note: 2949 more issues are not shown; --depth 0 --limit 0 shows all\n");
    }
    for format in ["mermaid", "dot"] {
        let run = chain.run(&format!("dep tree way-000000 --format {format}"), 0, 8 * KB);
        assert!(run.stderr.contains("2949 more issues are not shown"), "{}", run.stderr);
    }
    let shallow = chain.run("dep tree way-000000 --depth 2", 0, KB);
    assert_eq!(
        shallow.stdout,
        "way-000000  P2 open  Issue 0\n\
         └─ waits for way-000001  P2 open  Issue 1\n   \
            └─ waits for way-000002  P2 open  Issue 2  (1 below, not shown)\n"
    );
    // Even the full output is not much longer than the issues themselves.
    let all = chain.run("dep tree way-000000 --depth 0 --limit 0", 0, LONG * 80);
    assert_eq!(all.stdout.lines().count(), LONG);
    assert!(all.stdout.ends_with("[level 2999] waits for way-002999  P2 open  Issue 2999\n"));
    assert_eq!(all.stderr, "");
    let data = chain.run("dep tree way-000000 --json", 0, LONG * 200).data();
    assert_eq!(data["nodes"].as_array().unwrap().len(), LONG, "JSON output is complete");
    // A refused dependency would close a cycle as long as the chain.
    let circle = chain.run("dep add way-002999 way-000000", 4, KB);
    assert!(circle.stderr.contains("more) → "), "{}", circle.stderr);
}

#[test]
fn a_wide_or_dense_graph_is_drawn_up_to_a_limit_and_each_issue_expanded_once() {
    const WIDE: usize = 3_000;
    let fan = Pulled::new(WIDE, |number| blocked_by(number, if number == 0 { 1..WIDE } else { 0..0 }));
    for (format, lines) in [("text", 1_000), ("mermaid", 2_000), ("dot", 2_001)] {
        let run = fan.run(&format!("dep tree way-000000 --format {format}"), 0, 120 * KB);
        assert_eq!(run.stdout.lines().count(), lines, "{format}");
        assert_eq!(run.stderr, "note: 2000 more issues are not shown; --depth 0 --limit 0 shows all\n");
    }
    assert_eq!(fan.run("dep tree way-000000 --limit 0", 0, WIDE * 80).stdout.lines().count(), WIDE);
    // Two issues on each level, each blocked by both of the next level: the number of paths doubles with each level.
    let woven = Pulled::new(80, |number| {
        let next = number / 2 * 2 + 2;
        blocked_by(number, (next..next + 2).filter(|next| *next < 80))
    });
    let run = woven.run("dep tree way-000000", 0, 30 * KB);
    assert_eq!(run.stdout.matches("(see above)").count(), 74);
    assert_eq!(run.stderr, "");
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
    let _ = sandbox.way(&repo, ["restore", "--drop"]).ok();
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
fn a_dependency_is_added_in_two_spellings_and_removed() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let [a, b] = ["A", "B"].map(|title| add(&sandbox, &repo, &[title]));
    let run = sandbox.way(&repo, ["dep", "add", &a, "--blocked-by", &b]).ok();
    assert_eq!(run.stdout, format!("{a} waits for {b}\n"));
    let run = sandbox.way(&repo, ["dep", "add", &b, &a, "--type", "relatd"]).fails(2);
    assert!(run.stderr.contains("did you mean related?"), "{}", run.stderr);
    let _ = sandbox.way(&repo, ["dep", "add", &b, &a]).fails(4);
    let _ = sandbox.way(&repo, ["dep", "rm", &a, &b]).ok();
    let _ = sandbox.way(&repo, ["dep", "rm", &a, &b]).fails(3);
    let _ = sandbox.way(&repo, ["dep", "add", &b, &a, "-t", "related"]).ok();
}
