//! Hostile repositories that configure programs to be run.
//!
//! Each program is a canary: it leaves its name in a directory. Each test first shows that the tool itself runs it, in a
//! copy of the same repository; a canary that never runs proves nothing.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;

use super::hg::hg_clones;
use super::jj::jj_clones;
use super::*;
use crate::support::sandbox;

struct Canaries(PathBuf);

impl Canaries {
    fn new(sandbox: &Sandbox) -> Self {
        Canaries(sandbox.dir("canaries"))
    }

    /// Makes a program that leaves its name.
    fn program(&self, sandbox: &Sandbox, name: &str, file: &Path) {
        sandbox.program(file, format!("#!/bin/sh\ntouch '{}'\n", self.0.join(name).display()));
    }

    fn names_that_ran(&self) -> BTreeSet<String> {
        std::fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn reset(&self) {
        for name in self.names_that_ran() {
            std::fs::remove_file(self.0.join(name)).unwrap();
        }
    }

    /// Checks that a command other than `way` runs it.
    #[track_caller]
    fn check_runs(&self, name: &str, command: &mut Command) {
        self.reset();
        let output = command.output().unwrap();
        assert!(self.names_that_ran().contains(name), "{name} never runs: {command:?}: {output:?}");
    }
}

/// Git settings that run a program, and the git arguments that trigger them.
const OF_GIT: &[(&str, &[&str])] = &[
    ("core.fsmonitor", &["status"]),
    ("filter.evil.process", &["add", "--renormalize", "."]),
    ("filter.evil.smudge", &["checkout-index", "--force", "--all"]),
    ("filter.evil.clean", &["add", "--renormalize", "."]),
    ("post-index-change", &["add", "--renormalize", "."]),
    ("pre-commit", &["commit", "--allow-empty", "-m", "x"]),
    ("prepare-commit-msg", &["commit", "--allow-empty", "-m", "x"]),
    ("commit-msg", &["commit", "--allow-empty", "-m", "x"]),
    ("gpg.program", &["commit", "--allow-empty", "-m", "x"]),
    ("core.editor", &["commit", "--allow-empty"]),
    ("post-commit", &["commit", "--no-gpg-sign", "--allow-empty", "-m", "x"]),
    ("post-rewrite", &["commit", "--no-gpg-sign", "--allow-empty", "--amend", "-m", "y"]),
    ("reference-transaction", &["update-ref", "refs/heads/x", "HEAD"]),
    ("post-checkout", &["worktree", "add", "--detach", "../bait-tree"]),
    ("sequence.editor", &["-C", "../bait-tree", "rebase", "-i", "HEAD~1"]),
    ("merge.evil.driver", &["merge-tree", "--write-tree", "ours", "theirs"]),
    ("post-merge", &["merge", "--no-gpg-sign", "--no-edit", "--strategy=ours", "theirs"]),
    ("diff.external", &["diff", "ours", "theirs", "--", "plain"]),
    ("diff.evil.command", &["diff", "ours", "theirs", "--", "other"]),
    ("diff.evil.textconv", &["diff", "--no-ext-diff", "ours", "theirs", "--", "other"]),
    ("remote.origin.uploadpack", &["fetch", "origin"]),
    ("core.alternateRefsCommand", &["fetch", "--upload-pack=git-upload-pack", "origin"]),
    ("remote.origin.receivepack", &["push", "--no-signed", "origin", "HEAD:refs/heads/z"]),
    ("pre-push", &["push", "--receive-pack=git-receive-pack", "--no-signed", "origin", "HEAD:refs/heads/z"]),
    ("core.sshCommand", &["fetch", "ssh://localhost:1/x"]),
    ("core.gitProxy", &["fetch", "git://localhost:1/x"]),
];

/// Gives every client the same answer, until the test ends. Returns the address.
fn serve(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut asked = BufReader::new(stream.try_clone().unwrap()).lines();
            // A request ends with an empty line.
            while asked.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

#[test]
fn programs_of_a_git_repository_are_not_run() {
    let sandbox = sandbox();
    let repos = clones(&sandbox, &["one", "two"]);
    let [one, two] = repos.as_slice() else { panic!() };
    let canaries = Canaries::new(&sandbox);
    for (branch, content) in [("ours", "ours\n"), ("theirs", "theirs\n")] {
        sandbox.git(one, ["switch", "-q", "-c", branch, "origin/main"]);
        commit(&sandbox, one, "other", content);
        commit(&sandbox, one, "plain", content);
    }
    sandbox.git(one, ["switch", "-q", "main"]);
    add(&sandbox, one, "From one");
    add(&sandbox, two, "From two");
    sync(&sandbox, two);
    sandbox.write(one.join(".gitattributes"), "* filter=evil diff=evil merge=evil\nplain !diff\n");
    sandbox.write(one.join(".git/objects/info/alternates"), format!("{}/objects\n", text(&sandbox.path("remote.git"))));
    let set = |repo: &Path, key: &str, value: &str| {
        let own = "'core.fsmonitor=false'";
        let mut command = sandbox.command("git", repo);
        assert!(command.args(["config", key, value]).env("GIT_CONFIG_PARAMETERS", own).status().unwrap().success());
    };
    for (key, value) in [
        ("commit.gpgSign", "true"),
        ("push.gpgSign", "true"),
        ("filter.evil.required", "true"),
        ("gc.auto", "1"),
        ("gc.autoPackLimit", "1"),
        ("submodule.recurse", "true"),
        ("protocol.ext.allow", "always"),
        ("push.followTags", "true"),
        ("fetch.prune", "true"),
    ] {
        set(one, key, value);
    }
    let asking = format!(
        "http://{}/x",
        serve("HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n")
    );
    canaries.program(&sandbox, "helper-of-one", &sandbox.path("helper-of-one"));
    set(one, &format!("credential.{asking}.helper"), text(&sandbox.path("helper-of-one")));
    let by_other_means = ["pre-auto-gc", "core.askPass", "core.pager", "pager.fetch", "credential.helper"];
    for name in OF_GIT.iter().map(|(name, _)| *name).chain(by_other_means) {
        if name.contains('.') {
            canaries.program(&sandbox, name, &sandbox.path(name));
            set(one, name, text(&sandbox.path(name)));
        } else {
            canaries.program(&sandbox, name, &one.join(".git/hooks").join(name));
        }
    }

    let bait = sandbox.path("bait");
    let bare = sandbox.path("bait.git");
    for (from, to) in [(one, &bait), (&sandbox.path("remote.git"), &bare)] {
        assert!(sandbox.command("cp", one).arg("-a").args([from, to]).status().unwrap().success());
    }
    set(&bait, "remote.origin.url", text(&bare));
    let git = |args: &[&str]| {
        let mut command = sandbox.command("git", &bait);
        command.args(args);
        command
    };
    for (name, args) in OF_GIT {
        canaries.check_runs(name, &mut git(args));
        if *name == "filter.evil.process" {
            // Git would ask it before the others, and it does not answer.
            assert!(git(&["config", "--unset", name]).status().unwrap().success());
        }
    }
    for name in ["credential.helper", "helper-of-one", "core.askPass"] {
        canaries.check_runs(name, &mut git(&["fetch", &asking]));
    }
    for (name, typed) in [("core.pager", "git log"), ("pager.fetch", "git fetch")] {
        let mut terminal = sandbox.command("script", &bait);
        canaries.check_runs(name, terminal.args(["-qec", typed, "/dev/null"]).env("TERM", "xterm"));
    }
    let packs = "git repack -q; git commit -q --no-gpg-sign --allow-empty -m x; git repack -q; \
                 git -c gc.autoDetach=false gc --auto";
    canaries.check_runs("pre-auto-gc", sandbox.command("sh", &bait).args(["-c", packs]));
    let ext = format!("ext::sh -c touch% {}", text(&canaries.0.join("ext")));
    canaries.check_runs("ext", &mut git(&["fetch", &ext]));
    canaries.program(&sandbox, "vcs", &sandbox.dir("bin").join("git-remote-evil"));
    let path = format!("{}:{}", text(&sandbox.path("bin")), std::env::var("PATH").unwrap());
    canaries.check_runs("vcs", git(&["-c", "remote.origin.vcs=evil", "fetch", "origin"]).env("PATH", &path));

    canaries.reset();
    // Without its filter, the ledger would be stored as it should not be.
    let run = sandbox.way(one, ["sync"]).fails(7);
    assert!(run.stderr.contains("a filter of the repository changes the ledger"), "{}", run.stderr);
    sandbox.write(
        one.join(".gitattributes"),
        "* filter=evil diff=evil merge=evil\nplain !diff\n/.waypost/issues.jsonl !filter\n",
    );
    let done = sync(&sandbox, one);
    assert!(done["pushed"].is_string() && done["merged"] == true, "{done}");
    assert!(ledger(one).contains("From two"));
    for url in [&ext, &asking, "ssh://localhost:1/x", "git://localhost:1/x"] {
        set(one, "remote.origin.url", url);
        let _ = sandbox.way(one, ["sync"]).fails(8);
    }
    set(one, "remote.origin.vcs", "evil");
    let _ = sandbox.way_with(one, &[("PATH", path.as_ref())], ["sync"]).fails(8);
    assert_eq!(canaries.names_that_ran(), BTreeSet::new());
}

#[test]
fn programs_of_a_mercurial_repository_are_not_run() {
    let sandbox = sandbox();
    let repos = hg_clones(&sandbox, &["one", "two"]);
    let [one, two] = repos.as_slice() else { panic!() };
    add(&sandbox, two, "From two");
    sync(&sandbox, two);
    add(&sandbox, one, "From one");
    let canaries = Canaries::new(&sandbox);
    let of_hooks: &[(&str, &[&str])] = &[
        ("pre-log", &["log"]),
        ("pre-cat", &["cat", "file"]),
        ("pre-status", &["status"]),
        ("incoming", &["pull"]),
        ("pre-pull", &["pull"]),
        ("pre-update", &["update", "0"]),
        ("update", &["update", "0"]),
        ("pre-add", &["add", LEDGER]),
        ("pre-commit", &["commit", "-m", "x"]),
        ("precommit", &["commit", "-m", "y", "--config", "ui.allowemptycommit=yes"]),
        ("commit", &["commit", "-m", "z", "--config", "ui.allowemptycommit=yes"]),
        ("outgoing", &["push", "--force"]),
        ("pre-push", &["push", "--force"]),
    ];
    let aliases = ["pull", "push", "commit", "update", "log", "cat", "status", "add"];
    let line = |name: &str, section: &str| {
        let program = sandbox.path(format!("{section}-{name}"));
        canaries.program(&sandbox, &format!("{section}-{name}"), &program);
        format!("{name} = {}{}\n", if section == "alias" { "!" } else { "" }, text(&program))
    };
    let hooks: String = of_hooks.iter().map(|(name, _)| line(name, "hooks")).collect();
    let programs: String = aliases.iter().map(|name| line(name, "alias")).collect();
    let ui = [line("ssh", "ui"), line("editor", "ui")].concat();
    let bait = sandbox.path("bait");
    for (from, to) in [(one, &bait), (&sandbox.path("remote"), &sandbox.path("bait-remote"))] {
        assert!(sandbox.command("cp", one).arg("-a").args([from, to]).status().unwrap().success());
    }
    for (repo, remote) in [(one, "remote"), (&bait, "bait-remote")] {
        let path = format!("[paths]\ndefault = {}\n", text(&sandbox.path(remote)));
        sandbox.write(repo.join(".hg/hgrc"), format!("{path}[hooks]\n{hooks}[alias]\n{programs}[ui]\n{ui}"));
    }
    let hg = |args: &[&str]| {
        let mut command = sandbox.command("hg", &bait);
        command.args(args);
        command
    };
    for (name, args) in of_hooks {
        // Aliases hide commands from their hooks, so they are off then.
        canaries.check_runs(&format!("hooks-{name}"), hg(args).env("HGPLAIN", "1"));
    }
    for name in aliases {
        canaries.check_runs(&format!("alias-{name}"), &mut hg(&[name]));
    }
    canaries.check_runs("ui-ssh", hg(&["pull", "ssh://localhost:1/x"]).env("HGPLAIN", "1"));
    canaries.check_runs("ui-editor", hg(&["commit", "--config", "ui.allowemptycommit=yes"]).env("HGPLAIN", "1"));

    canaries.reset();
    let done = sync(&sandbox, one);
    assert!(done["pushed"].is_string() && done["merged"] == true, "{done}");
    sandbox.write(one.join(".hg/hgrc"), format!("[paths]\ndefault = ssh://localhost:1/x\n[ui]\n{ui}"));
    add(&sandbox, one, "More");
    let _ = sandbox.way(one, ["sync"]).fails(8);
    assert_eq!(canaries.names_that_ran(), BTreeSet::new());
}

#[test]
fn programs_of_a_jj_repository_are_not_run() {
    let sandbox = sandbox();
    let repos = jj_clones(&sandbox, true, &["one", "two"]);
    let [one, two] = repos.as_slice() else { panic!() };
    add(&sandbox, two, "From two");
    sync(&sandbox, two);
    add(&sandbox, one, "From one");
    sandbox.jj(one, ["status"]);
    let canaries = Canaries::new(&sandbox);
    let program = |name: &str| {
        let file = sandbox.path(format!("evil-{name}"));
        canaries.program(&sandbox, name, &file);
        text(&file).to_owned()
    };
    for (key, value) in [
        ("signing.behavior", "own".to_owned()),
        ("signing.backend", "gpg".to_owned()),
        ("signing.backends.gpg.program", program("gpg")),
        ("git.executable-path", program("git")),
        ("ui.editor", program("editor")),
        ("ui.pager", program("pager")),
        ("fsmonitor.backend", "watchman".to_owned()),
    ] {
        sandbox.command(waypost_testkit::jj(), one).args(["config", "set", "--repo", key, &value]).output().unwrap();
    }
    for hook in ["reference-transaction", "pre-push", "post-checkout", "post-index-change"] {
        canaries.program(&sandbox, hook, &one.join(".git/hooks").join(hook));
    }
    for key in ["remote.origin.uploadpack", "remote.origin.receivepack", "core.sshCommand", "core.fsmonitor"] {
        let own = "'core.hooksPath=/dev/null'";
        let mut command = sandbox.command("git", one);
        command.args(["config", key, &program(key)]).env("GIT_CONFIG_PARAMETERS", own).status().unwrap();
    }
    let bait = sandbox.path("bait");
    assert!(sandbox.command("cp", one).args(["-a", text(one), text(&bait)]).status().unwrap().success());
    // The repository names the directory of its jj settings, and a copy names the same one.
    let jj = |args: &[&str]| {
        let mut command = sandbox.command(waypost_testkit::jj(), &bait);
        command.args(["--config=fsmonitor.backend=none"]).args(args);
        command
    };
    for (name, args) in [
        ("gpg", &["describe", "-m", "x"][..]),
        ("git", &["git", "fetch"]),
        ("editor", &["--config=signing.behavior=drop", "describe"]),
        ("remote.origin.uploadpack", &["--config=git.executable-path=git", "git", "fetch"]),
    ] {
        canaries.check_runs(name, &mut jj(args));
    }
    let mut terminal = sandbox.command("script", &bait);
    canaries.check_runs(
        "pager",
        terminal.args(["-qec", "jj --config=fsmonitor.backend=none log", "/dev/null"]).env("TERM", "xterm"),
    );
    canaries.reset();
    assert!(sync(&sandbox, one)["pushed"].is_string());
    assert_eq!(canaries.names_that_ran(), BTreeSet::new());
    assert!(ledger(one).contains("From two"));
}

#[test]
fn a_partial_clone_fetches_missing_objects_without_programs_of_the_repository() {
    let sandbox = sandbox();
    let one = clones(&sandbox, &["one"]).remove(0);
    sandbox.git(&sandbox.path("remote.git"), ["config", "uploadpack.allowFilter", "true"]);
    add(&sandbox, &one, "From one");
    sync(&sandbox, &one);
    commit(&sandbox, &one, "other", "changed\n");
    sandbox.git(&one, ["push", "-q"]);
    let url = format!("file://{}", text(&sandbox.path("remote.git")));
    sandbox.git(&one, ["clone", "-q", "--filter=blob:none", &url, "../partial"]);
    let partial = sandbox.path("partial");
    let canary = sandbox.path("canary");
    sandbox.git(&partial, ["config", "remote.origin.uploadpack", &format!("touch '{}'; false", text(&canary))]);
    // Git itself runs it to fetch missing objects.
    let _ = sandbox.command("git", &partial).args(["cat-file", "blob", "HEAD~1:other"]).output().unwrap();
    assert!(canary.exists());
    std::fs::remove_file(&canary).unwrap();
    add(&sandbox, &one, "And on");
    sync(&sandbox, &one);
    commit(&sandbox, &one, "file", "changed\n");
    sandbox.git(&one, ["push", "-q"]);
    add(&sandbox, &partial, "From the partial one");
    assert!(sync(&sandbox, &partial)["pushed"].is_string());
    sync(&sandbox, &one);
    assert_eq!(ledger(&one), ledger(&partial));
    assert!(!canary.exists());
}
