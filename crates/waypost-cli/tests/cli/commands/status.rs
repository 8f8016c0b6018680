//! `way status`.

use crate::support::worktrees::{id_of, three};
use crate::support::{sandbox, text};

#[test]
fn g4_filtering_by_worktree_gives_its_part_and_an_unknown_one_is_an_error() {
    let sandbox = sandbox();
    let (repo, ours, _) = three(&sandbox);
    let id = id_of(&sandbox, &ours);
    for wanted in [id.as_str(), &id[..8], "ours", "../ours", text(&ours)] {
        let status = sandbox.way(&repo, ["status", "--json", "--worktree", wanted]).data();
        assert_eq!(status["worktrees"].as_array().unwrap().len(), 1, "{wanted}");
        assert!(status["events"].as_array().unwrap().iter().all(|event| event["worktree_id"] == *id));
        let _ = sandbox.way(&repo, ["worktree", "list", "--worktree", wanted]).ok();
    }
    for unknown in ["wt_000000000000", "unknown", "wt_", ""] {
        let run = sandbox.way(&repo, ["status", "--json", "--worktree", unknown]).fails(3);
        assert_eq!(run.error()["code"], "not_found");
    }
    let run = sandbox.way(&repo, ["db", "info", "--worktree", "ours"]).fails(2);
    assert!(run.stderr.contains("--worktree does not apply"), "{}", run.stderr);
}
