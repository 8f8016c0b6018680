//! The index through the real binary: it never fails a command, and is never trusted over a changed file.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, SystemTime};

use waypost_testkit::{Run, Sandbox, strace};

use crate::support::ledger::{LEDGER, add, ids};
use crate::support::sandbox;

const INDEX: &str = ".git/waypost/index.db";

fn line(id: usize, title: &str) -> String {
    format!("{{\"id\":\"r-{id:05}\",\"title\":\"{title}\"}}\n")
}

fn write_many(sandbox: &Sandbox, repo: &Path, count: usize) {
    let lines: Vec<String> = (0..count).map(|number| line(number, "x")).collect();
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
        assert!(0 < stored && stored < size, "{args:?} stores {stored} bytes for a ledger of {size}");
        let calls = traced(&sandbox, &repo, "trace=openat,open", &["ready"]);
        assert!(calls.iter().all(|call| !call.contains("issues.jsonl")), "{calls:#?}");
    }
}

#[test]
fn answers_are_the_same_with_a_missing_or_damaged_index() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    write_many(&sandbox, &repo, 300);
    let index = repo.join(INDEX);
    let expected = titles(&sandbox, &repo);
    assert_eq!(expected.len(), 300);
    let whole = std::fs::read(&index).unwrap();
    let check = |what: &str| {
        assert_eq!(titles(&sandbox, &repo), expected, "{what}");
        assert_eq!(sandbox.way(&repo, ["stats", "--json"]).data()["ready"], 300, "{what}");
    };
    std::fs::remove_file(&index).unwrap();
    check("deleted");
    sandbox.write(&index, b"random bytes, more or less".repeat(4_000));
    check("replaced by random bytes");
    sandbox.write(&index, &whole[..whole.len() / 3]);
    check("cut off");
    std::fs::copy(&index, sandbox.path("copy")).unwrap();
    let _ = sandbox.way(&repo, ["update", "r-00001", "--title", "changed"]).ok();
    let _ = sandbox.way(&repo, ["update", "r-00001", "--title", "x"]).ok();
    std::fs::copy(sandbox.path("copy"), &index).unwrap();
    check("replaced by an older copy");
    let foreign = rusqlite::Connection::open(sandbox.path("foreign")).unwrap();
    foreign.execute_batch("CREATE TABLE issue (id); INSERT INTO issue VALUES ('not ours')").unwrap();
    drop(foreign);
    std::fs::rename(sandbox.path("foreign"), &index).unwrap();
    check("replaced by another schema's");
    std::os::unix::fs::symlink("/nowhere/at/all", sandbox.path("link")).unwrap();
    std::fs::rename(sandbox.path("link"), &index).unwrap();
    check("replaced by a link to nowhere");
    assert!(!Path::new("/nowhere").exists());
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
fn edits_checkouts_stashes_and_restored_times_are_seen_at_once() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    let ledger = repo.join(LEDGER);
    // In place, with the same size, one right after the other.
    for round in 0..20 {
        sandbox.write(&ledger, line(1, &format!("{round:03}")));
        assert_eq!(titles(&sandbox, &repo), [format!("{round:03}")]);
    }
    // With the old modification time restored.
    let time = std::fs::metadata(&ledger).unwrap().modified().unwrap();
    for round in 0..5 {
        sandbox.write(&ledger, line(1, &format!("t{round:02}")));
        std::fs::File::options().write(true).open(&ledger).unwrap().set_modified(time).unwrap();
        assert_eq!(titles(&sandbox, &repo), [format!("t{round:02}")]);
    }
    sandbox.write(&ledger, line(1, "first"));
    sandbox.git(&repo, ["add", "."]);
    sandbox.git(&repo, ["commit", "-q", "-m", "first"]);
    sandbox.git(&repo, ["checkout", "-q", "-b", "other"]);
    sandbox.write(&ledger, line(1, "other"));
    sandbox.git(&repo, ["commit", "-q", "-a", "-m", "other"]);
    for _ in 0..3 {
        sandbox.git(&repo, ["checkout", "-q", "-"]);
        assert_eq!(titles(&sandbox, &repo), ["first"]);
        sandbox.git(&repo, ["checkout", "-q", "-"]);
        assert_eq!(titles(&sandbox, &repo), ["other"]);
    }
    sandbox.write(&ledger, line(1, "dirty"));
    assert_eq!(titles(&sandbox, &repo), ["dirty"]);
    sandbox.git(&repo, ["stash", "-q"]);
    assert_eq!(titles(&sandbox, &repo), ["other"]);
    sandbox.git(&repo, ["stash", "pop", "-q"]);
    assert_eq!(titles(&sandbox, &repo), ["dirty"]);
    sandbox.git(&repo, ["rm", "-qf", LEDGER]);
    assert!(titles(&sandbox, &repo).is_empty());
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
