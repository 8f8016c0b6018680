//! Several repositories: one combined view, each write in its own ledger, private planning, proposals.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use waypost_testkit::Sandbox;

use crate::ledger::{LEDGER, add, ids, lines};
use crate::sandbox;

/// Makes a repository with one issue in it.
fn with_issue(sandbox: &Sandbox, name: &str, line: &str) -> PathBuf {
    let repo = sandbox.git_repo(name);
    sandbox.dir(repo.join(".waypost"));
    sandbox.write(repo.join(LEDGER), format!("{line}\n"));
    repo
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// A project, cloned by a contributor who plans elsewhere. Returns the upstream, the fork and the planning.
pub(crate) fn contributor(sandbox: &Sandbox) -> (PathBuf, PathBuf, PathBuf) {
    let upstream = with_issue(sandbox, "upstream", r#"{"id":"up-1","title":"Theirs"}"#);
    sandbox.git(&upstream, ["add", "."]);
    sandbox.git(&upstream, ["commit", "-q", "-m", "ledger"]);
    let root = sandbox.path(".");
    sandbox.git(&root, ["clone", "-q", "upstream", "fork"]);
    let fork = sandbox.path("fork");
    sandbox.git(&fork, ["remote", "add", "upstream", "https://example.org/team/project"]);
    let run = sandbox.way(&fork, ["init", "--contributor", "--planning", "../planning"]).ok();
    assert!(run.stdout.contains("New issues go there"), "{}", run.stdout);
    (upstream, fork, sandbox.path("planning"))
}

#[test]
fn b4_b5_b27_three_repositories_are_one_list_and_each_write_goes_to_its_own_ledger() {
    let sandbox = sandbox();
    let one = with_issue(&sandbox, "one", r#"{"id":"a-1","title":"One"}"#);
    let two = with_issue(&sandbox, "two", r#"{"id":"b-1","title":"Two"}"#);
    let three = with_issue(&sandbox, "three", r#"{"id":"c-1","title":"Three"}"#);
    let _ = sandbox.way(&one, ["config", "--add-repo", "../two"]).ok();
    let _ = sandbox.way(&one, ["config", "--add-repo", "../three"]).ok();
    let list = sandbox.way(&one, ["list", "--sort", "id", "--json"]).data();
    let sources: Vec<&str> =
        list.as_array().unwrap().iter().map(|issue| issue["source_repo"].as_str().unwrap()).collect();
    assert_eq!(sources, [text(&one), text(&two), text(&three)]);

    let before = [&one, &three].map(|repo| std::fs::read(repo.join(LEDGER)).unwrap());
    let _ = sandbox.way(&one, ["close", "b-1"]).ok();
    assert_eq!([&one, &three].map(|repo| std::fs::read(repo.join(LEDGER)).unwrap()), before);
    assert!(lines(&two.join(LEDGER))[0].contains("\"status\":\"closed\""));
    assert!(!lines(&two.join(LEDGER))[0].contains("source_repo"), "the ledger file itself implies it");
    // Several issues at once: each is written to its own file.
    let _ = sandbox.way(&one, ["update", "a-1", "c-1", "-p", "0"]).ok();
    assert!([&one, &three].iter().all(|repo| lines(&repo.join(LEDGER))[0].contains("\"priority\":0")));
    // One failing change stops all of them, in every file.
    let before = [&one, &two, &three].map(|repo| std::fs::read(repo.join(LEDGER)).unwrap());
    let _ = sandbox.way(&one, ["claim", "b-1"]).fails(4);
    let _ = sandbox.way(&one, ["update", "a-1", "c-1", "nothing", "-p", "1"]).fails(3);
    assert_eq!([&one, &two, &three].map(|repo| std::fs::read(repo.join(LEDGER)).unwrap()), before);

    // Filtered to one repository, by path or name.
    assert_eq!(ids(&sandbox, &one, &["list", "--repo", "../three"]), ["c-1"]);
    assert_eq!(ids(&sandbox, &one, &["ready", "--repo", "three"]), ["c-1"]);
    assert_eq!(ids(&sandbox, &one, &["search", "three", "--repo", "one"]), Vec::<String>::new());
    assert_eq!(sandbox.way(&one, ["stats", "--repo", "three", "--json"]).data()["ready"], 1);
    let _ = sandbox.way(&one, ["show", "c-1", "--repo", "one"]).fails(3);
    let _ = sandbox.way(&one, ["list", "--repo", "nowhere"]).fails(3);
    let new = add(&sandbox, &one, &["New", "--repo", "three"]);
    assert!(new.starts_with("three-"), "{new}");
    assert_eq!(lines(&three.join(LEDGER)).len(), 2);
}

#[test]
fn b13_b17_an_issue_blocked_by_another_repository_follows_its_state() {
    let sandbox = sandbox();
    let one = with_issue(
        &sandbox,
        "one",
        r#"{"id":"a-1","title":"Waits","dependencies":[{"depends_on_id":"b-1","type":"blocks"}]}"#,
    );
    let two =
        with_issue(&sandbox, "two", r#"{"id":"b-1","title":"Blocks","priority":4,"labels":["discovered:blocker"]}"#);
    let run = sandbox.way(&one, ["ready", "--explain", "a-1"]).ok();
    assert!(run.stdout.contains("in no ledger"), "{}", run.stdout);
    let _ = sandbox.way(&one, ["config", "--add-repo", "../two"]).ok();
    assert_eq!(ids(&sandbox, &one, &["ready"]), ["b-1"]);
    let _ = sandbox.way(&two, ["close", "b-1"]).ok();
    assert_eq!(ids(&sandbox, &one, &["ready"]), ["a-1"]);
    let _ = sandbox.way(&two, ["reopen", "b-1"]).ok();
    let _ = sandbox.way(&one, ["dep", "rm", "a-1", "b-1"]).ok();
    assert_eq!(ids(&sandbox, &one, &["ready"]), ["b-1", "a-1"], "labels count from any ledger");
    let _ = sandbox.way(&one, ["label", "add", "b-1", "no-auto-claim"]).ok();
    assert_eq!(sandbox.way(&one, ["claim", "--json"]).data()["id"], "a-1");
}

#[test]
fn a_repository_that_cannot_be_read_is_a_warning_on_every_answer() {
    let sandbox = sandbox();
    let one = with_issue(&sandbox, "one", r#"{"id":"a-1","title":"One"}"#);
    let two = with_issue(&sandbox, "two", r#"{"id":"b-1","title":"Two"}"#);
    let _ = sandbox.way(&one, ["config", "--add-repo", "../two"]).ok();
    std::fs::rename(&two, sandbox.path("moved")).unwrap();
    for args in [&["list"][..], &["ready"], &["show", "a-1"], &["add", "x"]] {
        let run = sandbox.way(&one, args.iter());
        assert!(run.code == 0 && run.stderr.contains("two are missing"), "{args:?}: {run:?}");
    }
    let run = sandbox.way(&one, ["list", "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert!(answer["warnings"][0].as_str().unwrap().contains("two are missing"), "{answer}");
    assert!(sandbox.way(&one, ["doctor"]).stdout.contains("two are missing"));
    std::fs::rename(sandbox.path("moved"), &two).unwrap();
    assert_eq!(sandbox.way(&one, ["list"]).ok().stdout.lines().count(), 3);
}

#[test]
fn b6_roles_and_routes_decide_where_new_issues_go() {
    let sandbox = sandbox();
    let planning = sandbox.git_repo("planning");
    for (remote, config, role, target) in [
        (None, &[][..], "maintainer", "repo"),
        (Some("git@example.org:a/b"), &[], "maintainer", "repo"),
        // A guessed role alone changes nothing.
        (Some("https://example.org/a/b"), &[], "contributor", "repo"),
        (
            Some("https://example.org/a/b"),
            &[("routing.mode", "auto"), ("routing.auto.contributor", "../planning")],
            "contributor",
            "planning",
        ),
        (
            Some("git@example.org:a/b"),
            &[("routing.mode", "auto"), ("routing.auto.contributor", "../planning")],
            "maintainer",
            "repo",
        ),
        (
            Some("git@example.org:a/b"),
            &[("routing.mode", "auto"), ("routing.auto.maintainer", "../planning")],
            "maintainer",
            "planning",
        ),
        (
            Some("https://example.org/a/b"),
            &[("role", "maintainer"), ("routing.mode", "auto"), ("routing.auto.contributor", "../planning")],
            "maintainer",
            "repo",
        ),
        (None, &[("role", "contributor"), ("repos.additional", "../planning")], "contributor", "planning"),
        (
            Some("https://example.org/a/b"),
            &[("routing.mode", "explicit"), ("routing.default", "../planning")],
            "contributor",
            "planning",
        ),
        (Some("https://example.org/a/b"), &[("routing.mode", "explicit")], "contributor", "repo"),
    ] {
        let repo = sandbox.git_repo("repo");
        if let Some(remote) = remote {
            sandbox.git(&repo, ["remote", "add", "origin", remote]);
        }
        for (key, value) in config {
            let _ = sandbox.way(&repo, ["config", "set", key, value]).ok();
        }
        let data = sandbox.way(&repo, ["where", "--json"]).data();
        assert_eq!(data["role"]["role"], role, "{remote:?} {config:?}");
        assert!(!data["role"]["because"].as_str().unwrap().is_empty());
        assert_eq!(data["route"]["path"], text(&sandbox.path(target)), "{remote:?} {config:?}");
        let before = [&repo, &planning].map(|repo| repo.join(LEDGER).exists());
        add(&sandbox, &repo, &["x"]);
        let after = [&repo, &planning].map(|repo| repo.join(LEDGER).exists());
        assert_ne!(before, after, "{remote:?} {config:?}");
        assert!(sandbox.path(target).join(LEDGER).exists());
        let _ = std::fs::remove_file(planning.join(LEDGER));
        std::fs::rename(&repo, sandbox.path(format!("done-{}", std::fs::read_dir(sandbox.path(".")).unwrap().count())))
            .unwrap();
    }
    let repo = sandbox.git_repo("flags");
    sandbox.git(&repo, ["config", "waypost.role", "contributor"]);
    assert_eq!(sandbox.way(&repo, ["where", "--json"]).data()["role"]["because"], "git config waypost.role");
    assert_eq!(sandbox.way(&repo, ["where", "--json", "--role", "maintainer"]).data()["role"]["source"], "flag");
    let _ = sandbox.way(&repo, ["where", "--role", "boss"]).fails(2);
}

#[test]
fn b7_parts_and_discovered_issues_go_to_the_ledger_of_their_origin() {
    let sandbox = sandbox();
    let one = with_issue(&sandbox, "one", r#"{"id":"a-1","title":"One"}"#);
    let two = with_issue(&sandbox, "two", r#"{"id":"b-1","title":"Two"}"#);
    let _ = sandbox.way(&one, ["config", "--add-repo", "../two"]).ok();
    add(&sandbox, &one, &["Part", "--parent", "b-1"]);
    add(&sandbox, &one, &["Found", "--discovered-from", "b-1"]);
    assert_eq!((lines(&one.join(LEDGER)).len(), lines(&two.join(LEDGER)).len()), (1, 3));
    let plan =
        "add Whole --parent b-1 --as whole\nadd Part --parent $whole\nadd Own --as own\nadd Other --blocked-by $own\n";
    sandbox.write(one.join("plan"), plan);
    let _ = sandbox.way(&one, ["batch", "plan"]).ok();
    assert_eq!((lines(&one.join(LEDGER)).len(), lines(&two.join(LEDGER)).len()), (3, 5));
}

#[test]
fn b9_b10_b11_a_contributors_planning_stays_private_until_an_issue_is_proposed() {
    let sandbox = sandbox();
    let (_, fork, planning) = contributor(&sandbox);
    assert_eq!(sandbox.git(&fork, ["status", "--porcelain"]), "", "nothing of it is in the project");
    let mine = add(&sandbox, &fork, &["Explore dark mode"]);
    let other = add(&sandbox, &fork, &["Private thought", "--parent", "up-1"]);
    let _ = sandbox.way(&fork, ["update", &other, "-p", "0"]).ok();
    let _ = sandbox.way(&fork, ["close", &other]).ok();
    assert_eq!(sandbox.git(&fork, ["status", "--porcelain"]), "");
    assert_eq!(lines(&planning.join(LEDGER)).len(), 2);
    assert_eq!(ids(&sandbox, &fork, &["list"]).len(), 2, "theirs and mine in one list");
    for args in [&["update", "up-1", "-p", "0"][..], &["close", "up-1"], &["claim", "up-1"], &["comment", "up-1", "x"]]
    {
        let run = sandbox.way(&fork, args.iter()).fails(7);
        assert!(run.stderr.contains("way propose"), "{}", run.stderr);
    }

    let before = [fork.join(LEDGER), planning.join(LEDGER)].map(|path| std::fs::read_to_string(path).unwrap());
    let run = sandbox.way(&fork, ["propose", &mine]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(sandbox.git(&fork, ["diff", "--numstat"]), format!("1\t0\t{LEDGER}\n"));
    assert!(lines(&planning.join(LEDGER)).iter().any(|line| line.contains("\"visibility\":\"proposed\"")));
    assert_eq!(ids(&sandbox, &fork, &["list"]).len(), 2, "two copies are one issue");
    let shown = sandbox.way(&fork, ["show", &mine, "--json"]).data();
    assert_eq!(shown["source_repo"], text(&fork), "the public copy takes precedence");
    // Repeating it, as after a crash, changes nothing.
    let proposed = [fork.join(LEDGER), planning.join(LEDGER)].map(|path| std::fs::read_to_string(path).unwrap());
    assert_eq!(sandbox.way(&fork, ["propose", &mine]).code, 0);
    assert_eq!([fork.join(LEDGER), planning.join(LEDGER)].map(|path| std::fs::read_to_string(path).unwrap()), proposed);

    let _ = sandbox.way(&fork, ["withdraw", &mine]).ok();
    assert_eq!([fork.join(LEDGER), planning.join(LEDGER)].map(|path| std::fs::read_to_string(path).unwrap()), before);
    let _ = sandbox.way(&fork, ["withdraw", &mine]).fails(4);
    let _ = sandbox.way(&fork, ["propose", "up-1"]).fails(4);

    assert_eq!(sandbox.way(&fork, ["propose", &mine]).code, 0);
    let _ = sandbox.way(&fork, ["accept", &mine]).fails(7);
    sandbox.git(&fork, ["commit", "-q", "-a", "-m", "propose"]);
    let diff = sandbox.git(&fork, ["diff", "--numstat", "origin/HEAD", "HEAD"]);
    assert_eq!(diff, format!("1\t0\t{LEDGER}\n"), "the pull request is one added line");
}

#[test]
fn a_crash_between_the_two_writes_of_a_proposal_loses_nothing() {
    let sandbox = sandbox();
    let (_, fork, planning) = contributor(&sandbox);
    let mine = add(&sandbox, &fork, &["Mine"]);
    let local = std::fs::read(planning.join(LEDGER)).unwrap();
    assert_eq!(sandbox.way(&fork, ["propose", &mine]).code, 0);
    let proposed = [fork.join(LEDGER), planning.join(LEDGER)].map(|path| std::fs::read(path).unwrap());
    // Killed after the project's ledger was written: the planning ledger is not updated yet.
    sandbox.write(planning.join(LEDGER), &local);
    assert_eq!(ids(&sandbox, &fork, &["list"]).len(), 2);
    assert_eq!(sandbox.way(&fork, ["propose", &mine]).code, 0);
    assert_eq!([fork.join(LEDGER), planning.join(LEDGER)].map(|path| std::fs::read(path).unwrap()), proposed);
    // Killed during the withdrawal, after the planning ledger was written.
    sandbox.write(planning.join(LEDGER), &local);
    let _ = sandbox.way(&fork, ["withdraw", &mine]).ok();
    assert_eq!(std::fs::read(planning.join(LEDGER)).unwrap(), local);
    assert_eq!(lines(&fork.join(LEDGER)).len(), 1);
    // An issue that only the project has is not removed.
    let _ = sandbox.way(&fork, ["propose", &mine]);
    std::fs::remove_file(planning.join(LEDGER)).unwrap();
    let _ = sandbox.way(&fork, ["withdraw", &mine]).fails(4);
    assert_eq!(lines(&fork.join(LEDGER)).len(), 2);
}

/// Runs `way` and kills it at a random moment, or as soon as a condition holds. Returns whether it was still running.
fn kill(sandbox: &Sandbox, repo: &Path, args: &[&str], random: Option<Duration>, is_so: impl Fn() -> bool) -> bool {
    let mut command = sandbox.way_command(repo);
    let mut child = command.args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + random.unwrap_or(Duration::from_secs(10));
    while Instant::now() < deadline && (random.is_some() || !is_so()) && child.try_wait().unwrap().is_none() {
        std::hint::spin_loop();
    }
    let was_at_work = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    was_at_work
}

#[test]
fn proposing_withdrawing_and_moving_may_be_killed_at_any_moment() {
    let sandbox = sandbox();
    let (_, fork, planning) = contributor(&sandbox);
    let mine = add(&sandbox, &fork, &["Mine", "-d", "with words"]);
    let other = sandbox.git_repo("other");
    let _ = sandbox.way(&other, ["config", "--add-repo", "../planning"]).ok();
    let files = [fork.join(LEDGER), planning.join(LEDGER), other.join(LEDGER)];
    let all = || files.each_ref().map(|file| std::fs::read_to_string(file).unwrap_or_default());
    let has = |number: usize| all()[number].contains(&mine);
    let started = Instant::now();
    let _ = sandbox.way(&fork, ["show", &mine]).ok();
    let long = u64::try_from(started.elapsed().as_micros()).unwrap() * 4;
    let local = all();
    assert_eq!(sandbox.way(&fork, ["propose", &mine]).code, 0);
    let proposed = all();
    let _ = sandbox.way(&fork, ["withdraw", &mine]).ok();
    let filter = format!("id={mine}");
    let mut seed: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut killed = [0; 4];
    for round in 0..30 {
        // Every third time as soon as the first of the two files is written, else at random.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = (round % 3 != 0).then(|| Duration::from_micros((seed >> 33) % long));
        let moving: &[&str] = &["migrate", "--move-to", ".", "--filter", &filter];
        let back: &[&str] = &["migrate", "--move-to", "../planning", "--filter", &filter];
        for (number, (repo, args, expected)) in [
            (&fork, &["propose", &mine][..], Some(&proposed)),
            (&fork, &["withdraw", &mine], Some(&local)),
            (&other, moving, None),
            (&other, back, Some(&local)),
        ]
        .into_iter()
        .enumerate()
        {
            let before = all();
            let place = format!("round {round}, {args:?} after {random:?}");
            killed[number] += usize::from(kill(&sandbox, repo, args, random, || all() != before));
            // The issue is complete in one of the ledgers, and a list shows it once.
            let listed = sandbox.way(repo, ["list", "--all", "--json"]).data();
            let titles: Vec<_> = listed.as_array().unwrap().iter().filter(|issue| issue["id"] == *mine).collect();
            assert!(titles.len() == 1 && titles[0]["description"] == "with words", "{place}: {listed}");
            let again = sandbox.way(repo, args.iter());
            // A retry reports steps that are already done.
            assert!([0, 4, 6].contains(&again.code), "{place}: {again:?}");
            match expected {
                Some(expected) => assert_eq!(&all(), expected, "{place}"),
                None => assert_eq!([has(1), has(2)], [false, true], "{place}"),
            }
        }
    }
    assert!(killed.iter().all(|times| *times >= 5), "too few commands were killed in time: {killed:?}");
}

#[test]
fn b9_maintainers_accept_and_reject_proposals() {
    let sandbox = sandbox();
    let repo = with_issue(&sandbox, "repo", r#"{"id":"a-1","title":"One","visibility":"proposed"}"#);
    sandbox.write(repo.join(LEDGER), "{\"id\":\"a-1\",\"title\":\"One\",\"visibility\":\"proposed\"}\n{\"id\":\"a-2\",\"title\":\"Two\",\"visibility\":\"proposed\"}\n{\"id\":\"a-3\",\"title\":\"Three\"}\n");
    let _ = sandbox.way(&repo, ["accept", "a-1", "--role", "contributor"]).fails(7);
    let accepted = sandbox.way(&repo, ["accept", "a-1", "--json"]).data();
    assert!(accepted["visibility"].is_null() && accepted["updated_at"].is_string());
    let rejected = sandbox.way(&repo, ["reject", "a-2", "--reason", "not now", "--json"]).data();
    assert_eq!(
        (rejected["status"].as_str(), rejected["close_reason"].as_str(), rejected["visibility"].as_str()),
        (Some("closed"), Some("not now"), Some("proposed"))
    );
    let _ = sandbox.way(&repo, ["accept", "a-3"]).fails(4);
    let _ = sandbox.way(&repo, ["reject", "a-3"]).fails(2);
}

#[test]
fn b24_use_case_1_a_contributor_plans_apart_and_proposes_one_issue() {
    let sandbox = sandbox();
    let upstream = with_issue(&sandbox, "upstream", r#"{"id":"up-1","title":"Theirs"}"#);
    sandbox.git(&upstream, ["add", "."]);
    sandbox.git(&upstream, ["commit", "-q", "-m", "ledger"]);
    let planning = sandbox.git_repo("plans");
    let _ = sandbox.way(&planning, ["init"]).ok();
    sandbox.git(&sandbox.path("."), ["clone", "-q", "upstream", "project"]);
    let project = sandbox.path("project");
    let _ = sandbox.way(&project, ["config", "--add-repo", "../plans", "--routing", "contributor"]).ok();
    let idea = add(&sandbox, &project, &["Explore dark mode", "-d", "musings"]);
    assert!(lines(&planning.join(LEDGER)).iter().any(|line| line.contains(&idea)));
    assert_eq!(sandbox.git(&project, ["status", "--porcelain"]), "");
    sandbox.git(&project, ["checkout", "-q", "-b", "dark-mode"]);
    assert_eq!(sandbox.way(&project, ["propose", &idea]).code, 0);
    sandbox.write(project.join("dark.css"), "body {}");
    sandbox.git(&project, ["add", "."]);
    sandbox.git(&project, ["commit", "-q", "-m", "dark mode"]);
    let stat = sandbox.git(&project, ["diff", "--numstat", "origin/HEAD", "HEAD"]);
    assert!(stat.contains(&format!("1\t0\t{LEDGER}\n")), "{stat}");
    // Upstream merges the pull request and accepts the proposal in it.
    sandbox.git(&upstream, ["pull", "-q", "--no-rebase", "../project", "dark-mode"]);
    let _ = sandbox.way(&upstream, ["accept", &idea]).ok();
    assert_eq!(ids(&sandbox, &upstream, &["list"]).len(), 2);
}

#[test]
fn b25_b26_sync_reports_the_decision_on_a_proposal() {
    let sandbox = sandbox();
    let (upstream, fork, planning) = contributor(&sandbox);
    sandbox.git(&fork, ["remote", "remove", "upstream"]);
    let good = add(&sandbox, &fork, &["Good idea"]);
    let bad = add(&sandbox, &fork, &["Bad idea"]);
    for id in [&good, &bad] {
        assert_eq!(sandbox.way(&fork, ["propose", id]).code, 0);
    }
    sandbox.git(&fork, ["commit", "-q", "-a", "-m", "propose"]);
    let pending = sandbox.way(&fork, ["sync"]);
    assert!(pending.code == 0 && !pending.stderr.contains("accepted"), "{pending:?}");
    sandbox.git(&upstream, ["pull", "-q", "--no-rebase", "../fork"]);
    let _ = sandbox.way(&upstream, ["update", &good, "--title", "Better idea"]).ok();
    let _ = sandbox.way(&upstream, ["accept", &good]).ok();
    let _ = sandbox.way(&upstream, ["reject", &bad, "--reason", "too big"]).ok();
    sandbox.git(&upstream, ["commit", "-q", "-a", "-m", "decide"]);
    let run = sandbox.way(&fork, ["sync"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stderr.contains(&format!("{good} was accepted")), "{run:?}");
    assert!(run.stderr.contains(&format!("{bad} was rejected: too big")), "{run:?}");
    let planned = lines(&planning.join(LEDGER));
    assert!(!planned.iter().any(|line| line.contains(&good)), "the planning copy is retired: {planned:?}");
    let mine = planned.iter().find(|line| line.contains(&bad)).unwrap();
    assert!(mine.contains("\"visibility\":\"local\"") && mine.contains("rejected: too big"), "{mine}");
    sandbox.git(&fork, ["pull", "-q"]);
    assert_eq!(ids(&sandbox, &fork, &["list", "--text", "Better"]), std::slice::from_ref(&good), "once, and canonical");
    let shown = sandbox.way(&fork, ["show", &bad, "--json"]).data();
    assert_eq!((&shown["source_repo"], &shown["status"]), (&text(&planning).into(), &"open".into()), "mine again");
    let kept = sandbox.git(&planning, ["log", "-p", "--format="]);
    assert!(kept.contains("Good idea"), "its history is in the planning's version control");
    let again = sandbox.way(&fork, ["sync"]);
    assert!(again.code == 0 && !again.stderr.contains("was accepted"), "{again:?}");
}

/// Removes a line from a ledger and commits, as a person who does not use `way` would.
fn take_out(sandbox: &Sandbox, repo: &Path, id: &str) {
    let left: Vec<String> = lines(&repo.join(LEDGER)).into_iter().filter(|line| !line.contains(id)).collect();
    sandbox.write(repo.join(LEDGER), format!("{}\n", left.join("\n")));
    sandbox.git(repo, ["commit", "-q", "-a", "-m", "take out"]);
}

#[test]
fn a_proposal_that_the_project_drops_returns_to_planning() {
    let sandbox = sandbox();
    let (upstream, fork, planning) = contributor(&sandbox);
    sandbox.git(&fork, ["remote", "remove", "upstream"]);
    let propose = |title: &str| {
        let id = add(&sandbox, &fork, &[title]);
        assert_eq!(sandbox.way(&fork, ["propose", &id]).code, 0);
        sandbox.git(&fork, ["commit", "-q", "-a", "-m", "propose"]);
        id
    };
    let [deleted, gone, pruned] = ["Deleted", "Taken out", "Accepted, done, pruned"].map(propose);
    sandbox.git(&upstream, ["pull", "-q", "--no-rebase", "../fork"]);
    let open = propose("In a pull request");
    let planned = |id: &str| lines(&planning.join(LEDGER)).into_iter().find(|line| line.contains(id));
    let sync = || {
        let run = sandbox.way(&fork, ["sync"]);
        assert_eq!(run.code, 0, "{run:?}");
        run.stderr
    };
    assert!(!sync().contains(" was "), "nothing was decided yet");
    let _ = sandbox.way(&upstream, ["delete", &deleted, "--reason", "a duplicate"]).ok();
    let _ = sandbox.way(&upstream, ["accept", &pruned]).ok();
    let _ = sandbox.way(&upstream, ["close", &pruned]).ok();
    sandbox.git(&upstream, ["commit", "-q", "-a", "-m", "decide"]);
    take_out(&sandbox, &upstream, &gone);
    take_out(&sandbox, &upstream, &pruned);

    let said = sync();
    assert!(
        said.contains(&format!("{deleted} was dropped: deleted: a duplicate; it is local to your planning again")),
        "{said}"
    );
    assert!(said.contains(&format!("{gone} was dropped: taken out by commit ")), "{said}");
    assert!(said.contains(&format!("{pruned} was accepted")) && planned(&pruned).is_none(), "{said}");
    assert!(!said.contains(&open) && planned(&open).unwrap().contains("\"visibility\":\"proposed\""), "{said}");
    for (id, words) in [(&deleted, "deleted: a duplicate"), (&gone, "taken out by commit ")] {
        let line = planned(id).unwrap();
        assert!(line.contains("\"visibility\":\"local\"") && line.contains(words), "{line}");
    }
    assert!(!sync().contains(" was "), "the decision is reported once");
    // The project's tombstone does not hide the planned issue.
    sandbox.git(&fork, ["reset", "-q", "--hard", "origin/main"]);
    let shown = sandbox.way(&fork, ["show", &deleted, "--json"]).data();
    assert_eq!((&shown["source_repo"], &shown["status"]), (&text(&planning).into(), &"open".into()));
    // Proposing a dropped issue again does not report it as dropped again.
    for id in [&deleted, &gone] {
        assert_eq!(sandbox.way(&fork, ["propose", id]).code, 0);
    }
    assert!(!sync().contains(" was "), "it may be in a pull request again");
    assert!(planned(&gone).unwrap().contains("\"visibility\":\"proposed\""));
}

#[test]
fn a_project_that_cannot_be_fetched_is_warned_of_and_the_rest_is_synced() {
    let sandbox = sandbox();
    let (upstream, fork, planning) = contributor(&sandbox);
    sandbox.git(&fork, ["remote", "remove", "upstream"]);
    let id = add(&sandbox, &fork, &["Mine"]);
    let seen = || sandbox.git(&fork, ["rev-parse", "origin/main"]);
    let before = seen();
    sandbox.git(&upstream, ["commit", "-q", "--allow-empty", "-m", "more"]);
    let rehearsed = sandbox.way(&fork, ["sync", "--dry-run", "--json"]).data();
    let first = rehearsed["commands"][0].as_str().unwrap();
    assert!(first.contains(" fetch ") && first.ends_with(" +refs/heads/main:refs/remotes/origin/main"), "{first}");
    assert_eq!(seen(), before);
    let run = sandbox.way(&fork, ["sync"]);
    assert!(run.code == 0 && seen() == sandbox.git(&upstream, ["rev-parse", "main"]), "{run:?}");

    sandbox.git(&fork, ["config", "remote.origin.url", "/nowhere"]);
    let _ = sandbox.way(&fork, ["update", &id, "--title", "Changed"]).ok();
    let run = sandbox.way(&fork, ["sync"]);
    assert!(run.code == 0 && run.stderr.contains("cannot fetch origin"), "{run:?}");
    assert_eq!(sandbox.git(&planning, ["status", "--porcelain", "--", LEDGER]), "", "the planning is committed");
}

#[test]
fn b24_use_case_2_phases_have_their_own_ledgers_and_wait_for_each_other() {
    let sandbox = sandbox();
    for phase in ["architecture", "implementation", "testing"] {
        let repo = sandbox.git_repo(format!("phases/{phase}"));
        let _ = sandbox.way(&repo, ["init"]).ok();
    }
    let project = sandbox.git_repo("project");
    for phase in ["architecture", "implementation", "testing"] {
        let _ = sandbox.way(&project, ["config", "--add-repo", &format!("../phases/{phase}")]).ok();
    }
    let design = add(&sandbox, &project, &["Design authentication", "--repo", "../phases/architecture"]);
    let build = add(&sandbox, &project, &["Build it", "--repo", "implementation", "--blocked-by", &design]);
    let test = add(&sandbox, &project, &["Test it", "--repo", "testing", "--blocked-by", &build]);
    assert_eq!(ids(&sandbox, &project, &["ready"]), std::slice::from_ref(&design));
    assert_eq!(ids(&sandbox, &project, &["list", "--repo", "../phases/architecture"]), std::slice::from_ref(&design));
    let _ = sandbox.way(&project, ["close", &design]).ok();
    assert_eq!(ids(&sandbox, &project, &["ready"]), std::slice::from_ref(&build));
    let _ = sandbox.way(&project, ["close", &build]).ok();
    assert_eq!(ids(&sandbox, &project, &["ready"]), std::slice::from_ref(&test));
    assert!(!project.join(LEDGER).exists(), "the project itself has no ledger");
}

#[test]
fn b24_use_case_3_a_maintainer_and_a_contributor_work_on_one_project() {
    let sandbox = sandbox();
    let origin = sandbox.git_repo("origin");
    sandbox.git(&origin, ["commit", "-q", "--allow-empty", "-m", "first"]);
    sandbox.git(&sandbox.path("."), ["clone", "-q", "origin", "alice"]);
    sandbox.git(&sandbox.path("."), ["clone", "-q", "origin", "bob"]);
    let (alice, bob) = (sandbox.path("alice"), sandbox.path("bob"));
    let bug = add(&sandbox, &alice, &["Fix bug in parser", "--actor", "alice"]);
    sandbox.git(&alice, ["add", "."]);
    sandbox.git(&alice, ["commit", "-q", "-m", "issue"]);
    sandbox.git(&origin, ["pull", "-q", "--no-rebase", "../alice"]);
    let _ = sandbox.way(&bob, ["init", "--contributor", "--planning", "../bobs-plans"]).ok();
    sandbox.git(&bob, ["pull", "-q"]);
    let idea = add(&sandbox, &bob, &["Explore performance", "--actor", "bob"]);
    let mut seen = ids(&sandbox, &bob, &["list"]);
    seen.sort();
    let mut expected = vec![bug.clone(), idea];
    expected.sort();
    assert_eq!(seen, expected, "bob sees both");
    assert_eq!(ids(&sandbox, &alice, &["list"]), [bug], "alice sees the project's");
    assert_eq!(sandbox.git(&bob, ["status", "--porcelain"]), "");
}

#[test]
fn b8_every_pair_of_status_and_visibility_is_kept() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    let pairs = ["open", "in_progress", "closed", "deferred"].map(|status| {
        ["local", "proposed", "canonical"].map(|visibility| {
            let pair = serde_json::json!({ "id": format!("{status}-{visibility}"), "title": "x", "status": status, "visibility": visibility });
            format!("{pair}\n")
        })
    });
    let text = pairs.concat().concat();
    sandbox.write(repo.join(LEDGER), &text);
    let list = sandbox.way(&repo, ["list", "--all", "--json"]).data();
    for issue in list.as_array().unwrap() {
        let pair = format!("{}-{}", issue["status"].as_str().unwrap(), issue["visibility"].as_str().unwrap());
        assert_eq!(issue["id"], pair);
    }
    assert_eq!(list.as_array().unwrap().len(), 12);
}

#[test]
fn b20_issues_move_between_ledgers_and_a_crash_in_between_is_repaired() {
    let sandbox = sandbox();
    let one = sandbox.git_repo("one");
    let two = sandbox.git_repo("two");
    let mine = add(&sandbox, &one, &["Mine", "--actor", "me", "-l", "x"]);
    let theirs = add(&sandbox, &one, &["Theirs", "--actor", "you", "-l", "x"]);
    let line = lines(&one.join(LEDGER)).into_iter().find(|line| line.contains(&mine)).unwrap();
    let migrate =
        |args: &[&str]| sandbox.way(&one, [&["migrate", "--move-to", "../two", "--actor", "me"], args].concat());
    let run = migrate(&["--filter", "author=me label=x", "--dry-run"]);
    assert!(run.code == 0 && run.stdout.contains(&mine) && !two.join(LEDGER).exists(), "{run:?}");
    let before = std::fs::read(one.join(LEDGER)).unwrap();
    assert_eq!(migrate(&["--filter", "author=me label=x"]).code, 0);
    assert_eq!(lines(&two.join(LEDGER)), [line], "byte for byte");
    assert_eq!(ids(&sandbox, &one, &["list"]), [theirs.as_str()]);
    // Killed after the target was written.
    let after = std::fs::read(one.join(LEDGER)).unwrap();
    sandbox.write(one.join(LEDGER), &before);
    assert_eq!(migrate(&["--filter", "author=me"]).code, 0);
    assert_eq!(std::fs::read(one.join(LEDGER)).unwrap(), after);
    assert_eq!(lines(&two.join(LEDGER)).len(), 1);
    let _ = migrate(&["--filter", "author=me"]).fails(6);
    let _ = migrate(&["--filter", "writer=me"]).fails(2);
    let _ = migrate(&["--filter", "me"]).fails(2);
    // Two different copies are merged, and the losing value is kept in a comment.
    sandbox.write(one.join(LEDGER), String::from_utf8(before).unwrap().replace("Mine", "Changed"));
    assert_eq!(migrate(&["--filter", "author=me"]).code, 0);
    assert_eq!(std::fs::read(one.join(LEDGER)).unwrap(), after);
    let [merged] = lines(&two.join(LEDGER)).try_into().unwrap();
    assert!(merged.contains("Mine") && merged.contains("Changed"), "{merged}");
}

#[test]
fn b21_a_fork_is_detected_only_on_a_terminal() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.git(&repo, ["remote", "add", "origin", "git@example.org:me/p"]);
    sandbox.git(&repo, ["remote", "add", "upstream", "https://example.org/team/p"]);
    // Run on a terminal, with typed answers.
    let mut command = sandbox.command("script", &repo);
    command.args(["-qec", &format!("'{}' init", env!("CARGO_BIN_EXE_way")), "/dev/null"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"y\n../plans\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("looks like a fork") && shown.contains("Path of the planning repository?"), "{shown}");
    assert!(sandbox.path("plans/.waypost").is_dir(), "{shown}");
    assert!(!repo.join(".waypost").exists());
    let again = sandbox.git_repo("again");
    sandbox.git(&again, ["remote", "add", "upstream", "https://example.org/team/p"]);
    let _ = sandbox.way(&again, ["init"]).ok();
    assert!(again.join(".waypost/config.toml").exists(), "without a terminal there is no prompt");
}
