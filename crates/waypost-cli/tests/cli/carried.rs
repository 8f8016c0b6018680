//! What a project's history, an archive or a job can bring along: version control directories of another tool, private
//! directories, keys, and files that are none.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use waypost_testkit::{Run, Sandbox};

use crate::support::sandbox;

const REFUSED: i32 = 7;

/// Makes a special file.
type Make = fn(&Path);
/// Puts something into a repository.
type Fill<'a> = Box<dyn Fn(&Path) + 'a>;

/// Writes a file and the directories above it.
fn write(path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.as_ref().parent().unwrap()).unwrap();
    waypost_fs::replace(path.as_ref(), content.as_ref(), 0o644).unwrap();
}

fn remove_dir(sandbox: &Sandbox, dir: impl AsRef<Path>) {
    let removed = sandbox.command("rm", &sandbox.path("")).arg("-rf").arg(dir.as_ref()).status().unwrap();
    assert!(removed.success());
}

fn commit(sandbox: &Sandbox, repo: &Path) {
    sandbox.git(repo, ["add", "--force", "--all"]);
    sandbox.git(repo, ["commit", "-q", "-m", "more"]);
}

/// Lays out a jj repository whose commits are in `git`.
fn jj_layout(root: &Path, git: &str) {
    write(root.join(".jj/repo/store/type"), "git");
    write(root.join(".jj/repo/store/git_target"), git);
    write(root.join(".jj/working_copy/type"), "local");
}

fn hg_layout(root: &Path, name: &str) {
    write(root.join(name).join("requires"), "store\n");
    write(root.join(name).join("store/requires"), "");
}

#[track_caller]
fn refused(sandbox: &Sandbox, dir: &Path, what: &str) {
    for command in [&["list"][..], &["add", "x"], &["where"], &["init", "--adopt"]] {
        let run = sandbox.way(dir, command).fails(REFUSED);
        assert!(run.stderr.contains(what), "{}: {command:?} {}", dir.display(), run.whole());
    }
}

#[test]
fn a_version_control_directory_that_git_tracks_is_refused_wherever_it_is() {
    let sandbox = sandbox();
    let elsewhere = sandbox.jj_repo("elsewhere", false);
    let shared = sandbox.dir("shared");
    hg_layout(&shared, ".hg");
    let target = |path: &Path| path.to_str().unwrap().to_owned();
    let (jj_target, hg_target) = (target(&elsewhere.join(".jj/repo")), target(&shared.join(".hg")));
    let cases: [(&str, &str, Fill<'_>); 8] = [
        ("beside", "", Box::new(|root| jj_layout(root, "../../../.git"))),
        ("own-store", "", Box::new(|root| jj_layout(root, "git"))),
        ("pointer", "", Box::new(|root| write(root.join(".jj/repo"), &jj_target))),
        ("nested-jj", "sub", Box::new(|root| jj_layout(&root.join("sub"), "git"))),
        ("nested-pointer", "sub", Box::new(|root| write(root.join("sub/.jj/repo"), &jj_target))),
        ("nested-hg", "sub/deep", Box::new(|root| hg_layout(&root.join("sub"), ".hg"))),
        ("nested-sl", "sub", Box::new(|root| hg_layout(&root.join("sub"), ".sl"))),
        (
            "share",
            "sub",
            Box::new(|root| {
                write(root.join("sub/.hg/sharedpath"), &hg_target);
                fs::create_dir_all(root.join("sub/deep")).unwrap();
            }),
        ),
    ];
    for (name, below, fill) in cases {
        let origin = sandbox.git_repo(format!("origins/{name}"));
        let clone = sandbox.path(name);
        sandbox.git(&origin, ["clone", "-q", ".", clone.to_str().unwrap()]);
        // The victim has used the project for a while.
        let _ = sandbox.way(&clone, ["add", "mine"]).ok();
        fill(&origin);
        commit(&sandbox, &origin);
        sandbox.git(&clone, ["pull", "-q"]);
        fs::create_dir_all(clone.join(below)).unwrap();
        refused(&sandbox, &clone.join(below), "is tracked by git");
        // Not in a worktree either, nor after git wrote its index in another form.
        let tree = sandbox.path(format!("{name}-tree"));
        sandbox.git(&clone, ["worktree", "add", "-q", "--detach", tree.to_str().unwrap()]);
        fs::create_dir_all(tree.join(below)).unwrap();
        refused(&sandbox, &tree.join(below), "is tracked by git");
        for form in [&["update-index", "--index-version", "4"][..], &["update-index", "--split-index"]] {
            sandbox.git(&clone, form);
            refused(&sandbox, &clone.join(below), "is tracked by git");
        }
        // The way on that the error names.
        let tracked = if below.is_empty() { "." } else { "sub" };
        let found = fs::read_dir(clone.join(tracked)).unwrap().map(|entry| entry.unwrap().file_name());
        let found = found.into_iter().find(|name| [".jj", ".hg", ".sl"].iter().any(|known| name == *known)).unwrap();
        let dir = Path::new(tracked).join(found);
        sandbox.git(&clone, ["rm", "-rfq", "--cached", dir.to_str().unwrap()]);
        remove_dir(&sandbox, clone.join(dir));
        let titles = sandbox.way(&clone, ["list", "--json"]).data();
        assert_eq!(titles[0]["title"], "mine", "{name}");
    }
    for place in [&elsewhere, &shared] {
        assert!(!place.join(".waypost").exists(), "{}", place.display());
    }
}

#[test]
fn nothing_that_a_pull_plants_becomes_the_private_directory() {
    let sandbox = sandbox();
    let origin = sandbox.git_repo("origin");
    let clone = sandbox.path("clone");
    sandbox.git(&origin, ["clone", "-q", ".", clone.to_str().unwrap()]);
    let _ = sandbox.way(&clone, ["config", "set", "role", "maintainer"]).ok();
    let _ = sandbox.way(&clone, ["workflow", "create", "mine", "--quiet"]).ok();
    let key = fs::read(clone.join(".git/waypost/key")).unwrap();
    // A job has read the key, and the user merged its commit.
    let canary = sandbox.path("canary");
    let settings = format!("[workspaces]\nsetup = \"touch {}\"\n", canary.display());
    for dir in [".jj/repo/waypost", ".hg/waypost", ".sl/waypost", ".waypost/local", "sub/.waypost/local"] {
        write(origin.join(dir).join("key"), &key);
        write(origin.join(dir).join("config.toml"), &settings);
    }
    commit(&sandbox, &origin);
    sandbox.git(&clone, ["pull", "-q"]);
    for command in
        [&["workflow", "list"][..], &["ws", "new"], &["worker", "--until-empty", "--agent", "a", "--", "true"]]
    {
        let _ = sandbox.way(&clone, command).fails(REFUSED);
    }
    // Without the directories of other tools, the private settings are those of the user.
    for dir in [".jj", ".hg", ".sl"] {
        sandbox.git(&clone, ["rm", "-rfq", dir]);
    }
    for dir in [clone.clone(), clone.join("sub")] {
        assert_eq!(sandbox.way(&dir, ["config", "get", "role"]).ok().stdout.trim(), "maintainer");
        assert!(!sandbox.way(&dir, ["config", "list"]).whole().contains("canary"));
        assert_eq!(sandbox.way(&dir, ["workflow", "list", "--json"]).data()[0]["name"], "mine");
    }
    assert!(!canary.exists());
}

#[test]
fn a_git_directory_that_mercurial_tracks_is_refused() {
    let sandbox = sandbox();
    let origin = sandbox.hg_repo("origin");
    let git = sandbox.git_repo("git");
    for below in ["", "sub"] {
        fs::create_dir_all(origin.join(below)).unwrap();
        let copied = sandbox.command("cp", &git).arg("-a").arg(".git").arg(origin.join(below)).status().unwrap();
        assert!(copied.success());
    }
    jj_layout(&origin.join("other"), "git");
    sandbox.hg(&origin, ["commit", "-q", "-A", "-m", "more"]);
    let clone = sandbox.path("clone");
    sandbox.hg(&origin, ["clone", "-q", ".", clone.to_str().unwrap()]);
    let share = sandbox.path("share");
    sandbox.hg(&clone, ["--config", "extensions.share=", "share", "-q", ".", share.to_str().unwrap()]);
    for root in [&clone, &share] {
        for below in ["", "sub", "other"] {
            refused(&sandbox, &root.join(below), "is tracked by hg");
        }
    }
    // One that Mercurial does not track is the user's.
    let own = sandbox.dir("clone/own");
    sandbox.git(&own, ["init", "-q"]);
    let _ = sandbox.way(&own, ["list", "--quiet"]).ok();
}

#[test]
fn a_mercurial_directory_that_jj_tracks_is_refused() {
    let sandbox = sandbox();
    for colocated in [true, false] {
        let repo = sandbox.jj_repo(format!("repo-{colocated}"), colocated);
        hg_layout(&repo.join("sub"), ".hg");
        hg_layout(&repo.join("other"), ".sl");
        sandbox.jj(&repo, ["file", "track", "sub", "other"]);
        for below in ["sub", "other"] {
            refused(&sandbox, &repo.join(below), "is tracked by");
        }
        let _ = sandbox.way(&repo, ["list", "--quiet"]).ok();
    }
}

fn workflows(sandbox: &Sandbox, dir: &Path) -> Run {
    sandbox.way(dir, ["workflow", "list", "--all", "--json"])
}

#[test]
fn a_repository_that_was_moved_copied_or_restored_waits_for_the_user() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["workflow", "create", "w", "--quiet"]).ok();
    let copy = |from: &Path, to: &Path| {
        let copied = sandbox.command("cp", from).arg("-a").args([".", to.to_str().unwrap()]).status().unwrap();
        assert!(copied.success());
    };
    let adopt = |dir: &Path, from: &Path| {
        let refused = workflows(&sandbox, dir).fails(REFUSED).error();
        let (message, hints) = (refused["message"].as_str().unwrap(), refused["hints"].to_string());
        assert!(message.contains(&format!("its key is that of {}", from.join(".git/waypost").display())), "{refused}");
        assert!(hints.contains("way init --adopt"), "{refused}");
        let _ = sandbox.way(dir, ["init", "--adopt", "--quiet"]).ok();
        assert_eq!(workflows(&sandbox, dir).data()[0]["name"], "w");
    };
    let (moved, copied, backup) = (sandbox.path("moved"), sandbox.path("copied"), sandbox.path("backup"));
    copy(&repo, &backup);
    fs::rename(&repo, &moved).unwrap();
    adopt(&moved, &repo);
    copy(&moved, &copied);
    adopt(&copied, &repo);
    // The one that was moved is still known, and so is a backup in its place, once the user said so.
    assert_eq!(workflows(&sandbox, &moved).data()[0]["name"], "w");
    remove_dir(&sandbox, &moved);
    copy(&backup, &moved);
    adopt(&moved, &repo);
    // In a linked worktree the directory is the same.
    sandbox.git(&moved, ["worktree", "add", "-q", "../tree"]);
    assert_eq!(workflows(&sandbox, &sandbox.path("tree")).data()[0]["name"], "w");
}

#[test]
fn another_home_of_the_user_is_added_and_locks_no_home_out() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["workflow", "create", "w", "--quiet"]).ok();
    let homes = ["one", "two"].map(|home| sandbox.dir(home));
    let in_home = |home: &PathBuf, args: &[&str]| sandbox.way_with(&repo, &[("HOME", home.as_os_str())], args);
    for home in &homes {
        let _ = in_home(home, &["workflow", "list"]).fails(REFUSED);
        let adopted = in_home(home, &["init", "--adopt"]).ok();
        assert!(adopted.stdout.starts_with("Adopted "), "{}", adopted.stdout);
        assert_eq!(sandbox.git(&repo, ["status", "--porcelain", "-uall"]), "", "no file to track was created");
    }
    for home in &homes {
        let _ = in_home(home, &["workflow", "list", "--quiet"]).ok();
    }
    assert_eq!(workflows(&sandbox, &repo).data()[0]["name"], "w");
    // The user's directory is lost: the hint says what to do.
    remove_dir(&sandbox, sandbox.path("home/.waypost"));
    let refused = workflows(&sandbox, &repo).fails(REFUSED).error();
    assert!(refused["hints"].to_string().contains("way init --adopt"), "{refused}");
    let _ = sandbox.way(&repo, ["init", "--adopt"]).ok();
    assert_eq!(workflows(&sandbox, &repo).data()[0]["name"], "w");
}

#[test]
fn f24_the_recipe_for_containers_shares_one_store_on_one_kernel() {
    let sandbox = sandbox();
    if !rustix::process::geteuid().is_root() {
        waypost_testkit::unavailable("only root can mount");
    }
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["workflow", "create", "outside", "--quiet"]).ok();
    // A container sees the repository at another path, and has a home of its own.
    let script = "set -e
        mkdir -p inside home2 && mount --bind repo inside && mount -t tmpfs none repo && cd inside
        export HOME=\"$PWD/../home2\"
        \"$0\" init --adopt
        \"$0\" workflow create inside
        \"$0\" db probe --writes 20 --json
        \"$0\" workflow list --json";
    let mut command = sandbox.command("unshare", &sandbox.path(""));
    command.args(["--mount", "--propagation", "private", "sh", "-c", script, env!("CARGO_BIN_EXE_way")]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let container = command.spawn().unwrap();
    for _ in 0..5 {
        let _ = sandbox.way(&repo, ["db", "probe", "--writes", "4"]).ok();
    }
    let run = Run::of(&container.wait_with_output().unwrap());
    assert!(run.code == 0 && run.stdout.contains("\"name\":\"outside\""), "{}", run.whole());
    let seen = workflows(&sandbox, &repo).data();
    assert_eq!(seen.as_array().unwrap().len(), 2, "{seen}");
    let _ = sandbox.way(&repo, ["db", "check"]).ok();
    assert_eq!(sandbox.git(&repo, ["status", "--porcelain", "-uall"]), "");
    let recipe = include_str!("../../../../docs/recipes/containers.md");
    assert!(recipe.contains("way init --adopt"), "{recipe}");
}

#[test]
fn a_store_in_jjs_directory_is_moved_on_request_once_git_is_beside_it() {
    let sandbox = sandbox();
    let repo = sandbox.jj_repo("repo", false);
    let _ = sandbox.way(&repo, ["workflow", "create", "w", "--quiet"]).ok();
    sandbox.jj(&repo, ["git", "colocation", "enable"]);
    sandbox.write(repo.join("file"), "x");
    sandbox.jj(&repo, ["commit", "-m", "first"]);
    sandbox.git(&repo, ["worktree", "add", "-q", "--detach", "../tree", "HEAD"]);
    let tree = sandbox.path("tree");
    for dir in [&repo, &tree] {
        for command in [&["workflow", "list"][..], &["workflow", "create", "new"], &["add", "x"]] {
            let refused = sandbox.way(dir, command).fails(REFUSED);
            assert!(refused.stderr.contains("the state of this repository is in"), "{}", refused.whole());
        }
    }
    let _ = sandbox.way(&tree, ["init", "--adopt", "--quiet"]).ok();
    for dir in [&repo, &tree] {
        assert_eq!(workflows(&sandbox, dir).data()[0]["name"], "w");
    }
    assert!(!repo.join(".jj/repo/waypost").exists() && repo.join(".git/waypost/state.db").exists());
}

#[test]
fn an_overlay_knows_its_private_directory_after_it_is_mounted_again() {
    let sandbox = sandbox();
    if !rustix::process::geteuid().is_root() {
        waypost_testkit::unavailable("only root can mount");
    }
    let repo = sandbox.git_repo("lower");
    let _ = sandbox.way(&repo, ["status"]).ok();
    // Directories in file systems of their own: the kernel then makes up the numbers of inodes.
    let script = "set -e
        mkdir upper other merged
        mount -t tmpfs none upper; mount -t tmpfs none other; mkdir upper/u upper/w other/lower
        cp -a lower/. other/lower; rm -rf other/lower/.git/waypost
        over() { mount -t overlay none -o lowerdir=other/lower,upperdir=upper/u,workdir=upper/w,xino=off merged; }
        over
        (cd merged && \"$0\" workflow create w >/dev/null)
        for round in 1 2; do
            umount merged; mount -t overlay other -o lowerdir=other/lower:lower,xino=off merged; umount merged
            echo 3 > /proc/sys/vm/drop_caches 2>/dev/null || true
            over; (cd merged && ls -lRi >/dev/null && \"$0\" workflow list --json)
        done
        # A copy of the key elsewhere in the overlay proves nothing.
        cp -a merged merged2; cd merged2; \"$0\" workflow list && exit 9
        echo refused";
    let mut command = sandbox.command("unshare", &sandbox.path(""));
    command.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_way")]);
    let run = Run::of(&command.output().unwrap());
    assert_eq!(run.code, 0, "{}", run.whole());
    assert_eq!(run.stdout.matches("\"name\":\"w\"").count(), 2, "{}", run.whole());
    assert!(run.stdout.ends_with("refused\n"), "{}", run.whole());
}

#[test]
fn files_that_never_end_or_never_answer_stop_no_command() {
    let sandbox = sandbox();
    let special: [(&str, Make); 3] = [
        ("endless", |path| symlink("/dev/zero", path).unwrap()),
        ("pipe", |path| mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap()),
        ("sparse", |path| fs::File::create(path).unwrap().set_len(1 << 40).unwrap()),
    ];
    let cases = [
        ("git", ".waypost/config.toml"),
        ("git", ".beads/config.yaml"),
        ("git", ".gitattributes"),
        ("git", ".git/config"),
        ("git", ".git/HEAD"),
        ("git", ".git/commondir"),
        ("git", ".git/info/attributes"),
        ("git", ".git/info/exclude"),
        ("git", ".git/waypost/key"),
        ("git", ".git/waypost/repository-id"),
        ("git", ".git/waypost/config.toml"),
        ("jj", ".jj/repo"),
        ("jj", ".jj/repo/store/git_target"),
        ("jj", ".jj/repo/config.toml"),
        ("jj", ".jj/working_copy/checkout"),
        ("hg", ".hg/sharedpath"),
        ("hg", ".hg/hgrc"),
        ("hg", ".hg/dirstate"),
        ("hg", ".hg/branch"),
        ("hg", ".sl/config"),
        ("hg", ".sl/sharedpath"),
    ];
    for (number, (kind, file)) in cases.iter().enumerate() {
        for (name, make) in &special {
            let root = sandbox.git_repo(format!("{number}-{name}"));
            write(root.join(".beads/issues.jsonl"), "");
            match *kind {
                "jj" => jj_layout(&root, "../../../.git"),
                "hg" => {
                    remove_dir(&sandbox, root.join(".git"));
                    hg_layout(&root, file.split('/').next().unwrap());
                }
                _ => fs::create_dir_all(root.join(".git/waypost")).unwrap(),
            }
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            remove_dir(&sandbox, &path);
            make(&path);
            for command in [&["list"][..], &["where"], &["add", "x"]] {
                let mut way = sandbox.command("timeout", &root);
                // A command that grows is ended too.
                way.args(["20", "prlimit", "--data=1000000000", env!("CARGO_BIN_EXE_way")]).args(command);
                let run = Run::of(&way.output().unwrap());
                assert!(run.code < 20, "{name} {file} {command:?}: {}", run.whole());
            }
        }
    }
}

#[test]
fn a_worktree_elsewhere_that_a_configuration_names_is_refused() {
    let sandbox = sandbox();
    let (repo, victim) = (sandbox.git_repo("repo"), sandbox.git_repo("victim"));
    let sub = sandbox.dir(repo.join("sub"));
    let named = |tree: &str| {
        let config = repo.join(".git/config");
        sandbox.git(&sandbox.path(""), ["config", "--file", config.to_str().unwrap(), "core.worktree", tree]);
    };
    for tree in [victim.to_str().unwrap(), "../../victim", ".", "../sub/.."] {
        named(tree);
        for dir in [&repo, &sub] {
            if tree == "../sub/.." {
                let _ = sandbox.way(dir, ["where"]).ok();
            } else {
                refused(&sandbox, dir, "core.worktree");
            }
        }
    }
    assert!(!victim.join(".waypost").exists() && !victim.join(".git/waypost").exists());
}
