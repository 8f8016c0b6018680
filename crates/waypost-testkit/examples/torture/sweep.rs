//! Makes the n-th system call of every writing command fail, or kills its process there.
//!
//! `strace` injects the fault. Afterwards the exit code must match the effect, nothing may be half done, and the same
//! command must work.

use std::collections::{BTreeMap, VecDeque};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use waypost_testkit::{Dice, Run, find_strace, pass};

use crate::Torture;
use crate::scene::{CASES, Case, Effect, Scene};
use crate::tally::Tally;

/// Maximum time of a command, with any fault.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(90);

/// Number of rounds after which a scene is replaced, because data piles up in it.
const MAX_ROUNDS: u64 = 40;

/// Number of faults of a case before the next case.
const FAULTS_PER_TURN: usize = 4;

/// Number of parallel scenes.
const THREADS: u64 = 3;

/// System calls, and the errors that they return in practice.
const ERRORS: &[(&str, &[&str])] = &[
    ("openat", &["EIO", "EMFILE", "ENOSPC"]),
    ("read", &["EIO", "EINTR"]),
    ("pread64", &["EIO"]),
    ("write", &["EIO", "ENOSPC", "EINTR"]),
    ("pwrite64", &["EIO", "ENOSPC"]),
    ("fsync", &["EIO", "ENOSPC"]),
    ("fdatasync", &["EIO", "ENOSPC"]),
    ("rename", &["EIO", "ENOSPC"]),
    ("renameat2", &["EIO", "ENOSPC"]),
    ("unlink", &["EIO"]),
    ("unlinkat", &["EIO"]),
    ("link", &["EIO"]),
    ("mkdir", &["ENOSPC"]),
    ("ftruncate", &["EIO"]),
    ("flock", &["EINTR", "ENOLCK"]),
    ("statx", &["EIO"]),
    ("clone", &["EAGAIN"]),
    ("clone3", &["EAGAIN"]),
    ("vfork", &["EAGAIN"]),
];

/// One fault: the system call, how it fails, and at which call of a process.
struct Fault {
    case: &'static Case,
    call: &'static str,
    /// In the syntax of `strace`: `error=EIO` or `signal=KILL`.
    how: String,
    number: usize,
}

impl Fault {
    fn inject(&self) -> String {
        format!("inject={}:{}:when={}", self.call, self.how, self.number)
    }
}

pub(crate) fn faults(torture: &Torture) -> Tally {
    sweep(torture, |(call, errors)| errors.iter().map(|error| (*call, format!("error={error}"))).collect())
}

pub(crate) fn kills(torture: &Torture) -> Tally {
    sweep(torture, |(call, _)| {
        let is_change = !["read", "pread64", "statx", "openat"].contains(call);
        is_change.then(|| (*call, "signal=KILL".to_owned())).into_iter().collect()
    })
}

/// A function that returns the ways in which a system call fails.
type Ways = fn(&(&'static str, &[&str])) -> Vec<(&'static str, String)>;

/// A case and its remaining faults. None until it was traced once.
type SweepStep = (&'static Case, Option<Vec<Fault>>);

fn sweep(torture: &Torture, ways: Ways) -> Tally {
    let mut tally = Tally::default();
    if let Err(why) = find_strace() {
        tally.violation(format!("{why}; skip this part with --without"));
        return tally;
    }
    let mut steps: Vec<SweepStep> = CASES.iter().map(|case| (case, None)).collect();
    torture.dice().shuffle(&mut steps);
    let (queue, results) = (Mutex::new(VecDeque::from(steps)), Mutex::new(tally));
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let (queue, results) = (&queue, &results);
            scope.spawn(move || {
                let sweeper =
                    Sweeper { torture, ways, queue, dice: Dice(torture.seed ^ number), tally: Tally::default() };
                results.lock().expect("results").merge(sweeper.work());
            });
        }
    });
    let left = queue.into_inner().expect("cases");
    let tried = CASES.len() - left.iter().filter(|(_, faults)| faults.is_none()).count();
    println!("  {tried} of {} commands were tried, {} of them with every fault", CASES.len(), CASES.len() - left.len());
    results.into_inner().expect("results")
}

/// Returns all faults of a case. It traces the command once, to count its system calls.
fn plan(scene: &Scene, case: &'static Case, ways: Ways, dice: &mut Dice, tally: &mut Tally) -> Vec<Fault> {
    let args = (case.prepare)(scene, &format!("traced{}", dice.fork().0));
    let calls: Vec<&str> = ERRORS.iter().map(|(call, _)| *call).collect();
    let (run, _) = finish(traced(scene, &args, &[&format!("trace={}", calls.join(","))]));
    if run.code != 0 {
        tally.violation(format!("{} fails without a fault: {}", case.name, run.whole()));
    }
    let counts = count(&std::fs::read_to_string(scene.trace()).unwrap_or_default());
    let mut all = Vec::new();
    for (call, how) in ERRORS.iter().flat_map(ways) {
        let count = counts.get(call).copied().unwrap_or_default();
        all.extend((1..=count).map(|number| Fault { case, call, how: how.clone(), number }));
    }
    dice.shuffle(&mut all);
    all
}

/// Returns, for each system call, the highest count of any process.
fn count(trace: &str) -> BTreeMap<String, usize> {
    let mut of_process: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for line in trace.lines() {
        // With -f a line is "PID  call(…".
        let Some((process, rest)) = line.split_once(' ') else { continue };
        let Some((call, _)) = rest.trim_start().split_once('(') else { continue };
        *of_process.entry((process, call)).or_default() += 1;
    }
    let mut highest: BTreeMap<String, usize> = BTreeMap::new();
    for ((_, call), number) in of_process {
        let known = highest.entry(call.to_owned()).or_default();
        *known = number.max(*known);
    }
    highest
}

fn traced(scene: &Scene, args: &[String], expressions: &[&str]) -> Command {
    let mut command = scene.sandbox.command("strace", &scene.repo);
    command.env_remove("WAYPOST_TEST_CLOCK").args(["-f", "-o"]).arg(scene.trace());
    // This is faster, but `strace` cannot send signals with it.
    if !expressions.iter().any(|expression| expression.contains("signal=")) {
        command.arg("--seccomp-bpf");
    }
    for expression in expressions {
        command.args(["-e", expression]);
    }
    command.arg(scene.program()).args(args);
    command
}

/// Waits for a command, at most `COMMAND_TIMEOUT`. Returns its result and whether a signal killed it.
fn finish(mut command: Command) -> (Run, bool) {
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn().expect("strace and way");
    let start = Instant::now();
    let mut is_late = false;
    while child.try_wait().expect("a child").is_none() {
        if start.elapsed() > COMMAND_TIMEOUT && !is_late {
            is_late = true;
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        }
        pass(Duration::from_millis(2));
    }
    let output = child.wait_with_output().expect("a child");
    let mut run = Run::of(&output);
    if is_late {
        run.code = TIMED_OUT;
    }
    (run, output.status.signal() == Some(9) && !is_late)
}

/// The exit code for a command that did not end in time.
const TIMED_OUT: i32 = -2;

/// A thread that tries faults.
struct Sweeper<'a> {
    torture: &'a Torture,
    ways: Ways,
    queue: &'a Mutex<VecDeque<SweepStep>>,
    dice: Dice,
    tally: Tally,
}

impl Sweeper<'_> {
    /// Tries faults until the time is over. Replaces the scene after `MAX_ROUNDS`.
    fn work(mut self) -> Tally {
        while !self.torture.is_over() && !self.queue.lock().expect("cases").is_empty() {
            let scene = Scene::new(self.torture);
            let (before, end) = (self.tally.violations.len(), self.tally.rounds + MAX_ROUNDS);
            while self.tally.rounds < end && self.tally.violations.len() == before && self.try_next_case(&scene) {}
            if self.tally.violations.len() == before {
                scene.check("after the faults", &mut self.tally);
            }
            if self.tally.is_worth_keeping(before) {
                println!("evidence: {}", scene.sandbox.keep().display());
            }
        }
        self.tally
    }

    /// Tries a few faults of the next case. Returns whether there is time for more.
    fn try_next_case(&mut self, scene: &Scene) -> bool {
        let next = self.queue.lock().expect("cases").pop_front();
        let Some((case, faults)) = next else { return false };
        let before = self.tally.violations.len();
        let mut faults = faults.unwrap_or_else(|| plan(scene, case, self.ways, &mut self.dice, &mut self.tally));
        for _ in 0..FAULTS_PER_TURN {
            if self.tally.violations.len() > before || self.torture.is_over() {
                break;
            }
            let Some(fault) = faults.pop() else { break };
            round(scene, &fault, &mut self.dice, &mut self.tally);
        }
        if !faults.is_empty() {
            self.queue.lock().expect("cases").push_back((case, Some(faults)));
        }
        !self.torture.is_over()
    }
}

/// Tries one fault.
fn round(scene: &Scene, fault: &Fault, dice: &mut Dice, tally: &mut Tally) {
    let token = format!("token{}", dice.fork().0);
    let case = fault.case;
    let args = (case.prepare)(scene, &token);
    let (run, is_killed) = finish(traced(scene, &args, &[&format!("trace={}", fault.call), &fault.inject()]));
    tally.rounds += 1;
    tally.kills += u64::from(is_killed);
    let is_injected = std::fs::read_to_string(scene.trace()).is_ok_and(|trace| trace.contains("INJECTED")) || is_killed;
    tally.faults += u64::from(is_injected);
    tally.acknowledged += u64::from(run.code == 0);
    let description = format!("{} with {}: {:?}: {}", case.name, fault.inject(), args, run.whole());
    if is_outside_waypost(&run) {
        return;
    }
    let effect = (case.effect)(scene, &token, &args);
    if let Some(wrong) = judge(&run, is_killed, effect) {
        return tally.violation(format!("{wrong}: {description}"));
    }
    // The caller of a failed command repeats it, unless the error says that the change may have been made.
    let is_denied = run.code != 0 && !is_killed && !admits_effect(&run);
    if effect != Effect::Done || is_denied {
        scene.repair_remote();
        let again = scene.way_raw(&args);
        tally.acknowledged += u64::from(again.code == 0);
        let effect = (case.effect)(scene, &token, &args);
        if again.code != 0 || effect != Effect::Done {
            tally.violation(format!("does not work afterwards ({effect:?}): {description}\nthen: {}", again.whole()));
        }
    }
}

/// Returns whether an error says that the change was made, or that it may have been made.
fn admits_effect(run: &Run) -> bool {
    let admissions = ["the change is in", "may be in", "cannot write to standard output", "the workspace is removed"];
    admissions.iter().any(|admission| run.stderr.contains(admission))
}

/// Returns whether the failure is not one of Waypost: the dynamic loader failed, or the standard library panicked because it
/// could not read a pipe. A pipe has no disk, so that happens only under `strace`.
fn is_outside_waypost(run: &Run) -> bool {
    let is_in = |file: &str| run.stderr.contains(&format!("library/std/src/{file}"));
    let is_pipe = run.code == 101 && (is_in("process.rs") || is_in("sys/process/"));
    is_pipe || run.code == 127 || run.stderr.contains("error while loading shared libraries")
}

/// Returns the violation, if the exit code does not match the effect.
fn judge(run: &Run, is_killed: bool, effect: Effect) -> Option<&'static str> {
    let says = |text: &str| run.stderr.contains(text);
    match effect {
        Effect::Lost => return Some("lost"),
        Effect::Half => return Some("half done"),
        Effect::Done | Effect::Absent | Effect::Between => {}
    }
    if is_killed {
        return None;
    }
    match run.code {
        TIMED_OUT => Some("does not end"),
        0 if effect != Effect::Done => Some("acknowledged, but missing"),
        0 => None,
        101 | 134 | 139 => Some("panic"),
        _ if says("panicked") => Some("panic"),
        1 => Some("internal error"),
        // The caller is responsible for a file that the caller named.
        2 if !says("cannot read") => Some("false usage error"),
        9 => Some("false report of damage"),
        _ if effect == Effect::Done && (says("nothing was") || says("cannot write the ledger")) => {
            Some("done, but the error denies it")
        }
        _ => None,
    }
}
