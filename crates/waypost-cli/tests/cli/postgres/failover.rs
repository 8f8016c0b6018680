//! A PostgreSQL server that takes over: a standby without the last acknowledged writes, and a backup.

use std::ffi::OsStr;

use serde_json::Value;
use waypost_testkit::Postgres;

use crate::support::failover::{Machine, SCHEMA};
use crate::support::sandbox;

#[test]
fn a_standby_that_lacks_acknowledged_writes_is_refused_until_it_is_accepted() {
    let (machine, primary) = (Machine::new(), Postgres::start(&["autovacuum = off"]));
    machine.plan(&primary);
    assert_eq!(machine.claim(&primary, "a", "one"), 1);
    let standby = primary.standby();
    standby.stop();
    assert_eq!(machine.claim(&primary, "b", "two"), 1);
    let _ = machine.way(&primary, "b", &["task", "checkpoint", "two", "--summary", "acknowledged"]).ok();
    primary.stop();
    standby.resume();
    let refused = machine.way(&standby, "a", &["status"]).fails(8).stderr;
    assert!(refused.contains("it is a standby"), "{refused}");
    standby.promote();

    machine.check_refused(&standby);
    let accepted = machine.way(&standby, "a", &["db", "accept-failover", "--json"]).data();
    assert_eq!(accepted["leases"], 1);
    let task = machine.way(&standby, "c", &["task", "show", "two", "--json"]).data();
    assert!(!task.to_string().contains("acknowledged"), "the write is really lost: {task:#}");
    let epoch = machine.claim(&standby, "c", "two");
    assert!(epoch > 1_000_000, "no epoch is issued again that may have been issued before: {epoch}");
    let lost = machine.way(&standby, "a", &["task", "checkpoint", "one", "--summary", "here", "--epoch", "1"]);
    let _ = lost.fails(5);
    let late = machine.way(&standby, "b", &["task", "checkpoint", "two", "--summary", "here", "--epoch", "1"]);
    let _ = late.fails(5);
    let _ = machine.way(&standby, "a", &["doctor"]).ok();
    let _ = machine.way(&standby, "a", &["db", "accept-failover"]).fails(4);
    let events = machine.way(&standby, "a", &["events", "--kind", "store.", "--json"]).data();
    let kinds: Vec<&Value> = events.as_array().unwrap().iter().map(|event| &event["kind"]).collect();
    assert_eq!(kinds, ["store.failover_accepted"]);
}

#[test]
fn a_backup_restored_into_another_server_is_refused_until_it_is_accepted() {
    let (machine, first, second) = (Machine::new(), Postgres::start(&[]), Postgres::start(&[]));
    machine.plan(&first);
    first.copy_schema(SCHEMA, &second);
    assert_eq!(machine.claim(&first, "a", "one"), 1);
    machine.check_refused(&second);
    let _ = machine.way(&second, "a", &["db", "accept-failover"]).ok();
    assert!(machine.claim(&second, "b", "one") > 1_000_000);
    // The first server still accepts commands: each store remembers its own server.
    let _ = machine.way(&first, "a", &["status"]).ok();
}

#[test]
fn doctor_warns_a_role_that_may_not_read_the_system_identifier() {
    let (machine, server) = (Machine::new(), Postgres::start(&[]));
    machine.plan(&server);
    assert!(!machine.way(&server, "a", &["doctor"]).ok().stdout.contains("failover"));
    let _ = server.psql(
        "CREATE ROLE tenant LOGIN; GRANT CREATE ON DATABASE postgres TO tenant;
        REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC",
    );
    let url = server.url_of("tenant").replace("postgres@", "tenant@");
    let way = |args: &[&str]| machine.sandbox.way_with(&machine.repo, &[("WAYPOST_DB", OsStr::new(&url))], args);
    let _ = way(&["db", "probe", "--writes", "1"]).ok();
    assert!(way(&["doctor"]).ok().stdout.contains("cannot detect a failover"));
    let accepted = way(&["db", "accept-failover", "--json"]).data();
    assert_eq!((&accepted["before"], &accepted["after"]), (&"unknown".into(), &"unknown".into()));
}

#[test]
fn a_store_in_a_file_has_no_failover() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let refused = sandbox.way_with(&repo, &[], ["db", "accept-failover"]).fails(7).stderr;
    assert!(refused.contains("is a file"), "{refused}");
}
