//! Repositories that bring files along to take over the user's account, tried with every command.
//!
//! The commands come from the reference, so a new command is tried too.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use waypost_testkit::{Run, Sandbox};

use crate::support::sandbox;

const REFERENCE: &str = include_str!("../../../../docs/commands.md");
const REFUSED: i32 = 7;

/// Commands that use no repository, and the hooks of agents, which never fail.
const NEVER_REFUSED: &[&str] = &["completions", "demo", "help", "hook", "merge-driver"];

/// Arguments that the usage line shows as optional, but that some form of the command needs.
const FURTHER_ARGUMENTS: &[(&str, &[&str])] = &[
    ("db gc", &["--older-than", "1d"]),
    ("dep add", &["y"]),
    ("migrate", &["--move-to", "../x", "--filter", "status=open"]),
    ("task ask", &["x"]),
    ("task assign", &["a"]),
    ("template save", &["--plan", "/dev/null"]),
    ("worker", &["--until-empty"]),
    ("serve", &["--socket", "/proc/nothing/socket"]),
];

/// Writes a file and the directories above it.
pub(crate) fn write(path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
    let path = path.as_ref();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    waypost_fs::replace(path, content.as_ref(), 0o600).unwrap();
}

/// Returns every command with arguments that its parser takes.
pub(crate) fn commands() -> Vec<Vec<String>> {
    let usages = REFERENCE.lines().filter_map(|line| line.strip_prefix("Usage: way "));
    let commands = usages.filter(|usage| !usage.contains("<COMMAND>") || usage.contains("-- <COMMAND>"));
    commands.map(|usage| usage.split(' ').filter_map(argument).map(str::to_owned).collect()).collect()
}

/// Returns the argument for a word of a usage line. None for optional words.
fn argument(word: &str) -> Option<&str> {
    let word = word.trim_end_matches("...");
    match word {
        "<SHELL>" => Some("bash"),
        "<AGENT>" => Some("claude-code"),
        "<MSG>" => Some("msg_000000000000"),
        "<FILE>" => Some("/dev/null"),
        "<MOMENT>" => Some("start"),
        "<KEY>" => Some("prefix"),
        "<PATH>" | "<FILE|DIR|->" => Some("."),
        "<STORE>" => Some("global"),
        "<COMMAND>" => Some("true"),
        _ if word.starts_with('[') || word.ends_with(']') => None,
        _ if word.starts_with('<') => Some("x"),
        _ => Some(word),
    }
}

/// Returns the arguments of a command with those that some form of it needs, and `--json`.
pub(crate) fn whole(command: &[String]) -> Vec<&str> {
    let name = command.iter().take(2).map(String::as_str).collect::<Vec<_>>().join(" ");
    let further = FURTHER_ARGUMENTS.iter().find(|(known, _)| *known == name || *known == command[0]);
    // Before the command that follows `--`.
    let (options, rest) = command.split_at(command.iter().position(|word| word == "--").unwrap_or(command.len()));
    let further = further.map_or(&[][..], |(_, arguments)| arguments).iter().copied();
    let words = options.iter().map(String::as_str).chain(further).chain(["--json"]);
    words.chain(rest.iter().map(String::as_str)).collect()
}

/// Runs a command.
fn run(sandbox: &Sandbox, dir: &Path, command: &[String]) -> Run {
    sandbox.run(sandbox.way_command(dir).args(whole(command)).env("EDITOR", "true"), "")
}

/// A private directory that a stranger prepared: a set-up command, a queued job, and an administrator's token.
pub(crate) struct Bait {
    files: Vec<(PathBuf, Vec<u8>)>,
    canary: PathBuf,
    secret: String,
}

impl Bait {
    /// Prepares it in a repository of the stranger.
    pub(crate) fn new(sandbox: &Sandbox) -> Bait {
        let canary = sandbox.path("canary");
        let touch = format!("touch {}", canary.display());
        let theirs = sandbox.git_repo("theirs");
        let home = sandbox.dir("their-home");
        let way = |args: &[&str]| {
            let variables = [("HOME", home.as_os_str()), ("WAYPOST_HOME", home.as_os_str())];
            sandbox.way_with(&theirs, &variables, args)
        };
        let _ = way(&["config", "set", "workspaces.setup", &touch]);
        let _ = way(&["config", "set", "role", "maintainer"]);
        let _ = way(&["workflow", "create", "bait"]);
        let _ = way(&["workflow", "add-task", "bait", "bite"]);
        let token = way(&["token", "create", "--role", "admin", "--json"]).data();
        let secret = token["token"].as_str().unwrap().to_owned();
        let private = theirs.join(".git/waypost");
        let files = fs::read_dir(&private).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
        let files = files.map(|path| (path.file_name().unwrap().into(), fs::read(&path).unwrap())).collect();
        Bait { files, canary, secret }
    }

    /// Puts it into a directory.
    fn put(&self, dir: &Path) {
        for (name, content) in &self.files {
            write(dir.join(name), content);
        }
    }
}

/// The ways in which a project can bring a private directory along, each with the directory of the command.
pub(crate) fn zoo(sandbox: &Sandbox, bait: &Bait) -> Vec<(&'static str, PathBuf)> {
    let jj_layout = |root: &Path| {
        write(root.join(".jj/repo/store/type"), "git");
        write(root.join(".jj/repo/store/git_target"), "git");
        write(root.join(".jj/working_copy/type"), "local");
        bait.put(&root.join(".jj/repo/waypost"));
    };
    let hg_layout = |root: &Path| {
        write(root.join(".hg/requires"), "store\n");
        write(root.join(".hg/store/requires"), "");
        bait.put(&root.join(".hg/waypost"));
    };
    // Version control tracks the directory, and a clone creates it.
    let clone = |name: &'static str, fill: &dyn Fn(&Path)| {
        let origin = sandbox.git_repo(format!("origins/{name}"));
        fill(&origin);
        sandbox.git(&origin, ["add", "--force", "--all"]);
        sandbox.git(&origin, ["commit", "-q", "-m", "x"]);
        let copy = sandbox.path(name);
        sandbox.git(&origin, ["clone", "-q", ".", copy.to_str().unwrap()]);
        (name, copy)
    };
    let (git_jj, git_hg) = (clone("git-jj", &jj_layout), clone("git-hg", &hg_layout));
    let git_none = clone("git-nested", &|root| {
        bait.put(&root.join("vendor/.waypost/local"));
        jj_layout(&root.join("vendor"));
    });
    // An archive with everything.
    let tarball = sandbox.git_repo("tarball");
    bait.put(&tarball.join(".git/waypost"));
    let plain = sandbox.dir("plain");
    bait.put(&plain.join(".waypost/local"));
    let jj = sandbox.dir("jj");
    jj_layout(&jj);
    let hg = sandbox.dir("hg");
    hg_layout(&hg);
    vec![
        git_jj,
        git_hg,
        (git_none.0, git_none.1.join("vendor")),
        ("tarball", tarball),
        ("plain", plain),
        ("jj", jj),
        ("hg", hg),
    ]
}

#[test]
fn no_command_believes_a_private_directory_that_came_with_a_project() {
    let sandbox = sandbox();
    let bait = Bait::new(&sandbox);
    let commands = commands();
    assert!(commands.len() > 150, "the reference lists the commands");
    for (name, dir) in zoo(&sandbox, &bait) {
        for command in &commands {
            let run = run(&sandbox, &dir, command);
            let shown = || format!("{name}: way {}\n{}", command.join(" "), run.whole());
            assert!(!run.whole().contains(&bait.secret), "{}", shown());
            assert!(!bait.canary.exists(), "{}", shown());
            if !NEVER_REFUSED.contains(&command[0].as_str()) {
                assert_eq!(run.code, REFUSED, "{}", shown());
            }
        }
    }
}

#[test]
fn a_private_directory_is_adopted_only_on_request_and_never_if_it_is_tracked() {
    let sandbox = sandbox();
    let bait = Bait::new(&sandbox);
    for (name, dir) in zoo(&sandbox, &bait) {
        let adopted = sandbox.way(&dir, ["init", "--adopt", "--json"]);
        if name.starts_with("git-") {
            let error = adopted.fails(REFUSED).error();
            assert!(error["message"].as_str().unwrap().contains("is tracked by git"), "{name}: {error}");
        } else if name == "tarball" || name == "plain" {
            let workflows = sandbox.way(&dir, ["workflow", "list", "--json"]);
            assert_eq!(workflows.data()[0]["name"], "bait", "{name}: {}", adopted.whole());
        }
    }
}

#[test]
fn a_set_up_command_of_this_clone_needs_trust_in_its_scripts_and_sees_no_secrets() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let script = repo.join("set-up.sh");
    write(&script, "env > \"$HOME/seen\"; touch made\n");
    sandbox.git(&repo, ["add", "--all"]);
    sandbox.git(&repo, ["commit", "-q", "-m", "script"]);
    let _ = sandbox.way(&repo, ["config", "set", "workspaces.setup", "sh ./set-up.sh"]).ok();
    let create = || sandbox.way_with(&repo, &[("SECRET_KEY", "hunter2".as_ref())], ["ws", "new", "--json"]);
    assert!(create().fails(REFUSED).stderr.contains("not trusted"));
    let trusted = sandbox.way(&repo, ["ws", "trust", "--json"]).data();
    assert!(trusted["files"]["set-up.sh"].is_string(), "{trusted}");
    let workspace = create().data();
    assert!(Path::new(workspace["path"].as_str().unwrap()).join("made").exists());
    let seen = fs::read_to_string(sandbox.path("home/seen")).unwrap();
    assert!(seen.contains("HOME=") && !seen.contains("hunter2"), "{seen}");

    write(&script, "touch \"$HOME/canary\"\n");
    sandbox.git(&repo, ["commit", "-q", "-a", "-m", "changed"]);
    let refused = create().fails(REFUSED);
    assert!(refused.stderr.contains("not this content of set-up.sh"), "{}", refused.whole());
    assert!(!sandbox.path("home/canary").exists());
}

#[test]
fn tracked_configuration_leads_out_of_the_repository_only_with_consent() {
    let sandbox = sandbox();
    let (repo, secret) = (sandbox.git_repo("repo"), sandbox.git_repo("secret"));
    let _ = sandbox.way(&secret, ["add", "a secret plan"]).ok();
    let configure = |additional: &str| {
        let text = format!(
            "scope = \"global\"\n[repos]\nadditional = [\"{additional}\", \".\"]\n[routing]\nmode = \"explicit\"\n\
             default = \"../secret\"\n"
        );
        write(repo.join(".waypost/config.toml"), text);
    };
    let titles = || -> Vec<Value> {
        let listed = sandbox.way(&repo, ["list", "--json"]).data();
        listed.as_array().unwrap().iter().map(|issue| issue["title"].clone()).collect()
    };
    let store = || sandbox.way(&repo, ["where", "--json"]).data()["store"]["scope"].clone();

    configure("../secret");
    assert_eq!(titles(), [""; 0]);
    assert_eq!(store(), "repo");
    let refused = sandbox.way(&repo, ["add", "new"]).fails(2);
    assert!(refused.stderr.contains("routing.default=../secret"), "{}", refused.whole());
    assert_eq!(sandbox.way(&secret, ["list", "--json"]).data().as_array().unwrap().len(), 1);

    let accepted = sandbox.way(&repo, ["config", "accept", "--json"]).data();
    assert_eq!(
        accepted["accepted"],
        serde_json::json!(["scope=global", "repos.additional=../secret", "routing.default=../secret"])
    );
    assert_eq!(titles(), ["a secret plan"]);
    assert_eq!(store(), "global");

    let other = sandbox.git_repo("other");
    let _ = sandbox.way(&other, ["add", "another plan"]).ok();
    configure("../other");
    let is_listed = || titles().iter().any(|title| title == "another plan");
    assert!(!is_listed(), "a changed value needs consent again");

    assert_eq!(sandbox.way(&repo, ["config", "set", "--shared", "repos.additional", "../other"]).code, 0);
    assert!(is_listed(), "a value that the user wrote is accepted");
}

#[test]
fn nothing_of_another_user_is_used() {
    let sandbox = sandbox();
    let _ = sandbox.way(&sandbox.git_repo("own"), ["status"]);
    // A directory of all users, as /tmp, in which another user created a repository without version control.
    let open = sandbox.dir("open");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o1777)).unwrap();
    write(open.join(".waypost/config.toml"), "prefix = \"theirs\"\n");
    sandbox.give_away(&open.join(".waypost"));
    let here = sandbox.dir("open/here");
    let refused = sandbox.way(&here, ["list", "--json"]).fails(REFUSED).error();
    assert!(refused["message"].as_str().unwrap().contains("belongs to user"), "{refused}");

    // A Mercurial repository whose history another user has.
    let shared = sandbox.hg_repo("shared");
    sandbox.give_away(&shared);
    let linked = sandbox.dir("linked");
    write(linked.join(".hg/requires"), "shared\n");
    write(linked.join(".hg/sharedpath"), shared.join(".hg").to_str().unwrap());
    let _ = sandbox.way(&linked, ["list"]).fails(REFUSED);

    // A user's directory that others can write, or that others can replace.
    let repo = sandbox.git_repo("repo");
    let shared_home = sandbox.dir("everyone");
    fs::set_permissions(&shared_home, fs::Permissions::from_mode(0o777)).unwrap();
    let home = shared_home.join("home");
    fs::create_dir(&home).unwrap();
    for home in [&shared_home, &home] {
        let run = sandbox.way_with(&repo, &[("WAYPOST_HOME", home.as_os_str())], ["add", "issue"]).fails(REFUSED);
        assert!(run.stderr.contains("other users can write to"), "{}", run.whole());
    }
    assert!(!home.join("keys").exists());

    // A list of tokens that others can write.
    let _ = sandbox.way(&repo, ["token", "create", "--role", "read-only"]);
    let tokens = repo.join(".git/waypost/tokens.json");
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o666)).unwrap();
    let _ = sandbox.way(&repo, ["token", "list"]).fails(REFUSED);
}

#[test]
fn t38_no_command_requests_an_address_that_a_stored_text_names() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/canary", listener.local_addr().unwrap());
    let way = |args: &[&str]| sandbox.way(&repo, args);
    let issue = way(&["add", &url, "--description", &url, "--label", "seen", "--json"]).data();
    let issue = issue["id"].as_str().unwrap();
    let _ = way(&["comment", issue, &url]).ok();
    let _ = way(&["agent", "register", "ann", "--json"]).ok();
    let plan = serde_json::json!({ "summary": url, "tasks": [{ "name": "a", "description": url, "issue": issue }] });
    write(repo.join("plan.json"), plan.to_string());
    let _ = way(&["workflow", "create", "w", "--plan", "plan.json", "--start"]).ok();
    let claimed = way(&["task", "claim", "w/a", "--agent", "ann", "--json"]).data();
    let epoch = claimed["lease"]["epoch"].to_string();
    let _ = way(&["task", "checkpoint", "w/a", "--agent", "ann", "--epoch", &epoch, "--summary", &url]).ok();
    let _ = way(&["msg", "send", "ann", &url, "--agent", "bob"]).ok();
    // The record has the address in fields that only other tools write, too.
    let ledger = repo.join(".waypost/issues.jsonl");
    let mut record: Value = serde_json::from_str(fs::read_to_string(&ledger).unwrap().trim()).unwrap();
    for field in ["external_ref", "source_repo", "design", "notes", "pr_url", "spec_url", "created_by", "owner"] {
        record[field] = Value::from(url.as_str());
    }
    write(&ledger, format!("{record}\n"));
    let shown = way(&["show", issue]).ok().stdout;
    assert!(shown.contains(&url), "{shown}");
    for args in [
        &["context", "w/a"][..],
        &["prime", "--agent", "ann"],
        &["msg", "inbox", "--agent", "ann"],
        &["task", "show", "w/a"],
        &["workflow", "show", "w"],
        &["search", "canary"],
        &["log", issue],
        &["dep", "tree", issue],
        &["export", "--format", "md"],
        &["sync"],
        &["doctor"],
    ] {
        let _ = way(args);
    }
    // A worker would wait for the task.
    let _ = way(&["task", "release", "w/a", "--agent", "ann", "--epoch", &epoch]).ok();
    for command in commands() {
        let _ = run(&sandbox, &repo, &command);
    }
    let contacted = listener.accept();
    assert_eq!(contacted.map(|(_, peer)| peer).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    // A request would have been noticed.
    let _request = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    listener.accept().unwrap();
}

/// Makes a repository with a submodule whose path leads through a link into the git directory, as published exploits do: a
/// vulnerable git writes the hook of the submodule there while it clones, and runs it.
fn exploit(sandbox: &Sandbox, name: &str, path: &str, link: (&str, &str), canary: &Path) -> PathBuf {
    let evil = sandbox.git_repo(format!("{name}-submodule"));
    for hook in ["post-checkout", "y/hooks/post-checkout"] {
        write(evil.join(hook), format!("#!/bin/sh\ntouch {}\n", canary.display()));
        sandbox.git(&evil, ["add", hook]);
        sandbox.git(&evil, ["update-index", "--chmod=+x", hook]);
    }
    sandbox.git(&evil, ["commit", "-qm", "hooks"]);
    let commit = sandbox.git(&evil, ["rev-parse", "HEAD"]).trim().to_owned();
    let repo = sandbox.git_repo(name);
    // Git reads the carriage return of an unquoted value differently than it wrote it.
    let modules = format!("[submodule \"x/y\"]\n\tpath = \"{path}\"\n\turl = {}\n", evil.display());
    write(repo.join(".gitmodules"), modules);
    std::os::unix::fs::symlink(link.1, repo.join(link.0)).unwrap();
    sandbox.git(&repo, ["add", ".gitmodules", link.0]);
    sandbox.git(&repo, ["update-index", "--add", "--cacheinfo", &format!("160000,{commit},{path}")]);
    sandbox.git(&repo, ["commit", "-qm", "exploit"]);
    sandbox.git(&repo, ["config", "submodule.recurse", "true"]);
    repo
}

#[test]
fn t19_published_exploits_of_submodules_run_nothing_in_workspaces_worktrees_and_jobs() {
    let sandbox = sandbox();
    write(
        sandbox.path("home/.gitconfig"),
        "[user]\n\tname = A\n\temail = a@example.org\n[protocol \"file\"]\n\tallow = always\n",
    );
    let canary = sandbox.path("canary");
    for (name, path, link) in [
        ("cve-2024-32002", "A/modules/x", ("a", ".git")),
        ("cve-2025-48384", "sub\r", ("sub", ".git/modules/x/y/hooks")),
    ] {
        let repo = exploit(&sandbox, name, path, link, &canary);
        let way = |args: &[&str]| {
            let mut way = sandbox.way_command(&repo);
            sandbox.run(way.env_remove("WAYPOST_TEST_CLOCK").args(args), "")
        };
        for strategy in ["clone", "worktree"] {
            let made = way(&["ws", "new", "--strategy", strategy, "--json"]).data();
            let dir = PathBuf::from(made["path"].as_str().unwrap());
            assert!(dir.join(link.0).symlink_metadata().is_ok(), "{name}: the files are there");
            let content = fs::read_dir(dir.join(path)).map_or(0, Iterator::count);
            assert_eq!(content, 0, "{name}, {strategy}: the submodule is not cloned");
        }
        let _ = way(&["worktree", "add", "side", "--json"]).data();
        let job = way(&["job", "start", "--json", "--", "git", "status"]).data();
        assert_eq!(job["status"], "completed", "{name}: {job}");
        let _ = way(&["sync"]);
        assert!(!canary.exists(), "{name} ran a program");
        assert!(!repo.join(".git/modules").exists(), "{name} wrote into the git directory");
    }
}

#[test]
fn doctor_warns_about_a_git_without_known_fixes() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let bin = sandbox.dir("bin");
    let doctor = |version: &str| {
        sandbox.program(
            bin.join("git"),
            format!(
                "#!/bin/sh\n[ \"$1\" = version ] && echo git version {version} && exit\nexec /usr/bin/git \"$@\"\n"
            ),
        );
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let answer = sandbox.way_with(&repo, &[("PATH", path.as_ref())], ["doctor", "--json"]);
        let answer: Value = serde_json::from_str(&answer.stdout).unwrap();
        let checks = answer["data"]["checks"].as_array().or(answer["data"].as_array()).unwrap().clone();
        checks.into_iter().find(|check| check["check"] == "git").unwrap()
    };
    let old = doctor("2.39.2");
    assert!(old.to_string().contains("may lack fixes") && old.to_string().contains("upgrade git"), "{old}");
    let new = doctor("2.50.1");
    assert!(new.to_string().contains("2.50.1") && !new.to_string().contains("may lack fixes"), "{new}");
}

/// System calls that open, create, rename or delete a file.
const FILE_CALLS: &str = "trace=open,openat,openat2,creat,mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,link,linkat,\
    symlink,symlinkat,truncate,chmod,fchmodat";

#[test]
fn t14_no_name_leads_a_command_to_a_file_outside() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["add", "One"]).ok();
    write(sandbox.path("outside/secret"), "canary");
    // Arguments of these are paths or programs by design.
    let takes_paths =
        ["import", "repo", "worktree", "where", "init", "ws", "setup", "db", "serve", "worker", "merge-driver"];
    let trace = sandbox.path("trace");
    let mut tried = 0;
    for name in ["../../../outside/secret".to_owned(), sandbox.path("outside/secret").display().to_string()] {
        for command in commands().into_iter().filter(|command| !takes_paths.contains(&command[0].as_str())) {
            let args: Vec<&str> = command.iter().map(|word| if word == "x" { name.as_str() } else { word }).collect();
            if !args.contains(&name.as_str()) {
                continue;
            }
            tried += 1;
            let mut traced = sandbox.command(waypost_testkit::strace(), &repo);
            traced.args(["-f", "-o"]).arg(&trace).args(["-e", FILE_CALLS, env!("CARGO_BIN_EXE_way")]).args(&args);
            let run = Run::of(&traced.env("EDITOR", "true").stdin(Stdio::null()).output().unwrap());
            assert!(run.code < 100, "{args:?}: {run:?}");
            let calls = fs::read_to_string(&trace).unwrap();
            assert!(calls.contains("openat("), "{args:?} is traced");
            let outside: Vec<&str> = calls.lines().filter(|line| line.contains("outside")).collect();
            assert_eq!(outside, Vec::<&str>::new(), "{args:?}: {}", run.stderr);
        }
    }
    assert!(tried > 60, "{tried}");
    assert_eq!(fs::read_to_string(sandbox.path("outside/secret")).unwrap(), "canary");
}
