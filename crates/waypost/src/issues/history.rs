//! The history of issues, read from the ledger's commits.
//!
//! The ledger has the current state of an issue; the commits show its changes, and issues that the ledger does not have
//! any more.

use std::collections::{HashMap, HashSet};

use waypost_core::Result;
use waypost_core::ledger::appended::is_appended;
use waypost_core::ledger::difference::{self, Change};
use waypost_core::ledger::document::Document;
use waypost_core::ledger::issue::Issue;
use waypost_core::ledger::record::Record;
use waypost_workspace::history::{Commit, Content, History};
use waypost_workspace::ledger_branch::{LEDGER_BRANCH, LEDGER_PATH, may_have_ledger_branch};

use crate::machine::place::{LEDGERS, LedgerHome, Place};

/// Substring search uses SIMD for texts up to this length.
const MAX_NEEDLE_BYTES: usize = 32;

/// The changes of one commit to an issue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The commit; `None` for uncommitted changes.
    pub commit: Option<Commit>,
    /// The changes.
    pub changes: Vec<Change>,
}

/// The history of an issue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// The steps, newest first.
    pub steps: Vec<Step>,
    /// Whether this clone lacks older commits.
    pub is_shallow: bool,
}

/// Returns at most `limit` steps of an issue's history; `None` without version control.
///
/// `now` is its record in the ledger, if the ledger has it.
pub fn steps(place: &Place, id: &str, now: Option<&Record>, limit: usize) -> Result<Option<Steps>> {
    let mut steps: Vec<Step> = Vec::new();
    let mut all = Past::open(place, id)?;
    let Some(first) = all.first_mut() else { return Ok(None) };
    let is_shallow = first.history.is_shallow;
    let base = std::mem::take(&mut first.history.base);
    let changes = first.changes(&base, now)?;
    if !changes.is_empty() {
        steps.push(Step { commit: None, changes });
    }
    for mut past in all {
        for version in std::mem::take(&mut past.history.versions) {
            if steps.len() >= limit {
                break;
            }
            let after = past.record(&version.after)?;
            let changes = past.changes(&version.before, after.as_ref())?;
            // The ledger's own branch repeats the commits from before it.
            let is_known = |step: &Step| {
                let is_same = |commit: &Commit| commit.time == version.commit.time && step.changes == changes;
                step.commit.as_ref().is_some_and(is_same)
            };
            if !changes.is_empty() && !steps.iter().any(is_known) {
                steps.push(Step { commit: Some(version.commit), changes });
            }
        }
    }
    steps.truncate(limit);
    Ok(Some(Steps { steps, is_shallow }))
}

/// Finds the last version of a record that is not in the ledger any more, and the last commit that has it.
pub(crate) fn find_in_history(place: &Place, id: &str) -> Result<Option<(Record, Commit)>> {
    for past in Past::open(place, id)? {
        if let Some(found) = find_last(past)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn find_last(mut past: Past<'_>) -> Result<Option<(Record, Commit)>> {
    // The record before its removal; at first a removal that is not committed yet.
    let mut last: Vec<Record> = Vec::new();
    for contents in std::mem::take(&mut past.history.base) {
        last.extend(past.record(&contents)?);
    }
    let mut newest = None;
    for version in std::mem::take(&mut past.history.versions) {
        match past.record(&version.after)? {
            Some(record) if last.contains(&record) => return Ok(Some((record, version.commit))),
            Some(record) => newest = newest.or(Some((record, version.commit))),
            None if last.is_empty() => {
                // If a parent does not have it either, an older commit removed it.
                let before = version.before.iter().map(|contents| past.record(contents));
                let before: Vec<Option<Record>> = before.collect::<Result<_>>()?;
                last = before.into_iter().collect::<Option<_>>().unwrap_or_default();
            }
            None => {}
        }
    }
    // No commit removed the record; a merge chose the side without it.
    Ok(newest)
}

/// Finds the last version of a record that a branch does not have any more, and the commit that removed it.
pub(crate) fn find_removed(history: History, id: &str) -> Result<Option<(Record, Commit)>> {
    let mut past = Past { history, id, records: HashMap::new() };
    for version in std::mem::take(&mut past.history.versions) {
        // Mercurial also lists commits of merged branches that still had the record.
        if past.record(&version.after)?.is_some() {
            continue;
        }
        // If a parent does not have it either, this commit is a merge and an older commit removed the record.
        let before = version.before.iter().map(|contents| past.record(contents));
        let before: Option<Vec<Record>> = before.collect::<Result<_>>()?;
        if let Some(record) = before.and_then(|before| before.into_iter().next()) {
            return Ok(Some((record, version.commit)));
        }
    }
    Ok(None)
}

/// Returns the committed lines of the ledger; `None` without version control.
pub(crate) fn committed_lines(place: &Place) -> Result<Option<HashSet<Vec<u8>>>> {
    let Some(mut past) = Past::open(place, "")?.into_iter().next() else { return Ok(None) };
    let mut lines = HashSet::new();
    for content in std::mem::take(&mut past.history.base).iter().flatten() {
        let bytes = past.history.read(content)?.unwrap_or_default();
        lines.extend(Document::parse(bytes).lines().map(<[u8]>::to_vec));
    }
    Ok(Some(lines))
}

/// The history of one issue in a ledger.
struct Past<'a> {
    history: History,
    id: &'a str,
    /// Cache of the issue's record by content. Most contents come after one commit and before another.
    records: HashMap<Content, Option<Record>>,
}

impl<'a> Past<'a> {
    /// Opens the history of the ledger where it is, and then that of other homes which it had. Empty without version
    /// control.
    fn open(place: &Place, id: &'a str) -> Result<Vec<Past<'a>>> {
        let checkout = place.require_checkout()?;
        let has_branch = may_have_ledger_branch(checkout);
        let own_branch = if has_branch { History::of_branch(checkout, LEDGER_BRANCH, LEDGER_PATH)? } else { None };
        let histories = if place.ledger_home().0 == LedgerHome::Separate {
            let root = place.home_worktree.as_ref().filter(|_| own_branch.is_none());
            let before = root.map(|root| History::of(checkout, root, LEDGER_PATH, LEDGERS)).transpose()?.flatten();
            [own_branch, before]
        } else {
            [in_worktree(place)?, own_branch]
        };
        Ok(histories.into_iter().flatten().map(|history| Past { history, id, records: HashMap::new() }).collect())
    }

    /// Returns the issue's record in the first content that has it.
    fn record(&mut self, contents: &[Content]) -> Result<Option<Record>> {
        for content in contents {
            if !self.records.contains_key(content) {
                let bytes = self.history.read(content)?.unwrap_or_default();
                self.records.insert(content.clone(), record_in(&bytes, self.id));
            }
            if let Some(Some(record)) = self.records.get(content) {
                return Ok(Some(record.clone()));
            }
        }
        Ok(None)
    }

    /// Returns the changes compared with every parent. A field that equals one parent's was changed there, not here.
    fn changes(&mut self, before: &[Vec<Content>], after: Option<&Record>) -> Result<Vec<Change>> {
        let Some((first, others)) = before.split_first() else { return Ok(difference::between(None, after)) };
        let mut changes = difference::between(self.record(first)?.as_ref(), after);
        for contents in others {
            let other = difference::between(self.record(contents)?.as_ref(), after);
            changes.retain(|change| other.iter().any(|known| known.ends_like(change)));
        }
        Ok(changes)
    }
}

/// Returns the history of a ledger that a worktree has.
fn in_worktree(place: &Place) -> Result<Option<History>> {
    let checkout = place.require_checkout()?;
    let Some((path, _)) = place.ledger() else { return Ok(None) };
    // A worktree may be inside another one.
    let roots = place.home_worktree.iter().chain(&checkout.root);
    let Some(root) = roots.filter(|root| path.starts_with(root)).max_by_key(|root| root.as_os_str().len()) else {
        return Ok(None);
    };
    let Some(path) = path.strip_prefix(root).ok().and_then(|path| path.to_str()) else { return Ok(None) };
    History::of(checkout, root, path, LEDGERS)
}

/// Finds the record of an issue in a ledger's bytes; if there are several, the one changed last.
fn record_in(bytes: &[u8], id: &str) -> Option<Record> {
    let mut text = String::from_utf8_lossy(bytes);
    if text.lines().any(|line| is_appended(line.as_bytes())) {
        // A tool that does not run git's filters has committed them.
        text = String::from_utf8_lossy(&Document::parse(bytes.to_vec()).to_bytes()).into_owned().into();
    }
    // Histories have many versions of many lines, so only lines that may have the id are parsed.
    let part = plain_part(id);
    let lines = text.trim_start_matches('\u{feff}').lines().filter(|line| line.contains(part));
    let issue = |line: &str| {
        let record = Record::parse(line).ok()?;
        let (issue, _) = Issue::read(&record)?;
        (issue.id == id).then_some((issue.updated_at, record))
    };
    lines.filter_map(issue).max_by_key(|(updated_at, _)| *updated_at).map(|(_, record)| record)
}

/// Returns the longest part of an id that every tool spells in the same way, at most [`MAX_NEEDLE_BYTES`] of it.
fn plain_part(id: &str) -> &str {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
    let longest = id.split(|char| !is_plain(char)).max_by_key(|part| part.len()).unwrap_or_default();
    &longest[..longest.len().min(MAX_NEEDLE_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title(text: &str, id: &str) -> Option<String> {
        record_in(text.as_bytes(), id)?.text("title")
    }

    #[test]
    fn only_the_record_with_the_id_is_found_in_any_spelling() {
        let text = concat!(
            "\u{feff}{\"id\":\"a-1\",\"title\":\"first\"}\r\n",
            "not a record a-1\n",
            "{\"_type\":\"memory\",\"id\":\"a-1\",\"title\":\"other kind\"}\n",
            "{\"id\":\"a-1.1\",\"title\":\"longer\",\"dependencies\":[{\"depends_on_id\":\"a-1\"}]}\n",
            "{ \"title\": \"spaced\", \"id\": \"b\" }\n",
            "{\"id\":\"\\u003c\\u00fc\\\">\",\"title\":\"escaped\"}\n",
            "{\"id\":\"--output=x\",\"title\":\"an option\"}",
        );
        for (id, expected) in [
            ("a-1", Some("first")),
            ("a-1.1", Some("longer")),
            ("b", Some("spaced")),
            ("<ü\">", Some("escaped")),
            ("--output=x", Some("an option")),
            ("a-", None),
            ("a-1.", None),
            (".*", None),
            ("", None),
        ] {
            assert_eq!(title(text, id).as_deref(), expected, "{id:?}");
        }
    }

    #[test]
    fn the_record_changed_last_is_found_among_several() {
        let line = |day: u32, title: &str| {
            format!("{{\"id\":\"a\",\"title\":\"{title}\",\"updated_at\":\"2026-01-0{day}\"}}\n")
        };
        let text = [line(1, "old"), line(3, "new"), line(2, "middle"), line(3, "new, and below")].concat();
        assert_eq!(title(&text, "a").as_deref(), Some("new, and below"));
    }
}
