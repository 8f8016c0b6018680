//! Workspaces of each strategy.

use super::*;
use waypost_workspace::workspaces::{Files, abandon};

#[test]
fn a_clone_has_the_committed_files_its_own_branch_and_the_real_remote() {
    hermetic(|scene| {
        let repo = scene.repo();
        let before = everything(&repo);
        let (plan, made) = scene.make(&repo, "jb_1");
        assert_eq!(plan.workspace, scene.workspaces().canonicalize().unwrap().join("jb_1/workspace"));
        assert_eq!(files(&plan.workspace), files(&repo));
        assert!(plan.context().is_dir());
        assert!(matches!(made.files, Files::Copied | Files::Shared));
        let git = |args: &[&str]| scene.git(&plan.workspace, args);
        assert_eq!(git(&["diff-files"]), "", "git needs not read the files to compare them with the index");
        assert_eq!(git(&["status", "--porcelain"]), "");
        assert_eq!(git(&["branch", "--show-current"]), "waypost/jb_1");
        assert_eq!(git(&["remote", "get-url", "origin"]), scene.git(&repo, &["remote", "get-url", "origin"]));
        assert_eq!(git(&["rev-parse", "HEAD"]), scene.git(&repo, &["rev-parse", "main"]));
        assert_eq!(git(&["rev-parse", "origin/HEAD"]), scene.git(&repo, &["rev-parse", "origin/main"]));
        git(&["fsck", "--strict"]);
        git(&["fetch", "-q", "origin"]);
        scene.write(&plan.workspace.join("new"), "new\n");
        git(&["add", "."]);
        git(&["commit", "-q", "-m", "work"]);
        assert_eq!(everything(&repo), before, "the source does not change");
    });
}

#[test]
fn p1_two_jobs_that_edit_the_same_file_do_not_see_each_other() {
    hermetic(|scene| {
        let repo = scene.repo();
        let (one, _) = scene.make(&repo, "one");
        let (other, _) = scene.make(&repo, "other");
        for plan in [&one, &other] {
            scene.write(&plan.workspace.join("file"), plan.name.as_str());
            scene.git(&plan.workspace, &["commit", "-q", "-a", "-m", "work"]);
        }
        assert_eq!(fs::read_to_string(one.workspace.join("file")).unwrap(), "one");
        assert_eq!(fs::read_to_string(other.workspace.join("file")).unwrap(), "other");
        assert_eq!(fs::read_to_string(repo.join("file")).unwrap(), "content\n");
        assert_eq!(scene.git(&repo, &["status", "--porcelain"]), "");
    });
}

#[test]
fn an_edit_right_after_making_is_detected_although_size_and_second_are_the_same() {
    hermetic(|scene| {
        let repo = scene.repo();
        for number in 0..5 {
            let (plan, _) = scene.make(&repo, &format!("job{number}"));
            scene.write(&plan.workspace.join("file"), "CONTENT\n");
            assert_eq!(scene.git(&plan.workspace, &["status", "--porcelain"]), " M file", "after {number} others");
        }
    });
}

#[test]
fn any_commit_can_be_the_base_even_one_newer_than_the_mirror() {
    hermetic(|scene| {
        let repo = scene.repo();
        scene.make(&repo, "first");
        scene.write(&repo.join("later"), "later\n");
        scene.git(&repo, &["rm", "-q", "file"]);
        scene.git(&repo, &["add", "."]);
        scene.git(&repo, &["commit", "-q", "-m", "later"]);
        for base in ["HEAD", "other", "main~1", "origin/main"] {
            let id = base.to_lowercase().replace(['~', '/'], "-");
            let plan = scene.try_plan(&repo, &id, Some(base), None).unwrap();
            make(&plan, &MakeOptions::default()).unwrap();
            assert_eq!(scene.git(&plan.workspace, &["rev-parse", "HEAD"]), scene.git(&repo, &["rev-parse", base]));
            assert_eq!(scene.git(&plan.workspace, &["status", "--porcelain", "--ignored"]), "", "{base}");
            let tracked = scene.git(&repo, &["ls-tree", "-r", "--name-only", base]);
            assert_eq!(scene.git(&plan.workspace, &["ls-files"]), tracked, "{base}");
        }
        for bad in ["nothing", "--upload-pack=x", "main:file", ""] {
            scene.try_plan(&repo, "bad", Some(bad), None).unwrap_err();
        }
    });
}

#[test]
fn p20_garbage_collection_and_deleted_branches_in_the_source_break_no_workspace() {
    hermetic(|scene| {
        let repo = scene.repo();
        scene.git(&repo, &["checkout", "-q", "-b", "passing"]);
        scene.write(&repo.join("passing"), "by\n");
        scene.git(&repo, &["add", "."]);
        scene.git(&repo, &["commit", "-q", "-m", "passing"]);
        let (plan, _) = scene.make(&repo, "early");
        scene.git(&repo, &["commit", "-q", "--amend", "-m", "amended"]);
        let late = scene.plan(&repo, "late");
        make(&late, &MakeOptions::default()).unwrap();
        scene.git(&repo, &["checkout", "-q", "main"]);
        scene.git(&repo, &["branch", "-q", "-D", "passing", "other"]);
        scene.git(&repo, &["reflog", "expire", "--expire=now", "--all"]);
        scene.git(&repo, &["gc", "-q", "--prune=now"]);
        let mirror = plan.mirror.clone().unwrap();
        scene.git(&mirror, &["gc", "-q", "--prune=now"]);
        let gone = scene.sandbox.command("git", &repo).args(["cat-file", "-e", plan.base.as_deref().unwrap()]).status();
        assert!(!gone.unwrap().success(), "the source has lost the commit");
        for plan in [&plan, &late] {
            scene.git(&plan.workspace, &["fsck", "--connectivity-only"]);
            scene.git(&plan.workspace, &["log", "-p"]);
            assert_eq!(scene.git(&plan.workspace, &["status", "--porcelain"]), "");
        }
        fs::rename(&repo, scene.sandbox.path("moved")).unwrap();
        scene.git(&plan.workspace, &["fsck", "--connectivity-only"]);
    });
}

#[test]
fn a_worktree_is_made_and_removed_with_its_record() {
    hermetic(|scene| {
        let repo = scene.repo();
        let before = everything(&repo.join(".git/refs"));
        let plan = scene.plan_by(&repo, "jb_1", Strategy::Worktree);
        let made = make(&plan, &MakeOptions::default()).unwrap();
        assert_eq!(files(&plan.workspace), files(&repo));
        assert_eq!(scene.git(&plan.workspace, &["branch", "--show-current"]), "waypost/jb_1");
        assert_eq!(at_risk(&plan), [""; 0]);
        scene.write(&plan.workspace.join("new"), "new\n");
        remove_safely(&plan, &made).unwrap_err();
        assert!(plan.workspace.join("new").exists());
        remove(&plan, identity(&made), Work::MayGo).unwrap();
        assert!(!plan.home().exists());
        assert_eq!(scene.git(&repo, &["worktree", "list"]).lines().count(), 1);
        assert_eq!(everything(&repo.join(".git/refs")).len(), before.len(), "a branch without commits is deleted");
    });
}

#[test]
fn a_jj_workspace_is_made_and_removed_with_its_record() {
    hermetic(|scene| {
        for colocated in [false, true] {
            let id = format!("repo{colocated}");
            let repo = prepared(scene.sandbox.jj_repo(&id, colocated));
            scene.write(&repo.join("file"), "content\n");
            scene.sandbox.jj(&repo, ["commit", "-m", "first"]);
            let plan = scene.plan_by(&repo, &format!("job{colocated}"), Strategy::Jj);
            let made = make(&plan, &MakeOptions::default()).unwrap();
            assert_eq!(fs::read_to_string(plan.workspace.join("file")).unwrap(), "content\n");
            scene.write(&plan.workspace.join("new"), "new\n");
            remove(&plan, identity(&made), Work::MayGo).unwrap();
            assert!(!plan.home().exists());
            let list = scene.sandbox.jj(&repo, ["workspace", "list"]);
            assert_eq!(list.lines().count(), 1, "{list}");
            let saved = scene.sandbox.jj(&repo, ["log", "--no-graph", "-T", "commit_id", "-r", r#"files("new")"#]);
            assert!(!saved.is_empty(), "the files written in it are in a commit");
        }
    });
}

#[test]
fn a_mercurial_share_is_made() {
    hermetic(|scene| {
        let repo = prepared(scene.sandbox.hg_repo("repo"));
        let plan = scene.try_plan(&repo, "job", None, None).unwrap();
        assert_eq!(plan.strategy, Strategy::Worktree);
        let made = make(&plan, &MakeOptions::default()).unwrap();
        assert_eq!(fs::read_to_string(plan.workspace.join("file")).unwrap(), "content\n");
        remove_safely(&plan, &made).unwrap();
        assert!(!plan.home().exists() && repo.join("file").exists());
    });
}

#[test]
fn a_directory_without_version_control_is_copied_without_its_store() {
    hermetic(|scene| {
        let dir = scene.sandbox.dir("plain");
        scene.write(&dir.join(".waypost/issues.jsonl"), "{}\n");
        scene.write(&dir.join(".waypost/local/state.db"), "a database\n");
        scene.write(&dir.join("a/file"), "content\n");
        let plan = scene.try_plan(&dir, "job", None, None).unwrap();
        assert_eq!(plan.strategy, Strategy::Copy);
        let made = make(&plan, &MakeOptions::default()).unwrap();
        let names: Vec<_> = files(&plan.workspace).into_keys().collect();
        assert_eq!(names, [".waypost", ".waypost/issues.jsonl", "a", "a/file"].map(PathBuf::from));
        remove_safely(&plan, &made).unwrap_err();
        remove(&plan, identity(&made), Work::MayGo).unwrap();
        let error = {
            let inside = Places { workspaces: &dir.join("inside"), mirrors: &scene.mirrors() };
            let (checkout, name) = (checkout(&dir), name("job"));
            let source = Source::Checkout(&checkout);
            plan_error(inside, &name, source)
        };
        assert!(error.to_string().contains("is inside the directory to copy"), "{error}");
    });
}

fn plan_error(places: Places<'_>, name: &Name, source: Source<'_>) -> Error {
    plan(&Request {
        places,
        name,
        source,
        base: None,
        commit: None,
        branch: None,
        strategy: None,
        network: NetworkOptions::default(),
    })
    .unwrap_err()
}

#[test]
fn p11_the_in_place_strategy_makes_and_removes_nothing() {
    hermetic(|scene| {
        let repo = scene.repo();
        let before = everything(&repo);
        let plan = scene.plan_by(&repo, "job", Strategy::InPlace);
        let made = make(&plan, &MakeOptions::default()).unwrap();
        assert_eq!((plan.workspace.as_path(), made.identity), (repo.as_path(), None));
        remove(&plan, Identity { device: 1, inode: 1 }, Work::MayGo).unwrap_err();
        abandon(&plan).unwrap();
        assert_eq!(everything(&repo), before);
        assert!(!scene.workspaces().exists());
    });
}

#[test]
fn an_overlay_is_mounted_over_its_template() {
    hermetic(overlay);
}

#[test]
fn an_overlay_needs_only_a_user_namespace() {
    hermetic_under(&["unshare", "--user", "--map-root-user", "--mount"], overlay);
}

#[test]
fn an_overlay_without_the_right_to_mount_is_refused_and_leaves_nothing() {
    hermetic_under(&["unshare", "--user", "--map-user=1000"], |scene| {
        let repo = scene.repo();
        let plan = scene.plan_by(&repo, "job", Strategy::Overlay);
        let error = make(&plan, &MakeOptions::default()).unwrap_err();
        assert_eq!(error.kind().code(), "refused", "{error}");
        assert!(!plan.home().exists());
        scene.make(&repo, "clone");
    });
}

fn overlay(scene: &Scene) {
    let repo = scene.repo();
    let plan = scene.plan_by(&repo, "job", Strategy::Overlay);
    let made = make(&plan, &MakeOptions::default()).unwrap();
    assert_eq!(made.files, Files::Overlaid);
    assert_eq!(files(&plan.workspace), files(&repo));
    assert_eq!(scene.git(&plan.workspace, &["status", "--porcelain"]), "");
    scene.write(&plan.workspace.join("file"), "changed\n");
    remove_dir(&plan.workspace.join("src"));
    let (other, other_made) = {
        scene.write(&repo.join("later"), "later\n");
        scene.git(&repo, &["add", "."]);
        scene.git(&repo, &["commit", "-q", "-m", "later"]);
        let plan = scene.plan_by(&repo, "other", Strategy::Overlay);
        let made = make(&plan, &MakeOptions::default()).unwrap();
        (plan, made)
    };
    assert_eq!(files(&other.workspace), files(&repo), "another overlay of the same template does not see the changes");
    assert_eq!(examine(&plan).unwrap().changed.len(), 3);
    // As after a reboot.
    waypost_fs::unmount_overlay(&plan.workspace).unwrap();
    assert_eq!(examine(&plan).unwrap().changed.len(), 3);
    remove_safely(&plan, &made).unwrap_err();
    remove_safely(&other, &other_made).unwrap();
    remove(&plan, identity(&made), Work::MayGo).unwrap();
    assert!(!plan.home().exists());
    let (again, _) = scene.make(&repo, "again");
    assert_eq!(files(&again.workspace), files(&repo), "the template is unchanged");
}

#[test]
fn a_remote_repository_is_cloned_by_its_url() {
    hermetic(|scene| {
        let repo = scene.repo();
        let url = format!("file://{}", scene.sandbox.path("remote.git").display());
        let plan = scene.request(Source::Remote(&url), "job", Some("main"), None).unwrap();
        assert_eq!(plan.base_ref.as_deref(), Some("refs/heads/main"));
        make(&plan, &MakeOptions { url: Some(&url), ..MakeOptions::default() }).unwrap();
        assert_eq!(files(&plan.workspace), files(&repo));
        let commit = scene.git(&repo, &["rev-parse", "other"]);
        let plan = scene.request(Source::Remote(&url), "second", Some(&commit), None).unwrap();
        make(&plan, &MakeOptions::default()).unwrap();
        assert_eq!(scene.git(&plan.workspace, &["rev-parse", "HEAD"]), commit);
        scene.request(Source::Remote(&url), "third", Some("nothing"), None).unwrap_err();
        scene.request(Source::Remote("ext::sh -c id"), "third", None, None).unwrap_err();
    });
}

#[test]
fn p29_a_token_in_the_sources_remote_is_written_to_no_file() {
    hermetic(|scene| {
        let repo = scene.repo();
        scene.git(&repo, &["remote", "set-url", "origin", "https://user:s3same@example.org/a/b.git"]);
        let (plan, _) = scene.make(&repo, "job");
        assert_eq!(plan.origin.as_deref(), Some("https://example.org/a/b.git"));
        for (path, content) in everything(&scene.sandbox.path("own")) {
            assert!(!content.contains("s3same") && !path.to_string_lossy().contains("s3same"), "{}", path.display());
        }
    });
}

#[test]
fn submodules_and_large_files_are_left_out_with_a_note() {
    hermetic(|scene| {
        let repo = scene.repo();
        let library = scene.sandbox.git_repo("library");
        let library = library.to_str().unwrap();
        scene.git(&repo, &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", library, "library"]);
        scene.write(&repo.join(".gitattributes"), "*.big filter=lfs diff=lfs merge=lfs -text\n");
        scene.write(&repo.join("a.big"), "version https://git-lfs.github.com/spec/v1\n");
        scene.git(&repo, &["add", "."]);
        scene.git(&repo, &["commit", "-q", "-m", "submodule"]);
        let (plan, made) = scene.make(&repo, "job");
        assert_eq!(made.notes.len(), 2, "{:?}", made.notes);
        assert_eq!(fs::read_dir(plan.workspace.join("library")).unwrap().count(), 0);
        assert_eq!(scene.git(&plan.workspace, &["status", "--porcelain"]), "");
        assert_eq!(at_risk(&plan), [""; 0]);
        remove_safely(&plan, &made).unwrap();
    });
}

#[test]
fn shallow_and_borrowing_sources_work_and_partial_clones_are_refused() {
    hermetic(|scene| {
        let repo = scene.repo();
        let url = format!("file://{}", repo.display());
        let clone = |args: &[&str], id: &str| {
            let target = scene.sandbox.path(id);
            let words = [&["clone", "-q"], args, &[&url, target.to_str().unwrap()]].concat();
            scene.git(&repo, &words);
            target
        };
        let shallow = clone(&["--depth=1"], "shallow");
        let (plan, _) = scene.make(&shallow, "of-shallow");
        assert_eq!(scene.git(&plan.workspace, &["log", "--oneline"]).lines().count(), 1);
        scene.git(&plan.workspace, &["fsck"]);

        let borrowing = scene.sandbox.path("borrowing");
        scene.git(&repo, &["clone", "-q", "--shared", ".", borrowing.to_str().unwrap()]);
        let (plan, _) = scene.make(&borrowing, "of-borrowing");
        fs::rename(&repo, scene.sandbox.path("moved")).unwrap();
        scene.git(&plan.workspace, &["fsck"]);
        fs::rename(scene.sandbox.path("moved"), &repo).unwrap();

        scene.git(&repo, &["config", "uploadpack.allowFilter", "true"]);
        let partial = clone(&["--filter=blob:none"], "partial");
        let error = scene.try_plan(&partial, "of-partial", None, None).unwrap_err();
        assert!(error.to_string().contains("partial clone"), "{error}");
    });
}

#[test]
fn p24_a_failed_make_leaves_nothing_behind() {
    hermetic(|scene| {
        let repo = scene.repo();
        let mut plan = scene.plan(&repo, "job");
        plan.base = Some("1234567890123456789012345678901234567890".to_owned());
        make(&plan, &MakeOptions::default()).unwrap_err();
        assert!(!plan.home().exists());
        assert_eq!(fs::read_dir(scene.workspaces().join("trash")).unwrap().count(), 0);
        let refs = scene.git(plan.mirror.as_deref().unwrap(), &["for-each-ref", "refs/waypost/keep"]);
        assert_eq!(refs, "");
        let gone = scene.plan(&repo, "gone");
        fs::rename(&repo, scene.sandbox.path("moved")).unwrap();
        fs::rename(scene.mirrors(), scene.sandbox.path("old-mirrors")).unwrap();
        make(&gone, &MakeOptions::default()).unwrap_err();
        assert!(!gone.home().exists());
    });
}

#[test]
fn a_serialized_plan_abandons_only_its_own_workspace() {
    hermetic(|scene| {
        let repo = scene.repo();
        let (plan, _) = scene.make(&repo, "job");
        let read: Plan = serde_json::from_str(&serde_json::to_string(&plan).unwrap()).unwrap();
        assert_eq!(read, plan);
        make(&plan, &MakeOptions::default()).unwrap_err();
        assert!(plan.workspace.join("file").exists(), "a second make does not remove the first workspace");
        scene.try_plan(&repo, "job", None, None).unwrap_err();
        let mut other = plan.clone();
        other.branch = Some("else".to_owned());
        abandon(&other).unwrap_err();
        assert!(plan.workspace.join("file").exists());
        abandon(&read).unwrap();
        assert!(!plan.home().exists());
        abandon(&read).unwrap();
        // Interrupted before the plan file was written.
        fs::create_dir(plan.home()).unwrap();
        abandon(&read).unwrap();
        assert!(!plan.home().exists());
    });
}
