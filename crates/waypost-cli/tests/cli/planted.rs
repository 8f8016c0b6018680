//! What a job in a sandbox plants in its workspace and its git directory: links, pipes, other repositories. Whatever `way` does
//! there later, by itself or for a person, changes no file that the job could not change, and waits for nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use waypost_testkit::{Run, pass, until};

use crate::support::jobs::{Shop, path};

const REFUSED: i32 = 7;
/// Longer than a command takes on a busy machine, and shorter than git waits for a pipe.
const LIMIT: Duration = Duration::from_mins(1);

/// Where a plant grows: the words are strategies; all if there are none.
type Plant = (&'static str, &'static [&'static str], &'static str);

/// Those that let a former program write outside of the sandbox. `$G` is the git directory of the workspace, `$F` a file of the
/// user, `$V` another repository.
const WORST: &[Plant] = &[
    ("a link as the message of a commit", &[], "ln -sf $F $G/COMMIT_EDITMSG"),
    ("a link as a reflog", &[], "mkdir -p $G/logs; ln -sf $F $G/logs/HEAD"),
    ("a link as the index", &[], "ln -sf $F.new $G/index"),
    (
        "links with the names of temporary files",
        &[],
        "printf '\\ntouch pwned\\n' > $G/index; pid=$PPID; while [ $pid -gt 1 ]; do for n in 0 1 2 3 4 5 6 7 8; do \
         ln -s $F $G/waypost-$pid-$n.index; done; pid=$(cut -d' ' -f4 /proc/$pid/stat); done",
    ),
    ("another git directory", &[], "mv .git g || true; echo gitdir: $V/.git > .git"),
];

/// Variants, and what makes git wait.
const FURTHER: &[Plant] = &[
    ("a link as the git directory", &[], "mv .git g; ln -s $V/.git .git"),
    ("a link as the head", &[], "ln -sf $V/.git/HEAD $G/HEAD"),
    (
        "a link as the branches",
        &["clone", "overlay"],
        "rm -rf .git/refs/heads; ln -s $V/.git/refs/heads .git/refs/heads",
    ),
    ("a link as the objects", &["clone", "overlay"], "mv .git/objects o; ln -s $V/.git/objects .git/objects"),
    ("objects of another repository", &["clone", "overlay"], "echo $V/.git/objects >> .git/objects/info/alternates"),
    ("another shared directory", &[], "echo $V/.git > $G/commondir"),
    ("a worktree elsewhere", &["worktree"], "echo $V/.git > $G/gitdir"),
    (
        "a worktree that is another repository",
        &["clone", "overlay"],
        "mkdir -p .git/worktrees/x; echo $V/.git > .git/worktrees/x/gitdir; echo ../.. > .git/worktrees/x/commondir; \
         cp .git/HEAD .git/worktrees/x/HEAD",
    ),
    ("links as directories of reflogs", &[], "rm -rf $G/logs; ln -s $HOME $G/logs"),
    ("a link as the former head", &[], "ln -sf $F $G/ORIG_HEAD"),
    ("hard links", &[], "ln $F hard; ln -f $F $G/COMMIT_EDITMSG; ln -f $V/.git/HEAD $G/ORIG_HEAD; true"),
    (
        "a name of the user",
        &[],
        "printf '[user]\\n\\tname = \"x $(touch pwned) x\"\\n' >> $G/config.worktree; cat $G/config.worktree >> .git/config",
    ),
    (
        "submodules in a circle",
        &["clone", "overlay"],
        "mkdir -p .git/modules; ln -s . .git/modules/a; ln -s . .git/modules/b",
    ),
    ("a pipe as the index", &[], "rm -f $G/index; mkfifo $G/index"),
    ("a pipe as packed refs", &["clone", "overlay"], "rm -f .git/packed-refs; mkfifo .git/packed-refs"),
    ("packed refs without end", &["clone", "overlay"], "ln -sf /dev/zero .git/packed-refs"),
    ("a pipe with attributes", &[], "rm -f .gitattributes; mkfifo .gitattributes"),
    ("a pipe with patterns", &[], "mkdir -p d; mkfifo d/.gitignore"),
    (
        "a pipe with excluded files",
        &["clone", "overlay"],
        "rm -f .git/info/exclude; mkdir -p .git/info; mkfifo .git/info/exclude",
    ),
    (
        "a pipe and a device as reflogs",
        &["clone", "overlay"],
        "mkdir -p .git/logs; mkfifo .git/logs/y; ln -s /dev/zero .git/logs/x",
    ),
];

/// A shop with a file of the user and another repository, which no job may write.
fn shop() -> Shop {
    let shop = Shop::new();
    shop.sandbox.write(shop.sandbox.path("home/.bashrc"), "# mine\n");
    let victim = shop.sandbox.git_repo("victim");
    shop.sandbox.write(victim.join("file"), "theirs\n");
    shop.sandbox.git(&victim, ["add", "."]);
    shop.sandbox.git(&victim, ["commit", "--quiet", "-m", "Theirs"]);
    shop
}

/// Every file that neither a job nor `way` changes, with its content.
fn outside(shop: &Shop) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![shop.sandbox.path("home"), shop.sandbox.path("victim")];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.symlink_metadata().unwrap() {
                _ if path.ends_with(".waypost") => {}
                kind if kind.is_dir() => left.push(path),
                _ => drop(found.insert(path.clone(), fs::read(&path).unwrap_or_default())),
            }
        }
    }
    found
}

fn script(shop: &Shop, plant: &str) -> String {
    format!(
        "F={} V={} G=$(git rev-parse --absolute-git-dir); echo work > new; {plant}; \
         {} task done $WAYPOST_TASK --agent ann --epoch $WAYPOST_EPOCH --outcome ok",
        shop.sandbox.path("home/.bashrc").display(),
        shop.sandbox.path("victim").display(),
        env!("CARGO_BIN_EXE_way"),
    )
}

/// Runs a command. It must end.
#[track_caller]
fn bounded(shop: &Shop, what: &str, args: &[&str]) -> Run {
    let mut command = shop.command();
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!("{what}: way {args:?} waits for something that the job planted");
        }
        pass(Duration::from_millis(5));
    }
    Run::of(&child.wait_with_output().unwrap())
}

/// Lets a job plant something and finish its task, and then does with its workspace what a person may do.
#[track_caller]
fn plant(shop: &Shop, number: usize, (name, _, plant): &Plant, mode: &str, strategy: &str) -> Value {
    let what = format!("{name}, {mode}, {strategy}");
    let before = outside(shop);
    let task = format!("t{number}");
    let flags = [mode, "--strategy", strategy, "--task", &task, "--agent", "ann"];
    let job = shop.job(&flags, &script(shop, plant));
    assert_eq!(outside(shop), before, "{what}: {job}");
    let id = job["id"].as_str().unwrap();
    shop.sandbox.write(shop.repo.join("file"), format!("{what}\n"));
    shop.sandbox.git(&shop.repo, ["commit", "--quiet", "--all", "-m", "More"]);
    let commands = [
        &["ws", "diff", id][..],
        &["ws", "update", id],
        &["job", "deliver", id, "--commit", "All"],
        &["ws", "show", id],
        &["ws", "snapshot", id],
        &["ws", "push", id, "--branch", &task],
    ];
    // Those that come last are for the worst: each takes a while.
    let count = if number < WORST.len() { commands.len() } else { 3 };
    for args in commands[..count].iter().copied().chain([&["ws", "rm", id, "--force"][..]]) {
        let run = bounded(shop, &what, args);
        assert!(!run.whole().contains("panicked"), "{what}: {args:?}: {}", run.whole());
        assert_eq!(outside(shop), before, "{what}: {args:?}: {}", run.whole());
    }
    job
}

/// Plants everything that grows with a strategy.
fn plant_all(mode: &str, strategy: &str, further: impl Fn(usize) -> bool) {
    let shop = shop();
    let grows = |(_, strategies, _): &&Plant| strategies.is_empty() || strategies.contains(&strategy);
    let further = FURTHER.iter().enumerate().filter(|(number, _)| further(*number)).map(|(_, plant)| plant);
    let plants: Vec<&Plant> = WORST.iter().chain(further).filter(grows).collect();
    let tasks: Vec<Value> = (0..plants.len()).map(|number| json!({ "name": format!("t{number}") })).collect();
    shop.workflow(&json!({ "tasks": tasks }));
    for (number, one) in plants.into_iter().enumerate() {
        plant(&shop, number, one, mode, strategy);
    }
}

#[test]
fn nothing_that_a_job_plants_in_its_clone_leads_out_of_landlock() {
    plant_all("--sandbox=landlock", "clone", |_| true);
}

#[test]
fn nothing_that_a_job_plants_in_its_clone_leads_out_of_bubblewrap() {
    plant_all("--sandbox=bubblewrap", "clone", |number| number % 3 == 0);
}

#[test]
fn nothing_that_a_job_plants_in_its_worktree_leads_out_of_landlock() {
    plant_all("--sandbox=landlock", "worktree", |_| true);
}

#[test]
fn nothing_that_a_job_plants_in_its_worktree_leads_out_of_bubblewrap() {
    plant_all("--sandbox=bubblewrap", "worktree", |number| number % 3 == 1);
}

#[test]
fn nothing_that_a_job_plants_in_its_overlay_leads_out_of_landlock() {
    plant_all("--sandbox=landlock", "overlay", |number| number % 3 == 2);
}

#[test]
fn nothing_that_a_job_plants_in_its_overlay_leads_out_of_bubblewrap() {
    plant_all("--sandbox=bubblewrap", "overlay", |number| number % 3 == 1);
}

#[test]
fn a_job_that_swaps_files_for_links_while_way_works_there_changes_nothing_outside() {
    let shop = shop();
    let before = outside(&shop);
    for (mode, strategy) in
        [("--sandbox=landlock", "clone"), ("--sandbox=landlock", "worktree"), ("--sandbox=bubblewrap", "clone")]
    {
        let script = format!(
            "F={} V={} G=$(git rev-parse --absolute-git-dir); echo two > file; cp $G/index index; cp -r $G/logs logs; cp .git mark; \
             touch ready; while :; do for name in index COMMIT_EDITMSG ORIG_HEAD logs/HEAD; do \
             ln -sf $F $G/link; mv -Tf $G/link $G/$name; done; cp index $G/i; mv -f $G/i $G/index; rm -f $G/ORIG_HEAD $G/COMMIT_EDITMSG; \
             cp logs/HEAD $G/l; mv -f $G/l $G/logs/HEAD; done",
            shop.sandbox.path("home/.bashrc").display(),
            shop.sandbox.path("victim").display(),
        );
        let job = shop.started(&[mode, "--strategy", strategy], &script);
        let id = job["id"].as_str().unwrap().to_owned();
        until("the job is ready", || {
            let dir = shop.show(&job)["workspace_dir"].as_str().map(PathBuf::from);
            dir.is_some_and(|dir| dir.join("ready").exists())
        });
        for _ in 0..6 {
            shop.sandbox.git(&shop.repo, ["commit", "--quiet", "--allow-empty", "-m", "More"]);
            for args in [
                &["ws", "update", &id][..],
                &["ws", "diff", &id],
                &["ws", "snapshot", &id],
                &["job", "deliver", &id, "--commit", "All"],
            ] {
                let run = bounded(&shop, mode, args);
                assert_eq!(outside(&shop), before, "{mode} {strategy} {args:?}: {}", run.whole());
            }
        }
        let _ = shop.way(["job", "cancel", &id]);
    }
}

#[test]
fn a_second_job_in_a_workspace_cannot_write_where_the_first_pointed_its_worktree() {
    let shop = shop();
    for mode in ["--sandbox=landlock", "--sandbox=bubblewrap"] {
        let point = format!("printf 'gitdir: {}\\n' > .git", shop.sandbox.path("home").display());
        let first = shop.job(&[mode, "--strategy", "worktree"], &point);
        assert_eq!(first["status"], "completed", "{first}");
        let before = outside(&shop);
        let workspace = first["workspace_id"].as_str().unwrap_or_else(|| panic!("{first}"));
        let second = shop.job(&[mode, "--workspace", workspace], "echo evil >> ~/.bashrc; echo evil > ~/new");
        assert_eq!(outside(&shop), before, "{mode}: {second}");
    }
}

#[test]
fn a_worktree_whose_git_directory_a_job_changed_is_refused_by_its_name() {
    let shop = shop();
    let victim = shop.sandbox.path("victim");
    let job = shop.job(
        &["--sandbox=landlock", "--strategy", "worktree"],
        &format!("echo gitdir: {}/.git > .git", victim.display()),
    );
    let mark = path(&job["workspace_dir"]).join(".git");
    let error = shop.way(["ws", "show", job["id"].as_str().unwrap()]).fails(REFUSED).stderr;
    assert!(error.contains(&mark.display().to_string()) && error.contains("gitdir: "), "{error}");
    let line = error.lines().find_map(|line| line.split_once("put the line back: ")).unwrap().1.to_owned();
    shop.sandbox.write(&mark, format!("{line}\n"));
    let _ = shop.way(["ws", "show", job["id"].as_str().unwrap()]).ok();
}

#[test]
fn work_of_a_job_in_a_sandbox_is_examined_saved_updated_pushed_and_landed() {
    for (mode, strategy) in [
        ("--sandbox=landlock", "clone"),
        ("--sandbox=bubblewrap", "clone"),
        ("--sandbox=landlock", "worktree"),
        ("--sandbox=bubblewrap", "worktree"),
        ("--sandbox=landlock", "overlay"),
    ] {
        let shop = shop();
        let job = shop.job(&[mode, "--strategy", strategy], "echo two > new");
        let id = job["id"].as_str().unwrap();
        shop.sandbox.git(&shop.repo, ["commit", "--quiet", "--allow-empty", "-m", "More"]);
        let _ = shop.way(["ws", "update", id]).ok();
        assert!(
            shop.way(["ws", "show", id]).ok().stdout.contains("1 file not under version control"),
            "{mode} {strategy}"
        );
        if strategy != "worktree" {
            assert!(shop.way(["ws", "diff", id]).ok().stdout.contains("+two"), "{mode} {strategy}");
            let saved = shop.way(["ws", "snapshot", id, "--json"]).data();
            let saved = saved["id"].as_str().unwrap_or_else(|| panic!("{saved}"));
            shop.sandbox.write(path(&job["workspace_dir"]).join("new"), "three\n");
            let _ = shop.way(["ws", "restore", saved, "--into", id]).ok();
        }
        let _ = shop.way(["job", "deliver", id, "--commit", "Two", "--branch", "delivered"]).ok();
        assert_eq!(shop.sandbox.git(&shop.remote, ["show", "delivered:new"]), "two\n", "{mode} {strategy}");
        let _ = shop.way(["ws", "land", id, "--branch", "landed"]).ok();
        assert_eq!(shop.sandbox.git(&shop.repo, ["show", "landed:new"]), "two\n", "{mode} {strategy}");
        let _ = shop.way(["ws", "rm", id]).ok();
        assert!(!path(&job["workspace_dir"]).exists());
    }
}

#[test]
fn a_record_of_a_sandbox_in_a_workspace_restricts_nothing_less() {
    let shop = shop();
    let before = outside(&shop);
    let forged = json!({ "root": "/", "git_dir": null, "common_dir": null, "mode": "landlock", "rules": [{ "path": "/", "access": "write" }] });
    let script = format!(
        "echo '{forged}' > waypost-sandbox.json; mkdir sub; cd sub; git init -q; ln -s {} .git/index",
        Path::new("/nowhere").display()
    );
    let job = shop.job(&["--sandbox=landlock"], &script);
    let nested = path(&job["workspace_dir"]).join("sub");
    let run = shop.sandbox.run(shop.sandbox.way_command(&nested).args(["status"]), "");
    assert_eq!(outside(&shop), before, "{}", run.whole());
    let error = shop.way(["ws", "show", job["id"].as_str().unwrap()]).fails(REFUSED).stderr;
    assert!(error.contains("both describe a sandbox"), "{error}");
}

/// What leads a program elsewhere, in all that a worktree shares with its repository. `$C` is the shared git directory.
const SHARED_LINKS: &str = "
    mkdir -p d $C/refs/heads/e $C/logs/refs/heads $C/objects/info $C/objects/pack $C/lfs
    ln -s $F d/link; mkfifo d/pipe; ln -s $F moved; ln -s $F other
    for dir in $C/refs/heads $C/refs/heads/e $C/logs $C/logs/refs/heads $C/objects $C/objects/info $C/objects/pack $C/lfs $G $G/logs; do
        ln -s $F $dir/link; ln -s $HOME $dir/dir; mkfifo $dir/pipe; mknod $dir/zero c 1 5
        cp -a moved $dir/copied; ln -P other $dir/hard; cp -r d $dir/tree
        perl -e 'rename $_, \"$ARGV[0]/$_\" foreach \"moved\", \"d\"' $dir
    done
    for file in $C/logs/HEAD $C/logs/refs/heads/main $C/objects/info/commit-graph $C/objects/info/packs $G/logs/HEAD $G/HEAD.lock \
        $G/index.lock $G/COMMIT_EDITMSG; do ln -sf $F $file; done
    perl -MSocket -e 'socket S, PF_UNIX, SOCK_STREAM, 0; bind S, sockaddr_un($ARGV[0])' $C/refs/heads/socket
";

/// Every file below a directory that is neither a file nor a directory.
fn strange(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.symlink_metadata().unwrap().file_type() {
            kind if kind.is_dir() => found.extend(strange(&path)),
            kind if kind.is_file() => {}
            _ => found.push(path),
        }
    }
    found.sort();
    found
}

#[test]
fn a_job_in_a_worktree_puts_nothing_but_files_into_what_it_shares_with_its_repository() {
    for mode in ["--sandbox=landlock", "--sandbox=bubblewrap"] {
        let shop = shop();
        let script = format!(
            "F={}; G=$(git rev-parse --absolute-git-dir); C=$(cd $(git rev-parse --git-common-dir); pwd); {SHARED_LINKS}
             set -e; git add file; git commit -q --allow-empty -m Work;
             git tag own; git checkout -q -b next; git commit -q --allow-empty -m Next; git reflog -1 next; touch committed",
            shop.sandbox.path("home/.bashrc").display(),
        );
        let before = outside(&shop);
        let job = shop.job(&[mode, "--strategy", "worktree"], &script);
        assert_eq!(strange(&shop.repo.join(".git")), Vec::<PathBuf>::new(), "{mode}");
        assert!(path(&job["workspace_dir"]).join("committed").exists(), "{mode}: git works there: {job}");
        // What writes refs, reflogs and objects, by the user and outside of any sandbox.
        for args in [
            &["commit", "--quiet", "--allow-empty", "-m", "More"][..],
            &["branch", "e/two"],
            &["reflog", "expire", "--all", "--expire=now"],
            &["gc", "--quiet"],
            &["commit-graph", "write"],
        ] {
            shop.sandbox.git(&shop.repo, args);
        }
        assert_eq!(outside(&shop), before, "{mode}");
    }
}

#[test]
fn a_job_in_a_jj_workspace_cannot_change_the_settings_and_hooks_of_the_repository() {
    for (colocated, git) in [(true, ".git"), (false, ".jj/repo/store/git")] {
        let mut shop = shop();
        shop.repo = shop.sandbox.jj_repo("other", colocated);
        let git = shop.repo.join(git);
        let settings = fs::read(git.join("config")).unwrap();
        let script = format!(
            "S={}; F={}; echo '[x] y = z' >> {git}/config; mkdir -p {git}/hooks; echo touch pwned > {git}/hooks/reference-transaction
             for dir in $S/op_store/operations $S/op_heads/heads $S/store/extra {git}/refs {git}/objects; do
             ln -s $F $dir/link; mkfifo $dir/pipe; done
             set -e; echo new > new; {jj} describe -m Work; touch described",
            shop.repo.join(".jj/repo").display(),
            shop.sandbox.path("home/.bashrc").display(),
            git = git.display(),
            jj = waypost_testkit::jj().display(),
        );
        let job = shop.job(&["--sandbox=landlock", "--strategy", "jj"], &script);
        assert_eq!(strange(&shop.repo.join(".jj")), Vec::<PathBuf>::new(), "{job}");
        assert_eq!(fs::read(git.join("config")).unwrap(), settings);
        assert!(!git.join("hooks/reference-transaction").exists());
        assert!(path(&job["workspace_dir"]).join("described").exists(), "jj works there: {job}");
    }
}

#[test]
fn a_job_in_a_share_of_mercurial_puts_nothing_but_files_into_the_store_of_its_repository() {
    let mut shop = shop();
    shop.repo = shop.sandbox.hg_repo("other");
    let store = shop.repo.join(".hg/store");
    let script = format!(
        "ln -sf {} {store}/00changelog.i; ln -s / {store}/data/link; mkfifo {store}/phaseroots
         set -e; echo two > file; hg commit -m Two -u x; touch committed",
        shop.sandbox.path("home/.bashrc").display(),
        store = store.display(),
    );
    let before = outside(&shop);
    let job = shop.job(&["--sandbox=landlock", "--strategy", "worktree"], &script);
    assert_eq!(strange(&store), Vec::<PathBuf>::new(), "{job}");
    assert!(path(&job["workspace_dir"]).join("committed").exists(), "hg works there: {job}");
    shop.sandbox.write(shop.repo.join("file"), "three\n");
    shop.sandbox.hg(&shop.repo, ["commit", "-q", "-m", "Three"]);
    assert_eq!(outside(&shop), before);
}

#[test]
fn the_context_of_a_second_job_is_written_over_links_and_not_through_them() {
    let shop = shop();
    let before = outside(&shop);
    let plant = format!(
        "cd $WAYPOST_CONTEXT_DIR; for name in input.json job.json context.md context.json; do ln -sf {} $name; done; \
         rm -rf notes; ln -s {}/made notes; mkfifo .job.json.1-1.tmp; ln -s {}/sub sub",
        shop.sandbox.path("home/.bashrc").display(),
        shop.sandbox.path("home").display(),
        shop.sandbox.path("home").display(),
    );
    let first = shop.job(&["--sandbox=landlock"], &plant);
    assert_eq!(first["status"], "completed", "{first}");
    let workspace = first["workspace_id"].as_str().unwrap();
    let second = shop.job(
        &["--sandbox=landlock", "--workspace", workspace, "--input", "{\"a\": \"b\"}"],
        "cat $WAYPOST_CONTEXT_DIR/input.json > input; test -d $WAYPOST_CONTEXT_DIR/notes",
    );
    assert_eq!(outside(&shop), before, "{second}");
    assert!(!shop.sandbox.path("home/made").exists(), "{second}");
    assert_eq!(second["status"], "completed", "{second}");
    let input = fs::read_to_string(path(&second["workspace_dir"]).join("input")).unwrap();
    assert!(input.contains("\"b\""), "{input}");
    let _ = shop.way(["ws", "rm", workspace, "--force"]).ok();
    assert_eq!(outside(&shop), before);
}

#[test]
fn a_copy_is_restored_over_what_a_job_planted_and_not_through_it() {
    let shop = shop();
    shop.sandbox.dir("repo/dir");
    shop.sandbox.write(shop.repo.join("dir/.bashrc"), "theirs\n");
    let before = outside(&shop);
    let home = shop.sandbox.path("home");
    let clean = shop.job(&["--sandbox=landlock", "--strategy", "copy"], "true");
    let id = clean["id"].as_str().unwrap_or_else(|| panic!("{clean}"));
    let saved = shop.way(["ws", "snapshot", id, "--json"]).data()["id"].as_str().unwrap().to_owned();
    let plant = format!(
        "rm -rf dir file; ln -s {home} dir; ln -s {home}/.bashrc file; mkfifo pipe; ln -s {home} deep; mkdir -p a; ln -s {home} a/b",
        home = home.display(),
    );
    let job = shop.job(&["--sandbox=landlock", "--workspace", clean["workspace_id"].as_str().unwrap()], &plant);
    assert_eq!(job["status"], "completed", "{job}");
    let run = bounded(&shop, "a snapshot", &["ws", "snapshot", id]);
    assert_eq!(run.code, 0, "{}", run.whole());
    assert_eq!(outside(&shop), before, "{}", run.whole());
    let run = bounded(&shop, "a restore", &["ws", "restore", &saved, "--into", id]);
    assert_eq!(run.code, 0, "{}", run.whole());
    assert_eq!(outside(&shop), before, "{}", run.whole());
    let dir = path(&clean["workspace_dir"]);
    assert_eq!(fs::read_to_string(dir.join("dir/.bashrc")).unwrap(), "theirs\n");
    assert_eq!(fs::read_to_string(dir.join("file")).unwrap(), "one\n");
}
