//! What a job in a sandbox reaches of Waypost itself: no socket, no secret and no terminal of its user, but its own store.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::serving::{Reply, Server};
use crate::support::jobs::{JOB_COMMANDS, Shop, path};

const WAY: &str = env!("CARGO_BIN_EXE_way");

/// Every way to restrict the files of a job.
const MODES: [&str; 2] = ["--sandbox=landlock", "--sandbox=bubblewrap"];

const CANARY: &str = "canary-3b1f";

fn output(job: &Value) -> &str {
    job["output"].as_str().unwrap_or_default()
}

/// A program that asks for an operation over a socket. Arguments: the socket, a token or nothing, and how it detaches.
const ASK: &str = r#"
import os, socket, sys
path, token, how = sys.argv[1:4]
if how == "detached":
    if os.fork():
        os.wait(); sys.exit()
    os.setsid()
    middle = os.getpid()
    if os.fork():
        os._exit(0)
    os.environ.clear()
    while os.getppid() == middle:
        pass
body = b'{"command":["cat","/etc/hostname"],"sandbox":"off"}'
for request, body in ((b"GET /api/v1/status", b""), (b"POST /api/v1/jobs", body)):
    try:
        s = socket.socket(socket.AF_UNIX); s.connect(path)
        head = request + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
        if token:
            head += b"Authorization: Bearer " + token.encode() + b"\r\n"
        s.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        print("status", s.recv(12)[9:].decode(), flush=True)
    except OSError as error:
        print("no connection", flush=True)
"#;

#[test]
fn a_process_of_a_job_gets_no_rights_over_the_socket_of_the_owner() {
    let Shop { sandbox, repo, .. } = Shop::new();
    let server = Server::start_in(sandbox, repo, &[]);
    let owner = fs::read_to_string(server.sandbox.path("home/.waypost/token")).unwrap().trim().to_owned();
    // The place of the socket is not a secret, and another one may be anywhere.
    let socket = server.socket();
    let open = server.sandbox.path("open.sock");
    fs::hard_link(&socket, &open).unwrap();
    let start = |mode: &str, script: &str| {
        let mut command = server.sandbox.way_command(&server.repo);
        command
            .env_remove("WAYPOST_TEST_CLOCK")
            .args(["--quiet", "job", "start", "--json", mode, "--", "sh", "-c", script]);
        let run = waypost_testkit::Run::of(&command.output().unwrap());
        serde_json::from_str::<Value>(&run.stdout).unwrap_or_else(|_| panic!("{}", run.whole()))["data"].clone()
    };
    for mode in [MODES[0], MODES[1], "--sandbox=off"] {
        for (token, how, expected) in [
            ("", "plain", "status 401"),
            ("", "detached", "status 401"),
            ("$WAYPOST_TOKEN", "plain", "status 40"),
            (owner.as_str(), "plain", "status 403"),
            (owner.as_str(), "detached", "status 403"),
        ] {
            for socket in [&socket, &open] {
                let script = format!(
                    "cat > ask.py <<'END'\n{ASK}\nEND\n/usr/bin/python3 ask.py {} \"{token}\" {how}; sleep 0.5",
                    socket.display()
                );
                let job = start(mode, &script);
                let answers: Vec<&str> = output(&job).lines().collect();
                let is_closed = |answer: &&str| answer.starts_with(expected) || *answer == "no connection";
                // A job may read the status with its own token, and nothing more.
                let own = |answer: &&str| token == "$WAYPOST_TOKEN" && *answer == "status 200";
                assert!(answers.len() == 2 && is_closed(&answers[1]), "{mode} {how}: {job}");
                assert!(is_closed(&answers[0]) || own(&answers[0]), "{mode} {how}: {job}");
            }
        }
    }
    // The command of the owner finds the proof itself, and a program of the owner's that sends nothing gets nothing.
    let store = format!("unix:{}", socket.display());
    let _ = server.sandbox.way(&server.repo, ["--db", &store, "workflow", "create", "w", "--quiet"]).ok();
    let ask = |head: String| {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        Reply::read(&answer).status
    };
    let head = "GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n".to_owned();
    assert_eq!(ask(format!("{head}\r\n")), 401);
    assert_eq!(ask(format!("{head}Authorization: Bearer {owner}\r\n\r\n")), 200);
}

#[test]
fn a_server_that_does_not_know_the_token_does_not_get_it_over_a_socket() {
    let one = Server::start(&[]);
    let other = Server::start(&[]);
    let store = format!("unix:{}", one.socket().display());
    let token = fs::read_to_string(other.sandbox.path("home/.waypost/token")).unwrap();
    let run = other.sandbox.way(&other.repo, ["--db", &store, "workflow", "list"]).fails(7);
    assert!(run.stderr.contains("token"), "{}", run.whole());
    assert!(!one.log().contains(token.trim()));
    // Another home of the user names the token.
    let token = fs::read_to_string(one.sandbox.path("home/.waypost/token")).unwrap();
    let variables = [("WAYPOST_TOKEN", token.trim().as_ref())];
    let _ = other.sandbox.way_with(&other.repo, &variables, ["--db", &store, "workflow", "list", "--quiet"]).ok();
}

/// Another terminal: its user typed a password there, and no program has read it yet. In the end prints what it shows.
const TERMINAL: &str = r#"
import os, pty, select, sys, termios
master, slave = pty.openpty()
modes = termios.tcgetattr(slave); modes[3] &= ~termios.ECHO; termios.tcsetattr(slave, termios.TCSANOW, modes)
os.write(master, b"typed-password\n")
print(os.ttyname(slave), flush=True)
sys.stdin.read()
read = lambda end: os.read(end, 1000).decode().strip() if select.select([end], [], [], 0)[0] else ""
print(read(slave) + "|" + read(master), end="")
"#;

#[test]
fn a_job_in_a_sandbox_uses_harmless_devices_and_no_terminal_of_another() {
    let shop = Shop::new();
    let mut other = Command::new("/usr/bin/python3")
        .args(["-c", TERMINAL])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(other.stdout.take().unwrap());
    let mut terminal = String::new();
    said.read_line(&mut terminal).unwrap();
    let terminal = terminal.trim().to_owned();
    let name = format!("waypost-test-{}", std::process::id());
    let shared = Path::new("/dev/shm").join(&name);
    shop.sandbox.write(&shared, CANARY);
    for mode in MODES {
        let script = format!(
            "exec 2>&1; timeout 1 cat {terminal}; echo attack > {terminal}; printf x >> {terminal}; \
             for other in /dev/pts/[0-9]*; do echo attack > $other; done; \
             timeout 1 cat /proc/*/fd/0 /proc/*/fd/1; echo attack > /dev/tty; echo attack > /dev/console; \
             cat /dev/shm/{name}; echo x > /dev/shm/{name}; \
             head -c 8 /dev/zero /dev/urandom /dev/random > /dev/null && echo x > /dev/null; echo x > /dev/full; echo usable"
        );
        let job = shop.job(&[mode], &script);
        assert!(output(&job).ends_with("usable"), "{mode}: {job}");
        assert!(!output(&job).contains("typed-password") && !output(&job).contains(CANARY), "{mode}: {job}");
        assert_eq!(fs::read_to_string(&shared).unwrap(), CANARY, "{mode}");
    }
    fs::remove_file(&shared).unwrap();
    drop(other.stdin.take());
    let mut seen = String::new();
    said.read_to_string(&mut seen).unwrap();
    other.wait().unwrap();
    assert_eq!(seen, "typed-password|", "what the other terminal shows, and what is typed there");
    // With bubblewrap a job has terminals of its own.
    let own = "/usr/bin/python3 -c 'import pty; pty.spawn([\"tty\"])'";
    let job = shop.job(&[MODES[1]], own);
    assert!(output(&job).starts_with("/dev/pts/"), "{job}");
}

/// Puts secrets wherever Waypost has some.
fn fill(shop: &Shop) -> Vec<String> {
    let _ = shop.way(["add", "Known"]).ok();
    let _ = shop.way(["token", "create", "--role", "admin"]).ok();
    let other = shop.sandbox.git_repo("projects/other");
    let _ = shop.sandbox.way(&other, ["add", "secret plan"]).ok();
    let private = [shop.repo.join(".git/waypost"), other.join(".git/waypost"), shop.sandbox.path("home/.waypost")];
    let mut secrets = vec![CANARY.to_owned()];
    for dir in &private {
        shop.sandbox.write(dir.join("secret"), CANARY);
        fs::create_dir_all(dir.join("deep")).unwrap();
        shop.sandbox.write(dir.join("deep/secret"), CANARY);
    }
    for dir in &private[..2] {
        secrets.push(fs::read_to_string(dir.join("key")).unwrap().trim().to_owned());
    }
    secrets
}

/// Tries to read what is closed. `$1` is the repository, and `$2` the directory of projects.
const TRY: &str = r#"
exec 2>/dev/null
try() { for dir in "$@"; do
    cat "$dir"/secret "$dir"/deep/secret "$dir"/key "$dir"/tokens.json "$dir"/state.db "$dir"/ledger.kept "$dir"/config.toml
    grep -ra canary "$dir"; tar cf - "$dir"; ls -R "$dir"; done; }
try $1/.git/waypost ~/.waypost $2/other/.git/waypost
try $1/.git/../.git/waypost $1/.git//waypost/. /proc/self/root$1/.git/waypost
cat ~/.waypost/token ~/.waypost/keys/* ~/.waypost/registry/* ~/.waypost/machine ~/.waypost/*.db
for process in $PPID 1 $(cat /proc/$PPID/stat | cut -d' ' -f4); do
    try /proc/$process/root$1/.git/waypost /proc/$process/cwd/.git/waypost; timeout 1 cat /proc/$process/fd/*; done
ln -s $1/.git/waypost linked; try linked; ln $1/.git/waypost/secret hard; cat hard
mv $1/.git/waypost moved; try moved; cp -a $1/.git copied; try copied/waypost
mkdir -p own; mount --bind $1/.git/waypost own; umount $1/.git/waypost; unshare -rm sh -c "umount $1/.git/waypost; cat $1/.git/waypost/secret"
git --git-dir=$1/.git/waypost/ledger/.git log; git -C $1 hash-object --stdin < $1/.git/waypost/secret
git -C $1 log --format=tried-%s -1
echo tried
"#;

#[test]
fn no_part_of_any_private_directory_is_readable_in_a_sandbox() {
    let shop = Shop::new();
    let secrets = fill(&shop);
    let projects = shop.sandbox.path("projects");
    // The user opens the directory that the other repository is in, by another name too, and the home directory.
    std::os::unix::fs::symlink(&projects, shop.sandbox.path("alias")).unwrap();
    let opened = format!("{}:{}:~", projects.display(), shop.sandbox.path("alias").display());
    shop.sandbox.write(shop.sandbox.path("home/readable"), "readable\n");
    let script = format!(
        "cat > try.sh <<'END'\n{TRY}\nEND\nsh try.sh {} {1}; cat ~/readable {1}/other/file",
        shop.repo.display(),
        projects.display()
    );
    for mode in MODES {
        for strategy in ["clone", "worktree", "copy", "overlay"] {
            let opened = format!("jobs.sandbox_read={opened}");
            let job = shop.job(&[mode, "--strategy", strategy, "--config", &opened], &script);
            let log = shop.way(["job", "logs", job["id"].as_str().unwrap()]).ok().stdout;
            assert!(log.ends_with("tried-First\ntried\nreadable\ncontent\n"), "{mode} {strategy}: {job} {log}");
            for secret in &secrets {
                assert!(!log.contains(secret), "{mode} {strategy}: {log}");
            }
        }
    }
    assert_eq!(fs::read_to_string(shop.repo.join(".git/waypost/secret")).unwrap(), CANARY);
}

#[test]
fn a_jj_job_in_a_sandbox_reads_no_private_directory_and_commits() {
    for (mode, colocated) in [(MODES[0], true), (MODES[1], false), (MODES[0], false)] {
        let shop = Shop::new();
        let repo = shop.sandbox.jj_repo("jj", colocated);
        shop.sandbox.write(repo.join("file"), "content\n");
        shop.sandbox.jj(&repo, ["commit", "-m", "First"]);
        let _ = shop.sandbox.way(&repo, ["add", "x"]).ok();
        let private = repo.join(if colocated { ".git/waypost" } else { ".jj/repo/waypost" });
        shop.sandbox.write(private.join("secret"), CANARY);
        let script = format!(
            "cat {0}/secret {0}/key; grep -ra canary {1}/.jj {1}/.git; cat file",
            private.display(),
            repo.display()
        );
        let mut command = shop.sandbox.way_command(&repo);
        command.env_remove("WAYPOST_TEST_CLOCK");
        command.args(["--quiet", "job", "start", "--json", mode, "--", "sh", "-c", &script]);
        let job = waypost_testkit::Run::of(&command.output().unwrap()).data();
        let key = fs::read_to_string(private.join("key")).unwrap();
        assert!(output(&job).ends_with("content") && !output(&job).contains(CANARY), "{mode} {colocated}: {job}");
        assert!(!output(&job).contains(key.trim()), "{mode} {colocated}: {job}");
    }
}

#[test]
fn every_command_of_a_job_works_in_a_sandbox_and_its_changes_of_issues_arrive() {
    for (mode, strategy) in [(MODES[0], "clone"), (MODES[1], "worktree"), (MODES[0], "worktree")] {
        let shop = Shop::new();
        let _ = shop.way(["agent", "register", "bob"]).ok();
        let known = shop.way(["add", "Known", "--json"]).data()["id"].as_str().unwrap().to_owned();
        shop.workflow(&json!({ "tasks": [{ "name": "one" }, { "name": "two" }] }));
        // An issue that waits can be claimed, changed and closed by an agent once it is in the ledger.
        let mut commands = JOB_COMMANDS.replace('\'', "'\\''");
        for command in ["claim", "update", "close"] {
            commands = commands.replace(&format!("way {command} $id"), &format!("way {command} {known}"));
        }
        let script = format!("sh -c '{commands}' {WAY} && {WAY} show {known} --json && {WAY} where --json");
        let job = shop.job(&[mode, "--strategy", strategy, "--task", "one", "--agent", "ann"], &script);
        let log = shop.way(["job", "logs", job["id"].as_str().unwrap()]).ok().stdout;
        assert!(log.contains("all commands work"), "{mode} {strategy}: {job} {log}");
        // It reads the ledger itself, not a copy of its own.
        assert!(log.contains("\"title\":\"Known\"") && !log.contains("may be old"), "{mode} {strategy}: {log}");
        let issues = shop.way(["list", "--all", "--json"]).data();
        let status = |title: &str| {
            let found = issues.as_array().unwrap().iter().find(|issue| issue["title"] == title);
            found.unwrap_or_else(|| panic!("{mode} {strategy}: {issues}"))["status"].clone()
        };
        assert_eq!((status("Found"), status("Known")), (json!("open"), json!("closed")), "{mode} {strategy}");
        let dir = path(&job["workspace_dir"]);
        assert!(shop.sandbox.git(dir, ["status", "--porcelain"]).is_empty(), "{mode} {strategy}");
    }
}
