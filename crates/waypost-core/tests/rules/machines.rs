//! Machines that run jobs, and the output of jobs that the store keeps for other machines.

use serde_json::json;
use waypost_core::Kind;
use waypost_core::model::ProcessIdentity;
use waypost_core::op::{
    AddJobRecord, AppendLog, ListMachines, MachineView, RecordMachine, RegisterSupervisor, ShowStoredLog, StoredLog,
};

use crate::harness::{PERSON, TestStore};

fn job_on(machine: Option<&str>, new_machine: bool) -> AddJobRecord {
    let job = json!({ "command": ["true"], "work_dir": "/", "machine": machine, "new_machine": new_machine });
    serde_json::from_value(job).unwrap()
}

fn supervisor() -> ProcessIdentity {
    serde_json::from_value(json!({ "boot_id": "b", "pid": 1, "start_time": 1 })).unwrap()
}

fn machines(store: &mut TestStore) -> Vec<MachineView> {
    store.read(PERSON, ListMachines::all()).unwrap().machines
}

#[test]
fn a_job_for_an_unknown_machine_is_refused_and_not_recorded() {
    let mut store = TestStore::new();
    let error = store.write(PERSON, job_on(Some("gpu"), false)).unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    store.write(PERSON, RecordMachine { machine: "gpx".to_owned(), worker: true }).unwrap();
    let error = store.write(PERSON, job_on(Some("gpu"), false)).unwrap_err();
    assert!(format!("{error:?}").contains("known machines: gpx"), "{error:?}");
    assert!(format!("{error:?}").contains("--new-machine"), "{error:?}");
    assert!(!store.event_kinds().iter().any(|kind| kind == "job.created"));
    store.write(PERSON, job_on(Some("gpx"), false)).unwrap();
    store.write(PERSON, job_on(Some("gpu"), true)).unwrap();
    store.write(PERSON, job_on(None, false)).unwrap();
}

#[test]
fn a_machine_is_known_from_its_worker_or_its_first_job() {
    let mut store = TestStore::new();
    let job = store.write(PERSON, job_on(Some("one"), true)).unwrap().job.id.to_string();
    assert!(machines(&mut store).is_empty(), "only its name is known");
    let taken = RegisterSupervisor { job, machine: "one".to_owned(), supervisor: supervisor(), token_hash: None };
    store.write(PERSON, taken).unwrap();
    store.write(PERSON, RecordMachine { machine: "two".to_owned(), worker: true }).unwrap();
    store.write(PERSON, job_on(Some("two"), false)).unwrap();
    let seen = machines(&mut store);
    let of = |view: &MachineView| (view.machine.name.clone(), view.has_worker, view.live_jobs, view.waiting_jobs);
    assert_eq!(
        seen.iter().map(of).collect::<Vec<_>>(),
        [("one".to_owned(), false, 1, 0), ("two".to_owned(), true, 0, 1)]
    );
    // A worker that does not report is not there any more, but its machine stays known.
    store.set_now(200_000);
    assert_eq!(machines(&mut store).iter().map(|view| view.has_worker).collect::<Vec<_>>(), [false, false]);
    store.write(PERSON, RecordMachine { machine: "two".to_owned(), worker: false }).unwrap();
    let two = machines(&mut store).remove(1);
    assert_eq!((two.machine.last_seen.as_millis(), two.has_worker), (200_000, false), "a job is no worker");
}

fn append(store: &mut TestStore, job: &str, from: u64, text: &str) -> u64 {
    let (job, text) = (job.to_owned(), text.to_owned());
    store.write(PERSON, AppendLog { job, from, text, keep: 40_000 }).unwrap().next
}

fn read(store: &mut TestStore, job: &str, from: Option<u64>, limit: u64) -> StoredLog {
    store.read(PERSON, ShowStoredLog { job: job.to_owned(), from, limit }).unwrap()
}

#[test]
fn the_output_of_a_job_is_kept_once_and_read_from_any_position() {
    let mut store = TestStore::new();
    let job = store.write(PERSON, job_on(None, false)).unwrap().job.id.to_string();
    assert!(!read(&mut store, &job, None, 10).is_stored);
    assert_eq!(append(&mut store, &job, 0, "first\n"), 6);
    // The answer to the first request was lost: the caller continues after what the store has.
    assert_eq!(append(&mut store, &job, 0, "first\nsecond\n"), 6);
    assert_eq!(append(&mut store, &job, 6, "zweite ü\n"), 16);
    let all = read(&mut store, &job, Some(0), 1000);
    assert_eq!((all.from, all.text.as_str()), (0, "first\nzweite ü\n"));
    assert_eq!(read(&mut store, &job, Some(6), 1000).text, "zweite ü\n");
    assert_eq!(read(&mut store, &job, Some(0), 8).text, "first\nzw");
    // A character is not split: it comes whole, or with the next part.
    let part = read(&mut store, &job, Some(6), 8);
    assert_eq!((part.from, part.text.as_str()), (6, "zweite "));
    let rest = read(&mut store, &job, Some(13), 8);
    assert_eq!((rest.from, rest.text.as_str()), (13, "ü\n"));
    assert_eq!(read(&mut store, &job, None, 3).text, "ü\n");
    let end = read(&mut store, &job, Some(16), 8);
    assert_eq!((end.from, end.text.as_str(), end.is_stored), (16, "", true));
}

#[test]
fn the_store_keeps_the_end_of_the_output_of_a_job() {
    let mut store = TestStore::new();
    let job = store.write(PERSON, job_on(None, false)).unwrap().job.id.to_string();
    let mut at = 0;
    for number in 0..10 {
        at = append(&mut store, &job, at, &format!("{number}").repeat(10_000));
    }
    assert_eq!(at, 100_000);
    let kept = read(&mut store, &job, Some(0), 1 << 20);
    assert!(kept.from >= 40_000 && kept.from <= 60_000, "{}", kept.from);
    assert_eq!(kept.from + kept.text.len() as u64, 100_000);
    assert!(kept.text.ends_with("999"));
    // Output that was discarded before it could be stored leaves a gap, and readers continue after it.
    assert_eq!(append(&mut store, &job, 100_500, "later"), 100_505);
    assert_eq!(read(&mut store, &job, Some(99_995), 100).text, "99999");
    let later = read(&mut store, &job, Some(100_000), 100);
    assert_eq!((later.from, later.text.as_str()), (100_500, "later"));
}
