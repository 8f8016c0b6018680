//! What people may write who do not maintain a project.

use serde_json::{Value, json};
use waypost::Kind;
use waypost::issues::record_chosen_role;

use crate::desk::{Desk, LEDGER, contributor, id, message_and_hints, plan_apart, refusal};

#[test]
fn a_declared_contributor_never_writes_the_projects_ledger_in_any_mode() {
    let (_, fork, planning) = contributor();
    let before = fork.file();
    let check = |what: &str| {
        for (operation, arguments) in [
            ("add_issue", json!({ "title": "Mine", "repo": "." })),
            ("update_issue", json!({ "issue": "up-1", "title": "Mine" })),
            ("close_issue", json!({ "issue": "up-1" })),
            ("add_comment", json!({ "issue": "up-1", "text": "mine" })),
            ("claim_issue", json!({ "issue": "up-1" })),
        ] {
            let said = fork.refused(Kind::Refused, operation, arguments);
            assert!(said.contains("way propose"), "{what}, {operation}: {said}");
        }
        let _ = fork.request("add_issue", json!({ "title": "Mine" }));
        assert_eq!(fork.file(), before, "{what}");
    };
    check("auto");
    fork.set("routing.mode", "explicit");
    check("explicit");
    fork.set("routing.default", ".");
    check("explicit, with this repository as the default");
    fork.unset("routing.mode");
    fork.unset("routing.default");
    check("single");
    fork.set("routing.mode", "auto");
    std::fs::rename(&planning.dir, fork.sandbox.path("gone")).unwrap();
    let said = fork.refused(Kind::Refused, "add_issue", json!({ "title": "Mine", "repo": "." }));
    assert!(said.contains("you may not write the ledger"), "{said}");
    assert_eq!(fork.file(), before, "the planning is gone");
}

#[test]
fn a_contributor_is_offered_only_issues_that_they_may_claim() {
    let (_, fork, _) = contributor();
    let ada = fork.agent("ada");
    let said = ada.refused(Kind::NothingToDo, "claim_issue", json!({}));
    assert!(said.contains("nothing is ready"), "{said}");
    let mine = fork.add_with("Explore dark mode", json!({ "priority": 4 }));
    assert_eq!(fork.ready(), [mine.as_str()]);
    let explained = fork.explain("up-1");
    assert_eq!((&explained["ready"], &explained["reasons"]), (&false.into(), &json!(["you may not write its ledger"])));
    assert_eq!(id(&ada.run("claim_issue", json!({}))["issue"]), mine);
}

/// A clone of another project, as its remotes show.
fn fork(name: &str) -> Desk {
    let desk = Desk::in_new_sandbox(|sandbox| sandbox.git_repo(name));
    desk.git(["remote", "add", "origin", "git@example.org:me/p"]);
    desk.git(["remote", "add", "upstream", "https://example.org/team/p"]);
    desk
}

const NOTE: &str = "you may not have write access to this project";

fn notes(desk: &Desk, operation: &str, arguments: Value) -> bool {
    let warnings =
        desk.request(operation, arguments).unwrap_or_else(|error| panic!("{}", message_and_hints(&error))).warnings;
    warnings.iter().any(|warning| warning.contains(NOTE))
}

fn status(desk: &Desk) -> String {
    desk.git(["status", "--porcelain", "-uall"])
}

/// A name, and how a person chooses.
type Choice<'a> = (&'a str, &'a dyn Fn(&Desk));

#[test]
fn a_fork_is_noted_once_and_its_issues_are_hidden_until_a_person_chooses() {
    let chosen = |desk: &Desk| desk.enter(|place| record_chosen_role(&place)).unwrap();
    let choices: [Choice<'_>; 2] = [("init", &chosen), ("config", &|desk| desk.set("role", "maintainer"))];
    for (name, choose) in choices {
        let desk = fork(name);
        assert!(notes(&desk, "add_issue", json!({ "title": "Mine" })), "{name}");
        assert_eq!(status(&desk), "", "{name}");
        assert!(!notes(&desk, "list_issues", json!({})));
        assert_eq!(desk.list(json!({})).len(), 1);
        let synced = desk.changing(|cx| {
            let options = waypost::issues::SyncOptions {
                push: waypost::issues::push_setting(&cx.place),
                dry_run: false,
                timeout: None,
                accept_growth: false,
            };
            waypost::issues::sync(&cx.ledger.repos()[0], &cx.place.variables, options, &|_| ())
        });
        let said = refusal(Kind::Refused, synced);
        assert!(said.contains("you have not chosen"), "{said}");
        assert!(std::fs::read_to_string(desk.path(".git/info/exclude")).unwrap().contains("/.waypost/\n"));
        choose(&desk);
        desk.list(json!({}));
        assert!(status(&desk).contains(&format!("?? {LEDGER}\n")), "{name}: {}", status(&desk));
        assert!(!notes(&desk, "add_issue", json!({ "title": "Later" })) && status(&desk).contains(LEDGER), "{name}");
    }
    let desk = fork("contributor");
    plan_apart(&desk, "planning");
    assert!(!notes(&desk, "add_issue", json!({ "title": "Mine" })) && status(&desk).is_empty());

    // Push access is unknown too if the only remote is fetched without credentials.
    let desk = Desk::new();
    desk.git(["remote", "add", "origin", "https://example.org/team/p"]);
    assert!(notes(&desk, "list_ready_issues", json!({})));
    desk.add("Mine");
    assert_eq!(status(&desk), "");

    // A tracked ledger stays tracked.
    let desk = fork("tracked");
    desk.write_lines(&[r#"{"id":"up-1","title":"Theirs"}"#]);
    desk.commit("ledger");
    let warnings = desk.warnings();
    assert!(warnings.iter().any(|warning| warning.contains(NOTE)), "{warnings:?}");
    assert!(!warnings.iter().any(|warning| warning.contains("git does not see")), "{warnings:?}");
    let exclude = std::fs::read_to_string(desk.path(".git/info/exclude")).unwrap_or_default();
    assert!(!exclude.contains("/.waypost/"), "{exclude}");
}
