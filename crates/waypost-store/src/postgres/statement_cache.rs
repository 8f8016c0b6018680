//! What a transaction has read, so that it does not ask twice.
//!
//! Nobody else can change it: who writes has the turn until the transaction ends, and who reads sees one state.

use crate::cell::{Cell, Row};
use crate::sql::Query;

/// Answers, by statement and parameters.
#[derive(Default)]
pub(super) struct Known(Vec<Answer>);

struct Answer {
    question: Query,
    rows: Vec<Vec<Cell>>,
}

impl Known {
    pub(super) fn get(&self, sql: &str, parameters: &[Cell]) -> Option<Vec<Row>> {
        let known = self.0.iter().find(|known| known.question.0 == sql && known.question.1 == parameters)?;
        Some(known.rows.iter().cloned().map(Row::new).collect())
    }

    pub(super) fn keep(&mut self, question: Query, rows: &[Vec<Cell>]) {
        self.0.push(Answer { question, rows: rows.to_vec() });
    }

    /// Forgets all that a write may change: every answer that has to do with its table.
    pub(super) fn forget(&mut self, write: &str) {
        let table = words(write).find(|word| !["INSERT", "INTO", "UPDATE", "DELETE", "FROM"].contains(word));
        self.0.retain(|known| !words(known.question.0).any(|word| Some(word) == table));
    }
}

fn words(sql: &str) -> impl Iterator<Item = &str> {
    sql.split(|character: char| !character.is_ascii_alphanumeric() && character != '_').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::cells;
    use crate::sql;

    #[test]
    fn what_a_write_may_change_is_forgotten_and_nothing_else() {
        let mut known = Known::default();
        known.keep((sql::WORKFLOW_GET, cells!["wf"].to_vec()), &[]);
        known.keep((sql::LEASE_GET, cells!["tk"].to_vec()), &[]);
        known.keep((sql::DUE_COUNT, cells![1_u32].to_vec()), &[]);
        known.keep((sql::DEPENDENCY_LIST, cells!["wf"].to_vec()), &[]);
        known.forget(sql::TASK_PUT);
        assert!(known.get(sql::WORKFLOW_GET, cells!["wf"]).is_some());
        assert!(known.get(sql::WORKFLOW_GET, cells!["another"]).is_none());
        assert!(known.get(sql::LEASE_GET, cells!["tk"]).is_some());
        assert!(known.get(sql::DUE_COUNT, cells![1_u32]).is_none(), "it counts tasks, too");
        assert!(known.get(sql::DEPENDENCY_LIST, cells!["wf"]).is_none(), "it asks for the tasks of a workflow");
        known.forget(sql::WORKTREE_TOUCH);
        assert!(known.get(sql::LEASE_GET, cells!["tk"]).is_some());
        known.forget(sql::LEASE_PUT);
        assert!(known.get(sql::LEASE_GET, cells!["tk"]).is_none());
    }
}
