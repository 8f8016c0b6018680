//! Foreign ledgers with chains, fans and cycles of many issues: no command hangs or floods the terminal.

use serde_json::json;

use crate::support::graphs::{KB, Pulled, blocked_by, id};

#[test]
fn a_long_chain_of_parents_stops_no_command() {
    const LONG: usize = 6_000;
    let last = LONG - 1;
    let chain = Pulled::new(LONG, |number| match number.checked_sub(1) {
        Some(parent) => json!({ "parent_id": id(parent) }),
        None => json!({ "issue_type": "epic" }),
    });
    chain.check("ready", 0, 2 * KB);
    chain.check("list", 0, 4 * KB);
    chain.check("stats", 0, KB);
    chain.check(&format!("show {}", id(last)), 0, KB);
    chain.check("ready --explain", 0, LONG * 100);
    chain.check(&format!("claim {}", id(last)), 0, KB);
    chain.check(&format!("add More --parent {}", id(last)), 0, KB);
    chain.check(&format!("dep add {} {}", id(0), id(last)), 4, KB);
    chain.check(&format!("update {} --parent {}", id(0), id(last)), 4, KB);
    chain.check(&format!("update {} --status deferred", id(0)), 0, KB);
    chain.check("ready", 6, KB);
    chain.check("blocked", 0, LONG * 100);
    chain.check(&format!("update {} --status open", id(0)), 0, KB);
    chain.check(&format!("workflow from-issue {}", id(0)), 0, KB);
    chain.check(&format!("close {}", id(0)), 0, KB);
    chain.check("ready", 0, 2 * KB);
    chain.check("doctor", 0, 2 * KB);
}

#[test]
fn cycles_of_parents_and_blockers_stop_no_command() {
    const LONG: usize = 2_000;
    let circle = Pulled::new(LONG, |number| {
        let mut record = blocked_by(number, [(number + 1) % LONG]);
        record["parent_id"] = id((number + 1) % LONG).into();
        record
    });
    for (command, code, most) in [
        ("ready", 6, KB),
        ("blocked", 0, LONG * 200),
        ("ready --explain", 0, LONG * 200),
        ("show way-000000", 0, KB),
        ("dep tree", 0, 40 * KB),
        ("workflow from-issue way-000000", 4, KB),
        ("update way-000000 --parent way-000007", 4, KB),
        ("dep add way-000005 way-000002", 4, KB),
        ("close way-000000", 0, KB),
        ("doctor", 0, 2 * KB),
    ] {
        circle.check(command, code, most);
    }
    // A dependency on an issue outside of the cycle closes no new one.
    let outside = circle.run("add Outside --json", 0, KB).data()["id"].as_str().unwrap().to_owned();
    circle.check(&format!("dep add {outside} way-000002"), 0, KB);
    circle.check(&format!("update {outside} --parent way-000003"), 0, KB);
}
