//! Many workspaces at once, made by as many processes, while the user works in the main checkout.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

use waypost_testkit::Run;

use crate::support::jobs::{Shop, path};
use crate::support::mounts::{Unmounted, require_overlays};

/// Makes this many workspaces at once with a strategy, then removes them. No command fails, there or in the checkout.
fn at_once(shop: &Shop, strategy: &str, count: usize) {
    let _mounts = Unmounted::below(&shop.root());
    let _ = shop.way(["status"]).ok();
    let config = fs::read(shop.repo.join(".git/config")).unwrap();
    let start = |_| {
        let mut command = shop.command();
        command.args(["ws", "new", "--strategy", strategy, "--json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut children: Vec<_> = (0..count).map(start).collect();
    let mut commits = 0;
    while commits < 5 || children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
        shop.sandbox.write(shop.repo.join("file"), format!("{commits}\n"));
        shop.sandbox.git(&shop.repo, ["commit", "--quiet", "-am", "More"]);
        shop.sandbox.git(&shop.repo, ["status"]);
        shop.sandbox.git(&shop.repo, ["log", "-1"]);
        // Git reads all worktrees, and fails if one of them is just being added. A copy of a repository made during
        // its garbage collection is incomplete.
        if !["worktree", "copy"].contains(&strategy) {
            shop.sandbox.git(&shop.repo, ["gc", "--quiet", "--prune=now"]);
            shop.sandbox.git(&shop.repo, ["branch"]);
        }
        commits += 1;
    }
    let mut places = BTreeSet::new();
    for child in children {
        let made = Run::of(&child.wait_with_output().unwrap()).data();
        let workspace = path(&made["path"]);
        assert!(workspace.join("file").is_file() && workspace.join(".gitignore").is_file(), "{made}");
        if ["clone", "overlay", "worktree"].contains(&strategy) {
            assert_eq!(shop.sandbox.git(workspace, ["status", "--porcelain"]), "");
            if places.len().is_multiple_of(10) {
                shop.sandbox.git(workspace, ["fsck", "--connectivity-only"]);
            }
        }
        places.insert(workspace.to_owned());
    }
    let listed: BTreeSet<_> = shop.workspaces().iter().map(|one| path(&one["path"]).to_owned()).collect();
    assert_eq!((places.len(), &listed), (count, &places));
    // The checkout has its own commits and is otherwise unchanged.
    assert_eq!(shop.sandbox.git(&shop.repo, ["status", "--porcelain"]), "");
    assert_eq!(shop.sandbox.git(&shop.repo, ["rev-list", "--count", "HEAD"]).trim(), (commits + 2).to_string());
    assert_eq!(fs::read(shop.repo.join(".git/config")).unwrap(), config);
    assert_eq!(shop.sandbox.git(&shop.repo, ["stash", "list"]), "");
    if strategy == "copy" {
        return;
    }
    let _ = shop.way(["ws", "gc", "--older-than", "0s"]).ok();
    assert_eq!(shop.workspaces().len(), 0);
    let refs = shop.sandbox.git(&shop.repo, ["for-each-ref", "--format=%(refname)"]);
    assert_eq!(refs.lines().collect::<Vec<_>>(), ["refs/heads/main", "refs/remotes/origin/main"]);
    assert_eq!(shop.sandbox.git(&shop.repo, ["worktree", "list"]).lines().count(), 1);
}

#[test]
fn p2_p20_fifty_clones_at_once_all_succeed() {
    at_once(&Shop::new(), "clone", 50);
}

#[test]
fn p2_fifty_worktrees_at_once_all_succeed() {
    at_once(&Shop::new(), "worktree", 50);
}

#[test]
fn p2_fifty_copies_at_once_all_succeed() {
    at_once(&Shop::new(), "copy", 50);
}

#[test]
fn p2_fifty_overlays_at_once_all_succeed() {
    let shop = Shop::new();
    require_overlays(&shop);
    at_once(&shop, "overlay", 50);
}

#[test]
fn p2_twenty_workspaces_of_jj_at_once_all_succeed() {
    // Fifty take jj a minute, since it makes them one after the other.
    let also = std::env::var("WAYPOST_TEST_CROWD").ok().and_then(|count| count.parse().ok());
    for count in std::iter::once(20).chain(also) {
        let shop = Shop::new();
        let repo = shop.sandbox.jj_repo("jj", true);
        let shop = Shop { sandbox: shop.sandbox, repo, remote: shop.remote };
        shop.sandbox.write(shop.repo.join("file"), "one\n");
        shop.sandbox.jj(&shop.repo, ["commit", "-m", "One"]);
        let start = |_| {
            let mut command = shop.command();
            command.args(["ws", "new", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let mut children: Vec<_> = (0..count).map(start).collect();
        let mut looks = 0;
        while looks < 3 || children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
            shop.sandbox.git(&shop.repo, ["status"]);
            shop.sandbox.git(&shop.repo, ["log", "-1"]);
            looks += 1;
        }
        for child in children {
            let made = Run::of(&child.wait_with_output().unwrap()).data();
            assert_eq!(fs::read_to_string(path(&made["path"]).join("file")).unwrap(), "one\n");
        }
        assert_eq!(shop.workspaces().len(), count);
        assert_eq!(shop.sandbox.jj(&shop.repo, ["workspace", "list"]).lines().count(), count + 1);
        assert_eq!(shop.sandbox.jj(&shop.repo, ["diff", "--summary"]), "");
    }
}
