//! `way add`: new issues, and the ledger they go to.

use crate::support::ledger::{LEDGER, add, lines};
use crate::support::repos::{text, with_issue};
use crate::support::sandbox;

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
fn new_ids_follow_the_ledger_then_beads_then_the_remote_then_the_directory() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("elsewhere");
    let prefix = |repo: &std::path::Path| {
        let id = add(&sandbox, repo, &["New"]);
        std::fs::remove_file(repo.join(LEDGER)).unwrap();
        let _ = sandbox.way(repo, ["restore", "--drop"]).ok();
        id.rsplit_once('-').unwrap().0.to_owned()
    };
    assert_eq!(prefix(&repo), "elsewhere");
    sandbox.git(&repo, ["remote", "add", "origin", "git@example.org:team/The-Project.git"]);
    assert_eq!(prefix(&repo), "the-project");
    sandbox.dir(repo.join(".beads"));
    sandbox.write(repo.join(".beads/config.yaml"), "# beads\nissue-prefix: \"bd\"\n");
    assert_eq!(prefix(&repo), "bd");
    let known =
        [r#"{"id":"app-1","title":"One"}"#, r#"{"id":"app-2.1","title":"Two"}"#, r#"{"id":"zoo-1","title":"3"}"#];
    sandbox.write(repo.join(LEDGER), known.join("\n") + "\n");
    assert_eq!(prefix(&repo), "app");
    sandbox.write(repo.join(LEDGER), "{\"id\":\"BV-1\",\"title\":\"One\"}\n");
    assert_eq!(prefix(&repo), "BV", "the spelling of the records stays");
    let _ = sandbox.way(&repo, ["config", "set", "prefix", "mine"]).ok();
    sandbox.write(repo.join(LEDGER), known.join("\n") + "\n");
    assert_eq!(prefix(&repo), "mine");
}

#[test]
fn clones_in_directories_of_any_name_give_new_ids_the_same_prefix() {
    let sandbox = sandbox();
    let seed = sandbox.git_repo("seed");
    sandbox.git(&seed, ["clone", "-q", "--bare", ".", "../project.git"]);
    for name in ["one", "two"] {
        sandbox.git(&sandbox.path("."), ["clone", "-q", "project.git", name]);
        let id = add(&sandbox, &sandbox.path(name), &["New"]);
        assert!(id.starts_with("project-"), "{name}: {id}");
        let data = sandbox.way(&sandbox.path(name), ["init", "--json"]).data();
        assert_eq!(data["prefix"], "project", "{name}");
    }
    // A ledger keeps its prefix when the project gets another name.
    let one = sandbox.path("one");
    std::fs::remove_file(one.join(".waypost/config.toml")).unwrap();
    sandbox.git(&one, ["remote", "set-url", "origin", "../renamed.git"]);
    assert!(add(&sandbox, &one, &["Later"]).starts_with("project-"));
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
fn the_author_is_the_user_of_mercurial_sapling_or_jj() {
    let sandbox = sandbox();
    let by = |repo: &std::path::Path| {
        let data = sandbox.way(repo, ["add", "x", "--json"]).data();
        data["created_by"].as_str().unwrap().to_owned()
    };
    let hg = sandbox.hg_repo("hg");
    sandbox.write("home/.hgrc", "[ui]\nusername = Hugh Example <hugh@example.org>\n");
    assert_eq!(by(&hg), "Hugh Example");
    sandbox.write(hg.join(".hg/hgrc"), "[ui]\nusername = Here\n");
    assert_eq!(by(&hg), "Here", "the repository's configuration overrides the user's");

    sandbox.dir("sl/.sl");
    sandbox.dir("home/.config/sapling");
    sandbox.write("home/.config/sapling/sapling.conf", "[ui]\nusername = Sally <s@example.org>\n");
    assert_eq!(by(&sandbox.path("sl")), "Sally");

    for is_colocated in [false, true] {
        let jj = sandbox.jj_repo(format!("jj-{is_colocated}"), is_colocated);
        sandbox.dir("home/.config/jj");
        sandbox.write(
            "home/.config/jj/config.toml",
            "#:schema x\n[user]\nname = \"Jay Jay\"\nemail = \"j@example.org\"\n",
        );
        let git_dir = if is_colocated { ".git" } else { ".jj/repo/store/git" };
        sandbox.git(&jj, ["--git-dir", git_dir, "config", "user.name", "Git User"]);
        assert_eq!(by(&jj), "Jay Jay", "jj does not use git's name");
        // As `jj config set --repo` writes it.
        sandbox.write(jj.join(".jj/repo/config-id"), "ce1729136eb9ec02442b");
        sandbox.dir("home/.config/jj/repos/ce1729136eb9ec02442b");
        sandbox.write("home/.config/jj/repos/ce1729136eb9ec02442b/config.toml", "user.name = 'Repo Jay'\n");
        assert_eq!(by(&jj), "Repo Jay");
        for file in ["config.toml", "repos/ce1729136eb9ec02442b/config.toml"] {
            std::fs::remove_file(sandbox.path("home/.config/jj").join(file)).unwrap();
        }
        assert_eq!(by(&jj), "Git User");
    }
}

#[test]
fn explicit_routing_needs_the_repository_of_each_new_issue() {
    let sandbox = sandbox();
    let (repo, other) = (sandbox.git_repo("repo"), sandbox.git_repo("other"));
    for has_other in [false, true] {
        if has_other {
            let _ = sandbox.way(&repo, ["config", "--add-repo", "../other"]).ok();
        }
        let _ = sandbox.way(&repo, ["config", "--routing", "explicit"]).ok();
        assert_eq!(sandbox.way(&repo, ["where", "--json"]).data()["route"]["path"], serde_json::Value::Null);
        let run = sandbox.way(&repo, ["add", "Where?"]).fails(2);
        assert!(run.stderr.contains("routing.mode is explicit") && run.stderr.contains("--repo"), "{}", run.stderr);
        sandbox.write("batch", "[{\"op\":\"add\",\"title\":\"Where?\"}]\n");
        let _ = sandbox.way(&repo, ["batch", "../batch"]).fails(2);
        let here = add(&sandbox, &repo, &["Here", "--repo", "."]);
        // A part goes to the ledger of its whole.
        add(&sandbox, &repo, &["Part", "--parent", &here]);
    }
    assert_eq!(lines(&repo.join(LEDGER)).len(), 4);
    add(&sandbox, &repo, &["There", "--repo", "../other"]);
    let _ = sandbox.way(&repo, ["config", "set", "routing.default", "../other"]).ok();
    add(&sandbox, &repo, &["By default"]);
    assert_eq!(lines(&other.join(LEDGER)).len(), 2);
}

#[test]
fn a_declared_contributor_never_writes_the_projects_ledger_in_any_mode() {
    let sandbox = sandbox();
    let (_, fork, planning) = crate::support::repos::contributor(&sandbox);
    let before = std::fs::read(fork.join(LEDGER)).unwrap();
    let check = |what: &str| {
        for args in [
            &["add", "Mine", "--repo", "."][..],
            &["update", "up-1", "--title", "Mine"],
            &["close", "up-1"],
            &["comment", "up-1", "mine"],
            &["claim", "up-1"],
        ] {
            let run = sandbox.way(&fork, args.iter());
            assert!(run.code == 7 && run.stderr.contains("way propose"), "{what}, {args:?}: {run:?}");
        }
        let _ = sandbox.way(&fork, ["add", "Mine"]);
        assert_eq!(std::fs::read(fork.join(LEDGER)).unwrap(), before, "{what}");
    };
    check("auto");
    let _ = sandbox.way(&fork, ["config", "set", "routing.mode", "explicit"]).ok();
    check("explicit");
    let _ = sandbox.way(&fork, ["config", "set", "routing.default", "."]).ok();
    check("explicit, with this repository as the default");
    let _ = sandbox.way(&fork, ["config", "--routing", "single"]).ok();
    check("single");
    let _ = sandbox.way(&fork, ["config", "set", "routing.mode", "auto"]).ok();
    std::fs::rename(&planning, sandbox.path("gone")).unwrap();
    let run = sandbox.way(&fork, ["add", "Mine", "--repo", "."]).fails(7);
    assert!(run.stderr.contains("you may not write the ledger"), "{}", run.stderr);
    assert_eq!(std::fs::read(fork.join(LEDGER)).unwrap(), before, "the planning is gone");
}

/// A clone of another project, as its remotes show.
fn fork(sandbox: &waypost_testkit::Sandbox, name: &str) -> std::path::PathBuf {
    let repo = sandbox.git_repo(name);
    sandbox.git(&repo, ["remote", "add", "origin", "git@example.org:me/p"]);
    sandbox.git(&repo, ["remote", "add", "upstream", "https://example.org/team/p"]);
    repo
}

#[test]
fn a_fork_is_noted_once_and_its_issues_are_hidden_until_a_person_chooses() {
    let sandbox = sandbox();
    let status = |repo: &std::path::Path| sandbox.git(repo, ["status", "--porcelain", "-uall"]);
    let note = "you may not have write access to this project";
    for (name, choice) in [
        ("maintainer", &["init", "--maintainer"][..]),
        ("team", &["init"]),
        ("config", &["config", "set", "role", "maintainer"]),
    ] {
        let repo = fork(&sandbox, name);
        let exclude = repo.join(".git/info/exclude");
        let run = sandbox.way(&repo, ["add", "Mine"]);
        assert!(
            run.code == 0 && run.stderr.contains(note) && run.stderr.contains("way init --contributor"),
            "{}",
            run.stderr
        );
        assert_eq!(status(&repo), "", "{name}");
        let run = sandbox.way(&repo, ["list"]).ok();
        assert!(!run.stderr.contains(note) && run.stdout.contains("Mine"), "{run:?}");
        let run = sandbox.way(&repo, ["sync"]).fails(7);
        assert!(run.stderr.contains("you have not chosen"), "{}", run.stderr);
        assert!(std::fs::read_to_string(&exclude).unwrap().contains("/.waypost/\n"));
        let _ = sandbox.way(&repo, choice.iter()).ok();
        let _ = sandbox.way(&repo, ["list"]).ok();
        assert!(status(&repo).contains(&format!("?? {LEDGER}\n")), "{name}: {}", status(&repo));
        let run = sandbox.way(&repo, ["add", "Later"]).ok();
        assert!(!run.stderr.contains(note) && status(&repo).contains(LEDGER), "{name}: {run:?}");
    }
    let repo = fork(&sandbox, "contributor");
    let _ = sandbox.way(&repo, ["init", "--contributor", "--planning", "../planning"]).ok();
    let run = sandbox.way(&repo, ["add", "Mine"]).ok();
    assert!(!run.stderr.contains(note) && status(&repo).is_empty(), "{run:?}");

    // Push access is unknown too if the only remote is fetched without credentials.
    let repo = sandbox.git_repo("anonymous");
    sandbox.git(&repo, ["remote", "add", "origin", "https://example.org/team/p"]);
    let data = sandbox.way(&repo, ["ready", "--json"]);
    assert!(data.stdout.contains(note), "{data:?}");
    add(&sandbox, &repo, &["Mine"]);
    assert_eq!(status(&repo), "");

    // A tracked ledger stays tracked.
    let repo = fork(&sandbox, "tracked");
    sandbox.dir(repo.join(".waypost"));
    sandbox.write(repo.join(LEDGER), "{\"id\":\"up-1\",\"title\":\"Theirs\"}\n");
    sandbox.git(&repo, ["add", "."]);
    sandbox.git(&repo, ["commit", "-q", "-m", "ledger"]);
    let run = sandbox.way(&repo, ["list"]);
    assert!(run.code == 0 && run.stderr.contains(note) && !run.stderr.contains("git does not see"), "{}", run.stderr);
    assert!(!std::fs::read_to_string(repo.join(".git/info/exclude")).unwrap_or_default().contains("/.waypost/"));
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
fn every_field_of_an_issue_can_be_set_when_it_is_added() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let fields = [
        ("--description", "description", "why"),
        ("--design", "design", "how"),
        ("--acceptance", "acceptance_criteria", "when"),
        ("--notes", "notes", "and"),
        ("--status", "status", "blocked"),
        ("--assignee", "assignee", "ann"),
        ("--owner", "owner", "bob"),
        ("--external-ref", "external_ref", "gh-7"),
    ];
    let options = fields.iter().flat_map(|(option, _, value)| [*option, *value]);
    let args: Vec<&str> = ["--json", "add", "Title", "--estimate", "30"].into_iter().chain(options).collect();
    let added = sandbox.way(&repo, args).data();
    for (option, field, value) in fields {
        assert_eq!(added[field], value, "{option}");
    }
    assert_eq!(added["estimated_minutes"], 30);
}
