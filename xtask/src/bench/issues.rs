//! Generated issues for benchmarks, similar to real ledgers and the same in every run.
//!
//! Older issues are mostly closed, 55 % in total. Each issue depends on one or two older ones, mostly recent, so that
//! there is no cycle. A line has about 1.1 KB, of which 600 bytes are description.

use std::collections::BTreeSet;
use std::fmt::Write as _;

const WORDS: &[&str] = &[
    "parser", "cache", "retry", "token", "index", "schema", "merge", "queue", "worker", "panic", "timeout", "lock",
    "ledger", "import", "export", "commit", "branch", "agent", "session", "review", "deploy", "metric", "trace",
    "config", "route", "header", "socket", "buffer", "stream", "cursor", "upgrade", "flaky", "revert",
];
const VERBS: &[&str] = &["Fix", "Add", "Rework", "Investigate", "Document"];
const LABELS: &[&str] =
    &["backend", "frontend", "infra", "docs", "perf", "security", "flaky", "p-api", "p-cli", "debt"];
const TYPES: &[&str] = &["task", "task", "task", "task", "task", "bug", "bug", "bug", "feature", "feature", "chore"];
const DESCRIPTION_BYTES: usize = 600;

/// One issue.
#[derive(Clone)]
pub(super) struct Issue {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) status: &'static str,
    labels: BTreeSet<&'static str>,
    created: Moment,
    updated: Moment,
    description: String,
    priority: usize,
    kind: &'static str,
    assignee: Option<u64>,
    /// Its dependencies: the id of the other issue, and whether that one blocks it.
    dependencies: Vec<(String, bool)>,
}

/// Generates issues whose ids start with `prefix`, sorted by id.
pub(super) fn issues(count: u64, prefix: &str) -> Vec<Issue> {
    let seed = prefix.bytes().fold(count, |seed, byte| seed * 256 + u64::from(byte));
    let mut random = Random(seed);
    let ids = ids(count, prefix, &mut random);
    let mut issues: Vec<Issue> = (0..count).map(|number| issue(number, &ids, &mut random)).collect();
    issues.sort_by(|one, other| one.id.cmp(&other.id));
    issues
}

/// Returns the lines of a ledger.
pub(super) fn lines(issues: &[Issue]) -> String {
    let mut text = String::new();
    for issue in issues {
        issue.write_line(&mut text).expect("writing to a string cannot fail");
    }
    text
}

impl Issue {
    /// Returns whether it is not closed.
    pub(super) fn is_open(&self) -> bool {
        self.status != "closed"
    }

    /// Writes its line. Only line breaks need escaping.
    fn write_line(&self, line: &mut String) -> std::fmt::Result {
        let Self { id, title, status, priority, kind, created, updated, .. } = self;
        let description = self.description.replace('\n', "\\n");
        write!(line, r#"{{"id":"{id}","title":"{title}","description":"{description}","status":"{status}""#)?;
        write!(line, r#","priority":{priority},"issue_type":"{kind}","created_at":"{created}""#)?;
        write!(line, r#","created_by":"bench","updated_at":"{updated}""#)?;
        if let Some(assignee) = self.assignee {
            write!(line, r#","assignee":"agent-{assignee}""#)?;
        }
        if !self.is_open() {
            write!(line, r#","closed_at":"{updated}","close_reason":"done""#)?;
        }
        line.push_str(r#","source_repo":".""#);
        if !self.labels.is_empty() {
            let labels: Vec<String> = self.labels.iter().map(|label| format!("\"{label}\"")).collect();
            write!(line, r#","labels":[{}]"#, labels.join(","))?;
        }
        for (at, (other, waits)) in self.dependencies.iter().enumerate() {
            line.push_str(if at == 0 { r#","dependencies":["# } else { "," });
            let kind = if *waits { "blocks" } else { "related" };
            write!(line, r#"{{"issue_id":"{id}","depends_on_id":"{other}","type":"{kind}""#)?;
            write!(line, r#","created_at":"{created}","created_by":"bench"}}"#)?;
        }
        line.push_str(if self.dependencies.is_empty() { "}\n" } else { "]}\n" });
        Ok(())
    }
}

fn issue(number: u64, ids: &[String], random: &mut Random) -> Issue {
    let count = ids.len() as u64;
    let id = ids[usize::try_from(number).expect("an index")].clone();
    let created = Moment { seconds: 37 * number, microseconds: random.below(1_000_000) };
    let updated = Moment { seconds: created.seconds + 1 + random.below(400_000), ..created };
    let status = if random.below(1000) < (1100 * (count - number) / count).min(980) {
        "closed"
    } else {
        ["open", "in_progress", "blocked"][random.weighted(&[88, 9, 3])]
    };
    let [verb, one, two, three] = [VERBS, WORDS, WORDS, WORDS].map(|words| random.pick(words));
    let labels = random.weighted(&[15, 40, 30, 15]);
    let dependency_count = (1 + random.below(2)).min(number);
    let mut others = BTreeSet::new();
    while (others.len() as u64) < dependency_count {
        let is_near = random.below(10) < 8;
        let back = if is_near { 1 + random.below(number.min(40)) } else { 1 + random.below(number) };
        others.insert(&ids[usize::try_from(number - back).expect("an index")]);
    }
    Issue {
        title: format!("{verb} {one} {two} in {three} (#{number})"),
        status,
        labels: random.distinct(LABELS, labels),
        created,
        updated,
        description: description(&id, random),
        priority: random.weighted(&[3, 15, 50, 22, 10]),
        kind: random.pick(TYPES),
        assignee: (status == "in_progress").then(|| 1 + random.below(40)),
        dependencies: others.into_iter().map(|other| (other.clone(), random.below(100) < 85)).collect(),
        id,
    }
}

/// Returns distinct ids, in the order of the issues.
fn ids(count: u64, prefix: &str, random: &mut Random) -> Vec<String> {
    let width = if count <= 20_000 { 4 } else { 5 };
    let mut seen = BTreeSet::new();
    let mut ids = Vec::new();
    while (ids.len() as u64) < count {
        let digits = (0..width).map(|_| char::from(b"0123456789abcdefghijklmnopqrstuvwxyz"[random.index(36)]));
        let id = format!("{prefix}-{}", digits.collect::<String>());
        if seen.insert(id.clone()) {
            ids.push(id);
        }
    }
    ids
}

fn description(id: &str, random: &mut Random) -> String {
    let mut text = format!("Ref {id}. ");
    while text.len() < DESCRIPTION_BYTES {
        let words = 6 + random.below(9);
        for at in 0..words {
            let word = random.pick(WORDS);
            if at == 0 {
                text.push_str(&word[..1].to_uppercase());
                text.push_str(&word[1..]);
            } else {
                text.push(' ');
                text.push_str(word);
            }
        }
        text.push_str(". ");
        if random.below(100) < 15 {
            let (dir, file, line) = (random.pick(WORDS), random.pick(WORDS), 1 + random.below(900));
            write!(text, "\n\n- `src/{dir}/{file}.rs:{line}`\n").expect("writing to a string cannot fail");
        }
    }
    text.truncate(DESCRIPTION_BYTES);
    text
}

/// A moment after the morning of 2026-01-05, and within that year.
#[derive(Clone, Copy)]
struct Moment {
    seconds: u64,
    microseconds: u64,
}

impl Moment {
    fn parts(self) -> [u64; 5] {
        let seconds = self.seconds + 9 * 3600;
        let (mut month, mut day) = (1, 5 + seconds / 86_400);
        for length in [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
            if day <= length {
                break;
            }
            (month, day) = (month + 1, day - length);
        }
        [month, day, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60]
    }
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [month, day, hour, minute, second] = self.parts();
        write!(f, "2026-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:06}Z", self.microseconds)
    }
}

/// SplitMix64: short, and the same numbers on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn index(&mut self, limit: usize) -> usize {
        usize::try_from(self.below(limit as u64)).expect("a number below a usize")
    }

    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        from[self.index(from.len())]
    }

    fn distinct(&mut self, from: &[&'static str], count: usize) -> BTreeSet<&'static str> {
        let mut chosen = BTreeSet::new();
        while chosen.len() < count {
            chosen.insert(self.pick(from));
        }
        chosen
    }

    /// Returns an index with a probability by weight.
    fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (at, weight) in weights.iter().enumerate() {
            if left < *weight {
                return at;
            }
            left -= weight;
        }
        unreachable!("the number is below the sum of the weights")
    }
}
