//! `way release`.

use crate::support::claims::at;
use crate::support::ledger::add;
use crate::support::sandbox;

#[test]
fn the_holder_releases_an_issue_and_a_person_by_force() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["Fix it"]);
    let _ = at(&sandbox, &repo, 0, "ada", &["claim", &id]).ok();
    let refused = at(&sandbox, &repo, 1, "bob", &["release", &id]).fails(4);
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    let released = at(&sandbox, &repo, 1, "ada", &["release", &id]).ok();
    assert_eq!(released.stdout, format!("Released {id}  Fix it\n"));
    let _ = at(&sandbox, &repo, 2, "bob", &["claim", &id, "--ttl", "10m"]).ok();
    let _ = sandbox.way(&repo, ["release", &id, "--force"]).ok();
    let _ = at(&sandbox, &repo, 3, "ada", &["release", &id]).fails(4);
}
