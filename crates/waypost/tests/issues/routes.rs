//! The ledger that a new issue goes to, and the id it gets there.

use serde_json::json;
use waypost::Kind;
use waypost::issues::{Repos, Route, role};

use crate::desk::{Desk, LEDGER, refusal};

#[test]
fn new_ids_follow_beads_then_the_ledger_then_the_remote_then_the_directory() {
    let desk = Desk::in_new_sandbox(|sandbox| sandbox.git_repo("elsewhere"));
    let prefix = || {
        let id = desk.add("New");
        desk.forget_ledger();
        id.rsplit_once('-').unwrap().0.to_owned()
    };
    assert_eq!(prefix(), "elsewhere");
    desk.git(["remote", "add", "origin", "git@example.org:team/The-Project.git"]);
    assert_eq!(prefix(), "the-project");
    let known =
        [r#"{"id":"app-1","title":"One"}"#, r#"{"id":"app-2.1","title":"Two"}"#, r#"{"id":"zoo-1","title":"3"}"#];
    desk.write_lines(&known);
    assert_eq!(prefix(), "app");
    desk.write_lines(&[r#"{"id":"BV-1","title":"One"}"#]);
    assert_eq!(prefix(), "BV", "the spelling of the records stays");
    desk.write(".beads/config.yaml", "# beads\nissue-prefix: \"bd\"\n");
    desk.write_lines(&known);
    assert_eq!(prefix(), "bd");
    desk.set("prefix", "mine");
    assert_eq!(prefix(), "mine");
}

#[test]
fn clones_in_directories_of_any_name_give_new_ids_the_same_prefix() {
    let seed = Desk::in_new_sandbox(|sandbox| sandbox.git_repo("seed"));
    seed.git(["clone", "-q", "--bare", ".", "../project.git"]);
    for name in ["one", "two"] {
        seed.in_dir("").git(["clone", "-q", "project.git", name]);
        let clone = seed.in_dir(name);
        let id = clone.add("New");
        assert!(id.starts_with("project-"), "{name}: {id}");
        let repo = clone.enter(|place| waypost::issues::primary(&place)).unwrap();
        assert_eq!(repo.recorded_prefix().unwrap().as_deref(), Some("project"), "{name}");
    }
    // A ledger keeps its prefix when the project gets another name.
    let one = seed.in_dir("one");
    one.git(["remote", "set-url", "origin", "../renamed.git"]);
    assert!(one.add("Later").starts_with("project-"));
}

/// The directory that new issues go to; none if each has to name its own.
fn target(desk: &Desk) -> Option<std::path::PathBuf> {
    desk.enter(|place| {
        let repos = Repos::of(&place)?;
        let route = Route::of(&place, &repos)?;
        Ok((!route.needs_repo).then(|| repos.all[route.number].path().to_owned()))
    })
    .unwrap()
}

#[test]
fn explicit_routing_needs_the_repository_of_each_new_issue() {
    let desk = Desk::new();
    let other = desk.repository("other");
    for has_other in [false, true] {
        if has_other {
            desk.add_repo("../other");
        }
        desk.set("routing.mode", "explicit");
        assert_eq!(target(&desk), None);
        let said = desk.refused(Kind::Invalid, "add_issue", json!({ "title": "Where?" }));
        assert!(said.contains("routing.mode is explicit") && said.contains("--repo"), "{said}");
        refusal(Kind::Invalid, desk.batch(&[json!({ "op": "add", "title": "Where?" })]));
        let here = desk.add_with("Here", json!({ "repo": "." }));
        // A part goes to the ledger of its whole.
        desk.add_with("Part", json!({ "parent": &here }));
    }
    assert_eq!(desk.lines().len(), 4);
    desk.add_with("There", json!({ "repo": "../other" }));
    desk.set("routing.default", other.dir.to_str().unwrap());
    desk.add("By default");
    assert_eq!(other.lines().len(), 2);
}

#[test]
fn b6_roles_and_routes_decide_where_new_issues_go() {
    let (ssh, https) = (Some("git@example.org:a/b"), Some("https://example.org/a/b"));
    let (auto, planning) = (("routing.mode", "auto"), "../planning");
    for (remote, config, expected, goes_to) in [
        (None, &[][..], "maintainer", "repo"),
        (ssh, &[], "maintainer", "repo"),
        // A guessed role alone changes nothing.
        (https, &[], "contributor", "repo"),
        (https, &[auto, ("routing.auto.contributor", planning)], "contributor", "planning"),
        (ssh, &[auto, ("routing.auto.contributor", planning)], "maintainer", "repo"),
        (ssh, &[auto, ("routing.auto.maintainer", planning)], "maintainer", "planning"),
        (https, &[("role", "maintainer"), auto, ("routing.auto.contributor", planning)], "maintainer", "repo"),
        (None, &[("role", "contributor"), ("repos.additional", planning)], "contributor", "planning"),
        (https, &[("routing.mode", "explicit"), ("routing.default", planning)], "contributor", "planning"),
    ] {
        let desk = Desk::new();
        let other = desk.repository("planning");
        if let Some(remote) = remote {
            desk.git(["remote", "add", "origin", remote]);
        }
        for (key, value) in config {
            desk.set(key, value);
        }
        let (role, source) = desk.enter(|place| Ok(role(&place))).unwrap();
        assert_eq!(role.to_string(), expected, "{remote:?} {config:?}");
        assert!(!source.because.is_empty());
        assert_eq!(target(&desk), Some(desk.sandbox.path(goes_to)), "{remote:?} {config:?}");
        desk.add("x");
        let has_ledger = [&desk, &other].map(|desk| desk.path(LEDGER).exists());
        assert_eq!(has_ledger, [goes_to == "repo", goes_to == "planning"], "{remote:?} {config:?}");
    }
    let desk = Desk::new();
    desk.git(["config", "waypost.role", "contributor"]);
    let source = |desk: &Desk| desk.enter(|place| Ok(role(&place))).unwrap().1;
    assert_eq!(source(&desk).because, "git config waypost.role");
    assert_eq!(source(&desk.with_flag("role=maintainer")).source, "flag");
    refusal(Kind::Invalid, desk.with_flag("role=boss").place());
}

#[test]
fn b7_parts_and_discovered_issues_go_to_the_ledger_of_their_origin() {
    let one = Desk::in_new_sandbox(|sandbox| sandbox.git_repo("one"));
    one.write_lines(&[r#"{"id":"a-1","title":"One"}"#]);
    let two = one.repository_with("two", r#"{"id":"b-1","title":"Two"}"#);
    one.add_repo("../two");
    one.add_with("Part", json!({ "parent": "b-1" }));
    one.add_with("Found", json!({ "discovered_from": "b-1" }));
    assert_eq!((one.lines().len(), two.lines().len()), (1, 3));
    one.batch(&[
        json!({ "op": "add", "title": "Whole", "parent": "b-1", "as": "whole" }),
        json!({ "op": "add", "title": "Part", "parent": "$whole" }),
        json!({ "op": "add", "title": "Own", "as": "own" }),
        json!({ "op": "add", "title": "Other", "blocked_by": ["$own"] }),
    ])
    .unwrap();
    assert_eq!((one.lines().len(), two.lines().len()), (3, 5));
}

#[test]
fn a_link_out_of_the_repository_is_not_written_through() {
    let desk = Desk::new();
    let outside = desk.sandbox.dir("outside");
    std::os::unix::fs::symlink(&outside, desk.path(".waypost")).unwrap();
    desk.refused(Kind::Refused, "add_issue", json!({ "title": "secret" }));
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}
