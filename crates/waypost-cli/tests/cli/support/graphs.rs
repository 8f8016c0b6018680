//! Foreign ledgers with many issues.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};
use waypost_testkit::{Run, Sandbox};

use crate::support::sandbox;

pub(crate) fn id(number: usize) -> String {
    format!("way-{number:06}")
}

/// A repository whose ledger has `count` issues; `more` returns further fields of each.
pub(crate) struct Pulled {
    pub(crate) sandbox: Sandbox,
    pub(crate) repo: PathBuf,
}

impl Pulled {
    pub(crate) fn new(count: usize, more: impl Fn(usize) -> Value) -> Pulled {
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
    pub(crate) fn way(&self, line: &str) -> Run {
        let limited = format!("ulimit -t {MAX_CPU_SECONDS}; ulimit -v {MAX_MEMORY_KB}; exec \"$0\" \"$@\"");
        let mut command = self.sandbox.command("sh", &self.repo);
        Run::of(&command.args(["-c", &limited, env!("CARGO_BIN_EXE_way")]).args(line.split(' ')).output().unwrap())
    }

    /// Runs a command that must exit with this code, and must not print more than this many bytes.
    #[track_caller]
    pub(crate) fn check(&self, line: &str, code: i32, most: usize) {
        drop(self.run(line, code, most));
    }

    /// The same, and returns the output.
    #[track_caller]
    pub(crate) fn run(&self, line: &str, code: i32, most: usize) -> Run {
        let run = self.way(line);
        assert_eq!(run.code, code, "way {line}: {}", &run.stderr[..run.stderr.len().min(500)]);
        let printed = run.stdout.len() + run.stderr.len();
        assert!(printed <= most, "way {line} printed {printed} bytes");
        run
    }
}

pub(crate) fn blocked_by(issue: usize, others: impl IntoIterator<Item = usize>) -> Value {
    let edges: Vec<Value> = others
        .into_iter()
        .map(|other| json!({ "issue_id": id(issue), "depends_on_id": id(other), "type": "blocks" }))
        .collect();
    json!({ "dependencies": edges })
}

pub(crate) const KB: usize = 1000;

/// Maximum CPU time of one command. The load of the machine does not count, and a command whose work grows
/// with the square of the issues needs several times as long.
pub(crate) const MAX_CPU_SECONDS: usize = 5;

/// How much address space one command may take. A command that follows a cycle for ever takes all there is.
pub(crate) const MAX_MEMORY_KB: usize = 4_000_000;
