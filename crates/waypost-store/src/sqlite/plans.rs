//! How SQLite goes about every statement: along the index that its comment names, and never through a whole table unless
//! the comment says so.

use std::path::Path;

use rusqlite::Connection;

use super::migrate;
use crate::sql::*;

const SOURCE: &str = include_str!("../sql.rs");

macro_rules! statements {
    ($($name:ident)*) => {
        &[$((stringify!($name), $name)),*]
    };
}

const STATEMENTS: &[(&str, &str)] = statements! {
    REPOSITORY_PUT WORKTREE_PUT WORKFLOW_PUT WORKFLOW_REPOSITORY_PUT AGENT_PUT AGENT_TOUCH TASK_PUT TASK_ADVANCE
    DEPENDENCY_PUT LEASE_PUT
    MESSAGE_PUT NOTICE_PUT JOB_PUT WORKSPACE_PUT CHECKPOINT_PUT TEMPLATE_PUT ANSWER_PUT REPOSITORY_GET
    REPOSITORY_LIST REPOSITORY_REMOVE WORKTREE_GET WORKTREE_TOUCH WORKTREE_LIST EVENT_APPEND STATE_GET
    ANCHOR_PUT EPOCH_FLOOR_PUT LEASE_SHIFT TASK_SHIFT AGENT_SHIFT MESSAGE_SHIFT TASK_REDATE ANSWER_REDATE
    EVENT_LIST EVENT_LIST_OF_WORKTREE EVENT_LIST_OF_SUBJECT EVENT_LIST_SINCE EVENT_LIST_SINCE_OF_WORKTREE
    EVENT_LIST_SINCE_OF_SUBJECT DUE_COUNT WORKFLOW_GET WORKFLOW_LIST_BY_ID WORKFLOW_LIST WORKFLOW_REPOSITORY_LIST
    WORKFLOW_REPOSITORY_LIST_IN TASK_GET TASK_LIST_BY_ID
    TASK_REMOVE TASK_LIST TASK_LIST_IN_WORKFLOWS TASK_LIST_NAMES TASK_LIST_NAMED TASK_LIST_IN TASK_LIST_CLAIMABLE
    TASK_LIST_CLAIMABLE_OF_WORKFLOW TASK_LIST_DUE TASK_COUNT TASK_COUNT_IN_WORKFLOWS TASK_LIST_STATUSES DEPENDENCY_REMOVE DEPENDENCY_LIST
    DEPENDENCY_LIST_IN_WORKFLOWS DEPENDENCY_LIST_OF DEPENDENCY_LIST_BY_TASK CHECKPOINT_LIST AGENT_GET AGENT_NAMED AGENT_LIST AGENT_LIST_SILENT LEASE_GET LEASE_LIST
    LEASE_LIST_OF_HOLDER LEASE_LIST_IN_WORKFLOWS LEASE_LIST_BY_TASK LEASE_MAX_EPOCH LEASE_LIST_DUE MESSAGE_GET MESSAGE_LAST MESSAGE_LIST MESSAGE_COUNT MESSAGE_COUNT_BY_RECIPIENT MESSAGE_LIST_ABOUT
    MESSAGE_DETACH MESSAGE_LIST_THREAD TEMPLATE_LIST ANSWER_GET ANSWER_FORGET NOTICE_LIST NOTICE_REMOVE JOB_GET
    JOB_LIST JOB_LIST_LIVE JOB_LIST_OF_TASK WORKSPACE_GET WORKSPACE_LIST WORKSPACE_LIST_LIVE
    WORKSPACE_LIST_OF_JOB
};

#[test]
fn every_statement_goes_along_the_index_that_its_comment_names() {
    let connection = Connection::open_in_memory().unwrap();
    migrate::migrate(&connection, Path::new("in memory")).unwrap();
    let mut wrong = Vec::new();
    for (name, statement) in STATEMENTS {
        let comment = comment(name);
        let plan = plan(&connection, statement);
        let named: Vec<_> = comment.split('`').skip(1).step_by(2).filter(|word| is_index(&connection, word)).collect();
        let uses = |line: &String, index: &str| line.split(' ').any(|word| word == index);
        let misses = named.iter().any(|index| !plan.iter().any(|line| uses(line, index)));
        // A put would go through those that refer to the row, if one of them did so in vain so far: they never do.
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
fn no_statement_is_left_out() {
    let names: Vec<_> = SOURCE
        .lines()
        .filter_map(|line| line.strip_prefix("pub(crate) const ")?.split_once(':'))
        .map(|(name, _)| name)
        .collect();
    let listed: Vec<_> = STATEMENTS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, listed);
}

/// Returns what stands above a statement.
fn comment(name: &str) -> String {
    let (before, _) = SOURCE.split_once(&format!("pub(crate) const {name}:")).expect("it is in the file");
    let mut lines: Vec<_> = before.lines().rev().map_while(|line| line.strip_prefix("/// ")).collect();
    lines.reverse();
    lines.join(" ")
}

fn plan(connection: &Connection, statement: &str) -> Vec<String> {
    let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
    // What is not bound is nothing, and the plan does not depend on it.
    let rows = explain.raw_query().mapped(|row| row.get(3)).collect::<Result<_, _>>();
    rows.unwrap()
}

fn is_index(connection: &Connection, name: &str) -> bool {
    let count = "SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND name = ?1";
    connection.query_row(count, [name], |row| row.get::<_, u32>(0)).unwrap() > 0
}
