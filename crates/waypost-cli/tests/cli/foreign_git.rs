//! Git directories whose configuration a stranger or a job wrote: nothing in them makes a program run.
//!
//! Each program is a canary: it leaves its name. Each test first shows that plain git runs the canaries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use waypost_testkit::{Run, Sandbox, strace};

use crate::programs::{known, started};
use crate::support::jobs::Shop;
use crate::support::{sandbox, text};

struct Canaries(PathBuf);

impl Canaries {
    fn new(sandbox: &Sandbox) -> Canaries {
        Canaries(sandbox.dir("canaries"))
    }

    /// A shell command that leaves a name, and passes its input on.
    fn filter(&self, name: &str) -> String {
        format!("sh -c 'touch {}; cat'", self.0.join(name).display())
    }

    /// A shell command that leaves a name.
    fn program(&self, name: &str) -> String {
        format!("touch {}; false", self.0.join(name).display())
    }

    fn ran(&self) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Checks that the tool itself runs some of them, and forgets it.
    #[track_caller]
    fn check_live(&self, expected: &[&str]) {
        let ran = self.ran();
        assert!(expected.iter().all(|name| ran.iter().any(|ran| ran == name)), "{ran:?}");
        for name in ran {
            fs::remove_file(self.0.join(name)).unwrap();
        }
    }

    #[track_caller]
    fn check_none(&self, what: &dyn std::fmt::Debug, run: &Run) {
        assert_eq!(self.ran(), [""; 0], "{what:?}: {}", run.whole());
    }
}

fn append(path: &Path, content: &[u8]) {
    let mut all = fs::read(path).unwrap_or_default();
    all.extend_from_slice(content);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    waypost_fs::replace(path, &all, 0o644).unwrap();
}

/// A filter as a section of git's configuration.
fn filter_section(canaries: &Canaries, name: &[u8]) -> Vec<u8> {
    let (clean, smudge) = (canaries.filter("clean"), canaries.filter("smudge"));
    [b"[filter \"", name, b"\"]\n", format!("\tclean = \"{clean}\"\n\tsmudge = \"{smudge}\"\n").as_bytes()].concat()
}

/// A repository whose tracked attributes ask for a filter.
fn repo_with_filter(sandbox: &Sandbox, name: &[u8]) -> PathBuf {
    let repo = sandbox.git_repo("repo");
    sandbox.write(repo.join(".gitattributes"), [b"* filter=", name, b"\n"].concat());
    sandbox.git(&repo, ["add", "."]);
    sandbox.git(&repo, ["commit", "-q", "-m", "attributes"]);
    repo
}

/// Runs git in a copy of a repository: it adds a worktree, and looks at it.
fn bait(sandbox: &Sandbox, repo: &Path) {
    let copy = sandbox.path("copy");
    assert!(sandbox.command("cp", repo).arg("-a").args([repo, &copy]).status().unwrap().success());
    let tree = sandbox.path("copy-tree");
    let _ = sandbox.command("git", &copy).args(["worktree", "add", "-q", "-b", "bait", text(&tree)]).output();
    sandbox.write(tree.join("file"), "changed\n");
    let _ = sandbox.command("git", &tree).arg("status").output();
}

/// The commands that make and remove worktrees.
#[track_caller]
fn check_worktrees(sandbox: &Sandbox, repo: &Path, canaries: &Canaries) {
    for args in [
        &["worktree", "add", "topic"][..],
        &["worktree", "list"],
        &["ws", "new", "--strategy", "worktree"],
        &["ws", "new", "--strategy", "clone"],
        &["job", "start", "--strategy", "worktree", "--", "true"],
        &["add", "One"],
        &["sync"],
        &["worktree", "rm", "topic"],
    ] {
        let run = sandbox.run(sandbox.way_command(repo).env_remove("WAYPOST_TEST_CLOCK").args(args), "");
        canaries.check_none(&args, &run);
        assert!(run.code == 0 || args[0] == "sync", "{args:?}: {}", run.whole());
    }
}

#[test]
fn a_filter_whose_name_is_no_text_does_not_run() {
    let sandbox = sandbox();
    let canaries = Canaries::new(&sandbox);
    let repo = repo_with_filter(&sandbox, b"\xffx");
    append(&repo.join(".git/config"), &filter_section(&canaries, b"\xffx"));
    bait(&sandbox, &repo);
    canaries.check_live(&["clean", "smudge"]);
    check_worktrees(&sandbox, &repo, &canaries);
}

#[test]
fn an_include_that_holds_only_in_a_new_worktree_has_no_effect() {
    let sandbox = sandbox();
    let canaries = Canaries::new(&sandbox);
    let repo = repo_with_filter(&sandbox, b"y");
    append(&sandbox.path("included"), &filter_section(&canaries, b"y"));
    let path = sandbox.path("included").display().to_string();
    for condition in ["gitdir:**/worktrees/**", "onbranch:topic", "onbranch:waypost/**"] {
        let section = format!("[includeIf \"{condition}\"]\n\tpath = {path}\n");
        append(&repo.join(".git/config"), section.as_bytes());
    }
    bait(&sandbox, &repo);
    canaries.check_live(&["clean", "smudge"]);
    check_worktrees(&sandbox, &repo, &canaries);
}

#[test]
fn a_configuration_of_one_worktree_has_no_effect() {
    let sandbox = sandbox();
    let canaries = Canaries::new(&sandbox);
    let repo = repo_with_filter(&sandbox, b"z");
    sandbox.git(&repo, ["config", "extensions.worktreeConfig", "true"]);
    let monitor = format!("[core]\n\tfsmonitor = \"{}\"\n", canaries.program("fsmonitor"));
    append(&repo.join(".git/config.worktree"), monitor.as_bytes());
    append(&repo.join(".git/config.worktree"), &filter_section(&canaries, b"z"));
    let _ = sandbox.command("git", &repo).args(["add", "--renormalize", "."]).output();
    canaries.check_live(&["clean", "fsmonitor"]);
    check_worktrees(&sandbox, &repo, &canaries);
}

/// What a job leaves in its git directory: each line is part of a shell script, with `C` as the directory of canaries.
const TRAPS: &[&str] = &[
    r"mkdir -p .git/info .git/hooks",
    r"printf '* filter=\377x diff=evil merge=evil\n' > .git/info/attributes",
    r#"printf '[filter "\377x"]\n\tclean = "sh -c \047touch C/clean; cat\047"\n' >> .git/config"#,
    r#"printf '[filter "\377x"]\n\tsmudge = "sh -c \047touch C/smudge; cat\047"\n\trequired\n' >> .git/config"#,
    r#"printf '[core]\n\tfsmonitor = "touch C/fsmonitor; false"\n\tsshCommand = touch C/ssh\n' >> .git/config"#,
    r"printf '[core]\n\talternateRefsCommand = touch C/alternate\n\tpager = touch C/pager\n' >> .git/config",
    r#"printf '[diff]\n\texternal = touch C/diff\n[diff "evil"]\n\ttextconv = touch C/textconv\n' >> .git/config"#,
    r#"printf '[merge "evil"]\n\tdriver = touch C/merge\n[gpg]\n\tprogram = touch C/gpg\n' >> .git/config"#,
    r"printf '[uploadpack]\n\tpackObjectsHook = touch C/pack;\n[gc]\n\trecentObjectsHook = touch C/gc\n' >> .git/config",
    r#"printf '[remote "origin"]\n\tuploadpack = touch C/up;\n\treceivepack = touch C/down;\n' >> .git/config"#,
    r#"printf '[filter "inc"]\n\tclean = "sh -c \047touch C/included; cat\047"\n' > .git/more"#,
    r"printf '[include]\n\tpath = more\n[extensions]\n\tworktreeConfig = true\n' >> .git/config",
    r"printf '[core]\n\thooksPath = .git/hooks\n\tfsmonitor = touch C/worktree\n' > .git/config.worktree",
    r"for h in post-index-change reference-transaction pre-commit pre-push post-checkout; do
        printf '#!/bin/sh\ntouch C/hook\n' > .git/hooks/$h; chmod +x .git/hooks/$h; done",
    r#"printf '[submodule "s"]\n\tpath = s\n\turl = ./s\n\tupdate = !touch C/update\n' > .gitmodules"#,
    r"git init -q other; printf '[core]\n\talternateRefsCommand = touch C/other\n' >> other/.git/config",
    r"rm -rf ../../../../../other; mv other ../../../../../other",
    r"echo $(cd ../../../../../other && pwd)/.git/objects >> .git/objects/info/alternates",
    r"echo changed > file; echo new > new",
];

fn trap(canaries: &Canaries) -> String {
    TRAPS.join("\n").replace("C/", &format!("{}/", canaries.0.display()))
}

#[test]
fn what_a_job_left_in_its_git_directory_has_no_effect_outside() {
    let shop = Shop::new();
    let canaries = Canaries::new(&shop.sandbox);
    let job = shop.job(&[], &format!("set -e\n{}", trap(&canaries)));
    assert_eq!(job["status"], "completed", "{job}");
    let id = job["id"].as_str().unwrap();
    let workspace = Path::new(job["workspace_dir"].as_str().unwrap());
    // The clone is the job's: plain git runs everything.
    let _ = shop.sandbox.command("git", workspace).args(["status"]).output();
    let _ = shop.sandbox.command("git", workspace).args(["stash"]).output();
    let _ = shop.sandbox.command("git", workspace).args(["stash", "pop"]).output();
    canaries.check_live(&["clean", "hook"]);
    for args in [
        &["ws", "show", id][..],
        &["ws", "diff", id],
        &["ws", "du", id],
        &["ws", "snapshot", id],
        &["job", "deliver", id, "--commit", "Two"],
        &["ws", "land", id, "--branch", "landed"],
        &["ws", "push", id, "--branch", "pushed"],
        &["ws", "merged", id],
        &["ws", "update", id],
        &["ws", "gc", "--older-than", "0s"],
        &["status"],
        &["doctor"],
        &["ws", "rm", id, "--force"],
    ] {
        let run = shop.run(args);
        canaries.check_none(&args, &run);
    }
    assert!(!workspace.exists());
}

#[test]
fn a_supervisor_that_cleans_up_runs_nothing_of_its_job() {
    let shop = Shop::new();
    let canaries = Canaries::new(&shop.sandbox);
    let job = shop.job(&["--cleanup"], &format!("set -e\n{}", trap(&canaries)));
    assert_eq!(job["status"], "completed", "{job}");
    assert_eq!(canaries.ran(), [""; 0]);
}

#[test]
fn a_job_that_points_its_worktree_to_another_git_directory_runs_nothing_outside() {
    let shop = Shop::new();
    let canaries = Canaries::new(&shop.sandbox);
    let script = format!(
        "set -e; git init -q inner; mv inner/.git evil; rmdir inner; cp -r evil/. evil.copy; \
        printf '[core]\\n\\tfsmonitor = \"{0}\"\\n\\tworktree = /\\n' >> evil/config; echo 'gitdir: evil' > .git; echo two > file",
        canaries.program("fsmonitor")
    );
    let job = shop.job(&["--strategy", "worktree"], &script);
    let id = job["id"].as_str().unwrap();
    let _ = shop.sandbox.command("git", Path::new(job["workspace_dir"].as_str().unwrap())).arg("status").output();
    canaries.check_live(&["fsmonitor"]);
    for args in [&["ws", "show", id][..], &["ws", "snapshot", id], &["ws", "land", id], &["ws", "rm", id, "--force"]] {
        let run = shop.run(args);
        canaries.check_none(&args, &run);
    }
}

#[test]
fn a_pipe_that_a_configuration_includes_is_never_opened() {
    let shop = Shop::new();
    let job = shop.job(&[], "mkfifo .git/pipe; printf '[include]\\n\\tpath = pipe\\n' >> .git/config; echo two > file");
    let id = job["id"].as_str().unwrap();
    // Nothing writes into the pipe: a git that opens it waits for ever.
    assert!(shop.way(["ws", "diff", id]).ok().stdout.contains("+two"));
    let _ = shop.way(["ws", "snapshot", id]).ok();
    let config = Path::new(job["workspace_dir"].as_str().unwrap()).join(".git/config");
    fs::remove_file(&config).unwrap();
    assert!(Command::new("mkfifo").arg(&config).status().unwrap().success());
    assert!(shop.way(["ws", "diff", id]).fails(7).stderr.contains("not a regular file"));
}

#[test]
fn a_merge_driver_that_only_looks_like_ours_does_not_run() {
    let shop = Shop::new();
    let canary = shop.repo.join("canary");
    // As a path it leads to the program that asks, and as a shell's word it runs another one.
    let word = "$(touch canary)";
    let up = "../".repeat(shop.repo.components().count());
    shop.sandbox.dir(shop.repo.join(word));
    shop.sandbox.write(shop.repo.join(word).join("file"), "tracked\n");
    shop.sandbox.git(&shop.repo, ["add", "."]);
    for (name, program) in
        [("m", word.to_owned()), ("m", format!("{word}/{up}proc/self/exe")), ("waypost", word.to_owned())]
    {
        let driver = format!("{program} merge-driver %O %A %B %P");
        shop.sandbox.git(&shop.repo, ["config", &format!("merge.{name}.driver"), &driver]);
        shop.sandbox.write(shop.repo.join(".git/info/attributes"), format!("file merge={name}\n"));
        let job = shop.job(&["--strategy", "worktree"], &format!("echo '{program}' > file; git commit -qam job"));
        shop.sandbox.write(shop.repo.join("file"), format!("user {name} {program}\n"));
        shop.sandbox.git(&shop.repo, ["commit", "-qam", "user"]);
        shop.sandbox.git(&shop.repo, ["push", "-q", "origin", "HEAD:main"]);
        let theirs = shop.sandbox.git(Path::new(job["workspace_dir"].as_str().unwrap()), ["rev-parse", "HEAD"]);
        let merge = ["merge-tree", "--write-tree", "HEAD", theirs.trim()];
        let _ = shop.sandbox.command("git", &shop.repo).args(merge).output();
        fs::remove_file(&canary).unwrap();
        // A process of its own: the name leads to a program only from the repository.
        let run = Run::of(&shop.command().args(["ws", "merged", job["id"].as_str().unwrap()]).output().unwrap());
        assert!(!canary.exists(), "{driver}: {}", run.whole());
    }
}

#[test]
fn gh_runs_git_without_the_configuration_of_the_repository() {
    let shop = Shop::new();
    let canaries = Canaries::new(&shop.sandbox);
    let bin = shop.sandbox.dir("bin");
    let script = "#!/bin/sh\ngit status >/dev/null\ngit remote -v > \"$HOME/remotes\"\necho https://x.test/pull/7\n";
    shop.sandbox.program(bin.join("gh"), script);
    shop.sandbox.git(&shop.repo, ["config", "core.fsmonitor", &canaries.program("fsmonitor")]);
    let _ = shop.sandbox.command("git", &shop.repo).arg("status").output();
    canaries.check_live(&["fsmonitor"]);
    let job = shop.job(&[], "echo two > file");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let args = ["job", "deliver", job["id"].as_str().unwrap(), "--commit", "Two", "--pr"];
    let run = shop.sandbox.run(shop.command().env("PATH", path).args(args), "");
    canaries.check_none(&args, &run);
    let _ = run.ok();
    let remotes = fs::read_to_string(shop.sandbox.path("home/remotes")).unwrap();
    assert!(remotes.contains(text(&shop.remote)), "{remotes}");
}

#[test]
fn after_a_hostile_job_only_the_programs_of_the_table_are_executed() {
    let shop = Shop::new();
    let canaries = Canaries::new(&shop.sandbox);
    let job = shop.job(&[], &format!("set -e\n{}", trap(&canaries)));
    let id = job["id"].as_str().unwrap();
    for part in [".git/config", ".git/info/attributes", ".gitmodules"] {
        let theirs = Path::new(job["workspace_dir"].as_str().unwrap()).join(part);
        append(&shop.repo.join(part), &fs::read(theirs).unwrap());
    }
    let trace = shop.sandbox.path("trace");
    let mut seen = 0;
    for args in [&["status"][..], &["worktree", "add", "topic"], &["ws", "diff", id], &["ws", "snapshot", id]] {
        let mut traced = shop.sandbox.command(strace(), &shop.repo);
        traced.args(["-f", "-qq", "-e", "trace=execve", "-o"]).arg(&trace).arg(env!("CARGO_BIN_EXE_way")).args(args);
        let run = Run::of(&traced.env_remove("WAYPOST_TEST_CLOCK").stdin(Stdio::null()).output().unwrap());
        let calls = fs::read_to_string(&trace).unwrap();
        for program in started(&calls) {
            assert!(known(&shop.sandbox, &program).is_some(), "{args:?} ran {program:?}: {}", run.whole());
            seen += 1;
        }
        canaries.check_none(&args, &run);
    }
    assert!(seen > 20, "{seen}");
}

#[test]
fn git_directories_of_killed_processes_are_deleted() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let dir = sandbox.dir("tmp");
    let names = || -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    for name in ["waypost-git-1-0/info", "waypost-git-2-0/info", "other"] {
        fs::create_dir_all(dir.join(name)).unwrap();
    }
    // One is in use.
    let used = fs::File::open(dir.join("waypost-git-2-0")).unwrap();
    used.try_lock().unwrap();
    let _ = sandbox.way_process(&repo, &[("TMPDIR", dir.as_os_str())], ["worktree", "add", "topic"]).ok();
    assert_eq!(names(), ["other", "waypost-git-2-0"]);
}

#[test]
fn a_repository_with_an_unknown_extension_is_refused() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    append(&repo.join(".git/config"), b"[core]\n\trepositoryformatversion = 1\n[extensions]\n\tfuture = true\n");
    let run = sandbox.way(&repo, ["worktree", "add", "topic"]);
    assert!(run.fails(7).stderr.contains("unknown extension"));
}

#[test]
fn a_new_worktree_of_a_sparse_checkout_is_sparse() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    for dir in ["one", "two"] {
        sandbox.dir(repo.join(dir));
        sandbox.write(repo.join(dir).join("file"), "x\n");
    }
    sandbox.git(&repo, ["add", "."]);
    sandbox.git(&repo, ["commit", "-q", "-m", "dirs"]);
    sandbox.git(&repo, ["sparse-checkout", "set", "--cone", "one"]);
    let _ = sandbox.way(&repo, ["worktree", "add", "topic", text(&sandbox.path("topic"))]).ok();
    assert!(sandbox.path("topic/one/file").exists() && !sandbox.path("topic/two").exists());
    assert_eq!(sandbox.git(&sandbox.path("topic"), ["status", "--porcelain"]), "");
}

#[test]
fn a_jj_repository_that_configures_a_program_is_refused() {
    let sandbox = sandbox();
    let canaries = Canaries::new(&sandbox);
    let repo = sandbox.jj_repo("repo", false);
    let bait = sandbox.jj_repo("bait", false);
    let config = format!("[ui]\ndiff-formatter = [\"touch\", \"{}\"]\n", canaries.0.join("diff").display());
    for repo in [&repo, &bait] {
        sandbox.write(repo.join(".jj/repo/config.toml"), &config);
        sandbox.write(repo.join("file"), "x\n");
    }
    sandbox.jj(&bait, ["diff"]);
    canaries.check_live(&["diff"]);
    let run = sandbox.way(&repo, ["worktree", "add", "one"]);
    assert!(run.fails(7).stderr.contains("ui.diff-formatter"));
    // A link to such a file elsewhere is none of the user's own.
    fs::rename(repo.join(".jj/repo/config.toml"), repo.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("../../elsewhere", repo.join(".jj/repo/config.toml")).unwrap();
    let _ = sandbox.way(&repo, ["worktree", "add", "one"]).fails(7);
    fs::remove_file(repo.join(".jj/repo/config.toml")).unwrap();
    sandbox.write(repo.join(".jj/repo/config.toml"), "[user]\nname = \"A\"\n");
    // The first command moves it to the user's files.
    for name in ["one", "two"] {
        let _ = sandbox.way(&repo, ["worktree", "add", name]).ok();
    }
    assert_eq!(canaries.ran(), [""; 0]);
}
