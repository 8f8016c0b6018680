//! Mirrors after a power cut: damage is found and repaired, and snapshots stay.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use waypost_testkit::strace;

use crate::support::jobs::{Shop, path};
use crate::support::mirrors::{broken, empty, is_restored, mirror, saved};

#[test]
fn a_mirror_with_an_empty_head_or_configuration_is_repaired_on_use() {
    let shop = Shop::new();
    let snapshot = saved(&shop);
    let mirror = mirror(&shop);
    for damaged in [&["HEAD"][..], &["config"], &["HEAD", "config"]] {
        for file in damaged {
            empty(&mirror.join(file));
        }
        let _ = shop.way(["ws", "new"]).ok();
        for file in damaged {
            empty(&mirror.join(file));
        }
        is_restored(&shop, &snapshot);
        for file in damaged {
            empty(&mirror.join(file));
        }
        assert!(shop.way(["ws", "snapshots"]).ok().stdout.contains(&snapshot), "{damaged:?}");
    }
    fs::remove_file(mirror.join("HEAD")).unwrap();
    let _ = shop.way(["ws", "new"]).ok();
    is_restored(&shop, &snapshot);
    assert_eq!(shop.sandbox.git(&mirror, ["config", "gc.pruneExpire"]), "never\n");
    shop.sandbox.git(&mirror, ["fsck", "--strict"]);
}

#[test]
fn locks_of_a_killed_git_do_not_block_a_mirror() {
    let shop = Shop::new();
    let made = shop.way(["ws", "new", "--json"]).data();
    let workspace = made["id"].as_str().unwrap();
    let mirror = mirror(&shop);
    let locks = ["packed-refs.lock".to_owned(), format!("refs/waypost/keep/{workspace}/base.lock")];
    let locks = locks.map(|lock| mirror.join(lock));
    for lock in &locks {
        shop.sandbox.write(lock, "");
    }
    // While a git runs there, the locks may be its own.
    let mut running = shop.sandbox.command("git", &shop.repo);
    running.arg(format!("--git-dir={}", mirror.display())).args(["cat-file", "--batch"]);
    let mut running = running.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let refused = shop.way(["ws", "rm", workspace]).fails(4);
    assert!(refused.stderr.contains(".lock"), "{refused:?}");
    assert!(locks.iter().all(|lock| lock.exists()));
    drop(running.stdin.take());
    running.wait().unwrap();
    let _ = shop.way(["ws", "rm", workspace]).ok();
    assert!(!path(&made["path"]).exists());
    let other = shop.way(["ws", "new", "--json"]).data();
    shop.sandbox.write(&locks[0], "");
    let _ = shop.way(["ws", "rm", other["id"].as_str().unwrap()]).ok();
    assert!(!locks.iter().any(|lock| lock.exists()));
}

#[test]
fn empty_refs_of_a_mirror_are_moved_aside_and_the_others_stay() {
    let shop = Shop::new();
    let (lost, kept) = (saved(&shop), saved(&shop));
    let mirror = mirror(&shop);
    let lost = mirror.join("refs/waypost/snapshots").join(lost);
    empty(&lost);
    let template = fs::read_dir(mirror.join("refs/waypost/templates")).unwrap().next().unwrap().unwrap().path();
    empty(&template);
    shop.sandbox.write(mirror.join("refs/waypost/zeros"), [0; 41]);
    let _ = shop.way(["ws", "new"]).ok();
    is_restored(&shop, &kept);
    let aside = mirror.join("damaged/refs/waypost");
    assert!(!lost.exists() && aside.join("zeros").exists(), "{aside:?}");
    assert!(aside.join("snapshots").join(lost.file_name().unwrap()).exists());
    let _ = shop.way(["doctor"]).ok();
}

#[test]
fn empty_packs_and_objects_of_a_mirror_are_rebuilt_or_fetched() {
    let shop = Shop::new();
    let snapshot = saved(&shop);
    let mirror = mirror(&shop);
    let packs = |kind: &str| -> Vec<PathBuf> {
        let files = fs::read_dir(mirror.join("objects/pack")).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|file| file.extension().is_some_and(|found| found == kind)).collect()
    };
    // The index of a pack can be rebuilt.
    let indexes = packs("idx");
    assert!(!indexes.is_empty());
    for file in indexes.iter().chain(&packs("rev")) {
        empty(file);
    }
    let _ = shop.way(["ws", "new"]).ok();
    is_restored(&shop, &snapshot);
    // The objects of the source can be fetched again. It still has them.
    let tree = shop.sandbox.git(&shop.repo, ["rev-parse", "HEAD^{tree}"]);
    let tree = mirror.join("objects").join(&tree[..2]).join(tree[2..].trim_end());
    assert!(tree.exists(), "the mirror links the loose objects of its source");
    empty(&tree);
    let _ = broken(&shop, &["doctor"]);
    let _ = shop.way(["doctor", "--fix"]).ok();
    let _ = shop.way(["ws", "new"]).ok();
    is_restored(&shop, &snapshot);
    let refs = || shop.sandbox.git(&mirror, ["for-each-ref", "refs/waypost/snapshots"]);
    assert!(refs().contains(&snapshot));
    // Objects that only the mirror had are lost, and doctor reports it.
    let refs_before = refs();
    for file in packs("pack") {
        empty(&file);
    }
    let said = broken(&shop, &["doctor", "--fix"]);
    assert!(said.contains(&snapshot) && said.contains("damaged"), "{said}\n{refs_before}");
    let _ = shop.way(["ws", "new"]).ok();
    let _ = shop.way(["doctor"]).ok();
}

#[test]
fn a_mirror_and_a_template_are_synced_before_they_get_their_names() {
    strace();
    let shop = Shop::new();
    let log = shop.sandbox.path("calls");
    let way = shop.command();
    let mut command = shop.sandbox.command("strace", &shop.repo);
    command.args(["-y", "-e", "trace=syncfs,rename,renameat,renameat2", "-o"]).arg(&log).arg(way.get_program());
    let output = command.args(["ws", "new"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let calls = fs::read_to_string(&log).unwrap();
    let calls: Vec<&str> = calls.lines().collect();
    for new in [".new", ".templates/new"] {
        let is_naming = |call: &str| call.starts_with("rename") && call.contains(&format!("{new}\", "));
        let renamed = calls.iter().position(|call| is_naming(call) && call.contains("/mirrors/"));
        let renamed = renamed.unwrap_or_else(|| panic!("{new}: {calls:#?}"));
        let synced =
            calls[..renamed].iter().position(|call| call.starts_with("syncfs") && call.contains(&format!("{new}>")));
        assert!(synced.is_some(), "{new}: {calls:#?}");
    }
}
