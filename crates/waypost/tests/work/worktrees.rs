//! One store for all worktrees, each record naming its own.

use std::path::Path;

use serde_json::{Value, json};
use waypost::op::{Maintenance, RecordMaintenance};
use waypost::work::{Surveyed, WorktreeState, find_worktree, survey_worktrees};

use crate::harness::{Office, PERSON, data, list, open};

fn probe(office: &Office, dir: &Path, writes: u32) {
    let mut session = open(&office.place(dir), "writer");
    for _ in 0..writes {
        session.call(RecordMaintenance { what: Maintenance::Probed, detail: json!({}) }).unwrap();
    }
}

fn id_of(office: &Office, dir: &Path) -> String {
    open(&office.place(dir), "looker").worktree().id.to_string()
}

/// Returns the events of a worktree, newest first, as a directory sees them.
fn events(office: &Office, from: &Path, worktree: &str) -> Vec<Value> {
    let query = json!({ "query": { "worktree_id": worktree, "limit": 100 } });
    list(&data(&office.place(from), PERSON, "list_events", query)["events"])
}

fn surveyed(office: &Office) -> Vec<Surveyed> {
    survey_worktrees(&mut office.session("looker")).unwrap()
}

#[test]
fn a4_the_same_work_in_two_worktrees_is_kept_apart() {
    let office = Office::new();
    for dir in [office.worktree("ours"), office.worktree("theirs")] {
        probe(&office, &dir, 2);
        let id = id_of(&office, &dir);
        let probes = events(&office, &dir, &id);
        let probes: Vec<_> = probes.iter().filter(|event| event["kind"] == "store.probed").collect();
        assert_eq!(probes.len(), 2);
        assert!(probes.iter().all(|event| event["worktree_id"] == id.as_str()), "{probes:?}");
    }
}

#[test]
fn g1_every_session_sees_the_writes_of_every_other() {
    let office = Office::new();
    let (ours, theirs) = (office.worktree("ours"), office.worktree("theirs"));
    // These sessions are open before the write.
    let mut sessions = [&office.repo, &ours, &theirs].map(|dir| open(&office.place(dir), "looker"));
    probe(&office, &ours, 1);
    let id = id_of(&office, &ours);
    for session in &mut sessions {
        let query = serde_json::from_value(json!({ "query": { "kind": "store.probed", "limit": 9 } }));
        let seen: waypost::op::ListEvents = query.unwrap();
        let seen = session.call(seen).unwrap().events;
        assert_eq!((seen.len(), seen[0].worktree_id.as_str()), (1, id.as_str()));
    }
}

#[test]
fn g6_the_main_worktree_reads_records_of_a_linked_worktree() {
    let office = Office::new();
    let ours = office.worktree("ours");
    let id = id_of(&office, &ours);
    let before = events(&office, &office.repo, &id).len();
    probe(&office, &ours, 3);
    assert_eq!(events(&office, &office.repo, &id).len(), before + 3);
}

#[test]
fn g4_filtering_by_worktree_gives_its_part_and_an_unknown_one_is_an_error() {
    let office = Office::new();
    let ours = office.worktree("ours");
    let id = id_of(&office, &ours);
    let all = surveyed(&office);
    for wanted in [id.as_str(), &id[..8], "ours", "../ours", ours.to_str().unwrap()] {
        let found = find_worktree(&all, wanted, &office.repo).unwrap();
        let found = found.id.as_ref().unwrap().to_string();
        assert_eq!(found, id, "{wanted}");
        let status = office.data(PERSON, "show_status", json!({ "worktree_id": found }));
        assert_eq!(list(&status["worktrees"]).len(), 1, "{wanted}");
        assert!(list(&status["events"]).iter().all(|event| event["worktree_id"] == id.as_str()), "{status}");
    }
    for unknown in ["wt_000000000000", "unknown", "wt_", ""] {
        let error = find_worktree(&all, unknown, &office.repo).unwrap_err();
        assert_eq!(error.kind(), waypost::Kind::NotFound, "{unknown}");
    }
}

#[test]
fn a14_ids_lie_in_gits_own_directory_and_survive_a_move() {
    let office = Office::new();
    probe(&office, &office.repo, 1);
    let (ours, theirs) = (office.worktree("ours"), office.worktree("theirs"));
    let id = id_of(&office, &theirs);
    let kept = std::fs::read_to_string(office.repo.join(".git/worktrees/theirs/waypost/worktree-id")).unwrap();
    assert_eq!(kept.trim(), id);
    assert_ne!(id, id_of(&office, &ours));
    assert_ne!(id, id_of(&office, &office.repo));
    let moved = office.sandbox.path("moved");
    office.sandbox.git(&office.repo, ["worktree", "move", theirs.to_str().unwrap(), moved.to_str().unwrap()]);
    assert_eq!(id_of(&office, &moved), id);
    let all = surveyed(&office);
    let one = find_worktree(&all, &id, &office.repo).unwrap();
    assert_eq!((one.path.as_path(), one.state), (moved.as_path(), WorktreeState::Present));
    // The next write from the worktree records its new path.
    probe(&office, &moved, 1);
    let kinds: Vec<_> = events(&office, &moved, &id).iter().map(|event| event["kind"].clone()).collect();
    let changes: Vec<_> = kinds.iter().filter(|kind| *kind != "agent.registered").collect();
    assert_eq!(changes, ["store.probed", "worktree.changed", "worktree.registered"]);
}

#[test]
fn worktrees_removed_by_any_means_stay_in_the_history() {
    let office = Office::new();
    let (ours, theirs, third) = (office.worktree("ours"), office.worktree("theirs"), office.worktree("third"));
    for dir in [&ours, &theirs, &third] {
        probe(&office, dir, 2);
    }
    let third_id = id_of(&office, &third);
    let ours_id = id_of(&office, &ours);
    let remove = json!({ "id": ours_id });
    for dir in [&ours, &theirs] {
        office.sandbox.git(&office.repo, ["worktree", "remove", "--force", dir.to_str().unwrap()]);
    }
    let _ = office.data(PERSON, "remove_worktree", remove);
    assert!(office.sandbox.command("rm", &office.repo).arg("-r").arg(&third).status().unwrap().success());
    office.sandbox.git(&office.repo, ["worktree", "prune"]);
    office.sandbox.git(&office.repo, ["clean", "-ffdx"]);
    let all = surveyed(&office);
    let state = |name: &str| all.iter().find(|one| one.name == name).unwrap().state;
    assert_eq!(
        ["repo", "ours", "theirs", "third"].map(state),
        [WorktreeState::Here, WorktreeState::Removed, WorktreeState::Gone, WorktreeState::Gone]
    );
    assert!(events(&office, &office.repo, &third_id).len() >= 3);
    assert_eq!(office.session("looker").sqlite().unwrap().check().unwrap(), []);
}
