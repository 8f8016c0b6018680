//! The programs that commands start, also in repositories that configure others.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use waypost_testkit::{Sandbox, strace};

use crate::hostile::{Bait, commands, whole, write, zoo};
use crate::support::sandbox;

/// Every program that a command may start, and why.
const PROGRAMS: &[(&str, &str)] = &[
    ("bwrap", "the sandbox of jobs"),
    ("git", "git repositories, with settings that Waypost wrote"),
    ("git-upload-pack", "the other side when git clones from this machine"),
    ("hg", "Mercurial repositories, without their settings"),
    ("jj", "jj repositories, with settings that are known to be harmless"),
    ("sh", "starts the editor that the user named"),
    ("ssh", "the remote of a repository, which sync asks"),
    ("tput", "jj asks for the size of the terminal"),
    ("true", "the editor and the command of the jobs in this test"),
    ("way", "supervisors of jobs, and the helper that enters a sandbox"),
];

/// Settings of git that name a program.
const OF_GIT: &[&str] = &[
    "alias.status",
    "browser.x.cmd",
    "core.alternateRefsCommand",
    "core.askPass",
    "core.editor",
    "core.fsmonitor",
    "core.gitProxy",
    "core.pager",
    "core.sshCommand",
    "credential.helper",
    "diff.evil.command",
    "diff.evil.textconv",
    "diff.external",
    "filter.evil.clean",
    "filter.evil.process",
    "filter.evil.smudge",
    "gc.recentObjectsHook",
    "gpg.program",
    "gpg.ssh.program",
    "interactive.diffFilter",
    "merge.evil.driver",
    "pager.log",
    "remote.origin.receivepack",
    "remote.origin.uploadpack",
    "sequence.editor",
    "trailer.x.command",
    "uploadpack.packObjectsHook",
];

const HOOKS: &[&str] = &[
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-rewrite",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "prepare-commit-msg",
    "reference-transaction",
    "update",
];

/// Configures a program of the repository in every place from which git would start one.
fn bait_git(sandbox: &Sandbox, repo: &Path, git_dir: &str, canary: &Path) {
    write(repo.join(".gitattributes"), "* filter=evil diff=evil merge=evil\n");
    let git_dir = repo.join(git_dir);
    let url = format!("ext::{}", canary.display());
    for (setting, value) in [
        ("remote.origin.url", &*url),
        ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
        ("commit.gpgSign", "true"),
        ("push.gpgSign", "true"),
        ("protocol.ext.allow", "always"),
    ] {
        sandbox.git(&git_dir, ["config", setting, value]);
    }
    fs::create_dir_all(git_dir.join("hooks")).unwrap();
    for hook in HOOKS {
        std::os::unix::fs::symlink(canary, git_dir.join("hooks").join(hook)).unwrap();
    }
    // The first ones would be run by the later calls of git.
    let settings = OF_GIT.iter().map(|setting| {
        let (section, name) = setting.rsplit_once('.').unwrap();
        let section = section.split_once('.').map_or(section.to_owned(), |(kind, of)| format!("{kind} \"{of}\""));
        format!("[{section}]\n\t{name} = {}\n", canary.display())
    });
    let config = git_dir.join("config");
    write(&config, fs::read_to_string(&config).unwrap() + &settings.collect::<String>());
}

fn bait_hg(repo: &Path, canary: &Path) {
    let canary = canary.display();
    let names = |prefix: &str, names: &[&str]| -> String {
        names.iter().map(|name| format!("{prefix}{name} = {canary}\n")).collect::<Vec<_>>().concat()
    };
    let hooks =
        ["log", "cat", "status", "pull", "update", "add", "commit", "push", "identify", "root", "files", "config"];
    let (pre, post) = (names("pre-", &hooks), names("post-", &hooks));
    let aliases = hooks.iter().map(|name| format!("{name} = !{canary}\n")).collect::<Vec<_>>().concat();
    let hgrc = format!(
        "[hooks]\n{pre}{post}precommit = {canary}\n[alias]\n{aliases}[extensions]\nevil = {canary}\n\
         [ui]\nssh = {canary}\neditor = {canary}\n[pager]\npager = {canary}\n[paths]\ndefault = ssh://localhost:1/x\n"
    );
    write(repo.join(".hg/hgrc"), hgrc);
}

/// Returns the name in the table of a program. None if a command may not start it, as it may none of the sandbox.
pub(crate) fn known(sandbox: &Sandbox, program: &Path) -> Option<&'static str> {
    let is_own = program == Path::new("/proc/self/exe");
    let name = if is_own { "way" } else { program.file_name()?.to_str()? };
    let row = PROGRAMS.iter().find(|(known, _)| *known == name)?;
    Some(row.0).filter(|_| !program.starts_with(sandbox.path("")))
}

/// Returns the programs that the calls in a trace started.
pub(crate) fn started(trace: &str) -> impl Iterator<Item = PathBuf> {
    let calls = trace.lines().filter(|line| !line.contains(" = -1 "));
    let calls =
        calls.filter_map(|line| line.split_once("execve(\"").or_else(|| line.split_once("execveat(AT_FDCWD, \"")));
    // A call that another one interrupted does not show its result.
    calls.filter_map(|(_, rest)| rest.split('"').next()).map(PathBuf::from).filter(|program| program.exists())
}

/// Fills a repository with what commands name `x`, so that they do not end because it is missing. Returns the ids of a job
/// and a workspace.
fn fill(sandbox: &Sandbox, repo: &Path) -> [String; 2] {
    for args in [
        &["config", "set", "prefix", "x"][..],
        &["config", "set", "role", "maintainer"],
        &["add", "One"],
        &["agent", "register", "x"],
        &["workflow", "create", "x"],
        &["workflow", "add-task", "x", "x"],
        &["workflow", "start", "x"],
        &["template", "save", "x", "--plan", "/dev/null"],
    ] {
        let _ = sandbox.way(repo, args);
    }
    [&["job", "start", "--json", "--", "true"][..], &["ws", "new", "--json"]].map(|args| {
        let made: Option<Value> = serde_json::from_str(&sandbox.way(repo, args).stdout).ok();
        // Some repositories can have none.
        made.and_then(|made| made["data"]["id"].as_str().map(str::to_owned)).unwrap_or_else(|| "x".to_owned())
    })
}

#[test]
fn t18_commands_start_only_the_programs_of_one_table_whatever_a_repository_configures() {
    let sandbox = sandbox();
    let canary = sandbox.path("canary");
    sandbox.program(&canary, format!("#!/bin/sh\ntouch {}\n", sandbox.path("ran").display()));
    let (git, hg) = (sandbox.git_repo("git"), sandbox.hg_repo("hg"));
    let (jj, pure_jj) = (sandbox.jj_repo("jj", true), sandbox.jj_repo("pure-jj", false));
    sandbox.git(&git, ["commit", "-q", "--allow-empty", "-m", "first"]);
    for (repo, git_dir) in [(&git, ".git"), (&jj, ".git"), (&pure_jj, ".jj/repo/store/git")] {
        bait_git(&sandbox, repo, git_dir, &canary);
    }
    bait_hg(&hg, &canary);
    for (tool, repo) in [("git", &git), ("git", &jj), ("hg", &hg)] {
        let _ = sandbox.command(tool, repo).arg("status").output().unwrap();
        assert!(fs::remove_file(sandbox.path("ran")).is_ok(), "{tool} runs the program");
    }
    let (seen, wrong) = started_in(&sandbox, &[git, hg, jj, pure_jj]);
    assert_eq!(wrong, BTreeMap::new());
    assert!(!sandbox.path("ran").exists());
    assert!(["git", "hg", "jj", "true", "way"].iter().all(|name| seen.contains_key(name)), "{seen:?}");
}

/// As hostile.rs shows, commands refuse these projects. What they start to find that out is in the table, too.
#[test]
fn t18_commands_start_only_those_programs_in_projects_that_bring_a_private_directory() {
    let sandbox = sandbox();
    let bait = Bait::new(&sandbox);
    let dirs: Vec<PathBuf> = zoo(&sandbox, &bait).into_iter().map(|(_, dir)| dir).collect();
    let (seen, wrong) = started_in(&sandbox, &dirs);
    assert_eq!(wrong, BTreeMap::new());
    assert!(seen.contains_key("way"), "{seen:?}");
}

/// Runs every command in each of these directories. Returns the programs of the table, and others, each with a command that
/// started it.
fn started_in(sandbox: &Sandbox, dirs: &[PathBuf]) -> (BTreeMap<&'static str, String>, BTreeMap<PathBuf, String>) {
    let mut commands = commands();
    // It makes a repository of its own.
    commands.retain(|command| command[0] != "demo");
    let (mut seen, mut wrong) = (BTreeMap::new(), BTreeMap::new());
    std::thread::scope(|scope| {
        let runs: Vec<_> = dirs.iter().map(|dir| scope.spawn(|| try_all(sandbox, dir, &commands))).collect();
        for (program, command) in runs.into_iter().flat_map(|run| run.join().unwrap()) {
            match known(sandbox, &program) {
                Some(name) => drop(seen.insert(name, command)),
                None => drop(wrong.insert(program, command)),
            }
        }
    });
    (seen, wrong)
}

/// Runs every command in a directory, and returns each program that was started, with the command that started it.
fn try_all(sandbox: &Sandbox, repo: &Path, commands: &[Vec<String>]) -> BTreeMap<PathBuf, String> {
    let [job, workspace] = fill(sandbox, repo);
    let trace = repo.with_extension("trace");
    let mut all = BTreeMap::new();
    for command in commands {
        let mut args = whole(command);
        let id = match args[0] {
            "job" => &job,
            "ws" => &workspace,
            _ => "x",
        };
        for arg in args.iter_mut().filter(|arg| **arg == "x") {
            *arg = id;
        }
        let mut traced = sandbox.command(strace(), repo);
        traced.args(["-f", "-qq", "-e", "signal=none", "-e", "trace=execve,execveat", "-s", "300", "-o"]).arg(&trace);
        traced.arg(env!("CARGO_BIN_EXE_way")).args(&args).env("EDITOR", "true").stdin(Stdio::null());
        let output = traced.output().unwrap();
        let code = output.status.code().unwrap_or(-1);
        assert!((0..100).contains(&code), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        for program in started(&fs::read_to_string(&trace).unwrap()) {
            all.entry(program).or_insert_with(|| format!("{}: way {}", repo.display(), args.join(" ")));
        }
    }
    all
}
