//! A ledger with many issues.

use std::path::{Path, PathBuf};

use waypost_testkit::{Run, Sandbox};

use crate::support::ledger::LEDGER;

/// Runs a command with something on its standard input.
pub(crate) fn fed(sandbox: &Sandbox, repo: &Path, args: &[&str], input: &str) -> Run {
    sandbox.run(sandbox.way_command(repo).args(args), input)
}

pub(crate) const SAMPLE_LEDGER: &str = r#"{"id":"r-1","title":"Fix the API","status":"open","priority":0,"issue_type":"bug","labels":["api"],"created_at":"2025-12-01T00:00:00Z","updated_at":"2025-12-30T00:00:00Z","due_at":"2026-01-05T00:00:00Z"}
{"id":"r-2","title":"Draw the web","status":"open","priority":1,"issue_type":"feature","labels":["web","later"],"assignee":"ann","created_at":"2025-12-02T00:00:00Z","updated_at":"2025-12-02T00:00:00Z","parent_id":"r-5"}
{"id":"r-3","title":"api docs","status":"in_progress","priority":2,"labels":["api","web"],"assignee":"bob","created_at":"2025-12-03T00:00:00Z","updated_at":"2025-12-31T00:00:00Z","description":"Straße und ÄPFEL"}
{"id":"r-4","title":"Old thing","status":"closed","priority":3,"created_at":"2025-11-01T00:00:00Z","updated_at":"2025-12-20T00:00:00Z","closed_at":"2025-12-20T00:00:00Z"}
{"id":"r-5","title":"Everything","status":"open","priority":4,"issue_type":"epic","created_at":"2025-10-01T00:00:00Z"}
{"id":"r-6","title":"Gone","status":"tombstone","created_at":"2025-10-01T00:00:00Z"}
"#;

pub(crate) fn many(sandbox: &Sandbox) -> PathBuf {
    let repo = sandbox.git_repo("repo");
    sandbox.dir("repo/.waypost");
    sandbox.write(repo.join(LEDGER), SAMPLE_LEDGER);
    repo
}
