//! Tests that SQLite uses the index that each statement's comment names, and scans a table only where the comment says so.

use std::path::Path;

use rusqlite::Connection;

use super::migrate;
use crate::sql::*;

macro_rules! statements {
    ($($name:ident)*) => {
        &[$((stringify!($name), $name)),*]
    };
}

const STATEMENTS: &[(&str, &str)] = statements! {
    AGENT_GET AGENT_LIST AGENT_LIST_SILENT AGENT_NAMED AGENT_PUT AGENT_SHIFT AGENT_TOUCH ANCHOR_PUT ANSWER_FORGET
    ANSWER_GET ANSWER_PUT ANSWER_REDATE CHECKPOINT_LAST CHECKPOINT_LIST CHECKPOINT_PUT CHECKPOINT_REMOVE_OF_WORKFLOWS
    DEFERRED_LIST DEFERRED_PUT DEFERRED_REMOVE DEPENDENCY_LIST DEPENDENCY_LIST_BY_TASK DEPENDENCY_LIST_IN_WORKFLOWS
    DEPENDENCY_LIST_OF DEPENDENCY_PUT DEPENDENCY_REMOVE DEPENDENCY_REMOVE_OF_WORKFLOWS DUE_COUNT EPOCH_FLOOR_PUT
    EVENTS_KEPT_PUT EVENT_APPEND EVENT_COUNT_REMOVABLE EVENT_LIST EVENT_LIST_OF_SUBJECT EVENT_LIST_OF_WORKTREE
    EVENT_LIST_REMOVABLE EVENT_LIST_SINCE EVENT_LIST_SINCE_OF_SUBJECT EVENT_LIST_SINCE_OF_WORKTREE EVENT_REMOVE
    JOB_GET JOB_LIST JOB_LIST_IN_WORKFLOWS JOB_LIST_LIVE JOB_LIST_OF_TASK JOB_LIST_REMOVABLE JOB_PUT JOB_REMOVE
    LEASE_GET LEASE_LIST LEASE_LIST_BY_TASK LEASE_LIST_DUE LEASE_LIST_IN_WORKFLOWS LEASE_LIST_OF_HOLDER
    LEASE_MAX_EPOCH LEASE_PUT LEASE_REMOVE_OF_WORKFLOWS LEASE_RENEW LEASE_SHIFT LOG_LAST LOG_LIST LOG_PUT LOG_TRIM
    MACHINE_GET MACHINE_LIST MACHINE_PUT MESSAGE_COUNT MESSAGE_COUNT_BY_RECIPIENT MESSAGE_DETACH MESSAGE_DETACH_OF_TASKS
    MESSAGE_DETACH_OF_WORKFLOWS MESSAGE_GET MESSAGE_LAST MESSAGE_LIST MESSAGE_LIST_ABOUT MESSAGE_LIST_HANDLED
    MESSAGE_LIST_THREAD MESSAGE_PUT MESSAGE_REMOVE MESSAGE_SHIFT NOTICE_LIST NOTICE_PUT NOTICE_REMOVE REPOSITORY_GET
    REPOSITORY_LIST REPOSITORY_PUT REPOSITORY_REMOVE STATE_GET SUMMARY_GET SUMMARY_LIST SUMMARY_LIST_BY_SUBJECT
    SUMMARY_PUT TASK_ADVANCE TASK_COUNT TASK_COUNT_IN_WORKFLOWS TASK_COUNT_PART TASK_GET TASK_LIST
    TASK_LIST_BY_ID TASK_LIST_CLAIMABLE TASK_LIST_CLAIMABLE_OF_WORKFLOW TASK_LIST_CLAIMABLE_OF_WORKTREE TASK_LIST_DUE
    TASK_LIST_IN TASK_LIST_IN_WORKFLOWS TASK_LIST_NAMED TASK_LIST_NAMES TASK_LIST_PART TASK_LIST_STATUSES TASK_PUT
    TASK_REDATE TASK_REMOVE TASK_REMOVE_OF_WORKFLOWS TASK_SHIFT TEMPLATE_LIST TEMPLATE_PUT WORKFLOW_GET WORKFLOW_LIST
    WORKFLOW_LIST_BY_ID WORKFLOW_LIST_REMOVABLE WORKFLOW_PUT WORKFLOW_REMOVE WORKFLOW_REPOSITORY_LIST
    WORKFLOW_REPOSITORY_LIST_IN WORKFLOW_REPOSITORY_PUT WORKFLOW_REPOSITORY_REMOVE
    WORKFLOW_REPOSITORY_REMOVE_OF_WORKFLOWS WORKSPACE_GET WORKSPACE_LIST WORKSPACE_LIST_BY_JOB WORKSPACE_LIST_LIVE
    WORKSPACE_LIST_OF_JOB WORKSPACE_LIST_REMOVABLE WORKSPACE_PUT WORKSPACE_REMOVE WORKTREE_GET WORKTREE_LIST
    WORKTREE_PUT WORKTREE_TOUCH
};

#[test]
fn every_statement_uses_the_index_that_its_comment_names() {
    let connection = Connection::open_in_memory().unwrap();
    migrate::migrate(&connection, Path::new("in memory")).unwrap();
    let mut wrong = Vec::new();
    for (name, statement) in STATEMENTS {
        let comment = comment(name);
        let plan = plan(&connection, statement);
        let named: Vec<_> = comment.split('`').skip(1).step_by(2).filter(|word| is_index(&connection, word)).collect();
        let uses = |line: &String, index: &str| line.split(' ').any(|word| word == index);
        let misses = named.iter().any(|index| !plan.iter().any(|line| uses(line, index)));
        // The plan of an upsert contains scans of the tables that refer to the row. SQLite runs them only while a
        // reference is unresolved, which never happens.
        let may_scan = ["A scan", "along the primary key", "Along the primary key", "last row", "Replaces in place"]
            .iter()
            .any(|words| comment.contains(words));
        let scans = plan.iter().any(|line| {
            let is_of_statement = line.contains("CONSTANT ROW") || line.contains("VALUES CLAUSE");
            line.starts_with("SCAN") && !is_of_statement && !named.iter().any(|index| uses(line, index))
        });
        let may_sort = comment.contains("A scan") || comment.contains("sorted");
        let sorts = plan.iter().any(|line| line.contains("TEMP B-TREE") && !line.contains("LAST TERM"));
        if misses || (scans && !may_scan) || (sorts && !may_sort) {
            wrong.push(format!("{name}: {comment}\n    {}", plan.join("\n    ")));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_statement_is_checked() {
    let name = |line: &'static str| line.trim().strip_prefix("pub(crate) const ")?.split_once(':');
    let mut names: Vec<_> = SOURCES.iter().flat_map(|source| source.lines()).filter_map(name).collect();
    names.sort_unstable();
    let names: Vec<_> = names.into_iter().map(|(name, _)| name).collect();
    let listed: Vec<_> = STATEMENTS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, listed);
}

/// Returns the comment above a statement.
fn comment(name: &str) -> String {
    let definition = format!("pub(crate) const {name}:");
    let before = SOURCES.iter().find_map(|source| Some(source.split_once(&definition)?.0)).expect("a file has it");
    // The text before the definition ends with its indentation.
    let above = before.trim_end_matches(' ').lines().rev();
    let mut lines: Vec<_> = above.map_while(|line| line.trim().strip_prefix("/// ")).collect();
    assert!(!lines.is_empty(), "{name} has no comment");
    lines.reverse();
    lines.join(" ")
}

fn plan(connection: &Connection, statement: &str) -> Vec<String> {
    let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
    // Unbound parameters are NULL, and the plan does not depend on them.
    let rows = explain.raw_query().mapped(|row| row.get(3)).collect::<Result<_, _>>();
    rows.unwrap()
}

fn is_index(connection: &Connection, name: &str) -> bool {
    let count = "SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND name = ?1";
    connection.query_row(count, [name], |row| row.get::<_, u32>(0)).unwrap() > 0
}
