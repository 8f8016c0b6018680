//! The repositories for injecting faults into single commands, and the commands.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use waypost_testkit::{Run, Sandbox};

use crate::Torture;
use crate::tally::Tally;

/// The ledger of a repository.
const LEDGER: &str = ".waypost/issues.jsonl";

/// The effect of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Done,
    Absent,
    /// Partly moved from one ledger to another. Repeating the command completes it.
    Between,
    /// Partly done, which is never allowed.
    Half,
    /// Earlier data is lost.
    Lost,
}

/// A command that writes.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Prepares the command and returns its arguments. The token is a unique text.
    pub(crate) prepare: fn(&Scene, &str) -> Vec<String>,
    pub(crate) effect: fn(&Scene, &str, &[String]) -> Effect,
}

/// A project with a remote, a planning repository, and a store.
pub(crate) struct Scene {
    pub(crate) sandbox: Sandbox,
    pub(crate) repo: PathBuf,
    way: PathBuf,
    workspace: String,
    /// Number of snapshots before the command.
    snapshots: Cell<usize>,
}

impl Scene {
    pub(crate) fn new(torture: &Torture) -> Scene {
        let sandbox = Sandbox::new(torture.way());
        let remote = sandbox.dir("remote.git");
        sandbox.git(&remote, ["init", "-q", "--bare", "-b", "main"]);
        let repo = sandbox.git_repo("repo");
        sandbox.git_repo("other");
        sandbox.git(&repo, ["remote", "add", "origin", "../remote.git"]);
        sandbox.git(&repo, ["push", "-q", "-u", "origin", "main"]);
        let mut scene =
            Scene { sandbox, repo, way: torture.way.clone(), workspace: String::new(), snapshots: Cell::new(0) };
        scene.way(&["config", "--add-repo", "../other"]);
        scene.way(&["add", "first"]);
        scene.sandbox.git(&scene.repo, ["add", "."]);
        scene.sandbox.git(&scene.repo, ["commit", "-q", "-m", "ledger"]);
        scene.sandbox.git(&scene.repo, ["push", "-q"]);
        for agent in ["me", "you"] {
            scene.way(&["agent", "register", agent]);
        }
        scene.sandbox.git(&scene.sandbox.path("."), ["clone", "-q", "remote.git", "fork"]);
        scene.way(&["-C", "../fork", "init", "--contributor", "--planning", "../planning"]);
        scene.workspace = text(&scene.way(&["ws", "new"])["id"]);
        scene
    }

    pub(crate) fn way(&self, args: &[&str]) -> Value {
        let run = self.way_raw(&[args, &["--json"]].concat());
        serde_json::from_str::<Value>(&run.stdout).map(|mut answer| answer["data"].take()).unwrap_or_default()
    }

    pub(crate) fn way_raw<A: AsRef<str>>(&self, args: &[A]) -> Run {
        let mut command: Command = self.sandbox.way_command(&self.repo);
        command.env_remove("WAYPOST_TEST_CLOCK").args(args.iter().map(AsRef::as_ref));
        Run::of(&command.output().expect("way"))
    }

    pub(crate) fn program(&self) -> &Path {
        &self.way
    }

    /// Returns the file that `strace` writes.
    pub(crate) fn trace(&self) -> PathBuf {
        self.sandbox.path("trace")
    }

    /// Removes the locks of a killed git in the remote repository, as its administrator would.
    pub(crate) fn repair_remote(&self) {
        let mut find = self.sandbox.command("find", &self.sandbox.path("remote.git"));
        let _ = find.args([".", "-name", "*.lock", "-delete"]).status().expect("find");
    }

    /// Runs the checks of `way` itself.
    pub(crate) fn check(&self, when: &str, tally: &mut Tally) {
        for args in [&["doctor"][..], &["db", "check"], &["list", "--all"], &["task", "list"], &["ws", "list"]] {
            let run = self.way_raw(args);
            if run.code != 0 {
                tally.violation(format!("{args:?} {when}: {}", run.whole()));
            }
        }
    }

    fn issue(&self, token: &str) -> String {
        text(&self.way(&["add", &format!("issue {token}")])["id"])
    }

    /// Creates an issue in the planning repository of a contributor.
    fn planned(&self, token: &str) -> String {
        text(&self.way(&["-C", "../fork", "add", token])["id"])
    }

    /// Returns whether the fork and the planning repository have an issue.
    fn places(&self, issue: &str) -> (bool, bool) {
        (self.has("fork", issue), self.has("planning", issue))
    }

    /// Returns the visibility of an issue of the planning repository.
    fn visibility(&self, issue: &str) -> String {
        text(&self.way(&["-C", "../planning", "show", issue])["visibility"])
    }

    /// Creates a workflow with one task and returns the task.
    fn task(&self, token: &str) -> String {
        self.sandbox.write(self.repo.join(".git/plan.json"), r#"{"tasks": [{"name": "only", "max_attempts": 1000}]}"#);
        self.way(&["workflow", "create", token, "--plan", ".git/plan.json", "--start"]);
        text(&self.way(&["task", "list", "--workflow", token])[0]["id"])
    }

    fn claimed(&self, token: &str) -> String {
        let task = self.task(token);
        self.way(&["task", "claim", &task, "--agent", "me", "--budget", "100"]);
        task
    }

    fn shown(&self, issue: &str) -> Value {
        self.way(&["show", issue])
    }

    fn list(&self, args: &[&str]) -> Vec<Value> {
        self.way(args).as_array().cloned().unwrap_or_default()
    }

    fn has(&self, repo: &str, issue: &str) -> bool {
        let ledger = std::fs::read_to_string(self.sandbox.path(repo).join(LEDGER)).unwrap_or_default();
        ledger.contains(&format!("\"{issue}\""))
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn words(args: &[&str]) -> Vec<String> {
    args.iter().map(|word| (*word).to_owned()).collect()
}

fn done(is_done: bool) -> Effect {
    if is_done { Effect::Done } else { Effect::Absent }
}

/// Returns the effect on an issue that exists before and after.
fn on_issue(scene: &Scene, issue: &str, is_done: impl Fn(&Value) -> bool) -> Effect {
    let shown = scene.shown(issue);
    if shown["id"] == issue { done(is_done(&shown)) } else { Effect::Lost }
}

fn on_task(scene: &Scene, task: &str, is_done: impl Fn(&Value) -> bool) -> Effect {
    let shown = scene.way(&["task", "show", task]);
    if shown["id"] == task { done(is_done(&shown)) } else { Effect::Lost }
}

fn contains(list: &Value, key: Option<&str>, expected: &str) -> bool {
    let value = |one: &Value| key.map_or_else(|| one.clone(), |key| one[key].clone());
    list.as_array().into_iter().flatten().any(|one| value(one) == expected)
}

/// Every command that writes.
pub(crate) const CASES: &[Case] = &[
    Case {
        name: "add",
        prepare: |_, token| words(&["add", token]),
        effect: |scene, token, _| match scene.list(&["list", "--text", token, "--all"]).len() {
            0 => Effect::Absent,
            1 => Effect::Done,
            _ => Effect::Half,
        },
    },
    Case {
        name: "comment",
        prepare: |scene, token| words(&["comment", &scene.issue(token), token]),
        effect: |scene, token, args| {
            on_issue(scene, &args[1], |issue| contains(&issue["comments"], Some("text"), token))
        },
    },
    Case {
        name: "update",
        prepare: |scene, token| words(&["update", &scene.issue(token), "--notes", token]),
        effect: |scene, token, args| on_issue(scene, &args[1], |issue| issue["notes"] == token),
    },
    Case {
        name: "label",
        prepare: |scene, token| words(&["label", "add", &scene.issue(token), token]),
        effect: |scene, token, args| on_issue(scene, &args[2], |issue| contains(&issue["labels"], None, token)),
    },
    Case {
        name: "label rm",
        prepare: |scene, token| {
            let issue = scene.issue(token);
            scene.way(&["label", "add", &issue, token]);
            words(&["label", "rm", &issue, token])
        },
        effect: |scene, token, args| on_issue(scene, &args[2], |issue| !contains(&issue["labels"], None, token)),
    },
    Case {
        name: "unassign",
        prepare: |scene, token| {
            let issue = scene.issue(token);
            scene.way(&["assign", &issue, token]);
            words(&["assign", &issue, ""])
        },
        effect: |scene, _, args| on_issue(scene, &args[1], |issue| issue["assignee"].is_null()),
    },
    Case {
        name: "update to nothing",
        prepare: |scene, token| {
            let issue = scene.issue(token);
            scene.way(&["update", &issue, "--notes", token]);
            words(&["update", &issue, "--notes", ""])
        },
        effect: |scene, _, args| on_issue(scene, &args[1], |issue| issue["notes"].is_null()),
    },
    Case {
        name: "close",
        prepare: |scene, token| words(&["close", &scene.issue(token)]),
        effect: |scene, _, args| on_issue(scene, &args[1], |issue| issue["status"] == "closed"),
    },
    Case {
        name: "reopen",
        prepare: |scene, token| {
            let issue = scene.issue(token);
            scene.way(&["close", &issue]);
            words(&["reopen", &issue])
        },
        effect: |scene, _, args| on_issue(scene, &args[1], |issue| issue["status"] == "open"),
    },
    Case {
        name: "claim",
        prepare: |scene, token| words(&["claim", &scene.issue(token), "--agent", "me"]),
        effect: |scene, _, args| on_issue(scene, &args[1], |issue| issue["status"] == "in_progress"),
    },
    Case {
        name: "release",
        prepare: |scene, token| {
            let issue = scene.issue(token);
            scene.way(&["claim", &issue, "--agent", "me"]);
            words(&["release", &issue, "--agent", "me"])
        },
        effect: |scene, _, args| on_issue(scene, &args[1], |issue| issue["status"] == "open"),
    },
    Case {
        name: "batch",
        prepare: |scene, token| {
            let lines: Vec<String> = (0..3).map(|number| format!("add \"{token} {number}\"\n")).collect();
            scene.sandbox.write(scene.repo.join(".git/batch.txt"), lines.concat());
            words(&["batch", ".git/batch.txt"])
        },
        effect: |scene, token, _| match scene.list(&["list", "--text", token, "--all"]).len() {
            0 => Effect::Absent,
            3 => Effect::Done,
            _ => Effect::Half,
        },
    },
    Case {
        name: "delete",
        prepare: |scene, token| words(&["delete", &scene.issue(token)]),
        effect: |scene, _, args| on_issue(scene, &args[1], |issue| issue["status"] == "tombstone"),
    },
    Case {
        name: "dep add",
        prepare: |scene, token| words(&["dep", "add", &scene.issue(token), &scene.issue(token)]),
        effect: |scene, _, args| {
            on_issue(scene, &args[2], |issue| contains(&issue["dependencies"], Some("depends_on_id"), &args[3]))
        },
    },
    Case {
        name: "dep rm",
        prepare: |scene, token| {
            let (issue, on) = (scene.issue(token), scene.issue(token));
            scene.way(&["dep", "add", &issue, &on]);
            words(&["dep", "rm", &issue, &on])
        },
        effect: |scene, _, args| {
            on_issue(scene, &args[2], |issue| !contains(&issue["dependencies"], Some("depends_on_id"), &args[3]))
        },
    },
    Case {
        name: "propose",
        prepare: |scene, token| words(&["-C", "../fork", "propose", &scene.planned(token)]),
        effect: |scene, _, args| match scene.places(&args[3]) {
            (true, true) if scene.visibility(&args[3]) == "proposed" => Effect::Done,
            (true, true) => Effect::Between,
            (false, true) => Effect::Absent,
            (_, false) => Effect::Lost,
        },
    },
    Case {
        name: "withdraw",
        prepare: |scene, token| {
            let issue = scene.planned(token);
            scene.way(&["-C", "../fork", "propose", &issue]);
            words(&["-C", "../fork", "withdraw", &issue])
        },
        effect: |scene, _, args| match scene.places(&args[3]) {
            (false, true) if scene.visibility(&args[3]) != "proposed" => Effect::Done,
            (_, true) => Effect::Between,
            (_, false) => Effect::Lost,
        },
    },
    Case {
        name: "migrate",
        prepare: |scene, token| {
            let issue = scene.issue(token);
            words(&["migrate", "--move-to", "../other", "--filter", &format!("id={issue}")])
        },
        effect: |scene, _, args| {
            let issue = args[4].trim_start_matches("id=");
            match (scene.has("repo", issue), scene.has("other", issue)) {
                (true, false) => Effect::Absent,
                (false, true) => Effect::Done,
                (true, true) => Effect::Between,
                (false, false) => Effect::Lost,
            }
        },
    },
    Case {
        name: "sync",
        prepare: |scene, token| {
            scene.issue(token);
            words(&["sync", "--repo", "."])
        },
        effect: |scene, token, _| {
            let remote = scene.sandbox.path("remote.git");
            let ledger = scene.sandbox.git(&remote, ["show", &format!("main:{LEDGER}")]);
            let is_here = !scene.list(&["list", "--text", token]).is_empty();
            if is_here { done(ledger.contains(token)) } else { Effect::Lost }
        },
    },
    Case {
        name: "workflow create",
        prepare: |scene, token| {
            let plan = r#"{"tasks": [{"name": "a"}, {"name": "b", "depends_on": ["a"]}]}"#;
            scene.sandbox.write(scene.repo.join(".git/plan.json"), plan);
            words(&["workflow", "create", token, "--plan", ".git/plan.json", "--start"])
        },
        effect: |scene, token, _| {
            let shown = scene.way(&["workflow", "show", token]);
            match shown["tasks"].as_array().map(Vec::len) {
                None => Effect::Absent,
                Some(2) if shown["status"] == "in_progress" => Effect::Done,
                Some(_) => Effect::Half,
            }
        },
    },
    Case {
        name: "task claim",
        prepare: |scene, token| words(&["task", "claim", &scene.task(token), "--agent", "me", "--budget", "100"]),
        effect: |scene, _, args| on_task(scene, &args[2], |task| task["holder"] == "me"),
    },
    Case {
        name: "task checkpoint",
        prepare: |scene, token| {
            let task = scene.claimed(token);
            let note = ["task", "checkpoint", &task, "--type", "progress", "--summary", token];
            words(&[&note[..], &["--agent", "me", "--key", token]].concat())
        },
        effect: |scene, token, args| {
            on_task(scene, &args[2], |task| contains(&task["checkpoints"], Some("summary"), token))
        },
    },
    Case {
        name: "task done",
        prepare: |scene, token| words(&["task", "done", &scene.claimed(token), "--outcome", token, "--agent", "me"]),
        effect: |scene, token, args| on_task(scene, &args[2], |task| task["outcome"] == token),
    },
    Case {
        name: "task done with an issue",
        prepare: |scene, token| {
            let issue = scene.issue(token);
            scene.way(&["workflow", "from-issue", &issue, "--name", token, "--start"]);
            let task = text(&scene.way(&["task", "list", "--workflow", token])[0]["id"]);
            scene.way(&["task", "claim", &task, "--agent", "me", "--budget", "100"]);
            words(&["task", "done", &task, "--outcome", token, "--agent", "me"])
        },
        effect: |scene, token, args| {
            // The next command that writes delivers the notice, if there is one.
            scene.way(&["agent", "register", "me"]);
            let task = scene.way(&["task", "show", &args[2]]);
            let issue = scene.shown(task["issue"].as_str().unwrap_or_default());
            match (task["outcome"] == token, issue["status"] == "closed") {
                _ if task["id"] != *args[2] || issue["title"] != format!("issue {token}") => Effect::Lost,
                (true, true) => Effect::Done,
                (false, false) => Effect::Absent,
                _ => Effect::Half,
            }
        },
    },
    Case {
        name: "task fail",
        prepare: |scene, token| words(&["task", "fail", &scene.claimed(token), "--error", token, "--agent", "me"]),
        effect: |scene, _, args| on_task(scene, &args[2], |task| task["attempts"] == 1),
    },
    Case {
        name: "task release",
        prepare: |scene, token| words(&["task", "release", &scene.claimed(token), "--agent", "me"]),
        effect: |scene, _, args| on_task(scene, &args[2], |task| task["holder"].is_null()),
    },
    Case {
        name: "task heartbeat",
        prepare: |scene, token| words(&["task", "heartbeat", &scene.claimed(token), "--agent", "me"]),
        effect: |scene, _, args| on_task(scene, &args[2], |task| task["holder"] == "me"),
    },
    Case {
        name: "msg send",
        prepare: |_, token| words(&["msg", "send", "you", token, "--agent", "me", "--key", token]),
        effect: |scene, token, _| {
            let inbox = scene.list(&["msg", "inbox", "--agent", "you", "--peek", "--limit", "100000"]);
            match inbox.iter().filter(|message| message["body"] == token).count() {
                0 => Effect::Absent,
                1 => Effect::Done,
                _ => Effect::Half,
            }
        },
    },
    Case {
        name: "msg ack",
        prepare: |scene, token| {
            let sent = scene.way(&["msg", "send", "you", token, "--agent", "me"]);
            words(&["msg", "ack", &text(&sent["id"]), "--agent", "you"])
        },
        effect: |scene, _, args| {
            let inbox = scene.way(&["msg", "inbox", "--agent", "you", "--peek", "--limit", "100000"]);
            done(!contains(&inbox, Some("id"), &args[2]))
        },
    },
    Case {
        name: "ws new",
        prepare: |_, token| words(&["ws", "new", "--branch", token]),
        effect: |scene, token, _| {
            let made = scene.list(&["ws", "list"]).into_iter().find(|one| one["branch"] == token);
            made.map_or(Effect::Absent, |one| {
                let is_whole = one["status"] == "kept" && Path::new(&text(&one["path"])).join("file").is_file();
                if is_whole { Effect::Done } else { Effect::Half }
            })
        },
    },
    Case {
        name: "ws snapshot",
        prepare: |scene, token| {
            let shown = scene.way(&["ws", "show", &scene.workspace]);
            scene.sandbox.write(Path::new(&text(&shown["workspace"]["path"])).join("new"), token);
            scene.snapshots.set(scene.list(&["ws", "snapshots"]).len());
            words(&["ws", "snapshot", &scene.workspace])
        },
        effect: |scene, _, _| {
            let now = scene.list(&["ws", "snapshots"]).len();
            if now < scene.snapshots.get() { Effect::Lost } else { done(now > scene.snapshots.get()) }
        },
    },
    Case {
        name: "ws rm",
        prepare: |scene, _| words(&["ws", "rm", &text(&scene.way(&["ws", "new"])["id"])]),
        effect: |scene, _, args| done(!contains(&scene.way(&["ws", "list"]), Some("id"), &args[2])),
    },
];
