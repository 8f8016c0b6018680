//! Real processes on one store and one ledger, with random faults and a recorded history.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use waypost_testkit::{Dice, Run, Sandbox, pass};

use crate::Torture;
use crate::tally::Tally;

/// Number of tasks of a workflow.
const TASKS: usize = 20;

/// Maximum time in which healthy workers finish no task, after every lease has expired.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum time of healthy workers for all tasks.
const MAX_DRAIN: Duration = Duration::from_mins(5);

/// The faults of a workload.
#[derive(Default, Clone)]
pub(crate) struct Faults {
    /// Percentage of commands that are killed, and that are suspended for a while.
    pub(crate) killed: u64,
    pub(crate) stopped: u64,
    /// Shifts of the clock. Every tenth command gets one of them.
    pub(crate) shifts: &'static [&'static str],
    /// Exit codes that the faults can cause.
    pub(crate) allowed: &'static [i32],
}

/// One store, its workers, and their history.
pub(crate) struct Workload {
    pub(crate) sandbox: Sandbox,
    repo: PathBuf,
    store: Option<String>,
    faults: Faults,
    /// The duration of a lease.
    lease: Duration,
    start: Instant,
    history: Mutex<File>,
    next: AtomicU64,
    workflows: Mutex<Vec<String>>,
    issues: Mutex<Vec<String>>,
    /// Faults, kills and acknowledged writes.
    counts: [AtomicU64; 3],
}

/// A reply: the exit code, None if the process was killed, and the answer.
struct Reply {
    code: Option<i32>,
    answer: Value,
}

impl Reply {
    fn is_ok(&self) -> bool {
        self.code == Some(0)
    }

    /// Returns whether the command may or may not have had an effect.
    fn is_unknown(&self) -> bool {
        self.code.is_none_or(|code| code == 8)
    }
}

/// A worker: its name and its random numbers.
struct Worker<'a> {
    load: &'a Workload,
    name: String,
    others: Vec<String>,
    dice: Dice,
    written: u64,
}

impl Workload {
    pub(crate) fn new(torture: &Torture, store: Option<String>, faults: Faults, lease: Duration) -> Workload {
        let sandbox = Sandbox::new(torture.way());
        let repo = sandbox.git_repo("repo");
        let mut history = File::create(sandbox.path("history.jsonl")).expect("a history");
        let lease_us = u64::try_from(lease.as_micros()).expect("a short lease");
        writeln!(history, "{}", json!({"line": "head", "allowed": faults.allowed, "lease_us": lease_us}))
            .expect("a history");
        Workload {
            sandbox,
            repo,
            store,
            faults,
            lease,
            start: Instant::now(),
            history: Mutex::new(history),
            next: AtomicU64::new(1),
            workflows: Mutex::default(),
            issues: Mutex::default(),
            counts: Default::default(),
        }
    }

    /// Runs workers for a time while `disturb` injects faults and returns their number. Then healthy workers finish all
    /// tasks, and the history is checked.
    pub(crate) fn run(
        self,
        torture: &Torture,
        time: Duration,
        workers: usize,
        disturb: impl Fn(Duration) -> u64 + Sync,
    ) -> Tally {
        let mut dice = torture.dice();
        let until = Instant::now() + time;
        let names: Vec<String> = (0..workers).map(|number| format!("w{number}")).collect();
        for name in &names {
            self.run_without_faults(&["agent", "register", name]);
        }
        self.plan();
        std::thread::scope(|scope| {
            for name in &names {
                let others = names.iter().filter(|other| *other != name).cloned().collect();
                let worker = Worker { load: &self, name: name.clone(), others, dice: dice.fork(), written: 0 };
                scope.spawn(move || worker.work(until));
            }
            scope.spawn(|| self.counts[0].fetch_add(disturb(time), Ordering::Relaxed));
        });
        let mut tally = Tally { rounds: 1, ..Tally::default() };
        self.drain(&mut tally);
        self.record_state();
        self.check(torture, &mut tally);
        let [faults, kills, acknowledged] = self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        tally.merge(Tally { faults, kills, acknowledged, ..Tally::default() });
        if !tally.violations.is_empty() {
            println!("evidence: {}", self.sandbox.keep().display());
        }
        tally
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.sandbox.way_command(&self.repo);
        command.args(args).arg("--json").env_remove("WAYPOST_TEST_CLOCK").stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(store) = &self.store {
            command.env("WAYPOST_DB", store);
        }
        command
    }

    /// Runs a command without faults, and returns its data.
    fn run_without_faults(&self, args: &[&str]) -> Value {
        let until = Instant::now() + Duration::from_mins(1);
        loop {
            let run = Run::of(&self.command(args).output().expect("way"));
            // A restarting server is unavailable for a moment.
            if run.code == 8 && self.faults.allowed.contains(&8) && Instant::now() < until {
                continue;
            }
            let answer: Value = serde_json::from_str(&run.stdout).unwrap_or_default();
            return answer["data"].clone();
        }
    }

    /// Creates a workflow whose tasks do not run out of attempts.
    fn plan(&self) {
        let mut workflows = self.workflows.lock().expect("workflows");
        let name = format!("flow{}", workflows.len());
        let task = |number: usize| json!({"name": format!("{name}-{number}"), "max_attempts": 1000});
        let file = format!("{name}.json");
        let plan = json!({"tasks": (0..TASKS).map(task).collect::<Vec<_>>()});
        self.sandbox.write(self.repo.join(&file), plan.to_string());
        self.run_without_faults(&["workflow", "create", &name, "--plan", &file, "--start", "--key", &name]);
        workflows.push(name);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).expect("a short run")
    }

    fn record(&self, line: &Value) {
        writeln!(self.history.lock().expect("a history"), "{line}").expect("a history");
    }

    /// Runs one operation, perhaps with a fault, and records it.
    fn operate(&self, worker: &str, dice: Option<&mut Dice>, does: &Value, args: &[&str]) -> Reply {
        let op = self.next.fetch_add(1, Ordering::Relaxed);
        let mut command = self.command(args);
        let fault = dice.map_or(Fault::None, |dice| self.fault(dice));
        if let Fault::Shifted(shift) = fault {
            let library = faketime().expect("libfaketime");
            command.env("LD_PRELOAD", library).env("FAKETIME", shift).env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        self.record(
            &json!({"line": "start", "op": op, "time": self.now(), "process": worker, "args": args, "does": does}),
        );
        let mut child = command.spawn().expect("way");
        // The process id is not reused before this process waits for its child.
        let pid = Pid::from_child(&child);
        match fault {
            Fault::Killed(after) => {
                pass(after);
                child.kill().expect("a child process");
            }
            Fault::Stopped(after, time) => {
                pass(after);
                let _ = kill_process(pid, Signal::STOP);
                pass(time);
                let _ = kill_process(pid, Signal::CONT);
            }
            Fault::None | Fault::Shifted(_) => {}
        }
        let output = child.wait_with_output().expect("way");
        let is_killed = output.status.signal() == Some(9);
        let code = (!is_killed).then(|| Run::of(&output).code);
        let printed = if code == Some(0) { &output.stdout } else { &output.stderr };
        let mut answer: Value =
            serde_json::from_slice(printed).unwrap_or_else(|_| json!({"data": String::from_utf8_lossy(printed)}));
        let answer = if code == Some(0) { answer["data"].take() } else { answer };
        self.record(&json!({"line": "end", "op": op, "time": self.now(), "code": code, "answer": answer}));
        self.counts[0].fetch_add(u64::from(!matches!(fault, Fault::None)), Ordering::Relaxed);
        self.counts[1].fetch_add(u64::from(is_killed), Ordering::Relaxed);
        self.counts[2].fetch_add(u64::from(code == Some(0)), Ordering::Relaxed);
        Reply { code, answer }
    }

    fn fault(&self, dice: &mut Dice) -> Fault {
        let drawn = dice.below(100);
        let after = Duration::from_micros(dice.below(80_000));
        if drawn < self.faults.killed {
            return Fault::Killed(after);
        }
        if drawn < self.faults.killed + self.faults.stopped {
            // One in five resumes after its lease has expired.
            let long = if dice.percent(20) { self.lease + Duration::from_secs(1) } else { Duration::from_millis(300) };
            return Fault::Stopped(after, long);
        }
        if !self.faults.shifts.is_empty() && dice.percent(10) {
            let shift: &&str = dice.pick(self.faults.shifts);
            return Fault::Shifted(shift);
        }
        Fault::None
    }

    /// Finishes every task with healthy workers. They continue as long as they make progress.
    fn drain(&self, tally: &mut Tally) {
        let limit = self.lease + DRAIN_TIMEOUT;
        let end = Instant::now() + MAX_DRAIN;
        std::thread::scope(|scope| {
            for number in 0..4 {
                scope.spawn(move || {
                    let mut worker = Worker::healthy(self, format!("healthy{number}"));
                    let (mut done, mut since) = (0, Instant::now());
                    while since.elapsed() < limit && Instant::now() < end && !self.is_drained() {
                        worker.task();
                        let now = self.counts[2].load(Ordering::Relaxed);
                        if now != done {
                            (done, since) = (now, Instant::now());
                        }
                    }
                });
            }
        });
        if !self.is_drained() {
            tally.violation(format!("tasks are stuck: no progress for {limit:.0?} after the faults ended"));
        }
    }

    fn is_drained(&self) -> bool {
        self.run_without_faults(&["workflow", "list", "--limit", "0"]).as_array().is_some_and(Vec::is_empty)
    }

    /// Records the final state as the commands report it.
    fn record_state(&self) {
        let list = |args: &[&str]| self.run_without_faults(args).as_array().cloned().unwrap_or_default();
        let (mut tasks, mut checkpoints) = (Vec::new(), Vec::new());
        for workflow in self.workflows.lock().expect("workflows").iter() {
            tasks.extend(list(&["task", "list", "--workflow", workflow, "--limit", "0"]));
        }
        for task in &tasks {
            let id = task["id"].as_str().unwrap_or_default();
            checkpoints.extend(list(&["checkpoint", "list", id, "--limit", "0"]));
        }
        let events = list(&["events", "--since", "0", "--limit", "100000000"]);
        let mut messages: Vec<Value> = Vec::new();
        for event in events.iter().filter(|event| event["kind"] == "message.sent") {
            let id = event["subject"].as_str().unwrap_or_default();
            messages.extend(list(&["msg", "thread", id]).into_iter().filter(|message| message["id"] == id));
        }
        messages.sort_by_key(|message| message["number"].as_u64());
        let issues = list(&["list", "--all", "--limit", "0"]);
        self.record(&json!({
            "line": "state", "tasks": tasks, "checkpoints": checkpoints, "messages": messages, "issues": issues,
            "events": events,
        }));
    }

    /// Checks the history with the checker, and the store with `way` itself.
    fn check(&self, torture: &Torture, tally: &mut Tally) {
        let checked =
            Command::new(&torture.checker).arg(self.sandbox.path("history.jsonl")).output().expect("the checker");
        let checked = Run::of(&checked);
        for line in checked.stdout.lines().chain(checked.stderr.lines()) {
            tally.violation(line);
        }
        if checked.code != 0 && tally.violations.is_empty() {
            tally.violation(format!("the checker ended with exit code {}", checked.code));
        }
        if !self.faults.shifts.is_empty() {
            let _ = self.command(&["doctor", "--fix"]).output().expect("way");
        }
        let checks: &[&[&str]] = if self.store.is_none() { &[&["doctor"], &["db", "check"]] } else { &[&["doctor"]] };
        for args in checks {
            let run = Run::of(&self.command(args).output().expect("way"));
            if run.code != 0 {
                tally.violation(format!("{args:?} after the faults ended: {}", run.whole()));
            }
        }
    }
}

/// The fault of a command.
enum Fault {
    None,
    Killed(Duration),
    Stopped(Duration, Duration),
    Shifted(&'static str),
}

impl<'a> Worker<'a> {
    /// Creates a worker without faults.
    fn healthy(load: &'a Workload, name: String) -> Worker<'a> {
        Worker { load, name, others: Vec::new(), dice: Dice(u64::MAX), written: 0 }
    }

    fn work(mut self, until: Instant) {
        while Instant::now() < until {
            match self.dice.below(10) {
                0..5 => self.task(),
                5 | 6 => self.message(),
                7 => self.read_message(),
                _ => self.issue(),
            }
        }
    }

    fn operate(&mut self, does: &Value, args: &[&str]) -> Reply {
        let dice = (!self.others.is_empty()).then_some(&mut self.dice);
        self.load.operate(&self.name, dice, does, args)
    }

    /// Retries an operation with its key until its outcome is known. The key makes it happen once.
    fn retry_until_known(&mut self, does: &Value, args: &[&str]) -> Reply {
        let mut reply = self.operate(does, args);
        for _ in 0..5 {
            if !reply.is_unknown() {
                break;
            }
            reply = self.operate(does, args);
        }
        reply
    }

    /// Returns a unique text.
    fn fresh(&mut self, what: &str) -> String {
        self.written += 1;
        format!("{what}-{}-{}", self.name, self.written)
    }

    /// Claims a task, records a checkpoint, and ends the attempt.
    fn task(&mut self) {
        let name = self.name.clone();
        let ttl = format!("{}s", self.load.lease.as_secs());
        let claim = ["task", "claim", "--agent", &name, "--ttl", &ttl, "--budget", "100"];
        let reply = self.operate(&json!({"kind": "claim", "agent": name}), &claim);
        if !reply.is_ok() {
            // The first worker creates new tasks.
            if reply.code == Some(6) && name == "w0" {
                self.load.plan();
            }
            return;
        }
        let (Some(task), Some(epoch)) = (reply.answer["task"]["id"].as_str(), reply.answer["lease"]["epoch"].as_u64())
        else {
            return;
        };
        let number = epoch.to_string();
        let held = ["--agent", &name, "--epoch", &number];
        let text = self.fresh("note");
        let note = ["task", "checkpoint", task, "--type", "progress", "--summary", &text];
        if self.dice.percent(50) {
            let does = json!({"kind": "checkpoint", "task": task, "epoch": epoch, "text": text, "key": text});
            self.retry_until_known(&does, &[&note[..], &held, &["--key", &text]].concat());
        } else {
            let does = json!({"kind": "checkpoint", "task": task, "epoch": epoch, "text": text});
            self.operate(&does, &[&note[..], &held].concat());
        }
        if self.dice.percent(20) {
            let does = json!({"kind": "heartbeat", "task": task, "epoch": epoch});
            self.operate(&does, &[&["task", "heartbeat", task][..], &held].concat());
        }
        let (kind, args): (&str, &[&str]) = match self.dice.below(10) {
            _ if self.others.is_empty() => ("done", &["task", "done", task, "--outcome", "done"]),
            0 => ("fail", &["task", "fail", task, "--error", "bad luck"]),
            1 => ("release", &["task", "release", task]),
            _ => ("done", &["task", "done", task, "--outcome", "done"]),
        };
        let does = json!({"kind": kind, "task": task, "epoch": epoch});
        self.operate(&does, &[args, &held].concat());
    }

    fn message(&mut self) {
        let (name, text) = (self.name.clone(), self.fresh("message"));
        let to = self.dice.pick(&self.others).clone();
        let does = json!({"kind": "send", "from": name, "to": to, "text": text, "key": text});
        self.retry_until_known(&does, &["msg", "send", &to, &text, "--agent", &name, "--key", &text]);
    }

    fn read_message(&mut self) {
        let name = self.name.clone();
        let reply = self.operate(&json!({"kind": "inbox", "agent": name}), &["msg", "inbox", "--agent", &name]);
        if let Some(id) = reply.answer[0]["id"].as_str() {
            self.operate(&json!({"kind": "ack", "message": id}), &["msg", "ack", id, "--agent", &name]);
        }
    }

    fn issue(&mut self) {
        let known = self.load.issues.lock().expect("issues").clone();
        let (issue, text) = (self.dice.below(known.len() as u64 + 1), self.fresh("text"));
        let Some(issue) = known.get(usize::try_from(issue).expect("an index")) else {
            let reply = self.operate(&json!({"kind": "add", "text": text}), &["add", &text]);
            if let Some(id) = reply.answer["id"].as_str().filter(|_| reply.is_ok()) {
                self.load.issues.lock().expect("issues").push(id.to_owned());
            }
            return;
        };
        match self.dice.below(8) {
            0 => {
                self.operate(&json!({"kind": "close", "issue": issue}), &["close", issue]);
            }
            1..4 => {
                let does = json!({"kind": "label", "issue": issue, "text": text});
                self.operate(&does, &["label", "add", issue, &text]);
            }
            _ => {
                let does = json!({"kind": "comment", "issue": issue, "text": text});
                self.operate(&does, &["comment", issue, &text]);
            }
        }
    }
}

/// Returns the library that shifts the clock of a process.
pub(crate) fn faketime() -> Option<PathBuf> {
    let libraries = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let dirs = libraries.chain([Path::new("/usr/lib").to_owned()]);
    dirs.map(|dir| dir.join("faketime/libfaketime.so.1")).find(|file| file.is_file())
}
