//! Repositories whose jobs run in workspaces.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, kill_process};
use serde_json::Value;
use waypost_testkit::{Run, Sandbox, Template};

use crate::support::{interruption, sandbox};

/// How long the job of a test may take. A job that is not ended would sleep for much longer.
pub(crate) const JOB_TIMEOUT: Duration = Duration::from_secs(45);

/// A script with every kind of command that a job uses. Its first argument is the program. The job has the task `one` of
/// the workflow `w`, and there is an agent `bob`.
pub(crate) const JOB_COMMANDS: &str = r#"
    set -e; program=$0; way() { "$program" "$@"; }
    way status >/dev/null; way where >/dev/null; way prime >/dev/null; way doctor >/dev/null
    way task list >/dev/null; way workflow show w >/dev/null; way context $WAYPOST_TASK >/dev/null
    way task show two >/dev/null; way job show $WAYPOST_JOB >/dev/null; way job list >/dev/null
    way task checkpoint $WAYPOST_TASK --summary half >/dev/null
    way agent heartbeat >/dev/null
    way job note --phase thinking >/dev/null
    way msg send bob hello >/dev/null; way msg inbox >/dev/null 2>&1
    way events --limit 3 >/dev/null
    id=$(way add Found --quiet --json | sed 's/.*"id":"\([^"]*\)".*/\1/')
    way ready >/dev/null; way comment $id text >/dev/null; way claim $id >/dev/null
    way update $id --priority 1 >/dev/null; way close $id >/dev/null
    echo '{}' | way hook --for claude start >/dev/null
    way task done $WAYPOST_TASK --outcome built >/dev/null
    echo '{}' | way hook --for claude tool >/dev/null
    echo all commands work
"#;

/// A repository with a commit and a remote, where jobs are started.
pub(crate) struct Shop {
    pub(crate) sandbox: Sandbox,
    pub(crate) repo: PathBuf,
    pub(crate) remote: PathBuf,
}

impl Shop {
    pub(crate) fn new() -> Shop {
        static TEMPLATE: Template = Template::new(|sandbox| {
            let repo = sandbox.git_repo("repo");
            let remote = sandbox.path("remote.git");
            sandbox.git(&repo, ["init", "--quiet", "--bare", "--initial-branch=main", remote.to_str().unwrap()]);
            sandbox.write(sandbox.path("home/.gitconfig"), "[user]\n\tname = A\n\temail = a@example.org\n");
            sandbox.write(repo.join("file"), "one\n");
            sandbox.write(repo.join(".gitignore"), "ignored\n.env\n");
            sandbox.git(&repo, ["add", "."]);
            sandbox.git(&repo, ["commit", "--quiet", "-m", "First"]);
            sandbox.git(&repo, ["remote", "add", "origin", remote.to_str().unwrap()]);
            sandbox.git(&repo, ["push", "--quiet", "origin", "HEAD:main"]);
            sandbox.path("")
        });
        let sandbox = sandbox();
        sandbox.copy(&TEMPLATE, "");
        let (repo, remote) = (sandbox.path("repo"), sandbox.path("remote.git"));
        Shop { sandbox, repo, remote }
    }

    #[track_caller]
    pub(crate) fn way<const N: usize>(&self, args: [&str; N]) -> Run {
        self.run(&args)
    }

    /// Runs a command with `--quiet`.
    #[track_caller]
    pub(crate) fn run(&self, args: &[&str]) -> Run {
        self.sandbox.run(self.command().args(args), "")
    }

    /// A command that uses the real clock, as the commands of jobs do.
    pub(crate) fn command(&self) -> Command {
        let mut command = self.sandbox.way_command(&self.repo);
        command.env_remove("WAYPOST_TEST_CLOCK").arg("--quiet");
        command
    }

    /// Runs a job to its end and returns its record. A job that does not end is cancelled and fails the test.
    #[track_caller]
    pub(crate) fn job(&self, flags: &[&str], script: &str) -> Value {
        let mut command = self.command();
        command.args(["job", "start", "--json"]).args(flags).args(["--", "sh", "-c", script]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || sender.send(child.wait_with_output()));
        let output = receiver.recv_timeout(JOB_TIMEOUT).unwrap_or_else(|_| {
            kill_process(pid, interruption()).unwrap();
            let said = receiver.recv_timeout(Duration::from_secs(10)).map(|output| Run::of(&output.unwrap()).whole());
            panic!("nothing ended the job in {JOB_TIMEOUT:?}: {flags:?} {script}\n{}", said.unwrap_or_default());
        });
        let run = Run::of(&output.unwrap());
        serde_json::from_str::<Value>(&run.stdout).unwrap_or_else(|_| panic!("{}", run.whole()))["data"].clone()
    }

    /// Starts a job in the background.
    #[track_caller]
    pub(crate) fn started(&self, flags: &[&str], script: &str) -> Value {
        let args = [&["job", "start", "--json", "--detach"], flags, &["--", "sh", "-c", script]].concat();
        self.run(&args).data()
    }

    pub(crate) fn show(&self, job: &Value) -> Value {
        self.way(["job", "show", "--json", job["id"].as_str().unwrap()]).data()
    }

    pub(crate) fn workspaces(&self) -> Vec<Value> {
        self.way(["ws", "list", "--json"]).data().as_array().unwrap().clone()
    }

    /// The directory of all workspaces.
    pub(crate) fn root(&self) -> PathBuf {
        self.sandbox.path("home/.waypost/workspaces")
    }

    pub(crate) fn workflow(&self, plan: &Value) {
        let file = self.sandbox.path("plan.json");
        self.sandbox.write(&file, plan.to_string());
        let _ = self.way(["workflow", "create", "w", "--plan", file.to_str().unwrap(), "--start"]).ok();
    }
}

pub(crate) fn path(value: &Value) -> &Path {
    Path::new(value.as_str().unwrap_or_else(|| panic!("{value} is no path")))
}

pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

pub(crate) fn pid_of(value: &Value) -> Pid {
    Pid::from_raw(i32::try_from(value["pid"].as_i64().unwrap()).unwrap()).unwrap()
}

/// The state of a repository that a job must not change.
pub(crate) fn state_of(shop: &Shop) -> Vec<Vec<u8>> {
    let git = shop.repo.join(".git");
    let refs = shop.sandbox.git(&shop.repo, ["for-each-ref"]);
    let index = fs::metadata(git.join("index")).unwrap();
    vec![
        refs.into_bytes(),
        fs::read(git.join("index")).unwrap(),
        format!("{:?}", index.modified().unwrap()).into_bytes(),
        fs::read(git.join("config")).unwrap(),
        fs::read(git.join("HEAD")).unwrap(),
        fs::read(shop.repo.join("file")).unwrap(),
    ]
}

impl Shop {
    /// A prefix that only the command lines of this shop's supervisors have.
    pub(crate) fn supervisors(&self) -> String {
        format!("-C {} job supervise", self.repo.display())
    }
}
