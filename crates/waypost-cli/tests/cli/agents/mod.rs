//! Real coding agents without a network: each reads the settings that `way setup` wrote, starts `way mcp`, runs the hooks, and
//! works through a session in which a scripted model decides.

mod claude;
mod codex;
mod copilot;
mod gemini;
mod opencode;
mod qwen;

use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use waypost_testkit::{Model, ModelRequest, Run, Sandbox, Turn, processes_in};

use crate::support::sandbox;

/// The moment at which tests begin.
const START: &str = "2026-01-01T00:00:00Z";

/// How long an agent may take for a session.
const SESSION_TIMEOUT: Duration = Duration::from_mins(2);
/// When the long turn of a session uses its second tool: more than a third of a lease has passed.
const LATER: &str = "2026-01-01T00:06:00Z";
/// After the end of a lease that was not renewed.
const MUCH_LATER: &str = "2026-01-01T00:12:00Z";

/// A repository with a task, and a home in which `way` is the first program of that name.
struct Desk {
    sandbox: Sandbox,
    repo: PathBuf,
}

/// Ends every process that still runs in the sandbox: agents start servers and shells in sessions of their own.
impl Drop for Desk {
    fn drop(&mut self) {
        for process in self.processes() {
            let _ = rustix::process::kill_process(process, Signal::KILL);
        }
    }
}

impl Desk {
    /// A repository with the workflow `w` and its task `a`, configured for an agent.
    fn new(agent: &str) -> Desk {
        let sandbox = sandbox();
        let repo = sandbox.git_repo("repo");
        let desk = Desk { sandbox, repo };
        desk.sandbox.write(desk.clock(), START);
        desk.sandbox.write(desk.repo.join(".git/info/exclude"), "/clock\n");
        desk.sandbox.dir("bin");
        // A file of this process could still be open in a parallel test's child, which prevents its execution.
        // In the sandbox of an agent, the list of calls cannot be written.
        let script = format!(
            "#!/bin/sh\n{{ echo \"$@\" >> '{}'; }} 2> /dev/null\nWAYPOST_TEST_CLOCK=$(cat '{}') exec '{}' \"$@\"\n",
            desk.sandbox.path("calls").display(),
            desk.clock().display(),
            env!("CARGO_BIN_EXE_way")
        );
        desk.sandbox.write("way.sh", script);
        let mut install = desk.sandbox.command("install", &desk.repo);
        install.args(["-m", "755"]).arg(desk.sandbox.path("way.sh")).arg(desk.sandbox.path("bin/way"));
        assert!(install.status().unwrap().success());
        // Login shells reset the path.
        let profile = format!("PATH='{}':$PATH\n", desk.sandbox.path("bin").display());
        desk.sandbox.write("home/.profile", profile);
        desk.sandbox.write("plan", "a: Paint the fence\n");
        let plan = desk.sandbox.path("plan");
        let plan = plan.to_str().unwrap();
        let _ = desk.way(&["workflow", "create", "w", "--plan", plan, "--start"]);
        if !agent.is_empty() {
            let _ = desk.way(&["setup", agent]);
        }
        desk
    }

    /// Runs `way` at the current time of the sandbox.
    #[track_caller]
    fn way(&self, args: &[&str]) -> Value {
        let run = Run::of(&self.command(&self.sandbox.path("bin/way")).args(args).arg("--json").output().unwrap());
        assert_eq!(run.code, 0, "{run:#?}");
        serde_json::from_str::<Value>(&run.stdout).unwrap()["data"].take()
    }

    /// Returns a command of the agent: no settings of this machine, no network, no secrets in the environment.
    fn command(&self, program: &Path) -> Command {
        let mut command = self.sandbox.command(program, &self.repo);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(self.sandbox.path("bin")).chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(path).unwrap()).env("SHELL", "/bin/bash");
        // Agents write their environment to files, for their shells.
        command.env_remove("SANDBOX_PASSWORD").env_remove("WAYPOST_TEST_CLOCK");
        // Nothing listens on this port: a request to another machine fails at once.
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
            command.env(name, "http://127.0.0.1:9");
        }
        command.env("NO_PROXY", "127.0.0.1,localhost").env("no_proxy", "127.0.0.1,localhost");
        command
    }

    /// Runs a command of the agent to its end.
    #[track_caller]
    fn run(&self, command: &mut Command) -> Run {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn().unwrap();
        let output = [read_all(child.stdout.take()), read_all(child.stderr.take())];
        let id = Pid::from_child(&child);
        let (sender, ended) = mpsc::channel();
        std::thread::spawn(move || sender.send(child.wait()));
        let Ok(status) = ended.recv_timeout(SESSION_TIMEOUT) else {
            let _ = rustix::process::kill_process_group(id, Signal::KILL);
            self.end_processes();
            let [stdout, stderr] = output.map(|text| text.recv_timeout(SESSION_TIMEOUT).unwrap_or_default());
            panic!("{command:?} does not end: {stdout}\n{stderr}");
        };
        // A process that it left behind may hold the pipes open.
        self.end_processes();
        let [stdout, stderr] = output.map(|text| text.recv_timeout(SESSION_TIMEOUT).unwrap_or_default());
        Run { code: status.unwrap().code().unwrap_or(-1), stdout, stderr }
    }

    /// Runs a command of the agent that must succeed, and returns all that it printed.
    #[track_caller]
    fn prints(&self, command: &mut Command) -> String {
        let run = self.run(command);
        assert_eq!(run.code, 0, "{command:?}: {run:#?}");
        run.stdout + &run.stderr
    }

    fn end_processes(&self) {
        for process in self.processes() {
            let _ = rustix::process::kill_process(process, Signal::KILL);
        }
    }

    /// Returns the processes that have the home of the sandbox.
    fn processes(&self) -> Vec<Pid> {
        processes_in(&self.sandbox.path("home")).into_iter().map(|process| process.pid).collect()
    }

    /// Returns the file with the time. It is in the repository, because agents in a sandbox can write there.
    fn clock(&self) -> PathBuf {
        self.repo.join("clock")
    }

    /// Returns a command line for the shell of the agent that sets the time.
    fn setting_time(&self, time: &str) -> String {
        format!("printf {time} > '{}'", self.clock().display())
    }

    /// Starts a model that works as an agent does in a long turn: with the MCP tools, and with `way` in the shell. `shell`
    /// makes a call of the agent's shell.
    fn model(&self, shell: fn(&ModelRequest, &str) -> Turn) -> Model {
        self.model_at([LATER, MUCH_LATER], shell)
    }

    /// The same for an agent without hooks, whose turn must be shorter than its lease.
    fn model_without_hooks(&self, shell: fn(&ModelRequest, &str) -> Turn) -> Model {
        self.model_at([LATER, LATER], shell)
    }

    fn model_at(&self, times: [&str; 2], shell: fn(&ModelRequest, &str) -> Turn) -> Model {
        let [first, second] = times.map(|time| self.setting_time(time));
        Model::start(move |request| match request.turn {
            0 => request.call("prime", json!({ "agent": "scribe" })),
            1 => request.call("issue", json!({ "do": "add", "title": "Buy more paint", "agent": "scribe" })),
            2 => shell(request, "way task claim w/a --agent painter"),
            3 => shell(request, &first),
            4 => shell(
                request,
                &format!("{second}; way task checkpoint w/a --summary 'Half is painted' --epoch 1 --agent painter"),
            ),
            5 => shell(request, "way task done w/a --outcome 'All is painted' --epoch 1 --agent painter"),
            _ => Turn::say("The fence is painted."),
        })
    }

    /// Asserts what a session with [`Desk::model`] leaves in the store and in the ledger, and what the model saw.
    #[track_caller]
    fn assert_session(&self, model: &Model, run: &Run) {
        let requests = model.requests();
        let Some(last) = requests.last() else { panic!("no request: {run:#?} {:?}", model.unknown_paths()) };
        let results = &last.results;
        assert_eq!(results.len(), 6, "{results:#?} {run:#?}");
        assert!(results[0].contains("## Next tasks"), "{}", results[0]);
        assert!(results[1].contains("Buy more paint"), "{}", results[1]);
        assert!(run.stdout.contains("The fence is painted."), "{run:#?}");
        let issues = self.way(&["list"]);
        assert_eq!(issues[0]["title"], "Buy more paint", "{issues}");
        let task = self.way(&["task", "show", "w/a"]);
        assert_eq!(task["status"], "completed", "{task}");
        assert!(task.to_string().contains("All is painted"), "{task}");
    }

    /// Asserts that a hook renewed the lease after the use of a tool in the long turn. No command of the session did: the
    /// tool only set the time, and the MCP server does not know the name.
    #[track_caller]
    fn assert_renewed_by_hook(&self) {
        let events = self.way(&["events", "--kind", "agent.heartbeat", "--limit", "100"]);
        let is_renewal = |event: &Value| event["time"] == "2026-01-01T00:06:00.000Z" && event["actor"] == "painter";
        assert!(events.as_array().is_some_and(|events| events.iter().any(is_renewal)), "{events}");
    }

    /// Asserts that the agent ran these hooks.
    #[track_caller]
    fn assert_hooks(&self, agent: &str, moments: &[&str]) {
        let calls = std::fs::read_to_string(self.sandbox.path("calls")).unwrap();
        for moment in moments {
            let call = format!("hook {moment} --for {agent}");
            assert!(calls.lines().any(|line| line == call), "{call}: {calls}");
        }
    }

    /// Forgets the calls of `way` so far.
    fn forget_calls(&self) {
        self.sandbox.write("calls", "");
    }
}

/// Reads a pipe to its end, in a thread.
fn read_all(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.unwrap().read_to_end(&mut bytes);
        sender.send(String::from_utf8_lossy(&bytes).into_owned())
    });
    receiver
}
