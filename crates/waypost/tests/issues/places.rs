//! Where the store and the ledger are, from any directory.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::json;
use waypost::Kind;
use waypost::machine::place::{Location, Scope, StoreChoice};
use waypost::op::ListWorktrees;
use waypost_testkit::{Sandbox, unavailable};

use crate::desk::{Desk, refusal};

fn store(desk: &Desk) -> StoreChoice {
    desk.place().unwrap().store().unwrap()
}

fn store_path(desk: &Desk) -> PathBuf {
    match store(desk).location {
        Location::Sqlite(path) => path,
        other => panic!("{other}"),
    }
}

/// Opens the store, which creates it, and returns its path.
fn opened(desk: &Desk) -> PathBuf {
    match desk.session(|session| Ok(session.choice.location.clone())) {
        Location::Sqlite(path) => path,
        other => panic!("{other}"),
    }
}

fn ledger(desk: &Desk) -> (PathBuf, &'static str) {
    let (path, source) = desk.place().unwrap().ledger().unwrap();
    (path, source.source)
}

#[test]
fn a1_the_variable_takes_precedence_and_reading_creates_nothing() {
    let desk = Desk::new();
    let db = desk.sandbox.path("elsewhere/my.db");
    let named = desk.with_variable("WAYPOST_DB", &db);
    let choice = store(&named);
    assert_eq!(store_path(&named), db);
    assert_eq!((choice.source.source, choice.source.because.as_str()), ("env", "WAYPOST_DB"));
    assert!(!db.parent().unwrap().exists());
    assert!(!desk.path(".git/waypost").exists() && !desk.path(".waypost").exists());
}

#[test]
fn a2_a_fresh_repository_needs_no_set_up() {
    let desk = Desk::new();
    assert_eq!(store(&desk).source.source, "default");
    assert_eq!(opened(&desk), desk.path(".git/waypost/state.db"));
    assert!(desk.path(".git/waypost/state.db").is_file());
}

#[test]
fn a3_two_repositories_share_nothing() {
    let one = Desk::in_new_sandbox(|sandbox| sandbox.git_repo("one/repo"));
    let other = one.repository("other/repo");
    let list =
        |desk: &Desk| desk.session(|session| session.call(waypost::op::decode::<ListWorktrees>(&json!({}))?)).worktrees;
    let (first, second) = (list(&one), list(&other));
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_eq!(first[0].name, second[0].name, "the same name in both");
    assert_ne!(first[0].id, second[0].id);
}

#[test]
fn scopes_come_from_flags_then_configuration_then_the_default() {
    let desk = Desk::new();
    desk.set("scope", "global");
    assert_eq!(store_path(&desk), desk.sandbox.path("home/.waypost/state.db"));
    assert_eq!(store(&desk).source.source, "config");
    let by_variable = store(&desk.with_variable("WAYPOST_SCOPE", "repo"));
    assert_eq!((by_variable.source.source, by_variable.scope), ("env", Some(Scope::Repo)));
    let by_flag = desk.with_scope(Scope::Repo);
    assert_eq!(store(&by_flag).source.source, "flag");
    assert_eq!(store_path(&by_flag), desk.path(".git/waypost/state.db"));
}

#[test]
fn a_store_of_one_worktree_is_kept_apart_and_survives_the_worktree() {
    let desk = Desk::new().with_scope(Scope::Worktree);
    desk.git(["worktree", "add", "-q", "../tree"]);
    let tree = desk.in_dir("tree");
    let (here, there) = (opened(&desk), opened(&tree));
    assert_ne!(here, there);
    let worktrees = desk.path(".git/waypost/worktrees/wt_");
    assert!(there.to_str().unwrap().starts_with(worktrees.to_str().unwrap()), "{}", there.display());
    desk.git(["worktree", "remove", "../tree"]);
    assert!(there.is_file());
}

#[test]
fn a16_empty_is_unset_tilde_is_home_and_relative_is_from_here() {
    let desk = Desk::new();
    let sub = desk.in_dir(desk.sandbox.dir("repo/sub"));
    let with = |value: &str| store_path(&sub.with_variable("WAYPOST_DB", value));
    assert_eq!(with(""), desk.path(".git/waypost/state.db"));
    assert_eq!(with("~/x.db"), desk.sandbox.path("home/x.db"));
    assert_eq!(with("x.db"), sub.path("x.db"));
}

#[test]
fn a17_subdirectory_symlink_submodule_and_bare_repository_resolve_right() {
    let desk = Desk::new();
    opened(&desk);
    let deep = desk.sandbox.dir("repo/a/b/c");
    symlink(&desk.dir, desk.sandbox.path("link")).unwrap();
    let ids = |desk: &Desk| {
        let place = desk.place().unwrap();
        (place.repository_id().unwrap(), place.worktree_id().unwrap(), store_path(desk))
    };
    let main = ids(&desk);
    assert!(main.0.is_some() && main.1.is_some());
    for dir in [deep, desk.sandbox.path("link"), desk.sandbox.path("link/a/b"), desk.path(".git/hooks")] {
        assert_eq!(ids(&desk.in_dir(&dir)), main, "{}", dir.display());
    }

    desk.repository("library");
    desk.git(["-c", "protocol.file.allow=always", "submodule", "add", "-q", "../library", "sub"]);
    let sub = desk.in_dir(desk.path("sub"));
    opened(&sub);
    let inside = ids(&sub);
    assert_eq!(inside.2, desk.path(".git/modules/sub/waypost/state.db"));
    assert_ne!(inside.0, main.0);
    assert_eq!(sub.place().unwrap().checkout.unwrap().main_root, Some(sub.dir.clone()));

    desk.in_dir("").git(["clone", "-q", "--bare", "repo", "bare.git"]);
    let bare = desk.in_dir("bare.git");
    assert_eq!(opened(&bare), bare.path("waypost/state.db"));
    let checkout = bare.place().unwrap().checkout.unwrap();
    assert_eq!((&checkout.root, checkout.repository_name().as_str()), (&None, "bare"));
}

#[test]
fn a_bare_repository_with_worktrees_keeps_its_ledger_with_the_default_branch() {
    let origin = Desk::in_new_sandbox(|sandbox| sandbox.git_repo("origin"));
    let project = origin.in_dir(origin.sandbox.dir("project"));
    project.git(["clone", "-q", "--bare", "../origin", ".bare"]);
    project.write(".git", "gitdir: ./.bare\n");
    project.git(["worktree", "add", "-q", "main"]);
    project.git(["worktree", "add", "-q", "-b", "topic", "topic"]);
    for dir in ["", ".bare", "main", "topic"] {
        let desk = project.in_dir(project.path(dir));
        assert_eq!(store_path(&desk), project.path(".bare/waypost/state.db"), "from {dir}");
        assert_eq!(ledger(&desk).0, project.path("main/.waypost/issues.jsonl"), "from {dir}");
        assert_eq!(desk.place().unwrap().checkout.unwrap().repository_name(), "project");
    }
}

#[test]
fn the_ledger_can_follow_the_branch_and_beads_are_used_in_place() {
    let desk = Desk::new();
    desk.git(["worktree", "add", "-q", "../tree"]);
    let tree = desk.in_dir("tree");
    assert_eq!(ledger(&tree).0, desk.path(".waypost/issues.jsonl"));
    tree.set("ledger.home", "branch");
    assert_eq!(ledger(&tree), (tree.path(".waypost/issues.jsonl"), "config"));
    desk.write(".beads/issues.jsonl", "");
    assert_eq!(ledger(&desk).0, desk.path(".beads/issues.jsonl"));
}

#[test]
fn g10_reading_starts_no_process() {
    let desk = Desk::new();
    desk.git(["worktree", "add", "-q", "../tree"]);
    let tree = desk.in_dir("tree").with_variable("PATH", "/nonexistent");
    assert_eq!(store_path(&tree), desk.path(".git/waypost/state.db"));
    assert_eq!(opened(&tree), desk.path(".git/waypost/state.db"));
}

#[test]
fn a_repository_of_another_user_is_refused() {
    let desk = Desk::new();
    let given = desk.sandbox.command("chown", &desk.dir).args(["-R", "65534"]).arg(&desk.dir).output().unwrap();
    if !given.status.success() {
        unavailable("this user may not give files away");
    }
    let said = refusal(Kind::Refused, desk.place());
    assert!(said.contains("belongs to user 65534"), "{said}");
    assert!(!desk.path(".git/waypost").exists() && !desk.path(".waypost").exists());
}

#[test]
fn an_unset_home_stops_only_what_needs_it() {
    let desk = Desk::new().with_variable("HOME", "");
    assert!(desk.place().unwrap().home.is_none());
    // Without it, no private directory could be told from one that a stranger made.
    let open = |desk: &Desk| desk.enter(|place| waypost::app::session::Session::open(place).map(drop));
    for desk in [&desk, &desk.with_scope(Scope::Global)] {
        let said = refusal(Kind::Invalid, open(desk));
        assert!(said.contains("WAYPOST_HOME"), "{said}");
    }
    assert!(!desk.path(".git/waypost").exists());
    refusal(Kind::Invalid, open(&desk.with_db("~/x.db")));
    let named = desk.with_variable("WAYPOST_HOME", "mine").with_scope(Scope::Global);
    assert_eq!(store_path(&named), desk.path("mine/state.db"));
}

#[test]
fn the_home_directory_is_not_a_repository_because_of_our_own_directory() {
    let home = Desk::in_new_sandbox(|sandbox| sandbox.path("home"));
    let global = home.with_scope(Scope::Global);
    assert_eq!(opened(&global), home.path(".waypost/state.db"));
    assert!(home.path(".waypost/state.db").is_file());
    symlink(&home.dir, home.sandbox.path("other-home")).unwrap();
    for desk in [&home, &home.with_variable("HOME", home.sandbox.path("other-home"))] {
        assert!(desk.place().unwrap().checkout.is_none());
        let said = refusal(Kind::Invalid, desk.place().unwrap().store());
        assert!(said.contains("is not in a repository"), "{said}");
    }
}

#[test]
fn the_directory_of_another_user_or_another_home_is_no_repository() {
    let desk = Desk::in_new_sandbox(|sandbox: &Sandbox| sandbox.dir("elsewhere/deep/er"));
    // With this home, state is in elsewhere/.waypost.
    let elsewhere = desk.with_variable("HOME", desk.sandbox.path("elsewhere")).with_scope(Scope::Global);
    assert_eq!(opened(&elsewhere), desk.sandbox.path("elsewhere/.waypost/state.db"));
    let refused = |desk: &Desk| {
        let said = refusal(Kind::Invalid, desk.place().unwrap().store());
        assert!(said.contains("is not in a repository"), "{said}");
    };
    refused(&desk);
    assert!(!desk.sandbox.path("elsewhere/.waypost/local").exists());
    // The default home is not a repository either when WAYPOST_HOME names another one.
    let own = desk.sandbox.dir("home/.waypost");
    desk.sandbox.write(own.join("config.toml"), "");
    let inside = desk.in_dir(desk.sandbox.dir("home/project"));
    refused(&inside.with_variable("WAYPOST_HOME", desk.sandbox.path("named")));
    // A repository without version control is found as before.
    desk.sandbox.dir("plain/.waypost");
    let plain = desk.in_dir(desk.sandbox.dir("plain/deep"));
    assert_eq!(store_path(&plain), desk.sandbox.path("plain/.waypost/local/state.db"));
}

#[test]
fn paths_of_any_bytes_work() {
    let sandbox = Desk::in_new_sandbox(|sandbox| sandbox.path(""));
    for name in [
        b"with space".to_vec(),
        b"new\nline".to_vec(),
        b"not-utf8-\xff\xfe".to_vec(),
        b"-dash".to_vec(),
        b"quote'\"$(x)`".to_vec(),
    ] {
        let repo = sandbox.sandbox.git_repo(OsString::from_vec(name.clone()));
        let tree = sandbox.sandbox.path(OsStr::from_bytes(&[name.as_slice(), b" tree\nx"].concat()));
        let mut add = sandbox.sandbox.command("git", &repo);
        assert!(add.args(["worktree", "add", "-q", "-b", "topic"]).arg(&tree).status().unwrap().success());
        let (desk, linked) = (sandbox.in_dir(&repo), sandbox.in_dir(&tree));
        assert_eq!(store_path(&desk), store_path(&linked));
        let root = |desk: &Desk| desk.place().unwrap().checkout.unwrap().root.unwrap();
        assert_eq!((root(&desk).as_path(), root(&linked).as_path()), (repo.as_path(), Path::new(&tree)));
        let list = |desk: &Desk| {
            desk.session(|session| session.call(waypost::op::decode::<ListWorktrees>(&json!({}))?)).worktrees.len()
        };
        assert_eq!((list(&desk), list(&linked)), (1, 2));
    }
}
