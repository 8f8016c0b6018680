//! Readiness of the issues that a change affects.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use foldhash::fast::RandomState;
use waypost_core::Result;
use waypost_core::ledger::ready::{self, Facts, Hold, Inherit as _, Inherited, Issues, Link};
use waypost_core::ledger::vocabulary::{Category, DependencyKind};

use super::Index;
use super::counters::Difference;
use super::rows::{StoredIssue, category};

// The SQL statements spell this kind of edge out.
const _: () = assert!(matches!(DependencyKind::Blocks.as_str().as_bytes(), b"blocks"));

impl Index {
    /// Rewrites the rows of issues whose lines changed, and updates the issues that depend on them.
    ///
    /// Only visits the parts of an issue if the issue now holds them differently, which is rare.
    pub(super) fn refresh_issues(&self, touched: &BTreeSet<String>) -> Result<()> {
        let mut affected = touched.clone();
        // Issues that hold their parts differently now.
        let mut roots: Vec<String> = Vec::new();
        // Unchanged issues that wait for more or fewer others now.
        let mut waiting: BTreeMap<String, i64> = BTreeMap::new();
        let mut changes = Vec::new();
        let mut counters = Difference::default();
        let has_lists = self.has_lists()?;
        for id in touched {
            let before = self.stored_issue(id)?;
            if let Some(before) = &before {
                counters.subtract(&before.counted(before.standing()));
            }
            let row = self.effective_row(id)?;
            self.execute("DELETE FROM edge WHERE id = ?1", [id])?;
            if has_lists {
                self.replace_labels(before.as_ref().map(|before| &before.facts), row.as_ref().map(|row| &row.facts))?;
            }
            if let Some(row) = &row {
                self.write_row(row, before.as_ref().map(StoredIssue::standing).unwrap_or_default())?;
            } else {
                self.execute("DELETE FROM issue WHERE id = ?1", [id])?;
            }
            changes.push((before, row.map(|row| row.facts)));
        }
        for (id, (before, after)) in touched.iter().zip(&changes) {
            let sides = [before.as_ref().map(|stored| &stored.facts), after.as_ref()];
            let [was_awaited, is_awaited] = sides.map(|facts| {
                let category = facts.map(|facts| facts.category).or_else(|| self.terms.pruned.category(id));
                i64::from(ready::still_blocks(category, self.terms.ignore_unresolved))
            });
            if was_awaited != is_awaited {
                for other in self.ids("SELECT id FROM edge WHERE other = ?1 AND kind = 'blocks'", id)? {
                    *waiting.entry(other).or_default() += is_awaited - was_awaited;
                }
            }
            let [was_part, is_part] =
                sides.map(|facts| facts.map(|facts| (&facts.parent_id, facts.category.is_over())));
            if was_part != is_part {
                affected.extend([was_part, is_part].into_iter().flatten().filter_map(|(parent, _)| parent.clone()));
            }
            let waits_for = after.as_ref().map(|facts| ready::waits_for(facts, self, self.terms.ignore_unresolved));
            self.write_waits_for(id, waits_for.unwrap_or_default())?;
            let hold_before = before.as_ref().map(|stored| (stored.hold(), &stored.facts.parent_id));
            let hold_after = after.as_ref().zip(waits_for);
            if hold_before != hold_after.map(|(facts, waits_for)| (Hold::by(facts, waits_for), &facts.parent_id)) {
                roots.push(id.clone());
            }
        }
        // Issues that the counters do not include at the moment.
        let mut uncounted = touched.clone();
        for (id, more) in waiting {
            let Some(mut stored) = self.stored_issue(&id)?.filter(|_| !touched.contains(&id)) else { continue };
            counters.subtract(&stored.counted(stored.standing()));
            uncounted.insert(id.clone());
            let before = stored.hold();
            stored.waits_for = stored.waits_for.saturating_add_signed(isize::try_from(more).unwrap_or_default());
            self.write_waits_for(&id, stored.waits_for)?;
            if stored.hold() != before {
                roots.push(id.clone());
            }
            affected.insert(id);
        }
        let below = self.with_all_parts(roots)?;
        affected.extend(below.iter().cloned());
        self.refresh_standings(&affected, &below, &uncounted, &mut counters)?;
        self.write_counters(&counters)
    }

    /// Returns issues and their parts, at any depth.
    fn with_all_parts(&self, mut ids: Vec<String>) -> Result<HashSet<String, RandomState>> {
        let mut found: HashSet<String, RandomState> = HashSet::default();
        while let Some(id) = ids.pop() {
            if found.insert(id.clone()) {
                ids.extend(self.ids("SELECT id FROM issue WHERE parent_id = ?1", &id)?);
            }
        }
        Ok(found)
    }

    /// Recomputes the readiness of issues. The stored inheritance of the issues in `undecided` is stale; that set includes
    /// all their descendants. The issues in `uncounted` are not subtracted from the counters again.
    fn refresh_standings(
        &self,
        ids: &BTreeSet<String>,
        undecided: &HashSet<String, RandomState>,
        uncounted: &BTreeSet<String>,
        counters: &mut Difference,
    ) -> Result<()> {
        let mut inherited = Inherited::default();
        for id in ids {
            let Some(stored) = self.stored_issue(id)? else { continue };
            let above = inherited.of(stored.facts.parent_id.as_deref(), |id| {
                // After a failure the index is marked as failed, and the caller discards the result.
                let stored = self.stored_issue(id).ok().flatten()?;
                Some(if undecided.contains(id) {
                    Link::Unknown(stored.hold(), stored.facts.parent_id)
                } else {
                    Link::Known(stored.hold().over(&stored.above))
                })
            });
            let standing = ready::standing(&stored.facts, stored.waits_for, above, self);
            self.write_standing(id, standing)?;
            if !uncounted.contains(id) {
                counters.subtract(&stored.counted(stored.standing()));
            }
            counters.add(&stored.counted(standing));
        }
        Ok(())
    }
}

impl Issues for Index {
    fn facts(&self, id: &str) -> Option<Cow<'_, Facts>> {
        // After a failure the index is marked as failed, and the caller discards the result.
        let blockers = self.ids("SELECT other FROM edge WHERE id = ?1 AND kind = 'blocks'", id).ok()?;
        let stored = self.stored_issue(id).ok().flatten()?;
        Some(Cow::Owned(Facts { blockers, ..stored.facts }))
    }

    fn category(&self, id: &str) -> Option<Category> {
        let found = self.one("SELECT category FROM issue WHERE id = ?1", [id], |row| row.get(0));
        found.ok().flatten().map(category).or_else(|| self.terms.pruned.category(id))
    }

    fn has_open_child(&self, id: &str) -> bool {
        let child = self.one("SELECT 1 FROM issue WHERE parent_id = ?1 AND category < 3 LIMIT 1", [id], |_| Ok(()));
        child.ok().flatten().is_some()
    }

    /// Leases are in the store, which the index does not read. An issue in progress is not ready anyway.
    fn leased_to_another(&self, _id: &str) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use waypost_core::ledger::vocabulary::Terms;
    use waypost_core::time::Timestamp;

    use super::super::lines::{KnownLine, KnownLines};
    use super::*;

    const CHAIN_LENGTH: usize = 3_000;

    /// A change of one issue writes at most this many counters: status, type, priority and readiness, before and after.
    const COUNTERS: u64 = 8;

    fn issue(number: usize, status: &str, fields: &str) -> Vec<u8> {
        format!("{{\"id\":\"i{number:05}\",\"title\":\"t\",\"status\":\"{status}\"{fields}}}").into_bytes()
    }

    fn chained(number: usize, status: &str) -> Vec<u8> {
        let parent = number.checked_sub(1).map(|parent| format!(",\"parent_id\":\"i{parent:05}\""));
        issue(number, status, &parent.unwrap_or_default())
    }

    /// Returns an index of a chain in which each issue is the parent of the next.
    fn chain() -> (Index, KnownLines) {
        let index = Index::in_memory(&Terms::default()).unwrap();
        index.fill(&[], Timestamp::from_millis(0)).unwrap();
        let mut known = KnownLines::default();
        let lines: Vec<Vec<u8>> = (0..CHAIN_LENGTH).map(|number| chained(number, "open")).collect();
        for (place, row) in index.apply(0, &[], lines.iter().map(Vec::as_slice)).unwrap().into_iter().enumerate() {
            known.0.push(KnownLine { hash: index.hash(&lines[place]), row });
        }
        (index, known)
    }

    /// Replaces a line, and returns how many rows that changed.
    fn rows_changed(index: &Index, lines: &mut KnownLines, place: usize, line: &[u8]) -> u64 {
        let before = index.connection.total_changes();
        index.replace_line(0, lines, place, true, Some(line)).unwrap();
        index.connection.total_changes() - before
    }

    fn ready(index: &Index) -> usize {
        index.ready(Timestamp::from_millis(0), None).unwrap().len()
    }

    #[test]
    fn a_change_visits_the_parts_of_an_issue_only_if_it_holds_them_differently() {
        let (index, mut lines) = chain();
        assert_eq!(ready(&index), CHAIN_LENGTH);
        for (place, status) in
            [(0, "closed"), (0, "open"), (CHAIN_LENGTH / 2, "in_progress"), (CHAIN_LENGTH - 1, "closed")]
        {
            let rows = rows_changed(&index, &mut lines, place, &chained(place, status));
            assert!(rows < 10 + COUNTERS, "{rows} rows to make issue {place} {status}");
        }
        assert_eq!(ready(&index), CHAIN_LENGTH - 2);
        let rows = rows_changed(&index, &mut lines, 10, &chained(10, "deferred"));
        assert!((CHAIN_LENGTH as u64 - 100..2 * CHAIN_LENGTH as u64).contains(&rows), "{rows} rows");
        assert_eq!(ready(&index), 10);
        // An ancestor already holds back the issue, so its children do not change.
        let rows = rows_changed(&index, &mut lines, 20, &chained(20, "deferred"));
        assert!(rows < 2 * CHAIN_LENGTH as u64, "{rows} rows");
        index.replace_line(0, &mut lines, 10, true, Some(&chained(10, "open"))).unwrap();
        assert_eq!(ready(&index), 20);
    }

    #[test]
    fn an_issue_with_many_blockers_is_ready_after_all_are_closed_at_once() {
        let index = Index::in_memory(&Terms::default()).unwrap();
        index.fill(&[], Timestamp::from_millis(0)).unwrap();
        let blockers = |ids: std::ops::Range<usize>| {
            let edges: Vec<String> =
                ids.map(|id| format!("{{\"depends_on_id\":\"i{id:05}\",\"type\":\"blocks\"}}")).collect();
            format!(",\"dependencies\":[{}]", edges.join(","))
        };
        // The first issue waits for all others.
        let mut lines: Vec<Vec<u8>> = (0..CHAIN_LENGTH).map(|number| issue(number, "open", "")).collect();
        lines[0] = issue(0, "open", &blockers(1..CHAIN_LENGTH));
        let rows = index.apply(0, &[], lines.iter().map(Vec::as_slice)).unwrap();
        let waits_for = || index.stored_issue("i00000").unwrap().unwrap().waits_for;
        assert_eq!(waits_for(), CHAIN_LENGTH - 1);
        let closed: Vec<Vec<u8>> = (1..CHAIN_LENGTH).map(|number| issue(number, "closed", "")).collect();
        index.apply(0, &rows[1..], closed.iter().map(Vec::as_slice)).unwrap();
        assert_eq!(waits_for(), 0);
        assert_eq!(ready(&index), 1);
    }
}
