//! The ledger: the file is authoritative, and one write changes one line.

use std::process::{Child, Stdio};

use serde_json::Value;
use waypost_testkit::{Corpus, Run, corpora, unavailable};

use crate::support::ledger::{LEDGER, add, at_once, ids, lines};
use crate::support::sandbox;

#[test]
fn b16_a_hundred_and_fifty_concurrent_adds_lose_no_issue() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    for output in at_once(&sandbox, &repo, 150, |number| vec!["add".into(), format!("Issue {number}")]) {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let found = lines(&repo.join(LEDGER));
    assert_eq!(found.len(), 150);
    assert!(found.is_sorted(), "in the order of ids");
    assert_eq!(ids(&sandbox, &repo, &["list", "--limit", "0"]).len(), 150);
    assert_eq!(std::fs::read_dir(repo.join(".waypost")).unwrap().count(), 1, "nothing is left beside the ledger");
}

#[test]
fn killed_writers_leave_every_acknowledged_issue_and_a_valid_file() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let mut acknowledged = Vec::new();
    for round in 0..200 {
        let mut writers: Vec<Child> = (0..2)
            .map(|_| {
                let script = format!("while :; do '{}' add round{round} || exit 1; done", env!("CARGO_BIN_EXE_way"));
                let mut command = sandbox.command("sh", &repo);
                std::os::unix::process::CommandExt::process_group(&mut command, 0);
                command.args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        let mut first = std::io::BufReader::new(writers[0].stdout.take().unwrap());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut first, &mut line).unwrap();
        for writer in &mut writers {
            let group = format!("-{}", writer.id());
            sandbox.command("kill", &repo).args(["-9", "--", &group]).status().unwrap();
            writer.wait().unwrap();
        }
        std::io::Read::read_to_string(&mut first, &mut line).unwrap();
        acknowledged.extend(
            line.split_inclusive('\n')
                .filter_map(|line| line.strip_prefix("Added ")?.strip_suffix('\n').map(str::to_owned)),
        );
    }
    let stored = ids(&sandbox, &repo, &["list", "--limit", "0"]);
    assert!(acknowledged.len() >= 200, "{}", acknowledged.len());
    assert!(acknowledged.iter().all(|id| stored.contains(id)));
    let doctor = sandbox.way(&repo, ["doctor"]);
    assert!(doctor.stdout.contains("ok     ledger"), "{}", doctor.stdout);
}

#[test]
fn a_full_disk_leaves_the_ledger_as_it_was() {
    let sandbox = sandbox();
    let dir = sandbox.dir("mounted");
    let mount =
        sandbox.command("mount", &dir).args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(&dir).status().unwrap();
    if !mount.success() {
        unavailable("this user may not mount");
    }
    let repo = sandbox.git_repo("mounted/repo");
    add(&sandbox, &repo, &["First"]);
    let before = std::fs::read(repo.join(LEDGER)).unwrap();
    let filler = format!("of={}", dir.join("filler").display());
    let _ = sandbox.command("dd", &dir).args(["if=/dev/zero", "bs=4k", &filler]).output().unwrap();
    let run = sandbox.way(&repo, ["add", "Second"]);
    let after = std::fs::read(repo.join(LEDGER)).unwrap();
    let left = std::fs::read_dir(repo.join(".waypost")).unwrap().count();
    sandbox.command("umount", &repo.join("..").join("..")).args(["--lazy"]).arg(&dir).status().unwrap();
    assert_eq!(run.code, 8, "{run:?}");
    assert!(run.stderr.contains("cannot write the ledger"), "{}", run.stderr);
    assert_eq!((after, left), (before, 1));
}

#[test]
fn b29_ledgers_of_other_tools_are_read_damage_is_reported_once_and_a_write_loses_nothing() {
    let of = |corpus: Corpus| corpus.ledgers().into_iter().map(move |name| (corpus.path(&name), name));
    for (file, name) in corpora().into_iter().flat_map(of) {
        let sandbox = sandbox();
        let repo = sandbox.git_repo("repo");
        sandbox.dir("repo/.waypost");
        std::fs::copy(&file, repo.join(LEDGER)).unwrap();
        let before = lines(&repo.join(LEDGER));
        assert!(ids(&sandbox, &repo, &["list", "--all", "--limit", "0"]).len() > 50, "{name}");
        let run = sandbox.way(&repo, ["doctor", "--json"]);
        assert_eq!(run.code, if name.contains("bad-line") || name.contains("markers") { 9 } else { 0 }, "{name}");
        let doctor: Value = serde_json::from_str(&run.stdout).unwrap();
        let doctor = &doctor["data"];
        let reported: Vec<&str> = doctor
            .as_array()
            .unwrap()
            .iter()
            .filter(|finding| finding["check"] == "ledger" && finding["verdict"] != "ok")
            .map(|finding| finding["detail"].as_str().unwrap())
            .collect();
        let about = |what: &str| reported.iter().filter(|detail| detail.contains(what)).count();
        let unreadable = usize::from(name.contains("bad-line"));
        assert_eq!(about("cannot be read"), unreadable, "{name}");
        assert_eq!(about("conflict marker"), if name.contains("markers") { 6 } else { 0 }, "{name}");
        add(&sandbox, &repo, &["One more"]);
        let after = lines(&repo.join(LEDGER));
        if name.contains("markers") {
            // The next write resolves the conflict of a merge: each issue once, and none is missing.
            let ids_of = |lines: &[String]| -> std::collections::BTreeSet<String> {
                let records = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
                records.map(|record| record["id"].as_str().unwrap().to_owned()).collect()
            };
            let (old, new) = (ids_of(&before), ids_of(&after));
            assert!(old.is_subset(&new) && new.len() == old.len() + 1 && after.len() == new.len(), "{name}");
            continue;
        }
        assert_eq!(after.len(), before.len() + 1, "{name}");
        let kept: std::collections::HashSet<&String> = after.iter().collect();
        assert!(before.iter().all(|line| kept.contains(line)), "{name}");
    }
}

#[test]
fn a_concurrent_checkout_loses_no_line_of_either_side() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    let version = |count: usize| -> String {
        (0..count).map(|number| format!("{{\"id\":\"r-{number:05}\",\"title\":\"t\"}}\n")).collect::<Vec<_>>().concat()
    };
    sandbox.write(repo.join(LEDGER), version(2000));
    sandbox.git(&repo, ["add", "."]);
    sandbox.git(&repo, ["commit", "-q", "-m", "old"]);
    sandbox.git(&repo, ["branch", "old"]);
    sandbox.write(repo.join(LEDGER), version(3000));
    sandbox.git(&repo, ["commit", "-q", "-a", "-m", "new"]);
    for round in 0..40 {
        sandbox.git(&repo, ["checkout", "-q", "-f", "old"]);
        let adding = sandbox
            .way_command(&repo)
            .args(["add", "--json", "meanwhile"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Git may see the new issue, and then refuses to overwrite it.
        let checkout = sandbox.command("git", &repo).args(["checkout", "-q", "main"]).output().unwrap();
        let id = Run::of(&adding.wait_with_output().unwrap()).data()["id"].as_str().unwrap().to_owned();
        let found = ids(&sandbox, &repo, &["list", "--limit", "0"]);
        let theirs = found.iter().filter(|id| id.len() == "r-00000".len()).count();
        assert_eq!(theirs, if checkout.status.success() { 3000 } else { 2000 }, "round {round}");
        assert!(found.contains(&id), "round {round}: {id} was acknowledged and is gone");
    }
}
