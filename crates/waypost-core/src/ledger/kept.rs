//! Changes that no commit has yet, kept so that no other program takes them back.
//!
//! Each change of an issue is kept as the record before and after it. If another program then writes an older version of the
//! ledger, as `git checkout -- .` and an editor with an old buffer do, the newest kept record is put back. What the other
//! program wrote besides stays: it is merged with the kept record by the rules of [`merge`](super::merge).
//!
//! A change is recorded before it is written, and its end afterwards. If a process dies between the two, the ledger tells whether
//! it was written. The records are not synced, so after a restart of the machine the last ones may be missing; then only
//! what is certainly older than a kept record is replaced.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::document::{Document, id_of};
use super::issue::parse_time;
use super::merge::{is_same, merge_copies, unite};
use super::record::Record;
use crate::error::Result;
use crate::time::Timestamp;

/// Of an issue that changed more often, the first and the last versions stay.
const MAX_VERSIONS: usize = 16;

/// The changes of one issue.
#[derive(Clone, Debug, Default)]
struct History {
    /// The versions of the issue, oldest first. None where the ledger did not have it.
    versions: Vec<Option<Record>>,
    /// When the last change was made.
    changed_at: Option<Timestamp>,
}

/// The changes of a ledger that are kept.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    issues: BTreeMap<String, History>,
}

/// One change of an issue: its record before and after it. None where the ledger does not have the issue.
#[derive(Clone, Debug)]
pub struct KeptChange {
    /// The record before the change.
    pub was: Option<Record>,
    /// The record after it.
    pub is: Option<Record>,
}

/// A line of the file with the kept changes of all ledgers of a repository.
#[derive(Deserialize)]
struct Line<'a> {
    ledger: String,
    at: Timestamp,
    #[serde(borrow)]
    was: Option<&'a RawValue>,
    #[serde(borrow)]
    is: Option<&'a RawValue>,
}

/// The line after the changes that were written together.
#[derive(Deserialize)]
struct End {
    #[serde(rename = "end")]
    _stamp: String,
    boot: String,
}

/// Returns the line that ends changes which were written together. `stamp` identifies the version of the ledger's file that has
/// all kept changes; it is empty if there is none. `boot` identifies the run of the machine.
pub fn end_line(stamp: &str, boot: &str) -> String {
    format!("{{\"end\":{},\"boot\":{}}}\n", serde_json::json!(stamp), serde_json::json!(boot))
}

impl Line<'_> {
    /// Returns whether a ledger has the record after the change.
    fn is_written(&self, document: &Document) -> bool {
        let record = |raw: Option<&RawValue>| raw.and_then(|raw| Record::parse(raw.get()).ok());
        let (was, is) = (record(self.was), record(self.is));
        let Some(id) = is.as_ref().or(was.as_ref()).and_then(|record| record.text("id")) else { return false };
        let here = records_of(document, std::iter::once(&id)).remove(&id).unwrap_or_default();
        match is {
            Some(is) => here.iter().any(|record| is_same(record, &is)),
            None => here.is_empty(),
        }
    }
}

impl KeptChange {
    /// Returns the line of a change that was made in a ledger at this time, with its line break.
    pub fn to_line(&self, ledger: &str, at: Timestamp) -> String {
        let text = |record: &Option<Record>| record.as_ref().map_or_else(|| "null".to_owned(), Record::to_line);
        let (ledger, at) = (serde_json::json!(ledger), serde_json::json!(at));
        format!("{{\"ledger\":{ledger},\"at\":{at},\"was\":{},\"is\":{}}}\n", text(&self.was), text(&self.is))
    }
}

impl Kept {
    /// Reads the changes of one ledger, and returns the lines of others unchanged. `document` is the ledger as it is now, and
    /// `boot` the current run of the machine. A line that cannot be read was cut off by a crash, and is left out.
    pub fn parse(content: &[u8], ledger: &str, document: &Document, boot: &str) -> (Kept, Vec<u8>) {
        let (mut kept, mut others) = (Kept::default(), Vec::new());
        let mut unended: Vec<Line<'_>> = Vec::new();
        let mut is_restarted = false;
        for text in content.split_inclusive(|byte| *byte == b'\n') {
            if let Ok(line) = serde_json::from_slice::<Line<'_>>(text) {
                if line.ledger == ledger {
                    unended.push(line);
                } else {
                    others.extend_from_slice(text);
                }
            } else if let Ok(end) = serde_json::from_slice::<End>(text) {
                is_restarted = end.boot != boot;
                unended.drain(..).for_each(|line| kept.add(&line));
            }
        }
        if unended.iter().any(|line| line.is_written(document)) {
            for line in &unended {
                kept.add(line);
            }
        }
        if is_restarted {
            // The last changes may be missing.
            let found = records_of(document, kept.issues.keys());
            kept.issues.retain(|id, history| {
                let here = found.get(id).map_or(&[][..], Vec::as_slice);
                history.put_back(here).is_none() || history.is_newer_than(here)
            });
        }
        (kept, others)
    }

    fn add(&mut self, line: &Line<'_>) {
        let record = |raw: Option<&RawValue>| raw.map(|raw| Record::parse(raw.get())).transpose();
        let (Ok(was), Ok(is)) = (record(line.was), record(line.is)) else { return };
        let Some(id) = is.as_ref().or(was.as_ref()).and_then(|record| record.text("id")) else { return };
        let history = self.issues.entry(id).or_default();
        if !history.versions.last().is_some_and(|last| is_same_version(last.as_ref(), was.as_ref())) {
            history.versions.push(was);
        }
        history.versions.push(is);
        if history.versions.len() > MAX_VERSIONS {
            history.versions.remove(1);
        }
        history.changed_at = Some(line.at);
    }

    /// Returns the lines of all changes, which [`Kept::parse`] reads.
    pub fn to_lines(&self, ledger: &str) -> String {
        let changes = self.issues.values().flat_map(|history| {
            let at = history.changed_at.unwrap_or(Timestamp::from_millis(0));
            history.versions.windows(2).map(move |pair| (KeptChange { was: pair[0].clone(), is: pair[1].clone() }, at))
        });
        changes.map(|(change, at)| change.to_line(ledger, at)).collect()
    }

    /// Tells whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.issues.is_empty()
    }

    /// Returns what another program took back: for each such issue, the record that the ledger should have; None if it should
    /// not have the issue.
    pub fn taken_back(&self, document: &Document) -> BTreeMap<String, Option<Record>> {
        let found = records_of(document, self.issues.keys());
        let put_back = |(id, history): (&String, &History)| {
            let here = found.get(id).map_or(&[][..], Vec::as_slice);
            Some((id.clone(), history.put_back(here)?.0))
        };
        self.issues.iter().filter_map(put_back).collect()
    }

    /// Puts back what another program took back, and returns the ids of these issues.
    pub fn restore(&self, document: &mut Document) -> Result<BTreeSet<String>> {
        let taken_back = self.taken_back(document);
        if taken_back.is_empty() {
            return Ok(BTreeSet::new());
        }
        let mut gone = Vec::new();
        let mut is_placed: BTreeSet<&str> = BTreeSet::new();
        for place in 0..document.len() {
            let Some(id) = id_of(document.line(place)).map(std::borrow::Cow::into_owned) else { continue };
            let Some((id, record)) = taken_back.get_key_value(&id) else { continue };
            match record {
                Some(record) if is_placed.insert(id) => document.replace(place, record)?,
                _ => gone.push(place),
            }
        }
        document.remove_all(&gone);
        let new = taken_back.iter().filter(|(id, _)| !is_placed.contains(id.as_str()));
        let new: Vec<Record> = new.filter_map(|(_, record)| record.clone()).collect();
        document.insert_all(&new)?;
        Ok(taken_back.into_keys().collect())
    }

    /// Forgets the changes that a commit or a stash of this time has. Returns whether there were any.
    pub fn forget_saved(&mut self, saved: &Document, saved_at: Timestamp) -> bool {
        let found = records_of(saved, self.issues.keys());
        let mut is_changed = false;
        self.issues.retain(|id, history| {
            let here = found.get(id).map_or(&[][..], Vec::as_slice);
            let is_saved = |version: &Option<Record>| match version {
                Some(version) => here.iter().any(|record| is_same(record, version)),
                // Older commits do not have an issue either that was added after them.
                None => here.is_empty() && history.changed_at.is_some_and(|changed| whole_seconds(changed) <= saved_at),
            };
            // A merge may have changed the record further before it was committed.
            if !here.is_empty()
                && history.versions.last().is_some_and(Option::is_some)
                && history.put_back(here).is_none()
            {
                is_changed = true;
                return false;
            }
            let Some(last) = history.versions.iter().rposition(is_saved) else { return true };
            is_changed |= last > 0;
            history.versions.drain(..last);
            history.versions.len() > 1
        });
        is_changed
    }
}

/// The record that an issue should have; None if the ledger should not have the issue.
struct Wanted(Option<Record>);

impl History {
    /// Returns what an issue should be instead of the records that the file has. None if these may stay.
    fn put_back(&self, here: &[Record]) -> Option<Wanted> {
        let newest = self.versions.last()?.as_ref();
        let known = || self.versions.iter().flatten();
        let Some(newest) = newest else {
            // A person or an agent removed it on purpose. A version that is not among the removed ones stays.
            let is_known = |record: &Record| known().any(|version| is_same(version, record));
            return (!here.is_empty() && here.iter().all(is_known)).then_some(Wanted(None));
        };
        if here.iter().any(|record| is_same(record, newest)) {
            return None;
        }
        let found = match here {
            [] => return Some(Wanted(Some(newest.clone()))),
            [record] => record.clone(),
            several => unite(&several.iter().collect::<Vec<_>>()),
        };
        let oldest = known().next().and_then(time);
        let is_older = time(&found).zip(oldest).is_some_and(|(found, oldest)| found < oldest);
        if is_older || known().any(|version| is_same(version, &found)) {
            return Some(Wanted(Some(newest.clone())));
        }
        // Every change of ours sets the time, and a person who edits the file does not.
        let base = known().rev().find(|version| time(version) == time(&found)).or_else(|| known().next());
        let merged = merge_copies(base, newest, &found);
        (!is_same(&merged, &found)).then_some(Wanted(Some(merged)))
    }

    /// Returns whether the newest version was changed after all of these records.
    fn is_newer_than(&self, here: &[Record]) -> bool {
        let newest = self.versions.last().and_then(Option::as_ref);
        newest.is_some_and(|newest| here.iter().all(|record| time(record) < time(newest)))
    }
}

/// Returns the time of the last change of a record.
fn time(record: &Record) -> Option<Timestamp> {
    record.text("updated_at").as_deref().and_then(parse_time)
}

/// Returns the records of these issues.
fn records_of<'i>(document: &Document, ids: impl Iterator<Item = &'i String>) -> HashMap<String, Vec<Record>> {
    let mut found: HashMap<String, Vec<Record>> = ids.map(|id| (id.clone(), Vec::new())).collect();
    for line in document.lines() {
        let Some(known) = id_of(line).and_then(|id| found.get_mut(&*id)) else { continue };
        known.extend(std::str::from_utf8(line).ok().and_then(|line| Record::parse(line).ok()));
    }
    found
}

fn is_same_version(one: Option<&Record>, other: Option<&Record>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => is_same(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// Commits have whole seconds.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_millis(time.as_millis() / 1000 * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEDGER: &str = "/repo/issues.jsonl";

    /// Returns the line of issue `a` at a minute, with more fields.
    fn line(minute: u8, more: &str) -> String {
        format!("{{\"id\":\"a\",\"title\":\"t\",\"updated_at\":\"2026-01-01T00:{minute:02}:00Z\"{more}}}")
    }

    fn kept(versions: &[Option<&str>]) -> Kept {
        let record = |line: Option<&str>| line.map(|line| Record::parse(line).unwrap());
        let changes = versions.windows(2).map(|pair| KeptChange { was: record(pair[0]), is: record(pair[1]) });
        let content: String = changes.map(|change| change.to_line(LEDGER, Timestamp::from_millis(5_000))).collect();
        parse(&(content + &end_line("", "boot")), &[]).0
    }

    fn parse(content: &str, file: &[&str]) -> (Kept, Vec<u8>) {
        Kept::parse(content.as_bytes(), LEDGER, &document(file), "boot")
    }

    fn document(lines: &[&str]) -> Document {
        Document::parse(lines.iter().flat_map(|line| [line, "\n"]).collect::<String>().into_bytes())
    }

    /// Checks what a file becomes whose changes are kept.
    #[track_caller]
    fn check(versions: &[Option<&str>], file: &[&str], expected: &[&str]) {
        let mut restored = document(file);
        let ids = kept(versions).restore(&mut restored).unwrap();
        let text = |document: &Document| String::from_utf8(document.to_bytes()).unwrap();
        assert_eq!(text(&restored), text(&document(expected)));
        assert_eq!(ids.is_empty(), file == expected);
        assert!(kept(versions).taken_back(&restored).is_empty(), "restoring twice changes nothing");
    }

    #[test]
    fn an_older_version_is_replaced_by_the_newest() {
        let (one, two, three) = (line(1, ""), line(2, ",\"labels\":[\"x\"]"), line(3, ",\"assignee\":\"kim\""));
        let other = "{\"id\":\"b\",\"title\":\"other\"}";
        check(&[None, Some(&one)], &[other], &[&one, other]);
        check(&[Some(&one), Some(&two)], &[&one, other], &[&two, other]);
        check(&[Some(&one), Some(&two)], &[&two], &[&two]);
        // The label was removed again: an old buffer that has it does not bring it back.
        let versions = [Some(one.as_str()), Some(&two), Some(&three)];
        check(&versions, &[&two], &[&three]);
        check(&versions, &[&one], &[&three]);
        check(&versions, &[], &[&three]);
        // The version of a commit before all that is kept.
        check(&versions, &[&line(0, ",\"labels\":[\"old\"]")], &[&three]);
    }

    #[test]
    fn a_removed_issue_is_removed_again_unless_another_program_changed_it() {
        let (one, edited) = (line(1, ""), line(1, ",\"assignee\":\"kim\""));
        check(&[Some(&one), None], &[&one], &[]);
        check(&[Some(&one), None], &[&edited], &[&edited]);
        check(&[None, Some(&one), None], &[&one], &[]);
    }

    #[test]
    fn another_spelling_is_not_an_older_version() {
        let one = line(1, "");
        let two = line(2, ",\"labels\":[\"x\",\"y\"],\"priority\":1");
        let spelled = "{\"id\": \"a\", \"labels\": [\"x\", \"y\"], \"priority\": 1, \"title\": \"\\u0074\", \
                       \"updated_at\": \"2026-01-01T00:02:00.000Z\"}";
        check(&[Some(&one), Some(&two)], &[spelled], &[spelled]);
    }

    #[test]
    fn an_edit_of_the_newest_version_stays_as_it_is() {
        let (one, two) = (line(1, ""), line(2, ",\"labels\":[\"x\"]"));
        let edited = line(2, ",\"labels\":[]").replace("\"t\"", "\"edited\"");
        check(&[Some(&one), Some(&two)], &[&edited], &[&edited]);
        check(&[None, Some(&two)], &[&edited], &[&edited]);
    }

    #[test]
    fn an_edit_of_an_older_version_is_merged_with_the_newest() {
        let (one, two) = (line(1, ""), line(2, ",\"labels\":[\"x\"]"));
        let mut restored = document(&[&line(1, ",\"assignee\":\"kim\"")]);
        kept(&[Some(&one), Some(&two)]).restore(&mut restored).unwrap();
        let record = restored.record(0).unwrap();
        assert_eq!((record.text("assignee").as_deref(), record.raw("labels")), (Some("kim"), Some("[\"x\"]")));
    }

    #[test]
    fn a_change_of_another_clone_is_merged_with_the_newest() {
        let (one, two) = (line(1, ""), line(2, ",\"labels\":[\"x\"]"));
        let mut restored = document(&[&line(3, ",\"priority\":0")]);
        kept(&[Some(&one), Some(&two)]).restore(&mut restored).unwrap();
        let record = restored.record(0).unwrap();
        assert_eq!((record.raw("priority"), record.raw("labels")), (Some("0"), Some("[\"x\"]")));
    }

    #[test]
    fn what_a_commit_has_is_forgotten() {
        let (one, two, three) = (line(1, ""), line(2, ",\"x\":1"), line(3, ",\"x\":2"));
        let at = Timestamp::from_millis;
        let mut all = kept(&[None, Some(&one), Some(&two)]);
        assert!(!all.forget_saved(&document(&["{\"id\":\"b\"}"]), at(0)));
        assert!(all.forget_saved(&document(&[&two]), at(0)) && all.is_empty());
        // Of a later change, the committed version is the one that it changed.
        let mut later = kept(&[None, Some(&one), Some(&two), Some(&three)]);
        assert!(later.forget_saved(&document(&[&two]), at(0)));
        assert_eq!(later.to_lines(LEDGER), kept(&[Some(&two), Some(&three)]).to_lines(LEDGER));
        // A merge with another clone's change was committed.
        let mut merged = kept(&[Some(&one), Some(&two)]);
        assert!(merged.forget_saved(&document(&[&line(3, ",\"x\":1,\"priority\":0")]), at(0)) && merged.is_empty());
        let mut other = kept(&[Some(&one), Some(&two)]);
        assert!(!other.forget_saved(&document(&[&line(3, ",\"priority\":0")]), at(0)) && !other.is_empty());
        // A removal is in a commit that was made after it.
        let mut removed = kept(&[Some(&one), None]);
        assert!(!removed.forget_saved(&document(&[]), at(4_000)));
        assert!(removed.forget_saved(&document(&[]), at(5_000)) && removed.is_empty());
    }

    #[test]
    fn lines_of_other_ledgers_stay_and_lines_that_were_cut_off_do_not_count() {
        let change = KeptChange { was: None, is: Some(Record::parse(&line(1, "")).unwrap()) };
        let at = Timestamp::from_millis(0);
        let (own, other) = (change.to_line(LEDGER, at), change.to_line("/other", at));
        let content = format!("{own}{other}{}{}", end_line("", "boot"), &own[..own.len() / 2]);
        let (kept, others) = parse(&content, &[]);
        assert_eq!((kept.to_lines(LEDGER), others), (own, other.into_bytes()));
    }

    #[test]
    fn a_change_without_an_end_counts_if_the_ledger_has_it() {
        let (one, two) = (line(1, ""), line(2, ",\"x\":1"));
        let record = |line: &str| Some(Record::parse(line).unwrap());
        let at = Timestamp::from_millis(0);
        let removed = KeptChange { was: record(&one), is: None }.to_line(LEDGER, at) + &end_line("", "boot");
        // The issue was removed and is added again: the process died before or after it wrote the ledger.
        for (new, file, expected) in [(&one, vec![one.as_str()], vec![one.as_str()]), (&two, vec![], vec![])] {
            let content = format!("{removed}{}", KeptChange { was: None, is: record(new) }.to_line(LEDGER, at));
            let mut restored = document(&file);
            parse(&content, &file).0.restore(&mut restored).unwrap();
            assert_eq!(restored.to_bytes(), document(&expected).to_bytes());
        }
    }

    #[test]
    fn after_a_restart_of_the_machine_only_older_records_are_replaced() {
        let (one, two) = (line(1, ""), line(2, ",\"x\":1"));
        let record = |line: &str| Some(Record::parse(line).unwrap());
        let at = Timestamp::from_millis(0);
        for (was, is, file, expected) in [
            (None, record(&two), vec![], vec![two.as_str()]),
            (record(&one), record(&two), vec![one.as_str()], vec![two.as_str()]),
            (record(&two), record(&one), vec![two.as_str()], vec![two.as_str()]),
            (record(&one), None, vec![one.as_str()], vec![one.as_str()]),
        ] {
            let content = KeptChange { was, is }.to_line(LEDGER, at) + &end_line("", "an earlier boot");
            let mut restored = document(&file);
            parse(&content, &file).0.restore(&mut restored).unwrap();
            assert_eq!(restored.to_bytes(), document(&expected).to_bytes());
        }
    }

    #[test]
    fn many_versions_of_an_issue_are_kept_as_the_first_and_the_last() {
        let lines: Vec<String> = (0..50).map(|minute| line(minute, &format!(",\"x\":{minute}"))).collect();
        let versions: Vec<Option<&str>> = lines.iter().map(|line| Some(line.as_str())).collect();
        let kept = kept(&versions);
        assert_eq!(kept.issues["a"].versions.len(), MAX_VERSIONS);
        let mut restored = document(&[&lines[0]]);
        kept.restore(&mut restored).unwrap();
        assert_eq!(restored.line(0), lines[49].as_bytes());
    }
}
