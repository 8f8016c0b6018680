//! `way graph`

use crate::support::ledger::add;
use crate::support::sandbox;

const PLAN: &str = "design: Draw it\nbuild <- design\ndocs <- design\ntest <- build\nrelease <- test, docs\n";

#[test]
fn a_workflow_is_drawn_as_lanes_with_the_critical_path() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    sandbox.write(repo.join("plan.txt"), PLAN);
    let _ = sandbox.way(&repo, ["workflow", "create", "ship", "--plan", "plan.txt", "--start"]).ok();
    let drawn = sandbox.way(&repo, ["graph", "ship"]).ok().stdout;
    let lines: Vec<Vec<&str>> = drawn.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["◎", "design", "pending", "critical"], "{drawn}");
    assert_eq!(lines[1], ["├─┐"], "{drawn}");
    assert!(drawn.ends_with("Critical path, 4 of 5: design → build → test → release\n"), "{drawn}");

    let _ = sandbox.way(&repo, ["task", "claim", "--agent", "me"]).ok();
    let drawn = sandbox.way(&repo, ["graph", "ship"]).ok().stdout;
    assert!(
        drawn.lines().next().is_some_and(|line| line.starts_with("◐    design") && line.contains("by me")),
        "{drawn}"
    );
    let _ = sandbox.way(&repo, ["task", "done", "design", "--agent", "me", "--outcome", "x"]).ok();
    let data = sandbox.way(&repo, ["graph", "ship", "--json"]).data();
    let path: Vec<&str> = data["critical_path"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    assert_eq!(path.len(), 3, "what is done is not on the critical path: {data}");
    assert_eq!(data["nodes"][0]["state"], "done");
    assert_eq!(data["edges"].as_array().map(Vec::len), Some(5));
}

#[test]
fn a_graph_is_written_for_other_programs_and_text_in_it_is_quoted() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let first = add(&sandbox, &repo, &["Lay <b>the</b> \"base\" & more"]);
    let second = add(&sandbox, &repo, &["Build on it", "--blocked-by", &first]);
    let format = |format: &str| sandbox.way(&repo, ["graph", &second, "--format", format]).ok().stdout;
    let svg = format("svg");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
    assert!(svg.contains("Lay &lt;b&gt;the&lt;/b&gt; &quot;base&quot; &amp; more"), "{svg}");
    assert_eq!(svg.matches("<rect ").count(), 2);
    let mermaid = format("mermaid");
    assert!(mermaid.starts_with("graph LR\n") && mermaid.contains("n1 --> n0"), "{mermaid}");
    let dot = format("dot");
    assert!(dot.contains(&format!("\"{first}\" -> \"{second}\";")), "{dot}");
    assert!(dot.contains("\\\"base\\\""), "{dot}");
    let text = format("text");
    assert!(text.contains(&format!("◎  {first}")), "{text}");
}

#[test]
fn an_unknown_subject_is_an_error_that_says_where_to_look() {
    let sandbox = sandbox();
    let repo = sandbox.git_repo("repo");
    let run = sandbox.way(&repo, ["graph", "wombat"]).fails(3);
    assert!(run.stderr.contains("way workflow list"), "{}", run.stderr);
}
