//! Tests of workspaces with the real tools.
//!
//! Every test runs in its own process with a clean environment, because the library passes its environment to the
//! tools. Only the machine's programs are visible there.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod hostile;
mod making;
mod parallel;
mod pool;
mod pushing;
mod removal;
mod setup;
mod snapshots;
mod syncing;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use waypost_core::{Error, Result};
use waypost_testkit::Sandbox;
use waypost_workspace::workspaces::{
    Identity, Made, MakeOptions, Name, Places, Plan, Request, Source, Strategy, Work, examine, make, plan, remove,
    returned,
};
use waypost_workspace::{Checkout, Environment, NetworkOptions, detect};

/// Set in the process of a single test.
const INSIDE: &str = "WAYPOST_TEST_INSIDE";

/// Runs a test in its own process.
fn hermetic(test: impl FnOnce(&Scene)) {
    hermetic_under(&[], test);
}

/// The same, with the process started by another program. The test fails if that program is not permitted.
fn hermetic_under(program: &[&str], test: impl FnOnce(&Scene)) {
    if std::env::var_os(INSIDE).is_some() {
        test(&Scene { sandbox: Sandbox::new("") });
        return;
    }
    if let [first, rest @ ..] = program
        && !Command::new(first).args(rest).arg("true").output().is_ok_and(|output| output.status.success())
    {
        waypost_testkit::unavailable(&format!("{} is not permitted", program.join(" ")));
    }
    let sandbox = Sandbox::new("");
    let name = std::thread::current().name().unwrap().to_owned();
    let own = std::env::current_exe().unwrap().into_os_string();
    let words: Vec<_> = program.iter().map(Into::into).chain([own]).collect();
    let mut command = sandbox.command(&words[0], &sandbox.path(""));
    command.args(&words[1..]);
    command.args(["--exact", &name, "--nocapture", "--test-threads=1"]).env(INSIDE, "1");
    if let Some(dir) = std::env::var_os("TMPDIR") {
        command.env("TMPDIR", dir);
    }
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{stderr}", String::from_utf8_lossy(&output.stdout));
}

/// A home directory with repositories and workspaces.
struct Scene {
    sandbox: Sandbox,
}

impl Scene {
    /// A repository with several kinds of files, two branches, and a bare remote.
    fn repo(&self) -> PathBuf {
        let repo = self.sandbox.git_repo("repo");
        for (path, content) in
            [("src/main.rs", "fn main() {}\n"), ("src/deep/er/file", "deep\n"), ("run", "#!/bin/sh\n")]
        {
            fs::create_dir_all(repo.join(path).parent().unwrap()).unwrap();
            self.sandbox.write(repo.join(path), content);
        }
        self.sandbox.write(repo.join(".gitignore"), "target/\n.env\n");
        std::os::unix::fs::symlink("src/main.rs", repo.join("link")).unwrap();
        self.git(&repo, &["update-index", "--add", "--chmod=+x", "run"]);
        self.git(&repo, &["add", "."]);
        self.git(&repo, &["commit", "-q", "-m", "second"]);
        self.git(&repo, &["branch", "other", "HEAD~1"]);
        let remote = self.sandbox.path("remote.git");
        self.git(&repo, &["clone", "-q", "--bare", ".", remote.to_str().unwrap()]);
        self.git(&repo, &["remote", "add", "origin", remote.to_str().unwrap()]);
        self.git(&repo, &["fetch", "-q", "origin"]);
        self.git(&repo, &["remote", "set-head", "origin", "main"]);
        prepared(repo)
    }

    fn git(&self, dir: &Path, args: &[&str]) -> String {
        self.sandbox.git(dir, args).trim_end().to_owned()
    }

    fn write(&self, path: &Path, content: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        self.sandbox.write(path, content);
    }

    fn workspaces(&self) -> PathBuf {
        self.sandbox.path("own/workspaces")
    }

    fn mirrors(&self) -> PathBuf {
        self.sandbox.path("own/mirrors")
    }

    fn plan(&self, repo: &Path, name: &str) -> Plan {
        self.try_plan(repo, name, None, None).unwrap()
    }

    fn plan_by(&self, repo: &Path, name: &str, strategy: Strategy) -> Plan {
        self.try_plan(repo, name, None, Some(strategy)).unwrap()
    }

    fn try_plan(&self, repo: &Path, id: &str, base: Option<&str>, strategy: Option<Strategy>) -> Result<Plan> {
        let checkout = checkout(repo);
        self.request(Source::Checkout(&checkout), id, base, strategy)
    }

    fn request(&self, source: Source<'_>, id: &str, base: Option<&str>, strategy: Option<Strategy>) -> Result<Plan> {
        let (workspaces, mirrors) = (self.workspaces(), self.mirrors());
        plan(&Request {
            places: Places { workspaces: &workspaces, mirrors: &mirrors },
            name: &name(id),
            source,
            base,
            commit: None,
            branch: None,
            strategy,
            network: NetworkOptions::default(),
        })
    }

    fn make(&self, repo: &Path, name: &str) -> (Plan, Made) {
        let plan = self.plan(repo, name);
        let made = make(&plan, &MakeOptions::default()).unwrap();
        (plan, made)
    }
}

fn checkout(repo: &Path) -> Checkout {
    detect(repo, &Environment::default()).unwrap().unwrap()
}

/// Creates the private directory of a repository, as the session does that makes a workspace.
fn prepared(repo: PathBuf) -> PathBuf {
    fs::create_dir_all(&*checkout(&repo).private_dir).unwrap();
    repo
}

fn name(name: &str) -> Name {
    Name::try_from(name.to_owned()).unwrap()
}

fn identity(made: &Made) -> Identity {
    made.identity.unwrap()
}

/// Describes the work that a removal would lose.
fn at_risk(plan: &Plan) -> Vec<String> {
    examine(plan).unwrap().at_risk()
}

/// The pool slot that a workspace becomes when it is given back.
fn slot_of(plan: &Plan) -> Plan {
    returned(plan, &name("slot")).unwrap()
}

fn remove_safely(plan: &Plan, made: &Made) -> Result<()> {
    remove(plan, identity(made), Work::MustBeSafe)
}

/// Everything below a directory: types, modes and contents, by path.
fn everything(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let metadata = path.symlink_metadata().unwrap();
            let content = if metadata.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().as_bytes().to_vec()
            } else if metadata.is_dir() {
                dirs.push(path.clone());
                Vec::new()
            } else {
                fs::read(&path).unwrap()
            };
            found.insert(path, format!("{:o} {}", metadata.mode(), String::from_utf8_lossy(&content)));
        }
    }
    found
}

/// The files of a worktree, without its git directory, by relative path.
fn files(root: &Path) -> BTreeMap<PathBuf, String> {
    let all = everything(root).into_iter();
    let relative = all.map(|(path, content)| (path.strip_prefix(root).unwrap().to_owned(), content));
    relative.filter(|(path, _)| !path.starts_with(".git") && !path.starts_with(".jj")).collect()
}

fn remove_dir(path: &Path) {
    waypost_fs::remove_tree(path, waypost_fs::FileIdentity::of(path).unwrap()).unwrap();
}
