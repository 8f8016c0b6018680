//! The baseline for a cold index: parses a ledger and inserts its rows in one SQLite transaction.
//!
//! `cargo xtask bench ledger` compares `way` with it.

use rusqlite::{Connection, params};
use serde_json::Value;

use crate::Result;

const SCHEMA: &str = "
    PRAGMA synchronous = OFF;
    PRAGMA journal_mode = OFF;
    CREATE TABLE issue (
        id TEXT PRIMARY KEY, title TEXT, status TEXT, priority INTEGER, type TEXT, assignee TEXT,
        created_at TEXT, updated_at TEXT, line TEXT
    );
    CREATE TABLE dependency (issue_id TEXT, depends_on_id TEXT, type TEXT);
    CREATE TABLE label (issue_id TEXT, label TEXT);
";

pub(crate) fn hydrate(ledger: &str, database: &str) -> Result {
    let ledger = std::fs::read_to_string(ledger)?;
    let mut database = Connection::open(database)?;
    database.execute_batch(SCHEMA)?;
    let tx = database.transaction()?;
    {
        let mut issue = tx.prepare("INSERT INTO issue VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
        let mut dependency = tx.prepare("INSERT INTO dependency VALUES (?, ?, ?)")?;
        let mut label = tx.prepare("INSERT INTO label VALUES (?, ?)")?;
        for line in ledger.lines() {
            let record: Value = serde_json::from_str(line)?;
            let text = |key: &str| record[key].as_str();
            let id = text("id");
            issue.execute(params![
                id,
                text("title"),
                text("status"),
                record["priority"].as_i64(),
                text("issue_type"),
                text("assignee"),
                text("created_at"),
                text("updated_at"),
                line,
            ])?;
            for edge in record["dependencies"].as_array().into_iter().flatten() {
                dependency.execute(params![id, edge["depends_on_id"].as_str(), edge["type"].as_str()])?;
            }
            for name in record["labels"].as_array().into_iter().flatten() {
                label.execute(params![id, name.as_str()])?;
            }
        }
    }
    tx.commit()?;
    Ok(())
}
