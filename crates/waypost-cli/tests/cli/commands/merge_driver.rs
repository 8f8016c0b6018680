//! `way merge-driver`: ledgers that were changed on both sides, merged by the real tools.

use std::path::Path;

use crate::support::ledger::LEDGER;
use crate::support::merge_driver::{add, check_merged, clone, command, commit, diverge, git, run, show, way};
use crate::support::sandbox;

#[test]
fn b28_git_merges_the_ledger_in_a_clone_where_nothing_was_set_up() {
    let sandbox = sandbox();
    let (clone, one, two) = clone(&sandbox);
    let (main, topic) = diverge(&sandbox, &clone, &one, &two);
    git(&sandbox, &clone, &["merge", "-q", "--no-edit", "topic"]);
    check_merged(&sandbox, &clone, [&one, &two, &main, &topic]);
    assert_eq!(git(&sandbox, &clone, &["status", "--porcelain"]), "");
}

#[test]
fn b28_git_rebases_the_ledger() {
    let sandbox = sandbox();
    let (clone, one, two) = clone(&sandbox);
    let (main, topic) = diverge(&sandbox, &clone, &one, &two);
    git(&sandbox, &clone, &["rebase", "-q", "topic"]);
    check_merged(&sandbox, &clone, [&one, &two, &main, &topic]);
    assert_eq!(git(&sandbox, &clone, &["rev-list", "--count", "HEAD", "^origin/main"]), "2\n");
}

#[test]
fn b28_git_cherry_picks_a_change_of_the_ledger() {
    let sandbox = sandbox();
    let (clone, one, two) = clone(&sandbox);
    let (main, topic) = diverge(&sandbox, &clone, &one, &two);
    git(&sandbox, &clone, &["cherry-pick", "topic"]);
    check_merged(&sandbox, &clone, [&one, &two, &main, &topic]);
}

#[test]
fn b28_git_pops_a_stash_with_the_ledger_in_it() {
    let sandbox = sandbox();
    let (clone, one, two) = clone(&sandbox);
    let (main, topic) = diverge(&sandbox, &clone, &one, &two);
    git(&sandbox, &clone, &["switch", "-q", "-c", "stashed", "origin/main"]);
    git(&sandbox, &clone, &["checkout", "-q", "topic", "--", LEDGER]);
    git(&sandbox, &clone, &["stash", "-q"]);
    git(&sandbox, &clone, &["switch", "-q", "main"]);
    git(&sandbox, &clone, &["stash", "pop", "-q"]);
    check_merged(&sandbox, &clone, [&one, &two, &main, &topic]);
}

#[test]
fn b28_a_linked_worktree_with_a_ledger_of_its_own_merges_too() {
    let sandbox = sandbox();
    let (clone, one, two) = clone(&sandbox);
    let _ = way(&sandbox, &clone, 3, &["config", "set", "ledger.home", "branch"]).ok();
    git(&sandbox, &clone, &["worktree", "add", "-q", "-b", "side", "../side"]);
    let side = sandbox.path("side");
    let _ = way(&sandbox, &side, 10, &["update", &one, "--title", "One of side"]).ok();
    assert_eq!(git(&sandbox, &clone, &["config", "merge.waypost.driver"]), "way merge-driver %O %A %B %P\n");
    commit(&sandbox, &side, "on side");
    let _ = way(&sandbox, &clone, 11, &["close", &one]).ok();
    let _ = way(&sandbox, &clone, 11, &["close", &two]).ok();
    commit(&sandbox, &clone, "on main");
    git(&sandbox, &side, &["merge", "-q", "--no-edit", "main"]);
    let issue = show(&sandbox, &side, &one);
    assert_eq!((&issue["title"], &issue["status"]), (&"One of side".into(), &"closed".into()));
    assert_eq!(show(&sandbox, &side, &two)["status"], "closed");
}

#[test]
fn the_driver_is_configured_by_name_if_that_finds_it_and_else_by_path() {
    let sandbox = sandbox();
    let (clone, ..) = clone(&sandbox);
    let driver = |repo: &Path| git(&sandbox, repo, &["config", "merge.waypost.driver"]);
    assert_eq!(driver(&sandbox.path("origin")), "way merge-driver %O %A %B %P\n");
    let before = std::fs::read(clone.join(".git/config")).unwrap();
    let _ = way(&sandbox, &clone, 3, &["list"]).ok();
    assert_eq!(std::fs::read(clone.join(".git/config")).unwrap(), before, "reading configures nothing");
    // A program outside of the search path, in a directory whose name needs quoting.
    let odd = sandbox.dir("it's odd");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_way"), odd.join("link")).unwrap();
    std::fs::hard_link(env!("CARGO_BIN_EXE_way"), odd.join("way"))
        .or_else(|_| std::fs::copy(env!("CARGO_BIN_EXE_way"), odd.join("way")).map(drop))
        .unwrap();
    let added = run(&mut sandbox.command(odd.join("way"), &clone), &["add", "x"]);
    assert_eq!(added.code, 0, "{added:#?}");
    let quoted = odd.join("way").display().to_string().replace('\'', "'\\''");
    assert_eq!(driver(&clone), format!("'{quoted}' merge-driver %O %A %B %P\n"));
    // An existing setting stays, Waypost's or not; Waypost's is replaced once its program is gone.
    let _ = way(&sandbox, &clone, 4, &["add", "y"]).ok();
    assert_eq!(driver(&clone), format!("'{quoted}' merge-driver %O %A %B %P\n"));
    std::fs::remove_file(odd.join("way")).unwrap();
    let _ = way(&sandbox, &clone, 5, &["add", "z"]).ok();
    assert_eq!(driver(&clone), "way merge-driver %O %A %B %P\n");
    git(&sandbox, &clone, &["config", "merge.waypost.driver", "mine %A"]);
    let _ = way(&sandbox, &clone, 6, &["add", "z"]).ok();
    assert_eq!(driver(&clone), "mine %A\n");
}

#[test]
fn a_repository_that_does_not_ask_for_the_driver_gets_none() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = way(&sandbox, &repo, 0, &["add", "x"]).ok();
    assert!(!std::fs::read_to_string(repo.join(".git/config")).unwrap().contains("waypost"));
    assert!(!repo.join(".waypost/.gitattributes").exists());
}

#[test]
fn git_merges_a_beads_ledger_after_the_first_change_in_a_clone() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.beads");
    let line = |id: &str, title: &str, day: u32| {
        format!(r#"{{"id":"{id}","title":"{title}","status":"open","updated_at":"2026-01-{day:02}T00:00:00Z"}}"#)
    };
    let ledger = ".beads/issues.jsonl";
    sandbox.write(repo.join(ledger), format!("{}\n{}\n", line("bd-1", "One", 1), line("bd-2", "Two", 1)));
    commit(&sandbox, &repo, "ledger");
    let doctor = || sandbox.way(&repo, ["doctor"]).stdout;
    assert!(doctor().contains("git merges"), "{}", doctor());
    let _ = way(&sandbox, &repo, 1, &["list"]).ok();
    assert!(!repo.join(".git/info/attributes").exists(), "reading configures nothing");
    git(&sandbox, &repo, &["switch", "-q", "-c", "topic"]);
    let _ = way(&sandbox, &repo, 2, &["update", "bd-1", "--title", "One of topic"]).ok();
    commit(&sandbox, &repo, "on topic");
    assert_eq!(git(&sandbox, &repo, &["check-attr", "merge", ledger]), format!("{ledger}: merge: waypost\n"));
    assert!(!doctor().contains("git merges"), "{}", doctor());
    git(&sandbox, &repo, &["switch", "-q", "main"]);
    let _ = way(&sandbox, &repo, 3, &["close", "bd-1"]).ok();
    let _ = way(&sandbox, &repo, 3, &["close", "bd-2"]).ok();
    commit(&sandbox, &repo, "on main");
    git(&sandbox, &repo, &["merge", "-q", "--no-edit", "topic"]);
    let issue = show(&sandbox, &repo, "bd-1");
    assert_eq!((&issue["title"], &issue["status"]), (&"One of topic".into(), &"closed".into()));
    assert_eq!(git(&sandbox, &repo, &["status", "--porcelain"]), "", "nothing tracked is added");
    let attributes = std::fs::read_to_string(repo.join(".git/info/attributes")).unwrap();
    assert_eq!(attributes, "/.beads/issues.jsonl merge=waypost\n");
}

#[test]
fn a_driver_that_the_project_chose_for_a_beads_ledger_stays_and_doctor_says_so() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.beads");
    sandbox.write(repo.join(".beads/issues.jsonl"), "{\"id\":\"bd-1\",\"title\":\"One\"}\n");
    sandbox.write(repo.join(".gitattributes"), "*.txt text\n.beads/issues.jsonl merge=beads\n");
    let _ = way(&sandbox, &repo, 1, &["close", "bd-1"]).ok();
    assert!(!repo.join(".git/info/attributes").exists());
    let doctor = sandbox.way(&repo, ["doctor"]).stdout;
    assert!(doctor.contains("merge=beads") && doctor.contains("merge=waypost"), "{doctor}");
}

#[test]
fn a_git_configuration_that_cannot_be_written_stops_no_command() {
    let sandbox = sandbox();
    let (clone, ..) = clone(&sandbox);
    std::fs::File::create(clone.join(".git/config.lock")).unwrap();
    let _ = way(&sandbox, &clone, 3, &["add", "x"]).ok();
    std::fs::remove_file(clone.join(".git/config.lock")).unwrap();
    let _ = way(&sandbox, &clone, 3, &["add", "y"]).ok();
    assert_eq!(git(&sandbox, &clone, &["config", "merge.waypost.driver"]), "way merge-driver %O %A %B %P\n");
}

#[test]
fn existing_attributes_are_kept() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    sandbox.write("repo/.waypost/.gitattributes", "* -text");
    let read = || std::fs::read_to_string(repo.join(".waypost/.gitattributes")).unwrap();
    for _ in 0..2 {
        let _ = way(&sandbox, &repo, 0, &["init"]).ok();
        assert_eq!(read(), "* -text\nissues.jsonl merge=waypost\n");
    }
}

#[test]
fn the_driver_never_fails_on_odd_content_and_keeps_our_side_if_it_cannot_read_the_other() {
    let sandbox = sandbox();
    let dir = sandbox.dir("dir");
    sandbox.write("dir/base", b"\xff\xfe\n{\"id\":\"z\"}\n");
    sandbox.write("dir/ours", b"\xff\xfe\n{\"id\":\"z\"}\nnoise\n{\"id\":\"a\"");
    sandbox.write("dir/theirs", "<<<<<<< x\n{\"id\":\"b\"}\n=======\n{\"id\":\"c\"}\n>>>>>>> y\n");
    let run = way(&sandbox, &dir, 0, &["merge-driver", "base", "ours", "theirs", LEDGER]).ok();
    assert_eq!(run.stdout, "");
    let merged = String::from_utf8_lossy(&std::fs::read(dir.join("ours")).unwrap()).into_owned();
    for line in ["noise", "{\"id\":\"a\"", "{\"id\":\"b\"}", "{\"id\":\"c\"}"] {
        assert!(merged.lines().any(|known| known == line), "{merged}");
    }
    let failed = way(&sandbox, &dir, 0, &["merge-driver", "base", "ours", "missing", LEDGER]).fails(8);
    assert!(failed.stderr.contains("missing"), "{failed:#?}");
    assert_eq!(String::from_utf8_lossy(&std::fs::read(dir.join("ours")).unwrap()), merged);
    let _ = way(&sandbox, &dir, 0, &["merge-driver", "base", "ours", "theirs", "--output", "new"]).ok();
    assert!(dir.join("new").exists());
}

/// The lines of a recipe in the documentation, by their heading.
fn recipe(heading: &str) -> String {
    let page = include_str!("../../../../../docs/merging.md");
    let section = page.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
    let block = section.split("```").nth(1).unwrap();
    block.split_once('\n').unwrap().1.to_owned()
}

#[test]
fn b28_jj_merges_with_the_recipe_of_the_documentation() {
    let sandbox = sandbox();
    let repo = sandbox.jj_repo("repo", false);
    let jj = |args: &[&str]| {
        let run = run(&mut command(&sandbox, "jj", &repo), args);
        assert_eq!(run.code, 0, "{run:#?}");
    };
    let (one, two) = (add(&sandbox, &repo, 1, "One"), add(&sandbox, &repo, 2, "Two"));
    jj(&["commit", "-m", "base"]);
    jj(&["bookmark", "create", "base", "-r", "@-"]);
    let _ = way(&sandbox, &repo, 10, &["update", &one, "--title", "One of main", "--priority", "0"]).ok();
    let _ = way(&sandbox, &repo, 11, &["close", &two, "--reason", "done"]).ok();
    let main = add(&sandbox, &repo, 12, "Of main");
    jj(&["bookmark", "create", "main", "-r", "@"]);
    jj(&["new", "base"]);
    let _ = way(&sandbox, &repo, 20, &["update", &one, "--title", "One of topic", "--add-label", "l"]).ok();
    let _ = way(&sandbox, &repo, 21, &["comment", &two, "Said on topic"]).ok();
    let topic = add(&sandbox, &repo, 22, "Of topic");
    jj(&["bookmark", "create", "topic", "-r", "@"]);
    jj(&["new", "main", "topic"]);
    assert!(std::fs::read_to_string(repo.join(LEDGER)).unwrap().contains("<<<<<<<"));
    sandbox.write("empty", recipe("jj"));
    jj(&["resolve", "--tool", "waypost", LEDGER]);
    check_merged(&sandbox, &repo, [&one, &two, &main, &topic]);
    // Without the recipe, `way resolve` merges every style of conflict markers.
    for style in ["diff", "snapshot", "git"] {
        sandbox.write("empty", format!("ui.conflict-marker-style = \"{style}\"\n"));
        jj(&["new", "main", "topic"]);
        let said = way(&sandbox, &repo, 30, &["resolve"]).ok();
        assert_eq!(said.stdout, format!("Merged 4 issues in {}\n", repo.join(LEDGER).display()), "{style}");
        check_merged(&sandbox, &repo, [&one, &two, &main, &topic]);
        let run = run(&mut command(&sandbox, "jj", &repo), &["resolve", "--list"]);
        assert_eq!(run.code, 2, "jj has no conflict any more: {run:#?}");
    }
}

#[test]
fn b28_mercurial_merges_with_the_recipe_of_the_documentation() {
    let sandbox = sandbox();
    let repo = sandbox.hg_repo("repo");
    let hg = |args: &[&str]| {
        let run = run(&mut command(&sandbox, "hg", &repo), args);
        assert_eq!(run.code, 0, "{run:#?}");
    };
    let (one, two) = (add(&sandbox, &repo, 1, "One"), add(&sandbox, &repo, 2, "Two"));
    hg(&["commit", "-q", "-A", "-m", "base"]);
    let _ = way(&sandbox, &repo, 10, &["update", &one, "--title", "One of main", "--priority", "0"]).ok();
    let _ = way(&sandbox, &repo, 11, &["close", &two, "--reason", "done"]).ok();
    let main = add(&sandbox, &repo, 12, "Of main");
    hg(&["commit", "-q", "-m", "on main"]);
    hg(&["update", "-q", "1"]);
    let _ = way(&sandbox, &repo, 20, &["update", &one, "--title", "One of topic", "--add-label", "l"]).ok();
    let _ = way(&sandbox, &repo, 21, &["comment", &two, "Said on topic"]).ok();
    let topic = add(&sandbox, &repo, 22, "Of topic");
    hg(&["commit", "-q", "-m", "on topic"]);
    sandbox.write("empty", recipe("Mercurial"));
    hg(&["merge", "-q"]);
    check_merged(&sandbox, &repo, [&one, &two, &main, &topic]);
    // Without the recipe, `way resolve` merges every style of conflict markers.
    for tool in [":merge", ":merge3", ":mergediff"] {
        hg(&["update", "-q", "--clean", "."]);
        sandbox.write("empty", "");
        let run = run(&mut command(&sandbox, "hg", &repo), &["merge", "-q", "--tool", tool]);
        assert_eq!(run.code, 1, "{run:#?}");
        let said = way(&sandbox, &repo, 30, &["resolve"]).ok();
        assert!(said.stdout.ends_with(&format!("To continue: hg resolve --mark {LEDGER}\n")), "{said:#?}");
        if tool != ":merge" {
            check_merged(&sandbox, &repo, [&one, &two, &main, &topic]);
        }
    }
}
