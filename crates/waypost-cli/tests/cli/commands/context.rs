//! The context of a task, as text and as JSON.

use crate::support::work::Team;

#[test]
fn a_context_is_printed_as_the_agent_gets_it() {
    let team = Team::with("a: one\n");
    let _ = team.data("task claim --agent ann");
    let context = team.data("context a --budget 500");
    assert_eq!(context["budget"], 500);
    for line in ["context a --budget 500", "task context a --budget 500"] {
        assert_eq!(team.way(line).ok().stdout, context["text"].as_str().unwrap(), "{line}");
    }
    assert_eq!(team.refused(2, "context a --budget 10")["code"], "invalid");
}
