//! Where state is stored, from any current directory.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use serde_json::Value;
use waypost_testkit::{Run, strace};

use crate::support::places::store_path;
use crate::support::{NONE, sandbox, text};

#[test]
fn a15_outside_a_repository_nothing_happens_and_the_error_says_what_to_do() {
    let sandbox = sandbox();
    let dir = sandbox.dir("nowhere");
    for command in [vec!["where"], vec!["status"], vec!["db", "info"], vec!["worktree", "list"], vec!["doctor"]] {
        let run = sandbox.way(&dir, &command).fails(2);
        assert!(run.stderr.contains("--db") && run.stderr.contains("WAYPOST_DB"), "{}", run.stderr);
        assert!(run.stderr.contains("--global"), "{}", run.stderr);
    }
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(sandbox.path("home")).unwrap().count(), 0);
}

#[test]
fn outside_a_repository_a_named_store_works() {
    let sandbox = sandbox();
    let dir = sandbox.dir("nowhere");
    let status = sandbox.way(&dir, ["--global", "status", "--json"]).data();
    assert_eq!(status["store"]["path"], text(&sandbox.path("home/.waypost/state.db")));
    assert_eq!(status["worktrees"][0]["name"], "home");
    let _ = sandbox.way(&dir, ["--db", "x.db", "db", "probe"]).ok();
    assert!(dir.join("x.db").is_file());
}

#[test]
fn a20_one_module_knows_the_store_and_every_command_uses_the_same() {
    // Every line of the program that knows the file's name, in any spelling.
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut knowing = BTreeSet::new();
    let mut folders: Vec<_> =
        std::fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path().join("src")).collect();
    folders.retain(|folder| !folder.starts_with(crates.join("waypost-testkit")));
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let Ok(source) = std::fs::read_to_string(&path) else { continue };
            let program = source.split("#[cfg(test)]").next().unwrap();
            // The index of ledgers is another database.
            let is_code = |line: &&str| !line.trim_start().starts_with("//") && !line.contains("\"index");
            let names = ["state.db", "STORE_FILE", ".db\""];
            let lines = program.lines().filter(is_code).filter(|line| names.iter().any(|name| line.contains(name)));
            let file = path.strip_prefix(crates).unwrap().to_str().unwrap();
            knowing.extend(lines.map(|line| (file.to_owned(), line.trim().to_owned())));
        }
    }
    let files: BTreeSet<&str> = knowing.iter().map(|(file, _)| file.as_str()).collect();
    let lines_of = |name: &str| -> Vec<&str> {
        knowing.iter().filter(|(file, _)| file == name).map(|(_, line)| line.as_str()).collect()
    };
    // Only this module makes the path of a store.
    let own = lines_of("waypost/src/machine/place/store_choice.rs");
    assert_eq!(own.iter().filter(|line| line.contains("Sqlite(") || line.contains("in_home")).count(), 3, "{own:?}");
    let others = BTreeMap::from([
        ("waypost/src/machine/place/mod.rs", &["pub use store_choice::"][..]),
        // Databases of other programs, and a copy of one.
        ("waypost/src/import/program_sources.rs", &["workflows.db"][..]),
        ("waypost-store/src/foreign.rs", &["copy.db"]),
        // A hint, and the lines that ignore state of former versions and of the user's directory.
        ("waypost-store/src/sqlite/open.rs", &["name a file, for example state.db in it"]),
        ("waypost-cli/src/commands/init.rs", &["/state.db*"]),
        ("waypost-workspace/src/vcs/detect.rs", &["USER_STATE"]),
        // The link to the store in a worktree.
        ("waypost-cli/src/commands/worktree.rs", &["DOT_DIR", "dir.join(STORE_FILE)"]),
        ("waypost-cli/src/commands/doctor.rs", &["DOT_DIR", "Some(STORE_FILE.as_ref())"]),
    ]);
    for file in files.iter().filter(|file| **file != "waypost/src/machine/place/store_choice.rs") {
        let known = others.get(file).unwrap_or_else(|| panic!("{file} knows the store: {:?}", lines_of(file)));
        for line in lines_of(file) {
            assert!(known.iter().any(|part| line.contains(part)), "{file}: {line}");
        }
    }

    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let store = store_path(sandbox.way(&repo, ["where", "--json"]));
    assert_eq!(store_path(sandbox.way(&repo, ["status", "--json"])), store);
    assert_eq!(sandbox.way(&repo, ["init", "--json"]).data()["store"], store);
    assert_eq!(sandbox.way(&repo, ["db", "info", "--json"]).data()["path"], store);
    let doctor = sandbox.way(&repo, ["doctor", "--json"]).data();
    let found = doctor.as_array().unwrap().iter().find(|finding| finding["check"] == "store").unwrap();
    assert!(found["detail"].as_str().unwrap().contains(&store));
}

#[test]
fn a21_every_error_about_a_store_says_which_store_and_why() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["status"]).ok();
    let own = text(&repo.join(".git/waypost/state.db")).to_owned();
    let default = "default: one store per repository, shared by its worktrees";
    // Errors of the store in use: of every kind of record, and of every kind of error.
    for (args, code) in [
        (&["worktree", "rm", "none"][..], 3),
        (&["workflow", "show", "none"], 3),
        (&["workflow", "start", "none"], 3),
        (&["task", "show", "none"], 3),
        (&["task", "claim", "--agent", "ann"], 6),
        (&["task", "done", "tk_000000000000", "--outcome", "x", "--agent", "ann"], 3),
        (&["agent", "show", "none"], 3),
        (&["msg", "send", "none", "x", "--agent", "ann"], 3),
        (&["job", "show", "none"], 3),
        (&["ws", "show", "none"], 3),
        (&["template", "show", "none"], 3),
        (&["events", "--worktree", "none"], 3),
        (&["context", "none"], 3),
        (&["db", "backup", "/"], 7),
    ] {
        let run = sandbox.way(&repo, [&["--json"], args].concat()).fails(code);
        assert_eq!(run.error()["store"]["path"], own.as_str(), "{args:?}: {}", run.stderr);
        assert_eq!(run.error()["store"]["because"], default, "{args:?}");
        let shown = sandbox.way(&repo, args.iter()).fails(code).stderr;
        assert!(shown.contains(&format!("store: {own} ({default})")), "{args:?}: {shown}");
    }
    // Stores that cannot be used, named in every way.
    let garbage = sandbox.path("garbage.db");
    sandbox.write(&garbage, "x".repeat(4096));
    let newer = sandbox.path("newer.db");
    let _ = sandbox.way(&repo, ["db", "backup", text(&newer)]).ok();
    rusqlite::Connection::open(&newer).unwrap().pragma_update(None, "user_version", 999).unwrap();
    let missing = sandbox.path("typo/missing.db");
    for (store, code) in [(&repo, 8), (&garbage, 9), (&newer, 8), (&missing, 3)] {
        for command in [&["status"][..], &["workflow", "list"], &["db", "info"]] {
            let by_variable = sandbox.way_with(&repo, &[("WAYPOST_DB", store.as_os_str())], command.iter()).fails(code);
            let by_flag = sandbox.way(&repo, [&["--db", text(store)], command].concat()).fails(code);
            for (run, why) in [(by_variable, "WAYPOST_DB"), (by_flag, "--db")] {
                let named = format!("store: {} (from {why})", text(store));
                assert!(run.stderr.contains(&named), "{command:?}: {}", run.stderr);
            }
        }
    }
    let unreachable = "postgres://127.0.0.1:1/x";
    let run = sandbox.way(&repo, ["--db", unreachable, "--config", "store.wait=1s", "status"]);
    assert!(run.code != 0 && run.stderr.contains(&format!("store: {unreachable} (from --db)")), "{}", run.stderr);
}

#[test]
fn g10_resolving_the_store_takes_few_system_calls() {
    strace();
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let deep = sandbox.dir("repo/a/b/c/d");
    let _ = sandbox.way(&repo, ["status"]).ok();
    // Time depends on the machine; the work does not. A system call takes about a microsecond, and reading a file a few.
    let calls = |dir: &Path, args: &[&str]| -> usize {
        let trace = sandbox.path("trace");
        let mut command = sandbox.command("strace", dir);
        command.arg("-f").arg("-o").arg(&trace).arg(env!("CARGO_BIN_EXE_way")).args(args);
        let run = Run::of(&command.output().unwrap());
        assert_eq!(run.code, 0, "{run:?}");
        std::fs::read_to_string(&trace).unwrap().lines().count()
    };
    let start = calls(&repo, &["--version"]);
    for dir in [&repo, &deep] {
        let resolving = calls(dir, &["where"]) - start;
        assert!(resolving < 250, "{resolving} system calls in {}", dir.display());
    }
}

#[test]
fn using_a_repository_through_git_and_jj_in_turn_records_no_change_of_it() {
    let sandbox = sandbox();
    let repo = sandbox.jj_repo("repo", true);
    sandbox.write(repo.join("file"), "x");
    sandbox.jj(&repo, ["commit", "-m", "first"]);
    sandbox.git(&repo, ["worktree", "add", "-q", "--detach", "../tree", "HEAD"]);
    let hook = [("GIT_DIR", OsStr::new(".git")), ("GIT_WORK_TREE", OsStr::new("."))];
    for _ in 0..3 {
        let _ = sandbox.way(&repo, ["db", "probe", "--writes", "1"]).ok();
        let _ = sandbox.way(&sandbox.path("tree"), ["db", "probe", "--writes", "1"]).ok();
        let _ = sandbox.way_with(&repo, &hook, ["db", "probe", "--writes", "1"]).ok();
    }
    let db = rusqlite::Connection::open(repo.join(".git/waypost/state.db")).unwrap();
    let changes: i64 =
        db.query_row("SELECT count(*) FROM events WHERE kind = 'repository.changed'", [], |row| row.get(0)).unwrap();
    assert_eq!(changes, 0);
}

#[test]
fn a_hook_finds_the_store_of_its_repository() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let tree = sandbox.path("tree");
    sandbox.git(&repo, ["worktree", "add", "-q", text(&tree)]);
    let output = sandbox.path("said");
    let hook = repo.join(".git/hooks/pre-commit");
    let way = env!("CARGO_BIN_EXE_way");
    sandbox.program(&hook, format!("#!/bin/sh\n'{way}' where --json > '{}'\n", text(&output)));
    sandbox.git(&tree, ["commit", "-q", "--allow-empty", "-m", "second"]);
    let said: Value = serde_json::from_str(&std::fs::read_to_string(&output).unwrap()).unwrap();
    assert_eq!(said["data"]["store"]["path"], text(&repo.join(".git/waypost/state.db")));
    assert_eq!(said["data"]["worktree"]["path"], text(&tree));
}

#[test]
fn the_directory_flag_applies_before_everything_else() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let from = sandbox.dir("from");
    let data = sandbox.way(&from, ["-C", "../repo", "--db", "x.db", "where", "--json"]).data();
    assert_eq!(data["store"]["path"], text(&repo.join("x.db")));
    let _ = sandbox.way(&from, ["-C", "missing", "where"]).fails(2);
}

#[test]
fn without_any_command_help_is_shown() {
    let sandbox = sandbox();
    let run = sandbox.way(&sandbox.path(""), NONE).fails(2);
    assert!(run.stderr.contains("Usage: way"), "{}", run.stderr);
}

#[test]
fn an_unreadable_disk_is_not_mistaken_for_a_directory_without_a_repository() {
    strace();
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let linked = sandbox.path("linked");
    sandbox.git(&repo, ["worktree", "add", "-q", "../linked"]);
    for (dir, file) in [
        (&repo, ".git"),
        (&repo, ".git/HEAD"),
        (&repo, ".git/objects"),
        (&repo, ".git/refs"),
        (&repo, ".git/config"),
        (&linked, ".git"),
        (&linked, "../repo/.git/worktrees/linked/commondir"),
    ] {
        let path = dir.join(file).canonicalize().unwrap();
        let mut command = sandbox.command("strace", dir);
        command.args(["-qq", "-o", "/dev/null", "-e", "trace=statx,newfstatat,lstat,stat,openat"]);
        command.args(["-e", "inject=statx,newfstatat,lstat,stat,openat:error=EIO", "-P"]).arg(&path);
        let run = Run::of(&command.arg(env!("CARGO_BIN_EXE_way")).arg("where").output().unwrap()).fails(8);
        let said = run.whole();
        assert!(said.contains("cannot") && said.contains(path.to_str().unwrap()), "{file}: {said}");
        assert!(said.contains("Input/output error"), "{file}: {said}");
    }
}

/// Coding agents run commands in such sandboxes.
#[test]
fn an_error_about_a_read_only_directory_names_the_way_out() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["add", "One", "--json"]).data();
    sandbox.write(repo.join("plan.txt"), "build: Compile everything\n");
    let _ = sandbox.way(&repo, ["workflow", "create", "w", "--plan", "plan.txt", "--start"]).ok();
    let git_dir = repo.join(".git");
    let confined = |line: &[&str]| {
        let mut command = sandbox.command("bwrap", &repo);
        command.args(["--dev-bind", "/", "/", "--ro-bind"]).arg(&git_dir).arg(&git_dir);
        Run::of(&command.arg(env!("CARGO_BIN_EXE_way")).args(line).output().unwrap())
    };
    assert!(confined(&["list"]).ok().stdout.contains("One"), "reading works");
    for line in [&["add", "Two"][..], &["task", "claim", "--agent", "a"], &["workflow", "create", "other"]] {
        let run = confined(line).fails(8);
        let hint = format!(
            "use the MCP tools of waypost, whose server is outside of it, or let the sandbox write to {}",
            text(&git_dir.join("waypost"))
        );
        assert!(run.stderr.contains(&hint), "{run:#?}");
    }
    // Another failure gets no such hint.
    let run = sandbox.way(&repo, ["show", "nothing"]).fails(3);
    assert!(!run.stderr.contains("MCP"), "{run:#?}");
}

#[test]
fn the_text_of_a_list_keeps_each_path_on_one_line() {
    let sandbox = sandbox();
    for name in [b"new\nline".to_vec(), b"not-utf8-\xff\xfe".to_vec()] {
        let repo = sandbox.git_repo(OsString::from_vec(name));
        let list = sandbox.way(&repo, ["worktree", "list", "--json"]).data();
        let shown = list[0]["path"].as_str().unwrap();
        assert!(shown.ends_with("new\nline") || shown.ends_with("not-utf8-%FF%FE"), "{list}");
        let run = sandbox.way(&repo, ["worktree", "list"]).ok();
        assert_eq!(run.stdout.lines().count(), 2, "{}", run.stdout);
    }
}
