//! The n-th system call of every writing command fails, or its process is killed there.
//!
//! `strace` injects the fault. Afterwards the exit code must be true, nothing may be half done, and the same command must
//! work.

use std::collections::{BTreeMap, VecDeque};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use waypost_testkit::{Dice, Run, pass, strace};

use crate::Torture;
use crate::scene::{CASES, Case, Effect, Scene};
use crate::tally::Tally;

/// No command takes longer, whatever fails.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(90);

/// After so many rounds a scene is thrown away, with all that has piled up in it.
const MAX_ROUNDS: u64 = 40;

/// How many faults of a case are tried before it is another one's turn.
const ROUNDS_PER_TURN: usize = 4;

/// How many scenes there are at once.
const THREADS: u64 = 3;

/// System calls, and the errors that they may return in real life.
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
    /// As `strace` wants it: `error=EIO` or `signal=KILL`.
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

/// Returns the ways in which a system call fails.
type Ways = fn(&(&'static str, &[&str])) -> Vec<(&'static str, String)>;

/// A case, and the faults of it that are still to be tried. None until it was watched once.
type SweepStep = (&'static Case, Option<Vec<Fault>>);

fn sweep(torture: &Torture, ways: Ways) -> Tally {
    let mut tally = Tally::default();
    if strace().is_none() {
        tally.violation("strace is missing, or may not watch processes here; leave this part out with --without");
        return tally;
    }
    let mut turns: Vec<SweepStep> = CASES.iter().map(|case| (case, None)).collect();
    torture.dice().shuffle(&mut turns);
    let (queue, results) = (Mutex::new(VecDeque::from(turns)), Mutex::new(tally));
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

/// Returns all faults of a case: it is watched once, to see which calls it makes.
fn plan(scene: &Scene, case: &'static Case, ways: Ways, dice: &mut Dice, tally: &mut Tally) -> Vec<Fault> {
    let args = (case.prepare)(scene, &format!("watched{}", dice.fork().0));
    let calls: Vec<&str> = ERRORS.iter().map(|(call, _)| *call).collect();
    let (run, _) = finish(traced(scene, &args, &[&format!("trace={}", calls.join(","))]));
    if run.code != 0 {
        tally.violation(format!("{} fails without a fault: {}", case.name, run.whole()));
    }
    let counts = count(&std::fs::read_to_string(scene.trace()).unwrap_or_default());
    let mut all = Vec::new();
    for (call, how) in ERRORS.iter().flat_map(ways) {
        let most = counts.get(call).copied().unwrap_or_default();
        all.extend((1..=most).map(|number| Fault { case, call, how: how.clone(), number }));
    }
    dice.shuffle(&mut all);
    all
}

/// Counts the calls of the process that made the most of each.
fn count(trace: &str) -> BTreeMap<String, usize> {
    let mut of_process: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for line in trace.lines() {
        // With -f a line is "PID  call(…".
        let Some((process, rest)) = line.split_once(' ') else { continue };
        let Some((call, _)) = rest.trim_start().split_once('(') else { continue };
        *of_process.entry((process, call)).or_default() += 1;
    }
    let mut most: BTreeMap<String, usize> = BTreeMap::new();
    for ((_, call), number) in of_process {
        let known = most.entry(call.to_owned()).or_default();
        *known = number.max(*known);
    }
    most
}

fn traced(scene: &Scene, args: &[String], expressions: &[&str]) -> Command {
    let mut command = scene.sandbox.command("strace", &scene.repo);
    command.env_remove("WAYPOST_TEST_CLOCK").args(["-f", "-o"]).arg(scene.trace());
    // It is quicker, but then `strace` sends no signals.
    if !expressions.iter().any(|expression| expression.contains("signal=")) {
        command.arg("--seccomp-bpf");
    }
    for expression in expressions {
        command.args(["-e", expression]);
    }
    command.arg(scene.program()).args(args);
    command
}

/// Waits for a command, but not for ever. Returns how it ended and whether a signal killed it.
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
        run.code = HANGS;
    }
    (run, output.status.signal() == Some(9) && !is_late)
}

/// Stands for the exit code of a command that did not end.
const HANGS: i32 = -2;

/// A thread that tries faults.
struct Sweeper<'a> {
    torture: &'a Torture,
    ways: Ways,
    queue: &'a Mutex<VecDeque<SweepStep>>,
    dice: Dice,
    tally: Tally,
}

impl Sweeper<'_> {
    /// Tries faults until the time is over, in scenes that are made anew now and then.
    fn work(mut self) -> Tally {
        while !self.torture.is_over() && !self.queue.lock().expect("cases").is_empty() {
            let scene = Scene::new(self.torture);
            let (before, end) = (self.tally.violations.len(), self.tally.rounds + MAX_ROUNDS);
            while self.tally.rounds < end && self.tally.violations.len() == before && self.turn(&scene) {}
            if self.tally.violations.len() == before {
                scene.check("after the faults", &mut self.tally);
            }
            if self.tally.is_worth_keeping(before) {
                println!("evidence: {}", scene.sandbox.keep().display());
            }
        }
        self.tally
    }

    /// Tries a few faults of the next case. Returns whether there was one, and time for it.
    fn turn(&mut self, scene: &Scene) -> bool {
        let next = self.queue.lock().expect("cases").pop_front();
        let Some((case, faults)) = next else { return false };
        let before = self.tally.violations.len();
        let mut faults = faults.unwrap_or_else(|| plan(scene, case, self.ways, &mut self.dice, &mut self.tally));
        for _ in 0..ROUNDS_PER_TURN {
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
    let is_met = std::fs::read_to_string(scene.trace()).is_ok_and(|trace| trace.contains("INJECTED")) || is_killed;
    tally.faults += u64::from(is_met);
    tally.acknowledged += u64::from(run.code == 0);
    let told = format!("{} with {}: {:?}: {}", case.name, fault.inject(), args, run.whole());
    if is_not_ours(&run) {
        return;
    }
    let effect = (case.effect)(scene, &token, &args);
    if let Some(wrong) = judge(&run, is_killed, effect) {
        return tally.violation(format!("{wrong}: {told}"));
    }
    if effect != Effect::Done {
        scene.repair_remote();
        let again = scene.way_raw(&args);
        let effect = (case.effect)(scene, &token, &args);
        if again.code != 0 || effect != Effect::Done {
            tally.violation(format!("does not work afterwards ({effect:?}): {told}\nthen: {}", again.whole()));
        }
    }
}

/// The loader of programs is not ours. Neither is the standard library, which panics if a pipe cannot be read: a pipe has no
/// disk behind it, so that happens only under `strace`.
fn is_not_ours(run: &Run) -> bool {
    let is_in = |file: &str| run.stderr.contains(&format!("library/std/src/{file}"));
    let is_pipe = run.code == 101 && (is_in("process.rs") || is_in("sys/process/"));
    is_pipe || run.code == 127 || run.stderr.contains("error while loading shared libraries")
}

/// Returns what is wrong with how a command ended, given what it did.
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
        HANGS => Some("does not end"),
        0 if effect != Effect::Done => Some("acknowledged, but missing"),
        0 => None,
        101 | 134 | 139 => Some("panic"),
        _ if says("panicked") => Some("panic"),
        1 => Some("internal error"),
        // A file that the caller named is the caller's.
        2 if !says("cannot read") => Some("alleged misuse"),
        9 => Some("alleged damage"),
        _ if effect == Effect::Done && (says("nothing was") || says("cannot write the ledger")) => {
            Some("done, although the error denies it")
        }
        _ => None,
    }
}
