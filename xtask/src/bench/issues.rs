//! Generated issues for benchmarks, similar to real ledgers and the same in every run.
//!
//! Older issues are mostly closed, 55 % in total. Each issue depends on one or two older ones, mostly recent, so that
//! there is no cycle. A line has about 1.1 KB, of which 600 bytes are description.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::random::Random;

const WORDS: [&str; 33] = [
    "parser", "cache", "retry", "token", "index", "schema", "merge", "queue", "worker", "panic", "timeout", "lock",
    "ledger", "import", "export", "commit", "branch", "agent", "session", "review", "deploy", "metric", "trace",
    "config", "route", "header", "socket", "buffer", "stream", "cursor", "upgrade", "flaky", "revert",
];
const LABELS: [&str; 10] =
    ["backend", "debt", "docs", "flaky", "frontend", "infra", "p-api", "p-cli", "perf", "security"];
const DESCRIPTION_BYTES: usize = 600;

/// One issue: a line of a ledger.
#[derive(Clone)]
pub(super) struct Issue(Value);

/// Generates issues whose ids start with `prefix`, sorted by id.
pub(super) fn issues(count: usize, prefix: &str) -> Vec<Issue> {
    let mut random = Random(prefix.bytes().fold(count as u64, |seed, byte| seed * 256 + u64::from(byte)));
    let width = if count <= 20_000 { 4 } else { 5 };
    let digits = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let (mut seen, mut ids) = (BTreeSet::new(), Vec::new());
    while ids.len() < count {
        let digits: String = (0..width).map(|_| char::from(digits[random.below(digits.len())])).collect();
        let id = format!("{prefix}-{digits}");
        if seen.insert(id.clone()) {
            ids.push(id);
        }
    }
    let mut issues: Vec<Issue> = (0..count).map(|number| Issue::new(number, &ids, &mut random)).collect();
    issues.sort_by(|one, other| one.id().cmp(other.id()));
    issues
}

/// Returns the lines of a ledger.
pub(super) fn lines(issues: &[Issue]) -> String {
    let lines: Vec<String> = issues.iter().map(|issue| issue.0.to_string()).collect();
    lines.join("\n") + "\n"
}

impl Issue {
    fn new(number: usize, ids: &[String], random: &mut Random) -> Issue {
        let id = &ids[number];
        let is_closed = random.below(1000) < (1100 * (ids.len() - number) / ids.len()).min(980);
        let status = if is_closed { "closed" } else { ["open", "open", "open", "in_progress"][random.below(4)] };
        let [one, two, three] = [(); 3].map(|()| WORDS[random.below(WORDS.len())]);
        let mut description = format!("Ref {id}.");
        while description.len() < DESCRIPTION_BYTES {
            let end = if random.below(9) == 0 { ".\n\n-" } else { "" };
            description.extend([" ", WORDS[random.below(WORDS.len())], end]);
        }
        let created = moment(number);
        let mut others = BTreeSet::new();
        while others.len() < number.min(1 + number % 2) {
            let most = if random.below(10) < 8 { number.min(40) } else { number };
            others.insert(&ids[number - 1 - random.below(most)]);
        }
        let dependency = |other: &String| {
            let kind = if number.is_multiple_of(7) { "related" } else { "blocks" };
            json!({ "issue_id": id, "depends_on_id": other, "type": kind, "created_at": created, "created_by": "bench" })
        };
        let priority = [0, 1, 1, 2, 2, 2, 2, 3, 3, 4][random.below(10)];
        let kind = ["task", "bug", "feature", "chore"][random.below(4)];
        let labels: BTreeSet<&str> = (0..random.below(4)).map(|_| LABELS[random.below(LABELS.len())]).collect();
        let mut issue = json!({
            "id": id,
            "title": format!("Fix {one} {two} in {three} (#{number})"),
            "description": description,
            "status": status,
            "priority": priority,
            "issue_type": kind,
            "created_at": created,
            "created_by": "bench",
            "updated_at": moment(number + 1),
        });
        if status == "in_progress" {
            issue["assignee"] = format!("agent-{}", random.below(40)).into();
        }
        if is_closed {
            issue["closed_at"] = moment(number + 1).into();
            issue["close_reason"] = "done".into();
        }
        issue["source_repo"] = ".".into();
        if !labels.is_empty() {
            issue["labels"] = json!(labels);
        }
        if !others.is_empty() {
            issue["dependencies"] = others.into_iter().map(dependency).collect();
        }
        Issue(issue)
    }

    pub(super) fn id(&self) -> &str {
        self.0["id"].as_str().unwrap_or_default()
    }

    pub(super) fn set_title(&mut self, title: String) {
        self.0["title"] = title.into();
    }

    /// Returns whether it is not closed.
    pub(super) fn is_open(&self) -> bool {
        self.0["status"] != "closed"
    }
}

/// Returns a time in 2026, later for a higher number.
fn moment(number: usize) -> String {
    let (day, minute) = (number / 1440, number % 1440);
    format!("2026-{:02}-{:02}T{:02}:{:02}:00.000001Z", 1 + day / 28, 1 + day % 28, minute / 60, minute % 60)
}
