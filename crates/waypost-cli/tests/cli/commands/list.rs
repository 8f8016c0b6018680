//! `way list`: filters, order and limits.
#![expect(clippy::needless_raw_string_hashes, reason = "that is how expect-test writes them")]

use expect_test::expect;

use crate::serving::Server;
use crate::support::issues::many;
use crate::support::ledger::{add, ids};
use crate::support::repos::contributor;
use crate::support::sandbox;

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

#[test]
fn options_have_their_spellings_and_columns_are_chosen() {
    let sandbox = sandbox();
    let repo = many(&sandbox);
    for (args, expected) in [
        ("--all", "r-1 r-2 r-3 r-4 r-5"),
        ("--status open --status closed", "r-1 r-2 r-4 r-5"),
        ("--type bug --type epic", "r-1 r-5"),
        ("--any-label api --any-label web --no-label later", "r-1 r-3"),
        ("--priority 0-1", "r-1 r-2"),
        ("--priority 0..1 --priority P4", "r-1 r-2 r-5"),
        ("--assignee=", "r-1 r-5"),
        ("--parent= --label api", "r-1 r-3"),
        ("--text äpfel", "r-3"),
        ("--due-before +1w", "r-1"),
        ("--sort id --reverse", "r-5 r-3 r-2 r-1"),
        ("--limit 2", "r-1 r-2"),
        ("--limit 0", "r-1 r-2 r-3 r-5"),
    ] {
        let args: Vec<&str> = ["list"].into_iter().chain(args.split_whitespace()).collect();
        assert_eq!(ids(&sandbox, &repo, &args).join(" "), expected, "{args:?}");
    }
    for bad in ["--sort size", "--priority 0-7", "--priority 3-1", "--created-after soon", "--columns id,size"] {
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
fn a_word_that_no_issue_can_have_is_refused_and_one_that_none_has_is_noted() {
    let server = Server::start(&[]);
    let id = server.way(&["add", "One", "-l", "api,web", "-a", "me", "--actor", "ann", "--json"]).data()["id"].clone();
    for (args, path, words) in [
        ("list --status wombat", "/api/v1/issues?statuses=wombat", "use open, in_progress"),
        ("list --type wombat", "/api/v1/issues?types=wombat", "use bug, feature"),
        ("ready --type wombat", "/api/v1/issues/ready?types=wombat", "use bug, feature"),
        ("export --status wombat", "/api/v1/issues?statuses=open,wombat", "use open, in_progress"),
    ] {
        let args: Vec<&str> = args.split_whitespace().collect();
        let refused = server.way(&args).fails(2);
        assert!(refused.stderr.contains("no issue can have the") && refused.stderr.contains(words), "{refused:?}");
        let reply = server.get(path);
        assert_eq!(reply.fails(400), "invalid");
        assert!(reply.body.contains("no issue can have the"), "{path}: {}", reply.body);
    }
    for (args, path) in [
        (&["list", "-l", "api,web"][..], "/api/v1/issues?labels=api,web"),
        (&["list", "-l", "[\"web\"]"], "/api/v1/issues?labels=%5B%22web%22%5D"),
        (&["list", "--status", "open,closed"], "/api/v1/issues?statuses=open,closed"),
        (&["list", "-p", "0,2"], "/api/v1/issues?priorities=0,2"),
        (&["list", "-a", "me", "--actor", "ann"], "/api/v1/issues?assignee=ann"),
        (&["list", "--author", "me", "--actor", "ann"], "/api/v1/issues?author=ann"),
    ] {
        assert!(server.way(args).ok().stdout.contains(id.as_str().unwrap()), "{args:?}");
        assert!(server.get(path).data().to_string().contains(id.as_str().unwrap()), "{path}");
    }
    for (args, path, note) in [
        (&["list", "-l", "nope"][..], "/api/v1/issues?labels=nope", "no issue has the label \"nope\""),
        (&["list", "-a", "stranger"], "/api/v1/issues?assignee=stranger", "no issue has the assignee \"stranger\""),
    ] {
        assert!(server.way(args).stderr.contains(note), "{args:?}");
        let reply = server.get(path);
        assert!(!reply.data().to_string().contains(id.as_str().unwrap()), "{path}");
        assert!(reply.json()["warnings"].to_string().contains("no issue has the"), "{}", reply.body);
    }
}

#[test]
fn a_list_of_an_empty_ledger_says_so() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    for command in ["list", "blocked", "stale", "show"] {
        let run = sandbox.way(&repo, [command]);
        assert_eq!(run.stderr.trim(), "note: no issues yet; to add one: way add TITLE", "{command}");
    }
}
