//! Ledgers of worktrees and of other tools, and hostile ones.

use serde_json::json;
use waypost::Kind;

use crate::desk::{Desk, LEDGER};

#[test]
fn every_worktree_writes_the_main_ones_ledger() {
    let desk = Desk::new();
    desk.git(["worktree", "add", "-q", "../tree"]);
    let tree = desk.in_dir("tree");
    let id = tree.add("From a worktree");
    assert_eq!(desk.list(json!({})), [id]);
    assert_eq!(tree.git(["status", "--porcelain"]), "");
}

#[test]
fn b22_an_existing_beads_ledger_is_used_in_place_and_keeps_its_fields() {
    let desk = Desk::new();
    let theirs = "{\"id\":\"bd-0\",\"title\":\"Theirs\",\"x\":{\"deep\": 1.50},\"compaction_level\":0}\n{\"_type\":\"memory\",\"key\":\"k\"}\nnot json\n";
    desk.write(".beads/issues.jsonl", theirs);
    desk.update("bd-0", json!({ "priority": 0 }));
    let id = desk.add("Ours");
    assert!(id.starts_with("bd-"), "{id}");
    let file = std::fs::read_to_string(desk.path(".beads/issues.jsonl")).unwrap();
    let found: Vec<&str> = file.lines().collect();
    assert!(
        found[0].starts_with("{\"id\":\"bd-0\",\"title\":\"Theirs\",\"priority\":0,")
            && found[0].contains("\"x\":{\"deep\": 1.50},\"compaction_level\":0"),
        "{}",
        found[0]
    );
    assert!(found[1].contains(&id), "after the last issue");
    assert_eq!(found[2..], ["{\"_type\":\"memory\",\"key\":\"k\"}", "not json"]);
    assert!(!desk.path(".waypost").exists());
}

#[test]
fn a_ledger_that_is_no_file_of_the_repository_is_neither_read_nor_written() {
    let desk = Desk::new();
    desk.write_ledger("");
    let ledger = desk.path(LEDGER);
    std::fs::remove_file(&ledger).unwrap();
    let add = json!({ "title": "x" });
    // A link that leads out of the repository.
    let victim = desk.sandbox.path("victim");
    desk.sandbox.write(&victim, "precious\n");
    std::os::unix::fs::symlink(&victim, &ledger).unwrap();
    desk.refused(Kind::Refused, "add_issue", add.clone());
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious\n");
    std::fs::remove_file(&ledger).unwrap();
    // A link that stays inside is followed.
    std::os::unix::fs::symlink("../real.jsonl", &ledger).unwrap();
    desk.write("real.jsonl", "");
    let id = desk.add("x");
    let real = std::fs::read_to_string(desk.path("real.jsonl")).unwrap();
    assert!(ledger.is_symlink() && real.contains(&id), "{real}");
    std::fs::remove_file(&ledger).unwrap();
    // Paths that are not regular files.
    for make in ["mkfifo", "mkdir"] {
        desk.sandbox.command(make, &desk.dir).arg(&ledger).status().unwrap();
        desk.refused(Kind::Unavailable, "list_issues", json!({}));
        desk.refused(Kind::Unavailable, "add_issue", add.clone());
        desk.sandbox.command("rm", &desk.dir).arg("-rf").arg(&ledger).status().unwrap();
    }
}

#[test]
fn a_line_with_very_many_keys_keeps_its_numbers_and_damage_beside_it_is_told() {
    let desk = Desk::new();
    let keys = (0..60_000).map(|number| format!(",\"k{number}\":0")).collect::<Vec<_>>().concat();
    let line = format!("{{\"id\":\"a-1\",\"big\":123456789012345678901234567890,\"f\":1.10{keys}}}\nnonsense\n");
    desk.write_ledger(&line);
    let shown = desk.reading(|cx| {
        let entry = cx.with_index(|index| index.get_by_prefix("a-1"))?;
        Ok(cx.shown(&entry.record, entry.ledger)?.to_line())
    });
    assert!(
        shown.unwrap().contains("\"big\":123456789012345678901234567890,\"f\":1.10,"),
        "numbers keep their spelling"
    );
    let warnings = desk.warnings();
    assert!(warnings.iter().any(|warning| warning.contains("1 line of the ledger cannot be read")), "{warnings:?}");
    let said = desk.refused(Kind::NotFound, "show_issue", json!({ "issue": "a-2" }));
    assert!(said.contains("1 line of the ledger cannot be read: way doctor"), "{said}");
}

#[test]
fn a_line_too_long_to_be_read_back_is_not_written() {
    let desk = Desk::new();
    let id = desk.add("One");
    let before = desk.file();
    desk.refused(Kind::Invalid, "update_issue", json!({ "issue": &id, "description": "x".repeat(17_000_000) }));
    assert!(desk.file() == before);
}
