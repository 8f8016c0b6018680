//! Ledgers whose content is not in the tree: sparse checkouts, Git LFS, files without a record.

use serde_json::json;
use waypost::Kind;
use waypost::issues::{Push, SyncOptions, merge_files, sync};

use crate::desk::{Desk, LEDGER, refusal};

/// A pointer as Git LFS writes it.
const POINTER: &str = "version https://git-lfs.github.com/spec/v1
oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393
size 12345
";

/// A repository with a committed ledger, which has one issue.
fn with_ledger() -> (Desk, String) {
    let desk = Desk::new();
    let id = desk.add("In the commit");
    desk.write("src/main.c", "int main;\n");
    desk.commit("all");
    (desk, id)
}

/// Expects that neither a read nor a write takes the ledger for empty, and that the write makes no file.
#[track_caller]
fn is_refused(desk: &Desk, hint: &str) {
    let synced = desk.changing(|cx| {
        let options = SyncOptions { push: Push::Nothing, dry_run: false, timeout: None, accept_growth: false };
        sync(&cx.ledger.repos()[0], &cx.place.variables, options, &|_| ())
    });
    let counted = desk.reading(|cx| cx.with_index(|index| index.counts(cx.now)));
    let mut said = vec![refusal(Kind::Unavailable, synced), refusal(Kind::Unavailable, counted)];
    for (operation, arguments) in [
        ("list_issues", json!({})),
        ("list_ready_issues", json!({})),
        ("show_issue", json!({ "issue": "x" })),
        ("add_issue", json!({ "title": "New" })),
    ] {
        said.push(desk.refused(Kind::Unavailable, operation, arguments));
    }
    for said in said {
        assert!(said.contains("is not in the tree, but in the commit") && said.contains(hint), "{said}");
    }
    assert!(!desk.path(LEDGER).exists(), "nothing made a second ledger");
}

#[test]
fn a_ledger_outside_the_sparse_checkout_is_not_taken_for_an_empty_one() {
    let (desk, id) = with_ledger();
    desk.git(["sparse-checkout", "set", "--cone", "src"]);
    is_refused(&desk, "git sparse-checkout add .waypost");
    desk.git(["sparse-checkout", "add", ".waypost"]);
    assert_eq!(desk.list(json!({})), [id]);
}

#[test]
fn a_ledger_that_a_pull_brings_outside_the_sparse_checkout_is_noticed() {
    let (desk, _) = with_ledger();
    desk.git(["branch", "before", "HEAD~"]);
    desk.git(["clone", "-q", "--branch", "before", "--no-local", ".", "../clone"]);
    let clone = desk.in_dir("clone");
    clone.git(["sparse-checkout", "set", "--cone", "src"]);
    assert!(clone.list(json!({})).is_empty(), "this commit has no ledger");
    clone.git(["merge", "-q", "--ff-only", "origin/main"]);
    is_refused(&clone, "git sparse-checkout add .waypost");
}

#[test]
fn a_ledger_with_the_skip_worktree_bit_is_not_taken_for_an_empty_one() {
    let (desk, id) = with_ledger();
    desk.git(["update-index", "--skip-worktree", LEDGER]);
    assert_eq!(desk.list(json!({})), std::slice::from_ref(&id), "as long as the file exists, it counts");
    std::fs::remove_file(desk.path(LEDGER)).unwrap();
    is_refused(&desk, &format!("git update-index --no-skip-worktree {LEDGER}, git restore {LEDGER}"));
    desk.git(["update-index", "--no-skip-worktree", LEDGER]);
    desk.git(["restore", LEDGER]);
    assert_eq!(desk.list(json!({})), [id]);
}

#[test]
fn a_deleted_ledger_is_refused_until_git_knows_that_it_was_meant() {
    let (desk, _) = with_ledger();
    std::fs::remove_file(desk.path(LEDGER)).unwrap();
    is_refused(&desk, &format!("git restore {LEDGER}, or to begin a new one: git rm {LEDGER}"));
    desk.git(["rm", "-q", LEDGER]);
    assert!(desk.list(json!({})).is_empty());
    let id = desk.add("A new beginning");
    assert_eq!(desk.list(json!({})), [id]);
}

#[test]
fn a_hidden_ledger_of_another_tool_is_not_replaced_by_ours() {
    let desk = Desk::new();
    desk.write(".beads/issues.jsonl", "{\"id\":\"bd-1\",\"title\":\"Theirs\",\"status\":\"open\"}\n");
    desk.write("src/main.c", "int main;\n");
    desk.commit("all");
    assert_eq!(desk.list(json!({})), ["bd-1"]);
    desk.git(["sparse-checkout", "set", "--cone", "src"]);
    is_refused(&desk, "git sparse-checkout add .beads");
}

#[test]
fn nothing_is_appended_to_a_pointer_of_git_lfs() {
    let desk = Desk::new();
    desk.write_ledger(POINTER);
    for (operation, arguments) in [
        ("list_issues", json!({})),
        ("list_ready_issues", json!({})),
        ("add_issue", json!({ "title": "New" })),
        ("close_issue", json!({ "issue": "x" })),
    ] {
        let said = desk.refused(Kind::Unavailable, operation, arguments);
        assert!(said.contains("this is a pointer of Git LFS, not the ledger"), "{said}");
        assert!(said.contains("git lfs pull"), "{said}");
    }
    assert_eq!(desk.file(), POINTER);
}

#[test]
fn the_merge_driver_fails_on_files_without_a_readable_record() {
    let desk = Desk::new();
    let ledger = "{\"id\":\"a-1\",\"title\":\"One\"}\n";
    let merged = |contents: [&str; 3]| {
        let files = ["base", "ours", "theirs"];
        files.iter().zip(contents).for_each(|(file, content)| desk.write(file, content));
        let [base, ours, theirs] = files.map(|file| desk.path(file));
        merge_files(&base, &ours, &theirs)
    };
    for (name, content) in [("pointer", POINTER), ("locked", "\0GITCRYPT\0\u{1}\u{2}abc"), ("text", "not a ledger\n")] {
        for contents in [[ledger, content, ledger], [ledger, ledger, content], [content, ledger, ledger]] {
            assert!(merged(contents).is_err(), "{name}");
        }
    }
    // An empty file is a ledger without issues.
    assert_eq!(merged(["", "", ledger]).unwrap(), ledger.as_bytes());
}
