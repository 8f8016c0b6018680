//! Issues of a repository.

use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::Value;
use waypost_testkit::Sandbox;

pub(crate) const LEDGER: &str = ".waypost/issues.jsonl";

pub(crate) fn add(sandbox: &Sandbox, repo: &Path, args: &[&str]) -> String {
    let data = sandbox.way(repo, [&["add", "--json"], args].concat()).data();
    data["id"].as_str().unwrap().to_owned()
}

pub(crate) fn ids(sandbox: &Sandbox, repo: &Path, args: &[&str]) -> Vec<String> {
    let run = sandbox.way(repo, [args, &["--json"]].concat());
    let answer: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run:?}"));
    answer["data"].as_array().unwrap().iter().map(|issue| issue["id"].as_str().unwrap().to_owned()).collect()
}

pub(crate) fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

pub(crate) fn at_once(
    sandbox: &Sandbox,
    repo: &Path,
    count: usize,
    args: impl Fn(usize) -> Vec<String>,
) -> Vec<std::process::Output> {
    let children: Vec<Child> = (0..count)
        .map(|number| {
            sandbox.way_command(repo).args(args(number)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    children.into_iter().map(|child| child.wait_with_output().unwrap()).collect()
}
