//! Foreign ledgers with chains, fans and cycles of many issues: no command hangs or floods the terminal.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};
use waypost_testkit::{Run, Sandbox};

use crate::sandbox;

fn id(number: usize) -> String {
    format!("way-{number:06}")
}

/// A repository whose ledger has `count` issues; `more` returns further fields of each.
struct Pulled {
    sandbox: Sandbox,
    repo: PathBuf,
}

impl Pulled {
    fn new(count: usize, more: impl Fn(usize) -> Value) -> Pulled {
        let sandbox = sandbox();
        let repo = sandbox.git_repo("repo");
        let mut ledger = String::new();
        for number in 0..count {
            let mut record = json!({ "id": id(number), "title": format!("Issue {number}"), "status": "open" });
            record.as_object_mut().unwrap().extend(more(number).as_object().unwrap().clone());
            writeln!(ledger, "{record}").unwrap();
        }
        sandbox.dir("repo/.waypost");
        sandbox.write(repo.join(".waypost/issues.jsonl"), ledger);
        sandbox.git(&repo, ["add", "--all"]);
        sandbox.git(&repo, ["commit", "--quiet", "--message", "issues"]);
        Pulled { sandbox, repo }
    }

    /// Runs `way` within the limits below. A command that exceeds them is killed, or fails to allocate.
    fn way(&self, line: &str) -> Run {
        let limited = format!("ulimit -t {MAX_CPU_SECONDS}; ulimit -v {MAX_MEMORY_KB}; exec \"$0\" \"$@\"");
        let mut command = self.sandbox.command("sh", &self.repo);
        Run::of(&command.args(["-c", &limited, env!("CARGO_BIN_EXE_way")]).args(line.split(' ')).output().unwrap())
    }

    /// Runs a command that must exit with this code, and must not print more than this many bytes.
    #[track_caller]
    fn check(&self, line: &str, code: i32, most: usize) {
        drop(self.run(line, code, most));
    }

    /// The same, and returns the output.
    #[track_caller]
    fn run(&self, line: &str, code: i32, most: usize) -> Run {
        let run = self.way(line);
        assert_eq!(run.code, code, "way {line}: {}", &run.stderr[..run.stderr.len().min(500)]);
        let printed = run.stdout.len() + run.stderr.len();
        assert!(printed <= most, "way {line} printed {printed} bytes");
        run
    }
}

fn blocked_by(issue: usize, others: impl IntoIterator<Item = usize>) -> Value {
    let edges: Vec<Value> = others
        .into_iter()
        .map(|other| json!({ "issue_id": id(issue), "depends_on_id": id(other), "type": "blocks" }))
        .collect();
    json!({ "dependencies": edges })
}

const KB: usize = 1000;

/// Maximum CPU time of one command. The load of the machine does not count, and a command whose work grows
/// with the square of the issues needs several times as long.
const MAX_CPU_SECONDS: usize = 5;

/// How much address space one command may take. A command that follows a cycle for ever takes all there is.
const MAX_MEMORY_KB: usize = 4_000_000;

#[test]
fn a_long_chain_of_parents_stops_no_command() {
    const LONG: usize = 6_000;
    let last = LONG - 1;
    let chain = Pulled::new(LONG, |number| match number.checked_sub(1) {
        Some(parent) => json!({ "parent_id": id(parent) }),
        None => json!({ "issue_type": "epic" }),
    });
    chain.check("ready", 0, 2 * KB);
    chain.check("list", 0, 4 * KB);
    chain.check("stats", 0, KB);
    chain.check(&format!("show {}", id(last)), 0, KB);
    chain.check("ready --explain", 0, LONG * 100);
    chain.check(&format!("claim {}", id(last)), 0, KB);
    chain.check(&format!("add More --parent {}", id(last)), 0, KB);
    chain.check(&format!("dep add {} {}", id(0), id(last)), 4, KB);
    chain.check(&format!("update {} --parent {}", id(0), id(last)), 4, KB);
    chain.check(&format!("update {} --status deferred", id(0)), 0, KB);
    chain.check("ready", 6, KB);
    chain.check("blocked", 0, LONG * 100);
    chain.check(&format!("update {} --status open", id(0)), 0, KB);
    chain.check(&format!("workflow from-issue {}", id(0)), 0, KB);
    chain.check(&format!("close {}", id(0)), 0, KB);
    chain.check("ready", 0, 2 * KB);
    chain.check("doctor", 0, 2 * KB);
}

#[test]
fn a_tree_is_drawn_up_to_a_depth_and_reports_what_it_left_out() {
    const LONG: usize = 3_000;
    let chain = Pulled::new(LONG, |number| blocked_by(number, (number + 1 < LONG).then_some(number + 1)));
    for command in ["dep tree way-000000", "dep tree", "dep tree way-002999 --dependents"] {
        let run = chain.run(command, 0, 8 * KB);
        assert_eq!(run.stdout.lines().count(), 51);
        assert!(run.stdout.ends_with("(1 below, not shown)\n"), "{}", run.stdout);
        assert_eq!(run.stderr, "note: 2949 more issues are not shown; --depth 0 --limit 0 shows all\n");
    }
    for format in ["mermaid", "dot"] {
        let run = chain.run(&format!("dep tree way-000000 --format {format}"), 0, 8 * KB);
        assert!(run.stderr.contains("2949 more issues are not shown"), "{}", run.stderr);
    }
    let shallow = chain.run("dep tree way-000000 --depth 2", 0, KB);
    assert_eq!(
        shallow.stdout,
        "way-000000  P2 open  Issue 0\n\
         └─ waits for way-000001  P2 open  Issue 1\n   \
            └─ waits for way-000002  P2 open  Issue 2  (1 below, not shown)\n"
    );
    // Even the full output is not much longer than the issues themselves.
    let all = chain.run("dep tree way-000000 --depth 0 --limit 0", 0, LONG * 80);
    assert_eq!(all.stdout.lines().count(), LONG);
    assert!(all.stdout.ends_with("[level 2999] waits for way-002999  P2 open  Issue 2999\n"));
    assert_eq!(all.stderr, "");
    let data = chain.run("dep tree way-000000 --json", 0, LONG * 200).data();
    assert_eq!(data["nodes"].as_array().unwrap().len(), LONG, "JSON output is complete");
    // A refused dependency would close a cycle as long as the chain.
    let circle = chain.run("dep add way-002999 way-000000", 4, KB);
    assert!(circle.stderr.contains("more) → "), "{}", circle.stderr);
}

#[test]
fn a_wide_or_dense_graph_is_drawn_up_to_a_limit_and_each_issue_expanded_once() {
    const WIDE: usize = 3_000;
    let fan = Pulled::new(WIDE, |number| blocked_by(number, if number == 0 { 1..WIDE } else { 0..0 }));
    for (format, lines) in [("text", 1_000), ("mermaid", 2_000), ("dot", 2_001)] {
        let run = fan.run(&format!("dep tree way-000000 --format {format}"), 0, 120 * KB);
        assert_eq!(run.stdout.lines().count(), lines, "{format}");
        assert_eq!(run.stderr, "note: 2000 more issues are not shown; --depth 0 --limit 0 shows all\n");
    }
    assert_eq!(fan.run("dep tree way-000000 --limit 0", 0, WIDE * 80).stdout.lines().count(), WIDE);
    // Two issues on each level, each blocked by both of the next level: the number of paths doubles with each level.
    let woven = Pulled::new(80, |number| {
        let next = number / 2 * 2 + 2;
        blocked_by(number, (next..next + 2).filter(|next| *next < 80))
    });
    let run = woven.run("dep tree way-000000", 0, 30 * KB);
    assert_eq!(run.stdout.matches("(see above)").count(), 74);
    assert_eq!(run.stderr, "");
}

#[test]
fn cycles_of_parents_and_blockers_stop_no_command() {
    const LONG: usize = 2_000;
    let circle = Pulled::new(LONG, |number| {
        let mut record = blocked_by(number, [(number + 1) % LONG]);
        record["parent_id"] = id((number + 1) % LONG).into();
        record
    });
    for (command, code, most) in [
        ("ready", 6, KB),
        ("blocked", 0, LONG * 200),
        ("ready --explain", 0, LONG * 200),
        ("show way-000000", 0, KB),
        ("dep tree", 0, 40 * KB),
        ("workflow from-issue way-000000", 4, KB),
        ("update way-000000 --parent way-000007", 4, KB),
        ("dep add way-000005 way-000002", 4, KB),
        ("close way-000000", 0, KB),
        ("doctor", 0, 2 * KB),
    ] {
        circle.check(command, code, most);
    }
    // A dependency on an issue outside of the cycle closes no new one.
    let outside = circle.run("add Outside --json", 0, KB).data()["id"].as_str().unwrap().to_owned();
    circle.check(&format!("dep add {outside} way-000002"), 0, KB);
    circle.check(&format!("update {outside} --parent way-000003"), 0, KB);
}

#[test]
fn many_closed_issues_are_pruned_at_once() {
    const MANY: usize = 12_000;
    let closed = Pulled::new(MANY, |number| {
        let mut record = blocked_by(number, if number == 0 { 1..MANY - 1 } else { 0..0 });
        record["status"] = "closed".into();
        record["closed_at"] = "2025-01-01T00:00:00Z".into();
        record["parent_id"] = id(number.saturating_sub(1)).into();
        record
    });
    let pruned = closed.run("prune --closed-before 1d --json", 0, MANY * 20).data();
    assert_eq!(pruned["pruned"].as_array().unwrap().len(), MANY);
    assert_eq!(closed.run("list --all --json", 0, KB).data(), json!([]));
    closed.check("doctor", 0, 2 * KB);
}
