//! Workloads with one kind of fault each: killed and suspended processes, killed servers and workers, a wrong clock.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;
use waypost_testkit::{Dice, Postgres, Sandbox, pass};

use crate::Torture;
use crate::tally::Tally;
use crate::workload::{Faults, Workload};

/// Maximum length of a round: a fresh store shows other defects than an old one.
const MAX_ROUND: Duration = Duration::from_secs(40);

/// Number of parallel workers.
const WORKERS: usize = 12;

/// Runs rounds until the time is over. `round` gets the duration of its workload.
fn rounds(torture: &Torture, mut round: impl FnMut(&Torture, Duration) -> Tally) -> Tally {
    let mut tally = Tally::default();
    let mut dice = torture.dice();
    while tally.rounds == 0 || torture.left() > Duration::from_secs(15) {
        // Draining and checking take about as long as a lease and half a workload.
        let time = (torture.left() / 2).clamp(Duration::from_secs(4), MAX_ROUND);
        let seed = dice.fork().0;
        let of_round =
            Torture { way: torture.way.clone(), checker: torture.checker.clone(), seed, deadline: torture.deadline };
        tally.merge(round(&of_round, time));
        println!("  {tally}");
    }
    tally
}

/// Leases are short, so that another worker soon continues the task of a killed one.
const LEASE: Duration = Duration::from_secs(5);

pub(crate) fn storm(torture: &Torture) -> Tally {
    let faults = Faults { killed: 10, stopped: 4, ..Faults::default() };
    rounds(torture, |torture, time| {
        Workload::new(torture, |_| None, faults.clone(), LEASE).run(torture, time, WORKERS, |_, _| 0)
    })
}

/// Restarts the server every few seconds, in an orderly way or by a crash.
pub(crate) fn postgres(torture: &Torture) -> Tally {
    let server = Postgres::start(&[]);
    let faults = Faults { killed: 4, stopped: 2, allowed: &[8], ..Faults::default() };
    rounds(torture, |torture, time| {
        let seed = torture.seed;
        let load = Workload::new(torture, |_| Some(server.url()), faults.clone(), LEASE);
        load.run(torture, time, WORKERS, |_, time| restart(&server, Dice(seed), time))
    })
}

/// Restarts the server repeatedly. Returns the number of restarts.
fn restart(server: &Postgres, mut dice: Dice, time: Duration) -> u64 {
    let start = std::time::Instant::now();
    let mut restarts = 0;
    while start.elapsed() < time {
        restarts += 1;
        pass(Duration::from_millis(1_000 + dice.below(3_000)));
        if dice.percent(50) {
            server.crash();
        } else {
            server.restart();
        }
    }
    restarts
}

/// Gives every fifth command a wrong clock.
pub(crate) fn clock(torture: &Torture) -> Tally {
    const HOUR: i64 = 3_600;
    let shifts = &[5 * 365 * 24 * HOUR, 8 * 24 * HOUR, 3 * HOUR, 90, -90, -3 * HOUR, -400 * 24 * HOUR];
    let faults = Faults { killed: 2, shifted: 20, shifts, ..Faults::default() };
    rounds(torture, |torture, time| {
        Workload::new(torture, |_| None, faults.clone(), LEASE).run(torture, time, WORKERS, |_, _| 0)
    })
}

/// Kills `way serve` every few seconds, and starts it again.
pub(crate) fn serve(torture: &Torture) -> Tally {
    let faults = Faults { killed: 4, stopped: 2, allowed: &[8], ..Faults::default() };
    rounds(torture, |torture, time| {
        let server = Mutex::new(None);
        let at = |sandbox: &Sandbox| Some(format!("unix:{}", sandbox.path("socket").display()));
        let load = Workload::new(torture, at, faults.clone(), LEASE);
        start_server(&load.sandbox, &load.repo, &server);
        let tally = load.run(torture, time, WORKERS, |load, time| {
            let (mut dice, start, mut kills) = (torture.dice(), Instant::now(), 0);
            while start.elapsed() < time {
                pass(Duration::from_millis(500 + dice.below(3_000)));
                start_server(&load.sandbox, &load.repo, &server);
                kills += 1;
            }
            kills
        });
        stop(&server);
        tally
    })
}

/// A running server, if there is one.
type Running = Mutex<Option<Child>>;

/// Kills the server, and starts another one on the same socket.
fn start_server(sandbox: &Sandbox, repo: &Path, server: &Running) {
    stop(server);
    let mut command = sandbox.way_command(repo);
    command.args(["serve", "--port", "0", "--json", "--socket"]).arg(sandbox.path("socket"));
    command.env_remove("WAYPOST_TEST_CLOCK").stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("way serve");
    let mut line = String::new();
    let read = BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line);
    assert!(read.is_ok_and(|length| length > 0), "way serve does not start");
    *server.lock().expect("a server") = Some(child);
}

fn stop(server: &Running) {
    if let Some(mut child) = server.lock().expect("a server").take() {
        child.kill().expect("a child process");
        child.wait().expect("a child process");
    }
}

/// The command of a job: it writes a checkpoint and completes the task, and notes the exit codes in a file.
const JOB: &str = r#"
echo "start $WAYPOST_TASK $WAYPOST_EPOCH 0" >> "$NOTES"
"$WAY" task checkpoint "$WAYPOST_TASK" --type progress --summary "job $WAYPOST_EPOCH" --epoch "$WAYPOST_EPOCH" > /dev/null 2>&1
echo "checkpoint $WAYPOST_TASK $WAYPOST_EPOCH $?" >> "$NOTES"
"$WAY" task done "$WAYPOST_TASK" --outcome done --epoch "$WAYPOST_EPOCH" > /dev/null 2>&1
echo "done $WAYPOST_TASK $WAYPOST_EPOCH $?" >> "$NOTES""#;

/// Kills workers that run jobs, or workers and the supervisors of their jobs.
pub(crate) fn jobs(torture: &Torture) -> Tally {
    let faults = Faults { killed: 10, ..Faults::default() };
    rounds(torture, |torture, time| {
        let load = Workload::new(torture, |_| None, faults.clone(), LEASE);
        load.run_without_faults(&["config", "set", "lease.ttl", &format!("{}s", LEASE.as_secs())]);
        load.run(torture, time, 3, |load, time| {
            let kills = run_workers(load, torture.dice(), time);
            record_jobs(load);
            kills
        })
    })
}

/// Runs workers for a time, and kills each. Returns the number of kills.
fn run_workers(load: &Workload, mut dice: Dice, time: Duration) -> u64 {
    let (start, mut kills) = (Instant::now(), 0);
    while start.elapsed() < time {
        let way = load.command(&[]).get_program().to_owned();
        let mut worker = load.command(&["worker", "-n", "3", "--capability", "build", "--env", "WAY,NOTES"]);
        worker.args(["--", "sh", "-c", JOB]).env("WAY", way).env("NOTES", load.sandbox.path("notes"));
        let mut child =
            worker.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn().expect("way worker");
        pass(Duration::from_millis(1_000 + dice.below(4_000)));
        if dice.percent(50) {
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        }
        child.kill().expect("a child process");
        child.wait().expect("a child process");
        kills += 1;
    }
    kills
}

/// Records what the commands of jobs noted.
fn record_jobs(load: &Workload) {
    let notes = std::fs::read_to_string(load.sandbox.path("notes")).unwrap_or_default();
    for line in notes.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind, task, epoch, code] = words[..] else { continue };
        let (Ok(epoch), Ok(code)) = (epoch.parse::<u64>(), code.parse()) else { continue };
        let text = format!("job {epoch}");
        load.record_operation(&json!({"kind": kind, "task": task, "epoch": epoch, "text": text}), code);
    }
}
