//! The n-th system call of every writing command fails, or its process is killed there.
//!
//! `strace` injects the fault. Afterwards the exit code must be true, nothing may be half done, and the same command must
//! work.

use std::collections::BTreeMap;
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
const MAX_ROUNDS: u32 = 40;

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

fn sweep(torture: &Torture, ways: Ways) -> Tally {
    let mut tally = Tally::default();
    if strace().is_none() {
        tally.violation("strace is missing, or may not watch processes here; leave this part out with --without");
        return tally;
    }
    let mut all = plan(torture, ways, &mut tally);
    torture.dice().shuffle(&mut all);
    println!("  {} faults to try", all.len());
    let (queue, results) = (Mutex::new(all), Mutex::new(tally));
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let (queue, results) = (&queue, &results);
            scope.spawn(move || {
                let tally = work(torture, queue, number);
                results.lock().expect("results").merge(tally);
            });
        }
    });
    results.into_inner().expect("results")
}

/// Returns all faults: every case is watched once, to see which calls it makes.
fn plan(torture: &Torture, ways: Ways, tally: &mut Tally) -> Vec<Fault> {
    let scene = Scene::new(torture);
    let mut all = Vec::new();
    for (number, case) in CASES.iter().enumerate() {
        let args = (case.prepare)(&scene, &format!("watched{number}"));
        let calls: Vec<&str> = ERRORS.iter().map(|(call, _)| *call).collect();
        let filter = format!("trace={}", calls.join(","));
        let (run, _) = finish(traced(&scene, &args, &filter));
        if run.code != 0 {
            tally.violation(format!("{} fails without a fault: {}", case.name, run.whole()));
        }
        let counts = count(&std::fs::read_to_string(scene.trace()).unwrap_or_default());
        for (call, how) in ERRORS.iter().flat_map(ways) {
            let most = counts.get(call).copied().unwrap_or_default();
            all.extend((1..=most).map(|number| Fault { case, call, how: how.clone(), number }));
        }
    }
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

fn traced(scene: &Scene, args: &[String], option: &str) -> Command {
    let mut command = scene.sandbox.command("strace", &scene.repo);
    command.env_remove("WAYPOST_TEST_CLOCK").arg("-f").arg("-o").arg(scene.trace()).args(["-e", option]);
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

fn work(torture: &Torture, queue: &Mutex<Vec<Fault>>, thread: u64) -> Tally {
    let mut tally = Tally::default();
    let mut dice = Dice(torture.seed ^ thread);
    while !torture.is_over() {
        let scene = Scene::new(torture);
        let before = tally.violations.len();
        for _ in 0..MAX_ROUNDS {
            let next = queue.lock().expect("faults").pop();
            let Some(fault) = next.filter(|_| !torture.is_over()) else { break };
            round(&scene, &fault, &mut dice, &mut tally);
            if tally.violations.len() > before {
                break;
            }
        }
        if tally.violations.len() == before {
            scene.check("after the faults", &mut tally);
        }
        if tally.is_worth_keeping(before) {
            println!("evidence: {}", scene.sandbox.keep().display());
        }
        if queue.lock().expect("faults").is_empty() {
            break;
        }
    }
    tally
}

/// Tries one fault.
fn round(scene: &Scene, fault: &Fault, dice: &mut Dice, tally: &mut Tally) {
    let token = format!("token{}", dice.fork().0);
    let case = fault.case;
    let args = (case.prepare)(scene, &token);
    let (run, is_killed) = finish(traced(scene, &args, &fault.inject()));
    tally.rounds += 1;
    tally.kills += u64::from(is_killed);
    let is_met = std::fs::read_to_string(scene.trace()).is_ok_and(|trace| trace.contains("INJECTED")) || is_killed;
    tally.faults += u64::from(is_met);
    tally.acknowledged += u64::from(run.code == 0);
    let told = format!("{} with {}: {:?}: {}", case.name, fault.inject(), args, run.whole());
    // The loader of programs is not ours.
    if run.stderr.contains("error while loading shared libraries") || run.code == 127 {
        return;
    }
    let effect = (case.effect)(scene, &token, &args);
    if let Some(wrong) = judge(&run, is_killed, effect) {
        return tally.violation(format!("{wrong}: {told}"));
    }
    if effect != Effect::Done {
        let again = scene.way_raw(&args);
        let effect = (case.effect)(scene, &token, &args);
        if again.code != 0 || effect != Effect::Done {
            tally.violation(format!("does not work afterwards ({effect:?}): {told}\nthen: {}", again.whole()));
        }
    }
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
        2 => Some("alleged misuse"),
        9 => Some("alleged damage"),
        _ if effect == Effect::Done && (says("nothing was") || says("cannot write the ledger")) => {
            Some("done, although the error denies it")
        }
        _ => None,
    }
}
