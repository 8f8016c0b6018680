//! `way add`: new issues, and the ledger they go to.

use crate::support::sandbox;

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

#[test]
fn the_author_and_the_repository_of_a_new_issue_can_be_named() {
    let sandbox = sandbox();
    let (repo, other) = (sandbox.git_repo("repo"), sandbox.git_repo("other"));
    let by = |args: &[&str]| sandbox.way(&repo, [&["add", "x", "--json"], args].concat()).data()["created_by"].clone();
    assert_eq!((by(&[]), by(&["--actor", "me"])), ("tester".into(), "me".into()));
    let _ = sandbox.way(&repo, ["config", "--add-repo", "../other", "--routing", "explicit"]).ok();
    assert_eq!(sandbox.way(&repo, ["where", "--json"]).data()["route"]["path"], serde_json::Value::Null);
    let run = sandbox.way(&repo, ["add", "Where?"]).fails(2);
    assert!(run.stderr.contains("--repo"), "{}", run.stderr);
    let there = sandbox.way(&repo, ["add", "There", "--repo", "../other", "--json"]).data();
    assert_eq!(there["source_repo"], other.to_str().unwrap());
    let _ = sandbox.way(&repo, ["where", "--role", "boss"]).fails(2);
}
