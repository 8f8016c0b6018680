//! Building an index from scratch.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

use foldhash::fast::RandomState;
use waypost_core::Result;
use waypost_core::ledger::ready::{self, Facts, Hold, Inherited, Issues, Link};
use waypost_core::ledger::vocabulary::{Category, Terms};
use waypost_core::time::Timestamp;

use super::Index;
use super::counters::Difference;
use super::lines::{KnownLine, KnownLines, NO_ISSUE, ParsedLine, UNREADABLE, parse_line};
use super::rows::{Form, IssueRow, ledger_row, stored_stamp};
use crate::file::Source;

/// All issues, while an index is built from scratch.
struct AllIssues<'a> {
    terms: &'a Terms,
    rows: HashMap<String, IssueRow, RandomState>,
    /// The issues that have open parts.
    open_parents: HashSet<String, RandomState>,
}

impl Issues for AllIssues<'_> {
    fn facts(&self, id: &str) -> Option<Cow<'_, Facts>> {
        self.rows.get(id).map(|row| Cow::Borrowed(&row.facts))
    }

    fn category(&self, id: &str) -> Option<Category> {
        self.rows.get(id).map(|row| row.facts.category).or_else(|| self.terms.pruned.category(id))
    }

    fn has_open_child(&self, id: &str) -> bool {
        self.open_parents.contains(id)
    }

    fn leased_to_another(&self, _id: &str) -> Option<String> {
        None
    }
}

impl Index {
    /// Fills an empty index.
    pub(crate) fn fill(&self, sources: &[Source<'_>], now: Timestamp) -> Result<()> {
        let mut rows: HashMap<String, IssueRow, RandomState> = HashMap::default();
        let mut repeated: BTreeSet<String> = BTreeSet::new();
        let mut last = 0;
        for (number, source) in sources.iter().enumerate() {
            let ledger = ledger_row(number);
            let mut lines = KnownLines::default();
            for bytes in source.document.lines() {
                let row = match parse_line(bytes) {
                    ParsedLine::Issue(issue, raw) => {
                        last += 1;
                        self.execute(
                            "INSERT INTO line (line, ledger, id, rank, raw) VALUES (?1, ?2, ?3, ?4, ?5)",
                            (last, ledger, &issue.id, self.search_rank(&issue), raw),
                        )?;
                        if rows.contains_key(&issue.id) {
                            repeated.insert(issue.id);
                        } else {
                            rows.insert(issue.id.clone(), IssueRow::of(*issue, last, ledger, None, &self.terms));
                        }
                        last
                    }
                    ParsedLine::NoIssue => NO_ISSUE,
                    ParsedLine::Unreadable => UNREADABLE,
                };
                lines.0.push(KnownLine { hash: self.hash(bytes), row });
            }
            let stamp = stored_stamp(&source.seen);
            let form = Form { is_conflicted: source.is_conflicted, restored: source.restored.len() };
            self.write_ledger(ledger, source.path, stamp, form, &lines)?;
        }
        if !repeated.is_empty() {
            self.sql(|connection| connection.execute_batch("CREATE INDEX line_by_id ON line (id)"))?;
        }
        for id in repeated {
            let row = self.effective_row(&id)?;
            rows.extend(row.map(|row| (id, row)));
        }
        let open = rows.values().filter(|row| !row.facts.category.is_over());
        let open_parents = open.filter_map(|row| row.facts.parent_id.clone()).collect();
        let issues = AllIssues { terms: &self.terms, rows, open_parents };
        let mut ids: Vec<&String> = issues.rows.keys().collect();
        // In the order of the primary key, SQLite appends each row.
        ids.sort_unstable();
        let waits_for = |facts: &Facts| ready::waits_for(facts, &issues, self.terms.ignore_unresolved);
        let mut inherited = Inherited::default();
        let mut counters = Difference::default();
        for id in ids {
            let row = &issues.rows[id];
            let above = inherited.of(row.facts.parent_id.as_deref(), |id| {
                let facts = &issues.rows.get(id)?.facts;
                Some(Link::Unknown(Hold::by(facts, waits_for(facts)), facts.parent_id.clone()))
            });
            let standing = ready::standing(&row.facts, waits_for(&row.facts), above, &issues);
            self.write_row(row, standing)?;
            counters.add(&row.counted(standing));
        }
        self.write_counters(&counters)?;
        self.sql(|connection| connection.execute_batch(include_str!("indexes.sql")))?;
        self.raise_revision(now)
    }
}
