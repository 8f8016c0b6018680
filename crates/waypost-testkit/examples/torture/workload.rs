//! Real processes on one store and one ledger, with random faults and a recorded history.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use waypost_testkit::{Dice, Run, Sandbox, pass};

use crate::Torture;
use crate::tally::Tally;

/// Number of tasks of a workflow, and of those that may run at once.
const TASKS: usize = 20;
const MAX_PARALLEL: &str = "8";

/// The capability of every other worker, which every fourth task needs.
const CAPABILITY: &str = "build";

/// Maximum time in which healthy workers finish no task, after every lease has expired.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum time of healthy workers for all tasks.
const MAX_DRAIN: Duration = Duration::from_mins(5);

/// Maximum difference of a shifted clock from the right one, in seconds: a loaded machine takes its time.
const MAX_SHIFT_ERROR: i64 = 30;

/// The faults of a workload.
#[derive(Default, Clone)]
pub(crate) struct Faults {
    /// Percentage of commands that are killed, and that are suspended for a while.
    pub(crate) killed: u64,
    pub(crate) stopped: u64,
    /// Percentage of commands with a wrong clock, and by how many seconds it can be wrong.
    pub(crate) shifted: u64,
    pub(crate) shifts: &'static [i64],
    /// Exit codes that the faults can cause.
    pub(crate) allowed: &'static [i32],
}

/// One store, its workers, and their history.
pub(crate) struct Workload {
    pub(crate) sandbox: Sandbox,
    pub(crate) repo: PathBuf,
    store: Option<String>,
    faults: Faults,
    /// The duration of a lease.
    lease: Duration,
    start: Instant,
    history: Mutex<File>,
    next: AtomicU64,
    workflows: Mutex<Vec<String>>,
    issues: Mutex<Vec<String>>,
    /// Labels and dependencies that can be removed: each an issue, and what it has.
    labels: Mutex<Vec<(String, String)>>,
    dependencies: Mutex<Vec<(String, String)>>,
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
    /// Creates a repository. Its store is the default one, or the one that `store` returns.
    pub(crate) fn new(
        torture: &Torture,
        store: impl FnOnce(&Sandbox) -> Option<String>,
        faults: Faults,
        lease: Duration,
    ) -> Workload {
        let sandbox = Sandbox::new(torture.way());
        let repo = sandbox.git_repo("repo");
        let mut history = File::create(sandbox.path("history.jsonl")).expect("a history");
        let lease_us = u64::try_from(lease.as_micros()).expect("a short lease");
        writeln!(history, "{}", json!({"line": "head", "allowed": faults.allowed, "lease_us": lease_us}))
            .expect("a history");
        Workload {
            store: store(&sandbox),
            sandbox,
            repo,
            faults,
            lease,
            start: Instant::now(),
            history: Mutex::new(history),
            next: AtomicU64::new(1),
            workflows: Mutex::default(),
            issues: Mutex::default(),
            labels: Mutex::default(),
            dependencies: Mutex::default(),
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
        disturb: impl Fn(&Workload, Duration) -> u64 + Sync,
    ) -> Tally {
        let mut dice = torture.dice();
        let until = Instant::now() + time;
        let names: Vec<String> = (0..workers).map(|number| format!("w{number}")).collect();
        for (number, name) in names.iter().enumerate() {
            let capability = if number % 2 == 0 { CAPABILITY } else { "" };
            self.run_without_faults(&["agent", "register", name, "--capability", capability]);
        }
        self.plan();
        let mut tally = Tally { rounds: 1, ..Tally::default() };
        self.check_shifts(&mut tally);
        std::thread::scope(|scope| {
            for name in &names {
                let others = names.iter().filter(|other| *other != name).cloned().collect();
                let worker = Worker { load: &self, name: name.clone(), others, dice: dice.fork(), written: 0 };
                scope.spawn(move || worker.work(until));
            }
            scope.spawn(|| self.counts[0].fetch_add(disturb(&self, time), Ordering::Relaxed));
        });
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

    /// Checks that a shifted clock reaches the program: the time in its answer is wrong by as much.
    fn check_shifts(&self, tally: &mut Tally) {
        for shift in self.faults.shifts {
            let run = Run::of(&self.shifted(*shift, &["add", &format!("shifted by {shift} s")]).output().expect("way"));
            let answer: Value = serde_json::from_str(&run.stdout).unwrap_or_default();
            let moment = answer["data"]["created_at"].as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
            let away = moment.map(|moment| moment.as_second() - jiff::Timestamp::now().as_second());
            if away.is_none_or(|away| (away - shift).abs() > MAX_SHIFT_ERROR) {
                tally.violation(format!("a clock shifted by {shift} s is wrong by {away:?} s: {}", run.whole()));
            }
        }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.prepare(self.sandbox.way_command(&self.repo), args)
    }

    /// Returns a command whose clock is wrong.
    fn shifted(&self, seconds: i64, args: &[&str]) -> Command {
        self.prepare(self.sandbox.way_command_shifted(&self.repo, seconds), args)
    }

    fn prepare(&self, mut command: Command, args: &[&str]) -> Command {
        command.args(args).arg("--json").env_remove("WAYPOST_TEST_CLOCK").stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(store) = &self.store {
            command.env("WAYPOST_DB", store);
        }
        command
    }

    /// Runs a command without faults, and returns its data.
    pub(crate) fn run_without_faults(&self, args: &[&str]) -> Value {
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

    /// Creates a workflow whose tasks do not run out of attempts. Some wait for others, some need a capability.
    fn plan(&self) {
        let mut workflows = self.workflows.lock().expect("workflows");
        let name = format!("flow{}", workflows.len());
        let task = |number: usize| {
            let blocker = (number % 3 == 2).then(|| format!("{name}-{}", number / 2));
            let capability = (number % 4 == 1).then_some(CAPABILITY);
            json!({
                "name": format!("{name}-{number}"), "max_attempts": 1000, "priority": number % 5,
                "depends_on": blocker.as_slice(), "capabilities": capability.as_slice(),
            })
        };
        let file = format!("{name}.json");
        let plan = json!({"tasks": (0..TASKS).map(task).collect::<Vec<_>>()});
        self.sandbox.write(self.repo.join(&file), plan.to_string());
        let create = ["workflow", "create", &name, "--plan", &file, "--max-parallel", MAX_PARALLEL];
        self.run_without_faults(&[&create[..], &["--start", "--key", &name]].concat());
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
        let fault = dice.map_or(Fault::None, |dice| self.fault(dice));
        self.record(
            &json!({"line": "start", "op": op, "time": self.now(), "process": worker, "args": args, "does": does}),
        );
        let is_mcp = does["over"] == "mcp";
        let (args, input) =
            if is_mcp { (&["mcp", "--agent", worker][..], mcp_requests(does)) } else { (args, String::new()) };
        let command = if let Fault::Shifted(shift) = fault { self.shifted(shift, args) } else { self.command(args) };
        let output = run_with(command, &fault, &input);
        let is_killed = output.status.signal() == Some(9);
        let (code, answer) = match (is_killed, is_mcp) {
            (true, _) => (None, Value::Null),
            (false, true) => mcp_answer(&output),
            (false, false) => cli_answer(&output),
        };
        self.record(&json!({"line": "end", "op": op, "time": self.now(), "code": code, "answer": answer}));
        self.counts[0].fetch_add(u64::from(!matches!(fault, Fault::None)), Ordering::Relaxed);
        self.counts[1].fetch_add(u64::from(is_killed), Ordering::Relaxed);
        self.counts[2].fetch_add(u64::from(code == Some(0)), Ordering::Relaxed);
        Reply { code, answer }
    }

    /// Records an operation that another program ran, which noted the exit code.
    pub(crate) fn record_operation(&self, does: &Value, code: i32) {
        let op = self.next.fetch_add(1, Ordering::Relaxed);
        self.record(&json!({"line": "start", "op": op, "time": 0, "does": does}));
        self.record(&json!({"line": "end", "op": op, "time": self.now(), "code": code}));
        self.counts[2].fetch_add(u64::from(code == 0), Ordering::Relaxed);
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
        if drawn < self.faults.killed + self.faults.stopped + self.faults.shifted {
            return Fault::Shifted(*dice.pick(self.faults.shifts));
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
                    let name = format!("healthy{number}");
                    self.run_without_faults(&["agent", "register", &name, "--capability", CAPABILITY]);
                    let mut worker = Worker::healthy(self, name);
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
    Shifted(i64),
}

/// Runs a command, and kills or suspends it. Its input ends after as many lines of output as it has requests.
fn run_with(mut command: Command, fault: &Fault, input: &str) -> Output {
    let mut child = command.stdin(Stdio::piped()).spawn().expect("way");
    let (mut stdin, stdout) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    // The input fits into the pipe. A process that is gone does not read it.
    let _ = stdin.write_all(input.as_bytes());
    // The process id is not reused before this process waits for its child.
    let pid = Pid::from_child(&child);
    match *fault {
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
    let (mut stdout, mut printed) = (BufReader::new(stdout), Vec::new());
    for _ in input.lines().filter(|line| line.contains("\"id\":")) {
        let _ = stdout.read_until(b'\n', &mut printed);
    }
    drop(stdin);
    let _ = stdout.read_to_end(&mut printed);
    Output { stdout: printed, ..child.wait_with_output().expect("way") }
}

/// Returns the exit code of a command, and its data or its error.
fn cli_answer(output: &Output) -> (Option<i32>, Value) {
    let code = Run::of(output).code;
    let printed = if code == 0 { &output.stdout } else { &output.stderr };
    let mut answer: Value =
        serde_json::from_slice(printed).unwrap_or_else(|_| json!({"data": String::from_utf8_lossy(printed)}));
    (Some(code), if code == 0 { answer["data"].take() } else { answer })
}

/// Returns the requests of an agent that makes one call over MCP.
fn mcp_requests(does: &Value) -> String {
    let (tool, mut arguments) = match does["kind"].as_str().unwrap_or_default() {
        "checkpoint" => ("checkpoint", json!({"task": does["task"], "epoch": does["epoch"], "summary": does["text"]})),
        "send" => ("messages", json!({"do": "send", "to": does["to"], "text": does["text"]})),
        "comment" => ("issue", json!({"do": "comment", "id": does["issue"], "text": does["text"]})),
        how => ("finish", json!({"how": how, "task": does["task"], "epoch": does["epoch"], "text": "over"})),
    };
    if does["key"].is_string() {
        arguments["key"] = does["key"].clone();
    }
    let client = json!({"name": "torture", "version": "1"});
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}),
    ];
    messages.map(|message| message.to_string() + "\n").concat()
}

/// Returns the answer to the call over MCP, with the exit code that a command would have.
fn mcp_answer(output: &Output) -> (Option<i32>, Value) {
    let lines = String::from_utf8_lossy(&output.stdout);
    let mut messages = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let Some(mut called) = messages.find(|message| message["id"] == 2) else {
        return (Some(101), json!(Run::of(output).whole()));
    };
    let answer = called["result"]["structuredContent"].take();
    let code = match answer["error"]["code"].as_str() {
        None => 0,
        Some("not_found" | "ambiguous") => 3,
        Some("conflict") => 4,
        Some("lease_lost") => 5,
        Some("nothing_to_do") => 6,
        Some("refused") => 7,
        Some("unavailable") => 8,
        Some(_) => 1,
    };
    (Some(code), answer)
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
        let (text, over) = (self.fresh("note"), self.over());
        let note = ["task", "checkpoint", task, "--type", "progress", "--summary", &text];
        let mut does = json!({"kind": "checkpoint", "over": over, "task": task, "epoch": epoch, "text": text});
        if self.dice.percent(50) {
            does["key"] = json!(text);
            self.retry_until_known(&does, &[&note[..], &held, &["--key", &text]].concat());
        } else {
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
        let does = json!({"kind": kind, "over": self.over(), "task": task, "epoch": epoch});
        self.operate(&does, &[args, &held].concat());
    }

    /// Returns the surface of the next operation: every fifth goes over MCP.
    fn over(&mut self) -> &'static str {
        if self.dice.percent(20) { "mcp" } else { "cli" }
    }

    fn message(&mut self) {
        let (name, text) = (self.name.clone(), self.fresh("message"));
        let to = self.dice.pick(&self.others).clone();
        let does = json!({"kind": "send", "over": self.over(), "from": name, "to": to, "text": text, "key": text});
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
        match self.dice.below(14) {
            0 => {
                self.operate(&json!({"kind": "close", "issue": issue}), &["close", issue]);
            }
            1..4 => {
                let does = json!({"kind": "comment", "over": self.over(), "issue": issue, "text": text});
                self.operate(&does, &["comment", issue, &text]);
            }
            4..6 => {
                if self.set(issue, "labels", Some(&text), &json!(true), &["label", "add", issue, &text]) {
                    self.load.labels.lock().expect("labels").push((issue.clone(), text));
                }
            }
            6..8 => {
                let Some((issue, label)) = take(&self.load.labels, &mut self.dice) else { return };
                self.set(&issue, "labels", Some(&label), &json!(false), &["label", "rm", &issue, &label]);
            }
            8 => {
                // Only on earlier issues, so that there is no cycle.
                let before = known.iter().position(|one| one == issue).unwrap_or_default();
                if before == 0 {
                    return;
                }
                let on = self.dice.pick(&known[..before]).clone();
                if self.set(issue, "dependencies", Some(&on), &json!(true), &["dep", "add", issue, &on]) {
                    self.load.dependencies.lock().expect("dependencies").push((issue.clone(), on));
                }
            }
            9 => {
                let Some((issue, on)) = take(&self.load.dependencies, &mut self.dice) else { return };
                self.set(&issue, "dependencies", Some(&on), &json!(false), &["dep", "rm", &issue, &on]);
            }
            10 | 11 => {
                let name = if self.dice.percent(50) { &text } else { "" };
                self.set(issue, "assignee", None, &json!(name), &["assign", issue, name]);
            }
            _ => {
                let notes = if self.dice.percent(50) { &text } else { "" };
                self.set(issue, "notes", None, &json!(notes), &["update", issue, "--notes", notes]);
            }
        }
    }

    /// Sets a field of an issue, or adds an item to a list or removes it. Returns whether it was acknowledged.
    fn set(&mut self, issue: &str, field: &str, item: Option<&str>, value: &Value, args: &[&str]) -> bool {
        let does = json!({"kind": "set", "issue": issue, "field": field, "item": item, "value": value});
        self.operate(&does, args).is_ok()
    }
}

/// Takes a random element out of a list.
fn take<T>(list: &Mutex<Vec<T>>, dice: &mut Dice) -> Option<T> {
    let mut list = list.lock().expect("a list");
    let place = dice.below(list.len() as u64 + 1);
    let place = usize::try_from(place).expect("an index");
    (place < list.len()).then(|| list.swap_remove(place))
}
