//! Hostile environments: one clear error each, the right exit code, nothing created, nothing damaged.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use waypost_testkit::{Sandbox, unavailable, until};

use crate::support::{sandbox, text};

fn count(dir: &Path) -> usize {
    std::fs::read_dir(dir).unwrap().count()
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A mounted file system, unmounted when dropped.
struct Mounted(PathBuf);

impl Mounted {
    /// Mounts a tmpfs.
    fn tmpfs(sandbox: &Sandbox, options: &str) -> Mounted {
        let dir = sandbox.dir("mounted");
        let mount =
            sandbox.command("mount", &dir).args(["-t", "tmpfs", "-o", options, "tmpfs", text(&dir)]).output().unwrap();
        if !mount.status.success() {
            unavailable(&format!("this user may not mount: {}", String::from_utf8_lossy(&mount.stderr)));
        }
        Mounted(dir)
    }

    /// Remounts it with other options. It is busy while a process that another test is starting has our
    /// files open: a forked process has them until it executes its program.
    fn remount(&self, sandbox: &Sandbox, options: &str) {
        let options = format!("remount,{options}");
        until("the file system is not busy", || {
            let mut command = sandbox.command("mount", &sandbox.path(""));
            let mount = command.args(["-o", &options, text(&self.0)]).output().unwrap();
            let stderr = String::from_utf8_lossy(&mount.stderr);
            assert!(mount.status.success() || stderr.contains("busy"), "{stderr}");
            mount.status.success()
        });
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_store_that_is_a_directory_is_refused() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let dir = sandbox.dir("dir");
    let run = sandbox.way(&repo, ["--db", "../dir", "status"]).fails(8);
    assert!(run.stderr.contains("is a directory"), "{}", run.stderr);
    assert_eq!(count(&dir), 0);
    let _ = sandbox.way(&repo, ["config", "set", "role", "maintainer"]).ok();
    sandbox.dir("repo/.git/waypost/state.db");
    let _ = sandbox.way(&repo, ["status"]).fails(8);
    let run = sandbox.way(&repo, ["--db", "/dev/null", "status"]).fails(8);
    assert!(run.stderr.contains("not a regular file"), "{}", run.stderr);
}

#[test]
fn g13_a_damaged_store_is_an_error_and_is_left_as_it_is() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["--db", "../good.db", "db", "probe", "--writes", "50"]).ok();
    let _ = sandbox.way(&repo, ["--db", "../good.db", "db", "vacuum"]).ok();
    let good = std::fs::read(sandbox.path("good.db")).unwrap();
    let random: Vec<u8> = (0..9000_u32).map(|number| number.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect();
    let mut scribbled = good.clone();
    for byte in &mut scribbled[4096..8192] {
        *byte ^= 0xa5;
    }
    for (name, content) in [
        ("random", random),
        ("truncated", good[..good.len() / 2].to_vec()),
        ("short", good[..50].to_vec()),
        ("scribbled", scribbled),
    ] {
        let db = sandbox.path(format!("{name}.db"));
        sandbox.write(&db, &content);
        let run = sandbox.way(&repo, ["--db", text(&db), "status"]);
        assert!(run.code == 9 && run.stdout.is_empty() && run.stderr.starts_with("error: "), "{name}: {run:?}");
        let check = sandbox.way(&repo, ["--db", text(&db), "db", "check"]);
        assert_eq!(check.code, 9, "{name}: {check:?}");
        let doctor = sandbox.way(&repo, ["--db", text(&db), "doctor", "--fix"]);
        assert_eq!(doctor.code, 9, "{name}: {doctor:?}");
        assert_eq!(std::fs::read(&db).unwrap(), content, "{name} was changed");
    }
}

#[test]
fn g13_a_store_locked_by_another_program_is_an_error_and_not_an_empty_answer() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["status"]).ok();
    let stranger = rusqlite::Connection::open(repo.join(".git/waypost/state.db")).unwrap();
    stranger.execute_batch("BEGIN IMMEDIATE").unwrap();
    let impatient = [("WAYPOST_STORE_WAIT", OsStr::new("100ms"))];
    let run = sandbox.way_with(&repo, &impatient, ["db", "probe"]).fails(8);
    assert!(run.stderr.contains("another program holds it"), "{}", run.stderr);
    // A writer does not block readers.
    assert_eq!(sandbox.way_with(&repo, &impatient, ["status", "--json"]).data()["store"]["events"], 2);
    drop(stranger);
    // A program that never shared the log's index blocks them, too.
    let stranger = rusqlite::Connection::open(repo.join(".git/waypost/state.db")).unwrap();
    stranger.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").unwrap();
    let run = sandbox.way_with(&repo, &impatient, ["status", "--json"]);
    assert_eq!((run.code, run.error()["code"].as_str()), (8, Some("unavailable")), "{run:?}");
    drop(stranger);
    let _ = sandbox.way(&repo, ["db", "probe"]).ok();
}

#[test]
fn a_gate_held_for_too_long_names_its_holder() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["status"]).ok();
    let gate = std::fs::OpenOptions::new().write(true).open(repo.join(".git/waypost/state.db-gate")).unwrap();
    gate.lock().unwrap();
    let run = sandbox.way_with(&repo, &[("WAYPOST_STORE_WAIT", OsStr::new("100ms"))], ["db", "probe"]).fails(8);
    assert!(run.stderr.contains("waited 0.1 s for the lock") && run.stderr.contains("held by pid"), "{}", run.stderr);
    let _ = sandbox.way(&repo, ["status"]).ok();
}

#[test]
fn g12_a_failed_write_is_an_error() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.give_away(&sandbox.path(""));
    let _ = sandbox.way_unprivileged(&repo, ["db", "probe", "--writes", "3"]).ok();
    let private = repo.join(".git/waypost");
    for file in ["state.db", "state.db-wal", "state.db-shm", "state.db-gate"] {
        set_mode(&private.join(file), 0o400);
    }
    set_mode(&private, 0o500);
    let run = sandbox.way_unprivileged(&repo, ["db", "probe"]).fails(8);
    assert!(run.stderr.contains("can only be read"), "{}", run.stderr);
    assert!(!run.stdout.contains("on disk"), "nothing is said to be done: {}", run.stdout);
    // Existing records can still be read.
    let status = sandbox.way_unprivileged(&repo, ["status", "--json"]).data();
    assert_eq!(status["store"]["events"], 5);
}

#[test]
fn a_directory_that_cannot_be_entered_is_an_error() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.give_away(&sandbox.path(""));
    let _ = sandbox.way_unprivileged(&repo, ["status"]).ok();
    set_mode(&repo.join(".git/waypost"), 0);
    let run = sandbox.way_unprivileged(&repo, ["status"]).fails(8);
    assert!(run.stderr.contains("ermission denied"), "{}", run.stderr);
    set_mode(&repo.join(".git/waypost"), 0o700);

    let closed = sandbox.dir("closed");
    sandbox.give_away(&closed);
    set_mode(&closed, 0o500);
    let run = sandbox.way_unprivileged(&repo, ["--db", "../closed/deep/x.db", "db", "probe"]).fails(8);
    assert!(run.stderr.contains("cannot create the store"), "{}", run.stderr);
    assert_eq!(count(&closed), 0);
}

#[test]
fn a_read_only_checkout_is_read_without_a_store() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let other = sandbox.git_repo("other");
    sandbox.give_away(&sandbox.path(""));
    set_mode(&repo.join(".git"), 0o500);
    let _ = sandbox.way_unprivileged(&repo, ["where"]).ok();
    let run = sandbox.way_unprivileged(&repo, ["status"]).fails(8);
    assert!(run.stderr.contains("cannot create the store"), "{}", run.stderr);
    // A store elsewhere can be read and, since a record names its worktree, not written.
    let _ = sandbox.way_unprivileged(&other, ["--db", "../home/x.db", "db", "probe"]).ok();
    let _ = sandbox.way_unprivileged(&repo, ["--db", "../home/x.db", "status"]).ok();
    let run = sandbox.way_unprivileged(&repo, ["--db", "../home/x.db", "db", "probe"]).fails(8);
    assert!(run.stderr.contains("cannot write"), "{}", run.stderr);
    set_mode(&repo.join(".git"), 0o700);
}

#[test]
fn a_read_only_file_system_is_read_and_not_written() {
    let sandbox = sandbox();
    let mounted = Mounted::tmpfs(&sandbox, "size=20m");
    let repo = sandbox.git_repo("mounted/repo");
    let _ = sandbox.way(&repo, ["db", "probe", "--writes", "3"]).ok();
    sandbox.git_repo("mounted/fresh");
    mounted.remount(&sandbox, "ro");
    assert_eq!(sandbox.way(&repo, ["status", "--json"]).data()["store"]["events"], 5);
    let run = sandbox.way(&repo, ["db", "probe"]).fails(8);
    assert!(run.stderr.contains("can only be read"), "{}", run.stderr);
    let run = sandbox.way(&sandbox.path("mounted/fresh"), ["status"]).fails(8);
    assert!(run.stderr.contains("ead-only file system"), "{}", run.stderr);
    let _ = sandbox.way(&sandbox.path("mounted/fresh"), ["where"]).ok();
    mounted.remount(&sandbox, "rw");
    let _ = sandbox.way(&repo, ["db", "check"]).ok();
}

#[test]
fn a_full_disk_stops_writes_and_nothing_else() {
    let sandbox = sandbox();
    let _mounted = Mounted::tmpfs(&sandbox, "size=1m");
    let repo = sandbox.git_repo("repo");
    let db = sandbox.path("mounted/new/state.db");
    let filler = sandbox.path("mounted/filler");
    let fill = || {
        let dd = sandbox
            .command("dd", &sandbox.path(""))
            .args(["if=/dev/zero", "bs=4k", &format!("of={}", text(&filler))])
            .output()
            .unwrap();
        assert!(!dd.status.success(), "dd fills the disk");
    };
    let variables = [("WAYPOST_DB", db.as_os_str())];
    fill();
    let run = sandbox.way_with(&repo, &variables, ["db", "probe"]).fails(8);
    assert!(run.stderr.contains("full") || run.stderr.contains("No space"), "{}", run.stderr);
    assert_eq!(count(&sandbox.path("mounted")), 1, "nothing of the store was left behind");
    std::fs::remove_file(&filler).unwrap();

    let acknowledged =
        |run: &waypost_testkit::Run| run.stdout.lines().filter(|line| line.contains(" on disk after ")).count();
    let first = sandbox.way_with(&repo, &variables, ["db", "probe", "--writes", "10"]).ok();
    fill();
    let stopped = sandbox.way_with(&repo, &variables, ["db", "probe", "--writes", "5000"]).fails(8);
    assert!(stopped.stderr.contains("full"), "{}", stopped.stderr);
    let written = 2 + acknowledged(&first) + acknowledged(&stopped);
    let status = sandbox.way_with(&repo, &variables, ["status", "--json"]).data();
    assert_eq!(status["store"]["events"], written, "exactly the acknowledged writes are stored");
    std::fs::remove_file(&filler).unwrap();
    let _ = sandbox.way_with(&repo, &variables, ["db", "probe", "--writes", "1"]).ok();
    let _ = sandbox.way_with(&repo, &variables, ["db", "check"]).ok();
}

#[test]
fn unknown_schemes_are_refused_and_known_ones_name_what_is_missing() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    for bad in ["mysql://x/y", "sqlite://x.db", "file:///x.db", "ftp://x"] {
        let run = sandbox.way_with(&repo, &[("WAYPOST_DB", OsStr::new(bad))], ["status"]).fails(2);
        assert!(run.stderr.contains("unknown scheme") && run.stderr.contains("postgres://"), "{}", run.stderr);
    }
    for remote in ["postgres://me:secret@host/db", "https://host", "unix:/run/way.sock"] {
        let run = sandbox.way(&repo, ["--db", remote, "status"]).fails(8);
        assert!(!run.stderr.contains("secret"), "{}", run.stderr);
    }
    assert!(!repo.join(".git/waypost").exists());
    assert_eq!(sandbox.git(&repo, ["status", "--porcelain"]), "");
}

#[test]
fn a_newer_schema_and_a_foreign_database_are_refused() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["status"]).ok();
    let path = repo.join(".git/waypost/state.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.pragma_update(None, "user_version", 999).unwrap();
    drop(db);
    let run = sandbox.way(&repo, ["status"]).fails(8);
    assert!(
        run.stderr.contains("version 999")
            && run.stderr.contains("knows versions up to")
            && run.stderr.contains("upgrade"),
        "{}",
        run.stderr
    );

    let foreign = sandbox.path("foreign.db");
    let db = rusqlite::Connection::open(&foreign).unwrap();
    db.execute_batch("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)").unwrap();
    drop(db);
    let before = std::fs::read(&foreign).unwrap();
    let run = sandbox.way(&repo, ["--db", text(&foreign), "status"]).fails(2);
    assert!(run.stderr.contains("not a Waypost store"), "{}", run.stderr);
    assert_eq!(std::fs::read(&foreign).unwrap(), before);
}

#[test]
fn an_empty_file_becomes_a_store() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.write("empty.db", "");
    let _ = sandbox.way(&repo, ["--db", "../empty.db", "db", "probe"]).ok();
    let _ = sandbox.way(&repo, ["--db", "../empty.db", "db", "check"]).ok();
}

#[test]
fn a_store_with_two_names_is_refused() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["--db", "../one.db", "db", "probe"]).ok();
    std::fs::hard_link(sandbox.path("one.db"), sandbox.path("two.db")).unwrap();
    for name in ["../one.db", "../two.db"] {
        let run = sandbox.way(&repo, ["--db", name, "status"]).fails(8);
        assert!(run.stderr.contains("has 2 names") && run.stderr.contains("hard link"), "{}", run.stderr);
    }
    std::os::unix::fs::symlink("nothing.db", sandbox.path("dangling.db")).unwrap();
    let run = sandbox.way(&repo, ["--db", "../dangling.db", "status"]).fails(8);
    assert!(run.stderr.contains("link to nothing"), "{}", run.stderr);
}

#[test]
fn a_store_of_another_user_is_refused() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["--db", "../theirs.db", "db", "probe"]).ok();
    let given = sandbox.command("chown", &repo).args(["65534", "../theirs.db"]).output().unwrap();
    if !given.status.success() {
        unavailable("this user may not give files away");
    }
    let run = sandbox.way(&repo, ["--db", "../theirs.db", "status"]).fails(8);
    assert!(run.stderr.contains("belongs to user 65534"), "{}", run.stderr);
}

#[test]
fn a_store_behind_fuse_is_refused_unless_allowed() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let (below, dir) = (sandbox.dir("below"), sandbox.dir("mounted"));
    let mount = sandbox.command("bindfs", &repo).arg(&below).arg(&dir).output();
    if !mount.as_ref().is_ok_and(|output| output.status.success()) {
        unavailable(&format!("bindfs, which `cargo xtask test` installs, cannot mount: {mount:?}"));
    }
    let _mounted = Mounted(dir.clone());
    let _ = sandbox.way(&repo, ["--db", "../mounted/x.db", "db", "probe"]).fails(8);
    assert_eq!(count(&below), 0);
    let _ = sandbox.way(&repo, ["--db", "../mounted/x.db", "--config", "store.network=allow", "db", "probe"]).ok();
    assert!(below.join("x.db").is_file());
    let run = sandbox.way(&repo, ["--db", "../mounted/x.db", "status"]).fails(8);
    assert!(run.stderr.contains("is on FUSE") && run.stderr.contains("store.network=allow"), "{}", run.stderr);
    // Nothing is damaged: `way doctor` exits like every command that cannot use the store.
    let doctor = sandbox.way(&repo, ["--db", "../mounted/x.db", "doctor", "--json"]);
    assert_eq!(doctor.code, 8, "{doctor:?}");
    assert!(doctor.stdout.contains("is on FUSE"), "{doctor:?}");
    let allowed = ["--db", "../mounted/x.db", "--config", "store.network=allow", "doctor"];
    assert_eq!(sandbox.way(&repo, allowed).code, 0);
}

#[test]
fn a_deleted_current_directory_is_an_error() {
    let sandbox = sandbox();
    let gone = sandbox.dir("gone");
    let way = env!("CARGO_BIN_EXE_way");
    let script = format!("rmdir ../gone && exec '{way}' status");
    let output = sandbox.command("sh", &gone).args(["-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(8));
    assert!(String::from_utf8_lossy(&output.stderr).contains("current directory"), "{output:?}");
}

#[test]
fn closing_the_output_early_is_no_error() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let mut child = sandbox
        .way_command(&repo)
        .args(["db", "probe", "--writes", "200"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn usage_errors_are_json_if_asked() {
    let sandbox = sandbox();
    let run = sandbox.way(&sandbox.path(""), ["--json", "statsu"]).fails(2);
    assert_eq!(run.error()["code"], "invalid");
    assert!(run.stderr.contains("status"), "{}", run.stderr);
    assert!(run.stdout.is_empty());
}

#[test]
fn g21_names_that_look_like_options_or_paths_are_refused() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.write(repo.join("plan"), "a: x\n");
    let long = "x".repeat(4 << 20);
    for name in ["../x", "a/../x", "..", ".", "-x", " x", "a\nb"] {
        for args in [
            &["workflow", "create", "--", name][..],
            &["template", "save", "--plan", "plan", "--", name],
            &["agent", "register", "--", name],
        ] {
            let run = sandbox.way(&repo, args.iter()).fails(2);
            assert!(run.stderr.contains("cannot be the name of a"), "{args:?}: {}", run.stderr);
        }
        sandbox.write(repo.join("named"), format!("[{{\"name\": {}}}]", serde_json::Value::from(name)));
        let _ = sandbox.way(&repo, ["workflow", "create", "w", "--plan", "named"]).fails(2);
    }
    sandbox.write(repo.join("named"), format!("[{{\"name\": \"{long}\"}}]"));
    let run = sandbox.way(&repo, ["workflow", "create", "w", "--plan", "named"]).fails(2);
    assert!(run.stderr.len() < 1_000, "the error repeats {} bytes", run.stderr.len());
    for name in ["v1.2", "a/b", "x-", "..x", "fix: the parser"] {
        assert_eq!(sandbox.way(&repo, ["workflow", "create", name]).code, 0, "{name}");
    }
}
