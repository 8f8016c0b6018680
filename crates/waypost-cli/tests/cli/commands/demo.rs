//! `way demo`.

use crate::support::sandbox;

#[test]
fn the_demo_runs_a_workflow_to_its_end_and_leaves_no_files() {
    let sandbox = sandbox();
    let dir = sandbox.dir("anywhere");
    let mut command = sandbox.way_command(&dir);
    command.env_remove("WAYPOST_TEST_CLOCK").env("TMPDIR", &dir).args(["demo", "--json"]);
    let data = waypost_testkit::Run::of(&command.output().unwrap()).data();
    let steps = data["steps"].as_array().unwrap();
    let of = |beginning: &str| {
        let found = steps.iter().find(|step| step["command"].as_str().unwrap().starts_with(beginning));
        found.unwrap_or_else(|| panic!("no step {beginning}: {data}"))["output"].as_str().unwrap().to_owned()
    };
    assert!(of("way --agent team worker").contains("4 started, 4 completed, 0 failed"), "{data}");
    assert!(of("way workflow show").contains("completed, 4 of 4 done"));
    // Nothing but the ledger is new, and the only commit is the one from before the jobs.
    let (output, id) = (of("git status"), |commit: &str| commit.split_once(' ').unwrap().0.to_owned());
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines, ["?? .waypost/", &format!("{} A rocket", id(lines[1]))]);
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
    assert!(!sandbox.path("home/.waypost").exists());
}
