//! Supervisors that stand still for a while, as on a machine that sleeps or is too busy.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::jobs::{Shop, pid_of};
use waypost_testkit::until;

/// A job whose lease lasts for some seconds, until it is told to end.
struct Held {
    shop: Shop,
    job: Value,
}

impl Held {
    fn new(ttl: &str) -> Held {
        let shop = Shop::new();
        let _ = shop.way(["config", "set", "lease.ttl", ttl]).ok();
        shop.workflow(&json!({ "tasks": [{ "name": "one", "max_attempts": 3 }] }));
        let (way, go) = (env!("CARGO_BIN_EXE_way"), shop.sandbox.path("go"));
        let script = format!(
            "touch {0}.began; until [ -e {0} ]; do sleep 0.1; done; {way} task done $WAYPOST_TASK --outcome ok",
            go.display()
        );
        let job = shop.started(&["--task", "one", "--agent", "ann"], &script);
        until("it runs", || shop.sandbox.path("go.began").exists());
        Held { shop, job }
    }

    fn supervisor(&self) -> Pid {
        pid_of(&self.job["supervisor"])
    }

    fn task(&self) -> Value {
        self.shop.way(["task", "show", "one", "--json"]).data()
    }

    fn ended(&self) -> Value {
        until("the job ended", || {
            !["pending", "running"].contains(&self.shop.show(&self.job)["status"].as_str().unwrap())
        });
        self.shop.show(&self.job)
    }
}

#[test]
fn f26_a_supervisor_that_slept_for_longer_than_its_lease_ends_its_job_when_it_wakes() {
    let held = Held::new("2s");
    kill_process(held.supervisor(), Signal::STOP).unwrap();
    let claim = || held.shop.run(&["task", "claim", "one", "--agent", "bob", "--json"]);
    until("its lease expires, and another agent gets the task", || claim().code == 0);
    kill_process(held.supervisor(), Signal::CONT).unwrap();
    let job = held.ended();
    assert_eq!(job["status"], "failed", "{job:#}");
    let task = held.task();
    assert_eq!((&task["holder"], &task["epoch"]), (&json!("bob"), &json!(2)), "{task:#}");
}

#[test]
fn f29_a_heartbeat_that_is_late_but_within_the_lease_ends_nothing() {
    let held = Held::new("6s");
    // As long as two of three heartbeats take.
    let end = jiff::Timestamp::now().as_millisecond() + 4_000;
    kill_process(held.supervisor(), Signal::STOP).unwrap();
    until("two heartbeats are missed", || {
        assert_eq!(held.task()["holder"], "ann");
        assert_ne!(held.shop.run(&["task", "claim", "one", "--agent", "bob"]).code, 0);
        jiff::Timestamp::now().as_millisecond() > end
    });
    kill_process(held.supervisor(), Signal::CONT).unwrap();
    until("the lease is renewed beyond its first end", || {
        assert_eq!(held.task()["holder"], "ann");
        jiff::Timestamp::now().as_millisecond() > end + 4_000
    });
    held.shop.sandbox.write("go", "");
    let job = held.ended();
    assert_eq!((&job["status"], &held.task()["epoch"]), (&json!("completed"), &json!(1)), "{job:#}");
}
