//! Sync pushes the ledger, and nothing else of the user.

use super::*;
use waypost_workspace::sync::{Change, Ledger, Push, Request as SyncRequest, Synced, sync};

const LEDGER: &str = ".waypost/issues.jsonl";

fn sync_ledger(repo: &Path, push: Push) -> Synced {
    let (checkout, file) = (checkout(repo), repo.join(LEDGER));
    let request = SyncRequest {
        checkout: &checkout,
        root: repo,
        path: LEDGER,
        is_separate: false,
        push,
        dry_run: false,
        network: NetworkOptions::default(),
    };
    let read = || Ok(fs::read(&file).ok());
    let change = |change: &Change<'_>| {
        let after = change(&fs::read(&file).unwrap_or_default())?;
        waypost_fs::replace(&file, &after, 0o644).map_err(|error| Error::internal(error.to_string()))?;
        Ok(after)
    };
    let merge = |_: Option<&[u8]>, ours: &[u8], _: &[u8]| Ok(ours.to_vec());
    sync(request, Ledger { read: &read, change: &change, merge: &merge }, &|_| {}).unwrap()
}

#[test]
fn the_users_own_commits_are_pushed_only_if_the_user_allows_it() {
    hermetic(|scene| {
        let repo = scene.repo();
        scene.git(&repo, &["branch", "-q", "--set-upstream-to", "origin/main"]);
        scene.write(&repo.join("file"), "own\n");
        scene.git(&repo, &["commit", "-q", "-a", "-m", "own"]);
        scene.write(&repo.join(LEDGER), "{\"id\":\"a\"}\n");
        let remote = scene.sandbox.path("remote.git");
        let there = |path: &str| scene.git(&remote, &["show", &format!("main:{path}")]);
        assert!(sync_ledger(&repo, Push::Ledger).pushed.is_some());
        assert_eq!((there(LEDGER).as_str(), there("file").as_str()), ("{\"id\":\"a\"}", "content"));
        assert!(sync_ledger(&repo, Push::Branch).pushed.is_some());
        assert_eq!(there("file"), "own");
    });
}
