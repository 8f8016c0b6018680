//! Workspaces: why one stays, and what a person does with it.

use super::{open, refusal};
use crate::serving::Server;

#[test]
fn a_workspace_says_why_it_stays_and_is_saved_delivered_and_removed() {
    let server = Server::start(&["--open"]);
    server.sandbox.write("home/.gitconfig", "[user]\n\tname = A\n\temail = a@example.org\n");
    let make = || {
        let _ = server.way(&["job", "start", "--keep", "--quiet", "--", "sh", "-c", "echo work > new.txt"]);
        let listed = server.way(&["ws", "list", "--json"]).data();
        listed[0]["id"].as_str().unwrap().to_owned()
    };
    let status = |id: &str| {
        server
            .way(&["ws", "list", "--all", "--json"])
            .data()
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["id"] == id)
            .unwrap()["status"]
            .clone()
    };
    let first = make();
    let browser = open(&server);
    browser.show("#/workspaces");
    browser.wait_for("dirty");
    browser.wait_for("KiB");
    browser.show(&format!("#/workspaces/{first}"));
    browser.wait_for("1 file not under version control");
    browser.click("Snapshot");
    browser.wait_for(&format!("Saved {first} as "));
    let saved = server.way(&["ws", "snapshots", "--json"]).data();
    assert_eq!(saved.as_array().map(Vec::len), Some(1), "{saved}");
    // The refusal has the words of the command.
    browser.click("Remove");
    browser.click("Remove");
    let refused = server.way(&["ws", "rm", &first]);
    assert_ne!(refused.code, 0);
    for line in refusal(&refused) {
        browser.wait_for(&line);
    }
    assert_eq!(status(&first), "kept");
    browser.press("\u{e00c}");
    browser.click("Deliver");
    browser.fill("branch", "from-the-page");
    browser.fill("commit", "Work");
    browser.click("Deliver");
    browser.wait_for("Delivered from-the-page");
    let branches = server.sandbox.git(&server.repo, ["branch", "--list", "from-the-page"]);
    assert!(branches.contains("from-the-page"), "{branches:?}");
    browser.wait_for("1 commit that no remote has");
    browser.click("Remove");
    browser.fill("work", "force");
    browser.click("Remove");
    browser.wait_for("Its work is saved:");
    assert_eq!(status(&first), "snapshotted");

    let second = make();
    browser.show(&format!("#/workspaces/{second}"));
    browser.click("Remove");
    browser.fill("work", "discard");
    browser.click("Remove");
    browser.wait_for(&format!("Removed {second}."));
    assert_eq!(status(&second), "removed");
    let errors = browser.errors();
    assert!(errors.iter().all(|line| line.contains("responded with a status of 403")), "{errors:?}");
}
