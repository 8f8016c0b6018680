//! A cache of the rows that a transaction has read.
//!
//! No other transaction can change them: a writer holds the lock until it ends, and a reader sees one snapshot.

use crate::cell::Cell;
use crate::sql::Query;

/// Rows by statement and parameters.
#[derive(Default)]
pub(super) struct RowCache(Vec<Entry>);

struct Entry {
    query: Query,
    rows: Vec<Vec<Cell>>,
}

impl RowCache {
    pub(super) fn get(&self, sql: &str, parameters: &[Cell]) -> Option<&[Vec<Cell>]> {
        let entry = self.0.iter().find(|entry| entry.query.0 == sql && entry.query.1 == parameters)?;
        Some(&entry.rows)
    }

    pub(super) fn insert(&mut self, query: Query, rows: Vec<Vec<Cell>>) {
        self.0.push(Entry { query, rows });
    }

    /// Removes every entry that a write may change: those whose statement names the written table.
    pub(super) fn invalidate(&mut self, write: &str) {
        let table = words(write).find(|word| !["INSERT", "INTO", "UPDATE", "DELETE", "FROM"].contains(word));
        self.0.retain(|entry| !words(entry.query.0).any(|word| Some(word) == table));
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
    fn a_write_invalidates_the_queries_of_its_table_and_no_others() {
        let mut cache = RowCache::default();
        cache.insert((sql::WORKFLOW_GET, cells!["wf"].to_vec()), Vec::new());
        cache.insert((sql::LEASE_GET, cells!["tk"].to_vec()), Vec::new());
        cache.insert((sql::DUE_COUNT, cells![1_u32].to_vec()), Vec::new());
        cache.insert((sql::DEPENDENCY_LIST, cells!["wf"].to_vec()), Vec::new());
        cache.invalidate(sql::TASK_PUT);
        assert!(cache.get(sql::WORKFLOW_GET, cells!["wf"]).is_some());
        assert!(cache.get(sql::WORKFLOW_GET, cells!["another"]).is_none());
        assert!(cache.get(sql::LEASE_GET, cells!["tk"]).is_some());
        assert!(cache.get(sql::DUE_COUNT, cells![1_u32]).is_none(), "it counts tasks");
        assert!(cache.get(sql::DEPENDENCY_LIST, cells!["wf"]).is_none(), "it reads the tasks of a workflow");
        cache.invalidate(sql::WORKTREE_TOUCH);
        assert!(cache.get(sql::LEASE_GET, cells!["tk"]).is_some());
        cache.invalidate(sql::LEASE_PUT);
        assert!(cache.get(sql::LEASE_GET, cells!["tk"]).is_none());
    }
}
