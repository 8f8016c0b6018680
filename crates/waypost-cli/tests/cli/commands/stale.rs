//! `way stale`.

use crate::support::ledger::{LEDGER, ids};
use crate::support::sandbox;

#[test]
fn open_issues_without_recent_updates_are_listed_oldest_first() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    let issue = |id: &str, status: &str, updated: &str| {
        format!("{{\"id\":\"{id}\",\"title\":\"T\",\"status\":\"{status}\",\"updated_at\":\"{updated}T00:00:00Z\"}}\n")
    };
    // The clock of tests is at the beginning of 2026.
    let issues = [
        issue("r-1", "open", "2025-11-30"),
        issue("r-2", "open", "2025-10-01"),
        issue("r-3", "closed", "2025-10-01"),
        issue("r-4", "open", "2025-12-20"),
    ];
    sandbox.write(repo.join(LEDGER), issues.concat());
    assert_eq!(ids(&sandbox, &repo, &["stale"]), ["r-2", "r-1"], "30 days are the default");
    assert_eq!(ids(&sandbox, &repo, &["stale", "--limit", "1"]), ["r-2"]);
    assert_eq!(ids(&sandbox, &repo, &["stale", "--days", "10"]), ["r-2", "r-1", "r-4"]);
}
