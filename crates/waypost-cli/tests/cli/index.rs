//! The index through the real binary: it never fails a command, and is never trusted over a changed file.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, SystemTime};

use waypost_testkit::{Run, Sandbox, strace};

use crate::support::ledger::{LEDGER, add, ids};
use crate::support::sandbox;

const INDEX: &str = ".git/waypost/index.db";

fn write_many(sandbox: &Sandbox, repo: &Path, count: usize) {
    let line = |number: usize| format!("{{\"id\":\"r-{number:05}\",\"title\":\"x\"}}\n");
    let lines: Vec<String> = (0..count).map(line).collect();
    sandbox.write(repo.join(LEDGER), lines.concat());
}

fn titles(sandbox: &Sandbox, repo: &Path) -> Vec<String> {
    let list = sandbox.way(repo, ["list", "--json", "--sort", "id", "--limit", "0"]).data();
    list.as_array().unwrap().iter().map(|issue| issue["title"].as_str().unwrap().to_owned()).collect()
}

/// Runs a command under strace and returns its system calls, one per line. The command must succeed.
fn traced(sandbox: &Sandbox, repo: &Path, calls: &str, args: &[&str]) -> Vec<String> {
    let trace = sandbox.path("trace");
    let mut command = sandbox.command(strace(), repo);
    command.args(["-f", "-y", "-o"]).arg(&trace).args(["-e", calls, env!("CARGO_BIN_EXE_way")]).args(args);
    let run = Run::of(&command.output().unwrap());
    assert_eq!(run.code, 0, "{args:?}: {run:#?}");
    std::fs::read_to_string(&trace).unwrap().lines().map(str::to_owned).collect()
}

/// Waits until the clock of file times has advanced, and then lets a command read the file.
fn settle(sandbox: &Sandbox, repo: &Path) {
    let changed = std::fs::metadata(repo.join(LEDGER)).unwrap().modified().unwrap();
    #[expect(clippy::disallowed_methods, reason = "the machine's clock is what is waited for")]
    while SystemTime::now().duration_since(changed).unwrap_or_default() < Duration::from_millis(50) {
        std::hint::spin_loop();
    }
    ids(sandbox, repo, &["list"]);
}

#[test]
fn an_unchanged_ledger_is_not_opened_by_any_command_that_reads() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let id = add(&sandbox, &repo, &["One"]);
    settle(&sandbox, &repo);
    let _ = sandbox.way(&repo, ["search", "one"]).ok();
    let commands: &[&[&str]] = &[
        &["ready"],
        &["ready", "--explain"],
        &["list", "--all", "--label", "x"],
        &["list", "--text", "one"],
        &["show", &id],
        &["blocked"],
        &["search", "one"],
        &["stale"],
        &["stats"],
        &["label", "list"],
        &["dep", "tree"],
    ];
    for args in commands {
        let calls = traced(&sandbox, &repo, "trace=openat,open,read,pread64", args);
        assert!(calls.iter().any(|call| call.contains("index.db")), "{args:?}: {calls:#?}");
        let touched: Vec<&String> = calls.iter().filter(|call| call.contains("issues.jsonl")).collect();
        assert!(touched.is_empty(), "{args:?}: {touched:#?}");
    }
}

#[test]
fn a_write_syncs_the_ledger_and_its_directory_once_at_any_size() {
    let sandbox = sandbox();
    let mut counts = Vec::new();
    for count in [100, 1_000, 10_000] {
        let repo = sandbox.git_repo(format!("repo{count}"));
        sandbox.dir(repo.join(".waypost"));
        write_many(&sandbox, &repo, count);
        settle(&sandbox, &repo);
        // The first write creates the lock and syncs its directory.
        add(&sandbox, &repo, &["first"]);
        for args in [&["add", "x"][..], &["close", "r-00001"], &["add", "y"]] {
            let calls = traced(&sandbox, &repo, "trace=fsync,fdatasync,sync_file_range,syncfs", args);
            assert!(calls.iter().all(|call| !call.contains("index.db")), "{calls:#?}");
            counts.push(calls.iter().filter(|call| call.contains("sync")).count());
        }
    }
    assert_eq!(counts, [2; 9]);
}

#[test]
fn a_write_reads_a_ledger_once_and_the_next_command_reads_nothing_of_it() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    // The first change adds one.
    let lines = 20_001;
    write_many(&sandbox, &repo, 20_000);
    settle(&sandbox, &repo);
    for args in [&["add", "x"][..], &["close", "r-00001"], &["update", "r-09999", "--title", "longer than before"]] {
        let size = std::fs::metadata(repo.join(LEDGER)).unwrap().len();
        let calls = traced(&sandbox, &repo, "trace=read,pread64,write,pwrite64", args);
        let bytes = |of: &str, file: &str| -> u64 {
            let transferred = |call: &String| call.rsplit_once("= ")?.1.split_whitespace().next()?.parse::<u64>().ok();
            calls.iter().filter(|call| call.contains(of) && call.contains(file)).filter_map(transferred).sum()
        };
        let (read, stored) = (bytes("read", "issues.jsonl"), bytes("write", "index.db"));
        assert_eq!(read, size, "{args:?}");
        // The ledger is written anew by each change, so its index may be written to an extent that is small beside that of a
        // usual line of a kilobyte: the mark of each line, which has 16 bytes, and the pages of what changed.
        let limit = 16 * lines + 128 * 1024;
        assert!(0 < stored && stored < limit, "{args:?} stores {stored} bytes for {lines} lines, at most {limit}");
        let calls = traced(&sandbox, &repo, "trace=openat,open", &["ready"]);
        assert!(calls.iter().all(|call| !call.contains("issues.jsonl")), "{calls:#?}");
    }
}

#[test]
fn a_command_that_is_killed_while_it_writes_the_index_leaves_no_half_of_it() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    write_many(&sandbox, &repo, 20);
    settle(&sandbox, &repo);
    let mut killed = 0;
    loop {
        let title = format!("title {killed}");
        let mut command = sandbox.command(strace(), &repo);
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=pwrite64,symlink,symlinkat"]);
        command.args(["-e", &format!("inject=pwrite64,symlink,symlinkat:signal=SIGKILL:when={}", killed + 1)]);
        let output =
            command.args([env!("CARGO_BIN_EXE_way"), "update", "r-00007", "--title", &title]).output().unwrap();
        // The ledger was written before.
        assert_eq!(titles(&sandbox, &repo)[7], title);
        assert_eq!(titles(&sandbox, &repo).len(), 20);
        let _ = sandbox.way(&repo, ["update", "r-00003", "--title", &title]).ok();
        if output.status.success() {
            break;
        }
        killed += 1;
    }
    assert!(killed > 5, "{killed}");
}

#[test]
fn removing_the_index_repeatedly_fails_no_running_command() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    write_many(&sandbox, &repo, 200);
    let mut children: Vec<Child> = (0..4)
        .map(|number| {
            let way = env!("CARGO_BIN_EXE_way");
            let script = format!(
                "for i in 1 2 3 4 5 6 7 8 9 10; do '{way}' add new-{number} >/dev/null; \
                 n=$('{way}' list --limit 0 | wc -l); test $n -gt 200; '{way}' show r-00001 >/dev/null; done"
            );
            sandbox.command("sh", &repo).args(["-ec", &script]).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut removed = 0;
    while children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
        removed += usize::from(std::fs::remove_file(repo.join(INDEX)).is_ok());
        std::thread::park_timeout(Duration::from_millis(3));
    }
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(removed > 3, "{removed}");
    assert_eq!(titles(&sandbox, &repo).len(), 240);
}

#[test]
fn readers_of_the_ledger_never_see_a_partial_write() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let ledger = repo.join(LEDGER);
    sandbox.dir("repo/.waypost");
    write_many(&sandbox, &repo, 500);
    let way = env!("CARGO_BIN_EXE_way");
    let script =
        format!("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do '{way}' add new >/dev/null; done");
    let mut writer = sandbox.command("sh", &repo).args(["-ec", &script]).spawn().unwrap();
    let mut looks = 0;
    while writer.try_wait().unwrap().is_none() {
        let bytes = std::fs::read(&ledger).unwrap();
        assert_eq!(bytes.last(), Some(&b'\n'));
        let whole = bytes.split(|byte| *byte == b'\n').filter(|line| line.ends_with(b"}")).count();
        assert!((500..=520).contains(&whole), "{whole}");
        assert_eq!(bytes.split(|byte| *byte == b'\n').count(), whole + 1);
        looks += 1;
    }
    assert!(writer.wait().unwrap().success());
    assert!(looks > 20, "{looks}");
}

#[test]
fn a_read_only_tree_is_read() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    add(&sandbox, &repo, &["One"]);
    std::fs::remove_file(repo.join(INDEX)).unwrap();
    sandbox.give_away(&sandbox.path(""));
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    mode(&repo.join(".git/waypost"), 0o555);
    mode(&repo.join(".waypost"), 0o555);
    let run = sandbox.way_unprivileged(&repo, ["list"]);
    assert!(run.stdout.contains("One"), "{run:?}");
    assert!(!repo.join(INDEX).exists());
    let run = sandbox.way_unprivileged(&repo, ["search", "one"]);
    assert!(run.stdout.contains("One"), "{run:?}");
    mode(&repo.join(".git/waypost"), 0o700);
    mode(&repo.join(".waypost"), 0o755);
}
