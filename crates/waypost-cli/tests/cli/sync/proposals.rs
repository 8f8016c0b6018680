//! Proposals to projects that are not under git: accepted, rejected or dropped.

use std::path::{Path, PathBuf};

use waypost_testkit::{Run, Sandbox};

use super::*;
use crate::support::sandbox;

/// A Mercurial project with an issue in its ledger.
fn upstream(sandbox: &Sandbox) -> PathBuf {
    let upstream = sandbox.hg_repo("upstream");
    sandbox.dir(upstream.join(".waypost"));
    sandbox.write(upstream.join(LEDGER), "{\"id\":\"up-1\",\"title\":\"Theirs\"}\n");
    decide(sandbox, &upstream);
    upstream
}

/// Commits the project's ledger.
fn decide(sandbox: &Sandbox, upstream: &Path) {
    sandbox.hg(upstream, ["commit", "-q", "-A", "-m", "decide", LEDGER]);
}

fn lines(repo: &Path) -> Vec<String> {
    ledger(repo).lines().map(str::to_owned).collect()
}

/// Removes a line from a ledger, as a person who does not use `way` would.
fn take_out(sandbox: &Sandbox, repo: &Path, id: &str) {
    let left: Vec<String> = lines(repo).into_iter().filter(|line| !line.contains(id)).collect();
    sandbox.write(repo.join(LEDGER), format!("{}\n", left.join("\n")));
}

/// Proposes issues to a project that decides each differently, and checks what the contributor is told.
///
/// `way` runs where the contributor's clone is.
fn check(sandbox: &Sandbox, upstream: &Path, project: &Path, way: &dyn Fn(&[&str]) -> Run) {
    let _ = way(&["init", "--contributor", "--planning", "../planning"]).ok();
    let planning = sandbox.path("planning");
    let propose = |title: &str| {
        let id = way(&["add", title, "--json"]).data()["id"].as_str().unwrap().to_owned();
        assert_eq!(way(&["propose", &id]).code, 0);
        id
    };
    let planned = |id: &str| lines(&planning).into_iter().find(|line| line.contains(&format!("\"id\":\"{id}\"")));
    let sync = || {
        let run = way(&["sync"]);
        assert_eq!(run.code, 0, "{run:?}");
        run.stderr
    };
    let titles = ["Good idea", "Bad idea", "Deleted", "Taken out", "Accepted, done, pruned"];
    let ids = titles.map(propose);
    let [good, bad, deleted, gone, pruned] = &ids;
    // The project merges the pull request.
    std::fs::copy(project.join(LEDGER), upstream.join(LEDGER)).unwrap();
    decide(sandbox, upstream);
    let open = propose("In another pull request");
    assert!(!sync().contains(" was "), "nothing was decided yet");
    let before = sandbox.hg(upstream, ["identify", "--id"]);

    let maintain = |args: &[&str]| drop(sandbox.way(upstream, args).ok());
    maintain(&["update", good, "--title", "Better idea"]);
    maintain(&["accept", good]);
    maintain(&["reject", bad, "--reason", "too big"]);
    maintain(&["delete", deleted, "--reason", "a duplicate"]);
    maintain(&["accept", pruned]);
    maintain(&["close", pruned]);
    decide(sandbox, upstream);
    take_out(sandbox, upstream, gone);
    take_out(sandbox, upstream, pruned);
    decide(sandbox, upstream);
    let taken_out = sandbox.hg(upstream, ["identify", "--id"]);
    let decided = ledger(upstream);
    // A branch whose ledger still has the issue is merged later.
    sandbox.hg(upstream, ["update", "-q", before.trim()]);
    maintain(&["add", "Meanwhile"]);
    decide(sandbox, upstream);
    sandbox.hg(upstream, ["update", "-q", taken_out.trim()]);
    sandbox.hg(upstream, ["merge", "-q", "--tool", ":local"]);
    sandbox.write(upstream.join(LEDGER), &decided);
    sandbox.hg(upstream, ["commit", "-q", "-m", "merge"]);

    let said = sync();
    // The checkout does not have the project's copy yet, but its ledger was fetched.
    assert!(said.contains(&format!("{good} was accepted")) && planned(good).is_none(), "{said}");
    assert_eq!(way(&["show", good, "--json"]).data()["title"], "Better idea");
    assert!(said.contains(&format!("{bad} was rejected: too big")), "{said}");
    assert!(said.contains(&format!("{deleted} was dropped: deleted: a duplicate")), "{said}");
    let commit = taken_out.trim();
    assert!(said.contains(&format!("{gone} was dropped: taken out by commit {commit}")), "{said}");
    assert!(said.contains(&format!("{pruned} was accepted")) && planned(pruned).is_none(), "{said}");
    assert!(!said.contains(&open) && planned(&open).unwrap().contains("\"visibility\":\"proposed\""), "{said}");
    for (id, words) in [(bad, "rejected: too big"), (deleted, "a duplicate"), (gone, "taken out by commit ")] {
        let line = planned(id).unwrap();
        assert!(line.contains("\"visibility\":\"local\"") && line.contains(words), "{line}");
    }
    let again = sync();
    assert!(
        ![good, bad, deleted, gone, pruned].iter().any(|id| again.contains(*id)),
        "the decision is reported once: {again}"
    );
}

#[test]
fn b25_b26_proposals_to_a_mercurial_project_are_followed() {
    let sandbox = sandbox();
    let upstream = upstream(&sandbox);
    sandbox.hg(&sandbox.path(""), ["clone", "-q", "upstream", "project"]);
    let project = sandbox.path("project");
    // The contributor's own work, beside the project's decisions.
    sandbox.write(project.join("file"), "mine\n");
    sandbox.hg(&project, ["commit", "-q", "-m", "mine"]);
    sandbox.write(project.join("file"), "not committed\n");
    let user_state = || {
        [["identify", "--id"], ["diff", "--nodates"], ["bookmarks", "--quiet"]].map(|args| sandbox.hg(&project, args))
    };
    let before = user_state();
    check(&sandbox, &upstream, &project, &|args| sandbox.way(&project, args));
    let [id, differences, bookmarks] = user_state();
    assert_eq!((&id, &bookmarks), (&before[0], &before[2]));
    assert!(differences.contains(&before[1]), "only lines of the ledger were added: {differences}");

    // The commands are shown, and a project that cannot be reached is a warning.
    let dry_run = sandbox.way(&project, ["sync", "--dry-run", "--json"]).data();
    let commands = dry_run["commands"].as_array().unwrap();
    assert!(commands.iter().any(|line| line.as_str().unwrap().ends_with(" pull --quiet --rev=COMMIT default")));
    sandbox.write(project.join(".hg/hgrc"), "[paths]\ndefault = https://example.org/fork\nupstream = /nowhere\n");
    let run = sandbox.way(&project, ["sync"]);
    assert!(run.code == 0 && run.stderr.contains("cannot fetch upstream"), "{run:?}");
}

/// A stand-in for Sapling that records its arguments, and runs them with Mercurial in another clone.
fn sapling(sandbox: &Sandbox) -> PathBuf {
    sandbox.hg(&sandbox.path(""), ["clone", "-q", "upstream", "behind"]);
    let project = sandbox.dir("project");
    for dir in ["project/.sl", "project/.waypost", "bin"] {
        sandbox.dir(dir);
    }
    sandbox.write(project.join(".sl/config"), "[paths]\ndefault = https://example.org/r\n");
    std::fs::copy(sandbox.path("behind").join(LEDGER), project.join(LEDGER)).unwrap();
    let script = r#"#!/bin/sh
cd "$(dirname "$0")/../behind"
shift 2
printf '%s\n' "$*" >> ../asked
case "$*" in
    "log --rev=remotebookmark() --template={node} {remotebookmarks}\n")
        hg log --rev=0 --template='{node} remote/other\n'
        hg log --rev=default --template='{node} remote/more remote/main\n' ;;
    "--config=paths.default=https://example.org/r pull --quiet default") hg pull --quiet default ;;
    "cat --rev="* | "serve --cmdserver pipe") exec hg "$@" ;;
    *) exit 255 ;;
esac
"#;
    sandbox.write("bin/sl", script);
    sandbox.command("chmod", &project).args(["+x", text(&sandbox.path("bin/sl"))]).status().unwrap();
    project
}

#[test]
fn b25_b26_proposals_to_a_sapling_project_are_followed() {
    let sandbox = sandbox();
    let upstream = upstream(&sandbox);
    let project = sapling(&sandbox);
    let path = format!("{}:{}", text(&sandbox.path("bin")), std::env::var("PATH").unwrap());
    let way = |args: &[&str]| sandbox.way_with(&project, &[("PATH", path.as_ref())], args);
    check(&sandbox, &upstream, &project, &way);
    let dry_run = way(&["sync", "--dry-run", "--json"]).data();
    let first = dry_run["commands"][0].as_str().unwrap();
    assert!(first.ends_with(" pull --quiet default"), "{first}");
    // The path named upstream is the project, and nothing was pulled from it yet.
    let paths = "[paths]\ndefault = https://example.org/r\nupstream = https://example.org/project\n";
    sandbox.write(project.join(".sl/config"), paths);
    let run = way(&["sync"]);
    assert!(run.code == 0 && run.stderr.contains("cannot fetch upstream"), "{run:?}");
    let asked = std::fs::read_to_string(sandbox.path("asked")).unwrap();
    let last = "--config=paths.upstream=https://example.org/project pull --quiet upstream";
    assert!(asked.lines().any(|line| line == last), "{asked}");
}
