//! `way list`: filters, order and limits.
#![expect(clippy::needless_raw_string_hashes, reason = "that is how expect-test writes them")]

use expect_test::expect;

use crate::support::issues::many;
use crate::support::ledger::{add, ids};
use crate::support::repos::contributor;
use crate::support::sandbox;

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
        ID   LABELS     DUE                       TITLE
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
fn issues_are_found_by_text_label_assignee_and_age() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let base = add(&sandbox, &repo, &["Lay the base", "-l", "core", "-d", "concrete"]);
    let next = add(&sandbox, &repo, &["Build on it", "--blocked-by", &base, "-p", "0"]);
    let part = add(&sandbox, &repo, &["Paint a wall", "--parent", &next]);
    let blocked = sandbox.way(&repo, ["blocked", "--json"]).data();
    let waiting: Vec<_> = blocked.as_array().unwrap().iter().map(|issue| issue["id"].as_str().unwrap()).collect();
    assert_eq!(waiting, [next.as_str(), part.as_str()]);
    assert_eq!(blocked[0]["reasons"][0], format!("it is blocked by {base}"));

    let _ = sandbox.way(&repo, ["comment", &part, "needs CONCRETE too"]).ok();
    assert_eq!(ids(&sandbox, &repo, &["search", "Concrete"]).len(), 2);
    assert_eq!(ids(&sandbox, &repo, &["search", "concrete base"]), std::slice::from_ref(&base));
    assert_eq!(ids(&sandbox, &repo, &["search", "nowhere"]), Vec::<String>::new());

    let _ = sandbox.way(&repo, ["label", "add", &next, "core", "urgent"]).ok();
    let labels = sandbox.way(&repo, ["label", "list", "--json"]).data();
    assert_eq!((labels[0]["label"].as_str(), labels[0]["count"].as_u64()), (Some("core"), Some(2)));
    let _ = sandbox.way(&repo, ["label", "rm", &next, "core"]).ok();
    assert_eq!(ids(&sandbox, &repo, &["list", "--label", "core"]), std::slice::from_ref(&base));
    let _ = sandbox.way(&repo, ["assign", &base, "ann"]).ok();
    assert_eq!(ids(&sandbox, &repo, &["list", "--assignee", "ann"]), std::slice::from_ref(&base));
    let _ = sandbox.way(&repo, ["assign", &base, ""]).ok();
    assert_eq!(ids(&sandbox, &repo, &["list", "--assignee", "ann"]), Vec::<String>::new());

    let _ = sandbox.way(&repo, ["close", &base]).ok();
    let stats = sandbox.way(&repo, ["stats", "--json"]).data();
    assert_eq!(
        (stats["ready"].as_u64(), stats["by_status"]["closed"].as_u64(), stats["open_by_priority"]["P0"].as_u64()),
        (Some(2), Some(1), Some(1))
    );
    assert_eq!(ids(&sandbox, &repo, &["stale"]), Vec::<String>::new());
    let later = [("WAYPOST_TEST_CLOCK", "2026-03-01T00:00:00Z".as_ref())];
    let stale = sandbox.way_with(&repo, &later, ["stale", "--json"]).data();
    assert_eq!(stale.as_array().unwrap().len(), 2, "the closed one does not count");
}

#[test]
fn repository_visibility_and_author_are_shown_where_they_differ() {
    let sandbox = sandbox();
    let (_, fork, _) = contributor(&sandbox);
    let mine = add(&sandbox, &fork, &["Mine"]);
    let row = |id: &str| -> Vec<String> {
        let listed = sandbox.way(&fork, ["list"]).ok().stdout;
        let line = listed.lines().find(|line| line.starts_with(id)).unwrap_or_else(|| panic!("{listed}"));
        line.split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(row("up-1")[5..], ["fork", "canonical", "-", "Theirs"]);
    assert_eq!(row(&mine)[5..], ["planning", "local", "tester", "Mine"]);
    for (args, expected) in [
        (["--visibility", "local"], mine.as_str()),
        (["--visibility", "canonical"], "up-1"),
        (["--author", "tester"], &mine),
        (["--author", ""], "up-1"),
    ] {
        assert_eq!(ids(&sandbox, &fork, &[&["list"], &args[..]].concat()), [expected], "{args:?}");
    }
    let _ = sandbox.way(&fork, ["list", "--visibility", "secret"]).fails(2);
    let shown = sandbox.way(&fork, ["show", &mine]).ok().stdout;
    let facts: Vec<&str> =
        shown.lines().filter(|line| !line.contains("created") && !line.contains("updated")).collect();
    for fact in ["repository  planning", "visibility  local", "author      tester"] {
        assert!(facts.iter().any(|line| line.trim() == fact), "{fact}: {shown}");
    }
    // In a single repository with one author, the columns would only repeat themselves.
    let repo = sandbox.git_repo("alone");
    let _ = add(&sandbox, &repo, &["One"]);
    let _ = add(&sandbox, &repo, &["Two"]);
    let listed = sandbox.way(&repo, ["list"]).ok().stdout;
    assert!(!listed.contains("tester") && !listed.contains("canonical"), "{listed}");
}
