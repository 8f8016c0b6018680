//! The history of issues, as version control remembers the ledger.
//!
//! The ledger says how an issue is; the commits that changed its file say how it became so, and what was in it that is
//! not any more.

use std::collections::{HashMap, HashSet};

use waypost_core::ledger::difference::{self, Change};
use waypost_core::ledger::document::Document;
use waypost_core::ledger::issue::Issue;
use waypost_core::ledger::record::Record;
use waypost_core::{Error, Kind, Result};
use waypost_workspace::history::{Commit, Content, History};

use crate::place::Place;

/// Where a ledger may have been before: in our directory, or in that of another tool.
const FORMER: &[&str] = &[".waypost/issues.jsonl", ".beads/issues.jsonl", ".beads/beads.jsonl"];

/// What happened to an issue at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The commit that did it; none if it is not committed.
    pub commit: Option<Commit>,
    /// What it changed.
    pub changes: Vec<Change>,
}

/// What happened to an issue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// The steps, the newest first.
    pub steps: Vec<Step>,
    /// Whether older commits exist that this clone does not have.
    pub is_shallow: bool,
}

/// Returns what happened to an issue, at most so many steps. None without version control.
///
/// `now` is its record in the ledger, if it is there.
pub fn steps(place: &Place, id: &str, now: Option<&Record>, limit: usize) -> Result<Option<Steps>> {
    let Some(mut past) = Past::open(place, id)? else { return Ok(None) };
    let mut steps = Vec::new();
    let base = std::mem::take(&mut past.history.base);
    let changes = past.changes(&base, now)?;
    if !changes.is_empty() {
        steps.push(Step { commit: None, changes });
    }
    for version in std::mem::take(&mut past.history.versions) {
        if steps.len() >= limit {
            break;
        }
        let after = past.record(&version.after)?;
        let changes = past.changes(&version.before, after.as_ref())?;
        if !changes.is_empty() {
            steps.push(Step { commit: Some(version.commit), changes });
        }
    }
    steps.truncate(limit);
    Ok(Some(Steps { steps, is_shallow: past.history.is_shallow }))
}

/// Finds the last version of a record that is not in the ledger any more, and the last commit that has it.
pub fn find_in_history(place: &Place, id: &str) -> Result<Option<(Record, Commit)>> {
    let Some(mut past) = Past::open(place, id)? else { return Ok(None) };
    // What it was when it was taken out; at first, that nobody committed.
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
                // A parent that did not have it either shows that it was taken out before.
                let before = version.before.iter().map(|contents| past.record(contents));
                let before: Vec<Option<Record>> = before.collect::<Result<_>>()?;
                last = before.into_iter().collect::<Option<_>>().unwrap_or_default();
            }
            None => {}
        }
    }
    // Nobody took it out, but a merge took the side that did not have it.
    Ok(newest)
}

/// Finds the last version of a record that a branch does not have any more, and the commit that took it out.
pub(crate) fn taken_out(history: History, id: &str) -> Result<Option<(Record, Commit)>> {
    let mut past = Past { history, id, records: HashMap::new() };
    for version in std::mem::take(&mut past.history.versions) {
        // Mercurial also lists commits of others who still had it, and which were merged later.
        if past.record(&version.after)?.is_some() {
            continue;
        }
        // A parent that did not have it either shows that it was taken out before, and this is a merge.
        let before = version.before.iter().map(|contents| past.record(contents));
        let before: Option<Vec<Record>> = before.collect::<Result<_>>()?;
        if let Some(record) = before.and_then(|before| before.into_iter().next()) {
            return Ok(Some((record, version.commit)));
        }
    }
    Ok(None)
}

/// Finds an issue in history that the ledger does not have. If it is not there either, the ledger's answer stands.
pub fn instead_of(error: Error, place: &Place, id: &str) -> Result<(Record, Commit)> {
    if error.kind() != Kind::NotFound || id.is_empty() {
        return Err(error);
    }
    match find_in_history(place, id) {
        Ok(Some(found)) => Ok(found),
        Ok(None) => Err(error),
        Err(why) => Err(error.hint(format!("nor could its history be searched: {}", why.full_message()))),
    }
}

/// Returns the lines of the ledger that are committed. None without version control.
pub fn committed_lines(place: &Place) -> Result<Option<HashSet<Vec<u8>>>> {
    let Some(mut past) = Past::open(place, "")? else { return Ok(None) };
    let mut lines = HashSet::new();
    for content in std::mem::take(&mut past.history.base).iter().flatten() {
        let bytes = past.history.read(content)?.unwrap_or_default();
        lines.extend(Document::parse(bytes).lines().map(<[u8]>::to_vec));
    }
    Ok(Some(lines))
}

/// The history of a ledger, as far as one issue goes.
struct Past<'a> {
    history: History,
    id: &'a str,
    /// The issue in the contents that were read so far. Most are the content after one commit and before another.
    records: HashMap<Content, Option<Record>>,
}

impl<'a> Past<'a> {
    fn open(place: &Place, id: &'a str) -> Result<Option<Past<'a>>> {
        let checkout = place.require_checkout()?;
        let Some((path, _)) = place.ledger() else { return Ok(None) };
        // A worktree may lie inside another.
        let roots = place.home_worktree.iter().chain(&checkout.root);
        let Some(root) = roots.filter(|root| path.starts_with(root)).max_by_key(|root| root.as_os_str().len()) else {
            return Ok(None);
        };
        let Some(path) = path.strip_prefix(root).ok().and_then(|path| path.to_str()) else { return Ok(None) };
        let history = History::of(checkout, root, path, FORMER)?;
        Ok(history.map(|history| Past { history, id, records: HashMap::new() }))
    }

    /// Returns the issue in the first content that has it.
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

    /// Returns what changed from all of several contents. What is as in one of them was changed there, and not now.
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

/// Finds the record of an issue in a ledger's bytes; of several the one that was changed last.
fn record_in(bytes: &[u8], id: &str) -> Option<Record> {
    let text = String::from_utf8_lossy(bytes);
    // Histories have many versions of many lines, so only those that could be it are read.
    let part = plain_part(id);
    let lines = text.trim_start_matches('\u{feff}').lines().filter(|line| line.contains(part));
    let issue = |line: &str| {
        let record = Record::parse(line).ok()?;
        let (issue, _) = Issue::read(&record)?;
        (issue.id == id).then_some((issue.updated_at, record))
    };
    lines.filter_map(issue).max_by_key(|(updated_at, _)| *updated_at).map(|(_, record)| record)
}

/// The longest part of an id that every tool spells in the same way, or enough of it.
fn plain_part(id: &str) -> &str {
    // A text of this length is looked for in many bytes at once.
    const ENOUGH: usize = 32;
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
    let longest = id.split(|char| !is_plain(char)).max_by_key(|part| part.len()).unwrap_or_default();
    &longest[..longest.len().min(ENOUGH)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title(text: &str, id: &str) -> Option<String> {
        record_in(text.as_bytes(), id)?.text("title")
    }

    #[test]
    fn the_record_of_an_id_is_found_in_any_spelling_and_no_other_is() {
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
    fn of_several_records_the_one_that_was_changed_last_counts() {
        let line = |day: u32, title: &str| {
            format!("{{\"id\":\"a\",\"title\":\"{title}\",\"updated_at\":\"2026-01-0{day}\"}}\n")
        };
        let text = [line(1, "old"), line(3, "new"), line(2, "middle"), line(3, "new, and below")].concat();
        assert_eq!(title(&text, "a").as_deref(), Some("new, and below"));
    }
}
