//! `way machine`: the machines that share a store, jobs for one of them, and their output on the others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use waypost_testkit::{Postgres, Run, until};

use crate::support::jobs::Shop;
use crate::support::moment_ms;

/// A machine: its own home, and a clone of the repository.
struct Machine<'a> {
    shop: &'a Shop,
    home: PathBuf,
    dir: PathBuf,
    store: String,
}

impl Machine<'_> {
    fn new<'a>(shop: &'a Shop, name: &str, store: &str) -> Machine<'a> {
        let dir = shop.sandbox.path(format!("{name}-clone"));
        shop.sandbox.git(&shop.repo, ["clone", "--quiet", shop.remote.to_str().unwrap(), dir.to_str().unwrap()]);
        Machine { shop, home: shop.sandbox.path(format!("{name}-home")), dir, store: store.to_owned() }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.shop.sandbox.way_command(&self.dir);
        command.arg("--quiet").env_remove("WAYPOST_TEST_CLOCK").env("WAYPOST_HOME", &self.home);
        command.env("WAYPOST_DB", &self.store).args(args);
        command
    }

    #[track_caller]
    fn way(&self, args: &[&str]) -> Run {
        self.shop.sandbox.run(&mut self.command(args), "")
    }

    fn start(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn name(&self) -> String {
        fs::read_to_string(self.home.join("machine")).unwrap().trim().to_owned()
    }

    /// Takes the files of the machine away from the others, as another machine's are.
    fn hide(&self) -> PathBuf {
        let hidden = self.home.with_extension("hidden");
        fs::rename(&self.home, &hidden).unwrap();
        hidden
    }
}

fn log_of(machine: &Machine<'_>, job: &Value, flags: &[&str]) -> String {
    machine.way(&[&["job", "logs", job["id"].as_str().unwrap()], flags].concat()).ok().stdout
}

/// The output of all jobs in the store.
fn stored(store: &str) -> String {
    let schema = store.split_once("schema=").unwrap().1;
    let all = format!("SELECT string_agg(text, '' ORDER BY first_byte) FROM {schema}.job_logs");
    Postgres::shared().psql(&all).trim().to_owned()
}

/// Runs a check while no path leads to the records of a job. The job goes on.
fn without(log: &Path, check: impl FnOnce()) {
    let records = log.parent().unwrap();
    let moved = records.with_extension("moved");
    fs::rename(records, &moved).unwrap();
    check();
    fs::rename(&moved, records).unwrap();
}

fn end_of(machine: &Machine<'_>, job: &Value) -> Value {
    let id = job["id"].as_str().unwrap();
    let _ = machine.way(&["job", "wait", id]);
    machine.way(&["job", "show", id, "--json"]).data()
}

#[test]
fn machines_that_ran_a_worker_or_a_job_are_listed() {
    let shop = Shop::new();
    let store = Postgres::shared().url();
    let (here, there) = (Machine::new(&shop, "here", &store), Machine::new(&shop, "there", &store));
    let _ = here.way(&["agent", "register", "a"]).ok();
    assert_eq!(here.way(&["machine", "list", "--json"]).data(), json!([]));
    let _ = here.way(&["job", "start", "--", "true"]).ok();
    let _ = there.way(&["worker", "--agent", "w", "--until-empty", "--", "true"]).ok();
    let listed = here.way(&["machine", "list", "--json"]).data();
    let of = |machine: &Machine<'_>| {
        let name = machine.name();
        listed.as_array().unwrap().iter().find(|one| one["name"] == name.as_str()).cloned().unwrap()
    };
    let (one, other) = (of(&here), of(&there));
    assert_eq!((&one["has_worker"], &one["workspaces"], &one["live_jobs"]), (&json!(false), &json!(1), &json!(0)));
    assert_eq!((&other["has_worker"], &other["workspaces"]), (&json!(true), &json!(0)), "{listed}");
    assert!(moment_ms(&other["last_seen"]) >= moment_ms(&other["first_seen"]), "{listed}");
    let shown = here.way(&["machine", "list"]).ok().stdout;
    assert!(shown.contains(&format!("* {}", here.name())) && shown.contains(&there.name()), "{shown}");
}

#[test]
fn the_output_of_a_job_is_read_on_every_machine_that_shares_the_store() {
    let shop = Shop::new();
    let store = Postgres::shared().url();
    let (here, there) = (Machine::new(&shop, "here", &store), Machine::new(&shop, "there", &store));
    let go = shop.sandbox.path("go");
    let script = format!("printf 'one\\n\\377\\n'; until [ -e {} ]; do sleep 0.02; done; seq 20000", go.display());
    let job = there.way(&["job", "start", "--detach", "--json", "--", "sh", "-c", &script]).data();
    let log = PathBuf::from(job["log"].as_str().unwrap());
    until("the store has the first lines", || stored(&store) == "one\n?");
    without(&log, || assert_eq!(log_of(&here, &job, &[]), "one\n?\n"));
    shop.sandbox.write(&go, "");
    assert_eq!(end_of(&there, &job)["status"], "completed");
    let hidden = there.hide();
    let whole = log_of(&here, &job, &[]);
    let numbers: Vec<_> = (1..=20_000).map(|number| number.to_string()).collect();
    assert_eq!(whole, format!("one\n?\n{}\n", numbers.join("\n")));
    assert!(log_of(&here, &job, &["--tail", "12"]).ends_with("20000\n"));
    assert_eq!(log_of(&here, &job, &["--follow"]), whole);
    fs::rename(hidden, &there.home).unwrap();

    // The store has the end of a long output; the machine has all of it.
    let flags = ["--config", "jobs.shared_log=64KiB"];
    let counted = there.way(&[&flags[..], &["job", "start", "--json", "--", "seq", "50000"]].concat()).data();
    let none = ["--config", "jobs.shared_log=0", "job", "start", "--json", "--", "echo", "only here"];
    let unshared = there.way(&none).data();
    let hidden = there.hide();
    let end = log_of(&here, &counted, &[]);
    assert!((60_000..90_000).contains(&end.len()) && end.ends_with("\n50000\n"), "{} bytes", end.len());
    let refused = here.way(&["job", "logs", unshared["id"].as_str().unwrap()]).fails(3).stderr;
    assert!(refused.contains("jobs.shared_log"), "{refused}");
    fs::rename(hidden, &there.home).unwrap();
    assert_eq!(log_of(&there, &counted, &[]).lines().count(), 50_000);
}

#[test]
fn p21_the_task_of_a_lost_machine_is_free_again_and_the_output_so_far_stays() {
    let shop = Shop::new();
    let store = Postgres::shared().url();
    let (here, there) = (Machine::new(&shop, "here", &store), Machine::new(&shop, "there", &store));
    let plan = shop.sandbox.path("plan.json");
    shop.sandbox.write(&plan, json!({ "tasks": [{ "name": "t", "description": "x" }] }).to_string());
    let _ = here.way(&["workflow", "create", "w", "--plan", plan.to_str().unwrap(), "--start", "--shared"]).ok();
    let script = "echo begun; exec sleep 600";
    let worker = ["--config", "lease.ttl=3s", "worker", "--agent", "far", "--", "sh", "-c", script];
    let mut worker = there.start(&worker);
    let live = || here.way(&["job", "list", "--live", "--json"]).data()[0].clone();
    until("the job runs", || live()["process"]["pid"].is_u64());
    let job = live();
    let log = PathBuf::from(job["log"].as_str().unwrap());
    until("the store has its output", || stored(&store) == "begun");
    without(&log, || assert_eq!(log_of(&here, &job, &["--tail", "9"]), "begun\n"));
    // The machine is lost: everything on it ends at once, and nothing on it reports that.
    worker.kill().unwrap();
    worker.wait().unwrap();
    for process in ["supervisor", "process"] {
        let pid = rustix::process::Pid::from_raw(i32::try_from(job[process]["pid"].as_i64().unwrap()).unwrap());
        rustix::process::kill_process(pid.unwrap(), rustix::process::Signal::KILL).unwrap();
    }
    let hidden = there.hide();
    let done = "way task done $WAYPOST_TASK --epoch $WAYPOST_EPOCH --outcome done";
    let way = shop.sandbox.way_command(&here.dir).get_program().to_owned();
    let done = done.replacen("way", way.to_str().unwrap(), 1);
    until("the task is free", || here.way(&["task", "next", "--agent", "near", "--json"]).stdout.contains("\"t\""));
    let _ = here.way(&["worker", "--agent", "near", "--until-empty", "--", "sh", "-c", &done]).ok();
    assert_eq!(here.way(&["task", "show", "t", "--json"]).data()["status"], "completed");
    assert_eq!(log_of(&here, &job, &[]), "begun\n");
    let listed = here.way(&["machine", "list", "--json"]).data();
    let lost = listed.as_array().unwrap().iter().find(|one| one["name"] == job["machine"]).unwrap();
    assert_eq!(lost["live_jobs"], 1, "it stays listed until its machine reports: {listed}");
    fs::rename(hidden, &there.home).unwrap();
}
