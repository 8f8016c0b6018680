//! Workspaces: found, measured, saved, delivered, and never removed with work in them.

mod deleted;
mod mirrors;
mod mounts;
mod remove;
mod save;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use waypost_fs::FileLock;
use waypost_testkit::Run;

use crate::support::jobs::{Shop, path};
use crate::support::workspaces::tree;

#[test]
fn p9_p10_workspaces_are_where_the_configuration_says_and_not_in_a_cache() {
    let shop = Shop::new();
    let job = shop.job(&[], "true");
    let dir = job["workspace_dir"].as_str().unwrap();
    assert!(dir.contains("/.waypost/workspaces/jb_") && !dir.contains("cache"), "{dir}");
    let _ = shop.way(["config", "set", "workspaces.path", "~/elsewhere"]).ok();
    let job = shop.job(&[], "true");
    let elsewhere = shop.sandbox.path("home/elsewhere");
    assert!(path(&job["workspace_dir"]).starts_with(&elsewhere), "{job}");
    assert!(shop.way(["where"]).ok().stdout.contains(elsewhere.to_str().unwrap()));
}

#[test]
fn p14_a_workspace_is_found_from_its_job_and_a_job_from_a_path() {
    let shop = Shop::new();
    let job = shop.job(&[], "mkdir -p deep/down");
    let id = job["id"].as_str().unwrap();
    let shown = shop.way(["ws", "show", id, "--json"]).data();
    assert_eq!(shown["workspace"]["path"], job["workspace_dir"]);
    let deep = path(&job["workspace_dir"]).join("deep/down");
    for place in [&deep, path(&job["workspace_dir"]), path(&job["context_dir"])] {
        let whose = shop.way(["ws", "whose", place.to_str().unwrap(), "--json"]).data();
        assert_eq!(whose["job_id"], job["id"]);
    }
    // From inside the workspace, and after its removal.
    let inside = shop
        .sandbox
        .way(&deep, ["--db", shop.repo.join(".git/waypost/state.db").to_str().unwrap(), "ws", "whose", "."]);
    assert!(inside.ok().stdout.contains(id));
    let _ = shop.way(["ws", "rm", id]).ok();
    let whose = shop.way(["ws", "whose", deep.to_str().unwrap(), "--json"]).data();
    assert_eq!((&whose["job_id"], &whose["status"]), (&job["id"], &json!("removed")));
    let _ = shop.way(["ws", "whose", "/nowhere"]).fails(3);
}

#[test]
fn p15_the_size_of_a_workspace_agrees_with_du() {
    let shop = Shop::new();
    let job = shop.job(&[], "head -c 3000000 /dev/urandom > big; mkdir d; for i in 1 2 3 4 5; do echo $i > d/$i; done");
    let measured = shop.way(["ws", "du", "--json"]).data();
    let home = path(&job["workspace_dir"]).parent().unwrap();
    let du = Command::new("du").args(["-s", "--block-size=1"]).arg(home).output().unwrap();
    let du: f64 = String::from_utf8_lossy(&du.stdout).split_whitespace().next().unwrap().parse().unwrap();
    let ours = measured["bytes"].as_f64().unwrap();
    assert!((ours - du).abs() <= du * 0.05, "{ours} and {du}");
    assert_eq!(shop.workspaces()[0]["size"], measured["bytes"]);
}

#[test]
fn p16_beyond_the_total_limit_no_job_starts_or_the_oldest_safe_workspaces_are_evicted() {
    let shop = Shop::new();
    let safe = shop.job(&[], "head -c 3000000 /dev/urandom > ignored");
    let dirty = shop.job(&[], "head -c 3000000 /dev/urandom > new");
    let full = shop.job(&["--config", "workspaces.total=4MB"], "true");
    assert_eq!(full["status"], "failed");
    assert!(full["error"].as_str().unwrap().contains("the limit is 4.0 MB"), "{full}");
    let evicting = ["--config", "workspaces.total=4MB", "--config", "workspaces.policy=evict"];
    let job = shop.job(&evicting, "true");
    assert_eq!(job["status"], "completed", "{job}");
    assert!(!path(&safe["workspace_dir"]).exists() && path(&dirty["workspace_dir"]).exists());
}

#[test]
fn p17_p18_cleaning_removes_what_its_dry_run_lists_and_keeps_workspaces_in_use_or_with_work() {
    let shop = Shop::new();
    let clean = shop.job(&[], "true");
    let dirty = shop.job(&[], "echo work > new");
    let unpushed = shop.job(&[], "echo more >> file; git commit --quiet -am More");
    let pinned = shop.job(&[], "true");
    let _ = shop.way(["ws", "pin", pinned["id"].as_str().unwrap()]).ok();
    let running = shop.started(&[], "sleep 600");
    let later = |args: &[&str]| {
        let mut command = shop.command();
        command.env("WAYPOST_TEST_CLOCK", "2099-01-01T00:00:00Z").args(args);
        Run::of(&command.output().unwrap()).data()
    };
    let goes = |report: &Value| -> Vec<String> {
        let all = report["verdicts"].as_array().unwrap().iter().filter(|verdict| verdict["goes"] == true);
        all.map(|verdict| verdict["workspace"]["job_id"].as_str().unwrap().to_owned()).collect()
    };
    // The default is seven days.
    let young = shop.way(["ws", "gc", "--json"]).data();
    assert_eq!(goes(&young), Vec::<String>::new());
    let dry_run = later(&["ws", "clean", "--dry-run", "--json"]);
    let all = [&clean, &dirty, &unpushed, &pinned, &running];
    assert!(all.iter().all(|job| path(&job["workspace_dir"]).exists()));
    assert_eq!(goes(&dry_run), [clean["id"].as_str().unwrap()]);
    let real = later(&["ws", "clean", "--json"]);
    assert_eq!(goes(&real), goes(&dry_run));
    assert_eq!(all.map(|job| path(&job["workspace_dir"]).exists()), [false, true, true, true, true]);
    let why: Vec<_> = real["verdicts"].as_array().unwrap().iter().map(|one| one["why"].to_string()).collect();
    for said in ["not under version control", "1 commit that no remote has", "pinned", "a job runs in it"] {
        assert!(why.iter().any(|why| why.contains(said)), "{said}: {why:?}");
    }
    let _ = shop.way(["job", "cancel", running["id"].as_str().unwrap()]).ok();
    // By count: the oldest removable ones.
    let _ = shop.way(["ws", "unpin", pinned["id"].as_str().unwrap()]).ok();
    let real = shop.way(["ws", "gc", "--keep", "3", "--json"]).data();
    assert_eq!(goes(&real).len(), 1);
}

#[test]
fn p19_p20_a_warm_workspace_is_used_and_has_no_file_of_the_previous_job() {
    let shop = Shop::new();
    let _ = shop.way(["config", "set", "workspaces.pool", "1"]).ok();
    let _ = shop.way(["ws", "warm"]).ok();
    let inode = |dir: &Value| {
        use std::os::unix::fs::MetadataExt as _;
        fs::metadata(path(dir)).unwrap().ino()
    };
    // The directories of the pool, which keep their inode when they are renamed.
    let pooled = || {
        let pool = shop.way(["ws", "pool", "--json"]).data();
        pool.as_array().unwrap().iter().map(|slot| inode(&slot["plan"]["workspace"])).collect::<Vec<_>>()
    };
    let warm = pooled();
    assert_eq!(warm.len(), 1);
    shop.sandbox.write(shop.repo.join("file"), "two\n");
    shop.sandbox.git(&shop.repo, ["commit", "--quiet", "-am", "Second"]);
    let one = shop.job(&["--cleanup"], "stat --format=%i .; cat file; touch ignored; git status --porcelain");
    assert_eq!(one["output"], format!("{}\ntwo", warm[0]), "{one}");
    assert_eq!(pooled(), warm, "the workspace returned to the pool: {one}");
    let other = shop.job(&["--keep"], "ls; git status --porcelain --ignored; git log --format=%s -1; git branch");
    assert_eq!(other["output"], format!("file\nSecond\n* waypost/{}", other["id"].as_str().unwrap()));
    assert_eq!(shop.way(["ws", "pool", "--json"]).data(), json!([]));
    let all = shop.workspaces();
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(inode(&other["workspace_dir"]), warm[0], "the same directory again: {other}");
    // Objects are stored once, however many workspaces borrow them.
    let objects = shop.sandbox.git(path(&other["workspace_dir"]), ["count-objects", "--verbose"]);
    for none in ["count: 0\n", "in-pack: 0\n", "packs: 0\n"] {
        assert!(objects.contains(none), "{none}: {objects}");
    }
}

/// The kilobytes of a repository's own objects, loose and packed.
fn own_objects(shop: &Shop, dir: &Path) -> u64 {
    let counted = shop.sandbox.git(dir, ["count-objects", "--verbose"]);
    let size =
        |name: &str| counted.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok()).unwrap();
    size("size:") + size("size-pack:")
}

#[test]
fn p20_the_objects_of_twenty_workspaces_take_the_space_of_one_and_are_transferred_once() {
    let shop = Shop::new();
    let large = "head -c 2000000 /dev/urandom > large";
    assert!(shop.sandbox.command("sh", &shop.repo).args(["-c", large]).status().unwrap().success());
    shop.sandbox.git(&shop.repo, ["add", "."]);
    shop.sandbox.git(&shop.repo, ["commit", "--quiet", "-m", "Large"]);
    shop.sandbox.git(&shop.repo, ["push", "--quiet", "origin", "HEAD:main"]);
    let source = own_objects(&shop, &shop.repo);
    assert!(source > 1000, "{source} kB");
    let mirrors = || -> u64 {
        let all = fs::read_dir(shop.sandbox.path("home/.waypost/mirrors")).unwrap().map(|entry| entry.unwrap().path());
        let all = all.filter(|path| path.extension().is_some_and(|extension| extension == "git"));
        all.map(|mirror| own_objects(&shop, &mirror)).sum()
    };
    // From the checkout, and from a remote.
    for (number, flags) in [&[][..], &["--remote", shop.remote.to_str().unwrap()]].into_iter().enumerate() {
        let mut stored = 0;
        for made in 0..20 {
            let workspace = shop.run(&[&["ws", "new", "--json"], flags].concat()).data();
            let dir = path(&workspace["path"]);
            assert_eq!(fs::metadata(dir.join("large")).unwrap().len(), 2_000_000);
            assert_eq!(own_objects(&shop, dir), 0, "workspace {made}");
            if made == 0 {
                stored = mirrors();
            }
        }
        assert_eq!(mirrors(), stored, "later workspaces transfer no object");
        let mirrored = u64::try_from(number).unwrap() + 1;
        assert!(stored <= mirrored * (source + source / 10), "{stored} kB for {mirrored} times {source} kB");
    }
}

#[test]
fn p22_p27_unsaved_work_is_saved_before_removal_and_restored_completely() {
    let shop = Shop::new();
    let job = shop.job(&[], "echo two >> file; echo new > new; mkdir d; echo deep > d/deep; git add file");
    let id = job["id"].as_str().unwrap();
    let workspace = path(&job["workspace_dir"]);
    let before = tree(&shop, workspace);
    let refused = shop.way(["ws", "rm", id]).fails(7);
    assert!(refused.stderr.contains("1 file changed") && refused.stderr.contains("--force"), "{}", refused.stderr);
    assert!(workspace.join("new").exists());
    let dry_run = shop.way(["ws", "rm", id, "--force", "--dry-run"]).ok();
    assert!(dry_run.stdout.contains("Would remove") && workspace.exists());

    let saved = shop.way(["ws", "snapshot", id, "--json"]).data();
    fs::remove_file(workspace.join("new")).unwrap();
    shop.sandbox.write(workspace.join("file"), "ruined");
    shop.sandbox.write(workspace.join("more"), "more");
    let name = saved["id"].as_str().unwrap();
    let _ = shop.way(["ws", "restore", name, "--into", id]).ok();
    assert_eq!(tree(&shop, workspace), before);

    let removed = shop.way(["ws", "rm", id, "--force", "--json"]).data();
    let kept = removed[0]["saved_as"].as_str().unwrap().to_owned();
    assert!(!workspace.exists());
    let listed = shop.way(["ws", "snapshots", "--json"]).data();
    assert!(listed.as_array().unwrap().iter().any(|one| one["id"] == kept.as_str()), "{listed}");
    let restored = shop.way(["ws", "restore", &kept, "--json"]).data();
    assert_eq!(tree(&shop, path(&restored["workspace"]["path"])), before);
    let bundle = shop.sandbox.path("saved.bundle");
    let _ = shop.way(["ws", "export", &kept, bundle.to_str().unwrap()]).ok();
    shop.sandbox.git(&shop.repo, ["bundle", "verify", "--quiet", bundle.to_str().unwrap()]);
    let _ = shop.way(["ws", "restore", "no-such-snapshot"]).fails(3);
}

#[test]
fn listings_in_a_repository_without_commits_are_empty_and_no_error() {
    let shop = Shop::new();
    let unborn = shop.sandbox.dir("unborn");
    shop.sandbox.git(&unborn, ["init", "--quiet"]);
    // The HEAD of jj's git repository is on none of its commits.
    let repos = [unborn.clone(), shop.sandbox.jj_repo("jj", false)];
    for repo in &repos {
        let way = |args: &[&str]| shop.sandbox.way(repo, args);
        for (listing, said) in [
            ("list", "no workspaces;"),
            ("snapshots", "no snapshots yet"),
            ("pool", "the pool is empty"),
            ("merged", "no workspaces with work"),
        ] {
            assert_eq!(way(&["ws", listing, "--json"]).data(), json!([]), "{listing}");
            let run = way(&["ws", listing]);
            assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{listing}: {}", run.whole());
            assert!(run.stderr.starts_with("note: ") && run.stderr.contains(said), "{listing}: {}", run.whole());
        }
        for (measure, said) in [("du", "SIZE  ID     PATH\n 0 B  total\n"), ("gc", "Removed 0 workspaces\n")] {
            assert_eq!(way(&["ws", measure]).ok().stdout, said);
        }
        for args in [&["ws", "restore", "ws_a-1"][..], &["ws", "export", "ws_a-1", "file"]] {
            let run = way(args).fails(3);
            assert!(run.stderr.contains("there is no snapshot ws_a-1"), "{args:?}: {}", run.whole());
        }
    }
    // Jj has commits although git's HEAD is unborn, so the hint names the jj strategy instead of a first commit.
    if let Some(repo) = repos.get(1) {
        let run = shop.sandbox.way(repo, ["ws", "warm", "1"]).fails(3);
        assert!(run.stderr.contains("HEAD is on no commit") && run.stderr.contains("strategy jj"), "{}", run.whole());
    }
    // Only commands that need a commit fail without one.
    for args in [&["ws", "new"][..], &["ws", "warm", "1"]] {
        let run = shop.sandbox.way(&unborn, args).fails(3);
        assert!(run.stderr.contains("no commit to start from\nhint: make a first commit"), "{}", run.whole());
    }
    // A copy needs no commit, nor does a snapshot of it.
    shop.sandbox.write(unborn.join("file"), "one\n");
    let made = shop.sandbox.way(&unborn, ["ws", "new", "--strategy", "copy", "--json"]).data();
    let saved = shop.sandbox.way(&unborn, ["ws", "snapshot", made["id"].as_str().unwrap(), "--json"]).data();
    let id = saved["id"].as_str().unwrap();
    assert_eq!(shop.sandbox.way(&unborn, ["ws", "snapshots", "--json"]).data()[0]["id"], id);
    let restored = shop.sandbox.way(&unborn, ["ws", "restore", id, "--json"]).data();
    assert_eq!(fs::read_to_string(path(&restored["workspace"]["path"]).join("file")).unwrap(), "one\n");
    let refused = shop.sandbox.way(&unborn, ["ws", "export", id, "file"]).fails(7);
    assert!(refused.stderr.contains("is a copy of files"), "{}", refused.whole());
}

#[test]
fn p28_p31_work_is_delivered_to_the_real_remote_and_its_merge_is_detected() {
    let shop = Shop::new();
    let job = shop.job(&[], "echo two >> file");
    let id = job["id"].as_str().unwrap();
    let _ = shop.way(["job", "deliver", id]).fails(7);
    let delivered = shop.way(["job", "deliver", id, "--commit", "Say two", "--json"]).data();
    let branch = format!("waypost/{id}");
    assert_eq!(delivered["delivered"]["branch"], branch.as_str());
    let there = shop.sandbox.git(&shop.remote, ["log", "--format=%s", "-1", &branch]);
    assert_eq!(there.trim(), "Say two");
    assert_eq!(
        shop.sandbox.git(path(&job["workspace_dir"]), ["remote", "get-url", "origin"]).trim(),
        shop.remote.to_str().unwrap()
    );
    let merged = shop.way(["ws", "merged", id, "--json"]).data();
    assert_eq!(merged[0]["merged"], "no");
    shop.sandbox.git(&shop.remote, ["update-ref", "refs/heads/main", &branch]);
    let merged = shop.way(["ws", "merged", "--json"]).data();
    assert_eq!(merged[0]["merged"], "whole");
    assert_eq!(shop.workspaces()[0]["merge_commit"], delivered["delivered"]["commit"]);
    // The work is pushed, so nothing is lost.
    let _ = shop.way(["ws", "rm", id]).ok();

    // Another user moved the branch: the delivery fails, and the branch stays as it is.
    let job = shop.job(&["--branch", "topic"], "echo mine >> file");
    shop.sandbox.git(&shop.remote, ["branch", "topic", &branch]);
    let theirs = shop.sandbox.git(&shop.remote, ["rev-parse", "topic"]);
    let run = shop.way(["job", "deliver", job["id"].as_str().unwrap(), "--commit", "Mine"]);
    assert_ne!(run.code, 0, "{}", run.whole());
    assert_eq!(shop.sandbox.git(&shop.remote, ["rev-parse", "topic"]), theirs);
}

#[test]
fn p31_an_existing_workspace_is_fast_forwarded_or_its_divergence_is_reported() {
    for strategy in ["clone", "worktree"] {
        let shop = Shop::new();
        let earlier = shop.job(&["--strategy", strategy], "true");
        let (id, dir) = (earlier["workspace_id"].as_str().unwrap(), path(&earlier["workspace_dir"]));
        let advance = |text: &str| {
            shop.sandbox.write(shop.repo.join("file"), text);
            shop.sandbox.git(&shop.repo, ["commit", "--quiet", "-am", text]);
        };
        let reuse = |flags: &[&str], script: &str| shop.job(&[&["--workspace", id], flags].concat(), script);
        assert_eq!(reuse(&[], "cat file")["warnings"], json!([]), "{strategy}");
        advance("two");
        // As it is, with a warning; and with the new commits on request.
        let behind = reuse(&[], "cat file");
        assert_eq!((&behind["status"], &behind["output"]), (&json!("completed"), &json!("one")), "{strategy}");
        let warning = behind["warnings"][0].as_str().unwrap();
        assert!(warning.contains("lacks 1 commit of the source"), "{strategy}: {warning}");
        let updated = reuse(&["--base", "head"], "cat file");
        assert_eq!((&updated["output"], &updated["warnings"]), (&json!("two"), &json!([])), "{strategy}");
        advance("three");
        let update = ["ws", "update", id, "--json"];
        assert_eq!(shop.way(update).data()["before"]["behind"], 1);
        assert_eq!(fs::read_to_string(dir.join("file")).unwrap(), "three");
        assert_eq!(shop.way(update).data()["before"]["behind"], 0);

        // A change that is not committed stays.
        shop.sandbox.write(dir.join("file"), "mine");
        advance("four");
        let refused = shop.way(["ws", "update", id]).fails(4).stderr;
        assert!(refused.contains("file"), "{strategy}: {refused}");
        assert_eq!(fs::read_to_string(dir.join("file")).unwrap(), "mine");
        // So does a commit of its own: then it has diverged, and no job is recorded that asks for the update.
        shop.sandbox.git(dir, ["commit", "--quiet", "-am", "Mine"]);
        let head = shop.sandbox.git(dir, ["rev-parse", "HEAD"]);
        let refused = shop.way(["ws", "update", id]).fails(4).stderr;
        assert!(refused.contains("diverged") && refused.contains("1 commit of its own"), "{strategy}: {refused}");
        let jobs = || shop.way(["job", "list", "--json"]).data().as_array().unwrap().len();
        let before = jobs();
        let refused = shop.way(["job", "start", "--workspace", id, "--base", "head", "--", "true"]).fails(4).stderr;
        assert!(refused.contains("diverged"), "{strategy}: {refused}");
        assert_eq!((jobs(), shop.sandbox.git(dir, ["rev-parse", "HEAD"])), (before, head));
        let diverged = reuse(&[], "cat file");
        let warning = diverged["warnings"][0].as_str().unwrap();
        assert!(warning.contains("lacks 1 commit") && warning.contains("has 1 commit of its own"), "{warning}");
        assert_eq!(diverged["output"], "mine");
    }
}

#[test]
fn p28_a_pull_request_is_opened_with_gh_if_installed() {
    let shop = Shop::new();
    let bin = shop.sandbox.dir("bin");
    let gh = bin.join("gh");
    shop.sandbox.program(&gh, "#!/bin/sh\necho \"$@\" > \"$HOME/asked\"; pwd >> \"$HOME/asked\"\necho https://github.com/acme/rocket/pull/7\n");
    let job = shop.job(&[], "echo two >> file");
    let mut command = shop.command();
    let path_variable = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    command.env("PATH", path_variable).args(["job", "deliver", job["id"].as_str().unwrap(), "--commit", "Two", "--pr"]);
    let run = Run::of(&command.output().unwrap()).ok();
    assert!(run.stdout.contains("https://github.com/acme/rocket/pull/7"), "{}", run.whole());
    let asked = fs::read_to_string(shop.sandbox.path("home/asked")).unwrap();
    assert!(asked.contains("--head waypost/jb_") && asked.contains("--title Two"), "{asked}");
    // `gh` runs in the user's own checkout, never where a job could have changed the configuration.
    assert!(asked.contains(shop.repo.to_str().unwrap()), "{asked}");
    assert_eq!(shop.workspaces()[0]["pr_url"], "https://github.com/acme/rocket/pull/7");
}

#[test]
fn p29_a_secret_in_a_url_is_only_in_the_users_own_configuration() {
    let shop = Shop::new();
    shop.sandbox
        .git(&shop.repo, ["remote", "set-url", "origin", "https://me:hunter2canary@127.0.0.1:1/acme/rocket.git"]);
    let job = shop.job(&[], "git remote -v; cat .git/config");
    assert_eq!(job["status"], "completed", "{job}");
    assert!(job["output"].as_str().unwrap().contains("https://127.0.0.1:1/acme/rocket.git"), "{job}");
    let run = shop.way(["job", "deliver", job["id"].as_str().unwrap()]);
    assert!(!run.whole().contains("hunter2canary"), "{}", run.whole());
    for dir in [shop.sandbox.path("home/.waypost"), shop.repo.join(".git/waypost")] {
        let found = Command::new("grep").args(["-rl", "hunter2canary"]).arg(&dir).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    }
}

#[test]
fn t18_way_never_runs_programs_that_a_job_wrote_into_its_repository() {
    let shop = Shop::new();
    let canary = shop.sandbox.path("canary");
    let script = format!(
        "printf '#!/bin/sh\\ntouch {0}\\n' > .git/hooks/pre-commit 2>/dev/null || {{ mkdir -p .git/hooks; \
        printf '#!/bin/sh\\ntouch {0}\\n' > .git/hooks/pre-commit; }}; \
        for hook in post-commit pre-push post-checkout reference-transaction post-index-change; do \
        cp .git/hooks/pre-commit .git/hooks/$hook; done; chmod +x .git/hooks/*; \
        git config core.fsmonitor 'touch {0}; false'; git config core.hooksPath .git/hooks; \
        git config filter.evil.clean 'touch {0}; cat'; git config filter.evil.smudge 'touch {0}; cat'; \
        echo '* filter=evil' > .gitattributes; git config core.pager 'touch {0}'; \
        git config remote.origin.receivepack 'touch {0}; git-receive-pack'; \
        git config url.ext::touch.insteadOf /; echo two >> file; rm -f {0}",
        canary.display()
    );
    let job = shop.job(&[], &script);
    assert_eq!(job["status"], "completed", "{job}");
    let id = job["id"].as_str().unwrap();
    assert!(!canary.exists());
    for args in [
        &["ws", "show", id][..],
        &["ws", "du"],
        &["ws", "gc", "--older-than", "0s"],
        &["ws", "snapshot", id],
        &["job", "deliver", id, "--commit", "Two"],
        &["ws", "merged", id],
        &["ws", "rm", id, "--force"],
        &["status"],
        &["doctor"],
    ] {
        let run = shop.run(args);
        assert!(!canary.exists(), "{args:?} ran it: {}", run.whole());
    }
    shop.sandbox.git(&shop.repo, ["status"]);
    assert!(!canary.exists());
}

#[test]
fn every_strategy_gives_a_job_its_own_tree_that_is_removed_without_loss() {
    let shop = Shop::new();
    let before = fs::read(shop.repo.join(".git/HEAD")).unwrap();
    for strategy in ["clone", "worktree", "copy"] {
        let job = shop.job(&["--strategy", strategy], "echo mine >> file; cat file; pwd");
        let dir = job["workspace_dir"].as_str().unwrap();
        assert_eq!(job["output"], format!("one\nmine\n{dir}"), "{strategy}: {job}");
        let id = job["id"].as_str().unwrap();
        let _ = shop.way(["ws", "rm", id]).fails(7);
        assert!(shop.way(["ws", "rm", id, "--force"]).ok().stdout.contains("To restore it"));
        assert!(!Path::new(dir).exists());
    }
    assert_eq!(fs::read_to_string(shop.repo.join("file")).unwrap(), "one\n");
    assert_eq!(fs::read(shop.repo.join(".git/HEAD")).unwrap(), before);
    assert_eq!(shop.sandbox.git(&shop.repo, ["status", "--porcelain"]), "");
    assert_eq!(shop.sandbox.git(&shop.repo, ["worktree", "list"]).lines().count(), 1);
}

#[test]
fn a_workspace_whose_directory_was_moved_away_is_reported_as_lost() {
    let shop = Shop::new();
    let job = shop.job(&[], "true");
    fs::rename(path(&job["workspace_dir"]).parent().unwrap(), shop.sandbox.path("taken")).unwrap();
    assert_eq!(shop.workspaces()[0]["status"], "lost");
    assert!(shop.way(["doctor"]).ok().stdout.contains("no longer exists at"));
    let _ = shop.way(["ws", "gc"]).ok();
    assert!(shop.workspaces().is_empty());
}

#[test]
fn a_workspace_that_another_process_removes_is_not_taken_for_lost_or_interrupted() {
    let shop = Shop::new();
    let job = shop.job(&[], "true");
    let home = path(&job["workspace_dir"]).parent().unwrap().to_owned();
    let lock = home.with_extension("lock");
    let held = FileLock::acquire(&lock, Duration::from_secs(10)).unwrap();
    fs::rename(&home, shop.sandbox.path("taken")).unwrap();
    assert_eq!(shop.workspaces()[0]["status"], "kept");
    held.remove(&lock);
    assert_eq!(shop.workspaces()[0]["status"], "lost");
    assert!(!lock.exists(), "no lock file is left");
}

#[test]
fn a_job_under_jj_or_mercurial_gets_a_workspace_of_that_tool() {
    let shop = Shop::new();
    let repo = shop.sandbox.jj_repo("jj", true);
    shop.sandbox.write(repo.join("file"), "one\n");
    shop.sandbox.jj(&repo, ["commit", "-m", "One"]);
    let shop = Shop { sandbox: shop.sandbox, repo, remote: shop.remote };
    let job = shop.job(&[], "cat file; ls -d .jj; echo mine > new");
    assert_eq!(job["output"], "one\n.jj", "{job}");
    assert!(!shop.repo.join("new").exists());
    let removed = shop.way(["ws", "rm", job["id"].as_str().unwrap(), "--force"]);
    assert_eq!(removed.code, 0, "{}", removed.whole());
    assert!(!path(&job["workspace_dir"]).exists());
    assert_eq!(shop.sandbox.jj(&shop.repo, ["workspace", "list"]).lines().count(), 1);
    let repo = shop.sandbox.hg_repo("hg");
    shop.sandbox.write(repo.join("file"), "one\n");
    shop.sandbox.hg(&repo, ["commit", "--addremove", "-m", "One"]);
    let shop = Shop { sandbox: shop.sandbox, repo, remote: shop.remote };
    let job = shop.job(&[], "cat file; echo mine > new");
    assert_eq!(job["output"], "one", "{job}");
    let _ = shop.way(["ws", "rm", job["id"].as_str().unwrap()]).fails(7);
    assert!(path(&job["workspace_dir"]).join("new").exists() && !shop.repo.join("new").exists());
}

#[test]
fn a_kill_while_making_saving_warming_or_removing_leaves_every_workspace_listed_and_loses_nothing() {
    let shop = Shop::new();
    let kept = shop.job(&[], "echo work > new; git add new; echo more > other");
    let id = kept["id"].as_str().unwrap();
    let before = tree(&shop, path(&kept["workspace_dir"]));
    let _ = shop.way(["ws", "warm", "1"]).ok();
    let mut random = 11_u64;
    for round in 0..24 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let spare = shop.way(["ws", "new", "--json"]).data();
        let args: &[&str] = match round % 5 {
            0 => &["ws", "new"],
            1 => &["ws", "warm", "3"],
            2 => &["ws", "snapshot", id],
            3 => &["ws", "rm", spare["id"].as_str().unwrap()],
            _ => &["ws", "gc", "--older-than", "0s"],
        };
        let mut child = shop.command().args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let end = Instant::now() + Duration::from_micros(random >> 33 & 0x1_ffff);
        while Instant::now() < end {
            std::thread::yield_now();
        }
        let _ = child.kill();
        child.wait().unwrap();
        let all = shop.workspaces();
        let listed: Vec<_> = all.iter().map(|one| path(&one["path"]).parent().unwrap().to_owned()).collect();
        let mut dirs: Vec<_> = fs::read_dir(shop.root()).unwrap().map(|entry| entry.unwrap().path()).collect();
        for pool in fs::read_dir(shop.root().join("pool")).unwrap().map(|entry| entry.unwrap().path()) {
            dirs.extend(fs::read_dir(&pool).into_iter().flatten().map(|entry| entry.unwrap().path()));
        }
        // A killed process leaves its lock file, which the next cleaning removes.
        for dir in dirs.into_iter().filter(|dir| dir.is_dir()) {
            let is_own = ["jobs", "trash", "pool"].contains(&dir.file_name().unwrap().to_str().unwrap());
            assert!(is_own || listed.contains(&dir), "round {round}, {args:?}: {} is listed nowhere", dir.display());
        }
        let there = |one: &Value| one["status"] == "lost" || path(&one["path"]).parent().unwrap().exists();
        assert!(all.iter().all(there), "round {round}, {args:?}: {all:?}");
        assert_eq!(tree(&shop, path(&kept["workspace_dir"])), before, "round {round}, {args:?}");
    }
    let _ = shop.way(["ws", "gc", "--older-than", "0s"]).ok();
    let left: Vec<_> = shop.workspaces().into_iter().filter(|one| one["note"] != "it waits in the pool").collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(shop.job(&[], "true")["status"], "completed");
    assert_eq!(shop.sandbox.git(&shop.repo, ["status", "--porcelain"]), "");
}

fn without_remote() -> Shop {
    let shop = Shop::new();
    shop.sandbox.git(&shop.repo, ["remote", "remove", "origin"]);
    shop
}

/// Runs garbage collection for every workspace and returns the jobs whose workspaces are left.
fn left_by_gc(shop: &Shop) -> Vec<String> {
    let _ = shop.way(["ws", "gc", "--older-than", "0s"]).ok();
    shop.workspaces().iter().map(|one| one["job_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn work_goes_into_a_repository_without_a_remote_and_its_workspace_goes_once_it_is_merged() {
    let shop = without_remote();
    let job = shop.job(&[], "echo two >> file; git commit -qam Two");
    let id = job["id"].as_str().unwrap();
    assert_eq!(left_by_gc(&shop), [id]);
    let before = fs::read(shop.repo.join("file")).unwrap();
    let delivered = shop.way(["job", "deliver", id, "--json"]).data();
    let branch = format!("waypost/{id}");
    let delivered = &delivered["delivered"];
    assert_eq!((&delivered["branch"], &delivered["remote"]), (&json!(branch), &Value::Null));
    assert_eq!(delivered["landed_in"].as_str().unwrap(), shop.repo.to_str().unwrap());
    assert_eq!(shop.sandbox.git(&shop.repo, ["rev-parse", &branch]).trim(), delivered["commit"].as_str().unwrap());
    assert_eq!(fs::read(shop.repo.join("file")).unwrap(), before);
    // A branch that is not merged may be deleted, so the workspace stays.
    assert_eq!(shop.way(["ws", "merged", "--json"]).data()[0]["merged"], "no");
    assert_eq!(left_by_gc(&shop), [id]);
    shop.sandbox.git(&shop.repo, ["merge", "--quiet", "--ff-only", &branch]);
    assert_eq!(shop.way(["ws", "merged", "--json"]).data()[0]["merged"], "whole");
    assert_eq!(left_by_gc(&shop), Vec::<String>::new());

    // Merged as another commit, and without asking before.
    let job = shop.job(&[], "echo three > three; git add three; git commit -qm Three; echo four > four");
    let id = job["id"].as_str().unwrap();
    let said = shop.way(["ws", "land", id, "--commit", "Four", "--branch", "topic"]).ok().stdout;
    assert!(said.contains("as branch topic\nTo merge it: git merge topic\n"), "{said}");
    assert_eq!(left_by_gc(&shop), [id]);
    shop.sandbox.git(&shop.repo, ["merge", "--quiet", "--squash", "topic"]);
    shop.sandbox.git(&shop.repo, ["commit", "--quiet", "-m", "Three and four"]);
    assert_eq!(left_by_gc(&shop), Vec::<String>::new());
}

#[test]
fn a_delivery_resets_no_branch_of_the_source_and_none_that_is_checked_out() {
    let shop = without_remote();
    shop.sandbox.git(&shop.repo, ["branch", "theirs"]);
    let other = shop.sandbox.path("other");
    shop.sandbox.git(&shop.repo, ["worktree", "add", "--quiet", other.to_str().unwrap(), "theirs"]);
    shop.sandbox.git(&other, ["commit", "--quiet", "--allow-empty", "-m", "Theirs"]);
    let before = shop.sandbox.git(&shop.repo, ["for-each-ref"]);
    let job = shop.job(&[], "echo two >> file; git commit -qam Two");
    for branch in ["main", "theirs"] {
        let run = shop.way(["job", "deliver", job["id"].as_str().unwrap(), "--branch", branch]).fails(4);
        assert!(run.stderr.contains("hint: choose another branch"), "{}", run.whole());
    }
    assert_eq!(shop.sandbox.git(&shop.repo, ["for-each-ref"]), before);
}

#[test]
fn the_work_of_a_git_worktree_is_delivered_too() {
    let shop = Shop::new();
    let job = shop.job(&["--strategy", "worktree"], "echo two >> file; git commit -qam Two");
    let id = job["id"].as_str().unwrap();
    assert_eq!(shop.way(["ws", "merged", id, "--json"]).data()[0]["merged"], "no");
    let delivered = shop.way(["job", "deliver", id, "--json"]).data();
    let branch = format!("waypost/{id}");
    assert_eq!(
        shop.sandbox.git(&shop.remote, ["rev-parse", &branch]).trim(),
        delivered["delivered"]["commit"].as_str().unwrap()
    );
    let _ = shop.way(["job", "deliver", id, "--local", "--branch", "topic"]).ok();
    assert_eq!(shop.sandbox.git(&shop.repo, ["log", "-1", "--format=%s", "topic"]), "Two\n");
}

#[test]
fn one_workspace_that_cannot_be_read_does_not_hide_whether_the_others_are_merged() {
    let shop = without_remote();
    let odd = shop.job(&[], "echo two >> file; git commit -qam Two");
    let job = shop.job(&[], "echo two >> file; git commit -qam Two");
    fs::rename(path(&odd["workspace_dir"]).join(".git"), shop.sandbox.path("taken")).unwrap();
    let run = shop.way(["ws", "merged", "--json"]).ok();
    let answer: Value = serde_json::from_str(&run.stdout).unwrap();
    let of = |job: &Value| {
        let all = answer["data"].as_array().unwrap();
        all.iter().find(|one| one["workspace"] == job["workspace_id"]).unwrap().clone()
    };
    assert_eq!((&of(&job)["merged"], &of(&job)["error"]), (&json!("no"), &Value::Null));
    assert_eq!(of(&odd)["merged"], Value::Null);
    assert!(of(&odd)["error"].as_str().unwrap().contains("does not have its own git directory"), "{answer}");
    assert_eq!(answer["warnings"].as_array().unwrap().len(), 1, "{answer}");
    let _ = shop.way(["ws", "merged", odd["id"].as_str().unwrap()]).fails(7);
}

#[test]
fn a_relative_origin_works_in_a_workspace() {
    let shop = Shop::new();
    shop.sandbox.git(&shop.repo, ["remote", "set-url", "origin", "../remote.git"]);
    let job = shop.job(&[], "git fetch -q origin main && echo two >> file && git commit -qam Two");
    assert_eq!(job["status"], "completed", "{job}");
    let url = shop.sandbox.git(path(&job["workspace_dir"]), ["remote", "get-url", "origin"]);
    assert_eq!(url.trim(), shop.remote.canonicalize().unwrap().to_str().unwrap());
    let id = job["id"].as_str().unwrap();
    let _ = shop.way(["job", "deliver", id]).ok();
    assert_eq!(shop.sandbox.git(&shop.remote, ["log", "-1", "--format=%s", &format!("waypost/{id}")]), "Two\n");
    assert_eq!(shop.way(["ws", "merged", id, "--json"]).data()[0]["merged"], "no");
}
