//! Issues: the ledger file is authoritative, and one write changes one line.
#![expect(clippy::needless_raw_string_hashes, reason = "that is how expect-test writes them")]

use std::path::Path;
use std::process::{Child, Stdio};

use expect_test::expect;
use serde_json::Value;
use waypost_testkit::{Corpus, Run, Sandbox, corpora, unavailable};

use crate::sandbox;

pub(crate) const LEDGER: &str = ".waypost/issues.jsonl";

pub(crate) fn add(sandbox: &Sandbox, repo: &Path, args: &[&str]) -> String {
    let data = sandbox.way(repo, [&["add", "--json"], args].concat()).data();
    data["id"].as_str().unwrap().to_owned()
}

pub(crate) fn ids(sandbox: &Sandbox, repo: &Path, args: &[&str]) -> Vec<String> {
    let run = sandbox.way(repo, [args, &["--json"]].concat());
    let answer: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run:?}"));
    answer["data"].as_array().unwrap().iter().map(|issue| issue["id"].as_str().unwrap().to_owned()).collect()
}

pub(crate) fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

fn at_once(
    sandbox: &Sandbox,
    repo: &Path,
    count: usize,
    args: impl Fn(usize) -> Vec<String>,
) -> Vec<std::process::Output> {
    let children: Vec<Child> = (0..count)
        .map(|number| {
            sandbox.way_command(repo).args(args(number)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    children.into_iter().map(|child| child.wait_with_output().unwrap()).collect()
}

#[test]
fn b2_an_issue_is_one_line_in_a_fresh_repository_and_in_a_tracked_ledger() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let first = add(&sandbox, &repo, &["First"]);
    assert!(first.starts_with("repo-") && first.len() == 13, "{first}");
    assert_eq!(lines(&repo.join(LEDGER)).len(), 1);
    sandbox.git(&repo, ["add", "."]);
    sandbox.git(&repo, ["commit", "-q", "-m", "ledger"]);
    assert_eq!(sandbox.git(&repo, ["status", "--porcelain"]), "", "nothing but the ledger appeared");
    add(&sandbox, &repo, &["Second", "-d", "with\nlines"]);
    assert_eq!(sandbox.git(&repo, ["diff", "--numstat"]), format!("1\t0\t{LEDGER}\n"));
    let _ = sandbox.way(&repo, ["close", &first]).ok();
    assert_eq!(sandbox.git(&repo, ["diff", "--numstat"]), format!("2\t1\t{LEDGER}\n"));
}

#[test]
fn every_worktree_writes_the_main_ones_ledger() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.git(&repo, ["worktree", "add", "-q", "../tree"]);
    let id = add(&sandbox, &sandbox.path("tree"), &["From a worktree"]);
    assert_eq!(ids(&sandbox, &repo, &["list"]), [id]);
    assert_eq!(sandbox.git(&sandbox.path("tree"), ["status", "--porcelain"]), "");
}

#[test]
fn the_life_of_an_issue() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let base = add(&sandbox, &repo, &["Lay the base", "-t", "feature", "-p", "P1", "-l", "core"]);
    let next = add(&sandbox, &repo, &["Build on it", "--blocked-by", &base, "--parent", &base]);
    assert_eq!(ids(&sandbox, &repo, &["ready"]), std::slice::from_ref(&base));
    let explained = sandbox.way(&repo, ["ready", "--explain", &next]).ok();
    assert!(explained.stdout.contains(&format!("it is blocked by {base}")), "{}", explained.stdout);

    let claimed = sandbox.way(&repo, ["claim", "--actor", "robot", "--json"]).data();
    assert_eq!(
        (claimed["id"].as_str(), claimed["assignee"].as_str(), claimed["status"].as_str()),
        (Some(base.as_str()), Some("robot"), Some("in_progress"))
    );
    let _ = sandbox.way(&repo, ["claim", &base, "--actor", "robot"]).ok();
    let run = sandbox.way(&repo, ["claim", &base, "--actor", "other"]).fails(4);
    assert!(run.stderr.contains("is held by robot until"), "{}", run.stderr);
    let run = sandbox.way(&repo, ["claim", &next]).fails(4);
    assert!(run.stderr.contains("is not ready"), "{}", run.stderr);
    let run = sandbox.way(&repo, ["claim"]).fails(6);
    assert!(run.stderr.contains("nothing is ready"), "{}", run.stderr);
    assert_eq!(sandbox.way(&repo, ["ready"]).code, 6);

    let _ = sandbox.way(&repo, ["comment", &base, "half done", "--actor", "robot"]).ok();
    let run = sandbox.way(&repo, ["close", &base, "--reason", "done"]).fails(4);
    assert!(run.stderr.contains("is held by robot until"), "{}", run.stderr);
    let _ = sandbox.way(&repo, ["close", &base, "--reason", "done", "--actor", "robot"]).ok();
    assert_eq!(ids(&sandbox, &repo, &["ready"]), std::slice::from_ref(&next));
    assert_eq!(ids(&sandbox, &repo, &["list"]), std::slice::from_ref(&next));
    assert_eq!(ids(&sandbox, &repo, &["list", "--all", "--label", "core"]), std::slice::from_ref(&base));
    let _ = sandbox.way(&repo, ["reopen", &base]).ok();
    assert_eq!(ids(&sandbox, &repo, &["ready"]), std::slice::from_ref(&base));
    let _ = sandbox.way(&repo, ["delete", &base, "--reason", "mistake"]).ok();
    assert_eq!(ids(&sandbox, &repo, &["list", "--all"]), std::slice::from_ref(&next));
    assert_eq!(ids(&sandbox, &repo, &["ready"]), [next], "a deleted issue does not block");
    let shown = sandbox.way(&repo, ["show", &base, "--json"]).data();
    assert_eq!((shown["status"].as_str(), shown["comments"][0]["author"].as_str()), (Some("tombstone"), Some("robot")));
    assert_eq!(shown["source_repo"], repo.to_str().unwrap());
    assert!(!std::fs::read_to_string(repo.join(LEDGER)).unwrap().contains("source_repo"), "shown, and never stored");
}

#[test]
fn a_cycle_of_dependencies_is_refused_and_shown() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let [a, b, c] = ["A", "B", "C"].map(|title| add(&sandbox, &repo, &[title]));
    let run = sandbox.way(&repo, ["dep", "add", &a, "--blocked-by", &b]).ok();
    assert_eq!(run.stdout, format!("{a} waits for {b}\n"));
    let _ = sandbox.way(&repo, ["dep", "add", &b, &c]).ok();
    let before = std::fs::read(repo.join(LEDGER)).unwrap();
    let run = sandbox.way(&repo, ["dep", "add", &c, &a]).fails(4);
    assert!(run.stderr.contains(&format!("{c} → {a} → {b} → {c}")), "{}", run.stderr);
    let _ = sandbox.way(&repo, ["dep", "add", &a, &a]).fails(2);
    let run = sandbox.way(&repo, ["dep", "add", &a, &c, "--type", "relatd"]).fails(2);
    assert!(run.stderr.contains("did you mean related?"), "{}", run.stderr);
    assert_eq!(std::fs::read(repo.join(LEDGER)).unwrap(), before);
    let _ = sandbox.way(&repo, ["dep", "rm", &a, &b]).ok();
    let _ = sandbox.way(&repo, ["dep", "rm", &a, &b]).fails(3);
    let _ = sandbox.way(&repo, ["dep", "add", &c, &a]).ok();
}

#[test]
fn several_issues_are_one_write_and_one_wrong_id_stops_all() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let all: Vec<String> = (0..3).map(|number| add(&sandbox, &repo, &[&format!("Issue {number}")])).collect();
    let before = std::fs::read(repo.join(LEDGER)).unwrap();
    let run = sandbox.way(&repo, ["close", &all[0], "nonsense", &all[1]]).fails(3);
    assert!(run.stderr.contains("there is no issue \"nonsense\""), "{}", run.stderr);
    assert_eq!(std::fs::read(repo.join(LEDGER)).unwrap(), before);
    let run = sandbox.way(&repo, ["close", "repo-"]).fails(3);
    assert!(run.stderr.contains("is a prefix of 3 issue ids") && run.stderr.contains(&all[2]), "{}", run.stderr);
    let _ = sandbox.way(&repo, ["close", &all[0], &all[1], &all[2]]).ok();
    assert_eq!(ids(&sandbox, &repo, &["list"]), Vec::<String>::new());
}

#[test]
fn fields_are_set_and_cleared() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["Old title"]);
    let update = |args: &[&str]| sandbox.way(&repo, [&["update", &id, "--json"], args].concat());
    let data =
        update(&["--title", "New", "-p", "0", "--notes", "n", "--add-label", "x", "--defer-until", "2026-12-01"])
            .data();
    assert_eq!(
        (data["title"].as_str(), data["priority"].as_u64(), data["notes"].as_str()),
        (Some("New"), Some(0), Some("n"))
    );
    assert_eq!(data["defer_until"], "2026-12-01T00:00:00.000Z");
    assert_eq!(sandbox.way(&repo, ["ready"]).code, 6, "it is deferred");
    let data = update(&["--notes", "", "--remove-label", "x", "--defer-until", ""]).data();
    assert!(data.get("notes").is_none() && data.get("labels").is_none() && data.get("defer_until").is_none());
    assert_eq!(ids(&sandbox, &repo, &["ready"]), std::slice::from_ref(&id));
    for (bad, code) in [
        (["--status", "opne"], 2),
        (["--priority", "7"], 2),
        (["--title", ""], 2),
        (["--parent", &id], 4),
        (["--defer-until", "soon"], 2),
    ] {
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
fn the_author_is_the_named_actor_then_gits_user_then_the_login_name() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let by = |variables: &[(&str, &std::ffi::OsStr)], args: &[&str]| {
        let data = sandbox.way_with(&repo, variables, [&["add", "x", "--json"], args].concat()).data();
        data["created_by"].as_str().unwrap().to_owned()
    };
    assert_eq!(by(&[], &[]), "tester");
    sandbox.git(&repo, ["config", "user.name", "Git User"]);
    assert_eq!(by(&[], &[]), "Git User");
    let variables = [("WAYPOST_ACTOR", "robot".as_ref())];
    assert_eq!(by(&variables, &[]), "robot");
    assert_eq!(by(&variables, &["--actor", "me"]), "me");
}

#[test]
fn b16_a_hundred_and_fifty_concurrent_adds_lose_no_issue() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    for output in at_once(&sandbox, &repo, 150, |number| vec!["add".into(), format!("Issue {number}")]) {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let found = lines(&repo.join(LEDGER));
    assert_eq!(found.len(), 150);
    assert!(found.is_sorted(), "in the order of ids");
    assert_eq!(ids(&sandbox, &repo, &["list", "--limit", "0"]).len(), 150);
    assert_eq!(std::fs::read_dir(repo.join(".waypost")).unwrap().count(), 1, "nothing is left beside the ledger");
}

#[test]
fn of_a_hundred_and_fifty_claims_of_one_issue_one_wins() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["The only one"]);
    let outputs = at_once(&sandbox, &repo, 150, |number| {
        vec!["claim".into(), id.clone(), "--actor".into(), format!("agent {number}")]
    });
    let won = outputs.iter().filter(|output| output.status.success()).count();
    let refused = outputs.iter().filter(|output| output.status.code() == Some(4)).count();
    assert_eq!((won, refused), (1, 149));
}

#[test]
fn killed_writers_leave_every_acknowledged_issue_and_a_valid_file() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let mut acknowledged = Vec::new();
    for round in 0..200 {
        let mut writers: Vec<Child> = (0..2)
            .map(|_| {
                let script = format!("while :; do '{}' add round{round} || exit 1; done", env!("CARGO_BIN_EXE_way"));
                let mut command = sandbox.command("sh", &repo);
                std::os::unix::process::CommandExt::process_group(&mut command, 0);
                command.args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        let mut first = std::io::BufReader::new(writers[0].stdout.take().unwrap());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut first, &mut line).unwrap();
        for writer in &mut writers {
            let group = format!("-{}", writer.id());
            sandbox.command("kill", &repo).args(["-9", "--", &group]).status().unwrap();
            writer.wait().unwrap();
        }
        std::io::Read::read_to_string(&mut first, &mut line).unwrap();
        acknowledged.extend(
            line.split_inclusive('\n')
                .filter_map(|line| line.strip_prefix("Added ")?.strip_suffix('\n').map(str::to_owned)),
        );
    }
    let stored = ids(&sandbox, &repo, &["list", "--limit", "0"]);
    assert!(acknowledged.len() >= 200, "{}", acknowledged.len());
    assert!(acknowledged.iter().all(|id| stored.contains(id)));
    let doctor = sandbox.way(&repo, ["doctor"]);
    assert!(doctor.stdout.contains("ok  ledger"), "{}", doctor.stdout);
}

#[test]
fn a_full_disk_leaves_the_ledger_as_it_was() {
    let sandbox = sandbox();
    let dir = sandbox.dir("mounted");
    let mount =
        sandbox.command("mount", &dir).args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(&dir).status().unwrap();
    if !mount.success() {
        unavailable("this user may not mount");
    }
    let repo = sandbox.git_repo("mounted/repo");
    add(&sandbox, &repo, &["First"]);
    let before = std::fs::read(repo.join(LEDGER)).unwrap();
    let filler = format!("of={}", dir.join("filler").display());
    let _ = sandbox.command("dd", &dir).args(["if=/dev/zero", "bs=4k", &filler]).output().unwrap();
    let run = sandbox.way(&repo, ["add", "Second"]);
    let after = std::fs::read(repo.join(LEDGER)).unwrap();
    let left = std::fs::read_dir(repo.join(".waypost")).unwrap().count();
    sandbox.command("umount", &repo.join("..").join("..")).args(["--lazy"]).arg(&dir).status().unwrap();
    assert_eq!(run.code, 8, "{run:?}");
    assert!(run.stderr.contains("cannot write the ledger"), "{}", run.stderr);
    assert_eq!((after, left), (before, 1));
}

#[test]
fn b22_an_existing_beads_ledger_is_used_in_place_and_keeps_its_fields() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.beads");
    let ledger = repo.join(".beads/issues.jsonl");
    let theirs = "{\"id\":\"bd-1\",\"title\":\"Theirs\",\"x\":{\"deep\": 1.50},\"compaction_level\":0}\n{\"_type\":\"memory\",\"key\":\"k\"}\nnot json\n";
    sandbox.write(&ledger, theirs);
    let _ = sandbox.way(&repo, ["update", "bd-1", "-p", "0"]).ok();
    let id = add(&sandbox, &repo, &["Ours"]);
    let found = lines(&ledger);
    assert!(
        found[0].starts_with("{\"id\":\"bd-1\",\"title\":\"Theirs\",\"priority\":0,")
            && found[0].contains("\"x\":{\"deep\": 1.50},\"compaction_level\":0"),
        "{}",
        found[0]
    );
    assert!(found[1].contains(&id), "after the last issue");
    assert_eq!(found[2..], ["{\"_type\":\"memory\",\"key\":\"k\"}", "not json"]);
    assert!(!repo.join(".waypost").exists());
}

#[test]
fn b29_ledgers_of_other_tools_are_read_damage_is_reported_once_and_a_write_loses_nothing() {
    let of = |corpus: Corpus| corpus.ledgers().into_iter().map(move |name| (corpus.path(&name), name));
    for (file, name) in corpora().into_iter().flat_map(of) {
        let sandbox = sandbox();
        let repo = sandbox.git_repo("repo");
        sandbox.dir("repo/.waypost");
        std::fs::copy(&file, repo.join(LEDGER)).unwrap();
        let before = lines(&repo.join(LEDGER));
        assert!(ids(&sandbox, &repo, &["list", "--all", "--limit", "0"]).len() > 50, "{name}");
        let run = sandbox.way(&repo, ["doctor", "--json"]);
        assert_eq!(run.code, if name.contains("bad-line") || name.contains("markers") { 9 } else { 0 }, "{name}");
        let doctor: Value = serde_json::from_str(&run.stdout).unwrap();
        let doctor = &doctor["data"];
        let reported: Vec<&str> = doctor
            .as_array()
            .unwrap()
            .iter()
            .filter(|finding| finding["check"] == "ledger" && finding["verdict"] != "ok")
            .map(|finding| finding["detail"].as_str().unwrap())
            .collect();
        let about = |what: &str| reported.iter().filter(|detail| detail.contains(what)).count();
        let unreadable = usize::from(name.contains("bad-line"));
        assert_eq!(about("cannot be read"), unreadable, "{name}");
        assert_eq!(about("conflict marker"), if name.contains("markers") { 6 } else { 0 }, "{name}");
        add(&sandbox, &repo, &["One more"]);
        let after = lines(&repo.join(LEDGER));
        if name.contains("markers") {
            // The next write resolves the conflict of a merge: each issue once, and none is missing.
            let ids_of = |lines: &[String]| -> std::collections::BTreeSet<String> {
                let records = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
                records.map(|record| record["id"].as_str().unwrap().to_owned()).collect()
            };
            let (old, new) = (ids_of(&before), ids_of(&after));
            assert!(old.is_subset(&new) && new.len() == old.len() + 1 && after.len() == new.len(), "{name}");
            continue;
        }
        assert_eq!(after.len(), before.len() + 1, "{name}");
        let kept: std::collections::HashSet<&String> = after.iter().collect();
        assert!(before.iter().all(|line| kept.contains(line)), "{name}");
    }
}

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
        way-1  P1  feature  in_progress  ann  Lay the base
        way-2  P2  task     open         -    Build \u{1b}[31mon it
        way-3  P3  chore    open         -    Paint it
    "#]]
    .assert_eq(&whole(&["list"]));
    expect![[r#"
        way-3  P3  chore  open  -  Paint it
    "#]]
    .assert_eq(&whole(&["ready"]));
    expect![[r#"
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
        way-2  open  Build \u{1b}[31mon it

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
        blocks  way-1  in_progress  Lay the base
    "#]]
    .assert_eq(&whole(&["show", "way-2"]));
    expect![[r#"
        Closed way-1  Lay the base
    "#]]
    .assert_eq(&whole(&["close", "way-1", "-r", "done"]));
    expect![[r#"
        --- stderr
        note: no matching issues
    "#]]
    .assert_eq(&whole(&["list", "--text", "nothing like it"]));
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
fn a_concurrent_checkout_loses_no_line_of_either_side() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    let version = |count: usize| -> String {
        (0..count).map(|number| format!("{{\"id\":\"r-{number:05}\",\"title\":\"t\"}}\n")).collect::<Vec<_>>().concat()
    };
    sandbox.write(repo.join(LEDGER), version(2000));
    sandbox.git(&repo, ["add", "."]);
    sandbox.git(&repo, ["commit", "-q", "-m", "old"]);
    sandbox.git(&repo, ["branch", "old"]);
    sandbox.write(repo.join(LEDGER), version(3000));
    sandbox.git(&repo, ["commit", "-q", "-a", "-m", "new"]);
    for round in 0..40 {
        sandbox.git(&repo, ["checkout", "-q", "-f", "old"]);
        let adding = sandbox
            .way_command(&repo)
            .args(["add", "--json", "meanwhile"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Git may see the new issue, and then refuses to overwrite it.
        let checkout = sandbox.command("git", &repo).args(["checkout", "-q", "main"]).output().unwrap();
        let id = Run::of(&adding.wait_with_output().unwrap()).data()["id"].as_str().unwrap().to_owned();
        let found = lines(&repo.join(LEDGER));
        let expected = if checkout.status.success() { 3001 } else { 2001 };
        assert_eq!(found.len(), expected, "round {round}");
        assert!(found.iter().any(|line| line.contains(&id)), "round {round}: {id} was acknowledged and is gone");
    }
}

#[test]
fn hostile_ledgers_do_no_harm() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    let ledger = repo.join(LEDGER);
    // A link that leads out of the repository.
    let victim = sandbox.path("victim");
    sandbox.write(&victim, "precious\n");
    std::os::unix::fs::symlink(&victim, &ledger).unwrap();
    let _ = sandbox.way(&repo, ["add", "x"]).fails(7);
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious\n");
    std::fs::remove_file(&ledger).unwrap();
    // A link that stays inside is followed.
    std::os::unix::fs::symlink("../real.jsonl", &ledger).unwrap();
    sandbox.write(repo.join("real.jsonl"), "");
    let id = add(&sandbox, &repo, &["x"]);
    assert!(ledger.is_symlink() && lines(&repo.join("real.jsonl"))[0].contains(&id));
    std::fs::remove_file(&ledger).unwrap();
    // Paths that are not regular files.
    for make in [["mkfifo"], ["mkdir"]] {
        sandbox.command(make[0], &repo).arg(&ledger).status().unwrap();
        let _ = sandbox.way(&repo, ["list"]).fails(8);
        let _ = sandbox.way(&repo, ["add", "x"]).fails(8);
        sandbox.command("rm", &repo).arg("-rf").arg(&ledger).status().unwrap();
    }
    // A line with very many keys, and numbers that fit no numeric type.
    let keys = (0..60_000).map(|number| format!(",\"k{number}\":0")).collect::<Vec<_>>().concat();
    sandbox.write(
        &ledger,
        format!("{{\"id\":\"a-1\",\"big\":123456789012345678901234567890,\"f\":1.10{keys}}}\nnonsense\n"),
    );
    let run = sandbox.way(&repo, ["show", "a-1", "--json"]);
    assert!(run.stdout.contains("\"big\":123456789012345678901234567890,\"f\":1.10,"), "numbers keep their spelling");
    assert!(run.stdout.contains("1 line of the ledger cannot be read"), "the warning is part of the JSON answer");
    let run = sandbox.way(&repo, ["show", "a-2"]).fails(3);
    assert!(run.stderr.contains("way doctor"), "{}", run.stderr);
    // A line too long to be read back is not written.
    let before = std::fs::read(&ledger).unwrap();
    let mut command = sandbox.way_command(&repo);
    let mut child = command
        .args(["update", "a-1", "-d", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), &vec![b'x'; 17_000_000]);
    assert_eq!(child.wait().unwrap().code(), Some(2));
    assert!(std::fs::read(&ledger).unwrap() == before);
}

#[test]
fn parts_of_each_other_and_other_contradictions_are_refused() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let [a, b] = ["A", "B"].map(|title| add(&sandbox, &repo, &[title]));
    let _ = sandbox.way(&repo, ["update", &a, "--parent", &b]).ok();
    let run = sandbox.way(&repo, ["update", &b, "--parent", &a]).fails(4);
    assert!(run.stderr.contains(&format!("{b} → {a} → {b}")), "{}", run.stderr);
    let _ = sandbox.way(&repo, ["dep", "add", &b, &a, "-t", "parent-child"]).fails(4);
    let _ = sandbox.way(&repo, ["update", &a]).fails(2);
    let _ = sandbox.way(&repo, ["update", &a, "--status", "tombstone"]).fails(2);
    // The holder keeps an issue that becomes blocked, and a refused claim names the holder.
    let _ = sandbox.way(&repo, ["claim", &a, "--actor", "me"]).ok();
    let _ = sandbox.way(&repo, ["dep", "add", &a, "--blocked-by", &b]).ok();
    let _ = sandbox.way(&repo, ["claim", &a, "--actor", "me"]).ok();
    let run = sandbox.way(&repo, ["claim", &a, "--actor", "you"]).fails(4);
    assert!(run.stderr.contains("is held by me until"), "{}", run.stderr);
    // An empty actor name falls back to the default.
    let data = sandbox.way(&repo, ["claim", &b, "--actor", " ", "--json"]).data();
    assert_eq!(data["assignee"], "tester");
}
