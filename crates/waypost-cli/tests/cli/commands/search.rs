//! `way search`: words in all texts.

use crate::support::issues::many;
use crate::support::ledger::ids;
use crate::support::sandbox;

#[test]
fn a_wrong_query_is_refused_and_does_not_damage_the_index() {
    let sandbox = sandbox();
    let repo = many(&sandbox);
    assert_eq!(ids(&sandbox, &repo, &["list"]).len(), 4);
    let index = std::fs::read_link(repo.join(".git/waypost/index.db")).unwrap();
    let labels: Vec<String> = (0..1_001).flat_map(|number| ["-l".to_owned(), format!("l{number}")]).collect();
    let many: Vec<&str> = ["list"].into_iter().chain(labels.iter().map(String::as_str)).collect();
    let asked: &[&[&str]] =
        &[&["search", ""], &["search", " "], &many, &["list", "-p", "3-1"], &["add", "x", "-l", "a\nb"]];
    for args in asked {
        let _ = sandbox.way(&repo, args.iter()).fails(2);
    }
    let _ = sandbox.way(&repo, ["prune", "--keep", "18446744073709551615"]).fails(6);
    assert_eq!(std::fs::read_link(repo.join(".git/waypost/index.db")).unwrap(), index);
}

#[test]
fn words_are_found_in_every_text_and_script() {
    let sandbox = sandbox();
    let repo = many(&sandbox);
    let _ = sandbox.way(&repo, ["comment", "r-2", "漢字の説明 here"]).ok();
    for (words, expected) in [
        ("api", "r-1 r-3"),
        ("AP", "r-1 r-3"),
        ("apfel", "r-3"),
        ("strasse", ""),
        ("説明", "r-2"),
        ("r-4", "r-4"),
        ("thing old", "r-4"),
        ("gone", ""),
        ("\"", ""),
        ("api AND docs", ""),
        ("api* OR", ""),
        ("title:api", ""),
    ] {
        let found = ids(&sandbox, &repo, &["search", words]);
        assert_eq!(found.join(" "), expected, "{words}");
    }
    // A changed issue is found by its new text, and no longer by its old one.
    let _ = sandbox.way(&repo, ["update", "r-1", "--title", "Mend the gateway"]).ok();
    assert_eq!(ids(&sandbox, &repo, &["search", "gateway"]), ["r-1"]);
    assert_eq!(ids(&sandbox, &repo, &["search", "api"]), ["r-3"]);
}
