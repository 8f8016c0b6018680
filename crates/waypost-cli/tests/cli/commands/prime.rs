//! `way prime`: the context of a session, as text and as JSON.

use crate::support::work::Team;

#[test]
fn the_introduction_is_printed_as_json_has_it() {
    let team = Team::with("a: one\n");
    let prime = team.data("prime --agent ann --budget 400");
    let text = prime["text"].as_str().unwrap();
    assert!(text.contains("You are ann."), "{text}");
    assert_eq!(team.way("prime --agent ann --budget 400").ok().stdout, text);
}
