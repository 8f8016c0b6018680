//! `way update`: fields of issues.

use std::process::Stdio;

use crate::support::issues::{fed, many};
use crate::support::ledger::{add, ids};
use crate::support::sandbox;

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
fn times_may_be_relative_to_now() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let clock = [("WAYPOST_TEST_CLOCK", "2026-01-05T12:30:00Z".as_ref())];
    let way = |args: &[&str]| sandbox.way_with(&repo, &clock, args);
    let added = way(&["add", "Soon", "--due", "14d", "--defer", "3d", "--json"]).data();
    assert_eq!(
        (&added["due_at"], &added["defer_until"]),
        (&"2026-01-19T12:30:00.000Z".into(), &"2026-01-08T12:30:00.000Z".into())
    );
    let id = added["id"].as_str().unwrap();
    for (said, meant) in [
        ("36h", "2026-01-07T00:30:00.000Z"),
        ("+2w", "2026-01-19T12:30:00.000Z"),
        ("in 90 minutes", "2026-01-05T14:00:00.000Z"),
        ("1 day", "2026-01-06T12:30:00.000Z"),
        ("tomorrow", "2026-01-06T00:00:00.000Z"),
        ("2026-12-01", "2026-12-01T00:00:00.000Z"),
    ] {
        let data = way(&["update", id, "--due", said, "--defer", said, "--json"]).data();
        assert_eq!((&data["due_at"], &data["defer_until"]), (&meant.into(), &meant.into()), "{said}");
    }
    for bad in ["soon", "14", "d", "3 fortnights", "99999999999999999999d", "3d ago"] {
        let run = way(&["update", id, "--due", bad]).fails(2);
        assert!(run.stderr.contains("an offset from now: 14d"), "{bad}: {}", run.stderr);
    }
    sandbox.write(repo.join("batch"), format!("update {id} --due 1h\n"));
    assert_eq!(way(&["batch", "batch"]).code, 0);
    assert_eq!(way(&["show", id, "--json"]).data()["due_at"], "2026-01-05T13:30:00.000Z");
    assert_eq!(way(&["list", "--due-before", "+2h", "--json"]).data().as_array().unwrap().len(), 1);
    assert_eq!(way(&["list", "--created-after", "5 minutes ago", "--json"]).data().as_array().unwrap().len(), 1);
}

#[test]
fn options_set_and_clear_fields() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["Old title"]);
    let update = |args: &[&str]| sandbox.way(&repo, [&["update", &id, "--json"], args].concat());
    let set = ["--title", "New", "-p", "0", "--notes", "n", "--add-label", "x", "--defer-until", "2026-12-01"];
    let data = update(&set).data();
    assert_eq!((&data["title"], &data["priority"], &data["labels"][0]), (&"New".into(), &0.into(), &"x".into()));
    let data = update(&["--notes", "", "--remove-label", "x", "--defer-until", ""]).data();
    assert!(data.get("notes").is_none() && data.get("labels").is_none() && data.get("defer_until").is_none());
    for (bad, code) in [(["--status", "opne"], 2), (["--priority", "7"], 2), (["--parent", &id], 4)] {
        let _ = update(&bad).fails(code);
    }
    // From standard input, as from a pipe.
    let mut command = sandbox.way_command(&repo);
    let mut child =
        command.args(["update", &id, "-d", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"two\nlines\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(sandbox.way(&repo, ["show", &id, "--json"]).data()["description"], "two\nlines");
}
