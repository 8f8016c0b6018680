//! `way search`.

use crate::support::issues::many;
use crate::support::ledger::ids;
use crate::support::sandbox;

#[test]
fn issues_with_all_words_are_listed_and_no_word_is_refused() {
    let sandbox = sandbox();
    let repo = many(&sandbox);
    assert_eq!(ids(&sandbox, &repo, &["search", "api"]), ["r-1", "r-3"]);
    assert_eq!(ids(&sandbox, &repo, &["search", "thing", "old"]), ["r-4"]);
    assert_eq!(ids(&sandbox, &repo, &["search", "nowhere"]), Vec::<String>::new());
    for none in ["", " "] {
        let _ = sandbox.way(&repo, ["search", none]).fails(2);
    }
}

/// What a caller may search for, in every form that means something to FTS5, to SQL, to a shell or to a regular expression.
#[test]
fn t28_every_form_of_a_search_is_plain_words_or_a_clear_error() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let _ = sandbox.way(&repo, ["add", "Fix the login", "-d", "quote \" star * 100% a:b title"]).ok();
    let finds = |words: &str| -> bool {
        let run = sandbox.way(&repo, ["search", "--json", "--", words]);
        assert!(run.code == 0 && run.stderr.is_empty(), "{words:?}: {run:#?}");
        !run.data().as_array().unwrap().is_empty()
    };
    for words in [
        "login",
        "LOGIN fix",
        "log",
        "login*",
        "\"login",
        "login\"",
        "^login",
        "\"",
        "*",
        "%",
        "a:b",
        "-login",
        "'login'",
        "(login",
    ] {
        assert!(finds(words), "{words}");
    }
    for words in [
        "NEAR(fix login, 5)",
        "fix NEAR login",
        "fix AND login",
        "fix OR nothing",
        "login NOT nothing",
        "title:login",
        "{title body} : login",
        "rowid:1",
        "rank:bm25",
        "login\"; DROP TABLE text; --",
        "\"\"",
        "{",
        "(zz+)+$",
        ".*",
        "[",
        "\\",
        "_",
        "\u{1f389}",
        "\u{1f389}*",
        "\u{202e}",
        "\u{feff}",
        "\u{1}",
        "\u{1b}[2J",
        "\u{fdfa}",
        "--",
    ] {
        assert!(!finds(words), "{words}");
    }
    let long = |words: String, expected: &str| {
        let run = sandbox.way(&repo, ["search", "--json", "--", &words]).fails(2);
        assert!(run.error()["message"].as_str().unwrap().contains(expected), "{run:#?}");
    };
    let words: Vec<String> = (0..101).map(|word| word.to_string()).collect();
    long(words.join(" "), "a search takes 1 to 100 words, not 101");
    for piece in ["\"", "(", "NEAR(", "a* ", "\u{1f389}"] {
        long(piece.repeat(1_001), "and at most 1000 are allowed");
    }
    assert!(finds(&"login ".repeat(150)), "repeated words count once");
}
