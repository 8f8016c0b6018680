//! `way withdraw`.

use crate::support::ledger::{LEDGER, add, lines};
use crate::support::repos::contributor;
use crate::support::sandbox;

#[test]
fn a_proposal_is_withdrawn_once() {
    let sandbox = sandbox();
    let (_, fork, _) = contributor(&sandbox);
    let id = add(&sandbox, &fork, &["Idea"]);
    assert_eq!(sandbox.way(&fork, ["propose", &id]).code, 0);
    let run = sandbox.way(&fork, ["withdraw", &id]).ok();
    assert_eq!(run.stdout, format!("Withdrawn {id}  Idea\n"));
    assert_eq!(lines(&fork.join(LEDGER)).len(), 1);
    let _ = sandbox.way(&fork, ["withdraw", &id]).fails(4);
}
