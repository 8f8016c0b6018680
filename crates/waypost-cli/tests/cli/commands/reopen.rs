//! `way reopen`.

use crate::support::ledger::{LEDGER, ids, lines};
use crate::support::sandbox;

#[test]
fn a_reopened_issue_does_not_wait_for_a_pruned_one() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    let edge = |from: &str, on: &str| format!(r#"{{"issue_id":"{from}","depends_on_id":"{on}","type":"blocks"}}"#);
    let closed = r#""status":"closed","closed_at":"2025-01-01T00:00:00Z""#;
    let next = |number: u32| {
        let id = format!("b-{number}");
        let edges = [edge(&id, "b-0"), edge(&id, "x-9")].join(",");
        format!("{{\"id\":\"{id}\",\"title\":\"Next\",{closed},\"dependencies\":[{edges}]}}\n")
    };
    let mut text = format!("{{\"id\":\"b-0\",\"title\":\"Base\",{closed}}}\n");
    text.extend((1..4).map(next));
    // An open issue was removed from the ledger by hand.
    text += "{\"id\":\"x-9\",\"title\":\"Open\"}\n";
    sandbox.write(repo.join(LEDGER), &text);
    sandbox.git(&repo, ["add", "."]);
    sandbox.git(&repo, ["commit", "-q", "-m", "ledger"]);
    let left: Vec<String> = lines(&repo.join(LEDGER)).into_iter().filter(|line| !line.contains("Base")).collect();
    let mark = r#"{"_type":"waypost","pruned_before":"2025-01-01T00:00:00.001Z"}"#;
    let left: Vec<&str> = left.iter().map(String::as_str).filter(|line| !line.contains("Open")).collect();
    sandbox.write(repo.join(LEDGER), format!("{mark}\n{}\n", left.join("\n")));
    sandbox.git(&repo, ["commit", "-q", "-a", "-m", "pruned"]);

    let _ = sandbox.way(&repo, ["reopen", "b-1"]).ok();
    let _ = sandbox.way(&repo, ["update", "b-2", "--status", "open"]).ok();
    for id in ["b-1", "b-2"] {
        let shown = sandbox.way(&repo, ["ready", "--explain", id]);
        assert!(!shown.stdout.contains("b-0") && shown.stdout.contains("x-9"), "{shown:?}");
        let _ = sandbox.way(&repo, ["dep", "rm", id, "x-9"]).ok();
    }
    assert_eq!(ids(&sandbox, &repo, &["ready"]), ["b-1", "b-2"]);
    // Another clone reopens the issue without knowing that its blocker was pruned.
    let opened = std::fs::read_to_string(repo.join(LEDGER)).unwrap();
    let opened: Vec<String> = opened
        .lines()
        .map(|line| if line.contains("b-3") { line.replace(closed, "\"status\":\"open\"") } else { line.to_owned() })
        .map(|line| line.replace(&format!(",{}", edge("b-3", "x-9")), ""))
        .collect();
    sandbox.write(repo.join(LEDGER), format!("{}\n", opened.join("\n")));
    assert_eq!(ids(&sandbox, &repo, &["ready"]), ["b-1", "b-2"]);
    let _ = sandbox.way(&repo, ["claim", "b-3"]).ok();
    assert!(!std::fs::read_to_string(repo.join(LEDGER)).unwrap().contains("b-0"));
}
