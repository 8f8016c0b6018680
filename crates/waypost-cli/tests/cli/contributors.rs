//! What a contributor keeps private, and what a pull request shows.

use std::path::{Path, PathBuf};

use serde_json::Value;
use waypost_testkit::Sandbox;

use crate::support::issues::fed;
use crate::support::jobs::Shop;
use crate::support::ledger::{LEDGER, add, ids, lines};
use crate::support::repos::contributor;
use crate::support::transfers::done;
use crate::support::{sandbox, text};

/// A clone that looks like a fork, before its user chooses a role.
fn fork(sandbox: &Sandbox) -> PathBuf {
    let fork = sandbox.git_repo("fork");
    sandbox.git(&fork, ["remote", "add", "origin", "git@example.org:me/p"]);
    sandbox.git(&fork, ["remote", "add", "upstream", "https://example.org/team/p"]);
    fork
}

fn status(sandbox: &Sandbox, repo: &Path) -> String {
    sandbox.git(repo, ["status", "--porcelain", "-uall"])
}

/// What a commit of everything would show of the ledger.
fn shown_in_a_pull_request(sandbox: &Sandbox, repo: &Path) -> String {
    sandbox.git(repo, ["add", "--all"]);
    let shown = sandbox.git(repo, ["diff", "--cached", "--", LEDGER]);
    sandbox.git(repo, ["reset", "-q"]);
    shown
}

fn titles(sandbox: &Sandbox, repo: &Path) -> Vec<String> {
    let issues = sandbox.way(repo, ["list", "--json"]).data();
    let mut titles: Vec<String> =
        issues.as_array().unwrap().iter().map(|issue| issue["title"].as_str().unwrap().to_owned()).collect();
    titles.sort();
    titles
}

#[test]
fn b10_an_issue_added_before_the_choice_moves_to_the_planning() {
    for (name, looks_like_fork) in [("fork", true), ("clone", false)] {
        let sandbox = sandbox();
        let repo = if looks_like_fork { fork(&sandbox) } else { sandbox.git_repo("clone") };
        let private = add(&sandbox, &repo, &["Private"]);
        let gone = add(&sandbox, &repo, &["Secret, deleted"]);
        let _ = sandbox.way(&repo, ["delete", &gone]).ok();
        let run = sandbox.way(&repo, ["init", "--contributor", "--planning", "../planning"]).ok();
        assert!(run.stdout.contains("Moved 2 issues"), "{name}: {}", run.stdout);
        assert_eq!(status(&sandbox, &repo), "", "{name}");
        assert_eq!(titles(&sandbox, &repo), ["Private"], "{name}");
        let _ = sandbox.way(&repo, ["close", &private]).ok();
        let idea = add(&sandbox, &repo, &["Idea"]);
        assert_eq!(sandbox.way(&repo, ["propose", &idea]).code, 0, "{name}");
        let shown = shown_in_a_pull_request(&sandbox, &repo);
        assert!(shown.contains("Idea") && !shown.contains("Private") && !shown.contains("Secret"), "{name}: {shown}");
    }
}

#[test]
fn what_a_contributor_keeps_in_a_project_stays_hidden_and_theirs() {
    let choices: [(&str, &[&[&str]]); 3] = [
        ("config", &[&["config", "set", "role", "contributor"]]),
        ("user", &[&["config", "set", "--user", "role", "contributor"]]),
        ("routing", &[&["config", "--add-repo", "../plans"], &["config", "set", "routing.mode", "auto"]]),
    ];
    for (name, choice) in choices {
        let sandbox = sandbox();
        let (repo, plans) = (fork(&sandbox), sandbox.git_repo("plans"));
        sandbox.dir(plans.join(".waypost"));
        let mine = ["Closed", "Deleted", "Moved", "Edited"].map(|title| add(&sandbox, &repo, &[title]));
        for command in choice {
            let _ = sandbox.way(&repo, command.iter()).ok();
        }
        assert_eq!(titles(&sandbox, &repo).len(), 4, "{name}");
        assert_eq!(status(&sandbox, &repo), "", "{name}: what was added before is still hidden");
        let [closed, deleted, moved, edited] = mine.each_ref().map(String::as_str);
        let _ = sandbox.way(&repo, ["close", closed]).ok();
        let _ = sandbox.way(&repo, ["delete", deleted]).ok();
        let _ = sandbox.way(&repo, ["update", edited, "--priority", "0"]).ok();
        let filter = format!("id={moved}");
        done(&sandbox.way(&repo, ["migrate", "--move-to", "../plans", "--filter", &filter]));
        assert!(lines(&plans.join(LEDGER))[0].contains("Moved"), "{name}");
        assert_eq!(status(&sandbox, &repo), "", "{name}");
        // Once all of it is in the planning, a proposal is the only line that a pull request shows.
        let _ = sandbox.way(&repo, ["config", "--add-repo", "../plans"]);
        let _ = sandbox.way(&repo, ["config", "set", "routing.mode", "auto"]).ok();
        let idea = add(&sandbox, &repo, &["Idea"]);
        let refused = sandbox.way(&repo, ["propose", &idea]).fails(7);
        assert!(refused.stderr.contains("way init --contributor"), "{name}: {}", refused.stderr);
        let _ = sandbox.way(&repo, ["init", "--contributor", "--planning", "../plans"]).ok();
        assert_eq!(status(&sandbox, &repo), "", "{name}");
        assert_eq!(sandbox.way(&repo, ["propose", &idea]).code, 0, "{name}");
        assert_eq!(shown_in_a_pull_request(&sandbox, &repo).matches("\n+{").count(), 1, "{name}");
    }
}

#[test]
fn a_contributor_changes_only_their_own_issues_in_a_project() {
    let sandbox = sandbox();
    let (_, fork, _) = contributor(&sandbox);
    // As an older version left it: a line that no commit has, in a ledger that git tracks.
    let theirs = std::fs::read_to_string(fork.join(LEDGER)).unwrap();
    sandbox.write(fork.join(LEDGER), format!("{{\"id\":\"mine-1\",\"title\":\"Private\"}}\n{theirs}"));
    for command in [&["close", "up-1"][..], &["delete", "up-1"], &["update", "up-1", "--title", "Mine"]] {
        let _ = sandbox.way(&fork, command).fails(7);
    }
    let batch = "close mine-1\nclose up-1\n";
    let _ = fed(&sandbox, &fork, &["batch", "-"], batch).fails(7);
    assert!(!lines(&fork.join(LEDGER)).iter().any(|line| line.contains("closed")), "none of a batch is made");
    let everything = ["migrate", "--move-to", "../planning", "--filter", "status=open"];
    let _ = sandbox.way(&fork, everything).fails(7);
    done(&sandbox.way(&fork, ["migrate", "--move-to", "../planning", "--filter", "id=mine-1"]));
    assert_eq!(std::fs::read_to_string(fork.join(LEDGER)).unwrap(), theirs);
    assert_eq!(status(&sandbox, &fork), "");
}

#[test]
fn b11_a_contributor_edits_what_they_proposed_until_it_is_accepted() {
    let sandbox = sandbox();
    let (upstream, fork, planning) = contributor(&sandbox);
    sandbox.git(&fork, ["remote", "remove", "upstream"]);
    let id = add(&sandbox, &fork, &["Idea"]);
    assert_eq!(sandbox.way(&fork, ["propose", &id]).code, 0);
    let proposed = std::fs::read_to_string(fork.join(LEDGER)).unwrap();
    let later = |minute: u32, args: &[&str]| {
        let mut command = sandbox.way_command(&fork);
        command.env("WAYPOST_TEST_CLOCK", format!("2030-01-01T00:{minute:02}:00Z")).args(args);
        sandbox.run(&mut command, "")
    };
    assert_eq!(later(1, &["update", &id, "--title", "Better idea"]).code, 0);
    assert_eq!(later(2, &["comment", &id, "a thought"]).code, 0);
    assert_eq!(later(3, &["claim", &id, "--agent", "ann"]).code, 0);
    assert_eq!(later(4, &["close", &id, "--agent", "ann"]).code, 0);
    assert_eq!(later(5, &["reopen", &id, "--repo", text(&planning)]).code, 0);
    // Nothing of it is public before it is proposed again.
    assert_eq!(std::fs::read_to_string(fork.join(LEDGER)).unwrap(), proposed);
    for args in [&["show", &id, "--json"][..], &["show", &id, "--json", "--repo", text(&planning)]] {
        let shown: Value = sandbox.way(&fork, args).data();
        assert_eq!((&shown["title"], &shown["status"]), (&"Better idea".into(), &"open".into()), "{shown}");
    }
    assert_eq!(later(6, &["propose", &id]).code, 0);
    assert!(lines(&fork.join(LEDGER)).iter().any(|line| line.contains("Better idea") && line.contains("a thought")));
    // Once it is accepted, it is an issue of the project.
    sandbox.git(&fork, ["commit", "-q", "-a", "-m", "propose"]);
    sandbox.git(&upstream, ["pull", "-q", "--no-rebase", "../fork"]);
    let _ = sandbox.way(&upstream, ["accept", &id]).ok();
    sandbox.git(&upstream, ["commit", "-q", "-a", "-m", "accept"]);
    sandbox.git(&fork, ["pull", "-q"]);
    let _ = later(7, &["update", &id, "--title", "Mine alone"]).fails(7);
}

#[test]
fn a_change_of_a_proposal_never_hides_one_that_only_the_project_has() {
    let sandbox = sandbox();
    let (_, fork, planning) = contributor(&sandbox);
    let id = add(&sandbox, &fork, &["Idea"]);
    assert_eq!(sandbox.way(&fork, ["propose", &id]).code, 0);
    // A maintainer comments on the pull request, whose branch is pulled.
    let maintained = std::fs::read_to_string(fork.join(LEDGER)).unwrap();
    let maintained = maintained.replace("\"title\":\"Idea\"", "\"title\":\"Maintained\"");
    sandbox.write(
        fork.join(LEDGER),
        maintained.replace("2026-01-01T00:00:00.000Z\",\"vis", "2026-01-02T00:00:00.000Z\",\"vis"),
    );
    assert_eq!(sandbox.way(&fork, ["show", &id, "--json"]).data()["title"], "Maintained");
    let run = sandbox.way(&fork, ["close", &id]).fails(4);
    assert!(run.stderr.contains(&format!("way propose {id}")), "{}", run.stderr);
    assert_eq!(sandbox.way(&fork, ["propose", &id]).code, 0);
    let _ = sandbox.way(&fork, ["close", &id]).ok();
    assert!(lines(&planning.join(LEDGER))[0].contains("Maintained"));
}

#[test]
fn a_proposal_of_a_job_is_in_the_workspace_of_the_job() {
    for strategy in ["clone", "worktree"] {
        let shop = Shop::new();
        let sandbox = &shop.sandbox;
        let _ = sandbox.way(&shop.repo, ["init", "--contributor", "--planning", "../planning"]).ok();
        let id = add(sandbox, &shop.repo, &["Idea"]);
        let script =
            format!("way propose {id} && git status --porcelain -uall && way withdraw {id} && way propose {id}");
        let script = script.replace("way ", &format!("{} ", env!("CARGO_BIN_EXE_way")));
        let job = shop.job(&["--strategy", strategy], &script);
        assert_eq!(job["status"], "completed", "{strategy}: {job}");
        assert!(job["output"].as_str().unwrap().contains(LEDGER), "{strategy}: {job}");
        let workspace = Path::new(job["workspace_dir"].as_str().unwrap());
        assert_eq!(lines(&workspace.join(LEDGER)).len(), 1, "{strategy}");
        assert_eq!(status(sandbox, &shop.repo), "", "{strategy}: the checkout of the user is as it was");
    }
}

#[test]
fn b9_a_proposal_is_withdrawn_from_every_worktree() {
    let sandbox = sandbox();
    let (_, fork, planning) = contributor(&sandbox);
    sandbox.git(&fork, ["worktree", "add", "-q", "../tree"]);
    let tree = sandbox.path("tree");
    let before = std::fs::read_to_string(fork.join(LEDGER)).unwrap();
    for (proposer, other) in [(&fork, &tree), (&tree, &fork)] {
        let id = add(&sandbox, proposer, &["Idea"]);
        assert_eq!(sandbox.way(proposer, ["propose", &id]).code, 0);
        let _ = sandbox.way(other, ["withdraw", &id]).ok();
        for root in [&fork, &tree] {
            assert_eq!(std::fs::read_to_string(root.join(LEDGER)).unwrap(), before, "{}", root.display());
        }
        assert_eq!(sandbox.way(&fork, ["show", &id, "--json"]).data()["visibility"], "local");
        let _ = sandbox.way(&fork, ["delete", &id]).ok();
    }
    // In both worktrees, with different changes.
    let id = add(&sandbox, &fork, &["Idea"]);
    for root in [&fork, &tree] {
        assert_eq!(sandbox.way(root, ["propose", &id]).code, 0);
    }
    assert_eq!(ids(&sandbox, &fork, &["list", "--visibility", "proposed"]), [id.as_str()]);
    let _ = sandbox.way(&tree, ["withdraw", &id]).ok();
    for root in [&fork, &tree] {
        assert_eq!(std::fs::read_to_string(root.join(LEDGER)).unwrap(), before, "{}", root.display());
    }
    assert!(lines(&planning.join(LEDGER)).iter().any(|line| line.contains(&id) && line.contains("\"local\"")));
}

#[test]
fn an_issue_that_was_moved_away_stays_away_when_clones_sync() {
    let sandbox = sandbox();
    let [seed, other] = ["seed", "other"].map(|name| sandbox.git_repo(name));
    sandbox.dir(other.join(".waypost"));
    sandbox.git(&seed, ["clone", "-q", "--bare", ".", "../project.git"]);
    let [one, two] = ["one", "two"].map(|name| {
        sandbox.git(&sandbox.path("."), ["clone", "-q", "project.git", name]);
        sandbox.path(name)
    });
    add(&sandbox, &one, &["Gone"]);
    let edited = add(&sandbox, &one, &["Edited"]);
    add(&sandbox, &two, &["Theirs"]);
    let sync = |repo: &Path| done(&sandbox.way(repo, ["sync"]));
    sync(&one);
    sync(&two);
    let migrate = |repo: &Path, to: &str, filter: &str| {
        done(&sandbox.way(repo, ["migrate", "--move-to", to, "--filter", filter]));
    };
    migrate(&one, "../other", "status=open");
    let _ = sandbox.way(&two, ["comment", &edited, "meanwhile"]).ok();
    for repo in [&one, &two, &one] {
        sync(repo);
    }
    for repo in [&one, &two] {
        let ledger = std::fs::read_to_string(repo.join(LEDGER)).unwrap();
        assert!(!ledger.contains("Gone"), "{ledger}");
        assert!(ledger.contains("meanwhile"), "a change of the other clone is kept: {ledger}");
    }
    // What comes back is an issue like any other.
    migrate(&other, "../one", "status=open");
    for repo in [&one, &two, &one] {
        sync(repo);
        assert_eq!(titles(&sandbox, repo).len(), 3, "{}", repo.display());
    }
}

#[test]
fn the_planning_of_an_accepted_issue_stays_without_it_after_a_sync() {
    let sandbox = sandbox();
    let (upstream, fork, planning) = contributor(&sandbox);
    sandbox.git(&fork, ["remote", "remove", "upstream"]);
    sandbox.git(&planning, ["clone", "-q", "--bare", ".", "../plans.git"]);
    sandbox.git(&planning, ["remote", "add", "origin", "../plans.git"]);
    sandbox.git(&planning, ["push", "-q", "-u", "origin", "HEAD"]);
    let id = add(&sandbox, &fork, &["Idea"]);
    done(&sandbox.way(&fork, ["propose", &id]));
    done(&sandbox.way(&fork, ["sync"]));
    sandbox.git(&fork, ["commit", "-q", "-a", "-m", "propose"]);
    sandbox.git(&upstream, ["pull", "-q", "--no-rebase", "../fork"]);
    done(&sandbox.way(&upstream, ["accept", &id]));
    sandbox.git(&upstream, ["commit", "-q", "-a", "-m", "accept"]);
    sandbox.git(&fork, ["pull", "-q"]);
    for _ in 0..3 {
        done(&sandbox.way(&fork, ["sync"]));
    }
    let left = std::fs::read_to_string(planning.join(LEDGER)).unwrap();
    assert!(!left.contains("Idea"), "{left}");
    assert!(!sandbox.git(&planning, ["show", &format!("HEAD:{LEDGER}")]).contains("Idea"));
}

#[test]
fn work_on_an_issue_of_the_project_leaves_its_status_to_the_maintainers() {
    let sandbox = sandbox();
    let (_, fork, _) = contributor(&sandbox);
    sandbox.write(fork.join("plan.json"), r#"{ "tasks": [{ "name": "fix", "issue": "up-1" }] }"#);
    let _ = sandbox.way(&fork, ["workflow", "create", "w", "--plan", "plan.json", "--start"]).ok();
    let _ = sandbox.way(&fork, ["task", "claim", "--agent", "ann"]).ok();
    let run = sandbox.way(&fork, ["task", "done", "fix", "--outcome", "fixed", "--agent", "ann"]);
    assert!(run.code == 0 && run.stderr.contains("issue up-1 was not closed: you may not write"), "{run:?}");
    // The line in the project's ledger has no status, which means open.
    let open = || ids(&sandbox, &fork, &["list", "--status", "open"]);
    assert_eq!(open(), ["up-1"], "as in the project's ledger");
    add(&sandbox, &fork, &["Mine"]);
    assert!(open().contains(&"up-1".to_owned()));
    let notices = sandbox.way(&fork, ["sync", "--dry-run"]);
    assert!(!notices.stderr.contains("up-1"), "{notices:?}");
}

#[test]
fn a_sync_that_is_refused_names_the_planning() {
    let sandbox = sandbox();
    let (_, fork, planning) = contributor(&sandbox);
    sandbox.git(&fork, ["remote", "remove", "upstream"]);
    sandbox.git(&planning, ["update-ref", "-d", "HEAD"]);
    add(&sandbox, &fork, &["Mine"]);
    let run = sandbox.way(&fork, ["sync"]).fails(7);
    assert!(run.stderr.contains(text(&planning)), "{}", run.stderr);
}

#[test]
fn what_a_maintainers_choice_showed_is_hidden_again_by_a_contributors() {
    let sandbox = sandbox();
    let repo = fork(&sandbox);
    add(&sandbox, &repo, &["Private"]);
    let choose = |role: &str| {
        let _ = sandbox.way(&repo, ["config", "set", "role", role]).ok();
        let _ = sandbox.way(&repo, ["list"]).ok();
        status(&sandbox, &repo)
    };
    assert!(choose("maintainer").contains(LEDGER));
    assert_eq!(choose("contributor"), "");
    assert!(choose("maintainer").contains(LEDGER));
}

#[test]
fn b25_after_a_sync_a_contributor_sees_the_project_as_it_is_there() {
    let sandbox = sandbox();
    let (upstream, fork, planning) = contributor(&sandbox);
    sandbox.git(&fork, ["remote", "set-url", "upstream", text(&upstream)]);
    let idea = add(&sandbox, &fork, &["Idea"]);
    assert_eq!(sandbox.way(&fork, ["propose", &idea]).code, 0);
    sandbox.git(&fork, ["commit", "-q", "-a", "-m", "propose"]);
    sandbox.git(&upstream, ["pull", "-q", "--no-rebase", "../fork"]);
    let _ = sandbox.way(&upstream, ["accept", &idea]).ok();
    let new = add(&sandbox, &upstream, &["New there"]);
    let _ = sandbox.way(&upstream, ["close", "up-1"]).ok();
    sandbox.git(&upstream, ["commit", "-q", "-a", "-m", "accept"]);
    let before = std::fs::read_to_string(fork.join(LEDGER)).unwrap();

    let run = sandbox.way(&fork, ["sync"]);
    assert!(run.code == 0 && run.stderr.contains(&format!("{idea} was accepted")), "{run:?}");
    let again = sandbox.way(&fork, ["sync"]);
    assert!(again.code == 0 && !again.stderr.contains(&idea), "a decision is told once: {again:?}");
    let seen = || {
        assert_eq!(titles(&sandbox, &fork), ["Idea", "New there"]);
        let shown: Value = sandbox.way(&fork, ["show", &idea, "--json"]).data();
        assert!(shown["visibility"] != "proposed", "{shown}");
        assert_eq!(sandbox.way(&fork, ["show", "up-1", "--json"]).data()["status"], "closed");
        done(&sandbox.way(&fork, ["show", &new]));
        assert_eq!(ids(&sandbox, &fork, &["search", "there"]), [new.as_str()]);
        assert!(!lines(&planning.join(LEDGER)).iter().any(|line| line.contains("\"Idea\"")));
    };
    seen();
    assert_eq!(std::fs::read_to_string(fork.join(LEDGER)).unwrap(), before, "the checkout stays as it is");
    sandbox.git(&fork, ["pull", "-q", "--no-rebase", "upstream", "main"]);
    seen();
    done(&sandbox.way(&fork, ["sync"]));
    seen();
}
