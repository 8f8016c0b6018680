//! Every kind of repository, with the real tools.

use std::path::Path;

use serde_json::Value;
use waypost_testkit::Sandbox;

use crate::support::vcs::place;
use crate::support::{sandbox, text};

fn store(sandbox: &Sandbox, dir: &Path) -> String {
    place(sandbox, dir)["store"]["path"].as_str().unwrap().to_owned()
}

fn id(sandbox: &Sandbox, dir: &Path) -> String {
    let _ = sandbox.way(dir, ["status"]).ok();
    place(sandbox, dir)["worktree"]["id"].as_str().unwrap().to_owned()
}

#[test]
fn jj_alone_keeps_state_in_its_own_directory() {
    let sandbox = sandbox();
    let repo = sandbox.jj_repo("repo", false);
    assert_eq!(store(&sandbox, &repo), text(&repo.join(".jj/repo/waypost/state.db")));
    let data = sandbox.way(&repo, ["worktree", "add", "second", "--json"]).data();
    let second = sandbox.path("repo-second");
    assert_eq!((data["name"].as_str(), data["path"].as_str()), (Some("second"), Some(text(&second))));
    assert_eq!(store(&sandbox, &second), store(&sandbox, &repo));
    assert_ne!(id(&sandbox, &second), id(&sandbox, &repo));
    sandbox.jj(&repo, ["workspace", "add", "../third"]);
    let list = sandbox.way(&second, ["worktree", "list", "--json"]).data();
    let names: Vec<_> =
        list.as_array().unwrap().iter().map(|one| (one["name"].clone(), one["state"].clone())).collect();
    let expected = [("default", "present"), ("second", "here"), ("third", "new")];
    assert_eq!(names, expected.map(|(name, state)| (name.into(), state.into())));
    // jj commits every file it sees; it must not see Waypost's.
    for dir in [&repo, &second] {
        assert_eq!(sandbox.jj(dir, ["file", "list"]), "");
    }
    let again = sandbox.way(&repo, ["worktree", "add", "second", "--json"]).data();
    assert_eq!(again["created"], false);
}

#[test]
fn programs_configured_by_a_mercurial_repository_are_not_run() {
    let sandbox = sandbox();
    let repo = sandbox.hg_repo("repo");
    let canary = sandbox.path("canary");
    let evil = format!("touch '{}'", text(&canary));
    sandbox.write(
        repo.join(".hg/hgrc"),
        format!("[hooks]\npre-status = {evil}\npre-share = {evil}\nupdate = {evil}\n[alias]\nshare = !{evil}\n"),
    );
    // Mercurial itself runs all of these programs.
    for args in [&["status"][..], &["update"], &["share"]] {
        let _ = sandbox.command("hg", &repo).args(args).output().unwrap();
        assert!(canary.exists(), "{args:?} runs nothing");
        std::fs::remove_file(&canary).unwrap();
    }
    let _ = sandbox.way(&repo, ["worktree", "add", "topic"]).ok();
    let _ = sandbox.way(&repo, ["worktree", "rm", "topic"]).ok();
    assert!(!canary.exists());
}

#[test]
fn jj_and_git_in_one_directory_are_one_repository() {
    let sandbox = sandbox();
    let repo = sandbox.jj_repo("repo", true);
    sandbox.write(repo.join("file"), "x");
    sandbox.jj(&repo, ["commit", "-m", "first"]);
    assert_eq!(place(&sandbox, &repo)["repository"]["vcs"], "jj");
    assert_eq!(store(&sandbox, &repo), text(&repo.join(".git/waypost/state.db")));
    let main = id(&sandbox, &repo);
    sandbox.jj(&repo, ["workspace", "add", "../space"]);
    sandbox.git(&repo, ["worktree", "add", "-q", "--detach", "../tree", "HEAD"]);
    let (space, tree) = (sandbox.path("space"), sandbox.path("tree"));
    assert_eq!(store(&sandbox, &space), store(&sandbox, &repo));
    assert_eq!(store(&sandbox, &tree), store(&sandbox, &repo));
    assert_eq!(place(&sandbox, &tree)["repository"]["vcs"], "git");
    assert_ne!(id(&sandbox, &space), id(&sandbox, &tree));
    // In one of git's hooks the same directory is seen through git.
    let through_git = sandbox.way_with(&repo, &[("GIT_DIR", ".git".as_ref())], ["where", "--json"]).data();
    assert_eq!(through_git["worktree"]["id"], *main);
    assert_eq!(sandbox.git(&repo, ["status", "--porcelain"]), "");
    assert_eq!(sandbox.jj(&space, ["file", "list"]), "file\n");
}

#[test]
fn state_is_found_again_when_jj_and_git_are_separated_or_colocated() {
    let sandbox = sandbox();
    let repo = sandbox.jj_repo("repo", true);
    let main = id(&sandbox, &repo);
    let events = |dir: &Path| sandbox.way(dir, ["status", "--json"]).data()["store"]["events"].as_u64();
    let _ = sandbox.way(&repo, ["db", "probe", "--writes", "3"]).ok();
    sandbox.jj(&repo, ["git", "colocation", "disable"]);
    assert!(!repo.join(".git").exists());
    // Jj moved the directory. The user tells that it is the same.
    let adopt = |dir: &Path| {
        let _ = sandbox.way(dir, ["status"]).fails(7);
        let _ = sandbox.way(dir, ["init", "--adopt"]).ok();
    };
    adopt(&repo);
    assert_eq!((id(&sandbox, &repo), events(&repo)), (main.clone(), Some(5)));
    sandbox.jj(&repo, ["git", "colocation", "enable"]);
    assert_eq!((id(&sandbox, &repo), events(&repo)), (main, Some(5)));

    let git_first = sandbox.git_repo("git-first");
    let before = id(&sandbox, &git_first);
    sandbox.jj(&git_first, ["git", "init", "--colocate"]);
    assert_eq!(place(&sandbox, &git_first)["repository"]["vcs"], "jj");
    assert_eq!(id(&sandbox, &git_first), before);

    let jj_first = sandbox.jj_repo("jj-first", false);
    let before = id(&sandbox, &jj_first);
    sandbox.jj(&jj_first, ["git", "colocation", "enable"]);
    adopt(&jj_first);
    assert_eq!((id(&sandbox, &jj_first), events(&jj_first)), (before, Some(2)));
}

#[test]
fn mercurial_and_its_shares_are_one_repository() {
    let sandbox = sandbox();
    let repo = sandbox.hg_repo("repo");
    assert_eq!(store(&sandbox, &repo), text(&repo.join(".hg/waypost/state.db")));
    let data = sandbox.way(&repo, ["worktree", "add", "topic", "--json"]).data();
    let share = sandbox.path("repo-topic");
    assert_eq!((data["path"].as_str(), data["branch"].as_str()), (Some(text(&share)), Some("topic")));
    assert!(share.join("file").exists());
    assert_eq!(store(&sandbox, &share), store(&sandbox, &repo));
    assert_ne!(id(&sandbox, &share), id(&sandbox, &repo));
    assert_eq!(place(&sandbox, &repo)["worktree"]["branch"], "default");
    let list = sandbox.way(&repo, ["worktree", "list", "--json"]).data();
    assert_eq!(list.as_array().unwrap().len(), 2);
    assert_eq!(list[1]["state"], "present");
    let again = sandbox.way(&repo, ["worktree", "add", "topic", "--json"]).data();
    assert_eq!(again["created"], false);
    for dir in [&repo, &share] {
        assert_eq!(sandbox.hg(dir, ["status"]), "");
    }
    let topic = id(&sandbox, &share);
    let seen = || sandbox.way(&repo, ["worktree", "list", "--json", "--worktree", &topic]).data()[0].clone();
    let away = sandbox.path("away");
    std::fs::rename(&share, &away).unwrap();
    assert_eq!(seen()["state"], "gone");
    let _ = sandbox.way(&away, ["db", "probe", "--writes", "1"]).ok();
    assert_eq!((seen()["state"].as_str(), seen()["path"].as_str()), (Some("present"), Some(text(&away))));
}

#[test]
fn sapling_and_its_shares_are_one_repository() {
    // Sapling is not available as a package. These are the files it creates.
    let sandbox = sandbox();
    let repo = sandbox.dir("repo");
    sandbox.dir("repo/.sl/store");
    sandbox.write(repo.join(".sl/config"), "[paths]\ndefault = https://me:secret@example.org/repo\n");
    sandbox.write(repo.join(".sl/bookmarks.current"), "topic");
    sandbox.dir("share/.sl");
    sandbox.write("share/.sl/sharedpath", text(&repo.join(".sl")));
    let data = place(&sandbox, &repo);
    assert_eq!(data["repository"]["vcs"], "sl");
    assert_eq!(data["repository"]["remote_url"], "https://example.org/repo");
    assert_eq!(data["worktree"]["branch"], "topic");
    assert_eq!(store(&sandbox, &sandbox.path("share")), text(&repo.join(".sl/waypost/state.db")));
    assert_eq!(store(&sandbox, &repo), store(&sandbox, &sandbox.path("share")));
}

#[test]
fn the_nearest_repository_is_used() {
    let sandbox = sandbox();
    let outer = sandbox.git_repo("outer");
    let inner = sandbox.git_repo("outer/inner");
    assert_eq!(store(&sandbox, &inner), text(&inner.join(".git/waypost/state.db")));
    sandbox.dir("outer/empty/.git");
    assert_eq!(store(&sandbox, &sandbox.path("outer/empty")), text(&outer.join(".git/waypost/state.db")));
    let mercurial = sandbox.hg_repo("outer/mercurial");
    assert_eq!(place(&sandbox, &mercurial)["repository"]["vcs"], "hg");
    let inside = sandbox.jj_repo("outer/jj", false);
    assert_eq!(place(&sandbox, &inside)["repository"]["vcs"], "jj");
}

#[test]
fn a_bare_repository_hidden_in_a_tree_is_content() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.git(&repo, ["init", "-q", "--bare", "hidden"]);
    sandbox.dir("repo/hidden/waypost");
    sandbox.write(repo.join("hidden/waypost/config.toml"), "scope = 'global'\n");
    let data = place(&sandbox, &repo.join("hidden"));
    assert_eq!(data["store"]["path"], text(&repo.join(".git/waypost/state.db")));
    assert_eq!(data["store"]["scope"], "repo");
}

#[test]
fn a_git_directory_kept_elsewhere_is_found() {
    let sandbox = sandbox();
    let repo = sandbox.dir("repo");
    sandbox.git(&repo, ["init", "-q", "-b", "main", "--separate-git-dir", "../git"]);
    sandbox.git(&repo, ["commit", "-q", "--allow-empty", "-m", "first"]);
    sandbox.git(&repo, ["worktree", "add", "-q", "../tree"]);
    assert_eq!(store(&sandbox, &repo), text(&sandbox.path("git/waypost/state.db")));
    assert_eq!(place(&sandbox, &repo)["worktree"]["path"], text(&repo));
    assert_eq!(store(&sandbox, &sandbox.path("tree")), store(&sandbox, &repo));
}

#[test]
fn a_worktree_of_a_submodule_belongs_to_the_submodule() {
    let sandbox = sandbox();
    let library = sandbox.git_repo("library");
    let repo = sandbox.git_repo("repo");
    sandbox.git(&repo, ["-c", "protocol.file.allow=always", "submodule", "add", "-q", text(&library), "sub"]);
    sandbox.git(&repo.join("sub"), ["worktree", "add", "-q", "-b", "topic", "../../tree"]);
    let data = place(&sandbox, &sandbox.path("tree"));
    assert_eq!(data["store"]["path"], text(&repo.join(".git/modules/sub/waypost/state.db")));
    assert_eq!(data["repository"]["path"], text(&repo.join("sub")));
    assert_eq!(data["ledger"]["path"], text(&repo.join("sub/.waypost/issues.jsonl")));
}

#[test]
fn a_worktree_whose_repository_moved_gets_a_hint_how_to_repair_it() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.git(&repo, ["worktree", "add", "-q", "../tree"]);
    let tree = sandbox.path("tree");
    let before = id(&sandbox, &tree);
    std::fs::rename(&repo, sandbox.path("moved")).unwrap();
    let run = sandbox.way(&tree, ["status"]).fails(8);
    assert!(run.stderr.contains("git worktree repair"), "{}", run.stderr);
    sandbox.git(&sandbox.path("moved"), ["worktree", "repair", text(&tree)]);
    let _ = sandbox.way(&tree, ["init", "--adopt"]).ok();
    assert_eq!(id(&sandbox, &tree), before);
    for content in ["", "nonsense", "gitdir: \n", "gitdir: /nonexistent\n"] {
        sandbox.write(tree.join(".git"), content);
        let _ = sandbox.way(&tree, ["status"]).fails(8);
    }
}

#[test]
fn a_worktree_moved_by_hand_keeps_its_id() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.git(&repo, ["worktree", "add", "-q", "../tree"]);
    let before = id(&sandbox, &sandbox.path("tree"));
    std::fs::rename(sandbox.path("tree"), sandbox.path("by-hand")).unwrap();
    assert_eq!(id(&sandbox, &sandbox.path("by-hand")), before);
}

#[test]
fn a_repository_with_a_reftable_works() {
    let sandbox = sandbox();
    let repo = sandbox.dir("repo");
    sandbox.git(&repo, ["init", "-q", "--ref-format=reftable", "-b", "main"]);
    sandbox.git(&repo, ["commit", "-q", "--allow-empty", "-m", "first"]);
    assert_eq!(place(&sandbox, &repo)["worktree"]["branch"], Value::Null);
    let _ = sandbox.way(&repo, ["worktree", "add", "topic"]).ok();
    let again = sandbox.way(&repo, ["worktree", "add", "topic", "--json"]).data();
    assert_eq!(again["created"], false);
}
