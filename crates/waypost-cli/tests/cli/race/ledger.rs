//! Other programs replace the ledger while it is written: acknowledged writes stay, and so do theirs.

use std::fs;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use waypost_testkit::{Run, Sandbox, strace, until};

use crate::support::ledger::{LEDGER, add, ids, lines};
use crate::support::sandbox;

fn version(count: usize) -> String {
    let records: Vec<String> = (0..count).map(|number| format!(r#"{{"id":"r-{number:05}","title":"t"}}"#)).collect();
    records.join("\n") + "\n"
}

/// Makes a repository on `main`. Its branch `other` is one commit ahead, with a longer ledger and another file that git
/// writes before the ledger.
fn repository(sandbox: &Sandbox, name: &str) -> PathBuf {
    let repo = sandbox.git_repo(name);
    sandbox.dir(format!("{name}/.waypost"));
    let commit = |text: &str, count| {
        sandbox.write(repo.join(".first"), text);
        sandbox.write(repo.join(LEDGER), version(count));
        sandbox.git(&repo, ["add", "."]);
        sandbox.git(&repo, ["commit", "-q", "-m", text]);
    };
    commit("main", 20);
    sandbox.git(&repo, ["checkout", "-q", "-b", "other"]);
    commit("other", 30);
    sandbox.git(&repo, ["checkout", "-q", "main"]);
    // The first command makes the index and the ids.
    let _ = sandbox.way(&repo, ["status"]).ok();
    repo
}

/// Makes git take two seconds to write the first file, after it has checked all files. Returns a file that appears then.
fn make_git_slow(sandbox: &Sandbox, repo: &Path) -> PathBuf {
    let started = repo.join("../started").with_extension(repo.file_name().unwrap());
    sandbox.write(repo.join(".git/info/attributes"), ".first filter=slow\n");
    let filter = format!("touch {}; sleep 2; cat", started.display());
    sandbox.git(repo, ["config", "filter.slow.smudge", &filter]);
    started
}

fn start_git(sandbox: &Sandbox, repo: &Path, args: &[&str]) -> Child {
    sandbox.command("git", repo).args(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn has(repo: &Path, id: &str) -> bool {
    lines(&repo.join(LEDGER)).iter().any(|line| line.contains(&format!("\"{id}\"")))
}

const COMMANDS: [&[&str]; 3] =
    [&["checkout", "other"], &["merge", "--ff-only", "other"], &["merge", "--no-ff", "--no-edit", "other"]];

#[test]
fn an_issue_added_while_git_is_writing_the_tree_is_kept() {
    let sandbox = sandbox();
    std::thread::scope(|scope| {
        for (number, args) in COMMANDS.into_iter().enumerate() {
            let sandbox = &sandbox;
            scope.spawn(move || {
                let repo = repository(sandbox, &format!("repo{number}"));
                let started = make_git_slow(sandbox, &repo);
                let git = start_git(sandbox, &repo, args);
                until("git writes the tree", || started.exists());
                let id = add(sandbox, &repo, &["meanwhile"]);
                let git = Run::of(&git.wait_with_output().unwrap());
                assert_eq!(git.code, 0, "{args:?}: {git:?}");
                assert!(has(&repo, &id), "{args:?}: {id} was acknowledged and is gone");
                assert_eq!(lines(&repo.join(LEDGER)).len(), 31, "{args:?}");
            });
        }
    });
}

/// Checks that an issue is shown even if git has overwritten it, and that the next change writes it again.
#[track_caller]
fn check_kept(sandbox: &Sandbox, repo: &Path, id: &str, expected: usize) {
    assert!(
        ids(sandbox, repo, &["list", "--limit", "0"]).contains(&id.to_owned()),
        "{id} was acknowledged and is gone"
    );
    add(sandbox, repo, &["next"]);
    assert!(has(repo, id), "{id} was not written again");
    assert_eq!(lines(&repo.join(LEDGER)).len(), expected + 1);
}

#[test]
fn an_issue_written_between_gits_check_and_its_write_is_kept() {
    strace();
    let sandbox = sandbox();
    let repo = repository(&sandbox, "repo");
    let started = make_git_slow(&sandbox, &repo);
    let adding = Stopped::before_exchange(&sandbox, &repo, &[]);
    let git = start_git(&sandbox, &repo, &["checkout", "other"]);
    until("git writes the tree", || started.exists());
    let added = adding.finish().data();
    let git = Run::of(&git.wait_with_output().unwrap());
    assert_eq!(git.code, 0, "{git:?}");
    check_kept(&sandbox, &repo, added["id"].as_str().unwrap(), 31);
}

#[test]
fn nothing_is_lost_in_many_quick_races_with_git() {
    let sandbox = sandbox();
    let repo = repository(&sandbox, "repo");
    let rounds = std::env::var("WAYPOST_TEST_RACES").ok().and_then(|text| text.parse().ok()).unwrap_or(40);
    let commands = [COMMANDS[0], COMMANDS[1], COMMANDS[2], &["stash"]];
    let mut lost = Vec::new();
    for round in 0..rounds {
        sandbox.git(&repo, ["stash", "clear"]);
        sandbox.git(&repo, ["checkout", "-q", "-f", "-B", "work", "main"]);
        let args = commands[round % commands.len()];
        if args == ["stash"] {
            sandbox.write(repo.join("file"), "to be stashed\n");
        }
        let mut command = sandbox.way_command(&repo);
        let adding = command.args(["add", "--json", "meanwhile"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let adding = adding.spawn().unwrap();
        let _ = start_git(&sandbox, &repo, args).wait_with_output().unwrap();
        let added = Run::of(&adding.wait_with_output().unwrap()).data();
        let id = added["id"].as_str().unwrap();
        // Git may refuse, because it sees the change, put it into the stash, or overwrite it. Then it is shown nevertheless.
        let stash = sandbox.command("git", &repo).args(["show", &format!("stash@{{0}}:{LEDGER}")]).output().unwrap();
        let is_stashed = String::from_utf8_lossy(&stash.stdout).contains(id);
        if !is_stashed && !ids(&sandbox, &repo, &["list", "--limit", "0"]).contains(&id.to_owned()) {
            lost.push((args, id.to_owned()));
        }
    }
    assert!(lost.is_empty(), "lost in {rounds} rounds: {lost:?}");
}

#[test]
fn a_stale_lock_of_git_stops_no_command() {
    let sandbox = sandbox();
    let repo = repository(&sandbox, "repo");
    let lock = repo.join(".git/index.lock");
    let file = File::create(&lock).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
    drop(file);
    let begin = Instant::now();
    let id = add(&sandbox, &repo, &["beside a dead lock"]);
    assert!(ids(&sandbox, &repo, &["list", "--limit", "0"]).contains(&id));
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
    // `git commit -a` has written its index to the lock file, and waits for an editor.
    sandbox.write(&lock, "DIRC");
    let begin = Instant::now();
    add(&sandbox, &repo, &["beside an editor"]);
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
}

/// A `way add` stopped right before it exchanges its new version for the ledger.
struct Stopped {
    child: Child,
    pid: Pid,
}

impl Stopped {
    fn before_exchange(sandbox: &Sandbox, repo: &Path, injected: &[&str]) -> Stopped {
        // The rename that it stops after gives the new version the name under which it is exchanged.
        let trace = sandbox.path("trace");
        let traced = |options: &[&str]| {
            let mut command = sandbox.command("strace", repo);
            command.arg("-o").arg(&trace).args(["-e", "trace=/^rename"]).args(options);
            command.args(["sh", "-c", "echo $$ >../pid; exec \"$0\" add --json meanwhile"]);
            command.arg(env!("CARGO_BIN_EXE_way")).stdout(Stdio::piped()).stderr(Stdio::piped());
            command
        };
        let before = fs::read(repo.join(LEDGER)).unwrap();
        let run = Run::of(&traced(&[]).output().unwrap());
        assert_eq!(run.code, 0, "{run:?}");
        // The unchanged ledger, with an up-to-date index.
        sandbox.write(repo.join(LEDGER), before);
        let _ = sandbox.way(repo, ["restore", "--drop"]).ok();
        sandbox.git(repo, ["update-index", "-q", "--refresh"]);
        let _ = sandbox.way(repo, ["list"]).ok();
        let trace = fs::read_to_string(&trace).unwrap();
        let names: Vec<&str> = trace.lines().filter_map(|line| Some(line.split_once('(')?.0)).collect();
        let step = trace.lines().position(|line| line.contains(".swap.tmp")).expect("an exchange");
        let number = names[..=step].iter().filter(|name| **name == names[step]).count();
        let pause = format!("inject={}:signal=SIGSTOP:when={number}", names[step]);
        let mut options = vec!["-e", &pause];
        let injected: Vec<String> = injected.iter().map(|what| format!("inject=renameat2:{what}")).collect();
        options.extend(injected.iter().flat_map(|what| ["-e", what.as_str()]));
        let child = traced(&options).spawn().unwrap();
        until("the new version is ready", || !temporary(repo).is_empty());
        until("its writer stands still", || temporary(repo)[0].ends_with(".swap.tmp"));
        let pid = fs::read_to_string(sandbox.path("pid")).unwrap().trim().parse().unwrap();
        let stopped = Stopped { child, pid: Pid::from_raw(pid).unwrap() };
        stopped.until_stopped();
        stopped
    }

    fn until_stopped(&self) {
        let stat = PathBuf::from(format!("/proc/{}/stat", self.pid.as_raw_nonzero()));
        until("it stands still", || {
            let stat = fs::read_to_string(&stat).unwrap();
            let state = stat.rsplit_once(") ").unwrap().1;
            state.starts_with('T') || state.starts_with('t')
        });
    }

    fn wake(&self) {
        kill_process(self.pid, Signal::CONT).unwrap();
    }

    fn finish(self) -> Run {
        self.wake();
        Run::of(&self.child.wait_with_output().unwrap())
    }
}

fn temporary(repo: &Path) -> Vec<String> {
    let names = fs::read_dir(repo.join(".waypost")).unwrap().map(|entry| entry.unwrap().file_name());
    let is_temporary = |name: &String| Path::new(name).extension().is_some_and(|end| end == "tmp");
    names.map(|name| name.into_string().unwrap()).filter(is_temporary).collect()
}

/// Replaces the ledger by one with one more issue, as a program that ignores Waypost's locks does.
fn replace_with(sandbox: &Sandbox, repo: &Path, id: &str) {
    let new = sandbox.path("theirs");
    sandbox.write(&new, format!("{}{{\"id\":\"{id}\",\"title\":\"theirs\"}}\n", version(20)));
    fs::rename(new, repo.join(LEDGER)).unwrap();
}

fn warnings(sandbox: &Sandbox, repo: &Path) -> usize {
    let findings = sandbox.way(repo, ["doctor", "--json"]).data();
    findings.as_array().unwrap().iter().filter(|one| one["verdict"] == "warning" && one["check"] == "ledger").count()
}

#[test]
fn a_version_displaced_by_a_killed_writer_is_found_by_doctor_and_by_the_next_command() {
    strace();
    for next in ["add", "list", "doctor --fix"] {
        let sandbox = sandbox();
        let repo = repository(&sandbox, "repo");
        let writer = Stopped::before_exchange(&sandbox, &repo, &["signal=SIGKILL:when=2"]);
        replace_with(&sandbox, &repo, "r-theirs");
        let _ = writer.finish();
        assert!(!has(&repo, "r-theirs"), "the writer was killed too late");
        assert_eq!(warnings(&sandbox, &repo), 1);
        let mut args: Vec<&str> = next.split(' ').collect();
        args.extend((next == "add").then_some("next"));
        assert_eq!(sandbox.way(&repo, args).code, 0);
        assert!(has(&repo, "r-theirs"), "{next}");
        assert_eq!((temporary(&repo), warnings(&sandbox, &repo)), (vec![], 0), "{next}");
    }
}

#[test]
fn a_version_that_cannot_be_restored_is_kept_until_it_can() {
    strace();
    let sandbox = sandbox();
    let repo = repository(&sandbox, "repo");
    let writer = Stopped::before_exchange(&sandbox, &repo, &["error=EIO:when=2"]);
    replace_with(&sandbox, &repo, "r-theirs");
    let run = writer.finish().fails(8);
    assert!(run.stderr.contains("another program's version"), "{run:?}");
    assert_eq!(warnings(&sandbox, &repo), 1);
    let id = add(&sandbox, &repo, &["next"]);
    assert!(has(&repo, "r-theirs") && has(&repo, &id));
    assert_eq!((temporary(&repo), warnings(&sandbox, &repo)), (vec![], 0));
}

#[test]
fn a_version_that_appears_between_two_exchanges_is_merged() {
    strace();
    let sandbox = sandbox();
    let repo = repository(&sandbox, "repo");
    let writer = Stopped::before_exchange(&sandbox, &repo, &["signal=SIGSTOP:when=1"]);
    replace_with(&sandbox, &repo, "r-theirs");
    writer.wake();
    until("the names are exchanged", || !has(&repo, "r-theirs"));
    writer.until_stopped();
    replace_with(&sandbox, &repo, "r-others");
    let added = writer.finish().data();
    let id = add(&sandbox, &repo, &["next"]);
    for id in ["r-theirs", "r-others", &id, added["id"].as_str().unwrap()] {
        assert!(has(&repo, id), "{id} is gone");
    }
    assert_eq!((temporary(&repo), warnings(&sandbox, &repo)), (vec![], 0));
}

#[test]
fn a_change_whose_fsync_failed_is_reported_as_made() {
    strace();
    let sandbox = sandbox();
    let repo = repository(&sandbox, "repo");
    let mut command = sandbox.command("strace", &repo);
    command.arg("-o").arg(sandbox.path("trace")).arg("-P").arg(repo.join(".waypost"));
    command.args(["-e", "trace=fsync", "-e", "inject=fsync:error=EIO", env!("CARGO_BIN_EXE_way"), "add", "written"]);
    let run = Run::of(&command.output().unwrap()).fails(8);
    assert!(run.stderr.contains("the change is in") && run.stderr.contains("do not repeat the change"), "{run:?}");
    assert_eq!(lines(&repo.join(LEDGER)).len(), 21);
    assert_eq!(temporary(&repo), Vec::<String>::new());
}

#[test]
fn a_new_ledgers_directory_survives_a_power_cut() {
    strace();
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let trace = sandbox.path("trace");
    let mut command = sandbox.command("strace", &repo);
    command.args(["-y", "-o"]).arg(&trace).args([
        "-e",
        "trace=fsync,/^mkdir",
        env!("CARGO_BIN_EXE_way"),
        "add",
        "first",
    ]);
    assert_eq!(Run::of(&command.output().unwrap()).code, 0);
    let trace = fs::read_to_string(&trace).unwrap();
    let made = trace.lines().position(|line| line.starts_with("mkdir") && line.contains("/.waypost\""));
    let synced = trace.lines().skip(made.unwrap()).any(|line| line.contains(&format!("<{}>)", repo.display())));
    assert!(synced, "{trace}");
}

#[test]
fn temporary_files_of_killed_processes_are_removed() {
    let sandbox = sandbox();
    let repo = repository(&sandbox, "repo");
    let left = [repo.join(".waypost/.issues.jsonl.1-0.tmp"), repo.join(".git/waypost/.mark.1-0.tmp")];
    for path in &left {
        sandbox.write(path, "half");
    }
    add(&sandbox, &repo, &["next"]);
    assert!(!left.iter().any(|path| path.exists()), "{left:?}");
}
