//! Clones that sync their ledgers through a remote, with the real tools.

mod git;
mod hg;
mod hostile;
mod jj;
mod proposals;
mod sapling;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use waypost_testkit::Sandbox;

use crate::support::sandbox;

const LEDGER: &str = ".waypost/issues.jsonl";

/// Pseudo-random numbers, reproducible from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn ledger(repo: &Path) -> String {
    std::fs::read_to_string(repo.join(LEDGER)).unwrap_or_default()
}

fn title(repo: &Path, id: &str) -> String {
    let issues = ledger(repo);
    let issues = issues.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    issues.filter(|issue| issue["id"] == *id).map(|issue| issue["title"].as_str().unwrap().to_owned()).collect()
}

/// A remote with one commit on `main`, and clones of it.
fn clones(sandbox: &Sandbox, names: &[&str]) -> Vec<PathBuf> {
    let seed = sandbox.git_repo("seed");
    sandbox.write(seed.join("other"), "one\ntwo\nthree\n");
    sandbox.git(&seed, ["add", "."]);
    sandbox.git(&seed, ["commit", "-q", "-m", "files"]);
    sandbox.git(&seed, ["clone", "-q", "--bare", ".", "../remote.git"]);
    names.iter().map(|name| clone(sandbox, name)).collect()
}

fn clone(sandbox: &Sandbox, name: &str) -> PathBuf {
    sandbox.git(&sandbox.path(""), ["clone", "-q", "remote.git", name]);
    let repo = sandbox.path(name);
    // Each clone gets its own id prefix.
    let _ = sandbox.way(&repo, ["config", "set", "prefix", name]).ok();
    repo
}

fn sync(sandbox: &Sandbox, repo: &Path) -> Value {
    sandbox.way(repo, ["sync", "--json"]).data()
}

fn add(sandbox: &Sandbox, repo: &Path, title: &str) -> String {
    sandbox.way(repo, ["add", title, "--json"]).data()["id"].as_str().unwrap().to_owned()
}

/// Commits a change of a file that is not the ledger.
fn commit(sandbox: &Sandbox, repo: &Path, file: &str, content: &str) {
    sandbox.write(repo.join(file), content);
    sandbox.git(repo, ["add", "--", file]);
    sandbox.git(repo, ["commit", "-q", "-m", &format!("change {file}"), "--", file]);
}

/// Returns the paths that the remote's commits touched, except for the first two commits.
fn pushed_paths(sandbox: &Sandbox) -> Vec<String> {
    let said = sandbox.git(&sandbox.path("remote.git"), ["log", "--format=", "--name-only", "-m", "main"]);
    let mut paths: Vec<String> = said.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Makes a random change to a ledger.
fn edit(sandbox: &Sandbox, repo: &Path, random: &mut Random, number: usize) {
    let ids: Vec<String> = sandbox
        .way(repo, ["list", "--all", "--json", "--limit", "0"])
        .data()
        .as_array()
        .unwrap()
        .iter()
        .map(|issue| issue["id"].as_str().unwrap().to_owned())
        .collect();
    let pick = (!ids.is_empty()).then(|| usize::try_from(random.below(ids.len() as u64)).unwrap());
    match (random.below(4), pick) {
        (1, Some(pick)) => {
            let _ = sandbox.way(repo, ["update", &ids[pick], "--title", &format!("Changed in {number}")]);
        }
        (2, Some(pick)) => {
            let _ = sandbox.way(repo, ["comment", &ids[pick], &format!("said in {number}")]);
        }
        (3, Some(pick)) => {
            let _ = sandbox.way(repo, ["close", &ids[pick]]);
        }
        _ => {
            add(sandbox, repo, &format!("Issue {number}"));
        }
    }
}

/// Starts a sync and kills it after a delay.
fn kill_sync(sandbox: &Sandbox, repo: &Path, random: &mut Random, millis: u64) {
    let mut command = sandbox.way_command(repo);
    let mut child = command.arg("sync").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::park_timeout(Duration::from_millis(random.below(millis)));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Describes the user's state that sync must not touch.
type UserState = fn(&Sandbox, &Path) -> String;

/// Syncs two clones with different changes until both have all of them and nothing is left to do.
fn converge(sandbox: &Sandbox, repos: &[PathBuf], user_state: UserState) {
    let [one, two] = repos else { panic!("two clones") };
    let all = || repos.iter().map(|repo| user_state(sandbox, repo)).collect::<Vec<String>>();
    add(sandbox, one, "From one");
    add(sandbox, two, "From two");
    let before = all();
    let first = sync(sandbox, one);
    assert!(first["committed"].is_string() && first["committed"] == first["pushed"], "{first}");
    let second = sync(sandbox, two);
    assert!(second["merged"] == true && second["pushed"].is_string(), "{second}");
    let third = sync(sandbox, one);
    assert!(third["merged"] == true && third["committed"].is_null() && third["pushed"].is_null(), "{third}");
    assert_eq!(ledger(one), ledger(two));
    assert!(ledger(one).contains("From one") && ledger(one).contains("From two"));
    for repo in repos {
        let again = sync(sandbox, repo);
        assert!(again["merged"] == false && again["committed"].is_null() && again["pushed"].is_null(), "{again}");
    }
    assert_eq!(all(), before);
}

/// Lets clones change, sync and be killed at random, this many times, and then syncs until they are equal.
fn live(sandbox: &Sandbox, repos: &[PathBuf], seed: u64, (times, millis): (usize, u64), user_state: UserState) {
    let mut random = Random(seed);
    let all = || repos.iter().map(|repo| user_state(sandbox, repo)).collect::<Vec<String>>();
    let before = all();
    for number in 0..times {
        let repo = &repos[usize::try_from(random.below(repos.len() as u64)).unwrap()];
        edit(sandbox, repo, &mut random, number);
        match random.below(3) {
            0 => kill_sync(sandbox, repo, &mut random, millis),
            1 => drop(sync(sandbox, repo)),
            _ => {}
        }
    }
    for repo in repos.iter().chain(repos) {
        sync(sandbox, repo);
    }
    for repo in repos {
        assert_eq!(ledger(repo), ledger(&repos[0]), "seed {seed}");
    }
    assert_eq!(all(), before, "seed {seed}");
}

#[test]
fn without_version_control_there_is_nothing_to_sync() {
    let sandbox = sandbox();
    let plain = sandbox.dir("plain");
    sandbox.dir("plain/.waypost");
    add(&sandbox, &plain, "Something");
    let run = sandbox.way(&plain, ["sync"]).fails(6);
    assert!(run.stderr.contains("nothing to sync"), "{}", run.stderr);
}
