//! Commands that wait: they end soon after the event they wait for, or at their timeout.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, kill_process};
use waypost_testkit::Run;

use crate::support::interruption;
use crate::support::work::Team;

/// Longer than any poll takes on a busy machine, and shorter than the timeouts in the tests.
const MAX_DELAY: Duration = Duration::from_secs(10);

fn waiting(team: &Team, line: &str) -> Child {
    team.command(&format!("{line} --json")).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until a process sleeps in the kernel, as a waiting command does.
#[cfg(target_os = "linux")]
fn until_it_waits(child: &mut Child) {
    let stat = format!("/proc/{}/stat", child.id());
    let begun = Instant::now();
    loop {
        let state = std::fs::read_to_string(&stat).unwrap_or_default();
        let wait = std::fs::read_to_string(format!("/proc/{}/wchan", child.id())).unwrap_or_default();
        let is_asleep = state.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S'));
        if is_asleep && wait.contains("poll") {
            return;
        }
        assert!(child.try_wait().unwrap().is_none(), "the command ended instead of waiting");
        // Where the kernel does not report it, a fixed delay after the start has to do.
        if begun.elapsed() > Duration::from_secs(2) {
            return;
        }
        waypost_testkit::pause();
    }
}

#[cfg(not(target_os = "linux"))]
fn until_it_waits(_child: &mut Child) {}

#[track_caller]
fn ended(child: Child, since: Instant) -> Run {
    let run = Run::of(&child.wait_with_output().unwrap());
    assert!(since.elapsed() < MAX_DELAY, "it took {:?}: {run:#?}", since.elapsed());
    run
}

#[test]
fn waiting_for_a_workflow_ends_as_soon_as_it_ends() {
    let team = Team::with("a: one\n");
    let _ = team.data("task claim --agent ann");
    let mut waiters = [waiting(&team, "workflow wait w --timeout 10m"), waiting(&team, "task wait a")];
    waiters.iter_mut().for_each(until_it_waits);
    let since = Instant::now();
    let _ = team.data("task done a --agent ann --outcome x");
    for waiter in waiters {
        assert_eq!(ended(waiter, since).data()["status"], "completed");
    }
}

#[test]
fn exactly_one_of_several_waiting_agents_gets_a_new_task() {
    let team = Team::with("a: one\nb: two\n  needs: a\n");
    let _ = team.data("task claim a --agent ann");
    let mut waiters: Vec<Child> = (0..3)
        .map(|number| waiting(&team, &format!("task claim --agent w{number} --wait --timeout 10m")))
        .chain([waiting(&team, "task claim b --agent named --wait --timeout 10m")])
        .collect();
    waiters.iter_mut().for_each(until_it_waits);
    let since = Instant::now();
    let _ = team.data("task done a --agent ann --outcome x");
    let first = loop {
        if let Some(first) = waiters.iter_mut().position(|waiter| waiter.try_wait().unwrap().is_some()) {
            break first;
        }
        assert!(since.elapsed() < MAX_DELAY);
        waypost_testkit::pause();
    };
    let claimed = ended(waiters.remove(first), since).data();
    assert_eq!(claimed["task"]["name"], "b");
    // The others keep waiting until there is another task.
    assert!(waiters.iter_mut().all(|waiter| waiter.try_wait().unwrap().is_none()));
    for waiter in &mut waiters {
        waiter.kill().unwrap();
        waiter.wait().unwrap();
    }
}

#[test]
fn a_wait_that_times_out_exits_with_6() {
    let team = Team::with("a: one\n");
    let _ = team.data("task claim --agent ann");
    for line in [
        "workflow wait w --timeout 300ms",
        "task wait a --timeout 300ms",
        "task claim --agent bob --wait --timeout 300ms",
    ] {
        let since = Instant::now();
        let error = ended(waiting(&team, line), since);
        assert!(since.elapsed() >= Duration::from_millis(300), "{line}");
        assert_eq!(error.fails(6).error()["code"], "nothing_to_do", "{line}");
    }
    // A named task that another agent holds is still refused for that reason.
    let since = Instant::now();
    let error = ended(waiting(&team, "task claim a --agent bob --wait --timeout 300ms"), since).fails(4).error();
    assert!(error["message"].as_str().unwrap().contains("is held by ann"), "{error}");
    let _ = team.data("task done a --agent ann --outcome x");
    let since = Instant::now();
    let _ = ended(waiting(&team, "task claim a --agent bob --wait"), since).fails(4);
    let _ = team.way("task claim a --timeout 1s").fails(2);
}

#[test]
fn a_wait_for_what_cannot_happen_ends_at_once_and_says_why() {
    let team = Team::with("a: one\n  max_attempts: 1\nb: two\n  needs: a\nc: three\n");
    let says = |line: &str, wanted: &str| {
        let error = team.refused(4, line);
        assert!(error["message"].as_str().unwrap().contains(wanted), "{line}: {error}");
    };
    let _ = team.data("task claim c --agent bob");
    let _ = team.data("task ask c 'blue or green?' --agent bob");
    says("task wait c", "blue or green?");
    let _ = team.data("task answer c green");
    let _ = team.data("task skip c");
    let _ = team.data("task claim a --agent ann");
    let _ = team.data("task fail a --agent ann --error 'no luck'");
    says("task wait a", "no luck");
    says("workflow wait w", "a is dead, and nothing else can run");
    let _ = team.fed("workflow create v --plan - --start --json", "a: one\n").data();
    let _ = team.data("workflow cancel v --reason 'another way was found'");
    says("workflow wait v", "another way was found");
}

#[test]
fn a_wait_ends_when_a_delay_elapses_without_any_write() {
    let team = Team::with("a: one\n  backoff: 1200ms\n");
    let real = |line: &str| {
        let mut command = team.command(&format!("{line} --json"));
        command.env("WAYPOST_TEST_CLOCK", "").stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let since = Instant::now();
    let _ = ended(real("task claim --agent ann"), since).data();
    let failed = ended(real("task fail a --agent ann --error x"), since).data();
    assert_eq!(failed["status"], "failed");
    let claimed = ended(real("task claim --agent bob --wait --timeout 1m"), since).data();
    assert_eq!((claimed["task"]["name"].as_str(), claimed["lease"]["epoch"].as_u64()), (Some("a"), Some(2)));
    assert!(since.elapsed() >= Duration::from_millis(1200));
}

#[test]
fn an_interrupt_ends_a_wait_at_once() {
    let team = Team::with("a: one\n");
    for line in
        ["workflow wait w", "task wait a", "task claim unknown --wait", "task claim --agent x --workflow w --wait"]
    {
        let _ = team.way("task claim a --agent ann");
        let mut child = waiting(&team, line);
        if line.contains("unknown") {
            assert_eq!(ended(child, Instant::now()).code, 3, "an unknown task is an error at once");
            continue;
        }
        until_it_waits(&mut child);
        let since = Instant::now();
        let pid = Pid::from_child(&child);
        kill_process(pid, interruption()).unwrap();
        let run = ended(child, since);
        assert_eq!((run.code, run.stdout.as_str()), (-1, ""), "{line}: {run:#?}");
    }
    assert_eq!(team.status("a"), "in_progress");
}
